"""What may be deleted? Only what a rule names, that nobody uses, with the copies proved that the rule asks for.

What no rule names stays. Each file is judged alone, so that a plan for one disk can be read line by line: which rule
allows it, and where the copies are that were read back. Nothing is deleted to meet a target that a rule does not allow.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar, overload

from hostler.model.artifacts import Artifact, ArtifactKind, Copy, Place, Standing
from hostler.model.disks import DAY_S as DAY_S, RetentionRules as RetentionRules
from hostler.model.record import record

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
"""A deletion as numbers and words; its first values are these."""
RANK, USED_AT, PATH, BYTES, PLACE, NAME = range(6)

STOCK_UNUSED_S = 3600.0
"""However short caches are kept: nothing goes from a node that work may have been told is there."""
SHORT_MOST = 500
"""Files of a plan that lack nothing but copies."""
SORTED_AT_ONCE = 4096
"""Values that one call sorts: some milliseconds."""
SAMPLES = 16
"""By so many of them it is chosen which are sorted together."""


def stock_of(node: str) -> str:
    """What the artifact folder of a node is called where places are; no store has a blank in its name."""
    return f"node {node}"


def unused_s(rules: RetentionRules) -> float:
    """How long nobody must have used an artifact of a node before it goes."""
    return max(rules.caches_s, STOCK_UNUSED_S)


class FileKind(StrEnum):
    """What a file is, as whoever found it can tell from where it lies. `UNKNOWN` is never touched."""

    CACHE = "cache"
    LOG = "log"
    CHECKPOINT = "checkpoint"
    ARTIFACT = "artifact"
    STOCK = "stock"
    """An artifact in the artifact folder of a node, where work finds it; what lies there proves nothing for others."""
    UNKNOWN = "unknown"


class Rule(StrEnum):
    """Why a file may go, in the order in which they go."""

    CACHE = "it can be made, or sent, again"
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
    STORED = "its node has a copy of it that counts"
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


class Deletions(Sequence[Deletion]):
    """Deletions that are kept as plain values and made when they are asked for.

    There may be a million: of as many records the garbage collector would go through each, again and again, and keep
    every thread waiting for seconds. Of tuples that hold nothing but numbers and words it knows nothing.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """So many there are."""
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Deletion: ...
    @overload
    def __getitem__(self, at: slice) -> Deletions: ...
    def __getitem__(self, at: int | slice) -> Deletion | Deletions:
        """One, or some."""
        return Deletions(self.rows[at]) if isinstance(at, slice) else _unpacked(self.rows[at])


@record
class Plan:
    """What may be deleted, in this order, and what stays: files and bytes by reason."""

    deletions: Deletions
    kept: Mapping[Obstacle, tuple[int, int]]
    short: tuple[Found, ...] = ()
    """The oldest of those that stay for want of copies alone."""

    @property
    def bytes(self) -> int:
        """What it would free."""
        return sum(row[BYTES] for row in self.deletions.rows)


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
    planning = Planning(Judge(places, rules, at))
    for found in files:
        planning.add(found)
    return planning.plan(need_bytes)


def judged(
    found: Found, places: Mapping[str, Place], rules: RetentionRules, at: float, *, is_newest: bool = False
) -> Deletion | Obstacle:
    """Whether a file may go, and by which rule; `is_newest`: it is one of the newest checkpoints of its series."""
    return Judge(places, rules, at).judged(found, is_newest=is_newest)


