"""Segments: finished games as self-play and evaluation record them.

docs/reference/learning.md lays down the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import npz
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.players import parse

SCHEMA = 1
LEAST_PROBABILITY = 1e-4
MOST_BYTES = 1 << 30
"""Of all arrays of a segment together; a hundred games with dense policies on the largest board take 60 MB."""
PURPOSES = ("selfplay", "evaluation")

LAYOUT: npz.Layout = {
    "game_offsets": ("int64", 1),
    "game_seed": ("uint64", 1),
    "ranking": ("int8", 2),
    "action": ("int32", 1),
    "policy_offsets": ("int64", 1),
    "policy_action": ("int32", 1),
    "policy_probability": ("float32", 1),
    "root_value": ("float32", 2),
    "network_value": ("float32", 2),
}


class SegmentError(Exception):
    """The bytes are no segment, or not one of this game; the message names what is wrong."""


@dataclass(frozen=True, slots=True)
class Header:
    """Who made the games, of what, how many."""

    config: str
    game: str
    rules_version: int
    players: int
    actions: int
    player: str
    model: str | None
    engine: str
    simulations: int | None
    seed: int
    purpose: str
    games: int
    positions: int
    code: str
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The arrays of the file; ply `p` of game `g` is row `game_offsets[g] + p` of the arrays of positions."""

    header: Header
    game_offsets: NDArray[np.int64]
    game_seed: NDArray[np.uint64]
    ranking: NDArray[np.int8]
    action: NDArray[np.int32]
    policy_offsets: NDArray[np.int64]
    policy_action: NDArray[np.int32]
    policy_probability: NDArray[np.float32]
    root_value: NDArray[np.float32]
    network_value: NDArray[np.float32]

    def lengths(self) -> NDArray[np.int64]:
        """`(games,)`: plies of each game."""
        return np.diff(self.game_offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Ply:
    """What is recorded of one position."""

    action: int
    policy_action: NDArray[np.int32]
    """Nothing where no player chose the action, as in the opening of a match."""
    policy_probability: NDArray[np.float32]
    root_value: NDArray[np.float32]
    """`(players,)`, NaN where the engine knows none."""
    network_value: NDArray[np.float32]
    """`(players,)`, NaN without a network."""


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A game that has ended."""

    seed: int
    ranking: NDArray[np.int8]
    plies: Sequence[Ply]


@dataclass(frozen=True, slots=True)
class Maker:
    """What a stage knows of its games beforehand: the header's part that does not depend on them."""

    config: str
    player: str
    model: str | None
    engine: str
    simulations: int | None
    seed: int
    purpose: str
    code: str


def sparse(
    policies: NDArray[np.floating[Any]], played: NDArray[np.int32] | None = None
) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """Of each row of `(batch, actions)` the actions worth recording, and their probabilities, which sum to 1.

    The action `played` `(batch,)` is recorded however improbable it was: without it the record would deny itself.
    """
    worth = policies >= LEAST_PROBABILITY * policies.sum(axis=1, keepdims=True)
    if played is not None:
        worth[np.arange(len(played)), played] = True
    kept = np.where(worth, policies, 0.0).astype(np.float64)
    rows, actions = np.nonzero(worth)
    probabilities = (kept / kept.sum(axis=1, keepdims=True))[rows, actions].astype(np.float32)
    ends = np.cumsum(worth.sum(axis=1))
    spans = zip(np.append(0, ends[:-1]), ends, strict=True)
    return [(actions[start:end].astype(np.int32), probabilities[start:end]) for start, end in spans]


def assemble(game: Game, maker: Maker, games: Sequence[Played]) -> Segment:
    """A segment of these games, in their order."""
    plies = [ply for played in games for ply in played.plies]
    header = Header(
        **asdict(maker), game=game.name, rules_version=game.rules_version, players=game.players, actions=game.actions,
        games=len(games), positions=len(plies),
    )  # fmt: skip
    return Segment(
        header,
        game_offsets=_offsets([len(played.plies) for played in games]),
        game_seed=np.array([played.seed for played in games], np.uint64),
        ranking=_rows([played.ranking for played in games], game.players, np.int8),
        action=np.array([ply.action for ply in plies], np.int32),
        policy_offsets=_offsets([len(ply.policy_action) for ply in plies]),
        policy_action=np.concatenate([np.empty(0, np.int32), *(ply.policy_action for ply in plies)]),
        policy_probability=np.concatenate([np.empty(0, np.float32), *(ply.policy_probability for ply in plies)]),
        root_value=_rows([ply.root_value for ply in plies], game.players, np.float32),
        network_value=_rows([ply.network_value for ply in plies], game.players, np.float32),
    )


def write(segment: Segment) -> bytes:
    """The file of a segment: the same bytes for the same games."""
    return npz.pack(asdict(segment.header), {name: getattr(segment, name) for name in LAYOUT})


def read(content: bytes) -> Segment:
    """The segment of a file, consistent in itself. Raises `SegmentError`."""
    try:
        header, arrays = npz.unpack(content, LAYOUT, MOST_BYTES)
    except npz.NpzError as error:
        raise SegmentError(str(error)) from error
    segment = Segment(_header(header), **arrays)
    _check_shapes(segment)
    _check_offsets("game_offsets", segment.game_offsets, segment.header.positions)
    _check_offsets("policy_offsets", segment.policy_offsets, len(segment.policy_action))
    return segment


def check_game(segment: Segment, config: str, game: Game) -> None:
    """Whether the segment is of this config and game, by the same rules. Raises `SegmentError`."""
    header = segment.header
    for name, found, due in (
        ("config", header.config, config),
        ("game", header.game, game.name),
        ("rules_version", header.rules_version, game.rules_version),
        ("players", header.players, game.players),
        ("actions", header.actions, game.actions),
    ):
        if found != due:
            raise SegmentError(f"{name} is {found!r}, but {due!r} is asked for: the games are of another kind")


def entries_of(offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices of all entries of the given rows, one row after the other."""
    counts = offsets[rows + 1] - offsets[rows]
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(counts.sum()) + np.repeat(offsets[rows] - before, counts), np.int64)


def _offsets(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *counts], dtype=np.int64)


def _rows(rows: Sequence[NDArray[Any]], width: int, dtype: type[np.generic]) -> NDArray[Any]:
    return np.array(rows, dtype).reshape(len(rows), width)


def _header(given: Mapping[str, Any]) -> Header:
    if given.get("schema") != SCHEMA:
        raise SegmentError(f"header.schema is {given.get('schema')!r}; this version reads schema {SCHEMA}")
    names = {field.name for field in fields(Header)}
    if given.keys() != names:
        missing, unknown = sorted(names - given.keys()), sorted(given.keys() - names)
        raise SegmentError(f"header: missing {missing}, unknown {unknown}")
    header = Header(**given)
    for name, types in _TYPES.items():
        if type(given[name]) not in types:
            raise SegmentError(f"header.{name}: {given[name]!r} is no {' or '.join(kind.__name__ for kind in types)}")
    _check_header(header)
    return header


_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("config", "game", "player", "engine", "purpose", "code"), (str,)),
    **dict.fromkeys(("rules_version", "players", "actions", "seed", "games", "positions"), (int,)),
    "model": (str, NoneType),
    "simulations": (int, NoneType),
}


def _check_header(header: Header) -> None:
    if header.purpose not in PURPOSES:
        raise SegmentError(f"header.purpose: {header.purpose!r} is none of {', '.join(PURPOSES)}")
    for name, least in (("players", 2), ("actions", 1), ("games", 1), ("positions", 0), ("seed", 0)):
        if (found := getattr(header, name)) < least:
            raise SegmentError(f"header.{name}: {found} is less than {least}")
    if header.purpose == "selfplay":
        _check_player(header)


def _check_player(header: Header) -> None:
    try:
        name = parse(header.player)
    except ValueError as error:
        raise SegmentError(f"header.player: {error}") from error
    for field, found, due in (
        ("engine", header.engine, name.engine),
        ("simulations", header.simulations, name.budget),
        ("model", header.model, name.model),
    ):
        if found != due:
            raise SegmentError(f"header.{field} is {found!r}, but the player {header.player} has {due!r}")


def _check_shapes(segment: Segment) -> None:
    header = segment.header
    due = {
        "game_offsets": (header.games + 1,),
        "game_seed": (header.games,),
        "ranking": (header.games, header.players),
        "action": (header.positions,),
        "policy_offsets": (header.positions + 1,),
        "policy_probability": segment.policy_action.shape,
        "root_value": (header.positions, header.players),
        "network_value": (header.positions, header.players),
    }
    for name, shape in due.items():
        if (found := getattr(segment, name).shape) != shape:
            raise SegmentError(f"{name}: its shape is {found}, but by the header it must be {shape}")


def _check_offsets(name: str, offsets: NDArray[np.int64], end: int) -> None:
    # Compared, not subtracted: differences of wild numbers overflow.
    if offsets[0] != 0 or offsets[-1] != end or bool((offsets[1:] < offsets[:-1]).any()):
        raise SegmentError(f"{name}: must rise from 0 to {end}, not from {offsets[0]} to {offsets[-1]}")
