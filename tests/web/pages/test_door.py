"""The door: who comes in to the pages, and what a foreign page cannot do with it (`tests/web/test_session.py`)."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from hostler.model.inputs import Submit
from tests.core.builders import script
from tests.web.core_desk import TOKEN, Window

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HTML = {"Accept": "text/html"}


def test_pages_lead_strangers_to_the_door_and_back(served: Window) -> None:
    reply = served.ask("GET", "/pages/jobs/j1?log=err", headers=HTML)
    assert (reply.status, reply.headers["location"]) == (303, "/login?next=%2Fpages%2Fjobs%2Fj1%3Flog%3Derr")
    door = served.ask("GET", reply.headers["location"], headers=HTML)
    assert door.body.count(b'value="/pages/jobs/j1?log=err"') == 1
    assert b"/static/" in door.body, "it looks like the other pages"


def test_parts_and_the_api_do_not_lead_there(served: Window) -> None:
    for headers in ({}, HTML):
        asked = {**headers, "HX-Request": "true"}
        assert served.ask("GET", "/pages/parts?page=fleet", headers=asked).status == 401
        assert served.ask("GET", "/api/v1/status", headers=headers).status == 401


def test_a_wrong_token_is_told_on_the_same_page(served: Window) -> None:
    reply = served.ask("POST", "/login", urlencode({"token": "guess", "next": "/pages/queue"}).encode(), FORM)
    assert (reply.status, "set-cookie" in reply.headers) == (401, False)
    assert b"Nobody has this token" in reply.body
    assert b'value="/pages/queue"' in reply.body


def test_who_has_logged_in_reads_and_writes_with_what_the_page_says(served: Window) -> None:
    served.tell(Submit(specs=(script("one"),)))
    entered = served.ask("POST", "/login", urlencode({"token": TOKEN, "next": "/pages/queue"}).encode(), FORM)
    assert (entered.status, entered.headers["location"]) == (303, "/pages/queue")
    cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
    page = served.ask("GET", "/pages/queue", headers=cookie)
    assert b"looking as local" in page.body
    found = re.search(rb'data-csrf="([^"]+)"', page.body)
    assert found is not None
    path = "/api/v1/jobs/j1/cancel"
    assert served.ask("POST", path, headers=cookie).status == 403
    assert served.ask("POST", path, headers={**cookie, "X-CSRF-Token": found[1].decode()}).status == 200


def test_a_bearer_reads_pages_too(served: Window) -> None:
    page = served.get("/pages/fleet")
    assert (page.status, b'data-csrf=""' in page.body) == (200, True)
