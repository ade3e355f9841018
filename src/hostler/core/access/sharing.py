"""Whose jobs are whose: what is submitted gets an owner, and who may change the jobs of others is decided here.

A job without an owner was ordered by the controller itself or submitted to an earlier version. It belongs to the user
that the controller runs as.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.naming import find_job
from hostler.core.state import Job, State
from hostler.model import inputs
from hostler.model.access import Holder, Scope
from hostler.model.errors import HostlerError, NotOwner
from hostler.model.events import Event, GroupSubmitted, JobSubmitted
from hostler.model.inputs import Wish

Emit: TypeAlias = Callable[[Event], None]

ACTS: Mapping[type[Wish], str] = {
    inputs.Cancel: "cancel",
    inputs.CancelGroup: "cancel",
    inputs.Retry: "retry",
    inputs.RetryGroup: "retry",
    inputs.SetPriority: "change the priority of",
}
"""Requests that change jobs of their submitter: only the owner may make them, where jobs are not shared."""
OTHERS: frozenset[type[Wish]] = frozenset(
    {
        inputs.Submit,
        inputs.SubmitGroup,
        inputs.RollBack,
        inputs.Drain,
        inputs.CordonNode,
        inputs.ResumeNode,
        inputs.CordonDevice,
        inputs.ResumeDevice,
        inputs.CreateToken,
        inputs.RevokeToken,
        inputs.NoteSecret,
        inputs.SilenceAlerts,
        inputs.UnsilenceAlerts,
        inputs.AcknowledgeAlert,
        inputs.ProbeAlert,
        inputs.PauseConfig,
        inputs.ResumeConfig,
        inputs.Spawn,
        inputs.ReadCopies,
        inputs.CleanDisk,
        inputs.UndoDisk,
    }
)
"""Requests that make new jobs, or concern the fleet, training configs, tokens, secrets, alerts and artifacts."""


def expect_own(state: State, index: Index, asked: inputs.Asked, returning: Collection[Job] = ()) -> None:
    """Raise `NotOwner` where a request changes the job or group of another person, and jobs are not shared.

    `returning` are jobs that have left the state and would come back for the request.
    """
    act = ACTS.get(type(asked.given))
    if act is None or asked.scope.covers(Scope.ADMIN) or is_shared(state, index):
        return
    caller = asked.owner or index.sharing.user
    for name, recorded in _concerned(state, asked.given, returning):
        owner = recorded or index.sharing.user
        if owner != caller:
            raise NotOwner(
                f"{name} belongs to {owner or 'the user of the controller'}, and {caller or asked.who} may not {act} "
                "it; nothing was done. Ask its owner, use a token of the scope admin, or set `shared_jobs: true` under "
                "`api:` in the fleet file"
            )


def may_change(state: State, index: Index, holder: Holder, recorded: str | None) -> bool:
    """Whether a token may cancel, retry and rank the jobs with this recorded owner, as far as owners decide that."""
    if holder.scope.covers(Scope.ADMIN) or is_shared(state, index):
        return True
    return (recorded or index.sharing.user) == (holder.owner or index.sharing.user)


def is_shared(state: State, index: Index) -> bool:
    """Whether each operator may change the jobs of all others.

    Unless the settings state it: while no token that can be used has another owner than the controller's user.
    """
    if index.sharing.shared_jobs is not None:
        return index.sharing.shared_jobs
    live = (token for token in state.access.tokens.values() if token.is_live(index.now))
    return all(token.owner in (None, index.sharing.user) for token in live)


def signed(index: Index, asked: inputs.Asked, emit: Emit) -> Emit:
    """An `emit` that notes the owner of a request with the jobs and groups that it submits."""
    owner = asked.owner or index.sharing.user
    if owner is None:
        return emit

    def note(event: Event) -> None:
        emit(replace(event, owner=owner) if isinstance(event, JobSubmitted | GroupSubmitted) else event)

    return note


def _concerned(state: State, wish: Any, returning: Collection[Job]) -> Iterator[tuple[str, str | None]]:
    """Names and recorded owners of what a request changes; none where there is no such job: that is refused later."""
    if isinstance(wish, inputs.CancelGroup | inputs.RetryGroup):
        group = state.groups.get(wish.group)
        if group is not None:
            yield group.id, group.owner
        return
    for job in returning:
        if wish.job in (job.id, job.spec.key):
            yield job.id, job.owner
            return
    try:
        job = find_job(state, wish.job)
    except HostlerError:  # raised again, with the same words, where the request is taken
        return
    yield job.id, job.owner
