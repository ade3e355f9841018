import io
import json
import zipfile
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.alphazero import npz, segments
from hostler.workloads.alphazero.replay import replay
from hostler.workloads.alphazero.segments import LAYOUT, Segment, SegmentError, check_game, read, sparse, write
from tests.workloads.alphazero.stages import CONFIG, GAME, games_of, segment_of, with_header
from tests.workloads.alphazero.trivial import make

SEGMENT = segment_of(games_of(GAME, 4))
CONTENT = write(SEGMENT)


def content_of(segment: Segment) -> dict[str, Any]:
    arrays = {name: getattr(segment, name).tobytes() for name in LAYOUT}
    return {**arrays, "header": asdict(segment.header)}


def packed(header: dict[str, Any] | None = None, **arrays: Any) -> bytes:
    """The segment's file with other arrays or header fields."""
    known = {name: getattr(SEGMENT, name) for name in LAYOUT}
    return npz.pack({**asdict(SEGMENT.header), **(header or {})}, {**known, **arrays})


def test_a_segment_comes_back_as_it_was() -> None:
    assert content_of(read(CONTENT)) == content_of(SEGMENT)
    assert SEGMENT.header.games == 4
    assert SEGMENT.header.positions == len(SEGMENT.action) == SEGMENT.lengths().sum()


def test_the_same_games_are_the_same_bytes_whenever_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert write(segment_of(games_of(GAME, 4))) == CONTENT


def test_the_file_is_what_the_contract_says_for_anybody_with_numpy(tmp_path: Any) -> None:
    path = tmp_path / "games.npz"
    path.write_bytes(CONTENT)
    with np.load(path, allow_pickle=False) as archive:
        assert set(archive.files) == {"header", *LAYOUT}
        assert archive["header"].dtype == np.uint8
        assert {name: str(archive[name].dtype) for name in LAYOUT} == {
            name: dtype for name, (dtype, _) in LAYOUT.items()
        }
        sums = np.add.reduceat(archive["policy_probability"], archive["policy_offsets"][:-1])
        assert np.allclose(sums, 1, atol=1e-5)


def test_a_file_that_numpy_wrote_is_read_as_well(tmp_path: Any) -> None:
    path = tmp_path / "games.npz"
    header = npz.unpack(CONTENT, LAYOUT)[0]
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, header=text, **{name: getattr(SEGMENT, name) for name in LAYOUT})
    assert content_of(read(path.read_bytes())) == content_of(SEGMENT)


def test_small_probabilities_are_left_out_and_the_rest_sums_to_1() -> None:
    policies = np.array([[0.5, 0.49995, 0.00005, 0], [0, 0, 3, 1]], np.float32)
    (first, second) = segments.sparse(policies)
    assert first[0].tolist() == [0, 1]
    assert first[1].sum() == pytest.approx(1)
    assert (second[0].tolist(), second[1].tolist()) == ([2, 3], [0.75, 0.25])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "archive of 0 bytes is damaged"),
        (CONTENT[:-30], "damaged"),
        (CONTENT[30:], "damaged|missing"),
        (packed(header={"schema": 2}), r"schema is 2; this version reads schema 1"),
        (packed(header={"more": 1}), r"header: missing \[\], unknown \['more'\]"),
        (packed(header={"games": "4"}), r"header.games: '4' is no int"),
        (packed(header={"games": True}), r"header.games: True is no int"),
        (packed(header={"players": 1}), r"header.players: 1 is less than 2"),
        (packed(header={"games": 0}), r"header.games: 0 is less than 1"),
        (packed(header={"games": 3}), r"game_offsets: its shape is \(5,\), but by the header it must be \(4,\)"),
        (packed(header={"purpose": "fun"}), "purpose: 'fun'"),
        (packed(header={"model": "ab" * 32}), "header.model is 'abab.*heuristic has None"),
        (
            packed(header={"player": f"gumbel-4@{'ab' * 32}"}),
            "engine is 'heuristic', but the player gumbel",
        ),
        (packed(header={"simulations": 4}), "header.simulations is 4, but the player heuristic has None"),
        (packed(header={"player": "clever"}), "header.player: player 'clever'"),
        (packed(action=SEGMENT.action.astype(np.int64)), "action: int64 with 1 dimensions, not int32 with 1"),
        (packed(action=SEGMENT.action[:, None]), "action: int32 with 2 dimensions"),
        (packed(ranking=SEGMENT.ranking[:, :1]), r"ranking: its shape is \(4, 1\)"),
        (packed(ranking=np.asfortranarray(SEGMENT.ranking).astype(">i2")), "ranking: >i2"),
        (packed(policy_action=SEGMENT.policy_action[:-1]), "policy_probability: its shape"),
        (packed(more=SEGMENT.action), r"missing \[\], unknown \['more'\]"),
        (packed(game_offsets=SEGMENT.game_offsets[::-1].copy()), "game_offsets: must rise from 0"),
        (packed(game_offsets=SEGMENT.game_offsets + 1), "game_offsets: must rise from 0"),
        (packed(policy_offsets=SEGMENT.policy_offsets * 0), "policy_offsets: must rise from 0"),
    ],
)
def test_what_is_no_segment_is_refused_by_what_is_wrong(content: bytes, told: str) -> None:
    with pytest.raises(SegmentError, match=told):
        read(content)


