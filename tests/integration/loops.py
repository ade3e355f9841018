"""Fleets with a self-improvement loop: their settings, moments at which their stages are held, and what they leave."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from hostler.core import Core
from hostler.core.loop.state import Config
from hostler.model.events import Entry
from hostler.runtime.snapshots import recovered
from hostler.store import open_journal
from tests.integration.conftest import WHOLE_RUN_S, Fleet, View, has_ended, until
from tests.livefolders import contents_below, files_below

CONFIG = "hex4_2p"
STAGES = ("selfplay", "export", "training", "evaluation")
HOOK = Path(__file__).parent / "hold"
LOOP_PATIENCE_S = WHOLE_RUN_S
"""A stage imports torch, which takes seconds on a busy machine, and a loop has many of them."""


class Holds:
    """Moments at which stages wait to be told to go on: see `hold/sitecustomize.py`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    @property
    def env(self) -> Mapping[str, str]:
        """Environment of a stage that can be held."""
        return {"PYTHONPATH": str(HOOK), "HOLD": str(self.folder), "OMP_NUM_THREADS": "1"}

    def at(self, stage: str, point: str, time: int = 0) -> None:
        """Hold the next process of a stage that comes to this point for that time, counted from 0."""
        (self.folder / f"{stage}.{point}.{time}").touch()

    def held(self, stage: str, fleet: Fleet) -> psutil.Process:
        """The process of a stage, once it is held."""
        files = lambda: list(self.folder.glob(f"{stage}.*.held"))  # noqa: E731
        (file,) = until(files, f"{stage} being held", LOOP_PATIENCE_S, fleet.log)
        return psutil.Process(int(file.name.split(".")[1]))

    def release(self, stage: str) -> None:
        """Let it go on."""
        for file in self.folder.glob(f"{stage}.*.held"):
            file.unlink()

    def kill(self, stage: str, fleet: Fleet) -> None:
        """`kill -9` a stage where it is held."""
        process = self.held(stage, fleet)
        process.kill()
        until(lambda: has_ended(process), f"the end of {stage}")
        self.release(stage)


def tiny(env: Mapping[str, str], **changed: View) -> View:
    """A loop on 19 cells that comes to its first promotion within a few small jobs.

    Games of the heuristic engine teach enough for a network that is better than an untrained one beyond doubt.
    """
    parts: dict[str, View] = {
        "selfplay": {"engine": "heuristic", "games": 64, "segment_games": 16},
        "export": {"min_games": 100, "fresh_games": 100, "window_games": 500},
        "training": {"channels": 16, "blocks": 1, "batch": 64, "max_steps": 240, "reuse": [0.1, 10]},
        "evaluation": {"simulations": 4, "groups": 16, "precision_elo": 400, "max_groups": 16},
    }
    parts["training"]["options"] = {"checkpoint_every": 20}
    config: View = {stage: {"env": dict(env), **part, **changed.get(stage, {})} for stage, part in parts.items()}
    others = {name: value for name, value in changed.items() if name not in STAGES}
    return {"name": CONFIG, "seed": 1, "promotion": {"elo0": 0, "elo1": 200, "max_groups": 64}, **config, **others}


def artifacts(fleet: Fleet) -> Path:
    """The folder of everything the stages have published."""
    return fleet.state / "artifacts" / "objects"


def published(fleet: Fleet, suffix: str) -> set[str]:
    """The names of all files of this kind."""
    names = (file.name for file in files_below(artifacts(fleet)))
    return {name.removesuffix(suffix) for name in names if name.endswith(suffix) and name[0] != "."}


def damaged(fleet: Fleet) -> list[str]:
    """Everything among the artifacts that is not what its name says: a file cut short, a temporary one."""
    files = contents_below(artifacts(fleet))
    return [file.name for file, data in files if hashlib.sha256(data).hexdigest() != file.name.split(".")[0]]


def file_of(fleet: Fleet, sha256: str) -> Path:
    """Where an artifact lies."""
    (file,) = (artifacts(fleet) / sha256[:2]).glob(f"{sha256}.*")
    return file


def flip(file: Path) -> None:
    """Spoil one byte in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def stage_jobs(fleet: Fleet, stage: str, *states: str) -> list[View]:
    """The jobs of a stage, oldest first."""
    return [job for job in fleet.client.all_jobs(states) if job["work"] == stage]


def order_of(fleet: Fleet, job: str) -> View:
    """What a stage's job was told to do."""
    order: View = fleet.client.job(job)["spec"]["payload"]["order"]
    return order


def soon(question: Callable[[], Any], what: str, fleet: Fleet) -> Any:
    """`until`, with the patience that a loop needs."""
    return until(question, what, LOOP_PATIENCE_S, fleet.log)


@contextmanager
def journal_of(fleet: Fleet) -> Iterator[tuple[Core, list[Entry]]]:
    """What the journal says, folded by nothing that took part, and its entries."""
    journal = open_journal(fleet.state)
    try:
        core = recovered(journal, on_damage=_fail)
        core.validate()
        yield core, list(journal.read())
    finally:
        journal.close()


def config_of(fleet: Fleet, name: str = CONFIG) -> Config:
    """A config as the journal has it."""
    with journal_of(fleet) as (core, _):
        return core.state.configs[name]


def _fail(what: str) -> None:
    raise AssertionError(what)
