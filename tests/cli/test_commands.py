"""Every command against a served core, in this process."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.cli.jobs import State
from hostler.cli.show import clock
from hostler.model.inputs import LinkDown, NodeFound, Submit
from hostler.model.work import JobState
from tests.cli.conftest import Hostler
from tests.core.builders import ended, script, sweep
from tests.patience import PATIENCE_S
from tests.test_client import announce
from tests.web.core_desk import Window, window

HOSTILE = "x\x1b[2J\n[bold]\u202e; rm -rf ~"
LISTINGS = [
    *[
        "status",
        "jobs",
        "queue",
        "node list",
        "node show n",
        "job show j1",
        "explain j1",
        "explain j3",
        "explain n/cpu0",
    ],
    *[
        "sweep ledger j2",
        "sweep verify j2",
        "sweep hits j2",
        "sweep list",
        "sweep show j2",
        "device show n/cpu0",
        "account shares",
        "account durations",
        "account costs",
        "account usage",
        "account usage --by work",
    ],
]


@pytest.fixture
def busy(served: Window) -> Window:
    """A script that failed once and bears a hostile name, a sweep with a hit, and a job that waits."""
    return busied(served)


@pytest.fixture(scope="module")
def still_served() -> Iterator[Window]:
    with window() as made:
        yield busied(made)


@pytest.fixture
def still(still_served: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Window:
    """The same for all commands that change nothing."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # `submit` sends the files of the working folder
    announce(tmp_path / "state", still_served.port)
    return still_served


def busied(served: Window) -> Window:
    driver = served.desk.driver
    served.tell(Submit(specs=(script(HOSTILE, key="a"), sweep("search", stop=2**70), script("last", after=("a",)))))
    served.tell(ended("j1.1", exit_code=3))
    chunk, start, _ = driver.chunk("j2")
    served.call(lambda: driver.tell(driver.searched(chunk, hits=[{"at": start, "note": HOSTILE}])))
    return served


@pytest.mark.parametrize("command", [*LISTINGS, "events", "events --after 0"])
def test_what_is_shown_is_printable_and_fits(still: Window, hostler: Hostler, command: str) -> None:
    said = hostler(*command.split())
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert all(line.isprintable() and len(line) <= 80 for line in lines)
    assert lines


@pytest.mark.parametrize("command", LISTINGS)
def test_json_is_one_complete_document(still: Window, hostler: Hostler, command: str) -> None:
    said = hostler(*command.split(), "--json")
    assert said.status == 0
    assert said.out.count("\n") == 1
    assert said.out.isascii()
    assert said.json


def test_json_holds_what_tables_shorten(busy: Window, hostler: Hostler) -> None:
    assert hostler("jobs", "--json").json[0]["name"] == HOSTILE
    assert hostler("job", "show", "a", "--json").json["story"][0]["event"]["job"] == "j1"
    assert hostler("sweep", "ledger", "j2", "--json").json["sweep"]["stop"] == 2**70
    assert hostler("sweep", "hits", "j2", "--json").json[0]["data"]["note"] == HOSTILE


def test_states_are_those_of_the_model() -> None:
    assert [each.value for each in State] == [each.value for each in JobState]


def test_jobs_shows_the_newest_and_says_what_it_left_out(served: Window, hostler: Hostler) -> None:
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(120))))
    said = hostler("jobs", "--limit", "3")
    assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["j118", "j119", "j120"]
    assert "117 older" in said.err
    assert len(hostler("jobs", "--json").json) == 120
    assert len(hostler("jobs").out.splitlines()) == 51


def test_jobs_of_some_states(busy: Window, hostler: Hostler) -> None:
    states = {job["id"]: job["state"] for job in hostler("jobs", "--json").json}
    said = hostler("jobs", "--state", states["j2"], "--json")
    assert [job["id"] for job in said.json] == [name for name, state in states.items() if state == states["j2"]]
    assert hostler("jobs", "--state", "done").out == "no jobs\n"


