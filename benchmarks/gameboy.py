"""Reinforcement learning on Game Boy games: the environment, the way of fragments, sampling with learning, and peers.

    python benchmarks/gameboy.py [--quick] [--json FILE]

Our own cartridge, with as much to do in a frame as a usual game; 2 workers of 4 machines, 8 frames a step, batches of
2,048 steps, a network of 2 x 128. Peers play the same environment with the same network, batch and course. Rates are
per CPU-second of all processes of a way, learner included, so that a machine shared with others tells the same. Ways
take turns. Needs the extras `rl` and `ray`; the peers make an environment of their own (`requirements-peers-rl.txt`).
"""

import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import peers_env
from common import Bar, Row, arguments, report
from gameboy_case import MACHINES, WORKERS, played
from hostler.workloads.gameboy.batch import Batch
from hostler.workloads.gameboy.homebrew.cartridge import ROOMS, cartridge
from hostler.workloads.gameboy.machine import Machine
from hostler.workloads.gameboy.order import keyrooms
from hostler.workloads.gameboy.rom import insert
from hostler.workloads.gameboy.run import read_run
from hostler.workloads.gameboy.training import Training

SKIPS = (24, 8, 4)
CASE = Path(__file__).resolve().with_name("gameboy_case.py")
PEERS = ("sb3", "rllib")
WORDS = {
    "here": "Hostler, in one process",
    "apart": "2 processes, nothing brought anywhere",
    "processes": "Hostler, 2 processes",
    "ray": "Hostler, 2 Ray actors",
    "sb3": "Stable-Baselines3, SubprocVecEnv",
    "rllib": "RLlib, new API stack",
}
WHOLE = ("here", "processes", "ray", "sb3", "rllib")
SEEDS = (1, 2, 3)
LEARNING = {"envs_per_worker": 16, "batch_steps": 2048, "course": {"entropy": 0.02}, "steps": 400_000}
SEED_STEPS = 25_000 / 48
"""Steps a second per CPU that the document which asked for this had promised."""


def main() -> None:
    """Measure, print, exit 1 if a bar is missed."""
    options = arguments(__doc__)
    rounds = 1 if options.quick else 3
    environment = list(_environments(rounds, 2_000 if options.quick else 16_000))
    sampling = list(_sampling(rounds, 24 if options.quick else 96))
    whole = list(_whole(rounds, 2 if options.quick else 8))
    learning = list(_learning(SEEDS[:1] if options.quick else SEEDS))
    refusal = _refusal()
    bars = [*_bars(environment, sampling, whole, learning, refusal)]
    report("gameboy", [*environment, *sampling, *whole, *learning, *refusal], bars, options.json)
    sys.exit(1 if any(bar.met is False for bar in bars) else 0)


def _environments(rounds: int, frames: int) -> Iterator[Row]:
    """Frames per CPU-second, ours and bare PyBoy's, in turns.

    Bare PyBoy plays episodes of the same length: it loads the state that they begin in as often, which takes it as long
    as a hundred frames. How it does with no episodes at all is told beside it.
    """
    game, cart = played()
    for skip in SKIPS:
        changed = replace(game, skip=skip)
        batch, bare = Batch(changed, cart, WORKERS * MACHINES), Machine(changed, cart)
        batch.reset()
        actions = np.random.default_rng(1).integers(0, len(game.actions), (4096, WORKERS * MACHINES))
        steps = frames // skip
        each_one = steps * MACHINES * WORKERS
        rounds_of = [
            (
                _batched(batch, actions, steps),
                _bare(bare, skip, each_one, game.episode_steps),
                _bare(bare, skip, each_one),
            )
            for _ in range(2 * rounds + 1)
        ]
        batch.close()
        bare.close()
        ours, theirs, endless = (statistics.median(each) for each in zip(*rounds_of, strict=True))
        yield {
            "frames a step": skip,
            "environment, frames per CPU s": each_one * skip / ours,
            "bare PyBoy, frames per CPU s": each_one * skip / theirs,
            "share": statistics.median(b / a for a, b, _ in rounds_of),
            "bare PyBoy, one endless episode": each_one * skip / endless,
            "share of that": statistics.median(c / a for a, _, c in rounds_of),
        }


def _batched(batch: Batch, actions: Any, steps: int) -> float:
    begun = time.process_time()
    for step in range(steps):
        batch.step(actions[step % len(actions)])
    return time.process_time() - begun


def _bare(machine: Machine, skip: int, steps: int, episode: int | None = None) -> float:
    """The emulator with no button, nothing drawn and nothing read; after each `episode` steps, from its first state."""
    emulator, first = machine._pyboy, io.BytesIO(machine._start.getvalue())
    begun = time.process_time()
    for step in range(1, steps + 1):
        emulator.tick(skip, False, False)
        if episode is not None and step % episode == 0:
            first.seek(0)
            emulator.load_state(first)
    return time.process_time() - begun


def _sampling(rounds: int, fragments: int) -> Iterator[Row]:
    ways = ("sample-here", "sample-apart", "sample-processes", "sample-ray")
    for way, rates in _in_turns(ways, rounds, fragments).items():
        yield {"sampling": WORDS[way.removeprefix("sample-")], "steps per CPU s": statistics.median(rates)}


