"""The contract of each stage, checked where it ends: what it reports must be what it was ordered, counted, not empty.

Laid down in docs/reference/learning.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError

from hostler.core.loop.state import Config
from hostler.model.codec import adapter, explain
from hostler.model.learning import (
    EvaluationResult,
    ExportResult,
    Match,
    SegmentRef,
    SelfplayResult,
    TrainingResult,
)
from hostler.model.work import StagePayload, WorkKind

Result: TypeAlias = SelfplayResult | ExportResult | TrainingResult | EvaluationResult
Order: TypeAlias = Mapping[str, Any]
T = TypeVar("T")

WORDS_MAX = 2000
"""Characters of what is said of a result; what it holds may be long."""

SHAPES: Mapping[str, type[Any]] = {
    WorkKind.SELFPLAY: SelfplayResult,
    WorkKind.EXPORT: ExportResult,
    WorkKind.TRAINING: TrainingResult,
    WorkKind.EVALUATION: EvaluationResult,
}


def read(stage: str, result: Any) -> Result | str:
    """The result of a stage in its strict form, or what is wrong with it."""
    if result is None:
        return "it left no result in $HOSTLER_RESULT"
    try:
        read_as: Result = adapter(SHAPES[stage]).validate_python(result)
    except ValidationError as error:
        return f"its result is not what {stage} reports: {explain(error, result, SHAPES[stage])}"
    return read_as


def complaint(result: Any) -> str | None:
    """What a stage that failed says of itself."""
    error = result.get("error") if isinstance(result, Mapping) else None
    return error[:WORDS_MAX] if isinstance(error, str) and error else None


def fault(config: Config, job: str, payload: StagePayload, result: Result) -> str | None:
    """Why a result of this job, which can be read, breaks the stage's contract; `None` if it keeps it."""
    broken = None
    if isinstance(result, SelfplayResult | EvaluationResult):
        broken = _segments_fault(config, job, result.segments)
    if broken is None:
        broken = next(CHECKS[type(result)](config, payload.order, result), None)
    return None if broken is None else broken[:WORDS_MAX]


def partial_fault(config: Config, job: str, order: Order, result: SelfplayResult) -> str | None:
    """Why what self-play left before its end cannot be believed."""
    if result.games > order["games"]:
        return f"it played {result.games} games, {order['games']} were ordered"
    faults = chain(_sums(result), _numbers(order, result))
    return _segments_fault(config, job, result.segments) or next(faults, None)


def _segments_fault(config: Config, job: str, segments: tuple[SegmentRef, ...]) -> str | None:
    """Why these segments cannot be all different games, played for this job."""
    for name, count in Counter(segment.sha256 for segment in segments).items():
        known = config.segments.get(name)
        if count > 1:
            return f"it names segment {name} twice"
        if known is not None and known.job != job:
            return f"segment {name} was made by {known.job} before: of another seed there must be other games"
    return None


def _selfplay(config: Config, order: Order, result: SelfplayResult) -> Iterator[str]:
    if result.games != order["games"]:
        yield f"it played {result.games} games, {order['games']} were ordered"
    yield from _sums(result)
    yield from _numbers(order, result)


def _numbers(order: Order, result: SelfplayResult) -> Iterator[str]:
    """What a segment says that it holds, the next attempt is told: it must be games of the order, each in one."""
    taken: list[tuple[int, int, str]] = []
    for segment in result.segments:
        spans = [] if segment.numbers is None else list(_spans(segment.numbers))
        if spans and sum(last + 1 - first for first, last in spans) != segment.games:
            yield f"segment {segment.sha256} holds {segment.games} games, its numbers {segment.numbers} are others"
        taken += [(first, last, segment.sha256) for first, last in spans]
    taken.sort()
    for first, last, name in taken:
        if not first <= last < order["games"]:
            yield f"segment {name} holds games {first}-{last}, {order['games']} were ordered"
    for (_, last, one), (first, _, other) in pairwise(taken):
        if first <= last:
            yield f"game {first} is in segment {one}, and in segment {other}"


def _spans(numbers: str) -> Iterator[tuple[int, int]]:
    for span in numbers.split(","):
        first, _, last = span.partition("-")
        yield int(first), int(last or first)


def _sums(result: SelfplayResult) -> Iterator[str]:
    games = sum(segment.games for segment in result.segments)
    positions = sum(segment.positions for segment in result.segments)
    if (games, positions) != (result.games, result.positions):
        yield (
            f"its segments hold {games} games and {positions} positions, it says {result.games} and {result.positions}"
        )


