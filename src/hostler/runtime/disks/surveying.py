"""What lies on the controller's disk, and what is known of it: files by where they lie, artifacts by the catalogue.

Only what is named here is known; everything else is told as `UNKNOWN`, which nothing touches. What attempts on this
machine have in their folders is their agent's, and results of scripts are their owners'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection

from hostler.model.artifacts import HUB, SUFFIXES, Artifact, Copy, Place, ReplicationRules
from hostler.model.work import JobState
from hostler.policy import replication
from hostler.policy.replication import Held
from hostler.policy.retention import Deletion, FileKind, Found, Judge, RetentionRules
from hostler.runtime.disks.needs import Needs
from hostler.runtime.disks.walking import Identity, walk
from hostler.store import Journal, catalogue
from hostler.store.catalogue import Worth
from hostler.stores.base import QUARANTINE, ObjectName

ARTIFACTS, LOGS = "artifacts", "logs"
"""The folders of the state directory that are looked through."""
SOME = 5000
"""Artifacts that are looked up together."""
PARTIAL = re.compile(r"objects/[0-9a-f]{2}/\.[0-9a-f]{64}\.[a-z.]{1,30}\.[\w.-]{1,300}\.tmp")
"""What is left of a file whose writer was killed; one that is written to is not old enough to go."""
LOG = re.compile(r"(?P<attempt>[A-Za-z0-9_-]+\.[0-9]+)/(?:(?:out|err)(?:\.offset)?|\.order)")
LOG_DRAFT = re.compile(
    r"\.(?P<attempt>[A-Za-z0-9_-]+\.[0-9]+)\.(?:new|seen)/(?:(?:out|err)(?:\.offset|\.1)?|\.order)(?:\.new)?"
)
WORKED = "work"
"""The folder of what stages keep for their next life."""
WORK = re.compile(WORKED + r"/(?P<order>[0-9a-f]{64})/(?P<name>[^/]+)")
CHECKPOINT = re.compile(r"checkpoint-[0-9]{9,}-[0-9a-f]{16}\.safetensors")


class Survey:
    """Looks through the roots. Everything waits, so it belongs into a thread."""

    def __init__(self, roots: Mapping[str, Path], journal: Journal, copies: ReplicationRules) -> None:
        self._roots = roots
        self._journal = journal
        self._copies = copies

    def work_folders(self) -> frozenset[str]:
        """The digests of orders that have a work folder."""
        work = self._roots[ARTIFACTS] / WORKED
        return frozenset(each.name for each in work.iterdir()) if work.is_dir() else frozenset()

    def found(
        self, needs: Needs, places: Mapping[str, Place], rules: RetentionRules, at: float
    ) -> Iterator[tuple[Found, Identity]]:
        """All files with what is known of them, and with what tells each from another in its place."""
        with self._journal.catalogue() as connection:
            for some in _some(self._files(needs), SOME):
                known = self._known(connection, [found for found, _ in some], needs, places, rules, at)
                yield from zip(known, (identity for _, identity in some), strict=True)

    def known(self, files: Sequence[Found], needed: frozenset[str]) -> list[Found]:
        """Files of nodes with what the catalogue says of them; `needed` are artifacts that work there reads."""
        with self._journal.catalogue() as connection:
            return self._told(connection, files, needed)

    def again(self, found: Found, needs: Needs, places: Mapping[str, Place], rules: RetentionRules, at: float) -> Found:
        """The same file with what is known of it now."""
        root, _, inside = found.path.partition("/")
        now = replace(_found(root, inside, found.bytes, found.used_at, needs), series=found.series)
        with self._journal.catalogue() as connection:
            (known,) = self._known(connection, [now], needs, places, rules, at)
        return known

    def newest(self, series: str | None, rules: RetentionRules) -> frozenset[str]:
        """Paths of the checkpoints of a training that stay, as they lie there now."""
        folder = self._roots[ARTIFACTS] / WORKED / (series or "")
        if series is None or not folder.is_dir():
            return frozenset()
        there = [each for each in walk(folder) if CHECKPOINT.fullmatch(each.path)]
        there.sort(key=lambda each: (-each.used_at, each.path))
        return frozenset("/".join((ARTIFACTS, WORKED, series, each.path)) for each in there[: rules.checkpoints])

    def _files(self, needs: Needs) -> Iterator[tuple[Found, Identity]]:
        for root, folder in self._roots.items():
            if not folder.is_dir():
                continue
            for seen in walk(folder):
                yield _found(root, seen.path, seen.identity.bytes, seen.used_at, needs), seen.identity

    def _known(
        self,
        connection: Connection,
        files: Sequence[Found],
        needs: Needs,
        places: Mapping[str, Place],
        rules: RetentionRules,
        at: float,
    ) -> list[Found]:
        """With what the catalogue says of those that are artifacts."""
        return self._with_heirs(connection, self._told(connection, files, needs.artifacts), places, rules, at)

    def _told(self, connection: Connection, files: Sequence[Found], needed: frozenset[str]) -> list[Found]:
        names = {found.path: name for found in files if (name := artifact_of(found)) is not None}
        asked = sorted({name.sha256 for name in names.values()})
        artifacts, worth = catalogue.by_name(connection, asked), catalogue.standings(connection, asked)
        copies = catalogue.copies_of(connection, asked)
        return [self._with(found, names, artifacts, worth, copies, needed) for found in files]

    def _with(
        self,
        found: Found,
        names: Mapping[str, ObjectName],
        artifacts: Mapping[str, Artifact],
        worth: Mapping[str, Worth],
        copies: Mapping[str, Sequence[Copy]],
        needed: frozenset[str],
    ) -> Found:
        name = names.get(found.path)
        artifact = None if name is None else artifacts.get(name.sha256)
        if name is None or artifact is None or SUFFIXES[artifact.kind] != name.suffix:
            return found
        known = worth[name.sha256]
        wanted = self._copies.wanted[known.standing]
        return replace(
            found,
            artifact=artifact,
            standing=known.standing,
            games=known.games,
            exported=known.exported,
            in_use=name.sha256 in needed,
            wanted=wanted.copies,
            domains=wanted.domains,
            copies=tuple(copies[name.sha256]),
        )

    def _with_heirs(
        self,
        connection: Connection,
        files: Sequence[Found],
        places: Mapping[str, Place],
        rules: RetentionRules,
        at: float,
    ) -> list[Found]:
        """Of those that would go: whether what was made from them has too few copies."""
        judge = Judge(places, rules, at)
        going = {
            found.artifact.sha256
            for found in files
            if found.artifact is not None and isinstance(judge.judged(found), Deletion)
        }
        children = catalogue.children_of(connection, sorted(going))
        heirs = sorted({child for each in children.values() for child in each})
        known, worth = catalogue.by_name(connection, heirs), catalogue.standings(connection, heirs)
        copies = catalogue.copies_of(connection, heirs)
        short = {
            heir
            for heir in heirs
            if not replication.shortfall(
                Held(
                    sha256=heir,
                    bytes=known[heir].bytes,
                    standing=worth[heir].standing,
                    made_at=known[heir].made_at,
                    copies=tuple(copies[heir]),
                ),
                places,
                at,
                self._copies,
            ).is_met
        }
        return [
            replace(found, heirs_short=True)
            if found.artifact is not None and short.intersection(children.get(found.artifact.sha256, ()))
            else found
            for found in files
        ]


def artifact_of(found: Found) -> ObjectName | None:
    """What an artifact's file is called, one that was set aside, too; `None` for what is none."""
    if found.kind not in (FileKind.ARTIFACT, FileKind.STOCK):
        return None
    inside = found.path.partition("/")[2]
    folder, _, name = inside.rpartition("/")
    return ObjectName.at(f"objects/{name[:2]}/{name}" if folder == QUARANTINE else inside)


