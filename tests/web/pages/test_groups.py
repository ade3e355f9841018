"""The pages of job groups, of a job's group, of owners, and of the jobs that are a viewer's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from hostler.model import inputs
from hostler.model.groups import JOBS_MAX, GroupSpec, SubmitGroup
from hostler.model.inputs import Submit
from hostler.model.work import FailureClass, Retry
from hostler.web.pages import groups, queue
from tests.core.builders import ended, fleet, script
from tests.web.core_desk import CoreDesk, Window, window
from tests.web.pages.test_pages import HARM, page
from tests.web.test_access import bearer, make

ONCE = Retry(max_attempts={FailureClass.EXIT: 1})


def submit_grid(served: Window, count: int, name: str = "grid") -> None:
    jobs = tuple(script(f"train {n}", parameters={"lr": f"0.{n}"}, retry=ONCE) for n in range(1, count + 1))
    served.tell(SubmitGroup(spec=GroupSpec(name=name), jobs=jobs))


@pytest.fixture
def grid() -> Iterator[Window]:
    """A group of four jobs on two devices: one is done and has a result, one has failed, two run."""
    with window() as served:
        submit_grid(served, 4)
        served.tell(ended("j1.1", exit_code=0, result={"accuracy": 0.9312345678, "nested": {"a": 1}}))
        served.tell(ended("j2.1", exit_code=3, error="ValueError: no data"))
        yield served


@pytest.fixture
def lab() -> Iterator[Window]:
    """Jobs and a group of anna, and a job of ben."""
    desk = CoreDesk(fleet(devices=1))
    desk.driver.tell(inputs.Begin(version="test", epoch=1, user="ops"))
    with window(desk) as served:
        anna, ben = (bearer(make(served, name, "operate", owner=name)) for name in ("anna", "ben"))
        jobs = [{"argv": ["true"], "name": name} for name in ("a1", "a2")]
        served.post("/api/v1/groups", {"group": {"name": "of anna"}, "jobs": jobs}, headers=anna)
        served.post("/api/v1/jobs", [{"argv": ["true"], "name": "b1"}], headers=ben)
        yield served


def rows(text: str, part: str) -> list[list[str]]:
    """The cells of the table of a part, as text."""
    body = text.partition(f'<div id="{part}"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    cells = (
        re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    )
    return [[unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells]


def test_groups_are_listed_with_their_numbers(grid: Window) -> None:
    text = page(grid, "groups")
    (row,) = rows(text, "groups")
    assert row[:8] == ["g1 grid", "–", "4", "1", "1", "0", "2", "0"]
    assert row[9] == "not yet"
    assert 'href="/pages/groups/g1"' in text


def test_group_shows_parameters_states_durations_devices_and_results(grid: Window) -> None:
    text = page(grid, "groups/g1")
    first, second, third, _ = rows(text, "jobs")
    titles = re.findall(r"<th(?: [^>]*)?>(.*?)</th>", text.partition('<div id="jobs"')[2])
    assert titles == ["Job", "lr", "State", "Duration", "Device", "accuracy"]
    assert first == ["j1", "0.1", "done", first[3], "n/cpu0", "0.931235"]
    assert first[3] != "–"
    assert second[2] == "failed exit 3, attempt 1 of 1"
    assert third[2] in ("running", "launching", "leased")
    assert 'href="/pages/jobs/j1"' in text


def test_group_page_has_the_actions_of_the_command_line(grid: Window) -> None:
    text = page(grid, "groups/g1")
    steer = text.partition('aria-labelledby="steer"')[2].partition("</section>")[0]
    assert 'data-api="/api/v1/groups/g1/cancel"' in steer
    assert 'data-api="/api/v1/groups/g1/retry"' in steer
    assert 'data-set="only_failed"' in steer


def test_unknown_group_is_an_apology(grid: Window) -> None:
    for path in ("groups/g7", "groups/%3Cb%3E", "jobs?group=g7"):
        reply = grid.get(f"/pages/{path}")
        assert b"there is no job group" in reply.body
        assert b"<b>" not in reply.body.partition(b"<main")[2]
    assert grid.get("/pages/groups/g7").status == 404


def test_groups_come_in_pages_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LISTED", 2)
    with window() as served:
        for number in range(5):
            submit_grid(served, 1, f"grid {number}")
        path, seen = "groups", []
        for _ in range(4):
            text = page(served, path)
            seen += [row[0].split()[0] for row in rows(text, "groups")]
            more = re.search(r'href="/pages/(groups\?before=[^"]+)">Older', text)
            if more is None:
                break
            path = unescape(more[1])
    assert seen == ["g5", "g4", "g3", "g2", "g1"]


def test_largest_group_comes_in_pages_of_a_hundred_jobs() -> None:
    with window(CoreDesk(fleet(devices=1))) as served:
        submit_grid(served, JOBS_MAX)
        text = page(served, "groups/g1")
        assert len(rows(text, "jobs")) == groups.JOBS_LISTED
        assert "jobs 1 to 100 of 10\u202f000" in text
        later = re.search(r'href="/pages/(groups/g1\?after=[^"]+)">Later', text)
        assert later is not None
        second = page(served, unescape(later[1]))
        assert rows(second, "jobs")[0][0] == "j101"
        assert "jobs 101 to 200 of" in second
        assert rows(page(served, "groups/g1?after=9950"), "jobs")[-1][0] == "j10000"
        assert rows(page(served, "groups/g1?after=x"), "jobs")[0][0] == "j1"


def test_more_fields_than_the_table_shows_are_counted() -> None:
    with window() as served:
        served.tell(SubmitGroup(spec=GroupSpec(name="wide"), jobs=(script("a"),)))
        served.tell(ended("j1.1", exit_code=0, result={f"field{n}": n for n in range(40)}))
        text = page(served, "groups/g1")
    assert len(rows(text, "jobs")[0]) == 4 + groups.COLUMNS
    assert f"{40 - groups.COLUMNS} more fields" in text


def test_hostile_group_is_but_text() -> None:
    with window() as served:
        served.tell(SubmitGroup(spec=GroupSpec(name=HARM), jobs=(script(HARM, parameters={"x": HARM}),)))
        served.tell(ended("j1.1", exit_code=0, result={HARM: HARM}))
        for path in ("groups", "groups/g1", "jobs/j1", "jobs"):
            text = page(served, path)
            assert "<img src=x" not in text, path
        assert HARM in unescape(page(served, "groups/g1"))


def test_job_links_to_its_group_and_shows_its_parameters(grid: Window) -> None:
    text = page(grid, "jobs/j1")
    assert '<dt>Group</dt><dd><a href="/pages/groups/g1">g1</a></dd>' in text
    assert "<code>lr=0.1</code>" in text
    jobs = page(grid, "jobs")
    assert 'href="/pages/groups/g1"' in jobs
    assert 'href="/pages/groups"' in jobs


def test_jobs_of_a_group_are_listed_by_state(grid: Window) -> None:
    grid.tell(Submit(specs=(script("alone"),)))
    assert [row[0].split()[0] for row in rows(page(grid, "jobs?group=g1&state=failed"), "jobs")] == ["j2"]
    assert len(rows(page(grid, "jobs?group=g1"), "jobs")) == 4


def test_owners_are_shown(lab: Window) -> None:
    jobs = rows(page(lab, "jobs"), "jobs")
    assert [row[6] for row in jobs] == ["anna", "anna", "ben"]
    assert rows(page(lab, "groups"), "groups")[0][1] == "anna"
    assert '<dt>Owner</dt><dd><a class="name" href="/pages/jobs?owner=ben">ben</a></dd>' in page(lab, "jobs/j3")
    assert '<dt>Owner</dt><dd><a class="name" href="/pages/groups?owner=anna">anna</a></dd>' in page(lab, "groups/g1")


def test_own_jobs_and_groups_are_a_filter(lab: Window) -> None:
    ben = bearer(make(lab, "ben-phone", "read", owner="ben"))
    text = lab.ask("GET", "/pages/jobs", headers=ben).body.decode()
    assert '<option value="ben" >mine</option>' in text
    assert [row[0].split()[0] for row in rows(page(lab, "jobs?owner=ben"), "jobs")] == ["j3"]
    assert [row[0].split()[0] for row in rows(page(lab, "jobs?owner=anna&state="), "jobs")] == ["j1", "j2"]
    assert rows(page(lab, "groups?owner=ben"), "groups") == []
    assert "There is no job group of ben" in page(lab, "groups?owner=ben")
    assert len(rows(page(lab, "groups?owner=anna"), "groups")) == 1


def test_search_for_an_owner_ends_and_continues_behind(lab: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "LOOKED_THROUGH", 2)
    monkeypatch.setattr(queue, "PIECE", 2)
    text = page(lab, "jobs?owner=ben")
    assert "later ones may be" in text
    more = re.search(r'href="/pages/(jobs\?[^"]+)">Later', text)
    assert more is not None
    assert [row[0].split()[0] for row in rows(page(lab, unescape(more[1])), "jobs")] == ["j3"]


def test_buttons_are_those_that_the_token_may_use(lab: Window) -> None:
    anna, ben = (bearer(make(lab, f"{name}-server", "operate", owner=name)) for name in ("anna", "ben"))
    admin = bearer(make(lab, "chief", "admin", owner="carl"))
    for path, act, owner in (("groups/g1", "groups/g1/cancel", anna), ("jobs/j3", "jobs/j3/retry", ben)):
        for who in (anna, ben, admin):
            body = lab.ask("GET", f"/pages/{path}", headers=who).body.decode()
            assert (f'data-api="/api/v1/{act}"' in body) == (who in (owner, admin))
    assert "This group belongs to anna." in lab.ask("GET", "/pages/groups/g1", headers=ben).body.decode()
    assert "This job belongs to ben." in lab.ask("GET", "/pages/jobs/j3", headers=anna).body.decode()


def test_buttons_are_those_that_the_interface_allows(lab: Window) -> None:
    people = [bearer(make(lab, f"{name}-phone", "operate", owner=name)) for name in ("anna", "ben", "ops")]
    lab.tell(Submit(specs=(script("of the controller"),)))
    for who in people:
        for job in ("j1", "j3", "j4"):
            body = lab.ask("GET", f"/pages/jobs/{job}", headers=who).body.decode()
            refused = lab.post(f"/api/v1/jobs/{job}/priority", {"priority": 3}, headers=who).status == 403
            assert ("belongs to" in body) == refused, job
