"""Parts and pages to HTML: one environment, everything escaped, what is not defined is a fault.

What a part looks like is made once, for all who look at it: it is kept under its mark. Ages in it are left open, and
are filled in as it is sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from hostler.web.pages import words
from hostler.web.pages.part import Part, digest
from hostler.web.pages.static import Static

KEPT = 4096
"""Looks of parts that are kept: those of the largest fleet, and of whatever else somebody looks at."""
PIECE = 60
"""So many snippets of a page make a piece."""
KEPT_CHARS = 64_000
"""Longer ones are made anew."""


class Press:
    """Makes pages and parts, and keeps what it has made of late."""

    def __init__(self, static: Static) -> None:
        self._static = static
        self._kept: OrderedDict[tuple[str, str], str] = OrderedDict()

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A whole page. That nothing in it stands inline or comes from elsewhere is the guard's to say."""
        return HTMLResponse(self.text(template, **values), status)

    def text(self, template: str, **values: Any) -> str:
        """The text of a whole page."""
        return "".join(self.pieces(template, **values))

    def pieces(self, template: str, **values: Any) -> Iterator[str]:
        """The same in pieces of some size, each made when it is asked for."""
        made = _environment().get_template(template)
        values |= {"static": self._static, "element": self.element, "outline": self.outline}
        waiting: list[str] = []
        for words_ in made.generate({"begun": False, **values}):
            waiting.append(words_)
            if len(waiting) >= PIECE:
                yield "".join(waiting)
                waiting = []
        yield "".join(waiting)

    def partials(self, parts: Iterable[Part], now: float) -> Response:
        """Parts as htmx takes them: each goes to its own place, wherever that is."""
        return HTMLResponse("".join(self._partial(part, now) for part in parts))

    def element(self, part: Part, now: float) -> Markup:
        """A part as the element that it is on the page."""
        look = self._look(part.template, part.mark, part.shown)
        return _element(part, part.mark, words.filled(look, now))

    def outline(self, part: Part) -> Markup:
        """The place of a part: its first look, to be fetched when somebody gets there."""
        shown = part.outline or {}
        return _element(part, "", self._look(part.template.replace(".html", "_outline.html"), digest(shown), shown))

    def make_ready(self) -> None:
        """Read all templates now, which the first to look would wait for."""
        made = _environment()
        for name in made.list_templates():
            made.get_template(name)

    def _partial(self, part: Part, now: float) -> str:
        return Markup('<hx-partial hx-target="#{}" hx-swap="outerMorph">{}</hx-partial>').format(
            part.id, self.element(part, now)
        )

    def _look(self, template: str, mark: str, shown: Mapping[str, Any]) -> str:
        key = template, mark
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        made = _environment().get_template(template).render(**shown, now=None)
        if len(made) <= KEPT_CHARS:
            self._kept[key] = made
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made


def _element(part: Part, mark: str, inner: str) -> Markup:
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
    made.globals["UNKNOWN"] = words.UNKNOWN
    return made