def test_an_unreachable_node_tells_its_trouble(busy: Window, hostler: Hostler) -> None:
    busy.tell(LinkDown(node="n", why=HOSTILE))
    said = hostler("node", "list")
    assert "down" in said.out
    assert "n: x\\x1b[2J\\n" in said.out


def test_an_unreachable_node_tells_what_becomes_of_its_work(busy: Window, hostler: Hostler) -> None:
    driver = busy.desk.driver
    driver.now = time.time()
    leased = replace(driver.state.nodes["n"].spec, lease_s=3600.0)
    busy.tell(NodeFound(node=leased), LinkDown(node="n", why="no route"))
    at = clock(busy.desk.nodes()[0].given_up_at or 0.0, time.time())
    said = " ".join(hostler("node", "list").out.split())
    assert f"n: no route; out of reach since {clock(driver.now, time.time())}, what it has may run on, and is" in said
    assert f"given to others at {at} (lease)" in said
    busy.tell(NodeFound(node=replace(leased, lease_s=None)))
    said = " ".join(hostler("node", "show", "n").out.split())
    assert "what it has may run on" in said
    assert "given to others" not in said


def test_nodes_are_cordoned_drained_and_resumed(served: Window, hostler: Hostler) -> None:
    served.desk.driver.now = time.time() - 121.0
    assert hostler("node", "cordon", "n", "--why", HOSTILE).out == "n cordoned\n"
    said = hostler("node", "list")
    assert f"n: cordoned for 2m by {getpass.getuser()}: x\\x1b[2J" in said.out
    (ban,) = hostler("hold", "list", "--json").json
    assert (ban["kind"], ban["what"], ban["owner"]) == ("cordon", "n", getpass.getuser())
    assert "hostler node resume n" in " ".join(hostler("hold", "list").out.split())
    assert hostler("node", "drain", "n", "--why", "new fan").out == "n drained\n"
    assert "drained for" in hostler("node", "show", "n").out
    assert "is drained by" in " ".join(hostler("node", "show", "n").out.split())
    assert hostler("node", "drain", "n", "--now", "--json").json[0]["cordon"]["now"]
    for _ in range(2):
        assert hostler("node", "resume", "n").out == "n takes work\n"
    assert hostler("hold", "list").out == "nothing is held back\n"
    for command in ("cordon", "drain", "resume"):
        said = hostler("node", command, "x")
        assert (said.status, "it has n" in said.err) == (2, True)


def test_a_command_is_submitted_word_by_word(served: Window, hostler: Hostler, tmp_path: Path) -> None:
    words = ["echo", "a b", "'\"; rm -rf ~", "--flag", "-h", "$HOME"]
    options = ["--name", HOSTILE, "--key", "k", "--priority", "-3", "--env", "A=b=c", "--walltime-s", "2.5"]
    place = ["--cwd", str(tmp_path), "--in-place"]
    more = ["--max-attempts", "exit=4", "--memory-gb", "1.5", *place, "--require-result"]
    said = hostler("submit", *options, *more, "--", *words)
    assert (said.status, said.out) == (0, "j1\n")
    spec = hostler("job", "show", "k", "--json").json["spec"]
    assert spec["payload"]["argv"] == words
    assert (spec["name"], spec["priority"], spec["walltime_s"]) == (HOSTILE, -3, 2.5)
    assert (spec["payload"]["env"], spec["payload"]["cwd"]) == ({"A": "b=c"}, str(tmp_path))
    assert spec["retry"]["max_attempts"] == {"exit": 4}
    assert (spec["resources"]["memory_gb"], spec["payload"]["require_result"]) == (1.5, True)


