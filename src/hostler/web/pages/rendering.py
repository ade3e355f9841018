"""Parts and pages to HTML: one environment, everything escaped, what is not defined is a fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from hostler.web.pages import words
from hostler.web.pages.part import Part
from hostler.web.pages.static import Static


def page(template: str, static: Static, status: int = 200, **values: Any) -> Response:
    """A whole page. That nothing in it stands inline or comes from elsewhere is the guard's to say."""
    return HTMLResponse(text(template, static, **values), status)


def text(template: str, static: Static, **values: Any) -> str:
    """The text of a whole page."""
    return _environment().get_template(template).render(static=static, **values)


def partials(parts: Iterable[Part], now: float) -> Response:
    """Parts as htmx takes them: each goes to its own place, wherever that is."""
    return HTMLResponse("".join(_partial(part, now) for part in parts))


def element(part: Part, now: float) -> Markup:
    """A part as the element that it is on the page."""
    return _element(part, part.mark, part.template, now)


def outline(part: Part) -> Markup:
    """The place of a part: its first look, to be fetched when somebody gets there."""
    return _element(part, "", part.template.replace(".html", "_outline.html"), 0.0)


def _partial(part: Part, now: float) -> str:
    return Markup('<hx-partial hx-target="#{}" hx-swap="outerMorph">{}</hx-partial>').format(
        part.id, element(part, now)
    )


def _element(part: Part, mark: str, template: str, now: float) -> Markup:
    inner = _environment().get_template(template).render(**part.shown, now=now)
    # What templates make is escaped already.
    return Markup('<div id="{}" class="part {}" data-mark="{}">{}</div>').format(
        part.id,
        part.kind,
        mark,
        Markup(inner),  # noqa: S704
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("hostler.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(words.FILTERS)
    globals_: Mapping[str, Any] = {"element": element, "outline": outline, "UNKNOWN": words.UNKNOWN}
    made.globals.update(globals_)
    return made
