"""Python environments of jobs: which one a job has on a node, and those that are not built because that has failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.state import EnvironmentHold, Job, State
from hostler.model import events, inputs
from hostler.model.commands import Setup
from hostler.model.events import Event
from hostler.model.fleet import NodeSpec
from hostler.model.units import duration
from hostler.model.views import BanView
from hostler.model.work import NO_ENVIRONMENT, Payload, ScriptPayload
from hostler.policy import retry
from hostler.policy.fit import Gate, Refusal

Emit: TypeAlias = Callable[[Event], None]
Fold: TypeAlias = Callable[[State, Index, Any], None]

LOCAL = "local"
"""The backend of nodes on the controller's own machine."""
PYTHONS = ("python", "python3")
"""First words of a command that mean any Python."""
PYTHON = "{python}"
"""The first word that stands for the node's interpreter."""
WHY_MOST = 4000


def file_of(payload: Payload, node: NodeSpec) -> str | None:
    """The file that states the environment in which a script runs on a node; `None`: it runs with what is there."""
    if not isinstance(payload, ScriptPayload) or node.pool is not None or payload.python_env == NO_ENVIRONMENT:
        return None
    if payload.python_env is not None:
        return payload.python_env
    return None if payload.environment is None or node.backend == LOCAL else payload.environment.file


def key_of(payload: Payload) -> str | None:
    """What the environment of a script is known by; `None` where it has none."""
    if not isinstance(payload, ScriptPayload) or payload.python_env == NO_ENVIRONMENT:
        return None
    if payload.environment is not None:
        return payload.environment.sha256
    return None if payload.python_env is None else f"{payload.snapshot or payload.cwd}/{payload.python_env}"


def setup_of(payload: Payload, argv: tuple[str, ...], node: NodeSpec) -> Setup | None:
    """What a node does before it starts a script."""
    file = file_of(payload, node)
    if file is not None:
        return Setup(python=node.python, file=file)
    if not isinstance(payload, ScriptPayload) or payload.snapshot is None or payload.python_env == NO_ENVIRONMENT:
        return None
    is_python = argv[0] == node.python or argv[0].rpartition("/")[2].startswith(("python", "pypy"))
    if node.backend == LOCAL or node.pool is not None or not is_python:
        return None
    return Setup(python=node.python, checked_as=payload.snapshot)


def command_of(payload: ScriptPayload, node: NodeSpec) -> tuple[str, ...] | None:
    """The command of a script where a Python is meant that is not its submitter's; `None` elsewhere."""
    word, rest = payload.argv[0], payload.argv[1:]
    if file_of(payload, node) is not None:
        return ("python" if word == PYTHON else word, *rest)
    is_elsewhere = node.backend != LOCAL and node.pool is None
    return (node.python, *rest) if is_elsewhere and word in PYTHONS and "PATH" not in payload.env else None


def concerns(state: State, job: Job, node: NodeSpec) -> bool:
    """Whether `gate` may refuse the job there: a question that is asked for every job and device."""
    payload = job.spec.payload
    if not isinstance(payload, ScriptPayload) or (payload.python_env is None and payload.environment is None):
        return False
    return bool(state.environments.get(node.name)) or (node.pool is not None and payload.python_env is not None)


def gate(state: State, job: Job, node: NodeSpec, now: float) -> Refusal | None:
    """Why the environment of a job keeps it off a node; `None` where it does not."""
    if not concerns(state, job, node):
        return None
    payload = job.spec.payload
    if node.pool is not None:
        assert isinstance(payload, ScriptPayload)
        if payload.python_env == NO_ENVIRONMENT:
            return None
        why = f"{payload.python_env} is not built on clusters; use `setup` of {node.name}, and `--python-env none`"
        return Refusal(gate=Gate.ENVIRONMENT, why=why)
    hold = None if file_of(payload, node) is None else state.environments[node.name].get(key_of(payload) or "")
    if hold is None or hold.until <= now:
        return None
    again = f"it is built again in {duration(hold.until - now)}, or at once by `hostler retry {hold.job}`"
    return Refusal(gate=Gate.ENVIRONMENT, why=f"{_failed(node.name, hold)}; {again}")


def failed(state: State, index: Index, job: Job, ended: inputs.Ended, emit: Emit) -> None:
    """The environment of a job could not be built: nobody's is for a while, there."""
    key, attempt = key_of(job.spec.payload), job.attempt
    if key is None or attempt is None:
        return
    node = state.nodes[state.devices[attempt.device].spec.node].spec
    emit(
        events.EnvironmentHeld(
            node=node.name,
            environment=key,
            file=file_of(job.spec.payload, node) or "its file",
            job=job.id,
            why=(ended.error or "the node did not tell why")[:WHY_MOST].partition("\n")[0],
            until=index.now + retry.ENVIRONMENT_HELD_S,
        )
    )


def bans(state: State, now: float) -> Iterator[BanView]:
    """All environments that are not built somewhere."""
    for node, holds in state.environments.items():
        for hold in holds.values():
            if hold.until > now:
                yield BanView(
                    kind="environment", what=node, of=hold.job, owner="scheduler", why=_with_retry(node, hold),
                    since=hold.since, until=hold.until,
                )  # fmt: skip


def note(state: State, index: Index, event: Event) -> None:
    """A job is tried again: whoever asked for it has mended what was wrong, or wants to know."""
    if not isinstance(event, events.JobRetried) or not state.environments:
        return
    key = key_of(state.jobs[event.job].spec.payload)
    for node, holds in list(state.environments.items()):
        if holds.pop(key or "", None) is not None:
            index.new_work = True
        if not holds:
            del state.environments[node]


def watch(state: State, index: Index) -> None:
    """Have the devices of nodes asked again when holds are over."""
    for node, holds in state.environments.items():
        for hold in holds.values():
            _look_again(index, node, hold.until)


def _environment_held(state: State, index: Index, event: events.EnvironmentHeld) -> None:
    lasting = {key: hold for key, hold in state.environments.get(event.node, {}).items() if hold.until > state.at}
    lasting[event.environment] = EnvironmentHold(
        job=event.job, file=event.file, why=event.why, since=state.at, until=event.until
    )
    state.environments[event.node] = lasting
    _look_again(index, event.node, event.until)


FOLDS: dict[type, Fold] = {events.EnvironmentHeld: _environment_held}


def _look_again(index: Index, node: str, at: float) -> None:
    for name in index.devices_at.get(node, ()):
        index.look_again(name, at)


def _with_retry(node: str, hold: EnvironmentHold) -> str:
    return f"{_failed(node, hold)}; `hostler retry {hold.job}` builds it again"


def _failed(node: str, hold: EnvironmentHold) -> str:
    return f"the environment of {hold.file} could not be built on node {node} for {hold.job} ({hold.why})"
