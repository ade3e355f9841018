"""What virtual work does. It is written in the payload itself, so a job needs nothing beside it to be simulated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.codec import digest
from hostler.model.record import record
from hostler.model.work import JobSpec, ScriptPayload, SweepPayload


@record
class Script:
    """A script that lasts `seconds` and exits 1 with probability `fails`, else 0."""

    seconds: float
    fails: float = 0.0
    power: float | None = None
    """Power (`policy.power`) of the device on which it lasts so long; `None`: equally long anywhere."""
    checkpoint_s: float | None = None
    """How often it saves its work, so that a later life goes on from there; `None`: never."""
    by_model: Mapping[str, float] | None = None
    """How long it lasts on devices of these models, `*`: of all others; `None`: as long on all."""


@record
class Search:
    """A search whose hits are known beforehand."""

    planted: tuple[int, ...]

    def hits(self, start: int, stop: int) -> tuple[dict[str, Any], ...]:
        """Hits in `[start, stop)`."""
        return tuple({"at": at} for at in self.planted if start <= at < stop)


def script_job(name: str, script: Script, **spec: Any) -> JobSpec:
    """A job that runs `script`."""
    numbers = (script.seconds, script.fails, script.power, script.checkpoint_s)
    argv: tuple[str, ...] = ("virtual", *map(repr, numbers))
    if script.by_model is not None:
        argv = (*argv, json.dumps(dict(script.by_model)))
    return JobSpec(name=name, payload=ScriptPayload(schema=1, argv=argv), **spec)


def sweep_job(name: str, start: int, stop: int, planted: Sequence[int] = (), **fields: Any) -> JobSpec:
    """A job that searches `[start, stop)` and should find `planted`; `fields` of the payload or of the spec."""
    own = {key: fields.pop(key) for key in list(fields) if key in SweepPayload.__dataclass_fields__}
    params = {"name": name, "planted": list(planted)}
    payload = SweepPayload(
        schema=1, start=start, stop=stop, worker=("virtual",), params=params, digest=digest(params), **own
    )
    return JobSpec(name=name, payload=payload, **fields)


def script_of(argv: Sequence[str]) -> Script:
    """The script a command stands for; what is not said of it is as usual."""
    _, seconds, fails, *more = argv
    power, checkpoint_s = (None if each == "None" else float(each) for each in (*more, "None", "None")[:2])
    by_model = json.loads(more[2]) if len(more) > 2 else None
    return Script(seconds=float(seconds), fails=float(fails), power=power, checkpoint_s=checkpoint_s, by_model=by_model)


def search_of(params: Any) -> Search:
    """The search that parameters stand for."""
    return Search(planted=tuple(params["planted"]))
