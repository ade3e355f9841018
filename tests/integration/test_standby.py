"""Two real controllers on one real PostgreSQL: one leads, the other shows, and takes over when the first is gone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.model.errors import LinkError, StandsBy
from hostler.runtime.losing import JOBS
from tests import postgres
from tests.backends.ssh import sshd
from tests.integration.conftest import Hostler, until
from tests.integration.standbys import Seat, Town, a_town, submitted, take_over_s, town_log

pytestmark = pytest.mark.services

if _why := postgres.missing() or sshd.MISSING:
    pytest.skip(_why, allow_module_level=True)


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with a_town(tmp_path) as made:
        yield made


def test_one_leads_and_the_other_shows_and_takes_over(town: Town, hostler: Hostler) -> None:
    first = town.start("a")
    until(lambda: town.leading() is first, "the nodes of a", log=first.log)
    (done, waiting) = first.client.submit_jobs([town.counted("done", 0.1), town.counted("waiting")])
    first.state_of(done, "done")
    first.state_of(waiting, "running")

    second = town.start("b")
    assert not second.leads()
    until(lambda: second.client.status()["seq"] >= first.client.status()["seq"], "what a wrote at b")
    assert second.job(done)["state"] == "done"
    assert hostler(second, "jobs").out.count("running") == 1
    with pytest.raises(StandsBy, match=r"changes nothing; .+ leads: ask that one"):
        second.client.submit_jobs([town.counted("never")])
    shown = hostler(second, "status").out
    assert "stands by" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert first.client.status()["leader"] is None

    first.kill()
    take_over_s(town, first)
    assert second.leads()
    (after,) = second.client.submit_jobs([town.counted("after", 0.1)])
    second.state_of(after, "done")
    assert second.job(waiting)["state"] == "running", town_log(town)
    (town.folder / "go-waiting").touch()
    second.state_of(waiting, "done")
    assert [town.ran(name) for name in ("done", "waiting", "after")] == [1, 1, 1]

    again = town.start("a")
    assert not again.leads(), "whoever comes back stands by"
    second.signal(signal.SIGTERM)
    assert second.ended() == 0, second.log()
    take_over_s(town, second)
    assert again.job(after)["state"] == "done"
    epochs = [epoch for _, epoch in town.epochs()]
    assert epochs == sorted(epochs)
    assert set(epochs) == {1, 2, 3}


def test_a_leader_that_slept_finds_that_it_leads_no_more(town: Town) -> None:
    """It is stopped with work in hand; when it goes on, another one has done that work, and nothing is done twice."""
    first = town.start("a")
    until(lambda: town.leading() is first, "the nodes of a", log=first.log)
    town.start("b")
    first.client.submit_jobs([town.counted(f"job-{at}", 0.3) for at in range(12)])
    first.freeze()
    take_over_s(town, first)
    second = town.controllers["b"]
    for at in range(12):
        second.state_of(f"job-{at}", "done")
    first.thaw()
    until(lambda: "has taken over" in first.log(), "that a knows it", log=first.log)
    until(first.answers, "a as a standby", log=first.log)
    assert not first.leads()
    assert second.leads()
    assert first.client.status()["seq"] <= second.client.status()["seq"]
    assert [town.ran(f"job-{at}") for at in range(12)] == [1] * 12
    epochs = [epoch for _, epoch in town.epochs()]
    assert epochs == sorted(epochs)


def test_controllers_and_database_die_in_turn(town: Town) -> None:
    """Whoever is left goes on; everything that was confirmed is done once."""
    town.start("a")
    town.start("b")
    confirmed: list[str] = []
    for turn in range(3):
        names = [f"t{turn}-{at}" for at in range(4)]
        leading = submitted(town, [town.counted(name, 0.2) for name in names])
        confirmed += names
        if turn == 1:
            town.database.kill()
            town.database.start()
            continue
        leading.kill()
        town.start(next(name for name, seat in town.controllers.items() if seat is leading))
    last = until(town.leading, "a leader", log=lambda: town_log(town))
    for name in confirmed:
        last.state_of(name, "done")
    assert [town.ran(name) for name in confirmed] == [1] * len(confirmed)


def test_what_the_database_loses_is_lost_for_all_of_them_alike(town: Town) -> None:
    """As after a fail-over to a replica that lagged: nobody shows what is no more, or leads with it."""
    first = town.start("a")
    until(lambda: town.leading() is first, "the nodes of a", log=first.log)
    second = town.start("b")
    kept = first.client.status()["seq"]
    first.client.create_token("lost")
    until(lambda: _tokens(second) == ["lost"], "the token at b", log=second.log)
    town.lose(kept)
    until(lambda: "has lost what it had confirmed" in first.log(), "that a knows it", log=first.log)
    leading = submitted(town, [town.counted("after", 0.01)])
    leading.client.create_token("after")
    name = leading.job("after")["id"]
    assert int(name[1:]) > JOBS, "nodes may know of jobs that were lost"
    leading.state_of(name, "done")
    until(lambda: not town.leader().lost, "that no number of those is given", log=leading.log)
    for each in (first, second):
        until(lambda each=each: _tokens(each) == ["after"], "what is left", log=each.log)  # type: ignore[misc]
    leading.kill()
    take_over_s(town, leading)
    last = town.controllers["b" if leading is first else "a"]
    last.client.create_token("more")
    assert _tokens(last) == ["after", "more"]
    assert [each.name for each in town.replayed().state.access.tokens.values()] == ["after", "more"]


def test_secret_of_a_job_is_that_of_the_machine_that_leads(town: Town) -> None:
    """Each has its own value; one that only the dead machine had fails the job with the way to set it."""
    first = town.start("a")
    until(lambda: town.leading() is first, "the nodes of a", log=first.log)
    second = town.start("b")
    for seat, value in ((first, "of-a"), (second, "of-b")):
        seat.client.set_secret("shared", value)
    first.client.set_secret("alone", "only-a")
    gate, early, late, alone = first.client.submit_jobs(
        [
            town.counted("gate"),
            _telling(town, "early", {"SHARED": {"secret": "shared"}}),
            _telling(town, "late", {"SHARED": {"secret": "shared"}}, after=["gate"]),
            _telling(town, "alone", {"SHARED": {"secret": "alone"}}, after=["gate"]),
        ]
    )
    first.state_of(early, "done")
    first.state_of(gate, "running")
    first.kill()
    take_over_s(town, first)
    (town.folder / "go-gate").touch()
    second.state_of(late, "done")
    second.state_of(alone, "failed")
    told = [town.folder / f"told-{name}" for name in ("early", "late", "alone")]
    assert [path.read_text() if path.exists() else None for path in told] == ["of-a", "of-b", None]
    failed = second.job(alone)
    assert "hostler secret set alone" in str(failed), failed
    assert failed["attempts"] == 1, "no node has it"
    journal = "".join(map(repr, town.replayed().state.jobs.values()))
    assert not any(value in journal for value in ("of-a", "of-b", "only-a"))


def _telling(town: Town, name: str, env: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A script that writes its variable SHARED into a file."""
    body = f'printf %s "$SHARED" > {town.folder}/told-{name}'
    return {"name": name, "key": name, "argv": ["sh", "-c", body], "env": env, **more}


def _tokens(seat: Seat) -> list[str] | None:
    """The names of the tokens that it shows; `None`: it does not answer just now."""
    try:
        return [each["name"] for each in seat.client.tokens()]
    except (LinkError, FileNotFoundError):
        return None


def test_a_standby_with_nodes_of_its_own_machine_is_refused(town: Town) -> None:
    town.start("a")
    second = town.controllers["b"]
    second.settle(store=town.address, name="town")
    second.launch()
    assert second.ended() == 2
    assert "'here' is local, so it would be another machine" in second.log()


def test_a_standby_ends_when_it_is_told_to_and_the_leader_goes_on(town: Town, hostler: Hostler) -> None:
    first = town.start("a")
    second = town.start("b")
    said = hostler(second, "down")
    assert said.status == 0, said.err
    assert second.ended() == 0, second.log()
    assert first.leads()