def _export(config: Config, order: Order, result: ExportResult) -> Iterator[str]:
    told = _judged_fault(order, result)
    if told is not None:
        yield told
    if result.dataset is None:
        yield "it made no dataset and does not say why"
        return
    accepted = sum(verdict.accepted for verdict in result.segments)
    if accepted < order["min_games"]:
        yield f"the gate accepted {accepted} games, a dataset needs {order['min_games']}"
    known = [config.segments.get(verdict.sha256) for verdict in result.segments if verdict.accepted]
    offered = sum(segment.positions for segment in known if segment is not None)
    if None not in known and result.dataset.positions > offered:
        yield f"its dataset is said to hold {result.dataset.positions} positions, the segments hold {offered}"
    if is_known(config, result):
        yield f"dataset {result.dataset.sha256} was made before: nothing is new in it"


def is_known(config: Config, result: ExportResult) -> bool:
    """Whether an export came to a dataset that was made before."""
    return result.dataset is not None and result.dataset.sha256 in config.datasets


def judged(order: Order, result: ExportResult) -> bool:
    """Whether what an export says of each segment can be believed, whatever became of its dataset."""
    return _judged_fault(order, result) is None


def _judged_fault(order: Order, result: ExportResult) -> str | None:
    ordered = {each["sha256"]: each["games"] for each in order["segments"]}
    told = {verdict.sha256: verdict.games for verdict in result.segments}
    if told != ordered or len(told) != len(result.segments):
        return f"it was given {len(ordered)} segments and tells of {len(result.segments)}, or of other games in them"
    for verdict in result.segments:
        if verdict.accepted + sum(verdict.rejected.values()) > verdict.games:
            return f"of the {verdict.games} games of segment {verdict.sha256} it accepted and rejected more"
        if verdict.refused is not None and verdict.accepted:
            return f"segment {verdict.sha256} is refused, yet {verdict.accepted} of its games are accepted"
    accepted = sum(verdict.accepted for verdict in result.segments)
    if result.dataset is not None and result.dataset.games != accepted:
        return f"the gate accepted {accepted} games, the dataset holds {result.dataset.games}"
    return None


def _training(config: Config, order: Order, result: TrainingResult) -> Iterator[str]:
    dataset = order["dataset"]
    if result.base != order["base"]:
        yield f"it went on from {result.base}, ordered was {order['base']}"
    if result.dataset != (None if dataset is None else dataset["sha256"]):
        yield f"it used dataset {result.dataset}, ordered was another"
    positions = 0 if dataset is None else dataset["positions"]
    if (result.positions_in, result.positions_used) != (positions, positions):
        yield (
            f"the dataset holds {positions} positions, it read {result.positions_in} and used {result.positions_used}"
        )
    if result.steps > order["steps"] or (result.stopped == "steps" and result.steps != order["steps"]):
        yield f"it took {result.steps} steps, {order['steps']} were ordered"
    if dataset is not None and (result.steps == 0 or result.after is None or result.before is None):
        yield "it trained nothing, or did not measure what came of it"
    if result.model.sha256 in config.models:
        yield f"its model {result.model.sha256} was there before: nothing was learnt"


def _evaluation(config: Config, order: Order, result: EvaluationResult) -> Iterator[str]:
    asked = [(match["a"], match["b"], match["groups"]) for match in order["matches"]]
    played = [(match.a, match.b, len(match.groups)) for match in result.matches]
    if played != asked:
        yield f"it played {played}, ordered was {asked}"
    if not any(groups for _, _, groups in played):
        yield "it played no games"
    players = config.spec.game.players
    for match in result.matches:
        yield from _match_faults(match, players)
    games = sum(len(group) for match in result.matches for group in match.groups)
    if result.games != games:
        yield f"it says {result.games} games and tells of {games}"
    recorded = sum(segment.games for segment in result.segments)
    if recorded != (games if order["record"] else 0):
        yield f"it recorded {recorded} of its {games} games, ordered were {'all' if order['record'] else 'none'}"


def _match_faults(match: Match, players: int) -> Iterator[str]:
    places = tuple(range(players))
    for group in match.groups:
        if len(group) != players or any(tuple(sorted(game)) != places for game in group):
            yield f"a group of {match.a} against {match.b} is not one game from each of {players} seats: {group}"
            return


CHECKS: Mapping[type[Any], Callable[[Config, Order, Any], Iterator[str]]] = {
    SelfplayResult: _selfplay,
    ExportResult: _export,
    TrainingResult: _training,
    EvaluationResult: _evaluation,
}
