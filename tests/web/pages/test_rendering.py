"""Parts to HTML: made once, sent with the ages of the moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hostler.web.pages import rendering
from hostler.web.pages.part import Part
from hostler.web.pages.rendering import Press
from hostler.web.pages.static import Static


def bans(since: float) -> Part:
    shown = {
        "bans": [{"what": "x", "kind": "k", "of": None, "owner": "o", "why": "w", "since": since, "until": since + 90}]
    }
    return Part("bans", "parts/bans.html", shown)


def counted(monkeypatch: Any) -> list[str]:
    """Templates that are rendered from now on."""
    made: list[str] = []
    environment = rendering._environment()
    get = environment.get_template
    monkeypatch.setattr(environment, "get_template", _noting(get, made))
    return made


def _noting(get: Callable[..., Any], made: list[str]) -> Callable[..., Any]:
    def noted(name: str, parent: str | None = None, *more: Any) -> Any:
        # What a template includes is no look of its own.
        made.extend([] if parent else [name])
        return get(name, parent, *more)

    return noted


def test_a_look_is_made_once_and_its_ages_are_of_the_moment(monkeypatch: Any) -> None:
    press = Press(Static())
    made = counted(monkeypatch)
    first, second = press.element(bans(1000.0), 1060.0), press.element(bans(1000.0), 1070.0)
    assert made == ["parts/bans.html"]
    assert ">1m 00s ago</time>" in first
    assert ">1m 10s ago</time>" in second
    assert ">in 20 s</time>" in second
    assert "\x02" not in first + second


def test_another_look_is_made_anew(monkeypatch: Any) -> None:
    press = Press(Static())
    made = counted(monkeypatch)
    assert press.element(bans(1000.0), 1060.0) != press.element(bans(1001.0), 1060.0)
    assert len(made) == 2


def test_only_so_many_looks_are_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(rendering, "KEPT", 2)
    press = Press(Static())
    for since in (1.0, 2.0, 3.0):
        press.element(bans(since), 10.0)
    made = counted(monkeypatch)
    press.element(bans(3.0), 10.0)
    press.element(bans(1.0), 10.0)
    assert made == ["parts/bans.html"]


def test_a_page_in_pieces_is_the_page() -> None:
    press = Press(Static())
    values: dict[str, Any] = {"title": "Log in", "target": "/", "fault": None, "once": None}
    assert "".join(press.pieces("login.html", **values)) == press.text("login.html", **values)
