"""Real fleets that are backed up while they work, lost, and gone on with from the backup: nothing is counted twice."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hostler.model.events import (
    AttemptLeased,
    ChunkLeased,
    ChunkTaken,
    Entry,
    JobDone,
    JobSubmitted,
    JournalRestored,
    ModelPromoted,
)
from hostler.store import open_journal
from tests.backends.ssh import sshd
from tests.integration.conftest import (
    NODE,
    PATIENCE_S,
    WAIT,
    WORKER,
    Fleet,
    Hostler,
    Said,
    View,
    a_fleet,
    command,
    until,
)
from tests.integration.loops import CONFIG, LOOP_PATIENCE_S, journal_of, soon, tiny
from tests.integration.test_loop_commands import own

GOAL = {"promotions": 1, "candidates": 5, "failures": 3}
MARKS = WAIT + "open(sys.argv[2], 'a').write(f'{os.getpid()}\\n'); open(os.environ['HOSTLER_RESULT'], 'w').write('42')"
"""Waits for the first file; then adds a line to the second, and has a result."""
GATED = WAIT + "import runpy; sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')"
"""Waits for the first file; then is the program named next."""


def backed_up(fleet: Fleet, target: Path) -> Path:
    """A backup of a fleet's state directory."""
    said = command("backup", "create", target, "--state-dir", fleet.state)
    assert (said.status, said.err) == (0, ""), said
    path = Path(said.out.partition(": ")[0])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path


def proved(fleet: Fleet, path: Path) -> None:
    """It is whole."""
    said = command("backup", "verify", path, "--state-dir", fleet.state)
    assert (said.status, said.err) == (0, ""), said
    assert "is whole" in said.out


def restored(fleet: Fleet, backup: Path) -> Said:
    """Go on from a backup in the fleet's state directory."""
    said = command("backup", "restore", backup, "--state-dir", fleet.state)
    assert said.status == 0, said
    return said


def entries_of(state: Path) -> list[Entry]:
    """A journal, whole."""
    journal = open_journal(state)
    try:
        return list(journal.read())
    finally:
        journal.close()


def most(fleet: Fleet, what: str) -> int:
    """How many of these the config has that has most."""
    return max((config[what] for config in fleet.client.configs()), default=0)


def objects(root: Path) -> set[str]:
    """The names of the artifacts in a store."""
    return {each.name for each in root.glob("objects/*/[!.]*")}


def given(entries: list[Entry]) -> set[str]:
    """Every id that these entries have given away."""
    found = set()
    for entry in entries:
        match entry.event:
            case JobSubmitted(job=name) | AttemptLeased(attempt=name) | ChunkLeased(chunk=name):
                found.add(name)
    return found


def before_restore(entries: list[Entry]) -> list[Entry]:
    """The entries that came from the backup."""
    (at,) = [entry.seq for entry in entries if isinstance(entry.event, JournalRestored)]
    return [entry for entry in entries if entry.seq < at]


def promoted(entries: list[Entry]) -> list[str]:
    """The models that won a test; the untrained first one of a config wins none."""
    events = [entry.event for entry in entries]
    return [event.model for event in events if isinstance(event, ModelPromoted) and event.over is not None]


def no_id_twice(lost: list[Entry], gone_on: list[Entry]) -> None:
    """What was given after the backup, before and after the loss, has nothing in common."""
    kept = before_restore(gone_on)
    assert kept == lost[: len(kept)]
    assert not given(lost[len(kept) :]) & given(gone_on[len(kept) :])


def once_each(entries: list[Entry]) -> None:
    """Every job has one accepted result at most."""
    done = Counter(entry.event.job for entry in entries if isinstance(entry.event, JobDone))
    assert set(done.values()) <= {1}


