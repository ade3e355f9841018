"""A damaged journal as its owner sees it: `up` names the entry and the command, and goes on after the repair."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from hostler.store.opening import FILE
from tests.integration.conftest import Fleet, Hostler, until


def sql(fleet: Fleet, statement: str) -> int:
    with closing(sqlite3.connect(fleet.state / FILE)) as connection, connection:
        return connection.execute(statement).rowcount


def test_up_names_a_damaged_entry_and_goes_on_after_a_repair(fleet: Fleet, hostler: Hostler) -> None:
    fleet.start()
    job = fleet.script("true", key="first")
    assert fleet.over(job)["job"]["state"] == "done"
    # The job is done in memory a moment before it is in the journal.
    until(lambda: any(each["event"]["kind"] == "job.done" for each in fleet.client.entries()), "the end in the journal")
    fleet.kill()  # no snapshot is written
    changed = "update journal set data = replace(data, '\"exit_code\":0', '\"exit_code\":1') where data like "
    assert sql(fleet, changed + "'%attempt.ended%'") == 1
    fleet.launch()
    assert fleet.ended() != 0
    assert "of the journal is damaged: its checksum does not match" in fleet.log()
    assert "Run `hostler journal repair`, which copies the journal first" in fleet.log()
    said = hostler(fleet, "journal", "repair")
    assert said.status == 0, said.err
    assert "its effect is lost" in " ".join(said.out.split())
    assert "before-repair-" in " ".join(said.out.split())
    fleet.start()
    assert fleet.over("first")["job"]["state"] in ("done", "lost")
    assert fleet.over(fleet.script("true", key="second"))["job"]["state"] == "done"
    made = hostler(fleet, "backup", "create", str(fleet.path / "one.backup"))
    assert made.status == 0, made.err
    assert hostler(fleet, "backup", "verify", str(fleet.path / "one.backup")).status == 0


def test_damage_behind_a_snapshot_is_a_trouble_of_a_running_controller(fleet: Fleet, hostler: Hostler) -> None:
    fleet.start()
    assert fleet.over(fleet.script("true"))["job"]["state"] == "done"
    fleet.controller.terminate()  # type: ignore[union-attr]
    assert fleet.ended() == 0
    assert sql(fleet, "update journal set data = replace(data, '\"priority\":0', '\"priority\":1')") >= 1
    fleet.start()
    until(lambda: "trouble: entry" in fleet.printed(), "the damaged entry in the output", log=fleet.log)
    assert "hostler journal repair" in fleet.printed()
    fleet.kill()
    said = hostler(fleet, "journal", "repair")
    assert "its effect is in the snapshot" in " ".join(said.out.split())
    assert "no job is gone" in " ".join(said.out.split())
    fleet.start()
    assert fleet.job("j1")["state"] == "done"
