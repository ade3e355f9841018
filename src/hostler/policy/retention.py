"""What may be deleted? Only what a rule names, that nobody uses, with the copies proved that the rule asks for.

What no rule names stays. Each file is judged alone, so that a plan for one disk can be read line by line: which rule
allows it, and where the copies are that were read back. Nothing is deleted to meet a target that a rule does not allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import groupby

from hostler.model.artifacts import Artifact, ArtifactKind, Copy, Place, Standing
from hostler.model.disks import DAY_S as DAY_S, RetentionRules as RetentionRules
from hostler.model.record import record


class FileKind(StrEnum):
    """What a file is, as whoever found it can tell from where it lies. `UNKNOWN` is never touched."""

    CACHE = "cache"
    LOG = "log"
    CHECKPOINT = "checkpoint"
    ARTIFACT = "artifact"
    UNKNOWN = "unknown"


class Rule(StrEnum):
    """Why a file may go, in the order in which they go."""

    CACHE = "it can be made again"
    LOG = "a log, older than logs are kept"
    EMPTY = "a segment without games"
    CHECKPOINT = "a checkpoint of a training that has newer ones"
    EXPORTED = "games that were exported, with their copies elsewhere"
    SPARE = "a copy beyond those that are wanted"


class Obstacle(StrEnum):
    """Why a file stays."""

    UNKNOWN = "nobody knows what it is"
    IN_USE = "a job that is not over uses it"
    YOUNG = "it is too young"
    NEWEST = "one of the newest checkpoints of its training"
    PROMOTED = "a model that was current once"
    NOT_EXPORTED = "its games are in no dataset yet"
    COPIES = "too few copies elsewhere were read back and were right"
    LINEAGE = "a dataset, of which there is too few copies, was made from it"
    UNNAMED = "no rule names it"


@record
class Found:
    """A file on a disk, and what is known of it."""

    path: str
    """Relative to the root that it was found in."""
    kind: FileKind
    bytes: int
    used_at: float
    """When it was written, or last used where that is known (Unix time)."""
    place: str
    """The place that it is a copy in."""
    in_use: bool = False
    """Whether a job that is not over may read or write it."""
    series: str | None = None
    """Of a checkpoint, the training that it is of."""
    artifact: Artifact | None = None
    standing: Standing | None = None
    games: int | None = None
    """Of a segment, the games in it."""
    exported: bool = False
    """Of a segment, whether every dataset that may want it has been made."""
    heirs_short: bool = False
    """Whether something that was made from it has too few copies."""
    wanted: int | None = None
    """Copies that are wanted of it in all; `None`: nobody said."""
    domains: int = 1
    """Failure domains that these should be spread over."""
    copies: tuple[Copy, ...] = ()
    """All copies that are known, the one that was found included."""


@record
class Deletion:
    """A file that may go."""

    found: Found
    rule: Rule
    proof: tuple[Copy, ...]
    """Copies elsewhere that were read back; none for what needs none."""


@record
class Plan:
    """What may be deleted, in this order, and what stays: files and bytes by reason."""

    deletions: tuple[Deletion, ...]
    kept: Mapping[Obstacle, tuple[int, int]]

    @property
    def bytes(self) -> int:
        """What it would free."""
        return sum(each.found.bytes for each in self.deletions)


def plan(
    files: Iterable[Found],
    places: Mapping[str, Place],
    rules: RetentionRules,
    at: float,
    need_bytes: int | None = None,
) -> Plan:
    """What may go of these files at `at`, what is cheapest to lose first; no more than frees `need_bytes`, if given.

    A series of checkpoints is judged whole: all of its files must be among `files`. Copies that the plan deletes itself
    prove nothing for those after them; plans for two places are carried out one after the other for the same reason.
    """
    listed = list(files)
    newest = _newest(listed, rules)
    kept: dict[Obstacle, tuple[int, int]] = {}
    allowed: list[Deletion] = []
    for found in listed:
        verdict = judged(found, places, rules, at, is_newest=found.path in newest)
        if isinstance(verdict, Deletion):
            allowed.append(verdict)
        else:
            _keep(kept, verdict, found)
    allowed.sort(key=_order)
    deletions: list[Deletion] = []
    gone: dict[str, set[str]] = {}
    for each in _until(allowed, need_bytes):
        left = _without(each.found, gone)
        again = each if left is each.found else judged(left, places, rules, at)
        if isinstance(again, Obstacle):
            _keep(kept, again, each.found)
            continue
        deletions.append(again)
        if each.found.artifact is not None:
            gone.setdefault(each.found.artifact.sha256, set()).add(each.found.place)
    return Plan(deletions=tuple(deletions), kept=kept)


def judged(
    found: Found, places: Mapping[str, Place], rules: RetentionRules, at: float, *, is_newest: bool = False
) -> Deletion | Obstacle:
    """Whether a file may go, and by which rule; `is_newest`: it is one of the newest checkpoints of its series."""
    if found.kind is FileKind.UNKNOWN:
        return Obstacle.UNKNOWN
    if found.in_use:
        return Obstacle.IN_USE
    age_s = at - found.used_at
    if found.kind is FileKind.ARTIFACT:
        return _artifact(found, places, rules, at)
    if found.kind is FileKind.CHECKPOINT:
        return _checkpoint(found, rules, age_s, is_newest=is_newest)
    least_s, rule = (rules.caches_s, Rule.CACHE) if found.kind is FileKind.CACHE else (rules.logs_s, Rule.LOG)
    return Obstacle.YOUNG if age_s < least_s else Deletion(found=found, rule=rule, proof=())


def proof(found: Found, places: Mapping[str, Place], rules: RetentionRules, at: float) -> tuple[Copy, ...]:
    """Copies in other places that keep, whose hash was read back of late and was right."""
    return tuple(copy for copy in found.copies if copy.place != found.place and _proves(copy, places, rules, at))


def _proves(copy: Copy, places: Mapping[str, Place], rules: RetentionRules, at: float) -> bool:
    place = places.get(copy.place)
    if place is None or not (place.keeps and place.reachable) or copy.damaged or copy.verified_at is None:
        return False
    return 0 <= at - copy.verified_at <= rules.read_within_s


def _checkpoint(found: Found, rules: RetentionRules, age_s: float, *, is_newest: bool) -> Deletion | Obstacle:
    if found.series is None:
        return Obstacle.UNKNOWN
    if is_newest:
        return Obstacle.NEWEST
    return Obstacle.YOUNG if age_s < rules.checkpoints_s else Deletion(found=found, rule=Rule.CHECKPOINT, proof=())


def _artifact(found: Found, places: Mapping[str, Place], rules: RetentionRules, at: float) -> Deletion | Obstacle:
    artifact = found.artifact
    if artifact is None or found.standing is None:
        return Obstacle.UNKNOWN
    if artifact.kind is ArtifactKind.GAMES and found.games == 0:
        young = at - found.used_at < rules.empty_s
        return Obstacle.YOUNG if young else Deletion(found=found, rule=Rule.EMPTY, proof=())
    if found.heirs_short:
        return Obstacle.LINEAGE
    if at - found.used_at < rules.artifacts_s:
        return Obstacle.YOUNG
    elsewhere = proof(found, places, rules, at)
    enough = _suffice(found, elsewhere, places, rules)
    if enough and found.wanted is not None:
        return Deletion(found=found, rule=Rule.SPARE, proof=elsewhere)
    if artifact.kind is not ArtifactKind.GAMES:
        return Obstacle.PROMOTED if found.standing in (Standing.MODEL, Standing.FORMER) else Obstacle.UNNAMED
    if not found.exported:
        return Obstacle.NOT_EXPORTED
    return Deletion(found=found, rule=Rule.EXPORTED, proof=elsewhere) if enough else Obstacle.COPIES


def _suffice(found: Found, elsewhere: Sequence[Copy], places: Mapping[str, Place], rules: RetentionRules) -> bool:
    """Whether all that is wanted is there without this one: what fell short would be copied here again."""
    apart = {places[copy.place].domain for copy in elsewhere}
    return len(elsewhere) >= max(found.wanted or 0, rules.copies) and len(apart) >= found.domains


def _newest(files: Sequence[Found], rules: RetentionRules) -> frozenset[str]:
    """Paths of the newest checkpoints of each training."""
    series = [each for each in files if each.kind is FileKind.CHECKPOINT and each.series is not None]
    series.sort(key=lambda each: (each.series or "", -each.used_at, each.path))
    by_training = groupby(series, key=lambda each: each.series)
    return frozenset(each.path for _, group in by_training for each in list(group)[: rules.checkpoints])


def _keep(kept: dict[Obstacle, tuple[int, int]], why: Obstacle, found: Found) -> None:
    count, size = kept.get(why, (0, 0))
    kept[why] = count + 1, size + found.bytes


def _without(found: Found, gone: Mapping[str, set[str]]) -> Found:
    """The file, without the copies that the same plan deletes before it: no two prove each other."""
    places = None if found.artifact is None else gone.get(found.artifact.sha256)
    if not places:
        return found
    return replace(found, copies=tuple(copy for copy in found.copies if copy.place not in places))


def _until(allowed: Sequence[Deletion], need_bytes: int | None) -> Iterable[Deletion]:
    freed = 0
    for each in allowed:
        if need_bytes is not None and freed >= need_bytes:
            return
        freed += each.found.bytes
        yield each


RANKS: Mapping[Rule, int] = {rule: rank for rank, rule in enumerate(Rule)}


def _order(deletion: Deletion) -> tuple[int, float, str]:
    """Rule by rule, the oldest first."""
    return RANKS[deletion.rule], deletion.found.used_at, deletion.found.path
