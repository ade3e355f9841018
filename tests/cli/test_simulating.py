"""`hostler sim`: days of a fleet file in seconds, one table of it or two side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.cli.errors import MISUSED
from hostler.cli.simulating import ROWS, _added, _comparison, _rounded
from hostler.model.fleet import NodeSpec
from hostler.model.work import WorkKind
from tests.cli.conftest import Hostler
from tests.sim.test_measures import Journal, gpu, job

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
        "sim", fleet, "--days", "0.03", "--faults", "none", "--add", "2x RTX 4090@vast:0.45", "--remove", "home"
    )
    assert said.status == 0, said.err
    assert all(len(line) <= 80 for line in said.out.splitlines())
    table = said.out[said.out.index("DIFFERENCE") :]
    (gpus,) = [line.split() for line in table.splitlines() if line.startswith("GPUs")]
    assert gpus == ["GPUs", "3", "3", "+0"]
    both = hostler("sim", fleet, "--days", "0.03", "--add", "H100@runpod", "--json").json
    assert list(both) == ["as it is", "changed"]
    assert len(both["changed"]["devices"]) == len(both["as it is"]["devices"]) + 1
    assert both["changed"]["nodes"][-1]["price_per_h"] is None


def test_a_report_is_a_page_of_its_own(fleet: str, hostler: Hostler, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "week.html"
    said = hostler("sim", fleet, "--days", "0.02", "--report", str(page))
    assert said.status == 0, said.err
    assert "<svg" in page.read_text()
    assert str(page) in said.out
    assert list(tmp_path.glob(".week*")) == []


@pytest.mark.parametrize(
    ("days", "cuts", "deaths"), [("0.2", 10, 1), pytest.param("1", 50, 6, marks=pytest.mark.long)], ids=["hours", "day"]
)
def test_troubles_come_from_a_level_a_trace_or_a_file(
    fleet: str, hostler: Hostler, tmp_path: Path, days: str, cuts: int, deaths: int
) -> None:
    trace, faults = tmp_path / "spot.csv", tmp_path / "faults.json"
    trace.write_text(TRACE)
    faults.write_text(json.dumps({"link_cut_every_s": 600.0, "until_s": 1e9}))
    found = hostler("sim", fleet, "--days", days, "--trace", str(trace), "--faults", str(faults), "--json").json
    told = found["as it is"]["faults"]
    assert told["link cut"] > cuts
    assert told["node died"] >= deaths
    assert set(told) == {"link cut", "node died"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--add", "two fast ones"], "describes no node"),
        (["--add", "Foo 9000@vast:1"], "memory of a Foo 9000"),
        (["--remove", "nowhere"], "there are: home, rented"),
        (["--remove", "home", "--remove", "rented"], "no node is left"),
        (["--faults", "some"], "none, light, heavy"),
        (["--trace", "nothing.csv"], "nothing.csv: cannot be read (No such file or directory); a trace has lines"),
        (["--report", "no/such/place/x.html", "--days", "365"], "the folder no/such/place is not there"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_with_a_way_out(fleet: str, hostler: Hostler, words: list[str], told: str) -> None:
    said = hostler("sim", fleet, *words)
    assert said.status == MISUSED
    assert told in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"earthquakes": 3}', "earthquakes: is no setting (allowed here: link_cut_every_s, "),
        ('{"link_cut_every_s"', "is no JSON (EOF while parsing an object at line 1 column"),
        ("[1]", "should be an object"),
        ('{"link_cut_every_s": "often"}', "link_cut_every_s: "),
        ('{"link_cut_every_s": 0}', "should be a number from 1 to 1e+09 (found 0); leave it out for never"),
        ('{"straggler_s": -5, "hang_s": 0}', "straggler_s: should be a number above 0 and up to 1e+09 (found -5)"),
        ('{"straggler_s": -5, "hang_s": 0}', "hang_s: should be a number above 0 and up to 1e+09 (found 0)"),
    ],
)
def test_files_of_faults_are_read_strictly(fleet: str, hostler: Hostler, tmp_path: Path, text: str, told: str) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text(text)
    said = hostler("sim", fleet, "--faults", str(faults))
    assert said.status == MISUSED
    assert f"--faults {faults}: " in said.err
    assert told in said.err
    assert "validation error" not in said.err


def test_what_a_file_says_goes_wrong_does_so_until_the_end(fleet: str, hostler: Hostler, tmp_path: Path) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text('{"link_cut_every_s": 600}')
    told = hostler("sim", fleet, "--days", "0.2", "--faults", str(faults), "--json").json["as it is"]["faults"]
    assert told["link cut"] > 30


@pytest.mark.parametrize("scale", ["inf", "1e308", "nan", "0"])
def test_lives_are_not_made_endless(fleet: str, hostler: Hostler, scale: str) -> None:
    said = hostler("sim", fleet, "--days", "0.05", "--lifetime-scale", scale)
    assert said.status == MISUSED
    assert "--lifetime-scale" in said.err


def test_a_trace_in_which_somebody_is_removed_before_the_begin(fleet: str, hostler: Hostler, tmp_path: Path) -> None:
    trace = tmp_path / "spot.csv"
    trace.write_text("60000,add,a\n60000,remove,a\n")
    said = hostler("sim", fleet, "--trace", str(trace))
    assert said.status == MISUSED
    assert f"--trace {trace}: line 2: " in said.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0x RTX 4090@vast:0.4", "count: should be greater than or equal to 1 (found 0)"),
        ("-1x RTX 4090@vast:0.4", "count: should be greater than or equal to 1 (found -1)"),
        ("99999x RTX 4090@vast:0.4", "count: should be less than or equal to 1024 (found 99999)"),
        ("9" * 5000 + "x RTX 4090@vast:0.4", "count: "),
        ("1.5x RTX 4090@vast:0.4", "count: "),
        ("1..5x RTX 4090@vast:0.4", "count: "),
        ("RTX 4090 0GB@vast:0.4", "vram_gb: should be greater than 0 (found 0.0)"),
        ("RTX 4090 -5GB@vast", "vram_gb: should be greater than 0 (found -5.0)"),
        ("RTX 4090 9999999GB@vast", "vram_gb: should be less than or equal to 1048576 (found 9999999.0)"),
        ("RTX 4090 24GB 48GB@vast", "describes no node"),
        ("RTX 4090 1e9GB@vast", "describes no node"),
        ("RTX 4090 5,5GB@vast", "describes no node"),
        ("2x 24GB@vast", "describes no node"),
        ("RTX 4090@vast:-0.4", "describes no node"),
        ("2x RTX 4090@vast:999999999", "price_per_h: should be less than or equal to 1000000000"),
    ],
    ids=lambda text: text[:24],
)
def test_nodes_to_add_make_sense(fleet: str, hostler: Hostler, text: str, told: str) -> None:
    said = hostler("sim", fleet, "--days", "0.01", "--add", text)
    assert said.status == MISUSED
    assert told in said.err
    assert "2x RTX 4090@vast:0.45" in said.err, "how it is written"
    assert said.out == ""


@pytest.mark.parametrize(
    ("text", "model", "count", "vram_gb"),
    [
        ("2x RTX 4090@vast:0.4", "RTX 4090", 2, 24.0),
        ("2xRTX 4090@vast", "RTX 4090", 2, 24.0),
        ("A100-80GB@lambda", "A100", 1, 80.0),
        ("RTX 6000 48GB@vast", "RTX 6000", 1, 48.0),
        ("7900xtx 24GB@own", "7900xtx", 1, 24.0),
    ],
)
def test_what_is_added(text: str, model: str, count: int, vram_gb: float) -> None:
    found = _added(text, "added-1", ())
    assert [(each.model, each.vram_gb) for each in found.devices] == [(model, vram_gb)] * count


def compared(before: Journal, after: Journal) -> dict[str, list[str]]:
    return {name: cells for name, *cells in _comparison(before.measured(), after.measured())}


def played_on(*nodes: NodeSpec) -> Journal:
    journal = Journal(*nodes)
    for number, node in enumerate(nodes):
        journal.submit(0.0, f"j{number}", job())
        journal.run(f"j{number}", 0.0, 910.0, device=f"{node.name}/cuda0")
    return journal


def test_work_of_unpriced_nodes_is_not_compared_as_free() -> None:
    rows = compared(played_on(gpu("n")), played_on(gpu("n"), gpu("m", price_per_h=None)))
    assert rows["useful work, power hours"] == ["25", "50", "+25"]
    assert rows["cost"] == ["1.00", "1.00", "?"], "what the other costs is not known, and so is the difference"
    assert rows["cost per 100 power hours"] == ["4.000", "4.000", "+0.000"]
    assert rows["nodes priced"] == ["1 of 1", "1 of 2", ""]


def test_where_all_nodes_are_priced_nothing_is_said_of_it() -> None:
    rows = compared(played_on(gpu("n")), played_on(gpu("n"), gpu("m")))
    assert rows["cost"] == ["1.00", "2.00", "+1.00"]
    assert "nodes priced" not in rows
    nothing = played_on(gpu("n", price_per_h=None))
    assert "nodes priced" not in compared(nothing, nothing)
    same = played_on(gpu("n"), gpu("m", price_per_h=None))
    assert compared(same, same)["cost"] == ["1.00", "1.00", "+0.00"]


def test_rows_that_only_one_has_are_compared_all_the_same() -> None:
    journal = Journal(gpu("n"), gpu("m"))
    for number, kind in enumerate((WorkKind.TRAINING, WorkKind.EVALUATION)):
        journal.submit(0.0, f"j{number}", job(kind))
        journal.run(f"j{number}", 60.0, 90.0, device=f"{'nm'[number]}/cuda0")
    both = journal.measured()
    one = replace(both, waits=both.waits[:1])
    (kept,) = [waits.kind for waits in one.waits]
    rows = {name: cells for name, *cells in _comparison(both, one)}
    assert rows[f"{kept} waits, mean min"] == ["1.0", "1.0", "+0.0"]
    other = WorkKind.TRAINING if kept is WorkKind.EVALUATION else WorkKind.EVALUATION
    assert rows[f"{other} waits, mean min"] == ["1.0", "?", "?"]
    assert {name: cells for name, *cells in _comparison(one, both)}[f"{other} waits, mean min"] == ["?", "1.0", "?"]


@pytest.mark.parametrize(
    ("value", "shown"), [(1.55e-15, "+0.0"), (-1.55e-15, "+0.0"), (-0.26, "-0.3"), (1234.5, "+1,234.5"), (None, "?")]
)
def test_differences_are_rounded(value: float | None, shown: str) -> None:
    assert _rounded(value, 1, "+") == shown


def test_every_kind_of_wait_can_be_compared() -> None:
    assert {f"{kind} waits, mean min" for kind in (WorkKind.TRAINING, WorkKind.EVALUATION, WorkKind.SCRIPT)} <= {*ROWS}


def test_unknown_prices_are_not_nothing(hostler: Hostler, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET.replace("    price_per_h: 0.5\n", ""))
    assert "power hours (1 of 2 nodes priced)" in hostler("sim", str(path), "--days", "0.02").out
    path.write_text(path.read_text().replace("    price_per_h: 0.45\n", ""))
    said = hostler("sim", str(path), "--days", "0.02", "--remove", "home")
    assert "cost ?, ? per 100 power hours\n" in said.out
    assert "differences of one seed; try others with --seed" in said.out
    totals = hostler("sim", str(path), "--days", "0.02", "--json").json["as it is"]["totals"]
    assert (totals["cost"], totals["cost_per_unit"], totals["priced_nodes"]) == (None, None, 0)


def test_what_is_not_played_is_told(hostler: Hostler, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET + "  - {name: later, run: [x], expected_s: {'*': 60}, after: [unknown]}\n")
    said = hostler("sim", str(path), "--days", "0.02")
    assert said.status == 0, said.err
    assert "not played: 1 script without expected_s, 1 script after these" in said.out
    assert "an A100 is taken to play a game of hex8 in 4 s" in " ".join(said.out.split())
    found = hostler("sim", str(path), "--days", "0.02", "--json").json["as it is"]
    assert found["not_played"] == {"script without expected_s": 1, "script after these": 1}


def test_where_nothing_could_be_placed_the_gates_are_told(hostler: Hostler, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "nodes: [{name: g, backend: virtual, gpus: [{model: RTX 4090, vram_gb: 24}]}]\n"
        "jobs: [{name: big, run: [x], expected_s: {'*': 60}, resources: {device: gpu, vram_gb: 80}}]\n"
    )
    text = " ".join(hostler("sim", str(path), "--days", "0.02").out.split())
    assert "nothing could be placed waits: script big: fits on no device: VRAM on 1 (needs 80 GB" in text


LAPTOP = Path(__file__).parents[2] / "examples" / "laptop.yaml"


@pytest.mark.long
def test_the_example_of_one_machine_is_played_on_all_its_cores(
    hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.agent.probe.cpus", lambda: 3)
    said = hostler("sim", str(LAPTOP), "--days", "0.01", "--faults", "none")
    assert (said.status, said.err) == (0, "")
    assert all(len(line) <= 80 for line in said.out.splitlines())
    text = " ".join(said.out.split())
    assert "not played: 2 sweeps of unknown speed, 8 scripts without expected_s" in text
    assert "note: the GPUs of here are found by a probe when it starts; played with its CPU slots alone" in text
    assert "note: CPU slots play as fast as one core on which that was measured" in text
    found = hostler("sim", str(LAPTOP), "--days", "0.02", "--faults", "none", "--json").json["as it is"]
    assert len(found["devices"]) == 3
    (config,) = found["configs"]
    assert config["games"] > 1000, "as many as two real cores play in half an hour"
    assert config["promotions"] >= 1
    assert len(found["notes"]) == 2


def test_beside_gpus_cpu_slots_are_a_guess_in_both_columns(hostler: Hostler) -> None:
    said = hostler("sim", str(LAPTOP), "--days", "0.02", "--faults", "none", "--add", "RTX 4090@vast:0.4")
    text = " ".join(said.out.split())
    assert "CPU slots for 1/624 of it, which is a guess" in text
    assert "measured" not in text


def played(hostler: Hostler, tmp_path: Path, text: str) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    said = hostler("sim", str(path), "--days", "0.1", "--faults", "none")
    assert (said.status, said.err) == (0, "")
    return said.out


RIG = "nodes: [{name: g, backend: virtual, gpus: [{model: RTX 4090, vram_gb: 24}], cpu_slots: 1}]\n"


def test_a_fleet_with_nothing_to_do_is_not_one_that_cannot(hostler: Hostler, tmp_path: Path) -> None:
    out = played(hostler, tmp_path, RIG)
    assert "nothing is asked for: the file has no configs, no sweeps and no jobs" in out
    assert "could be placed" not in out
    assert "WAIT MEAN" not in out
    sweep = "sweeps: [{name: s, program: sieve, range: [0, 1000], params: {data: draws.json}}]\n"
    (tmp_path / "draws.json").write_text((LAPTOP.parent / "draws" / "php.json").read_text())
    out = played(hostler, tmp_path, RIG + sweep)
    assert "not played: 1 sweep of unknown speed\nnothing was played: nobody says how long" in out


def test_scripts_alone_last_as_they_say_on_each_device(hostler: Hostler, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        RIG + "jobs:\n- {name: fast, run: [x], expected_s: {RTX 4090: 60, '*': 6000}, resources: {device: gpu}}\n"
        "- {name: slow, run: [x], expected_s: {RTX 4090: 60, cpu: 600}, resources: {device: cpu}}\n"
    )
    found = hostler("sim", str(path), "--days", "0.1", "--faults", "none", "--json").json["as it is"]
    assert found["kinds"] == {"script": pytest.approx(660, abs=5)}
    assert found["notes"] == []
    rows = {line.split()[0]: line.split() for line in played(hostler, tmp_path, path.read_text()).splitlines() if line}
    assert rows["GPUs"][1] == "1", "CPU slots are not among what the shares are of"
    assert rows["-"][4] == "-", "CPU slots of a node with GPUs have no price of their own"
