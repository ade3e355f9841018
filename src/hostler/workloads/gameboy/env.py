"""The game as a Gymnasium environment, for learners that are not ours."""

from __future__ import annotations

from typing import Any, SupportsInt

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hostler.workloads.gameboy.batch import Batch, Episode
from hostler.workloads.gameboy.game import MICRO, Game
from hostler.workloads.gameboy.rom import Cartridge


class GameBoyEnv(gymnasium.Env[dict[str, npt.NDArray[Any]], SupportsInt]):
    """One machine. `seed` changes nothing: the same buttons lead to the same game.

    Observations are `values`, floats in `[0, 1]`, and `screen`, `[72, 80]` in four greys, where the game shows them.
    `info` of a step has the reward by component (`parts`), that of the last one the `episode`: `r`, `l`, `places`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, game: Game, cartridge: Cartridge, render_mode: str | None = None) -> None:
        self._batch = Batch(game, cartridge, 1)
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(game.actions))
        seen: dict[str, spaces.Space[Any]] = {}
        if game.features:
            seen["values"] = spaces.Box(0.0, 1.0, (self._batch.features.shape[1],), np.float32)
        if game.screen is not None:
            seen["screen"] = spaces.Box(0, 3, (game.screen.height, game.screen.width), np.uint8)
        self.observation_space: Any = spaces.Dict(seen)
        self._has_values = "values" in seen

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """To the beginning of an episode."""
        super().reset(seed=seed)
        self._batch.reset()
        return self._seen(), {}

    def step(self, action: SupportsInt) -> tuple[dict[str, npt.NDArray[Any]], float, bool, bool, dict[str, Any]]:
        """One button for the frames of a step. After an episode's end, call `reset`."""
        shown = 0 if self.render_mode == "rgb_array" else None
        done = self._batch.step([int(action)], restart=False, shown=shown)
        info: dict[str, Any] = {"parts": self._batch.parts(0)}
        if done.episodes:
            info["episode"] = _told(done.episodes[0])
        return self._seen(), float(done.reward[0]), bool(done.ended[0]), bool(done.cut[0]), info

    def render(self) -> Any:
        """The picture of the last frame that was drawn, `[144, 160, 3]`."""
        return self._batch.machines[0].picture()

    def close(self) -> None:
        """Let go of the machine."""
        self._batch.close()

    def _seen(self) -> dict[str, npt.NDArray[Any]]:
        seen: dict[str, npt.NDArray[Any]] = {}
        if self._has_values:
            seen["values"] = self._batch.features[0].copy()
        if self._batch.screens is not None:
            seen["screen"] = self._batch.screens[0].copy()
        return seen


def _told(episode: Episode) -> dict[str, Any]:
    """Under the names of Gymnasium's `RecordEpisodeStatistics`, which other learners read; and the places."""
    return {"r": episode.total / MICRO, "l": episode.steps, "places": len(episode.places)}