def _whole(rounds: int, updates: int) -> Iterator[Row]:
    usual = _in_turns(WHOLE, rounds, updates)
    light = _in_turns(WHOLE, rounds, updates, light=True)
    for way in WHOLE:
        yield {
            "sampling and learning": WORDS[way],
            "steps per CPU s": statistics.median(usual[way]),
            "idle cartridge, steps per CPU s": statistics.median(light[way]),
        }


def _in_turns(ways: Sequence[str], rounds: int, updates: int, *, light: bool = False) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            told = _case(way, updates, light=light)
            found[way].append(told["steps"] / told["cpu_s"])
    return found


def _case(way: str, updates: int, *, light: bool) -> dict[str, float]:
    python = peers_env.ensure("peers-rl") if way in PEERS else Path(sys.executable)
    print(f"{way}: {updates}", file=sys.stderr)
    environment = {**os.environ, "LIGHT": "1" if light else "0"}
    done = subprocess.run(
        [python, CASE, way, str(updates)], stdout=subprocess.PIPE, text=True, check=True, timeout=1800, env=environment
    )
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def _learning(seeds: Sequence[int]) -> Iterator[Row]:
    """From chance to nine rooms of ten; the cartridge has nothing to do between frames, as in the test."""
    game, cart = keyrooms(), insert(cartridge(busy=0))
    for seed in seeds:
        begun = time.process_time()
        progress = Training(read_run({**LEARNING, "seed": seed, "target_places": 0.9 * ROOMS}), game, cart).run()
        yield {
            "learning, seed": seed,
            "rooms of 16": progress.mean_places,
            "steps": progress.steps,
            "CPU s": time.process_time() - begun,
        }


def _refusal() -> list[Row]:
    """Until a plan that can never fit is refused, on a cluster of a head and three nodes."""
    script = (
        "import json,sys,time; sys.path[:0]=%r; import ray; from ray.cluster_utils import Cluster\n"
        "from gameboy_case import *; from hostler.workloads.gameboy.rays import NoRoom; import gameboy_case\n"
        "c=Cluster(initialize_head=True,head_node_args={'num_cpus':0,'object_store_memory':STORE_BYTES})\n"
        "[c.add_node(num_cpus=1,object_store_memory=STORE_BYTES) for _ in range(3)]\n"
        "ray.init(address=c.address,log_to_driver=False); t=time.perf_counter()\n"
        "try: ours(1,Watch(),workers=84,on_ray=True)\n"
        "except NoRoom as e: print(json.dumps([time.perf_counter()-t,str(e)]))\n"
        "ray.shutdown(); c.shutdown()"
    ) % [str(CASE.parent), str(CASE.parents[1] / "src")]
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    seconds, words = json.loads(done.stdout.splitlines()[-1])
    print(words, file=sys.stderr)
    return [{"refused": "84 workers on 3 CPUs", "s": seconds}]


def _bars(
    environment: Sequence[Row],
    sampling: Sequence[Row],
    whole: Sequence[Row],
    learning: Sequence[Row],
    refusal: Sequence[Row],
) -> Iterator[Bar]:
    for row in environment:
        yield Bar(
            f"skip {row['frames a step']}: frames per CPU-second, share of bare PyBoy's", row["share"], 0.95, ">="
        )
    _, apart, processes, ray = (row["steps per CPU s"] for row in sampling)
    yield Bar("2 processes, skip 8: CPU per step above that of 2 that bring nothing", apart / processes - 1, 0.05, "<")
    yield Bar("2 Ray actors, fragments of 128: the same", apart / ray - 1, 0.15, "<")
    rates = {row["sampling and learning"]: row["steps per CPU s"] for row in whole}
    own = rates[WORDS["processes"]]
    yield Bar("end to end: relative to Stable-Baselines3", own / rates[WORDS["sb3"]], 1.5, ">=")
    yield Bar("end to end: relative to RLlib", own / rates[WORDS["rllib"]], 4.0, ">=", _at_most(environment, rates))
    light = {row["sampling and learning"]: row["idle cartridge, steps per CPU s"] for row in whole}
    for peer, least in (("sb3", 1.5), ("rllib", 4.0)):
        rate = light[WORDS["processes"]] / light[WORDS[peer]]
        yield Bar(f"end to end, idle cartridge: relative to {WORDS[peer].split(',')[0]}", rate, least, ">=")
    yield Bar("end to end: steps per CPU-second", own, 1000.0, ">=", f"the document asked for {SEED_STEPS:.0f}")
    yield Bar(
        "learning: CPU-seconds to 14.4 of 16 rooms, slowest seed", max(row["CPU s"] for row in learning), 60.0, "<"
    )
    yield Bar("learning: rooms, worst seed", min(row["rooms of 16"] for row in learning), 0.9 * ROOMS, ">=")
    yield Bar("a plan that can never fit: seconds until it is refused", refusal[0]["s"], 5.0, "<")


def _at_most(environment: Sequence[Row], rates: dict[str, float]) -> str:
    """What it would be if all but the emulator cost nothing."""
    emulator = next(row["bare PyBoy, frames per CPU s"] / 8 for row in environment if row["frames a step"] == 8)
    return f"bare PyBoy, never seen and never learnt from, would be {emulator / rates[WORDS['rllib']]:.3g}"


if __name__ == "__main__":
    main()
