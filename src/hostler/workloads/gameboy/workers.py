"""Workers of one machine: processes that sample, each at its own pace, into memory that the learner reads.

Who is slow keeps nobody waiting, who is dead is begun anew; the learner takes what is there.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from hostler.workloads.gameboy import shared
from hostler.workloads.gameboy.advice.advised import advised
from hostler.workloads.gameboy.advice.counts import News
from hostler.workloads.gameboy.advice.settings import Asking
from hostler.workloads.gameboy.batch import Batch, Episode, WrongValue
from hostler.workloads.gameboy.fragments import Fragment, Sampler
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.pictures import Greys
from hostler.workloads.gameboy.policy import Network, player, weights_of
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.seeing import Eyes
from hostler.workloads.gameboy.spent import Spent, clock
from hostler.workloads.gameboy.stillness import Watch

SLOTS = 3
"""Fragments of a worker that may be under way: one that is made, and others that wait while the learner learns."""
LIVES = 20
"""How often a worker is begun anew without having made anything before it is given up."""
ENDS_S = 5.0
STUCK = 1
"""Exit status of a process one of whose machines stands still for ever."""


class NoWorker(RuntimeError):
    """All of them have died too often."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sampled, and by how many."""

    game: Game
    cartridge: Cartridge
    workers: int
    machines: int
    """Of each worker."""
    steps: int
    """Of each machine in a fragment."""
    seed: int
    advice: Asking | None = None
    discount: float = 0.99
    """That of the learner: what advice pays depends on it."""
    version: int = 0
    """Of the policy that it begins with: fragments of an older one would not be learnt from."""
    kept: Path | None = None
    """The folder for checkpoints, which every node has to reach; `None`: there are none."""

    @property
    def features(self) -> int:
        """How many numbers a policy sees of a machine, beside its screen."""
        return Eyes(self.game).width + self.advised

    @property
    def advised(self) -> int:
        """How many of them are advice."""
        return 0 if self.advice is None else self.advice.width(len(self.game.actions))

    def network(self) -> Network:
        """One that sees what there is to see, and presses what there is to press."""
        return Network(self.features, self.game.screen, len(self.game.actions), advised=self.advised)

    def batch(self, seed: int) -> Batch:
        """The machines of one worker, by the seed of its chance. Raises `SpecError` where the token is not there."""
        asked, game = self.advice, self.game
        advice = (
            None
            if asked is None
            else advised(asked, game, self.machines, self.discount, workers=self.workers, seed=seed)
        )
        return Batch(game, self.cartridge, self.machines, advice)


class Source(Protocol):
    """Where fragments come from."""

    def offer(self, network: Network, version: int) -> None:
        """From now on, sample with this policy."""
        ...

    def take(self, timeout_s: float) -> Sequence[Fragment]:
        """What was made meanwhile; none, if nothing comes for so long."""
        ...

    def troubles(self) -> Sequence[str]:
        """What went wrong since this was asked last."""
        ...

    def close(self) -> None:
        """No more of it."""
        ...


class Here:
    """Sampling in the learner's own process: one after the other, the same for the same seed."""

    def __init__(self, plan: Plan) -> None:
        batch = plan.batch(plan.seed)
        self._sampler = Sampler(batch, plan.seed)
        self._watch = Watch(batch.machines, lambda stand: stuck(stand.told(plan.cartridge)))
        self._steps = plan.steps
        self._player: Any = None
        self._version = 0

    def offer(self, network: Network, version: int) -> None:
        """As `Source.offer`."""
        self._player, self._version = player(network), version

    def take(self, timeout_s: float) -> Sequence[Fragment]:
        """As `Source.take`: one is made now."""
        return [self._sampler.fragment(self._player, self._version, self._steps)]

    def troubles(self) -> Sequence[str]:
        """None: what goes wrong is raised."""
        return ()

    def close(self) -> None:
        """Let go of the machines."""
        self._watch.close()
        self._sampler.close()


@dataclass(slots=True)
class _Worker:
    """A process, as its learner sees it."""

    number: int
    process: SpawnProcess
    pipe: Connection
    fragments: shared.Opened
    deaths: int = 0
    """In a row, without a fragment between."""


class _Rest(NamedTuple):
    """What of a fragment does not lie in shared memory."""

    episodes: tuple[Episode, ...]
    pictures: Mapping[int, Greys]
    advice: News | None
    spent: Spent


