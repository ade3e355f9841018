"""Learns a game: takes what is sampled, learns from it, hands out what was learnt, keeps what it takes to go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

import torch

from hostler.workloads.gameboy.advice.report import Report
from hostler.workloads.gameboy.advice.settings import check
from hostler.workloads.gameboy.checkpoints import Checkpoints
from hostler.workloads.gameboy.fragments import Fragment
from hostler.workloads.gameboy.game import MICRO, Game
from hostler.workloads.gameboy.pictures import png
from hostler.workloads.gameboy.policy import Network
from hostler.workloads.gameboy.ppo import Learner, Update
from hostler.workloads.gameboy.progress import Progress
from hostler.workloads.gameboy.rewards import Shares
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.room import cpus, crowded
from hostler.workloads.gameboy.run import Run, Spread
from hostler.workloads.gameboy.shown import NUMBER_MAX, PICTURES_TOLD
from hostler.workloads.gameboy.strict import SpecError
from hostler.workloads.gameboy.workers import Here, Plan, Processes, Source

SCHEMA = 1
"""Of what is told: docs/reference/rl.md."""
LISTENS_S = 1.0
"""So often it is looked whether it is to end."""
PATIENCE_S = 60.0
"""Without a fragment for so long, people are told, and it is waited on."""


class Diverged(RuntimeError):
    """The network is of numbers no more; its checkpoints are from before."""


class Training:
    """One training, from where its last checkpoint left it."""

    def __init__(
        self,
        run: Run,
        game: Game,
        cartridge: Cartridge,
        checkpoints: Checkpoints | None = None,
        source: Callable[[Plan, Network, Spread | None], Source] | None = None,
        told: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        self.run_asked = run
        self.game = run.game(game)
        if run.advice is not None:
            check(run.advice, self.game)
        fault = None if run.ray is not None or run.crowded else crowded(run.workers, cpus())
        if fault is not None:
            raise SpecError(fault)
        torch.set_num_threads(run.threads)
        torch.manual_seed(run.seed)
        self._cartridge = cartridge
        self._checkpoints = checkpoints
        self.learner = Learner(self._plan(0).network(), run.course, run.seed)
        self.progress = Progress()
        self._advice = None if run.advice is None else Report(run.advice)
        others = () if self._advice is None else self._advice.components
        components = tuple(each.name for each in game.reward.components)
        self.shares = Shares((*components, *others), game.reward.alarm_share)
        self._source = source or _source
        self._told = told
        self._is_ended = False
        self._pictures: dict[int, str] = {}
        if checkpoints is not None:
            self._go_on(checkpoints)

    def run(self) -> Progress:
        """Until it has made its steps, or came to as many places as it was to."""
        if self._checkpoints is not None:
            self._checkpoints.prove()
        source = self._source(self._plan(self.learner.updates), self.learner.network, self.run_asked.ray)
        try:
            while not (self._is_ended or self.is_over):
                self._update(source)
            self._keep()  # first of all: whoever asked it to end may not wait for workers
        finally:
            source.close()
        return self.progress

    @property
    def is_over(self) -> bool:
        """Whether it has made its steps, or came to as many places as it was to."""
        wanted, found = self.run_asked.target_places, self.progress.mean_places
        return self.progress.steps >= self.run_asked.steps or (
            wanted is not None and found is not None and found >= wanted
        )

    def end(self) -> None:
        """Have `run` end soon, with a checkpoint."""
        self._is_ended = True

    def _update(self, source: Source) -> None:
        begun, self._pictures = time.monotonic(), {}
        source.offer(self.learner.network, self.learner.updates)
        fragments = self._collected(source)
        if self._is_ended:
            return
        learning = time.process_time()
        update = self._learnt(fragments)
        self.progress.spent.learn += time.process_time() - learning
        self.progress.seconds += time.monotonic() - begun
        self._tell(update, source)
        if self.learner.updates % self.run_asked.checkpoint_updates == 0:
            self._keep()

    def _learnt(self, fragments: Sequence[Fragment]) -> Update:
        update = self.learner.learn(fragments)
        if not self.learner.is_sound:
            raise Diverged(
                f"update {self.learner.updates} has left weights that are no numbers (loss {update.loss:g}): lower "
                "`rate` in training.course, or what components are worth; the checkpoints are from before"
            )
        return update

    def _collected(self, source: Source) -> list[Fragment]:
        """As many steps as an update wants, of whoever has made them."""
        found: list[Fragment] = []
        heard = time.monotonic()
        while not self._is_ended and sum(each.steps for each in found) < self.run_asked.batch_steps:
            taken = source.take(LISTENS_S)
            if taken:
                heard = time.monotonic()
            elif time.monotonic() - heard >= PATIENCE_S:
                self._told({"trouble": f"no worker has made anything for {PATIENCE_S:.0f} s"})
                heard = time.monotonic()
            for each in taken:
                self._count(each)
                if self.learner.updates - each.version <= self.run_asked.stale_updates:
                    found.append(each)
                else:
                    self.progress.stale += each.steps
        return found

    def _count(self, fragment: Fragment) -> None:
        self.progress.steps += fragment.steps
        self.progress.spent.add(fragment.spent)
        if len(self._pictures) < PICTURES_TOLD:
            self._pictures |= {number: png(picture) for number, picture in fragment.pictures.items()}
        self.progress.add(self.shares.names, fragment.episodes)
        for each in fragment.episodes:
            self.shares.add(each.amounts)
        if self._advice is not None and fragment.advice is not None:
            self._advice.add(fragment.advice)
            self.progress.advice.add(fragment.advice.counts)
            self.progress.spent.advice += fragment.advice.counts.cpu_s

    def _tell(self, update: Update, source: Source) -> None:
        for trouble in source.troubles():
            self._told({"trouble": trouble})
        advice = self._advice
        self._told(
            {
                "rl": SCHEMA,
                "at": time.time(),
                "of": self.run_asked.steps,
                "envs": max(self.run_asked.workers, 1) * self.run_asked.envs_per_worker,
                "steps": self.progress.steps,
                "updates": self.learner.updates,
                "episodes": self.progress.episodes,
                "places": self.progress.mean_places,
                "reward": self.progress.mean_reward,
                "seconds": self.progress.seconds,
                "spent": asdict(self.progress.spent),
                "parts": _parts(self.progress.parts),
                "map": [[name, self.game.values[name].below] for name in self.game.map],
                "explored": self.progress.places,
                "pictures": self._pictures,
                "update": {name: each if _is_told(each) else None for name, each in asdict(update).items()},
                "shares": self.shares.shares,
                "alarms": (*self.shares.alarms, *(() if advice is None else advice.alarms)),
                "advice": None if advice is None else advice.line(self.progress.advice, self.learner.updates),
            }
        )

    def _plan(self, updates: int) -> Plan:
        asked = self.run_asked
        return Plan(
            game=self.game,
            cartridge=self._cartridge,
            workers=asked.workers,
            machines=asked.envs_per_worker,
            steps=asked.fragment_steps,
            seed=asked.seed + updates,
            advice=asked.advice,
            discount=asked.course.discount,
            version=updates,
            kept=None if self._checkpoints is None else self._checkpoints.folder,
        )

    def _keep(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.keep(self.learner, self.progress)

    def _go_on(self, checkpoints: Checkpoints) -> None:
        progress = checkpoints.take_up(self.learner)
        if progress is not None:
            self.progress = progress
            self.shares.paid = [progress.moved.get(name, 0) for name in self.shares.names]
        if checkpoints.changed:
            self._told({"note": f"it goes on with what is otherwise since: {'; '.join(checkpoints.changed)}"})
        if checkpoints.damaged:
            self._told({"trouble": f"checkpoints that are damaged were passed over: {', '.join(checkpoints.damaged)}"})


def _parts(paid: Mapping[str, int]) -> Mapping[str, float]:
    """What is too large to be shown is left out: nobody would read the line."""
    return {name: each / MICRO for name, each in paid.items() if abs(each) <= NUMBER_MAX * MICRO}


def _is_told(number: float | None) -> bool:
    """JSON has no name for what is no number, and a line with one is read by nobody."""
    return number is not None and isfinite(number)


def _source(plan: Plan, network: Network, spread: Spread | None) -> Source:
    if spread is None:
        return Processes(plan, network) if plan.workers else Here(plan)
    from hostler.workloads.gameboy.rays import actors  # Ray lives on its cluster: others learn without it

    return actors(plan, network, spread)
