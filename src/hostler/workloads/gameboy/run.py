"""What a training is asked for: how many sample, how much is learnt at once, when it is over, what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from hostler.workloads.gameboy.advice.settings import Asking, read_advice
from hostler.workloads.gameboy.course import Course
from hostler.workloads.gameboy.game import Game, check_amounts
from hostler.workloads.gameboy.shown import ENVS_MAX
from hostler.workloads.gameboy.strict import SpecError, fields

ALIASES = {
    "RAY_WORKERS": "workers",
    "ENVS_PER_WORKER": "envs_per_worker",
    "EPISODE_LENGTH": "episode_steps",
    "BATCH_SIZE": "batch_steps",
}
"""Variables of the environment that people know, and what they set here."""


Strategy: TypeAlias = Literal["SPREAD", "STRICT_SPREAD"]
STRATEGIES = ("SPREAD", "STRICT_SPREAD")


@dataclass(frozen=True, slots=True)
class Spread:
    """How workers lie on the nodes of a Ray cluster."""

    address: str = "auto"
    """Of the cluster, as `ray.init` takes it."""
    strategy: Strategy = "SPREAD"
    """`STRICT_SPREAD`: no two on one node."""
    cpus: float = 1.0
    """Of each worker."""
    room_s: float = 60.0
    """How long it is waited for room that there is, and others have."""


@dataclass(frozen=True, slots=True)
class Run:
    """A training."""

    steps: int
    """Of all environments together, in all."""
    workers: int = 0
    """Processes that sample; 0: the learner does it itself, and the same seed gives the same policy."""
    envs_per_worker: int = 8
    batch_steps: int = 4096
    """Steps of an update, at least: it is made once so many have come."""
    fragment_steps: int = 128
    """Of each environment, between two looks for a newer policy."""
    episode_steps: int | None = None
    """An episode that is not over by then is cut off; `None`: as the game has it."""
    stale_updates: int = 8
    """A fragment of a policy that was updated more often since then is not learnt from."""
    checkpoint_updates: int = 20
    """Between two checkpoints."""
    seed: int = 0
    threads: int = 1
    """That learn. More than there are free cores wait for each other, and learning takes many times as long."""
    target_places: float | None = None
    """It is over as soon as the last episodes came to that many places, on average."""
    course: Course = field(default_factory=Course)
    crowded: bool = False
    """There may be more workers on this machine than CPUs for them."""
    ray: Spread | None = None
    """Workers are actors on the nodes of a Ray cluster; `None`: they are processes of this machine."""
    advice: Asking | None = None
    """By a language model; `None`: there is none."""

    def game(self, game: Game) -> Game:
        """The game, with what this training has otherwise. Raises `SpecError` where it cannot be played like that."""
        if self.episode_steps is None:
            return game
        changed = replace(game, episode_steps=self.episode_steps)
        check_amounts(changed)
        return changed


def read_run(content: object, environment: Mapping[str, str] | None = None) -> Run:
    """A training from its mapping; variables of `ALIASES` go before what it says. Raises `SpecError`."""
    variables = _aliased(environment or {})
    named = {key: variable for variable, key in ALIASES.items() if key in variables}
    with fields(_before(content, variables), "training", named) as found:
        run = Run(
            steps=found.whole("steps", least=1, most=10**13),
            workers=found.whole("workers", 0, most=100_000),
            envs_per_worker=found.whole("envs_per_worker", 8, least=1, most=4096),
            batch_steps=found.whole("batch_steps", 4096, least=1),
            fragment_steps=found.whole("fragment_steps", 128, least=1, most=65_536),
            episode_steps=found.whole("episode_steps", None, least=1),
            stale_updates=found.whole("stale_updates", 8),
            checkpoint_updates=found.whole("checkpoint_updates", 20, least=1),
            seed=found.whole("seed", 0),
            threads=found.whole("threads", 1, least=1, most=1024),
            target_places=found.number("target_places", None, least=0),
            course=_course(found.take("course", {})),
            crowded=found.flag("crowded", False),
            ray=None if (spread := found.take("ray", None)) is None else _spread(spread),
            advice=None if (advice := found.take("advice", None)) is None else read_advice(advice),
        )
        envs = run.workers * run.envs_per_worker
        if envs > ENVS_MAX:
            raise SpecError(
                f"{found.at('workers')} × {found.at('envs_per_worker')} are {run.workers} × {run.envs_per_worker} = "
                f"{envs} environments, and no more than {ENVS_MAX} can be shown"
            )
    return run


def _spread(content: object) -> Spread:
    usual = Spread()
    with fields(content, "training.ray") as found:
        return Spread(
            address=found.text("address", usual.address),
            strategy=found.choice("strategy", STRATEGIES, usual.strategy),
            cpus=found.number("cpus", usual.cpus, least=0.01),
            room_s=found.number("room_s", usual.room_s, least=0),
        )


def _course(content: object) -> Course:
    usual = Course()
    with fields(content, "training.course") as found:
        return Course(
            rate=found.number("rate", usual.rate, least=0, most=1),
            discount=found.number("discount", usual.discount, least=0, most=1),
            trace=found.number("trace", usual.trace, least=0, most=1),
            clip=found.number("clip", usual.clip, least=0, most=1),
            entropy=found.number("entropy", usual.entropy, least=0),
            worth=found.number("worth", usual.worth, least=0),
            gradient=found.number("gradient", usual.gradient, least=0),
            epochs=found.whole("epochs", usual.epochs, least=1, most=100),
            minibatch=found.whole("minibatch", usual.minibatch, least=1),
        )


def _before(content: object, variables: Mapping[str, int]) -> object:
    """With variables, which go before; what is no mapping is left for whoever reads it."""
    return {**content, **variables} if isinstance(content, Mapping) else content


def _aliased(environment: Mapping[str, str]) -> dict[str, int]:
    found = {}
    for variable, key in ALIASES.items():
        if variable not in environment:
            continue
        try:
            found[key] = int(environment[variable])
        except ValueError as error:
            raise SpecError(f"{variable} has to be a whole number, not {environment[variable]!r}") from error
    return found