class Processes:
    """Sampling in processes beside the learner."""

    def __init__(self, plan: Plan, network: Network) -> None:
        self._plan = plan
        self._context = multiprocessing.get_context("spawn")
        self._troubles: list[str] = []
        weights = weights_of(network)
        self._policy = shared.made(shared.weight_shapes(weights), shared.COPIES)
        shapes = shared.fragment_shapes(plan.steps, plan.machines, plan.features, plan.game.screen)
        self._shapes = shapes
        for each in self._policy.copies:  # both, so that the other is whole while one is rewritten
            shared.write(each, weights, plan.version)
        self._workers = [self._begun(number, shared.made(shapes, SLOTS)) for number in range(plan.workers)]

    def offer(self, network: Network, version: int) -> None:
        """As `Source.offer`: workers look before each fragment."""
        shared.publish(self._policy, weights_of(network), version)

    def take(self, timeout_s: float) -> Sequence[Fragment]:
        """As `Source.take`. Raises `NoWorker` where every worker has died again and again, and `WrongValue`."""
        pipes: dict[Any, _Worker] = {each.pipe: each for each in self._workers}
        if not pipes:
            raise NoWorker(f"no worker is left: {'; '.join(self._troubles[-3:])}")
        found = []
        for ready in wait(list(pipes), timeout_s):
            fragment = self._received(pipes[ready])
            if fragment is not None:
                found.append(fragment)
        return found

    def troubles(self) -> Sequence[str]:
        """As `Source.troubles`: workers that died."""
        told, self._troubles = self._troubles, []
        return told

    def close(self) -> None:
        """End the processes, and take back the memory."""
        for each in self._workers:
            each.pipe.close()
        ended([each.process for each in self._workers])
        for each in self._workers:
            each.fragments.close()
        self._workers = []
        self._policy.close()

    @property
    def pids(self) -> Sequence[int]:
        """Processes of the workers that live."""
        return [each.process.pid for each in self._workers if each.process.pid is not None]

    def _begun(self, number: int, fragments: shared.Opened, deaths: int = 0) -> _Worker:
        ours, theirs = self._context.Pipe()
        seed = self._plan.seed * 1_000_003 + number * 1_009 + deaths
        process = self._context.Process(
            target=_work,
            args=(self._plan, seed, theirs, self._policy.block, fragments.block),
            name=f"worker {number}",
            daemon=True,
        )
        process.start()
        theirs.close()  # so that its end is ours
        for slot in range(SLOTS):
            ours.send(slot)
        return _Worker(number, process, ours, fragments, deaths=deaths)

    def _received(self, worker: _Worker) -> Fragment | None:
        try:
            told = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker, _how(worker.process))
            return None
        if isinstance(told, WrongValue):
            raise told  # as if it had been played here: what is learnt from another value is worth nothing
        if isinstance(told, str):
            self._bury(worker, told)
            return None
        slot, version, rest = told
        worker.deaths, begun = 0, clock()
        fragment = shared.copied(shared.fragment_in(worker.fragments.copies[slot], version))
        fragment.episodes, fragment.advice, fragment.spent = rest.episodes, rest.advice, rest.spent
        fragment.pictures = numbered(rest.pictures, worker.number, self._plan.machines)
        fragment.spent.transport += clock() - begun
        with suppress(OSError):  # it is dead: that is seen where something of it is awaited
            worker.pipe.send(slot)
        return fragment

    def _bury(self, worker: _Worker, why: str) -> None:
        """Begin it anew, unless it never lives for long."""
        worker.pipe.close()
        ended([worker.process])
        self._troubles.append(f"worker {worker.number} ended: {why}")
        self._workers.remove(worker)
        if worker.deaths + 1 < LIVES:
            self._workers.append(self._begun(worker.number, worker.fragments, worker.deaths + 1))
            return
        worker.fragments.close()
        self._troubles.append(f"worker {worker.number} is given up: it died {LIVES} times before it made anything")


def stuck(why: str) -> None:
    """The end of a process that cannot go on, from beside what keeps it."""
    print(json.dumps({"trouble": why}), flush=True)
    os._exit(STUCK)


def _told(pipe: Connection, why: str) -> None:
    """The same, of a worker."""
    with suppress(OSError):
        pipe.send(why)
    os._exit(STUCK)


def numbered(pictures: Mapping[int, Greys], worker: int, machines: int) -> Mapping[int, Greys]:
    """By the number that a worker's machine has among all of the training."""
    return {worker * machines + each: picture for each, picture in pictures.items()}


def ended(processes: Sequence[BaseProcess], now: Callable[[], float] = time.monotonic) -> None:
    """Wait for processes that were told to end, `ENDS_S` for all of them together; kill those that do not."""
    for kills in (False, True):
        until = now() + ENDS_S
        for each in processes:
            if kills:
                each.kill()
        for each in processes:
            each.join(max(until - now(), 0))
        processes = [each for each in processes if each.is_alive()]


def _how(process: SpawnProcess) -> str:
    process.join(ENDS_S)
    code = process.exitcode
    if code is None:
        return "it does not say how"
    return f"signal {-code}" if code < 0 else f"status {code}"


def _work(plan: Plan, seed: int, pipe: Connection, policy: shared.Block, fragments: shared.Block) -> None:
    """A worker's life: until its learner is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the learner says when it is over
    torch.set_num_threads(1)
    weights, places = shared.opened(policy), shared.opened(fragments)
    network = plan.network()
    try:
        batch = plan.batch(seed)
        sampler = Sampler(batch, seed)
        Watch(batch.machines, lambda stand: _told(pipe, stand.told(plan.cartridge)))
        while True:
            slot = pipe.recv()
            begun = clock()
            values, version = shared.newest(weights)
            network.load_state_dict({name: torch.from_numpy(each) for name, each in values.items()})
            played = player(network)
            taken = clock() - begun
            made = shared.fragment_in(places.copies[slot], version)
            sampler.fill(made, played, plan.steps)
            made.spent.transport = taken
            pipe.send((slot, version, _Rest(made.episodes, made.pictures, made.advice, made.spent)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the learner is gone
    except WrongValue as error:
        with suppress(OSError):
            pipe.send(error)
    except Exception as error:  # noqa: BLE001 - told, and begun anew
        with suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}")
    os._exit(0)  # at once: whatever still runs here, nobody waits for it
