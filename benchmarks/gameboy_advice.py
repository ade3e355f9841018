"""What advice costs a training whose endpoint is dead: CPU-seconds per step, beside the same training without advice.

    python benchmarks/gameboy_advice.py [--quick] [--rounds N]

In one process, an update (2,048 steps of our own game at skip 8, sampled and learnt from) of each kind in turn, round
after round, each round in another order: whatever else the machine does falls on all of them alike. Told is by how much
more CPU than `off` they took, as the median of rounds, and between what 95 of 100 bootstraps of it lie. The policy does
not get any better (its rate is 0): all of them play by chance, and what they emulate costs the same. Kinds:

- `off`: no advice. `off again`: the same once more; how far it is from 0 is what this benchmark cannot tell apart.
- `refused`: nobody listens at the endpoint. `hangs`: somebody does, and says nothing. `answers`: a server of another
  process answers at once, ten calls a second.
"""

from __future__ import annotations

import multiprocessing
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import Bar, command_line, report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.workloads.gameboy.advice import stub

from hostler.workloads.gameboy.homebrew.cartridge import BUSY, cartridge
from hostler.workloads.gameboy.order import keyrooms
from hostler.workloads.gameboy.ppo import Learner
from hostler.workloads.gameboy.rom import insert
from hostler.workloads.gameboy.run import read_run
from hostler.workloads.gameboy.workers import Here, Plan

MACHINES, FRAGMENT, FRAGMENTS = 16, 128, 1
BOOTSTRAPS = 2000
DEAD = ("refused", "hangs")
PROMPT = "You are in room {room_x}, {room_y} of a maze and have found {taken} of 4 keys. Which button?"


@dataclass
class Kind:
    """A training of some kind, and what its updates took."""

    source: Here
    learner: Learner
    seconds: list[float] = field(default_factory=list)
    asked: int = 0

    def update(self) -> None:
        """One more."""
        begun = time.process_time()
        self.source.offer(self.learner.network, self.learner.updates)
        fragments = [each for _ in range(FRAGMENTS) for each in self.source.take(0)]
        self.learner.learn(fragments)
        self.seconds.append(time.process_time() - begun)
        self.asked += sum(each.advice.counts.asked for each in fragments if each.advice is not None)


def main() -> None:
    """Measure, and print."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, help="of one update of each kind (60)")
    asked = parser.parse_args()
    rounds = asked.rounds or (12 if asked.quick else 60)
    torch.set_num_threads(1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answering, server = answered()
        kinds = {
            "off": kind(None),
            "off again": kind(None),
            "refused": kind(f"http://127.0.0.1:{stub.closed_port()}/v1"),
            "hangs": kind(f"http://127.0.0.1:{silent.getsockname()[1]}/v1"),
            "answers": kind(answering),
        }
        measure(kinds, rounds)
        for each in kinds.values():
            each.source.close()
        server.terminate()
        server.join()
    rows = [row(name, each, kinds["off"]) for name, each in kinds.items()]
    more = {each["kind"]: each["more, %"] for each in rows}
    bars = [
        Bar(f"CPU per step with an endpoint that is dead ({name}), more, %", more[name], 2.0, "<=") for name in DEAD
    ]
    report("gameboy_advice", rows, bars, asked.json)


def kind(url: str | None) -> Kind:
    """A training, without advice or with that of an endpoint."""
    game, course = keyrooms(), {"rate": 0.0, "entropy": 0.02}
    advice = None if url is None else section(url)
    run = read_run({"steps": 1, "course": course, **({} if advice is None else {"advice": advice})})
    plan = Plan(game, insert(cartridge(busy=BUSY)), 0, MACHINES, FRAGMENT, seed=1, advice=run.advice)
    return Kind(Here(plan), Learner(plan.network(), run.course, 1))


def section(url: str) -> Mapping[str, Any]:
    """Advice that is seen and paid."""
    return {
        "url": url,
        "model": "any",
        "calls_per_s": 10,
        "timeout_s": 10,
        "of": ["room_x", "room_y", "taken"],
        "prompt": PROMPT,
        "observe": True,
        "shaping": {"weight": 0.5, "cap": 4, "decay_updates": 1_000_000},
    }


def measure(kinds: Mapping[str, Kind], rounds: int) -> None:
    """Rounds of one update each."""
    random = np.random.default_rng(0)
    for _ in range(rounds):
        for name in random.permutation(list(kinds)):
            kinds[name].update()


def row(name: str, each: Kind, off: Kind) -> Mapping[str, Any]:
    """What came of a kind."""
    steps = MACHINES * FRAGMENT * FRAGMENTS
    more = 100 * (np.array(each.seconds) / np.array(off.seconds) - 1)
    low, high = between(more, np.median)
    return {
        "kind": name,
        "updates": len(each.seconds),
        "steps per CPU-s": round(steps / float(np.median(each.seconds))),
        "more, %": round(float(np.median(more)), 2),
        "from": round(low, 2),
        "to": round(high, 2),
        "all together, %": round(100 * (sum(each.seconds) / sum(off.seconds) - 1), 2),
        "asked": each.asked,
    }


def between(values: Any, of: Callable[[Any], Any]) -> tuple[float, float]:
    """Where a figure of these lies in 95 of 100 bootstraps."""
    random = np.random.default_rng(0)
    found = [of(random.choice(values, len(values))) for _ in range(BOOTSTRAPS)]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def answered() -> tuple[str, Any]:
    """The address of a server in a process of its own, and that process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    return ours.recv(), process


def _serve(pipe: Connection) -> None:
    with stub.serving() as server:
        pipe.send(server.url)
        time.sleep(3600)


if __name__ == "__main__":
    main()