class Judge:
    """Judges files, each alone, by what is known of the places at one time."""

    def __init__(self, places: Mapping[str, Place], rules: RetentionRules, at: float) -> None:
        self.rules = rules
        self._at = at
        self._at_home = {name: stock_of(place.node) for name, place in places.items() if place.node is not None}
        """By place, the artifact folder of the node that it is on."""
        self._domains = {name: place.domain for name, place in places.items() if place.keeps and place.reachable}
        """Of the places whose copies prove something."""

    def judged(self, found: Found, *, is_newest: bool = False) -> Deletion | Obstacle:
        """As `judged`."""
        if found.kind is FileKind.UNKNOWN:
            return Obstacle.UNKNOWN
        if found.in_use:
            return Obstacle.IN_USE
        if found.kind is FileKind.ARTIFACT:
            return self._artifact(found)
        if found.kind is FileKind.STOCK:
            return self._stock(found)
        rules, age_s = self.rules, self._at - found.used_at
        if found.kind is FileKind.CHECKPOINT:
            return _checkpoint(found, rules, age_s, is_newest=is_newest)
        least_s, rule = (rules.caches_s, Rule.CACHE) if found.kind is FileKind.CACHE else (rules.logs_s, Rule.LOG)
        return Obstacle.YOUNG if age_s < least_s else Deletion(found=found, rule=rule, proof=())

    def _artifact(self, found: Found) -> Deletion | Obstacle:
        artifact = found.artifact
        if artifact is None or found.standing is None:
            return Obstacle.UNKNOWN
        age_s, is_games = self._at - found.used_at, artifact.kind is ArtifactKind.GAMES
        if is_games and found.games == 0:
            young = age_s < self.rules.empty_s
            return Obstacle.YOUNG if young else Deletion(found=found, rule=Rule.EMPTY, proof=())
        if found.heirs_short:
            return Obstacle.LINEAGE
        if age_s < self.rules.artifacts_s:
            return Obstacle.YOUNG
        if is_games and not found.exported:  # however many copies there are: its dataset will read it here
            return Obstacle.NOT_EXPORTED
        if (found.wanted is not None or is_games) and (proof := self._proof(found)) is not None:
            return Deletion(found=found, rule=Rule.EXPORTED if is_games else Rule.SPARE, proof=proof)
        if is_games:
            return Obstacle.COPIES
        return Obstacle.PROMOTED if found.standing in _ONCE_CURRENT else Obstacle.UNNAMED

    def _stock(self, found: Found) -> Deletion | Obstacle:
        """It is sent again when it is needed: a cache, if all that is wanted is elsewhere, and proved as anywhere."""
        if found.artifact is None or found.wanted is None:
            return Obstacle.UNKNOWN
        if any(self._at_home.get(copy.place) == found.place for copy in found.copies):
            return Obstacle.STORED
        if self._at - found.used_at < unused_s(self.rules):
            return Obstacle.YOUNG
        proof = self._proof(found)
        return Obstacle.COPIES if proof is None else Deletion(found=found, rule=Rule.CACHE, proof=proof)

    def _proof(self, found: Found) -> tuple[Copy, ...] | None:
        """Copies in other places that keep, whose hash was read back of late and was right; `None`: too few.

        All that is wanted must be there without this one: what fell short would be copied here again.
        """
        rules, domains, at, own = self.rules, self._domains, self._at, found.place
        least, within_s = found.wanted or 0, rules.read_within_s
        elsewhere = [
            copy
            for copy in found.copies
            if copy.place != own
            and copy.place in domains
            and not copy.damaged
            and (read_at := copy.verified_at) is not None
            and 0 <= at - read_at <= within_s
        ]
        if len(elsewhere) < (least if least > rules.copies else rules.copies):
            return None
        if found.domains > 1 and len({domains[copy.place] for copy in elsewhere}) < found.domains:
            return None
        return tuple(elsewhere)


