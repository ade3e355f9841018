"""One way of learning our Game Boy game, measured: the CPU-seconds of all its processes, and the steps made in them.

By hand: `python benchmarks/gameboy_case.py WAY UPDATES`; prints JSON. WAY is one of `WAYS`; each runs in a process of
its own, those of peers with the peers' Python. The environment, the network, the batch and the course are the same.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

SOURCE = str(Path(__file__).resolve().parents[1] / "src")
sys.path.insert(0, SOURCE)
os.environ["PYTHONPATH"] = SOURCE  # of the processes that Ray begins

SKIP = 8
WORKERS, MACHINES = 2, 4
FRAGMENT = 128
BATCH = 2048
EPOCHS, MINIBATCH = 4, 512
HIDDEN = 128
RATE, DISCOUNT, TRACE, CLIP, ENTROPY, GRADIENT = 1e-3, 0.99, 0.95, 0.2, 0.01, 0.5
STORE_BYTES = 100 << 20


@dataclass
class Watch:
    """Steps, and what all processes of this tree spent on them, from the first `begin` on."""

    steps: int = 0
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    def mark(self, steps: int = 0) -> None:
        """So many steps were made since the last mark."""
        self.steps += steps
        self.walls.append(time.perf_counter())
        self.cpus.append(tree_cpu_s())

    def told(self) -> dict[str, float]:
        """Between the first mark and the last."""
        return {
            "steps": self.steps,
            "wall_s": self.walls[-1] - self.walls[0],
            "cpu_s": self.cpus[-1] - self.cpus[0],
        }


def tree_cpu_s() -> float:
    """Of this process and all that came out of it."""
    own = psutil.Process()
    found = 0.0
    for process in [own, *own.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found += times.user + times.system
    return found


LIGHT = os.environ.get("LIGHT") == "1"


def played(light: bool = LIGHT) -> tuple[Any, Any]:
    """Our game as it is measured, and its cartridge, which has as much to do in a frame as a usual game.

    With `light` (LIGHT=1) it has nothing to do: four times as many frames, so that what is around it shows more.
    """
    from hostler.workloads.gameboy.homebrew.cartridge import cartridge
    from hostler.workloads.gameboy.order import keyrooms
    from hostler.workloads.gameboy.rom import insert

    return replace(keyrooms(), skip=SKIP), insert(cartridge(busy=0) if light else cartridge())


def ours(updates: int, watch: Watch, *, workers: int, on_ray: bool = False) -> None:
    """Hostler: sampling and learning."""
    from hostler.workloads.gameboy.run import read_run
    from hostler.workloads.gameboy.training import Training

    game, cart = played()
    asked = {
        "steps": (updates + 1) * BATCH,
        "workers": workers,
        "envs_per_worker": MACHINES if workers else WORKERS * MACHINES,
        "batch_steps": BATCH,
        "fragment_steps": FRAGMENT,
        "course": {
            "rate": RATE, "discount": DISCOUNT, "trace": TRACE, "clip": CLIP, "entropy": ENTROPY,
            "gradient": GRADIENT, "epochs": EPOCHS, "minibatch": MINIBATCH,
        },
    }  # fmt: skip
    made = [0]

    def told(each: Any) -> None:
        if "steps" in each:
            watch.mark(each["steps"] - made[0] if watch.walls else 0)
            made[0] = each["steps"]

    run = read_run({**asked, "ray": {"strategy": "SPREAD"}} if on_ray else asked)
    Training(run, game, cart, told=told).run()


def sampled(fragments: int, watch: Watch, *, way: str) -> None:
    """Hostler: sampling alone."""
    from hostler.workloads.gameboy.policy import Network
    from hostler.workloads.gameboy.seeing import Eyes
    from hostler.workloads.gameboy.workers import Here, Plan, Processes

    game, cart = played()
    network = Network(Eyes(game).width, game.screen, len(game.actions))
    plan = Plan(game=game, cartridge=cart, workers=WORKERS, machines=MACHINES, steps=FRAGMENT, seed=1)
    if way == "ray":
        from hostler.workloads.gameboy.rays import Actors

        source: Any = Actors(plan, network)
    else:
        source = Processes(plan, network) if way == "processes" else Here(plan)
    source.offer(network, 1)
    try:
        first = 4 * WORKERS
        while first > 0:
            first -= len(source.take(10.0))
        watch.mark()
        left = fragments
        while left > 0:
            taken = source.take(10.0)
            left -= len(taken)
            watch.mark(sum(each.steps for each in taken))
    finally:
        source.close()


def apart(fragments: int, watch: Watch) -> None:
    """As many processes as there are workers, each of which keeps what it samples: nothing is brought anywhere."""
    context = multiprocessing.get_context("spawn")
    ready, go, done = (context.Barrier(WORKERS + 1) for _ in range(3))
    each = fragments // WORKERS
    workers = [context.Process(target=_keeps, args=(each, ready, go, done, LIGHT), daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    ready.wait(120)
    watch.mark()
    go.wait(120)
    done.wait(1200)
    watch.mark(each * WORKERS * FRAGMENT * MACHINES)
    for worker in workers:
        worker.terminate()
        worker.join()


def _keeps(fragments: int, ready: Any, go: Any, done: Any, light: bool) -> None:
    import torch

    from hostler.workloads.gameboy.batch import Batch
    from hostler.workloads.gameboy.fragments import Sampler
    from hostler.workloads.gameboy.policy import Network, player
    from hostler.workloads.gameboy.seeing import Eyes

    torch.set_num_threads(1)
    game, cart = played(light)
    policy = player(Network(Eyes(game).width, game.screen, len(game.actions)))
    sampler = Sampler(Batch(game, cart, MACHINES), seed=1)
    for _ in range(4):
        sampler.fragment(policy, 0, FRAGMENT)
    ready.wait()
    go.wait()
    for _ in range(fragments):
        sampler.fragment(policy, 0, FRAGMENT)
    done.wait()
    time.sleep(60)  # until its time was read


def flat_env(*_: Any) -> Any:
    """Our environment as peers take it: one box of values."""
    import gymnasium

    from hostler.workloads.gameboy.env import GameBoyEnv

    class Values(gymnasium.ObservationWrapper):
        def __init__(self) -> None:
            super().__init__(GameBoyEnv(*played()))
            whole: Any = self.env.observation_space
            self.observation_space = whole["values"]

        def observation(self, seen: Any) -> Any:
            return seen["values"]

    return Values()


def sb3(updates: int, watch: Watch) -> None:
    """Stable-Baselines3 with a process for each environment."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import SubprocVecEnv

    torch.set_num_threads(1)
    envs = SubprocVecEnv([flat_env] * (WORKERS * MACHINES), start_method="spawn")

    class Marks(BaseCallback):  # type: ignore[misc]  # it has no types
        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            # The first update is warmed up in; the last one's end is marked below.
            if self.num_timesteps:
                watch.mark(BATCH if watch.walls else 0)

    model = PPO(
        "MlpPolicy", envs, learning_rate=RATE, n_steps=BATCH // (WORKERS * MACHINES), batch_size=MINIBATCH,
        n_epochs=EPOCHS, gamma=DISCOUNT, gae_lambda=TRACE, clip_range=CLIP, ent_coef=ENTROPY, max_grad_norm=GRADIENT,
        policy_kwargs={"net_arch": [HIDDEN, HIDDEN], "activation_fn": torch.nn.Tanh}, device="cpu",
    )  # fmt: skip
    model.learn((updates + 1) * BATCH, callback=Marks())
    watch.mark(BATCH)
    envs.close()


