"""What is told of stale parts, and how they are fetched."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hostler.model.inputs import Submit, Trouble
from tests.core.builders import script
from tests.patience import PATIENCE_S
from tests.web.core_desk import TOKEN, Window


@contextmanager
def stream(served: Window, query: str) -> Iterator[Iterator[tuple[str, Any]]]:
    """The events of a stream, as they come."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    connection.request("GET", f"/pages/stream?{query}", headers={"Authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    try:
        yield events(response)
    finally:
        response.close()
        connection.close()


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Kinds and values."""
    kind = ""
    while line := response.readline().decode():
        if line.startswith("event: "):
            kind = line[7:].strip()
        if line.startswith("data: "):
            yield kind, json.loads(line[6:])


def marks(coming: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    """The next message that tells of marks."""
    found: dict[str, Any] = next(value for kind, value in coming if kind == "marks")
    return found


def on_page(served: Window, path: str) -> dict[str, str]:
    """Marks of the parts of a page as it is now."""
    return dict(re.findall(r'<div id="([^"]+)" class="part[^"]*" data-mark="([^"]*)"', served.get(path).body.decode()))


def test_the_first_message_is_what_the_page_shows(served: Window) -> None:
    shown = on_page(served, "/pages/queue")
    with stream(served, "page=queue") as coming:
        first = marks(coming)
    assert (first["marks"], first["whole"]) == (shown, True)


def test_only_what_changed_is_told(served: Window) -> None:
    with stream(served, "page=queue") as coming:
        marks(coming)
        served.tell(Submit(specs=(script("new"),)))
        told = marks(coming)
    assert not told["whole"]
    assert {"strip", "running", "newest"} <= set(told["marks"])
    assert "bans" not in told["marks"]


def test_fetched_parts_are_those_that_were_told_of(served: Window) -> None:
    with stream(served, "page=queue") as coming:
        marks(coming)
        served.tell(Submit(specs=(script("a new one"),)))
        told = marks(coming)["marks"]
        reply = served.get("/pages/parts?page=queue&id=newest&id=never").body.decode()
    assert reply.count("<hx-partial") == 1
    assert f'data-mark="{told["newest"]}"' in reply
    assert "a new one" in reply


def test_whoever_comes_late_is_told_everything(served: Window) -> None:
    with stream(served, "page=fleet") as coming:
        marks(coming)
        with stream(served, "page=fleet") as later:
            assert marks(later)["whole"]


def test_a_page_of_nobody_says_so_and_ends(served: Window) -> None:
    with stream(served, "page=job&name=j99") as coming:
        assert next(coming)[0] == "gone"
        assert list(coming) == []


def test_an_unknown_page_is_not_found(served: Window) -> None:
    assert served.get("/pages/stream?page=never").status == 404
    assert served.get("/pages/parts").status == 404


def test_a_fault_of_our_own_is_recorded_and_told(served: Window) -> None:
    with stream(served, "page=queue") as coming:
        marks(coming)
        served.desk.quotas = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
        kind, told = next(each for each in coming if each[0] != "beat")
        assert (kind, "ZeroDivisionError" in told["why"]) == ("gone", True)
    recorded = [entry.event for entry in served.desk.driver.entries]
    assert any("page queue" in repr(event) for event in recorded), Trouble


def test_nobody_who_left_is_worked_for(served: Window) -> None:
    with stream(served, "page=fleet") as coming:
        marks(coming)
        app = served.desk
        assert app is not None
    served.tell(Submit(specs=(script("after"),)))
    assert served.get("/pages/fleet").status == 200
