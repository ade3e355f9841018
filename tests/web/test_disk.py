"""The controller's disk over HTTP: what may go, what went, and what was asked for twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.web.core_desk import Window, walk, window
from tests.web.worlds import doomed, whole_world

DISK = "/api/v1/disk"


@pytest.fixture
def world() -> Iterator[Window]:
    with window(whole_world()) as made:
        yield made


def test_what_may_go_comes_in_pages(world: Window) -> None:
    paths = [each["path"] for each in walk(world, f"{DISK}/plan?limit=2")]
    assert paths == ["logs/j0.1/out", "logs/j1.1/out", "logs/j2.1/out"]
    assert [each["path"] for each in walk(world, f"{DISK}/tombstones?limit=1")] == ["logs/j7.1/out", "logs/j8.1/out"]
    assert world.get(DISK).json["may_go"][0]["files"] == 3


def test_it_goes_and_comes_back_and_is_in_the_audit(world: Window) -> None:
    done = world.post(f"{DISK}/clean", {"most": 2, "who": "ann"})
    assert (done.status, done.json["files"], done.json["more"]) == (200, ["logs/j0.1/out", "logs/j1.1/out"], 1)
    back = world.post(f"{DISK}/undo", {"files": ["logs/j0.1/out", "nobody's"]})
    assert (back.json["files"], [each["path"] for each in back.json["left"]]) == (["logs/j0.1/out"], ["nobody's"])
    assert [each["what"] for each in world.get("/api/v1/audit").json[:2]] == ["undo_cleaning", "clean_disk"]


def test_nodes_are_asked_for_by_name(world: Window) -> None:
    path = f"artifacts/objects/cd/{'cd' * 32}.dataset.npz"
    world.desk.may_go += [replace(doomed(f"{path}.{number}", 7), rule="cache") for number in range(3)]
    (node, *_) = [each["name"] for each in world.get("/api/v1/nodes").json]
    assert len(list(walk(world, f"{DISK}/plan?limit=2&node={node}"))) == 3
    assert world.get(f"{DISK}?node={node}").status == 200
    done = world.post(f"{DISK}/clean", {"most": 2, "node": node, "who": "ann"})
    assert (done.status, len(done.json["files"]), done.json["until"]) == (200, 2, None)
    told = world.get("/api/v1/audit").json[0]
    assert (told["what"], node in str(told)) == ("clean_disk", True)
    for reply in (world.get(f"{DISK}?node=nobody"), world.get(f"{DISK}/plan?node=nobody")):
        assert (reply.status, reply.json["error"]) == (404, "NotFound")
    assert world.post(f"{DISK}/clean", {"node": "nobody"}).status == 404


def test_one_key_does_it_once(world: Window) -> None:
    headers = {**world.headers, "Idempotency-Key": "one"}
    first = world.ask("POST", f"{DISK}/clean", b'{"most": 1}', headers)
    assert world.ask("POST", f"{DISK}/clean", b'{"most": 1}', headers).json == first.json
    assert len(world.get(f"{DISK}/plan").json) == 2
    other = world.ask("POST", f"{DISK}/clean", b'{"most": 2}', headers)
    assert (other.status, other.json["error"]) == (409, "Conflict")


@pytest.mark.parametrize(
    "body", [{"most": 0}, {"most": 1001}, {"files": []}, {"files": [""]}, {"yes": True}, {"who": ""}]
)
def test_what_cannot_be_asked_for(world: Window, body: dict[str, Any]) -> None:
    reply = world.post(f"{DISK}/clean", body)
    assert (reply.status, reply.json["error"]) == (422, "SpecError")
    assert len(world.get(f"{DISK}/plan").json) == 3
