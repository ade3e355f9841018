"""The product's own core as a scheduler of Gavel's rounds: told at each border what happened, and obeyed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from gavel_rounds import ROUND_S, Conditions, Running
from hostler.core import Core
from hostler.model.commands import Command, Launch, Solve, Stop
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import (
    Begin,
    Configure,
    Ended,
    Input,
    Launched,
    LinkUp,
    NodeFound,
    Planned,
    Started,
    Submit,
    Tick,
)
from hostler.model.rules import PlacementRules, Rules
from hostler.model.work import DeviceKind, JobSpec, Resources, ScriptPayload
from hostler.policy import programme

VRAM_GB = {"v100": 16.0, "p100": 16.0, "k80": 12.0}


class ProductCore:
    """One node for each type of GPU, since in Gavel's cluster a job may take any GPUs of one type."""

    def __init__(self, capacity: Mapping[str, int], conditions: Conditions, every_s: float = 3600.0) -> None:
        self.core = Core()
        self.solver = programme.Solver()
        self.restart_s = conditions.restart_s
        self.known: set[int] = set()
        self.places: dict[str, str] = {}
        """Attempt -> type of GPU it runs on."""
        self.began: dict[str, float] = {}
        self.numbers: dict[str, int] = {}
        """Attempt -> number of its job in the list."""
        rules = Rules(placement=PlacementRules(round_s=ROUND_S, plan_every_s=every_s, restart_s=conditions.restart_s))
        self._tell(0.0, Begin(version="bench", epoch=1), Configure(rules=rules))
        for cls, count in capacity.items():
            hello = LinkUp(node=cls, agent=cls, incarnation=1, boot=None, attempts=(), chunks=())
            self._tell(0.0, NodeFound(node=_node(cls, count)), hello)

    def place(self, now: float, running: Mapping[int, Running], arrived_s: float) -> Mapping[int, str]:
        """Tell who has ended and who has come, let the round begin, and see where everybody runs then."""
        over = [attempt for attempt in self.places if self.numbers[attempt] not in running]
        come = [number for number in running if number not in self.known]
        self.known.update(come)
        submit = (Submit(specs=tuple(_spec(number, running[number]) for number in come)),) if come else ()
        # All at once: what is decided at a border is decided knowing everything.
        self._tell(now, *(self._ended(attempt, now) for attempt in over), *submit, Tick())
        return {self.numbers[attempt]: cls for attempt, cls in self.places.items()}

    def _tell(self, now: float, *given: Input) -> None:
        """Tell it, and carry out at once what it wants, and what it wants because of that."""
        outcome = self.core.handle(now, *given)
        refused = [answer for answer in outcome.answers if isinstance(answer, Exception)]
        if refused:
            raise refused[0]
        queue = deque(outcome.commands)
        while queue:
            told = [each for command in _drained(queue) for each in self._obey(now, command)]
            if told:
                queue.extend(self.core.handle(now, *told).commands)

    def _obey(self, now: float, command: Command) -> tuple[Input, ...]:
        match command:
            case Launch(node=node, order=order):
                self.places[order.id], self.began[order.id] = node, now
                self.numbers[order.id] = self._number(order.id)
                return Launched(attempts=(order.id,)), Started(attempt=order.id, pid=1, pid_start=1)
            case Stop(attempt=attempt) if attempt in self.places:
                return (self._ended(attempt, now, stopped=True),)
            case Solve(instance=instance):
                return (Planned(plan=self.solver.solve(instance)),)
        return ()

    def _ended(self, attempt: str, now: float, stopped: bool = False) -> Ended:
        del self.places[attempt], self.numbers[attempt]
        return Ended(
            attempt=attempt,
            started_at=self.began.pop(attempt),
            ended_at=now,
            exit_code=None if stopped else 0,
            signal=15 if stopped else None,
            reason="stopped" if stopped else None,
        )

    def _number(self, attempt: str) -> int:
        return int(self.core.state.jobs[attempt.rpartition(".")[0]].spec.key or "")


def _drained(queue: deque[Command]) -> Iterable[Command]:
    while queue:
        yield queue.popleft()


def _spec(number: int, each: Running) -> JobSpec:
    return JobSpec(
        name=f"{each.job.model} #{number}",
        key=str(number),
        payload=ScriptPayload(schema=1, argv=(each.job.model,)),
        # What has no speed on a type does not fit its memory: a large batch on the K80.
        resources=Resources(device="gpu", gpus=each.job.devices, vram_gb=0.0 if "k80" in each.rates else 14.0),
        expected_s={cls: each.predicted_s / rate for cls, rate in each.rates.items()},
        checkpoints=True,
    )


def _node(cls: str, count: int) -> NodeSpec:
    devices = (
        DeviceSpec(
            id=f"{cls}/cuda{index}", node=cls, kind=DeviceKind.CUDA, index=index, model=cls, vram_gb=VRAM_GB[cls]
        )
        for index in range(count)
    )
    return NodeSpec(name=cls, backend="bench", devices=tuple(devices))
