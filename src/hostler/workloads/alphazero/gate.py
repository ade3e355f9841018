"""The quality gate: measured properties of segments, and which of their games may be learnt from.

`measure` looks at one segment alone, `judge` at all segments of a window. Both are pure. The properties:

- `replay`: games whose record holds by the rules of today: legal moves, the recorded ranking, policies that are
  distributions over legal actions.
- `provenance`: of sampled positions, those at which the named model gives the recorded value of the network.
- `decided`: of the games whose moves are legal, those that end.
- `length`: of the sound games, those whose length lies near the config's own: see `length_bounds`.
- `unique`: of the sound games, those that are no copy, up to symmetry, of one before them in the window.
- `openings`: the chance that two sound games of the segment differ in their openings, relative to openings drawn evenly
  from all there are: see `opening_diversity`. Small segments of a player are measured together.
- `strength`: games of a player who is rated, and not below the floor; not measured in the bootstrap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.canonical import canonical, keys_of, sequences_of
from hostler.workloads.alphazero.game import Game, States
from hostler.workloads.alphazero.replay import Replay, Verdict, replay
from hostler.workloads.alphazero.segments import Header, Segment

Quality: TypeAlias = dict[str, float | None]
"""A share of 0..1 for each of `PROPERTIES`; `None` where there was nothing to measure."""

Values: TypeAlias = Callable[[States], NDArray[np.float32]]
"""A network's value of every seat, `(batch, players)`."""

PROPERTIES = ("replay", "provenance", "decided", "length", "unique", "openings", "strength")

SAMPLED_POSITIONS = 32
VALUE_TOLERANCE = 0.05
"""By which a value may differ from the recorded one, which a GPU has computed in 16 bits: with bfloat16 emulated on a
CPU, values of a small trained network moved by up to 0.03. Models whose values are closer than this at most positions
cannot be told apart."""

LEAST_OPENINGS = 10
"""Games that say how different the openings of a segment are; one of a single game would say nothing."""

MATCH = " vs "
"""Between the names of the two players of an evaluation's segment."""

LEAST_REFERENCE = 30
LENGTH_SPREADS = 5.0
LENGTH_SHARE = 0.1
LENGTH_PLIES = 3.0
_MAD_TO_SD = 1.4826  # of a normal distribution: P. J. Huber, "Robust Statistics", 1981, section 5.1


@dataclass(frozen=True, slots=True)
class Lengths:
    """The distribution of the lengths of games, in plies."""

    mean: float
    sd: float
    games: int


@dataclass(frozen=True, slots=True)
class Rules:
    """By what a window is judged. `players` are the rated ones with their Elo; no `floor` means the bootstrap."""

    quality: float
    floor: float | None = None
    players: Mapping[str, float] = field(default_factory=dict)
    lengths: Lengths | None = None
    include_evaluation: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What a segment shows by itself. Arrays have a row for each game."""

    header: Header
    verdicts: NDArray[np.int8]
    lengths: NDArray[np.int64]
    keys: Sequence[bytes | None]
    """The canonical form of a sound game; `None` for others."""
    false_values: NDArray[np.bool_]
    """Whether a sampled position has a value that the named model does not give."""
    provenance: float | None
    openings: NDArray[np.int32]
    """`(sound games, opening plies)`: the openings in canonical form."""
    possible_openings: float


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What becomes of a segment: `accepted` `(games,)`, the number of games rejected for each reason, the measures."""

    accepted: NDArray[np.bool_]
    rejected: Mapping[str, int]
    quality: Quality
    score: float | None
    refused: str | None


def measure(game: Game, segment: Segment, possible_openings: float, values: Values | None, seed: int) -> Measured:
    """Measure one segment of this game. `values` are those of the model it names, `None` if it names none."""
    played = replay(game, segment)
    sound = np.flatnonzero(played.verdicts == Verdict.SOUND)
    forms = canonical(game, sequences_of(segment, sound))
    keys: list[bytes | None] = [None] * segment.header.games
    for number, key in zip(sound, keys_of(forms), strict=True):
        keys[number] = key
    false_values, provenance = _provenance(segment, played, values, np.random.default_rng(seed))
    return Measured(
        segment.header, played.verdicts, segment.lengths(), keys, false_values, provenance,
        _openings(forms, opening_plies(game)), possible_openings,
    )  # fmt: skip