def rllib(updates: int, watch: Watch) -> None:
    """RLlib, its new API stack, with env runners as actors."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.tune.registry import register_env

    with local_ray():
        register_env("keyrooms", flat_env)
        config = (
            PPOConfig()
            .environment("keyrooms")
            .env_runners(
                num_env_runners=WORKERS, num_envs_per_env_runner=MACHINES, rollout_fragment_length=BATCH // 8,
                num_cpus_per_env_runner=1,
            )
            .learners(num_learners=0)
            .training(
                lr=RATE, gamma=DISCOUNT, lambda_=TRACE, clip_param=CLIP, entropy_coeff=ENTROPY, grad_clip=GRADIENT,
                train_batch_size_per_learner=BATCH, minibatch_size=MINIBATCH, num_epochs=EPOCHS,
            )
            .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[HIDDEN, HIDDEN], fcnet_activation="tanh"))
            .resources(num_cpus_for_main_process=0)
        )  # fmt: skip
        algorithm = config.build_algo()
        algorithm.train()
        watch.mark()
        for _ in range(updates):
            result = algorithm.train()
            watch.mark(int(result["env_runners"]["num_env_steps_sampled"]))
        algorithm.stop()


@contextmanager
def local_ray() -> Iterator[None]:
    """A cluster of this machine, as small as may be."""
    import ray

    ray.init(num_cpus=WORKERS, object_store_memory=STORE_BYTES, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def with_ray(way: Callable[[int, Watch], None], updates: int, watch: Watch) -> None:
    """The same on such a cluster."""
    with local_ray():
        way(updates, watch)


WAYS: dict[str, Callable[[int, Watch], None]] = {
    "here": partial(ours, workers=0),
    "processes": partial(ours, workers=WORKERS),
    "ray": partial(with_ray, partial(ours, workers=WORKERS, on_ray=True)),
    "sample-apart": apart,
    "sample-here": partial(sampled, way="here"),
    "sample-processes": partial(sampled, way="processes"),
    "sample-ray": partial(with_ray, partial(sampled, way="ray")),
    "sb3": sb3,
    "rllib": rllib,
}


def main() -> None:
    """One way, so many updates (of `sample-`: fragments)."""
    watch = Watch()
    WAYS[sys.argv[1]](int(sys.argv[2]), watch)
    print(json.dumps(watch.told()))


if __name__ == "__main__":
    main()
