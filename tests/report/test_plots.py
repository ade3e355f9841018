"""The pictures show what is known, whatever that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostler.model.learning import Rating
from hostler.model.views import ConfigHistory, DatasetView, HourView, RatingPoint
from tests.web.loops import HOUR, NOON, busy, empty, losing, rating

plots = pytest.importorskip("hostler.report.plots", reason="the extra report is not installed")
from hostler.report.drawing import LABEL_CHARACTERS, named, style  # noqa: E402  # only where it is installed

NOW = NOON + 11.4 * HOUR
DRAW: dict[str, Callable[[ConfigHistory], str | None]] = {
    "rating": lambda history: plots.rating_plot(history, NOW),
    "losses": lambda history: plots.losses_plot(history),
    "games": lambda history: plots.games_plot(history, NOW),
    "age": lambda history: plots.age_plot(history, NOW),
    "rejections": lambda history: plots.rejections_plot(history),
}


@pytest.fixture(autouse=True)
def styled() -> Iterator[None]:
    with style():
        yield


def words(svg: str | None) -> list[str]:
    """The texts of a picture; it must be XML."""
    assert svg is not None
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("}text")]


@pytest.mark.parametrize("name", DRAW)
def test_nothing_known_is_nothing_drawn(name: str) -> None:
    assert DRAW[name](empty("new")) is None


@pytest.mark.parametrize("name", DRAW)
@pytest.mark.parametrize(
    "history",
    [
        pytest.param(busy("a"), id="busy", marks=pytest.mark.long),
        pytest.param(losing("b"), id="losing", marks=pytest.mark.long),
        pytest.param(busy("c", 2), id="young"),
    ],
)
def test_a_picture_is_one_element_that_fills_its_place(name: str, history: ConfigHistory) -> None:
    svg = DRAW[name](history)
    assert svg is not None
    assert svg.startswith("<svg")
    head = svg[: svg.index(">")]
    assert "viewBox" in head
    assert 'role="img"' in head
    assert " width=" not in head
    assert words(svg)


def test_the_rating_has_its_interval_anchors_and_promotions() -> None:
    told = words(plots.rating_plot(busy("a"), NOW))
    assert {"random", "greedy", "mc-200", "95 % interval", "current model", "rejected", "promotion", "Elo"} <= set(told)
    assert [word.strip() for word in told if word.strip() in {"1", "3", "10"}] == ["1", "3", "10"]


def test_an_anchor_far_away_does_not_squeeze_the_curve() -> None:
    history = busy("a")
    far = {**history.players, "mc-10000": rating(90_000, 0)}
    told = words(plots.rating_plot(replace(history, players=far), NOW))
    assert "mc-10000" not in told
    assert "greedy" in told


def test_an_hour_that_is_not_over_is_told_apart() -> None:
    assert "the hour that is not over" in words(plots.games_plot(busy("a"), NOW))
    assert "the hour that is not over" not in words(plots.games_plot(busy("a"), NOW + 2 * HOUR))


def test_rejections_are_told_by_reason_with_duplicates_first() -> None:
    reasons = {
        "duplicate": 1,
        "length": 9,
        "replay": 8,
        "weak generator": 7,
        "targets": 6,
        "provenance": 5,
        "undecided": 4,
    }
    history = busy("a")
    dataset = replace(history.datasets[0], rejected=reasons)
    told = words(plots.rejections_plot(replace(history, datasets=(dataset,))))
    shown = [word for word in told if word in {*reasons, "other reasons"}]
    assert shown == ["duplicate", "length", "replay", "weak generator", "targets", "other reasons"]


def test_long_reasons_leave_room_for_the_picture() -> None:
    history = busy("a")
    reasons = {f"{number}{'W' * 60}": number for number in range(1, 9)}
    dataset = replace(history.datasets[0], rejected=reasons)
    told = words(plots.rejections_plot(replace(history, datasets=(dataset,))))
    assert f"8{'W' * 24}..." in told


def test_shares_of_reasons_add_up() -> None:
    history = busy("a")
    shares = dict(plots._refused_shares(history.datasets))
    assert shares["duplicate"] == pytest.approx([1.5] * len(history.datasets))
    assert shares["length"] == pytest.approx([3.5] * len(history.datasets))


def test_many_datasets_show_the_newest() -> None:
    told = words(plots.rejections_plot(busy("a", 200)))
    numbers = [int(word) for word in told if word.isdigit()]
    assert min(number for number in numbers if number > 10) > 199 - plots.MOST_DATASETS - 10


NUMBER = st.floats(-1e5, 1e5)
AT = st.floats(0, 4e9)


@st.composite
def histories(draw: st.DrawFn) -> ConfigHistory:
    """Histories as wild as the types allow."""
    made = busy("a", 3)
    ratings = tuple(
        RatingPoint(
            at=at, player=f"gumbel-1@{'0' * 64}", rating=Rating(elo=elo, low=elo - below, high=elo + above, games=1)
        )
        for at, elo, below, above in sorted(draw(st.lists(st.tuples(AT, NUMBER, AT, AT), max_size=5)))
    )
    hours = tuple(
        HourView(at=hour * HOUR, games=games, positions=games, cpu_s=None)
        for hour, games in sorted(
            draw(st.dictionaries(st.integers(0, 10**6), st.integers(0, 10**9), max_size=5)).items()
        )
    )
    datasets = tuple(draw(st.lists(_datasets(), max_size=4)))
    return replace(made, ratings=ratings, hours=hours, datasets=tuple(sorted(datasets, key=lambda each: each.made_at)))


@st.composite
def _datasets(draw: st.DrawFn) -> DatasetView:
    refused = draw(st.dictionaries(st.text(max_size=30), st.integers(0, 1000), max_size=9))
    dataset = busy("a", 2).datasets[0]
    return replace(dataset, made_at=draw(AT), offered=draw(st.integers(0, 1000)), rejected=refused)


@given(histories(), AT)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_can_be_drawn(history: ConfigHistory, now: float) -> None:
    for svg in (plots.rating_plot(history, now), plots.games_plot(history, now), plots.age_plot(history, now)):
        assert svg is None or words(svg)
    svg = plots.rejections_plot(history)
    assert svg is None or words(svg)


@given(st.text())
def test_labels_are_letters_that_every_font_has(text: str) -> None:
    label = named(text)
    assert label.isascii()
    assert label.isprintable()
    assert 1 <= len(label) <= LABEL_CHARACTERS
    assert not label.startswith("_")