def test_a_command_says_what_a_jobs_file_can(served: Window, hostler: Hostler) -> None:
    needs = ["--gpus", "2", "--cpus", "1.5", "--vram-gb", "40", "--shards", "--shared", "--tier", "2", "--tier", "1"]
    more = ["--work", "training", "--config", "hex8_2p", "--expected-s", "60", "--expected-s", "RTX 4090=30.5"]
    assert hostler("submit", *needs, *more, "--checkpoints", "--", "true").out == "j1\n"
    assert hostler("submit", "--", "true").out == "j2\n"
    spec, plain = (hostler("job", "show", name, "--json").json["spec"] for name in ("j1", "j2"))
    asked = {name: spec["resources"][name] for name in ("gpus", "cpus", "vram_gb", "shards", "shared", "tiers")}
    assert asked == {"gpus": 2, "cpus": 1.5, "vram_gb": 40, "shards": True, "shared": True, "tiers": [2, 1]}
    assert (spec["work_as"], spec["config"], spec["checkpoints"]) == ("training", "hex8_2p", True)
    assert spec["expected_s"] == {"*": 60, "RTX 4090": 30.5}
    assert (plain["work_as"], plain["config"], plain["expected_s"], plain["checkpoints"]) == (None, None, {}, False)


def test_options_of_the_command_need_no_dashes_before_it(served: Window, hostler: Hostler) -> None:
    assert hostler("submit", "--own-dir", "python", "-c", "pass", "--json").out == "j1\n"
    payload = hostler("job", "show", "j1", "--json").json["spec"]["payload"]
    assert (payload["argv"], payload["cwd"]) == (["python", "-c", "pass", "--json"], None)