class Planning:
    """A plan that is made file by file: what stays is counted, and not kept."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._kept: dict[Obstacle, tuple[int, int]] = {}
        self._allowed: list[Row] = []
        self._series: list[Found] = []
        self._short: list[Found] = []

    def add(self, found: Found) -> bool:
        """Have one more file judged; answers whether it may be among the deletions."""
        if found.kind is FileKind.CHECKPOINT and found.series is not None:
            self._series.append(found)  # by the others of its training
            return True
        verdict = self._judge.judged(found)
        if isinstance(verdict, Deletion):
            self._allowed.append(_packed(verdict))
            return True
        self._keep(verdict, found)
        return False

    def plan(self, need_bytes: int | None = None) -> Plan:
        """The plan for all of them, once."""
        self._judge_series()
        allowed = in_order(self._allowed, itemgetter(RANK, USED_AT, PATH))
        chosen = allowed if need_bytes is None else list(_until(allowed, need_bytes))
        twins = _elsewhere(chosen)
        rows = list(self._apart(chosen, twins)) if twins else chosen
        short = tuple(sorted(self._short, key=_age)[:SHORT_MOST])
        return Plan(deletions=Deletions(rows), kept=self._kept, short=short)

    def _apart(self, chosen: Iterable[Row], twins: Collection[str]) -> Iterator[Row]:
        """Without those that would have been proved by what goes before them."""
        gone: dict[str, set[str]] = {}
        for row in chosen:
            if row[NAME] is None or row[NAME] not in twins:
                yield row
                continue
            found = _unpacked(row).found
            again = self._judge.judged(_without(found, gone.get(row[NAME], set())))
            if isinstance(again, Obstacle):
                _count(self._kept, again, found)
                continue
            yield _packed(again)
            gone.setdefault(row[NAME], set()).add(found.place)

    def _judge_series(self) -> None:
        newest = _newest(self._series, self._judge.rules)
        for found in self._series:
            verdict = self._judge.judged(found, is_newest=found.path in newest)
            if isinstance(verdict, Deletion):
                self._allowed.append(_packed(verdict))
            else:
                self._keep(verdict, found)

    def _keep(self, why: Obstacle, found: Found) -> None:
        _count(self._kept, why, found)
        if why is Obstacle.COPIES:
            self._short.append(found)
            if len(self._short) >= 2 * SHORT_MOST:
                self._short = sorted(self._short, key=_age)[:SHORT_MOST]


def _checkpoint(found: Found, rules: RetentionRules, age_s: float, *, is_newest: bool) -> Deletion | Obstacle:
    if found.series is None:
        return Obstacle.UNKNOWN
    if is_newest:
        return Obstacle.NEWEST
    return Obstacle.YOUNG if age_s < rules.checkpoints_s else Deletion(found=found, rule=Rule.CHECKPOINT, proof=())


def _newest(files: Sequence[Found], rules: RetentionRules) -> frozenset[str]:
    """Paths of the newest checkpoints of each training."""
    series = [each for each in files if each.kind is FileKind.CHECKPOINT and each.series is not None]
    series.sort(key=lambda each: (each.series or "", -each.used_at, each.path))
    by_training = groupby(series, key=lambda each: each.series)
    return frozenset(each.path for _, group in by_training for each in list(group)[: rules.checkpoints])


def _count(kept: dict[Obstacle, tuple[int, int]], why: Obstacle, found: Found) -> None:
    count, size = kept.get(why, (0, 0))
    kept[why] = count + 1, size + found.bytes


def _elsewhere(chosen: Sequence[Row]) -> frozenset[str]:
    """Artifacts that may go from another place than most do: only of these can two files prove each other."""
    places = Counter([row[PLACE] for row in chosen])
    most = max(places, key=places.__getitem__, default=None)
    others = () if len(places) < 2 else (row[NAME] for row in chosen if row[PLACE] != most)
    return frozenset(name for name in others if name is not None)


def _without(found: Found, places: Collection[str]) -> Found:
    """The file, without the copies that the same plan deletes before it: no two prove each other."""
    return replace(found, copies=tuple(copy for copy in found.copies if copy.place not in places))


def _until(allowed: Iterable[Row], need_bytes: int) -> Iterator[Row]:
    freed = 0
    for row in allowed:
        if freed >= need_bytes:
            return
        freed += row[BYTES]
        yield row


def in_order(allowed: Sequence[T], key: Callable[[T], tuple[Any, ...]]) -> list[T]:
    """Sorted, by many short sorts: one of a million values would keep all other threads waiting for a second."""
    if len(allowed) <= SORTED_AT_ONCE:
        return sorted(allowed, key=key)
    sample = sorted(map(key, allowed[:: SORTED_AT_ONCE // SAMPLES]))
    borders = sample[SAMPLES::SAMPLES]
    shares: list[list[T]] = [[] for _ in range(len(borders) + 1)]
    for each in allowed:
        shares[bisect(borders, key(each))].append(each)
    return [each for share in shares for each in sorted(share, key=key)]


RULES = tuple(Rule)
RANKS: Mapping[Rule, int] = {rule: rank for rank, rule in enumerate(RULES)}
_ONCE_CURRENT = frozenset({Standing.MODEL, Standing.FORMER})


def _packed(deletion: Deletion) -> Row:
    """By rule, the oldest first: so its first values are in order."""
    found, artifact = deletion.found, deletion.found.artifact
    return (
        RANKS[deletion.rule], found.used_at, found.path, found.bytes, found.place,
        None if artifact is None else artifact.sha256,
        None if artifact is None else _artifact_row(artifact),
        found.kind.value, found.series, None if found.standing is None else found.standing.value,
        found.games, found.exported, found.wanted, found.domains,
        tuple([(copy.place, copy.verified_at, copy.damaged) for copy in found.copies]),
        tuple([(copy.place, copy.verified_at) for copy in deletion.proof]),
    )  # fmt: skip


def _artifact_row(artifact: Artifact) -> Row:
    return artifact.kind.value, artifact.bytes, artifact.config, artifact.parents, artifact.job, artifact.made_at


def _unpacked(row: Row) -> Deletion:
    rank, used_at, path, size, place, name, about, kind, series, standing, games, exported, *rest = row
    wanted, domains, copies, proof = rest
    found = Found(
        path=path,
        kind=FileKind(kind),
        bytes=size,
        used_at=used_at,
        place=place,
        series=series,
        artifact=None if about is None else _artifact_of(name, *about),
        standing=None if standing is None else Standing(standing),
        games=games,
        exported=exported,
        wanted=wanted,
        domains=domains,
        copies=tuple(Copy(place=place, verified_at=at, damaged=damaged) for place, at, damaged in copies),
    )
    proved = tuple(Copy(place=place, verified_at=at) for place, at in proof)
    return Deletion(found=found, rule=RULES[rank], proof=proved)


def _artifact_of(
    name: str, kind: str, size: int, config: str | None, parents: tuple[str, ...], job: str | None, made_at: float
) -> Artifact:
    return Artifact(
        sha256=name, kind=ArtifactKind(kind), bytes=size, config=config, parents=parents, job=job, made_at=made_at
    )


def _age(found: Found) -> tuple[float, str]:
    return found.used_at, found.path
