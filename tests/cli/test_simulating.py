"""`hostler sim`: days of a fleet file in seconds, one table of it or two side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostler.cli.main import MISUSED
from tests.cli.conftest import Hostler

FLEET = """
name: small
nodes:
  - name: home
    backend: virtual
    provider: own
    gpus: [{model: RTX 3090, count: 2, vram_gb: 24}]
    price_per_h: 0.5
    cpus: 8
  - name: rented
    backend: virtual
    provider: vast
    ephemeral: true
    gpus: [{model: RTX 4090, vram_gb: 24}]
    price_per_h: 0.45
configs:
  - {name: hex8_2p, selfplay: {games: 256, segment_games: 64}}
jobs:
  - {name: known, run: [sleep, '1'], expected_s: {'*': 600}}
  - {name: unknown, run: [sleep, '1']}
"""
TRACE = "0,add,a\n0,add,b\n3600000,remove,a\n7200000,remove,b\n"


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return str(path)


def test_a_day_of_a_fleet_fits_on_a_terminal(fleet: str, hostler: Hostler) -> None:
    said = hostler("sim", fleet, "--days", "0.1", "--faults", "none")
    assert (said.status, said.err) == (0, "")
    assert all(line.isprintable() and len(line) <= 80 for line in said.out.splitlines())
    assert "hex8_2p" in said.out
    assert "faults: none" in said.out


def test_json_is_one_document_without_the_long_list(fleet: str, hostler: Hostler) -> None:
    found = hostler("sim", fleet, "--days", "0.1", "--seed", "3", "--json").json["as it is"]
    assert found["seed"] == 3
    assert 0.0 < found["totals"]["busy"] <= 1.0
    assert "spans" not in found
    assert [config["config"] for config in found["configs"]] == ["hex8_2p"]
    assert found["jobs"]["done"] > 0


def test_what_if_i_rent_more(fleet: str, hostler: Hostler) -> None:
    said = hostler(
        "sim", fleet, "--days", "0.1", "--faults", "none", "--add", "2x RTX 4090@vast:0.45", "--remove", "home"
    )
    assert said.status == 0, said.err
    assert all(len(line) <= 80 for line in said.out.splitlines())
    table = said.out[said.out.index("DIFFERENCE") :]
    (gpus,) = [line.split() for line in table.splitlines() if line.startswith("GPUs")]
    assert gpus == ["GPUs", "3", "3", "+0"]
    both = hostler("sim", fleet, "--days", "0.1", "--add", "H100@runpod", "--json").json
    assert list(both) == ["as it is", "changed"]
    assert len(both["changed"]["devices"]) == len(both["as it is"]["devices"]) + 1
    assert both["changed"]["nodes"][-1]["price_per_h"] is None


def test_a_report_is_a_page_of_its_own(fleet: str, hostler: Hostler, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "week.html"
    said = hostler("sim", fleet, "--days", "0.1", "--report", str(page))
    assert said.status == 0, said.err
    assert "<svg" in page.read_text()
    assert str(page) in said.out
    assert list(tmp_path.glob(".week*")) == []


def test_troubles_come_from_a_level_a_trace_or_a_file(fleet: str, hostler: Hostler, tmp_path: Path) -> None:
    trace, faults = tmp_path / "spot.csv", tmp_path / "faults.json"
    trace.write_text(TRACE)
    faults.write_text(json.dumps({"link_cut_every_s": 600.0, "until_s": 1e9}))
    found = hostler("sim", fleet, "--days", "1", "--trace", str(trace), "--faults", str(faults), "--json").json
    told = found["as it is"]["faults"]
    assert told["link cut"] > 50
    assert told["node died"] > 5
    assert set(told) == {"link cut", "node died"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--add", "two fast ones"], "describes no node"),
        (["--add", "Foo 9000@vast:1"], "memory of a Foo 9000"),
        (["--remove", "nowhere"], "there are: home, rented"),
        (["--remove", "home", "--remove", "rented"], "no node is left"),
        (["--faults", "some"], "none, light, heavy"),
        (["--trace", "nothing.csv"], "nothing.csv"),
        (["--report", "no/such/place/x.html", "--days", "0.01"], "cannot be written"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_with_a_way_out(fleet: str, hostler: Hostler, words: list[str], told: str) -> None:
    said = hostler("sim", fleet, *words)
    assert said.status == MISUSED
    assert told in said.err
    assert said.out == ""


def test_files_of_faults_are_read_strictly(fleet: str, hostler: Hostler, tmp_path: Path) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text('{"earthquakes": 3}')
    said = hostler("sim", fleet, "--faults", str(faults))
    assert said.status == MISUSED
    assert "earthquakes" in said.err