def test_submit_in_place_names_the_working_folder(
    served: Window, hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hostler("submit", "--in-place", "--", "./run")
    payload = hostler("job", "show", "j1", "--json").json["spec"]["payload"]
    assert (payload["cwd"], payload["in_place"], payload["snapshot"]) == (str(tmp_path), True, None)


def test_a_file_of_jobs(served: Window, hostler: Hostler, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps([{"name": "a", "argv": ["true"]}, {"name": "b", "argv": ["true"], "after": ["a"]}]))
    made = hostler("submit", "--jobs-file", str(file), "--json").json
    assert (made["ids"], made["group"]["id"]) == (["j1", "j2"], "g1")
    assert hostler("submit", "--jobs-file", str(file)).out == "j1\nj2\n"


@pytest.mark.parametrize(
    "words",
    [
        ["submit"],
        ["submit", "--jobs-file", "x.yaml", "--", "true"],
        ["submit", "--jobs-file", "nowhere.yaml"],
        ["submit", "--jobs-file", "nowhere.yaml", "--priority", "0"],
        ["submit", "--env", "A", "--", "true"],
        ["submit", "--max-attempts", "exit=many", "--", "true"],
        ["submit", "--max-attempts", "boredom=1", "--", "true"],
        ["submit", "--walltime-s", "0", "--", "true"],
        ["submit", "--after", "nobody", "--", "true"],
        ["submit", "--device", "tpu", "--", "true"],
        ["submit", "--gpus", "0", "--", "true"],
        ["submit", "--tier", "4", "--", "true"],
        ["submit", "--tier", "1", "--tier", "1", "--", "true"],
        ["submit", "--shards", "--", "true"],
        ["submit", "--work", "sweep", "--", "true"],
        ["submit", "--expected-s", "soon", "--", "true"],
        ["submit", "--expected-s", "nan", "--", "true"],
        ["submit", "--expected-s", "A=-1", "--", "true"],
        ["submit", "--", "a\0b"],
        ["submit", "--", "x" * (1 << 21)],
        ["sweep", "submit", "s", "--range", "5", "--worker", "w"],
        ["sweep", "submit", "s", "--range", "0:1.5", "--worker", "w"],
        ["sweep", "submit", "s", "--range", "0:9"],
        ["sweep", "submit", "s", "--range", "0:9", "--worker", "w", "--program", "p"],
        ["sweep", "submit", "s", "--range", "0:9", "--worker", "'w"],
        ["sweep", "submit", "s", "--range", "0:9", "--program", "no such program"],
        ["sweep", "submit", "s", "--range", "0:9", "--worker", "w", "--param", "x"],
        ["sweep", "submit", "s", "--range", "0:9", "--program", "sieve", "--cwd", "."],
        ["sweep", "submit", "s", "--range", "0:9", "--program", "sieve", "--own-dir"],
        ["sweep", "submit", "s", "--range", "0:9", "--worker", "w", "--own-dir", "--file", "*.py"],
        ["sweep", "submit", "s", "--range", "0:9", "--worker", "w", "--cwd", "nowhere"],
        ["sweep", "submit", "s", "--range", "0:9", "--worker", "w", "--file", "../secret"],
        ["job", "show", "j99"],
        ["logs", "j99"],
        ["logs", "j99.1"],
        ["logs", "j2"],
        ["sweep", "ledger", "j1"],
        ["sweep", "ledger"],
        ["job", "priority", "j1", "high"],
        ["jobs", "--limit", "0"],
        ["jobs", "--state", "lost"],
        ["frobnicate"],
        ["jobs", "--frobnicate"],
        ["check", "nowhere.yaml"],
    ],
    ids=lambda words: " ".join(words)[:50].replace("\0", "0"),
)
def test_what_cannot_be_is_a_line_of_error_and_status_2(still: Window, hostler: Hostler, words: list[str]) -> None:
    before = len(still.desk.driver.entries)
    said = hostler(*words)
    assert said.status == 2
    assert said.out == ""
    assert said.err.startswith("hostler: error: ")
    assert "Traceback" not in said.err
    assert len(still.desk.driver.entries) == before


def test_a_sweep_by_worker(served: Window, hostler: Hostler, tmp_path: Path) -> None:
    params = tmp_path / "params.yaml"
    params.write_text("a: 1\nb: [1, 2]\n")
    words = ["--range", "0x10:2**100", "--worker", "w 'two words'", "--params", str(params), "--param", "a=\x22z\x22"]
    assert hostler("sweep", "submit", "all", *words, "--own-dir", "--target-s", "3").out == "j1\n"
    payload = hostler("job", "show", "all", "--json").json["spec"]["payload"]
    assert (payload["start"], payload["stop"], payload["target_s"]) == (16, 2**100, 3)
    assert (payload["worker"], payload["params"]) == (["w", "two words"], {"a": "z", "b": [1, 2]})
    assert (payload["snapshot"], payload["cwd"]) == (None, None)


def test_sweep_by_worker_sends_the_folder_as_it_is(
    served: Window, hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "search.py").write_text("pass")
    (project / "notes.txt").write_text("of no use")
    monkeypatch.chdir(project)
    words = ["--range", "0:9", "--worker", "python search.py"]
    assert "files: 2 files, " in hostler("sweep", "submit", "all", *words).err
    assert "files: 1 file, " in hostler("sweep", "submit", "some", *words, "--file", "*.py").err
    monkeypatch.chdir(tmp_path)
    assert "nothing new to send" in hostler("sweep", "submit", "there", *words, "--cwd", "project").err
    digests = [
        hostler("job", "show", name, "--json").json["spec"]["payload"]["snapshot"] for name in ("all", "some", "there")
    ]
    assert (digests[0], len(set(digests))) == (digests[2], 2)
    said = hostler("sweep", "submit", "gone", "--range", "0:9", "--worker", "python nowhere.py", "--cwd", "project")
    assert f"note: there is no file 'nowhere.py' in {project}" in said.err


def test_sweep_of_a_folder_that_cannot_be_sent_names_what_helps(
    served: Window, hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    said = hostler("sweep", "submit", "s", "--range", "0:9", "--worker", "w", "--cwd", str(tmp_path))
    assert (said.status, "`--own-dir` sends no files" in said.err, "--in-place" in said.err) == (2, True, False)


def test_changes_of_mind(busy: Window, hostler: Hostler) -> None:
    assert hostler("job", "priority", "j3", "-7").out == "j3 pending, priority -7\n"
    assert hostler("cancel", "j3", "--reason", "no need").out == "j3 cancelled\n"
    assert hostler("retry", "j3", "--json").json[0]["state"] == "pending"
    said = hostler("cancel", "j3", "j99", "j2")
    assert (said.status, said.out) == (2, "j3 cancelled\nj2 cancelling\n")
    said = hostler("cancel", "j3")
    assert (said.status, "already" in said.err) == (2, True)


def test_output_is_printed_byte_by_byte_into_a_pipe(busy: Window) -> None:
    busy.desk.logs["j1.1", "out"] = bytes(range(256)) * 10_000
    busy.desk.ended.add("j1.1")
    done = subprocess.run(
        [sys.executable, "-m", "hostler.cli", "logs", "j1.1"], capture_output=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, b"j1.1 failed: exit 3\n")
    assert done.stdout == busy.desk.logs["j1.1", "out"]


def test_a_job_stands_for_its_newest_attempt(busy: Window, hostler: Hostler) -> None:
    newest = hostler("job", "show", "a", "--json").json["job"]["attempts"]
    busy.desk.logs[f"j1.{newest}", "err"] = b"oh\n"
    assert hostler("logs", "a", "--stream", "err").out == "oh\n"


def test_following_goes_on_until_the_attempt_has_ended(
    busy: Window, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy.desk.logs["j1.1", "out"] = b"first\n"

    def write(_: float) -> None:
        busy.desk.logs["j1.1", "out"] += b"more\n"
        if len(busy.desk.logs["j1.1", "out"]) > 20:
            busy.desk.ended.add("j1.1")

    monkeypatch.setattr(time, "sleep", write)
    assert hostler("logs", "j1.1", "-f").out == "first\nmore\nmore\nmore\n"


def test_events_end_at_now_and_are_complete_as_json_lines(busy: Window, hostler: Hostler) -> None:
    lines = hostler("events", "--after", "0", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(busy.desk.driver.entries) + 1))
    assert hostler("events", "--after", str(len(lines))).out == ""
    assert hostler("events", "--after", str(len(lines) + 1)).status in (0, 1)


def test_down_drains(busy: Window, hostler: Hostler) -> None:
    assert hostler("down").status == 0
    assert busy.desk.drained == 1


def test_check_tells_values_and_where_they_come_from(hostler: Hostler, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("name: mine\nnodes:\n  - name: here\n    backend: local\n")
    said = hostler("check", str(file), "--json")
    assert said.status == 0
    settings = {each["path"]: each for each in said.json}
    assert settings["name"]["value"] == "mine"
    assert "fleet.yaml:1" in settings["name"]["origin"]
    assert "good" in hostler("check", str(file)).out


def test_check_names_every_fault(hostler: Hostler, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("nmae: mine\n")
    said = hostler("check", str(file))
    assert said.status == 2
    assert "nmae" in said.err


GPU = "{name: g, backend: virtual, gpus: [{model: RTX 4090, count: 2, vram_gb: 24}]}"
CPU = "{name: here, gpus: none, cpu_slots: 1}"
BIG = "{name: hex8_2p, training: {resources: {device: gpu, vram_gb: 48}}}"


def fleet_file(folder: Path, text: str) -> str:
    """A fleet file with this text."""
    path = folder / "a-rather-long-name-of-a-fleet-file.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            f"nodes: [{GPU}, {CPU}]\nconfigs: [{BIG}]",
            "training of hex8_2p fits on no device: VRAM: needs 48 GB, g/cuda0",
        ),
        (f"nodes: [{GPU}, {CPU}]\njobs: [{{name: j, argv: [x], resources: {{gpus: 3}}}}]", "script of j fits on no"),
        ("nodes: [{name: a, gpus: none, cpu_slots: 0}]\njobs: [{name: j, argv: [x]}]", "device: the fleet has none"),
        (
            f"nodes: [{GPU}, {CPU}]\nconfigs: [{{name: hex8_2p}}]\nconfig_quotas: {{hex8_2p: 0.5}}",
            "quotas of tier 1: the fleet has no node of that tier",
        ),
        (
            "nodes: [{name: g, backend: virtual, price_per_h: 9, gpus: [{model: H100, vram_gb: 80}]}]\n"
            "scheduling: {cost: {max_price_per_h: {script: 1}}}\njobs: [{name: j, argv: [x]}]",
            "price cap: costs 9 per hour",
        ),
    ],
)
def test_check_finds_what_the_fleet_cannot_do(hostler: Hostler, tmp_path: Path, text: str, told: str) -> None:
    said = hostler("check", fleet_file(tmp_path, text))
    assert said.status == 1
    assert told in " ".join(said.out.split())
    assert "wrong: " in said.out
    assert said.out.splitlines()[-1].startswith("has faults: ")


def test_of_gpus_that_a_probe_finds_nothing_is_said(hostler: Hostler, tmp_path: Path) -> None:
    said = hostler(
        "check", fleet_file(tmp_path, f"nodes: [{{name: here}}]\nconfigs: [{BIG}]\nconfig_quotas: {{hex8_2p: 1}}")
    )
    assert (said.status, "wrong" in said.out) == (0, False)
    assert said.out.splitlines()[-1] == "good: 0 jobs, 0 sweeps, 1 training config"


def test_exports_without_a_cpu_slot_are_worth_a_note(hostler: Hostler, tmp_path: Path) -> None:
    text = "configs: [{name: hex8_2p}]\nnodes:"
    assert "note: no CPU slot takes exports" in hostler("check", fleet_file(tmp_path, f"{text} [{GPU}]")).out
    assert "no CPU slot" not in hostler("check", fleet_file(tmp_path, f"{text} [{GPU}, {CPU}]")).out
    busy = "{name: here, gpus: none, cpu_slots: 1, work: [sweep]}"
    said = hostler("check", fleet_file(tmp_path, f"{text} [{GPU}, {busy}]"))
    assert (said.status, "no CPU slot takes exports" in said.out) == (0, True)


def test_check_shows_the_line_a_setting_comes_from(
    hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = hostler("check", fleet_file(tmp_path, f"nodes:\n- {GPU}\n- {CPU}\nconfigs:\n- {{name: hex8_2p}}\n"))
    assert all(len(line) <= 80 for line in said.out.splitlines())
    _, _, below = said.out.partition("\nconfigs[0].name ")
    assert "file.yaml:5:10" in "".join(part.strip() for part in below.splitlines()[:4])


def test_up_warns_of_what_check_calls_wrong(hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.runtime.up.run", lambda *args, **kwargs: 0)
    said = hostler(
        "up", fleet_file(tmp_path, f"nodes: [{CPU}]\nconfigs: [{{name: hex8_2p}}]\nconfig_quotas: {{hex9: 1}}")
    )
    assert said.status == 0
    assert "hostler: warning: quotas of tier 1: the fleet has no node of that tier" in said.err.splitlines()
    assert hostler("up", fleet_file(tmp_path, f"nodes: [{CPU}]")).err == ""


def test_daemons_tell_what_comes_to_an_end_and_what_each_part_did(served: Window, hostler: Hostler) -> None:
    assert hostler("status", "--health").out.startswith("idle: nothing waits and nothing has a device\n")
    hostler("submit", "--", "true")
    said = hostler("status", "--health")
    assert said.out.startswith("beginning: 1 jobs have devices, 0 wait")
    assert "core" in said.out
    assert "decides" in said.out
    assert hostler("status", "--health", "--json").json["parts"][0]["name"] == "core"
