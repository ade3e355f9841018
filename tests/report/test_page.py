"""The report as a page: complete, self-contained, honest, and nobody's words become its own."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from hostler.model import codec
from hostler.model.learning import Losses, Rating
from hostler.model.views import ConfigHistory
from tests.web.loops import HOSTILE, HOUR, NOON, busy, empty, losing, rating

report = pytest.importorskip("hostler.report", reason="the extra report is not installed")

VOID = {"meta", "br", "hr", "img", "link", "input", "path", "use", "rect"}


class Outline(HTMLParser):
    """What a browser makes of the page: elements with their attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, tag: str) -> int:
        """How many elements of this name there are."""
        return sum(each == tag for each, _ in self.elements)


def status(**changes: Any) -> dict[str, Any]:
    """The part of a `Status` that a page is made from."""
    return {"fleet": "laptop", "version": "1.2", "seq": 41, "at": NOON + 11.4 * HOUR, **changes}


def page(*histories: ConfigHistory, newest: int = 41, **changes: Any) -> str:
    """The page of these histories."""
    made: str = report.make_page(status(**changes), newest, [codec.plain(each) for each in histories])
    return made


@pytest.fixture(scope="module")
def whole() -> str:
    """A page of a config that learns, one that does not, and one that has not begun."""
    return page(busy("hex8_2p"), losing("old"), empty("new"))


def test_a_page_has_a_section_with_five_pictures_and_a_table_for_each_config(whole: str) -> None:
    outline = Outline(whole)
    assert outline.open == []
    assert (outline.count("section"), outline.count("svg"), outline.count("table")) == (3, 10, 2)
    assert outline.count("tr") == (1 + 12) + (1 + 6)


def test_a_page_says_when_and_from_what_it_was_made() -> None:
    assert "Made on 2025-06-15 23:24 UTC by Hostler 1.2, from journal entry 41." in page(empty("a"))
    assert "from the journal between its entries 41 and 57." in page(empty("a"), newest=57)


def test_a_page_needs_nothing_but_itself(whole: str) -> None:
    outline = Outline(whole)
    leads = [(tag, name, value) for tag, attrs in outline.elements for name, value in attrs.items() if _leads(name)]
    assert all(value.startswith("#") for _, _, value in leads if value is not None), leads
    assert not {"script", "link", "img", "iframe", "object", "image"} & {tag for tag, _ in outline.elements}
    assert re.findall(r"url\((?!#)[^)]*\)|@import", whole) == []
    policy = next(attrs["content"] for tag, attrs in outline.elements if "http-equiv" in attrs)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def _leads(attribute: str) -> bool:
    return attribute in ("src", "href", "xlink:href", "srcset", "data", "action", "formaction", "poster")


def test_no_two_elements_have_one_id_but_those_that_are_the_same(whole: str) -> None:
    """Pictures refer to what is named by its content; anything else with an id is there once."""
    definitions = re.findall(r'<(?:path|clipPath|pattern)[^>]* id="([^"]+)"[^>]*>', whole)
    assert definitions
    others = [attrs["id"] for tag, attrs in Outline(whole).elements if "id" in attrs and tag in ("g", "svg", "section")]
    assert others == ["hex8_2p", "old", "new"]


def test_hostile_words_stay_words() -> None:
    history = losing("old")
    dataset = replace(history.datasets[0], rejected={"_<script>$x^{$</script>": 3, "\u202e名": 2, "duplicate": 1})
    players = {**history.players, HOSTILE: rating(250, 0)}
    text = page(replace(history, datasets=(dataset, *history.datasets[1:]), players=players), fleet=HOSTILE)
    outline = Outline(text)
    assert outline.count("script") == 0
    assert outline.open == []
    assert "<script>alert(1)" in "".join(outline.text)
    assert all(each.isprintable() or each in "\n" for each in text)


def test_what_is_not_known_is_a_question_mark_and_no_picture() -> None:
    outline = Outline(page(empty("new")))
    assert outline.count("svg") == 0
    text = " ".join(" ".join(outline.text).split())
    for expected in ("No model has been rated yet.", "No losses have been reported yet.", "There is no model yet."):
        assert expected in text
    assert "model ? 0 is the untrained one" in text
    assert "rating ? Elo, 95 % interval" in text
    assert "data age ? since" in text
    assert "duplicates ? of the games" in text
    assert "games 0 0 since the last dataset" in text


def test_numbers_come_with_their_intervals_units_and_reasons(whole: str) -> None:
    text = " ".join(" ".join(Outline(whole).text).split())
    assert "rating 826 [773, 879] Elo, 95 % interval" in text
    assert "velocity +812 [+655, +970] Elo/day" in text
    assert "duplicates 1.2 % of the games of the last export" in text
    assert "data age 21 min since" in text
    assert (
        "37 groups of games, mean score 0.554; log-likelihood ratio 1.234, decided below -2.944 or above 2.944" in text
    )
    assert "rejected 688 [631, 745] 3.460 → 3.260 0.580 → 0.560 1200 2025-06-15 20:00 2025-06-15 20:30" in text
    assert "llr -2.96 <= -2.94 after 112 groups: no better than 0 Elo (score 0.487)" in text
    assert "Anchors of the scale: random 0, greedy 385, mc-200 760" in text


def test_a_rest_and_a_retired_config_are_told(whole: str) -> None:
    text = " ".join(" ".join(Outline(whole).text).split())
    assert "Retired: export rests:" in text
    assert "export rests until 2025-06-27 01:46 UTC, after 3 failures:" in text


def test_without_configs_a_page_says_so() -> None:
    assert "There are no training configs." in page()


def test_the_same_histories_give_the_same_page() -> None:
    assert page(busy("hex8_2p", 3)) == page(busy("hex8_2p", 3))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "?"),
        (rating(0, 0), "0"),
        (rating(-12.4, 30), "-12 [-42, 18]"),
        (rating(5, 1e9), "5 [-999999995, 1000000005]"),
    ],
)
def test_ratings(value: Rating | None, text: str) -> None:
    from hostler.report.page import rating as shown

    assert shown(value) == text


def test_losses_of_an_untrained_model_are_none_and_missing_ones_unknown() -> None:
    from hostler.report.page import losses

    assert losses(None, None, "policy") == "–"
    assert losses(None, Losses(policy=1.0, value=0.5), "value") == "? → 0.500"
