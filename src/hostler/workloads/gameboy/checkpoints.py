"""What a training goes on from, in another process or on another machine: network, optimiser, chance, counts.

Files that name their own hash, as those of the other learner: a damaged one is passed over, the one before it taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from hostler.workloads.alphazero.checkpoint import Checkpoint, newest, save_checkpoint
from hostler.workloads.gameboy import reaching
from hostler.workloads.gameboy.advice.counts import Counts
from hostler.workloads.gameboy.ppo import Learner
from hostler.workloads.gameboy.progress import RECENT, Progress
from hostler.workloads.gameboy.spent import Spent
from hostler.workloads.gameboy.strict import SpecError


class Checkpoints:
    """A folder of them. `made_of` is what a training must be the same in to go on, `beside` what is only told."""

    def __init__(self, folder: Path, made_of: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> None:
        self._folder = folder
        self._made_of = dict(made_of)
        self._beside = dict(beside or {})
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpecError(f"{folder} is no folder for checkpoints: {error.strerror}; name another one") from error
        self.damaged: tuple[str, ...] = ()
        """Files that were passed over when it was gone on from them."""
        self.changed: tuple[str, ...] = ()
        """What is otherwise since the one that was gone on from, in words."""

    @property
    def folder(self) -> Path:
        """Where they are, whoever asks."""
        return self._folder.absolute()

    def prove(self) -> None:
        """Raises `SpecError` where the folder does not keep what is written."""
        try:
            keeps = reaching.keeps(self._folder)
        except OSError as error:
            raise SpecError(
                f"{self._folder} cannot keep checkpoints: {error.strerror}; see to its rights and its room, or name "
                "another folder"
            ) from error
        if not keeps:
            raise SpecError(f"{self._folder} cannot keep checkpoints: what is written reads otherwise; name another")

    def keep(self, learner: Learner, progress: Progress) -> Path:
        """Write one; it is there as a whole or not at all. Raises `ArtifactError`."""
        state = learner.state()
        tensors = {
            "network": learner.network.state_dict(),
            "optimiser": _flat(state["optimiser"]),
            "chance": {"random": state["random"]},
        }
        facts = {
            "made_of": self._made_of,
            "beside": self._beside,
            "updates": state["updates"],
            "progress": _plain(progress),
        }
        return save_checkpoint(self._folder, Checkpoint(progress.steps, tensors, facts))

    def take_up(self, learner: Learner) -> Progress | None:
        """Put the newest whole one into the learner, and answer how far it had come; `None`: there is none.

        Raises `ValueError` where it is of another training, or where there are some and none is whole.
        """
        found = newest(self._folder)
        self.damaged = found.damaged
        if found.checkpoint is None and found.damaged:
            raise ValueError(
                f"all checkpoints in {self._folder} are damaged: {', '.join(found.damaged)}; put one back that is "
                "whole, or move them away to begin anew"
            )
        if found.checkpoint is None:
            return None
        facts = found.checkpoint.facts
        if "made_of" not in facts:
            raise ValueError(f"the checkpoints in {self._folder} are of another program; name another folder")
        if facts["made_of"] != self._made_of:
            differs = sorted(
                key
                for key in self._made_of.keys() | facts["made_of"].keys()
                if self._made_of.get(key) != facts["made_of"].get(key)
            )
            raise ValueError(
                f"the checkpoints in {self._folder} are of another training: {', '.join(differs)} differ; "
                "name another folder, or move them away"
            )
        self.changed = _changed(facts.get("beside", {}), self._beside)
        tensors = found.checkpoint.tensors
        learner.network.load_state_dict(dict(tensors["network"]))
        learner.go_on(
            {
                "updates": facts["updates"],
                "optimiser": _deep(tensors.get("optimiser", {}), learner.state()["optimiser"]),
                "random": tensors["chance"]["random"],
            }
        )
        return _progress(facts["progress"])


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    both = [key for key in now if key in before and before[key] != now[key]]
    return tuple(f"{key} is {now[key]}, and was {before[key]}" for key in both)


def _flat(optimiser: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The moments of each weight, by its number and their names."""
    return {f"{number}.{name}": each for number, own in optimiser["state"].items() for name, each in own.items()}


def _deep(tensors: Mapping[str, torch.Tensor], optimiser: Mapping[str, Any]) -> dict[str, Any]:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for flat, each in tensors.items():
        number, _, name = flat.partition(".")
        state.setdefault(int(number), {})[name] = each
    return {"state": state, "param_groups": optimiser["param_groups"]}


def _plain(progress: Progress) -> dict[str, Any]:
    return {**asdict(progress), "recent": list(progress.recent), "places": list(progress.places.items())}


def _progress(plain: Mapping[str, Any]) -> Progress:
    return Progress(
        **{
            **plain,
            "spent": Spent(**plain["spent"]),
            "places": {int(place): int(count) for place, count in plain["places"]},
            "advice": Counts.of(plain["advice"]) if "advice" in plain else Counts(),
            "recent": deque((tuple(each) for each in plain["recent"]), maxlen=RECENT),
        }
    )
