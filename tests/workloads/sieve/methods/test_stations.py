"""Stations lie where the draws' words are, and how often words are drawn again is bounded."""

from itertools import islice
from math import exp, lgamma, log, log1p

import pytest

from hostler.workloads.sieve.methods.picks import NEVER, aims
from hostler.workloads.sieve.methods.stations import followed, most_again, rejections, stations

from .questions import question

BOUND = {"kind": "bound", "bound": 999}


def test_every_word_that_may_be_drawn_again_is_a_station() -> None:
    spec = question("java", BOUND, 4, 1, at=(0, 2), hide=[1])
    made = list(stations(spec, 2))
    assert [station.at for station in made] == list(range(12))
    assert [station.at for station in made if station.want] == [aim.at for aim in aims(spec, 2)] == [2, 8, 11]
    assert all(station.limit == 2**31 - 2**31 % 999 - 1 for station in made)


def test_other_words_are_stations_where_a_draw_is_known() -> None:
    spec = question("java", [{"kind": "double"}, {"kind": "boolean"}, BOUND], 6, 1, hide=[3, 4, 5])
    made = list(stations(spec, 0))
    assert [(station.at, station.limit is None, station.want is None) for station in made] == [
        (0, True, False), (1, True, False), (2, True, False), (3, False, False), (7, False, True),
    ]  # fmt: skip


def test_what_is_drawn_again_in_other_ways_is_not_followed() -> None:
    assert followed(question("java", BOUND, 4, 1))
    assert not followed(question("numpy", {"kind": "range", "min": 0, "max": 5}, 4, 1))
    assert rejections(question("java", BOUND, 4, 1).calls[0]) == [2**31 % 999 / 2**31]
    assert rejections(question("java", {"kind": "bound", "bound": 64}, 4, 1).calls[0]) == []


@pytest.mark.parametrize(("picks", "chance"), [(1, 0.5), (1, 1e-7), (7, 0.3), (40, 1e-3), (1000, 0.01), (100_000, 0.2)])
def test_more_words_are_drawn_again_with_less_than_no_probability(picks: int, chance: float) -> None:
    most = most_again(picks, chance)
    terms = (exp(_log_ways(picks, count) + picks * log1p(-chance) + count * log(chance)) for count in range(most + 400))
    assert sum(islice(terms, most + 1, None)) <= NEVER * 1.001
    assert most >= picks * chance * 0.9
    assert most <= 60 + 2 * picks * chance


def test_where_nothing_is_drawn_again_it_never_is() -> None:
    assert most_again(0, 0.5) == most_again(5, 0.0) == 0


def _log_ways(picks: int, count: int) -> float:
    return lgamma(picks + count) - lgamma(picks) - lgamma(count + 1)
