"""A whole loop in a process of its own, what it came to, and matches afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hostler.core.loop.state import Config
from hostler.learning.matches import group_score
from hostler.runtime.snapshots import recovered
from hostler.store import open_journal

HERE = Path(__file__).parent
CONFIG = "hex4_2p"
LONGEST_S = 3600.0


@dataclass(frozen=True)
class Run:
    """A loop that has ended: its exit status, what it printed, and what its journal says."""

    status: int
    said: str
    config: Config
    state_dir: Path


def run_loop(folder: Path, broken: Mapping[str, str] | None = None) -> Run:
    """Run `hex4.yaml` until it is idle; `broken` maps a stage to the program of `broken/` that takes its place.

    A broken loop ends at the first job that is refused.
    """
    settings = yaml.safe_load((HERE / "hex4.yaml").read_text())
    (config,) = settings["configs"]
    for stage, program in (broken or {}).items():
        config[stage]["command"] = ["{python}", str(HERE / "broken" / program)]
        config["idle_after"]["failures"] = 1
    fleet = folder / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(settings))
    state_dir = folder / "state"
    command = [sys.executable, "-m", "hostler.cli", "up", "--until-idle", "--state-dir", str(state_dir), "--port", "0"]
    ended = subprocess.run([*command, str(fleet)], capture_output=True, text=True, timeout=LONGEST_S, check=False)
    return Run(ended.returncode, ended.stdout + ended.stderr, _config(state_dir), state_dir)


def play(run: Run, a: str, opponents: Sequence[str], groups: int) -> Mapping[str, list[float]]:
    """Scores of `a`, group by group, against each opponent, by Hostler's own evaluation stage."""
    order = {
        "schema": 1,
        "stage": "evaluation",
        "config": CONFIG,
        "seed": 4,
        "game": {"factory": run.config.spec.game.factory, "params": dict(run.config.spec.game.params)},
        "matches": [{"a": a, "b": b, "groups": groups} for b in opponents],
        "options": {"opening_plies": 3},
        "record": False,
    }
    result = _stage(run.state_dir, order)
    return {match["b"]: [group_score(group) for group in match["groups"]] for match in result["matches"]}


def _stage(state_dir: Path, order: Mapping[str, Any]) -> dict[str, Any]:
    inputs, result = state_dir / "order.json", state_dir / "result.json"
    inputs.write_text(json.dumps(order))
    environment = {
        **os.environ,
        "HOSTLER_INPUTS": str(inputs),
        "HOSTLER_RESULT": str(result),
        "HOSTLER_ARTIFACTS": str(state_dir / "artifacts"),
    }
    command = [sys.executable, "-m", "hostler.workloads.alphazero", order["stage"]]
    subprocess.run(command, env=environment, check=True, timeout=LONGEST_S)
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def _config(state_dir: Path) -> Config:
    journal = open_journal(state_dir)
    try:
        return recovered(journal, on_damage=print).state.configs[CONFIG]
    finally:
        journal.close()
