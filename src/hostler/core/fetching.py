"""What has to come from a node before the end of an attempt counts: files it was asked for, artifacts it tells of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hostler.core.state import Job, State
from hostler.model.events import AttemptEnded
from hostler.model.files import SHA256, Fetch, named_in
from hostler.model.inputs import Ended
from hostler.model.work import ScriptPayload, StagePayload


def needed(state: State, job: Job, ended: Ended, *, failed: bool) -> Fetch | None:
    """What to fetch; `None` where nothing is, and the attempt can be judged at once.

    A stage that was stopped, or failed, tells of artifacts, too, which count.
    """
    payload, attempt = job.spec.payload, job.attempt
    assert attempt is not None
    if job.cancelling is not None:
        return None
    if isinstance(payload, StagePayload) and state.nodes[state.devices[attempt.device].spec.node].spec.apart:
        fresh = told_of(ended.result) - named_in(payload.order) - state.configs[payload.config].segments.keys()
        return Fetch(artifacts=tuple(sorted(fresh))) if fresh else None
    if isinstance(payload, ScriptPayload) and not failed and ended.reason is None:
        if payload.outputs:
            return Fetch(outputs=payload.outputs)
        if payload.snapshot is not None:
            return Fetch(changed_since=payload.snapshot)
    return None


def told(event: AttemptEnded) -> Ended:
    """What the node had told of the end."""
    return Ended(**{each.name: getattr(event, each.name) for each in fields(Ended)})


def told_of(result: Any) -> set[str]:
    """The artifacts that a result tells of: what stands as `sha256` in it."""
    if isinstance(result, Mapping):
        own = result.get("sha256")
        here = {own} if isinstance(own, str) and SHA256.fullmatch(own) else set[str]()
        return here.union(*map(told_of, result.values()))
    return set[str]().union(*map(told_of, result)) if isinstance(result, list | tuple) else set()
