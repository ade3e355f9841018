"""Beacons as a game for the loop: what a controller asks before any job runs. Imports neither numpy nor numba."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from hostler.workloads.beacons import configs


@dataclass(frozen=True, slots=True)
class BeaconsProgram:
    """What the loop needs to know of the game; parameters are `board` and `players`."""

    name: str = "beacons"
    factory: str = "hostler.workloads.beacons.game:make"

    def prepare(self, config: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Canonical parameters, by the config's name where `params` is empty; `ValueError` says what is wrong."""
        return configs.checked(params) if params else configs.parameters(config)

    def players(self, params: Mapping[str, Any]) -> int:
        """How many seats a game has."""
        return int(configs.checked(params)["players"])

    def anchors(self, params: Mapping[str, Any]) -> dict[str, float]:
        """The fixed ratings of `random` (0), `greedy` and `mc-200`: `400 log10` of the odds of ranking above another.

        They were measured by `benchmarks/anchors.py`. Raises `ValueError` for what has not been measured under the
        rules of today, for which no figure is better than an invented one.
        """
        config = configs.config_name(**configs.checked(params))
        table = json.loads(resources.files(__package__).joinpath("anchors.json").read_text("utf-8"))
        if table["rules_version"] != configs.RULES_VERSION or config not in table["configs"]:
            raise ValueError(
                f"the anchors of {config} have not been measured under version {configs.RULES_VERSION} of the rules; "
                f"run benchmarks/anchors.py {config}"
            )
        measured: dict[str, Any] = table["configs"][config]["elo"]
        return {player: float(figures["elo"]) for player, figures in measured.items()}


PROGRAM = BeaconsProgram()