def judge(window: Sequence[Measured], rules: Rules) -> list[Judgement]:
    """Judge all segments of a window, in their order. Of copies the first one is kept that is not rejected itself."""
    lengths = [each.lengths[each.verdicts == Verdict.SOUND] for each in window if _is_welcome(each, rules)]
    bounds = length_bounds(np.concatenate([np.empty(0, np.int64), *lengths]), rules.lengths)
    seen: set[bytes] = set()
    judgements = []
    for measured, openings in zip(window, _diversities(window), strict=True):
        judgement = _judge_one(measured, rules, bounds, openings, seen)
        seen.update(key for key, kept in zip(measured.keys, judgement.accepted, strict=True) if kept and key)
        judgements.append(judgement)
    return judgements


def length_bounds(lengths: NDArray[np.int64], reference: Lengths | None) -> tuple[float, float]:
    """The shortest and the longest game that is the config's own, from the window's games and those accepted before.

    The window's centre is its median, its spread the median absolute deviation (scaled to a standard deviation), so
    that up to half of the window may be strange. The reference has a voice by its games, but never a louder one than
    the window: games may become longer as players learn. A window that scatters more than twice as much as the
    reference is taken to scatter twice as much. A reference of less than 30 games says nothing. Games may lie 5
    spreads, a tenth of the centre or three plies from the centre, whatever is more: so games of a fixed length have
    some room as well.
    """
    if not len(lengths):
        return 0.0, float("inf")
    centre = float(np.median(lengths))
    spread = float(np.median(np.abs(lengths - centre))) * _MAD_TO_SD
    if reference is not None and reference.games >= LEAST_REFERENCE:
        voice = min(reference.games, len(lengths))
        share = voice / (voice + len(lengths))
        centre = share * reference.mean + (1 - share) * centre
        spread = float(np.hypot(share**0.5 * reference.sd, (1 - share) ** 0.5 * min(spread, 2 * reference.sd)))
    room = max(LENGTH_SPREADS * spread, LENGTH_SHARE * centre, LENGTH_PLIES)
    return centre - room, centre + room


