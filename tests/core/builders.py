"""Small worlds for tests of the core: values in one line, and a driver that remembers what the core said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hostler.core import Core, State
from hostler.model import inputs
from hostler.model.codec import adapter, digest, dump_event, load_event
from hostler.model.commands import Command, Keep
from hostler.model.events import Entry, Event
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import Input
from hostler.model.usage import HourRow
from hostler.model.work import DeviceKind, JobSpec, JobState, ScriptPayload, SweepPayload

EventT = TypeVar("EventT")

START = 1_000.0


def script(name: str = "script", *argv: str, require_result: bool = False, **spec: Any) -> JobSpec:
    """A script job; without words it runs `true`."""
    payload = ScriptPayload(schema=1, argv=argv or ("true",), require_result=require_result)
    return JobSpec(name=name, payload=payload, **spec)


def sweep(name: str = "sweep", start: int = 0, stop: int = 1000, **fields: Any) -> JobSpec:
    """A sweep job; `params`, `max_hits`, `min_chunk` … go to the payload, the rest to the spec."""
    own = {key: fields.pop(key) for key in list(fields) if key in SweepPayload.__dataclass_fields__}
    params = own.pop("params", {"of": name})
    worker = own.pop("worker", ("worker",))
    payload = SweepPayload(schema=1, start=start, stop=stop, worker=worker, params=params, digest=digest(params), **own)
    return JobSpec(name=name, payload=payload, **fields)


def node(
    name: str = "n", devices: int = 1, kind: DeviceKind = DeviceKind.CPU, vram_gb: float | None = None
) -> NodeSpec:
    """A node with equal devices."""
    specs = tuple(
        DeviceSpec(id=f"{name}/{kind}{index}", node=name, kind=kind, index=index, vram_gb=vram_gb)
        for index in range(devices)
    )
    return NodeSpec(name=name, backend="test", devices=specs)


def link_up(
    name: str = "n", agent: str = "a", attempts: Sequence[str] = (), chunks: Sequence[str] = (), incarnation: int = 1
) -> inputs.LinkUp:
    """A node's agent answers with its inventory."""
    return inputs.LinkUp(
        node=name, agent=agent, incarnation=incarnation, boot="b", attempts=tuple(attempts), chunks=tuple(chunks)
    )


def ended(attempt: str, **fields: Any) -> inputs.Ended:
    """A process ended; exit status 0 unless something else is said."""
    values: dict[str, Any] = {"exit_code": 0 if "signal" not in fields else None, "started_at": 1.0, "ended_at": 2.0}
    return inputs.Ended(attempt=attempt, **{**values, **fields})


class Driver:
    """A core that is validated after every step, whose entries, events and commands are kept."""

    def __init__(self, core: Core | None = None, now: float = START) -> None:
        self.core = core or Core()
        self.now = now
        self.entries: list[Entry] = []
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.answers: list[Any] = []
        self.hours: list[HourRow] = []

    @property
    def work(self) -> list[Command]:
        """The commands of the last step, without `Keep`: every node is given that when it is connected."""
        return [each for each in self.commands if not isinstance(each, Keep)]

    @property
    def state(self) -> State:
        """The state of the core."""
        return self.core.state

    def tell(self, *given: Input, after_s: float = 1.0) -> list[Event]:
        """Give inputs `after_s` later; returns the events, keeps the step's commands and answers."""
        self.now += after_s
        outcome = self.core.handle(self.now, *given)
        self.core.validate()
        self.entries.extend(outcome.entries)
        self.events = [entry.event for entry in outcome.entries]
        self.commands = list(outcome.commands)
        self.answers = list(outcome.answers)
        self.hours += outcome.hours
        return self.events

    def submit(self, *specs: JobSpec) -> tuple[str, ...]:
        """Submit jobs; returns their ids, raises what the core answered otherwise."""
        self.tell(inputs.Submit(specs=specs))
        if isinstance(self.answers[0], Exception):
            raise self.answers[0]
        ids: tuple[str, ...] = self.answers[0]
        return ids

    def of(self, shape: type[EventT]) -> list[EventT]:
        """Events of one kind in the last step."""
        return [event for event in self.events if isinstance(event, shape)]

    def job_state(self, name: str) -> JobState:
        """Where a job stands."""
        return self.state.jobs[name].state

    def chunk(self, sweep_id: str, nth: int = 0) -> tuple[str, int, int]:
        """The nth lease of a sweep: its chunk, start and stop."""
        name = list(self.state.sweeps[sweep_id].leases)[nth]
        return name, *self.state.sweeps[sweep_id].ledger.leased[name]

    def searched(self, chunk: str, hits: Sequence[dict[str, Any]] = (), **fields: Any) -> inputs.Searched:
        """What the worker of a leased chunk says when it is done."""
        job = self.state.jobs[chunk.rpartition(".")[0]]
        start, stop = self.state.sweeps[job.id].ledger.leased[chunk]
        assert isinstance(job.spec.payload, SweepPayload)
        values: dict[str, Any] = {"digest": job.spec.payload.digest, "start": start, "stop": stop, "elapsed_s": 1.0}
        return inputs.Searched(chunk=chunk, hits=tuple(hits), **{**values, **fields})

    def returned(self, chunk: str, reason: str = "worker_died", **fields: Any) -> inputs.Returned:
        """A chunk comes back with the right digest."""
        payload = self.state.jobs[chunk.rpartition(".")[0]].spec.payload
        assert isinstance(payload, SweepPayload)
        return inputs.Returned(chunk=chunk, reason=reason, digest=payload.digest, **fields)


def fleet(devices: int = 1, **fields: Any) -> Driver:
    """A driver with one linked node `n`."""
    driver = Driver()
    found = inputs.NodeFound(node=node(devices=devices, **fields))
    driver.tell(inputs.Begin(version="test", epoch=1), found, link_up())
    return driver


def through_json(entries: Sequence[Entry]) -> list[Entry]:
    """The entries as a journal gives them back."""
    return [replace(entry, event=load_event(dump_event(entry.event))) for entry in entries]


def replayed(entries: Sequence[Entry], state: State | None = None) -> Core:
    """A core made from journal entries alone, or from a snapshot and what came after it."""
    core = Core(state)
    core.replay(through_json(entries))
    core.validate()
    return core


def snapshot(state: State) -> State:
    """The state, through JSON and back."""
    copy: State = adapter(State).validate_json(adapter(State).dump_json(state))
    return copy
