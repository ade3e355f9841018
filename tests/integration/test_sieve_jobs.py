"""What recorded draws exclude, and whether they look random, as sweeps of a real fleet."""

from __future__ import annotations

import json
import random
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.sieve import jobs
from tests.integration.conftest import Fleet, Hostler

pytestmark = pytest.mark.long

DRAWS = Path(__file__).resolve().parents[2] / "examples" / "draws"
CANDIDATES = [
    {"generator": "xorshift32", "calls": "next() % 1000"},
    {"generator": "xorshift32", "calls": "floor(float() * 1000)"},
    {"generator": "java", "calls": "nextInt(1000)"},
    {"generator": "numpy", "calls": "integers(1000)"},
]


@pytest.fixture(autouse=True)
def _installed() -> None:
    names = {each.name for each in entry_points(group="hostler.programs")}
    if missing := {jobs.ANALYSIS.name, jobs.CORRELATION.name} - names:
        pytest.skip(f"the installed metadata does not name {', '.join(sorted(missing))}: run pip install -e . again")


def test_sweeps_of_files_and_of_pairs(fleet: Fleet, hostler: Hostler) -> None:
    """Three files are tested for randomness, one is compared with four candidates; the results are hits."""
    files = recorded(fleet.path)
    sweeps = [
        {"name": "tests", "program": "sieve-correlation", "range": [0, 3], "params": {"data": files, "values": [0, 9]}},
        {
            "name": "excluded",
            "program": "sieve-analysis",
            "range": [0, len(CANDIDATES)],
            "params": {"data": str(DRAWS / "xorshift32.json"), "candidates": CANDIDATES},
        },
    ]
    fleet.settle(sweeps=sweeps)
    fleet.launch("--until-idle")
    assert fleet.ended() == 0, fleet.log()
    fleet.start()
    assert unusual(hits(fleet, hostler, "tests")) == {"steps.csv"}
    answers = hits(fleet, hostler, "excluded")
    assert [answer["verdict"] for answer in answers] == ["found", "excluded", "excluded", "undecided"]
    assert (
        answers[0]["survivors"][0]["seed"]
        == json.loads((DRAWS / "answers.json").read_text())["seeds"]["xorshift32.json"]
    )
    assert answers[1]["covers"] == "states"


def recorded(folder: Path) -> list[str]:
    """Two files of good draws and one whose draws follow from each other."""
    source = random.Random(7)
    made = {
        "one.csv": [source.randrange(10) for _ in range(400)],
        "steps.csv": [i // 3 % 10 for i in range(400)],
        "two.csv": [source.randrange(10) for _ in range(400)],
    }
    for name, draws in made.items():
        (folder / name).write_text("draw\n" + "\n".join(map(str, draws)) + "\n")
    return list(made)


def hits(fleet: Fleet, hostler: Hostler, name: str) -> list[dict[str, Any]]:
    """All hits of a sweep in the order of their items."""
    said = hostler(fleet, "sweep", "hits", name, "--json")
    assert said.status == 0, said.err
    return sorted((hit["data"] for hit in said.json), key=lambda hit: hit["at"])


def unusual(found: list[dict[str, Any]]) -> set[str]:
    """The files of which some test says something when all are corrected together."""
    return {test["source"] for test in jobs.corrected(found) if test["holm"] is not None and test["holm"] < 0.001}
