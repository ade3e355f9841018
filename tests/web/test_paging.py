"""Every list comes in pages, in one way, and loses nothing between two of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest

from hostler.core.listed import intervals
from hostler.model import inputs
from hostler.model.errors import UsageError
from hostler.web.paging import Paging, cursor, cut
from tests.core.builders import fleet, node, script, sweep
from tests.web.core_desk import CoreDesk, Window, next_of, walk, window
from tests.web.published import DOCUMENT
from tests.web.worlds import SCRIPT, SWEEP, grouped_world

API = "/api/v1"
NAMES = {"jobs": SCRIPT, "groups": "g1", "sweeps": SWEEP, "configs": "tiny_2p"}
IN_OBJECTS = {f"{API}/costs", f"{API}/durations"}


def lists() -> list[str]:
    """Paths of all operations that take `after`, the event stream aside."""
    return sorted(
        path.replace("{name}", quote(NAMES.get(path.split("/")[3], "x"), safe=""))
        for path, operations in DOCUMENT["paths"].items()
        if path != f"{API}/events"
        and any(each["name"] == "after" for each in operations.get("get", {}).get("parameters", ()))
    )


LISTS = lists()


@pytest.fixture(scope="module")
def world() -> Iterator[Window]:
    with window(grouped_world()) as made:
        yield made


def rows_of(served: Window, path: str, limit: int) -> list[Any]:
    """All rows of a list, in pages of so many."""
    if path not in IN_OBJECTS:
        return walk(served, f"{path}?limit={limit}")
    rows, here = [], f"{path}?limit={limit}"
    while here:
        page = served.get(here)
        rows += page.json["rows"]
        here = path + next_of(page.headers["link"]) if "link" in page.headers else ""
    return rows


def test_these_are_the_lists() -> None:
    names = {path.removeprefix(f"{API}/") for path in LISTS if "%" not in path}
    assert names == {
        "alerts", "alerts/rules", "alerts/silences", "alerts/targets", "artifacts", "audit", "bans", "configs",
        "configs/tiny_2p/datasets", "configs/tiny_2p/models", "costs", "datasets", "devices", "disk/plan",
        "disk/tombstones", "durations", "entries", "groups", "groups/g1/results",
        "jobs", "models", "nodes", "queue", "secrets", "sweeps", "tokens", "usage",
    }  # fmt: skip
    assert len(LISTS) == len(names) + 3


@pytest.mark.parametrize("path", LISTS)
def test_pages_hold_every_row_once_and_in_order(world: Window, path: str) -> None:
    whole = rows_of(world, path, 1000)
    for limit in (1, 2, len(whole) or 1) if len(whole) < 50 else (7, len(whole) - 1, len(whole)):
        assert rows_of(world, path, limit) == whole
    assert "link" not in world.get(f"{path}?limit={len(whole) or 1}").headers
    # Of these there is one in this world, which is not a day old.
    if path not in (f"{API}/alerts", f"{API}/sweeps", f"{API}/usage"):
        assert len(whole) > 1


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "after",
    ["x", "-", "1.5", "0x1", "é", "\x00", "../..", "W10", "WzFd", "bnVsbA", "W1tdXQ", "'; --", "9" * 5000, "[" * 4000],
)
def test_a_wrong_cursor_is_refused_in_words(world: Window, path: str, after: str) -> None:
    reply = world.get(f"{path}?after={quote(after, safe='')}")
    assert (reply.status, reply.json["error"]) == (422, "UsageError")
    assert "after" in reply.json["message"]


def test_the_rest_of_the_question_goes_on(world: Window) -> None:
    reply = world.get(f"{API}/jobs?state=done&limit=1&state=failed&extra=a%26b")
    again = next_of(reply.headers["link"])
    assert again.startswith("?state=done&limit=1&state=failed&extra=a%26b&after=")
    assert world.get(f"{API}/jobs{again}").json != reply.json


def test_filters_choose_rows(world: Window) -> None:
    kinds = {row["kind"] for row in walk(world, f"{API}/bans")}
    assert {"pause", "silence", "cordon"} <= kinds
    assert [row["what"] for row in walk(world, f"{API}/bans?kind=pause")] == ["other_2p"]
    assert {row["node"] for row in walk(world, f"{API}/devices?provider=vast&limit=1")} == {"gpu", "lost"}
    assert [row["device"]["id"] for row in walk(world, f"{API}/devices?node=other%20gpu&tier=1")] == [
        "other gpu/cuda0",
        "other gpu/cuda1",
    ]
    assert world.get(f"{API}/devices?tier=4").status == 422
    assert world.get(f"{API}/bans?kind=x").status == 422


def test_intervals_are_the_whole_range(world: Window) -> None:
    name = quote(SWEEP)
    rows, ledger = walk(world, f"{API}/sweeps/{name}/intervals?limit=1"), world.get(f"{API}/sweeps/{name}/ledger").json
    assert (rows[0]["start"], rows[-1]["stop"]) == (0, 2**70)
    assert all(one["stop"] == other["start"] for one, other in pairwise(rows))
    holes = walk(world, f"{API}/sweeps/{name}/intervals?standing=free")
    assert [[row["start"], row["stop"]] for row in holes] == ledger["free"]
    leased = {row["chunk"]: row["device"] for row in rows if row["standing"] == "leased"}
    assert leased == {chunk["chunk"]: chunk["device"] for chunk in ledger["leased"]}


def test_ranges_may_lie_below_zero() -> None:
    driver = fleet()
    (name,) = driver.submit(sweep(start=-(2**80), stop=-5))
    with window(CoreDesk(driver)) as served:
        rows = walk(served, f"{API}/sweeps/{name}/intervals?limit=1")
    assert (rows[0]["start"], rows[-1]["stop"], len(rows) > 1) == (-(2**80), -5, True)
    assert intervals(driver.state.sweeps[name], frozenset(), None, 9) == []


def test_a_row_that_goes_takes_no_other_with_it() -> None:
    names = [f"n{n}" for n in range(10)]
    page, after = cut(names, Paging(None, 3), str)
    assert page == names[:3]
    assert cut([each for each in names if each not in ("n1", "n2")], Paging(after, 3), str)[0] == ["n3", "n4", "n5"]
    with pytest.raises(UsageError, match="begin again"):
        cut(names[3:], Paging(after, 3), str)


def test_rows_of_one_name_are_told_apart() -> None:
    rows, after, seen = list("aabab"), None, []
    while True:
        page, after = cut(rows, Paging(after, 1), str)
        seen += page
        if after is None:
            break
    assert seen == rows


def test_the_queue_goes_on_where_it_was() -> None:
    driver = fleet()
    ids = driver.submit(*(script(f"n{n}") for n in range(12)))
    driver.submit(*(script(f"after{n}", after=(ids[-1],)) for n in range(3)))
    desk = CoreDesk(driver)
    with window(desk) as served:
        whole = walk(served, f"{API}/queue")
        assert walk(served, f"{API}/queue?limit=4") == whole
        assert [row["place"] for row in whole] == list(range(1, len(whole) + 1))
        first = served.get(f"{API}/queue?limit=4")
        served.tell(inputs.Cancel(job=first.json[-1]["job"], reason="x"))
        second = served.get(f"{API}/queue{next_of(first.headers['link'])}").json
        assert [row["job"] for row in second] == [row["job"] for row in whole[4:8]]
        for row in first.json[:-1]:
            served.tell(inputs.Cancel(job=row["job"], reason="x"))
        assert served.get(f"{API}/queue{next_of(first.headers['link'])}").status == 422


def test_cursors_are_made_of_what_they_say() -> None:
    made = cursor(["ü", "b\n2"])
    assert json.loads(base64.urlsafe_b64decode(made + "=" * (-len(made) % 4))) == ["ü", "b\n2"]
    assert Paging(made, 1).anchors() == ["ü", "b\n2"]


def test_one_node_and_one_device(world: Window) -> None:
    nodes = {row["name"]: row for row in walk(world, f"{API}/nodes")}
    assert world.get(f"{API}/nodes/other%20gpu").json == nodes["other gpu"]
    devices = {row["device"]["id"]: row for row in walk(world, f"{API}/devices")}
    assert world.get(f"{API}/devices/gpu%2Fcuda1").json == devices["gpu/cuda1"]
    assert devices["gpu/cuda1"]["price_per_h"] == 1.0
    assert [each["device"] for each in devices.values() if each["node"] == "gpu"] == nodes["gpu"]["devices"]
    for path in ("nodes/x", "devices/gpu", "devices/gpu%2Fcuda9"):
        assert (world.get(f"{API}/{path}").status, world.get(f"{API}/{path}").json["error"]) == (404, "NotFound")


def test_the_fleet_adds_up(world: Window) -> None:
    view = world.get(f"{API}/fleet").json
    for name in ("nodes", "nodes_up", "devices", "devices_busy", "devices_barred", "unpriced"):
        assert sum(each["totals"][name] for each in view["groups"]) == view["totals"][name]
    assert view["totals"]["utilization"] is None, "nobody told of it"
    assert (view["totals"]["price_per_h"], view["totals"]["devices_barred"]) == (3.0, 4)
    assert [(each["provider"], each["tier"]) for each in view["groups"]] == [(None, None), (None, 1), ("vast", 1)]
    assert {each["config"] for each in view["configs"]} == {"tiny_2p", "other_2p"}


def test_entries_are_the_journal(world: Window) -> None:
    rows = walk(world, f"{API}/entries?limit=100")
    assert [row["seq"] for row in rows] == list(range(1, world.desk.status().seq + 1))
    assert world.get(f"{API}/entries?after={len(rows)}").json == []
    assert world.get(f"{API}/entries?after=999999999999").json == []


def test_a_fleet_of_nothing(served: Window) -> None:
    served.tell(inputs.NodeFound(node=node("bare", 0)))
    view = served.get(f"{API}/fleet").json
    assert view["totals"]["nodes"] == 2
