"""A driver for loops: its stages are done by the lab, in the order in which the core asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hostler.core.loop.state import Config
from hostler.core.state import Job
from hostler.model import inputs
from hostler.model.commands import Fit
from hostler.model.events import Event
from hostler.model.inputs import Input
from hostler.model.learning import ConfigSpec, Match, Rating
from hostler.model.work import FailureClass, JobState, StagePayload, WorkKind
from hostler.sim.lab import Lab
from tests.core.builders import Driver, ended, link_up, node
from tests.simulation.loops import ANCHORS, config

NAME = "tiny_2p"
STEPS_MAX = 400


def small(name: str = NAME, **fields: Any) -> ConfigSpec:
    """A config that makes a dataset of two self-play jobs; `fields` of the spec, or `stage__field` of a part."""
    parts: dict[str, dict[str, Any]] = {"export": {"min_games": 40, "fresh_games": 60}}
    for key in [key for key in fields if "__" in key]:
        part, _, what = key.partition("__")
        parts.setdefault(part, {})[what] = fields.pop(key)
    spec = config(name, **fields)
    return replace(spec, **{part: replace(getattr(spec, part), **values) for part, values in parts.items()})


class Loop(Driver):
    """A driver that can do what stages are ordered to do. Fits wait in `fits` until they are answered."""

    def __init__(self, lab: Lab | None = None) -> None:
        super().__init__()
        self.lab = lab or Lab(ANCHORS)
        self.fits: dict[str, Fit] = {}
        self.step_s = 1.0

    def tell(self, *given: Input, after_s: float = 1.0) -> list[Event]:
        """As ever; remembers fits."""
        told = super().tell(*given, after_s=after_s)
        self.fits |= {command.config: command for command in self.commands if isinstance(command, Fit)}
        return told

    def config(self, name: str = NAME) -> Config:
        """What is known of a config."""
        return self.state.configs[name]

    def running(self, stage: WorkKind, name: str = NAME) -> list[Job]:
        """Its jobs of this stage that hold a device."""
        jobs = (self.state.jobs[each] for each, kind in self.config(name).jobs.items() if kind is stage)
        return [job for job in jobs if job.attempt is not None]

    def waiting(self, stage: WorkKind, name: str = NAME) -> list[Job]:
        """Its jobs of this stage that wait for a device."""
        jobs = (self.state.jobs[each] for each, kind in self.config(name).jobs.items() if kind is stage)
        return [job for job in jobs if job.state is JobState.PENDING]

    def end(self, job: Job, result: Any = None, **fields: Any) -> list[Event]:
        """The attempt of a stage's job ends; as the lab has it, unless something else is said."""
        assert job.attempt is not None, f"{job.id} is {job.state}"
        if result is None and not fields:
            status, result = self.lab.report(order_of(job))
            fields = {"exit_code": status}
        return self.tell(ended(job.attempt.id, result=result, **fields), after_s=self.step_s)

    def report(self, job: Job) -> dict[str, Any]:
        """What the lab would report."""
        return self.lab.report(order_of(job))[1]

    def step(self) -> None:
        """Ratings that are asked for come; then one attempt ends, of whatever has held its device longest."""
        self.answer_fits()
        held = [job for job in self.state.jobs.values() if job.attempt is not None]
        oldest = min(
            held, key=lambda job: (job.attempt.leased_at, job.number) if job.attempt else (0.0, 0), default=None
        )
        if oldest is None:
            wake = self.core.wake_at()
            self.tell(inputs.Tick(), after_s=1.0 if wake is None else max(wake - self.now, 0.0) + 0.001)
        elif isinstance(oldest.spec.payload, StagePayload):
            self.end(oldest)
        else:
            assert oldest.attempt is not None
            self.tell(ended(oldest.attempt.id))

    def answer_fits(self) -> None:
        """Tell the ratings that were asked for."""
        while self.fits:
            _, fit = self.fits.popitem()
            self.tell(self.lab.fit(fit))

    def until(self, condition: Callable[[], Any], steps: int = STEPS_MAX) -> None:
        """Go on until something is so."""
        for _ in range(steps):
            if condition():
                return
            self.step()
        raise AssertionError(f"not within {steps} steps: {self.state.configs}")

    def until_running(self, stage: WorkKind, name: str = NAME) -> Job:
        """Go on until a job of this stage has a device; of training, one with a dataset."""

        def found() -> list[Job]:
            jobs = self.running(stage, name)
            return [job for job in jobs if stage is not WorkKind.TRAINING or order_of(job)["dataset"] is not None]

        self.until(found)
        return found()[0]

    def until_trial(self, name: str = NAME) -> str:
        """Go on until a candidate's test has a device; returns the candidate."""
        self.until(lambda: self.test_of(name) is not None)
        trial = self.config(name).trial
        assert trial is not None
        return trial.candidate

    def test_of(self, name: str = NAME) -> Job | None:
        """The evaluation that tests the candidate now."""
        trial = self.config(name).trial
        jobs = self.running(WorkKind.EVALUATION, name)
        return next((job for job in jobs if trial and trial.candidate in order_of(job)["matches"][0]["a"]), None)

    def decide(self, a_wins: bool, name: str = NAME) -> str:
        """Let the candidate win, or lose, everything until that is decided; returns the candidate."""
        candidate = self.until_trial(name)
        while (test := self.test_of(name)) is not None:
            self.end(test, match_result(test, a_wins))
            if self.config(name).trial is not None:
                self.until_trial(name)
        return candidate

    def refused(self, given: Input) -> Exception:
        """The input is refused and leaves no entry; returns the refusal."""
        assert self.tell(given) == []
        assert isinstance(self.answers[0], Exception), self.answers
        return self.answers[0]


def loop(*specs: ConfigSpec, devices: int = 1, lab: Lab | None = None) -> Loop:
    """A driver with one linked node and these configs, by default one."""
    driver = Loop(lab)
    driver.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=node(devices=devices)), link_up())
    driver.tell(inputs.Declare(configs=specs or (small(),)))
    return driver


def order_of(job: Job) -> Any:
    """The order of a stage's job."""
    assert isinstance(job.spec.payload, StagePayload)
    return job.spec.payload.order


def rated(elo: float, half: float, games: int = 100) -> Rating:
    """A rating known to ± `half`."""
    return Rating(elo=elo, low=elo - half, high=elo + half, games=games)


def played(a: str, b: str, wins: Sequence[bool]) -> Match:
    """A match of two players in which `a` wins both games of a group, or none."""
    groups = tuple(((0, 1), (1, 0)) if won else ((1, 0), (0, 1)) for won in wins)
    return Match(a=a, b=b, groups=groups)


def match_result(job: Job, a_wins: bool) -> dict[str, Any]:
    """A report on an evaluation's order in which `a` wins everything, or nothing."""
    group = [[0, 1], [1, 0]] if a_wins else [[1, 0], [0, 1]]
    matches = [{**match, "groups": [group] * match["groups"]} for match in order_of(job)["matches"]]
    games = sum(2 * len(match["groups"]) for match in matches)
    return {"schema": 1, "matches": matches, "games": games}


__all__ = ["ANCHORS", "NAME", "FailureClass", "Loop", "loop", "match_result", "order_of", "played", "rated", "small"]
