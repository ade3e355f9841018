"""Whatever people and nodes may say, on every page it is text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from tests.web.core_desk import window
from tests.web.pages.harm import HARMS, MARK, harmed, paths

OWN_SCHEMES = ("/", "#")
TALES_OF_NOBODY = frozenset({"filtered jobs"})
"""Pages that show nothing of what was asked for."""


class Reader(HTMLParser):
    """Reads a page as a browser does, and notes what the words have made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """No element and no attribute is of the words' making, no address leads elsewhere."""
        given = dict(attrs)
        inline = tag in ("harm", "style", "iframe") or (tag == "script" and "src" not in given)
        strange = [name for name in given if name == "style" or name.startswith("on") or MARK in name.upper()]
        away = [
            each
            for name in ("src", "href", "action", "data-api", "data-post")
            if (each := given.get(name)) and not each.startswith(OWN_SCHEMES)
        ]
        if inline or strange or away:
            self.faults.append(f"{self.getpos()} {tag} {given}")
        self.text += [value for value in given.values() if value]

    def handle_data(self, data: str) -> None:
        """What is to be read."""
        self.text.append(data)


FEW = ("elements", "double quotes", "templates")
"""What breaks out of text, out of an attribute, and runs in a template."""


@pytest.mark.parametrize(
    "harm", [each if each in FEW else pytest.param(each, marks=pytest.mark.long) for each in HARMS]
)
def test_on_every_page_it_is_but_text(harm: str) -> None:
    words, faults = HARMS[harm], {}
    with window(harmed(words)) as served:
        for name, path in paths(words).items():
            reply = served.get(path)
            assert reply.status in (200, 404), (name, reply.body[:500])
            reader = Reader()
            reader.feed(reply.body.decode())
            faults[name] = reader.faults
            text = "".join(reader.text)
            assert MARK in text or name in TALES_OF_NOBODY, f"{name} shows nothing of it"
            assert "49" not in text.partition(MARK)[2][:40], "no template was run twice"
    assert {name: told for name, told in faults.items() if told} == {}


@pytest.mark.parametrize("harm", HARMS)
def test_names_are_shown_as_they_are(harm: str) -> None:
    words = HARMS[harm]
    with window(harmed(words)) as served:
        reader = Reader()
        reader.feed(served.get("/pages/jobs/j1").body.decode())
    # Browsers read line breaks of any kind as one, as the parser of the tests does not.
    assert words in reader.text