def test_wild_offsets_do_not_overflow() -> None:
    wild = SEGMENT.game_offsets.copy()
    wild[1:3] = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    with pytest.raises(SegmentError, match="must rise"):
        read(packed(game_offsets=wild))


def test_objects_and_pickles_are_never_loaded(tmp_path: Any) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("a pickle was loaded",))

    path = tmp_path / "bomb.npz"
    arrays: dict[str, Any] = {name: getattr(SEGMENT, name) for name in LAYOUT}
    np.savez(path, header=np.array([Bomb()], object), **arrays)
    with pytest.raises(SegmentError, match="header: object"):
        read(path.read_bytes())


def test_a_header_that_promises_terabytes_costs_nothing(tmp_path: Any) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(CONTENT)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            member = old.read(name)
            if name == "action.npy":
                shape = f"({SEGMENT.header.positions},), }}".encode()
                member = member.replace(shape + b" " * 12, b"(9999999999999,), }".ljust(len(shape) + 12))
                assert b"9999" in member
            new.writestr(name, member)
    with pytest.raises(SegmentError, match=r"action: .* bytes of data, but"):
        read(file.getvalue())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"config": "hex8_2p"}, "config is 'hex8_2p', but 'spacing_2p' is asked for"),
        ({"game": "spacing 9 2p"}, "game is 'spacing 9 2p', but 'spacing 15 2p'"),
        ({"rules_version": 2}, "rules_version is 2, but 1"),
        ({"actions": 17}, "actions is 17"),
    ],
)
def test_a_segment_of_another_kind_is_named(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(SegmentError, match=told):
        check_game(with_header(SEGMENT, **changed), CONFIG, GAME)
    check_game(SEGMENT, CONFIG, GAME)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_found_out_or_changes_nothing(position: int, flip: int) -> None:
    content = bytearray(CONTENT)
    content[position] ^= flip
    assert_refused_or_equal(bytes(content))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(CONTENT)), st.integers(0, 200), st.binary(max_size=20))
def test_cut_or_patched_bytes_are_found_out_or_change_nothing(start: int, length: int, patch: bytes) -> None:
    assert_refused_or_equal(CONTENT[:start] + patch + CONTENT[start + length :])


def assert_refused_or_equal(content: bytes) -> None:
    try:
        found = read(content)
    except SegmentError:
        return
    assert content_of(found) == content_of(SEGMENT)


def arrays_like(name: str) -> st.SearchStrategy[Any]:
    """The array of this name with a few entries replaced by any numbers of its type."""
    array = getattr(SEGMENT, name)
    info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
    wild = st.integers(int(info.min), int(info.max)) if info else st.floats(width=32)
    near = st.integers(0, 30) if info else wild

    def changed(places: list[tuple[int, Any]]) -> Any:
        copy = array.copy()
        for place, value in places:
            copy.flat[place] = value
        return copy

    return st.lists(st.tuples(st.integers(0, array.size - 1), wild | near), min_size=1, max_size=5).map(changed)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(LAYOUT)).flatmap(lambda name: st.tuples(st.just(name), arrays_like(name))))
def test_whatever_the_arrays_hold_a_segment_is_refused_or_replays_without_a_crash(changed: tuple[str, Any]) -> None:
    name, array = changed
    try:
        segment = read(packed(**{name: array}))
    except SegmentError:
        return
    assert len(replay(GAME, segment).verdicts) == 4


def test_several_players_have_as_many_columns() -> None:
    game = make(9, players=3)
    segment = read(write(segment_of(games_of(game, 3), game)))
    assert segment.ranking.shape == (3, 3)
    assert segment.root_value.shape == (segment.header.positions, 3)
    assert np.isnan(segment.network_value).all()


def test_an_action_that_was_played_is_recorded_however_improbable() -> None:
    policy = np.array([[0.99999, 0.00001, 0.0]], np.float32)
    [(actions, probabilities)] = sparse(policy, np.array([1], np.int32))
    assert actions.tolist() == [0, 1]
    assert probabilities[1] > 0
