"""Whose jobs are whose, by the tokens of two people on one server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from hostler.model import codec, inputs
from hostler.model.work import JobState
from tests.core.builders import fleet, script, sweep
from tests.web.core_desk import CoreDesk, Window, window
from tests.web.test_access import ROUTES, bearer, make

API = "/api/v1"
Headers = Mapping[str, str]
CHANGES = sorted(
    (method, path)
    for method, path in ROUTES
    if method != "GET" and re.fullmatch(f"{API}/(jobs|groups|sweeps)/x(/.*)?", path)
)
"""Every operation that changes a job or a group that there is."""
BODIES = {"priority": {"priority": 3}}


class Lab(NamedTuple):
    """A server, and the headers of its people."""

    served: Window
    anna: Headers
    ben: Headers
    admin: Headers


@pytest.fixture
def lab() -> Iterator[Lab]:
    desk = CoreDesk(fleet(devices=0))
    desk.driver.tell(inputs.Begin(version="test", epoch=1, user="ops"))
    with window(desk) as served:
        people = {name: bearer(make(served, f"{name}-laptop", "operate", owner=name)) for name in ("anna", "ben")}
        admin = bearer(make(served, "chief", "admin", owner="carl"))
        jobs = [codec.plain(each) for each in (script("train"), sweep("search", stop=10))]
        ids = ["j1", "j2"]
        assert served.post(f"{API}/jobs", jobs, headers=people["anna"]).json["ids"] == ids
        group = {"group": {"name": "grid"}, "jobs": [{"argv": ["true"], "name": name} for name in "ab"]}
        assert served.post(f"{API}/groups", group, headers=people["anna"]).json["ids"] == ["j3", "j4"]
        yield Lab(served, people["anna"], people["ben"], admin)


def change(lab: Lab, who: Headers, path: str, name: str) -> Any:
    body = BODIES.get(path.rpartition("/")[2], {})
    return lab.served.post(path.replace("/x", f"/{name}"), body, headers=who)


def test_all_operations_that_change_jobs_are_tested() -> None:
    assert [path.removeprefix(API) for _, path in CHANGES] == [
        "/groups/x/cancel",
        "/groups/x/retry",
        "/jobs/x/cancel",
        "/jobs/x/priority",
        "/jobs/x/retry",
    ]


@pytest.mark.parametrize("path", [path for _, path in CHANGES])
def test_job_of_another_person_is_changed_by_an_admin_only(lab: Lab, path: str) -> None:
    names = ["g1"] if "/groups/" in path else ["j1", "search"]
    if path.endswith("retry"):
        for name in ("j1", "j2", "j3"):
            change(lab, lab.anna, f"{API}/jobs/x/cancel", name)
    for name in names:
        seq = lab.served.desk.status().seq
        refused = change(lab, lab.ben, path, name)
        assert (refused.status, refused.json["error"]) == (403, "NotOwner")
        assert "belongs to anna" in refused.json["message"]
        assert "scope admin" in refused.json["message"]
        assert lab.served.desk.status().seq == seq
        assert change(lab, lab.admin, path, name).status == 200


def test_owner_changes_their_own_jobs(lab: Lab) -> None:
    assert change(lab, lab.anna, f"{API}/jobs/x/cancel", "j1").json["state"] == JobState.CANCELLED
    assert change(lab, lab.anna, f"{API}/jobs/x/retry", "j1").json["state"] == JobState.PENDING
    assert change(lab, lab.anna, f"{API}/groups/x/cancel", "g1").json["jobs"]["cancelled"] == 2


def test_owner_is_shown_with_jobs_groups_and_tokens(lab: Lab) -> None:
    get = lab.served.get
    assert get(f"{API}/jobs/j1").json["job"]["owner"] == "anna"
    assert get(f"{API}/groups/g1").json["owner"] == "anna"
    assert {each["name"]: each["owner"] for each in get(f"{API}/tokens").json} == {
        "anna-laptop": "anna",
        "ben-laptop": "ben",
        "chief": "carl",
    }
    assert get(f"{API}/jobs/j1/story").json[0]["event"]["owner"] == "anna"


def test_jobs_are_listed_by_their_owner(lab: Lab) -> None:
    lab.served.post(f"{API}/jobs", [codec.plain(script("other"))], headers=lab.ben)

    def listed(query: str, who: Headers) -> list[str]:
        reply = lab.served.ask("GET", f"{API}/jobs?{query}", headers=who)
        return [each["id"] for each in reply.json]

    assert listed("mine=true", lab.ben) == ["j5"]
    assert listed("mine=true", lab.anna) == ["j1", "j2", "j3", "j4"]
    assert listed("mine=true&group=g1", lab.anna) == ["j3", "j4"]
    assert listed("owner=ben", lab.anna) == ["j5"]
    assert len(listed("", lab.ben)) == 5


def test_a_token_made_with_a_token_has_the_same_owner(lab: Lab) -> None:
    made = lab.served.post(f"{API}/tokens", {"name": "second", "scope": "read"}, headers=lab.admin)
    assert made.json["about"]["owner"] == "carl"
    refused = lab.served.post(f"{API}/tokens", {"name": "third", "owner": "a\nb"}, headers=lab.admin)
    assert refused.status == 422
