"""Shares, durations, costs and bans on a terminal of 80 columns; explanations of large fleets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.steering import _cost_lines, _history_lines, _quota_lines
from hostler.model import inputs
from hostler.model.work import Resources, WorkKind
from tests.cli.conftest import Hostler
from tests.core.builders import script
from tests.core.care.builders import told
from tests.core.test_explain import fleet, long, rig
from tests.core.test_shown import learning
from tests.core.trust.test_canary import world as unproved, wrong
from tests.core.trust.test_trust import in_quarantine
from tests.test_client import announce
from tests.web.core_desk import CoreDesk, Window, window


@pytest.fixture(scope="module")
def steady() -> Iterator[Window]:
    """Two configs that learn on a fleet with quotas and prices, one node of which has a full disk."""
    world = learning("hex_4p", "sq_2p", "sq_4p", price_per_h=1.0)
    for _ in range(60):
        world.step()
    world.submit(*[long(f"prep{n}", resources=Resources(device="gpu", vram_gb=20)) for n in range(4)])
    world.tell(told(name="a", at=world.now, disk_free_gb=40.0, busy=0.73))
    world.core.index.gates["a", "VRAM"] += 3
    with window(CoreDesk(world)) as made:
        yield made


@pytest.fixture
def steered(steady: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Window:
    """The same, for commands that change nothing."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    announce(tmp_path / "state", steady.port)
    return steady


@pytest.mark.parametrize(
    "command",
    [
        "account shares",
        "account durations",
        "account costs",
        "hold list",
        "node list",
        "node show a",
        "explain a/cuda0",
        "queue",
    ],
)
def test_what_is_shown_fits_and_is_printable(steered: Window, hostler: Hostler, command: str) -> None:
    said = hostler(*command.split())
    assert (said.status, said.err) == (0, "")
    assert all(line.isprintable() and len(line) <= 80 for line in said.out.splitlines())
    assert hostler(*command.split(), "--json").json


def test_shares_stand_with_their_quota(steered: Window, hostler: Hostler) -> None:
    lines = hostler("account", "shares").out.splitlines()
    heads = [line.split(maxsplit=1)[0] for line in lines if "%" in line]
    assert heads[:2] == ["hex_4p", "sq_*"]
    assert set(heads[2:4]) == {"sq_2p", "sq_4p"}
    assert "whether the quotas can be met is not known" in hostler("account", "shares").out


def test_history_of_some_families(steered: Window, hostler: Hostler) -> None:
    rows = hostler("account", "durations", "sq_2p", "--json").json["rows"]
    assert {row["family"] for row in rows} == {"sq_2p"}
    assert "hex_4p" not in hostler("account", "durations", "sq_2p").out
    assert "how good predictions were" in hostler("account", "durations").out


def test_costs_say_what_a_game_costs(steered: Window, hostler: Hostler) -> None:
    assert " a game (" in hostler("account", "costs").out


def test_nodes_tell_pressure_and_utilisation(steered: Window, hostler: Hostler) -> None:
    out = hostler("node", "list").out
    assert "73% " in out
    assert "a: DISK_SPACE_LOW critical" in out
    assert "starts no export, training" in " ".join(out.split())
    assert hostler("node", "show", "nowhere").status == 2
    assert "refused there since the controller began: VRAM 3" in hostler("node", "show", "a").out


def test_nothing_is_known_at_first(served: Window, hostler: Hostler) -> None:
    assert hostler("hold", "list").out == "nothing is held back\n"
    assert hostler("account", "costs").out == "in all: device-hours 0.00, cost ?, unpriced ?\n"
    assert "nothing has been learnt yet" in hostler("account", "durations").out
    assert "no training configs" in hostler("account", "shares").out
    assert "is idle: nothing waits" in hostler("explain", "n/cpu0").out
    assert hostler("explain", "n/cpu9").status == 2
    assert "no device" in hostler("explain", "n/cpu9").err
    assert "no job" in hostler("explain", "j9").err


def test_a_quarantine_is_told_with_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostler: Hostler) -> None:
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    with window(CoreDesk(in_quarantine())) as made:
        announce(tmp_path / "state", made.port)
        assert "a/cuda0: in quarantine" in hostler("node", "list").out
        assert "quarantine" in hostler("hold", "list").out


def test_a_device_that_is_not_proved_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostler: Hostler
) -> None:
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    world = unproved(devices=2)
    world.tell(wrong())
    with window(CoreDesk(world)) as made:
        announce(tmp_path / "state", made.port)
        for words in (("node", "list"), ("node", "show", "n"), ("explain", "n/cuda0"), ("hold", "list")):
            assert "failed its canary: wrong answer" in " ".join(hostler(*words).out.split()), words
        assert "n/cuda1: kept out by its canary since" in hostler("node", "list").out
        assert "has not been proved yet" in hostler("explain", "n/cuda1").out
        assert [ban["kind"] for ban in hostler("hold", "list", "--json").json] == ["canary", "canary"]


def test_many_devices_are_told_of_by_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostler: Hostler) -> None:
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    world = fleet(*(rig(f"n{number}", count=4) for number in range(10)), rig("big", vram_gb=80.0))
    need = Resources(vram_gb=48)
    world.submit(script("first", resources=need), script("e", resources=need, work_as=WorkKind.EVALUATION, config="c"))
    world.tell(inputs.Tick())
    with window(CoreDesk(world)) as made:
        announce(tmp_path / "state", made.port)
        waits = next(job["id"] for job in hostler("jobs", "--state", "pending", "--json").json)
        said = hostler("explain", waits)
        assert "- 40 × RTX 4090 24GB" in said.out
        assert len(said.out.splitlines()) < 30
        assert len(hostler("explain", waits, "--json").json["devices"]) == 41


def test_a_plan_that_cannot_be_met_is_told() -> None:
    told_of: dict[str, Any] = {"tiers": [], "kinds": [], "contradictions": [], "plan": None}
    plan = {"status": "optimal", "conflicts": ["sq_*: too few"], "slack": {}, "prices": {}}
    assert "cannot be met: sq_*: too few" in list(_quota_lines({**told_of, "plan": plan}))
    assert "the quotas can be met, as last planned" in list(
        _quota_lines({**told_of, "plan": {**plan, "conflicts": []}})
    )
    unsolved = {**plan, "status": "no solver", "conflicts": []}
    assert any("not known: no solver" in line for line in _quota_lines({**told_of, "plan": unsolved}))


def test_unknown_is_a_question_mark() -> None:
    row: dict[str, Any] = {"work": "script", "of": None, "name": None, "device_s": 3600.0}
    row |= {"cost": None, "unpriced": 1.0, "units": []}
    lines = list(_cost_lines({"device_s": 3600.0, "cost": None, "unpriced": 1.0, "kinds": [row], "rows": [row]}))
    assert lines[0] == "in all: device-hours 1.00, cost ?, unpriced 100.0%"
    assert lines[-1].split() == ["script", "-", "1.00", "?", "100.0%", "?"]
    assert "not known yet" in list(_history_lines({"rows": [], "accuracy": []}))[-1]


@pytest.mark.parametrize("noun", ["node", "device"])
@pytest.mark.parametrize("verb", ["cordon", "drain"])
@pytest.mark.parametrize("flag", ["--reason", "--why"])
def test_nodes_and_devices_are_kept_out_with_the_same_options(
    hostler: Hostler, noun: str, verb: str, flag: str
) -> None:
    said = hostler(noun, verb, "--help")
    assert flag in said.out