def _found(root: str, inside: str, size: int, used_at: float, needs: Needs) -> Found:
    """A file by where it lies."""
    plain = Found(path=f"{root}/{inside}", kind=FileKind.UNKNOWN, bytes=size, used_at=used_at, place=HUB)
    return _log(plain, inside, needs) if root == LOGS else _artifact(plain, inside, needs)


def _artifact(found: Found, inside: str, needs: Needs) -> Found:
    name = inside.rpartition("/")[2]
    if ObjectName.at(inside) is not None:
        return replace(found, kind=FileKind.ARTIFACT)
    if inside == f"{QUARANTINE}/{name}" and ObjectName.at(f"objects/{name[:2]}/{name}") is not None:
        return replace(found, kind=FileKind.ARTIFACT, place=QUARANTINE)
    if PARTIAL.fullmatch(inside):
        return replace(found, kind=FileKind.CACHE)
    work = WORK.fullmatch(inside)
    return found if work is None else _work(found, work["order"], work["name"], needs)


def _work(found: Found, order: str, name: str, needs: Needs) -> Found:
    """What a stage keeps for its next life. Once it is done there is none; before, a failed one may be tried again."""
    standing = needs.orders.get(order)
    if standing is None:
        return found
    if standing is JobState.DONE:
        return replace(found, kind=FileKind.CACHE)
    if not CHECKPOINT.fullmatch(name):
        return found
    return replace(found, kind=FileKind.CHECKPOINT, series=order, in_use=not standing.final)


def _log(found: Found, inside: str, needs: Needs) -> Found:
    log, draft = LOG.fullmatch(inside), LOG_DRAFT.fullmatch(inside)
    match = log or draft
    over = None if match is None else needs.is_over(match["attempt"])
    if over is None:
        return found
    return replace(found, kind=FileKind.LOG if log else FileKind.CACHE, in_use=not over)


def _some(files: Iterable[tuple[Found, Identity]], size: int) -> Iterator[list[tuple[Found, Identity]]]:
    some: list[tuple[Found, Identity]] = []
    for each in files:
        some.append(each)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some
