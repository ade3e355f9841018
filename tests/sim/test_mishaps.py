"""Lives of rented nodes, the levels of faults, and files of them."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from random import Random
from statistics import fmean

import pytest

from hostler.sim.faults import DAY_S, LEVELS, Faults, Lives, faults_of, level, lives_of
from hostler.sim.fleet import Scenario, added, play

TRACE = ["0,add,a", "0,add,b", "60000,remove,a", "", "90000,add,c", "600000,remove,b"]


def test_lives_of_a_trace_are_of_those_that_end() -> None:
    assert lives_of(TRACE) == (60.0, 600.0)


@pytest.mark.parametrize(
    "line", ["x,add,a", "0,join,a", "0,add", "-5,add,a", "nan,remove,a", "²,add,a", "9" * 5000 + ",remove,a"]
)
def test_other_lines_are_refused_with_their_number(line: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        lives_of(["0,add,a", line])


@pytest.mark.parametrize("at", [0, 999, 1000])
def test_a_life_without_length_is_refused(at: int) -> None:
    with pytest.raises(ValueError, match=r"line 3: 'a' is removed at [0-9.]+ s, not after it was added at 1 s"):
        lives_of(["1000,add,a", "1000,add,b", f"{at},remove,a"])


def test_a_trace_in_which_nothing_ends_teaches_nothing() -> None:
    with pytest.raises(ValueError, match="no instance"):
        lives_of(["0,add,a"])


def test_lives_are_drawn_from_what_was_seen_or_by_their_mean() -> None:
    random = Random(1)
    seen = {Lives(lives_s=(60.0, 600.0), scale=4.0).drawn_s(random, None) for _ in range(50)}
    assert seen == {240.0, 2400.0}
    own = fmean(Lives(scale=2.0).drawn_s(random, 500.0) or 0.0 for _ in range(5000))
    assert own == pytest.approx(1000.0, rel=0.1)
    assert Lives().drawn_s(random, None) is None


def test_levels_grow() -> None:
    none, light, heavy = (level(name, 10, DAY_S) for name in LEVELS)
    assert none.link_cut_every_s is None
    assert light.link_cut_every_s is not None
    assert heavy.link_cut_every_s is not None
    assert heavy.link_cut_every_s < light.link_cut_every_s


EVERY = [each.name for each in fields(Faults) if each.name.endswith("_every_s")]
LASTS = ["outage_s", "partition_s", "straggler_s", "hang_s", "disk_full_s", "lie_s"]
ATMOST = ["clock_jump_s", "late_s", "until_s"]
SHARES = ["crash_at_commit", "told_again", "wrong_digest"]


def test_every_number_of_a_file_is_looked_at() -> None:
    numbers = {each.name for each in fields(Faults)} - {"bad_devices"}
    assert numbers == {*EVERY, *LASTS, *ATMOST, *SHARES, "straggler_speed"}


def refused(key: str, text: str) -> str:
    with pytest.raises(ValueError, match=f"^{key}: ") as found:
        faults_of(f'{{"{key}": {text}}}', DAY_S)
    return str(found.value)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "-1", "true", '"5"', "[]", "1e10"])
@pytest.mark.parametrize("key", [*EVERY, *LASTS, *ATMOST, *SHARES, "straggler_speed"])
def test_nonsense_is_refused_whatever_the_key(key: str, text: str) -> None:
    assert "should be a number " in refused(key, text)


@pytest.mark.parametrize(
    ("keys", "text", "told"),
    [
        (EVERY, "1e-300", "should be a number from 1 to 1e+09 (found 1e-300); leave it out for never"),
        (LASTS, "0", "should be a number above 0 and up to 1e+09 (found 0)"),
        (SHARES, "1.5", "should be a number from 0 to 1 (found 1.5)"),
        (["straggler_speed"], "0", "should be a number above 0 and up to 1 (found 0)"),
        (["straggler_speed"], "null", "should be a number above 0 and up to 1 (found null)"),
        (ATMOST, "-0.5", "should be a number from 0 to 1e+09 (found -0.5)"),
        (["bad_devices"], '"all"', 'should be a list of texts (found "all")'),
        (["bad_devices"], "[1, 2]", "should be a list of texts (found 1)"),
    ],
)
def test_what_is_allowed_is_told_field_by_field(keys: list[str], text: str, told: str) -> None:
    for key in keys:
        assert refused(key, text) == f"{key}: {told}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 5000, "is no JSON"),
        ('{"late_s": ' + "9" * 5000 + "}", "is no JSON"),
        ('"light"', "should be an object"),
        ('{"\\u001b": 1}', "is no setting"),
    ],
    ids=["deep", "long", "a text", "a key"],
)
def test_what_is_no_file_of_faults(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as found:
        faults_of(text, DAY_S)
    assert str(found.value).isprintable()


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(
        ValueError, match=r"^outage_s: .*; lie_s: .*; earthquakes: is no setting \(allowed here: link_cut"
    ):
        faults_of('{"outage_s": 0, "lie_s": -1, "earthquakes": 3}', DAY_S)


def test_what_is_allowed_is_read() -> None:
    text = json.dumps({"link_cut_every_s": 1, "hang_every_s": None, "straggler_speed": 1, "bad_devices": ["n/cuda0"]})
    found = faults_of(text, DAY_S)
    assert (found.link_cut_every_s, found.hang_every_s, found.straggler_speed) == (1.0, None, 1.0)
    assert found.bad_devices == {"n/cuda0"}
    assert found.until_s == DAY_S, "a file that does not say means all of the time"
    assert faults_of('{"until_s": 60}', DAY_S).until_s == 60.0
    assert faults_of('{"until_s": 1e9}', DAY_S).until_s == DAY_S


def test_the_bounds_can_be_played() -> None:
    least = dict.fromkeys(EVERY, 1.0) | dict.fromkeys(LASTS, 1e-300) | {"straggler_speed": 1e-300}
    most = dict.fromkeys(EVERY, 60.0) | dict.fromkeys([*LASTS, *ATMOST], 1e9) | dict.fromkeys(SHARES, 1.0)
    nodes = (replace(added("e", "RTX 4090", 1, 24.0, "vast", 0.4), ephemeral=True),)
    for given in (least, most):
        scenario = Scenario(
            name="f", nodes=nodes, days=0.005, faults=faults_of(json.dumps(given), 300.0), lives=Lives()
        )
        assert sum(play(scenario).faults.values()) > 5


@pytest.mark.parametrize("name", LEVELS)
def test_levels_are_what_a_file_may_say(name: str) -> None:
    given = level(name, 1000, DAY_S)
    text = json.dumps({each.name: getattr(given, each.name) for each in fields(Faults) if each.name != "bad_devices"})
    assert faults_of(text, DAY_S) == given