@pytest.mark.long
@pytest.mark.parametrize("keeps_artifacts", [True, False], ids=["its own store is kept", "all that it had is gone"])
def test_a_loop_that_lost_its_controller_comes_to_its_end_from_a_backup(tmp_path: Path, keeps_artifacts: bool) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    store = {"name": "shelf", "kind": "directory", "path": str(shelf), "domain": "shelf", "reserve_gb": 0.0}
    copies = {"games": {"copies": 2}, "dataset": {"copies": 2}, "candidate": {"copies": 2}, "former": {"copies": 2}}
    verdicts = tmp_path / "verdicts"
    settings = {
        # Two evaluations, one of each config, may wait at the gate: the other stages need slots beside them.
        "nodes": [{**NODE, "cpu_slots": 4}],
        "configs": [gated(own(name, idle_after=GOAL), "evaluation", verdicts) for name in ("coins", "dice")],
        "stores": [store],
        "replication": copies,
    }
    with a_fleet(tmp_path, **settings) as fleet:
        fleet.start()
        soon(lambda: most(fleet, "datasets") > 0, "its first dataset", fleet)
        # A controller without --until-idle has no goal: on a slow machine, a backup taken while candidates are judged
        # may hold promotions beyond the goal, and the loop rightly keeps them.
        backup = backed_up(fleet, tmp_path)
        verdicts.touch()
        had = objects(fleet.state / "artifacts")
        soon(lambda: most(fleet, "models") > 1, "what is lost", fleet)
        soon(lambda: had <= objects(shelf), "copies of what the backup knows", fleet)
        fleet.kill()
        lost = entries_of(fleet.state)
        fleet.clean_up()
        proved(fleet, backup)
        (tmp_path / "elsewhere").mkdir()
        if keeps_artifacts:
            (tmp_path / "elsewhere" / "state").mkdir()
            (fleet.state / "artifacts").rename(tmp_path / "elsewhere" / "state" / "artifacts")
        shutil.rmtree(fleet.state)
        with a_fleet(tmp_path / "elsewhere", **settings) as other:
            said = restored(other, backup)
            assert "every artifact of its index is in a place" in said.out or not keeps_artifacts, said.out
            assert other.launch("--until-idle").wait(LOOP_PATIENCE_S) == 0, other.log()
            with journal_of(other) as (core, entries):
                assert {config.promotions for config in core.state.configs.values()} == {1}
                no_id_twice(lost, entries)
                once_each(entries)
                assert promoted(before_restore(entries)) == []
            exported(other, "coins")


def gated(config: View, stage: str, gate: Path) -> View:
    """The config, with a stage that waits for a file before it does its work."""
    python, *program = config[stage]["command"]
    config[stage]["command"] = [python, "-c", GATED, str(gate), *program]
    return config


