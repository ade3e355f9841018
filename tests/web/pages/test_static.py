"""Scripts and styles: found by their names, kept for ever under their versions, and nothing else is served."""

from __future__ import annotations

import re

import pytest

from hostler.web.pages.static import Static
from tests.web.core_desk import Window


def test_a_version_is_kept_for_ever_and_a_name_is_not(served: Window) -> None:
    versioned = served.ask("GET", Static().url("hostler.css"), headers={})
    assert (versioned.status, versioned.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "immutable" in versioned.headers["cache-control"]
    assert served.ask("GET", "/static/hostler.css", headers={}).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "vendor/vendor.json", "", "vendor"]
)
def test_nothing_but_the_files_is_served(served: Window, name: str) -> None:
    assert served.ask("GET", f"/static/{name}", headers={}).status == 404


def test_every_script_and_style_of_a_page_is_served(served: Window) -> None:
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', served.get("/pages/fleet").body.decode())
    assert {name.partition("?")[0] for name in named} >= {"/static/vendor/htmx.js", "/static/vendor/uplot.css"}
    assert {served.ask("GET", name, headers={}).status for name in named} == {200}