def opening_plies(game: Game) -> int:
    """How long an opening is: the third of the longest game, in which self-play draws its moves by default."""
    return -(-game.max_plies // 3)


def opening_diversity(openings: NDArray[np.int32], possible: float) -> float | None:
    """The chance that two games differ, by that of as many equally frequent openings as are possible; at most 1.

    This is the unbiased estimate of E. H. Simpson's index ("Measurement of diversity", Nature 163, 1949), and so does
    not depend on the number of games. A generator that likes good openings keeps near 1; one that plays the same in
    nine games of ten has less than 0.2. `None` for less than two games, or if there is but one opening.
    """
    games = len(openings)
    if games < 2 or possible < 2:
        return None
    _, counts = np.unique(openings, axis=0, return_counts=True)
    alike = float((counts * (counts - 1)).sum()) / (games * (games - 1))
    return min(1.0, (1 - alike) / (1 - 1 / possible))


def overall(window: Sequence[tuple[int, Quality]]) -> Quality:
    """The quality of a window, from that of its segments, each with its number of games."""
    measures: Quality = dict.fromkeys(PROPERTIES)
    for name in PROPERTIES:
        told = [(games, quality[name]) for games, quality in window if quality[name] is not None]
        if told:
            measures[name] = sum(games * (share or 0.0) for games, share in told) / sum(games for games, _ in told)
    return measures


def _openings(forms: NDArray[np.int32], plies: int) -> NDArray[np.int32]:
    return np.pad(forms[:, :plies], ((0, 0), (0, max(0, plies - forms.shape[1]))), constant_values=-1)


def _diversities(window: Sequence[Measured]) -> list[float | None]:
    """Of the openings of each segment, or, if it is small, of all small ones of its player together."""
    small: dict[str, list[NDArray[np.int32]]] = {}
    for each in window:
        if len(each.openings) < LEAST_OPENINGS:
            small.setdefault(each.header.player, []).append(each.openings)
    pooled = {player: np.concatenate(openings) for player, openings in small.items()}
    return [
        opening_diversity(
            each.openings if len(each.openings) >= LEAST_OPENINGS else pooled[each.header.player],
            each.possible_openings,
        )
        for each in window
    ]


def _provenance(
    segment: Segment, played: Replay, values: Values | None, chance: np.random.Generator
) -> tuple[NDArray[np.bool_], float | None]:
    """The games with a false value at a sampled position, and the share of the positions with true ones."""
    false_games = np.zeros(segment.header.games, np.bool_)
    game = np.repeat(np.arange(segment.header.games), segment.lengths())
    rows = np.flatnonzero(played.verdicts[game] == Verdict.SOUND)
    if segment.header.purpose == "evaluation":
        # A match has moves of players without this network.
        rows = rows[~np.isnan(segment.network_value[rows]).any(axis=1)]
    if values is None or not len(rows):
        return false_games, None
    # One position of every game at least: else games that are not sampled would go unproved.
    _, of_each = np.unique(game[shuffled := chance.permutation(rows)], return_index=True)
    sample = np.union1d(shuffled[of_each], shuffled[:SAMPLED_POSITIONS])
    distance = np.abs(values(played.states[sample]) - segment.network_value[sample])
    false = ~(distance <= VALUE_TOLERANCE).all(axis=1)
    false_games[game[sample[false]]] = True
    return false_games, float(1 - false.mean())


def _is_welcome(measured: Measured, rules: Rules) -> bool:
    return rules.include_evaluation or measured.header.purpose != "evaluation"


def _judge_one(
    measured: Measured, rules: Rules, bounds: tuple[float, float], openings: float | None, seen: set[bytes]
) -> Judgement:
    sound = measured.verdicts == Verdict.SOUND
    within = (measured.lengths >= bounds[0]) & (measured.lengths <= bounds[1])
    fresh = _fresh(measured.keys, seen)
    strong = _is_strong(measured.header.player, rules)
    quality = {**_quality(measured, sound, within, fresh, strong), "openings": openings}
    score = min(share for share in quality.values() if share is not None)
    refused = _refusal(measured, rules, quality, score)
    reasons = _reasons(measured, within, fresh, strong is False)
    if refused is not None:
        reasons = ["segment refused" if reason is None else reason for reason in reasons]
    accepted = np.array([reason is None for reason in reasons])
    rejected = Counter(reason for reason in reasons if reason is not None)
    return Judgement(accepted, dict(rejected), quality, score, refused)


def _fresh(keys: Sequence[bytes | None], seen: set[bytes]) -> NDArray[np.bool_]:
    fresh, here = np.ones(len(keys), np.bool_), set[bytes]()
    for number, key in enumerate(keys):
        if key is not None:
            fresh[number] = key not in seen and key not in here
            here.add(key)
    return fresh


def _is_strong(player: str, rules: Rules) -> bool | None:
    """Whether the player is rated, and not below the floor, or both of a match are; `None` in the bootstrap."""
    if rules.floor is None:
        return None
    return all(rules.players.get(each, -np.inf) >= rules.floor for each in player.split(MATCH))


def _quality(
    measured: Measured,
    sound: NDArray[np.bool_],
    within: NDArray[np.bool_],
    fresh: NDArray[np.bool_],
    strong: bool | None,
) -> Quality:
    legal = measured.verdicts != Verdict.ILLEGAL
    undecided = measured.verdicts == Verdict.UNDECIDED
    return {
        "replay": _share(sound | undecided, np.ones_like(sound)),
        "provenance": measured.provenance,
        "decided": _share(~undecided, legal),
        "length": _share(within, sound),
        "unique": _share(fresh, sound),
        "openings": None,
        "strength": None if strong is None else float(strong),
    }


def _share(which: NDArray[np.bool_], among: NDArray[np.bool_]) -> float | None:
    return float(which[among].mean()) if among.any() else None


def _refusal(measured: Measured, rules: Rules, quality: Quality, score: float) -> str | None:
    if not _is_welcome(measured, rules):
        return "its games were played for evaluation, which the order does not include"
    if score >= rules.quality:
        return None
    low = ", ".join(
        f"{name} {share:.2f}" for name, share in quality.items() if share is not None and share < rules.quality
    )
    return f"its quality is below {rules.quality:g}: {low}"


def _reasons(measured: Measured, within: NDArray[np.bool_], fresh: NDArray[np.bool_], weak: bool) -> list[str | None]:
    """Why each game is rejected, the first reason that applies."""
    reasons: list[str | None] = []
    for number, verdict in enumerate(measured.verdicts):
        if verdict == Verdict.UNDECIDED:
            reasons.append("undecided")
        elif verdict != Verdict.SOUND:
            reasons.append("targets" if verdict == Verdict.TARGETS else "replay")
        elif measured.false_values[number]:
            reasons.append("provenance")
        elif weak:
            reasons.append("weak generator")
        elif not within[number]:
            reasons.append("length")
        else:
            reasons.append(None if fresh[number] else "duplicate")
    return reasons