def exported(fleet: Fleet, config: str) -> None:
    """All about a config comes into one file, twice the same, and is what it says."""
    files = [fleet.path / name for name in ("one.tar.gz", "two.tar.gz")]
    for file in files:
        said = command("model", "export", config, "-o", file, "--state-dir", fleet.state)
        assert (said.status, said.err) == (0, ""), said
    assert files[0].read_bytes() == files[1].read_bytes()
    with tarfile.open(files[0]) as tar:
        content = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    manifest = json.loads(content.pop(f"{config}/manifest.json"))
    assert {name.removeprefix(f"{config}/") for name in content} == manifest["members"].keys()
    for name, told in manifest["members"].items():
        data = content[f"{config}/{name}"]
        assert (len(data), hashlib.sha256(data).hexdigest()) == (told["bytes"], told["sha256"])
        if name.startswith("objects/"):
            assert Path(name).name.partition(".")[0] == told["sha256"]
    lineage = json.loads(content[f"{config}/lineage.json"])
    assert {each["kind"] for each in lineage.values()} >= {"games", "dataset", "model"}
    assert sum(name.startswith("objects/") for name in manifest["members"]) == len(lineage)
    assert manifest["current"] in lineage
    promoted = [json.loads(line) for line in content[f"{config}/promotions.jsonl"].splitlines()]
    assert [each["model"] for each in promoted if each["kind"] == "model.promoted"][-1] == manifest["current"]
    assert content[f"{config}/matches.jsonl"]
    less = fleet.path / "less.tar.gz"
    words = ("--without", "games", "--without", "dataset", "--without", "evaluation")
    assert command("model", "export", config, "-o", less, *words, "--state-dir", fleet.state).status == 0
    with tarfile.open(less) as tar:
        kinds = {lineage[Path(name).name.partition(".")[0]]["kind"] for name in tar.getnames() if "/objects/" in name}
    assert kinds == {"model"}
    assert command("model", "export", "none", "--state-dir", fleet.state).status == 2


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet whose one node is behind SSH, so that its agent outlives everything that this machine has of it."""
    if sshd.MISSING is not None:
        pytest.skip(sshd.MISSING)
    with sshd.running(tmp_path / "sshd") as server:
        node = {
            "name": "rig",
            "backend": "ssh",
            "host": "127.0.0.1",
            "port": server.port,
            "identity": str(server.folder / "client"),
            "dir": str(tmp_path / "on-rig"),
            "cpu_slots": 3,
        }
        ssh = {"config": [], "known_hosts": [], "connect_s": PATIENCE_S}
        with a_fleet(tmp_path, name="far", ssh=ssh, nodes=[node]) as fleet:
            trusted = command("node", "trust", fleet.file, "--yes", "--state-dir", fleet.state)
            assert trusted.status == 0, trusted
            try:
                yield fleet
            finally:
                end_agents(tmp_path / "on-rig")


def end_agents(folder: Path) -> None:
    """End what was started in the folder of a node, by process id."""
    for process in psutil.process_iter():
        try:
            if any(word.startswith(f"{folder}/") for word in process.cmdline()):
                process.kill()
        except psutil.Error:
            continue


@pytest.mark.services
def test_what_nodes_did_since_the_backup_is_put_down_and_what_they_had_is_found_again(
    rig: Fleet, hostler: Hostler, tmp_path: Path
) -> None:
    """The main way from end to end: backed up under load, lost with all it had since, and gone on with."""
    rig.start()
    known = rig.python(MARKS, str(tmp_path / "go"), str(tmp_path / "known"))
    known_pid = rig.pid(known)
    worker = [sys.executable, str(WORKER)]
    params = {"planted": [0, 7, 4095], "pause_s": 0.002}
    words = ("--range", "0:2**12", "--worker", " ".join(worker), "--own-dir", "--target-s", "0.3")
    asked = [word for name, value in params.items() for word in ("--param", f"{name}={value}")]
    swept = hostler(rig, "sweep", "submit", "planted", *words, *asked).out.strip()
    until(lambda: rig.client.sweep(swept)["done"] > 200, "some of the sweep", log=rig.log)
    backup = backed_up(rig, tmp_path)
    unknown = rig.python(MARKS, str(tmp_path / "never"), str(tmp_path / "unknown"))
    unknown_pid = rig.pid(unknown)
    until(lambda: rig.client.sweep(swept)["done"] > 1500, "more of the sweep", log=rig.log)
    rig.kill()
    rig.start()  # the node has heard of a later controller than the backup has
    rig.kill()
    lost = entries_of(rig.state)
    rig.state.rename(tmp_path / "gone")

    restored(rig, backup)
    rig.start()
    until(lambda: not psutil.pid_exists(unknown_pid), "the end of what nobody knows of", log=rig.log)
    other = rig.python(MARKS, str(tmp_path / "go"), str(tmp_path / "other"))
    assert other != unknown
    assert rig.pid(known) == known_pid
    (tmp_path / "go").touch()
    assert [rig.over(job)["result"] for job in (known, other)] == [42, 42]
    rig.state_of(swept, "done")
    assert sorted(hit["data"]["at"] for hit in rig.client.hits(swept)) == [0, 7, 4095]
    assert [len((tmp_path / name).read_text().split()) for name in ("known", "other")] == [1, 1]
    assert not (tmp_path / "unknown").exists()
    rig.kill()
    with journal_of(rig) as (core, entries):
        no_id_twice(lost, entries)
        once_each(entries)
        assert core.state.sweeps[swept].ledger.done == [(0, 4096)]
        assert not [entry for entry in entries if isinstance(entry.event, ChunkTaken) and entry.event.silent]


@pytest.mark.long
def test_backups_under_load_are_whole_and_a_killed_one_leaves_nothing(fleet: Fleet, tmp_path: Path) -> None:
    fleet.settle(nodes=[NODE], jobs=[{"name": f"n{at}", "argv": ["true"]} for at in range(100)])
    fleet.start()
    folder = tmp_path / "backups"
    folder.mkdir()
    for at in range(2):
        proved(fleet, backed_up(fleet, folder / f"b{at}"))
    making = [sys.executable, "-m", "hostler", "backup", "create", str(folder / "cut"), "--state-dir", str(fleet.state)]
    for _ in range(2):
        begin_and_kill(making, folder)
        if (folder / "cut").exists():  # it was quicker
            proved(fleet, folder / "cut")
            (folder / "cut").unlink()
    assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == [f"b{at}" for at in range(2)]


def begin_and_kill(making: list[str], folder: Path) -> None:
    """`kill -9` it as soon as it has a file."""
    process = subprocess.Popen(making, stdout=subprocess.DEVNULL)
    until(lambda: any(folder.glob(".cut.*.tmp")) or process.poll() is not None, "its file")
    process.kill()
    process.wait()


def test_nothing_is_restored_beside_a_controller_or_over_what_is_there(
    fleet: Fleet, hostler: Hostler, tmp_path: Path
) -> None:
    fleet.start()
    fleet.over(fleet.script("true"))
    backup = backed_up(fleet, tmp_path)
    said = hostler(fleet, "backup", "restore", str(backup))
    assert (said.status, "is in use" in said.err, "mv " in said.err) == (2, True, True)
    assert hostler(fleet, "backup", "create", str(backup)).status == 2
    spoilt = tmp_path / "spoilt"
    content = bytearray(backup.read_bytes())
    content[len(content) // 3] ^= 4
    spoilt.write_bytes(content)
    for words in (("verify", str(spoilt)), ("restore", str(spoilt), "--state-dir", str(tmp_path / "new"))):
        said = hostler(fleet, "backup", *words)
        assert (said.status, "is damaged" in said.err) == (1, True)
    assert not (tmp_path / "new").exists()
    assert hostler(fleet, "backup", "verify", str(tmp_path / "nothing")).status == 2


@pytest.mark.long
def test_what_was_exported_is_all_that_a_stage_needs(tmp_path: Path) -> None:
    """An evaluation is played once more with nothing but what lies in the tarball."""
    goal = {"promotions": 1, "candidates": 3, "failures": 3}
    with a_fleet(tmp_path, configs=[tiny({"OMP_NUM_THREADS": "1"}, idle_after=goal)]) as fleet:
        fleet.launch("--until-idle").wait(LOOP_PATIENCE_S)
        said = command("model", "export", CONFIG, "-o", tmp_path / "all.tar.gz", "--json", "--state-dir", fleet.state)
        assert (said.status, said.json["missing"]) == (0, [])
        shutil.rmtree(fleet.state / "artifacts")
        less = command("model", "export", CONFIG, "-o", tmp_path / "less.tar.gz", "--state-dir", fleet.state)
        assert (less.status, "no place has it" in less.err) == (1, True)
    with tarfile.open(tmp_path / "all.tar.gz") as tar:
        tar.extractall(tmp_path / "out", filter="data")
    folder = tmp_path / "out" / CONFIG
    events = [json.loads(line)["event"] for line in (folder / "events.jsonl").read_text().splitlines()]
    done = {event["job"] for event in events if event["kind"] == "job.done"}
    orders = [
        event["spec"]["payload"]["order"]
        for event in events
        if event["kind"] == "job.submitted"
        and event["job"] in done
        and event["spec"]["payload"]["order"]["stage"] == "evaluation"
    ]
    (tmp_path / "order.json").write_text(json.dumps(orders[-1]))
    places = {"HOSTLER_INPUTS": "order.json", "HOSTLER_RESULT": "result.json", "HOSTLER_ARTIFACTS": str(folder)}
    env = {**os.environ, **{name: str(tmp_path / value) for name, value in places.items()}, "OMP_NUM_THREADS": "1"}
    stage = [sys.executable, "-m", "hostler.workloads.alphazero", "evaluation"]
    assert subprocess.run(stage, env=env, check=False, timeout=LOOP_PATIENCE_S).returncode == 0
    assert json.loads((tmp_path / "result.json").read_text())["matches"]
