"""Everything about a training config as one tarball: its history, and the artifacts from wherever they lie.

Read from the state directory and the stores of its fleet file, beside a running controller or without one. The same
journal gives the same members in the same order, with the times of what they tell of.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from hostler import __version__
from hostler.core import State
from hostler.core.loop.state import Config
from hostler.core.loop.views import config_view, dataset_views, history_view, model_views
from hostler.model.artifacts import HUB, ArtifactKind
from hostler.model.codec import plain
from hostler.model.errors import FilesError, LinkError, NotFound, StoreFull
from hostler.model.events import (
    Entry,
    JobSubmitted,
    MatchesPlayed,
    ModelPromoted,
    ModelRejected,
    ModelRolledBack,
    subject,
)
from hostler.model.record import record
from hostler.runtime import holding
from hostler.runtime.holding import Named
from hostler.runtime.places import Places
from hostler.runtime.snapshots import recovered
from hostler.runtime.statedir import StateDir
from hostler.store import Journal, archive, catalogue, read_journal
from hostler.stores.base import at_once
from hostler.stores.hashing import NO_ROOM

Tell = Callable[[str], None]
Row = tuple[Any, ...]

MANIFEST = "manifest.json"
FORMAT = 1
LEVEL = 1
SPOOLED = 8 << 20
"""Bytes that are put together in memory; more go to a file meanwhile."""
ORDER = {kind: number for number, kind in enumerate(ArtifactKind)}


@record
class Exported:
    """What an export has."""

    path: Path
    bytes: int
    artifacts: int
    artifact_bytes: int
    missing: tuple[str, ...]
    """Artifacts that no place has which answers, in words."""
    left_out: int
    """Artifacts of kinds that were not wanted."""


class Tarball:
    """A compressed tar file that is written from its beginning to its end."""

    def __init__(self, file: archive.Hashing, root: str) -> None:
        self._root = root
        self._members: dict[str, dict[str, Any]] = {}
        self._zip = gzip.GzipFile("", "wb", LEVEL, cast(IO[bytes], file), mtime=0)
        self._tar = tarfile.open(fileobj=self._zip, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def add(self, name: str, content: IO[bytes], at: float) -> None:
        """One more member; `content` is read from its beginning."""
        size = content.seek(0, io.SEEK_END)
        content.seek(0)
        member = tarfile.TarInfo(f"{self._root}/{name}")
        member.size, member.mode, member.mtime = size, 0o644, int(at)
        read = _Reading(content)
        self._tar.addfile(member, cast(IO[bytes], read))
        self._members[name] = {"bytes": size, "sha256": read.digest.hexdigest()}

    def end(self, about: Mapping[str, Any], at: float) -> None:
        """Write the manifest, and no more."""
        manifest = {"format": FORMAT, **about, "members": dict(self._members)}
        self.add(MANIFEST, _json(manifest), at)
        self.close()

    def close(self) -> None:
        """Once more does no harm."""
        self._tar.close()
        self._zip.close()


def export(
    directory: StateDir,
    name: str,
    target: Path,
    without: Collection[ArtifactKind],
    environ: Mapping[str, str],
    tell: Tell,
) -> Exported:
    """Write all about a config to `target`. Raises `NotFound`, `Conflict`, `StoreError`, `CorruptState`.

    What comes from other stores, and what is put together, lies beside `target` on its way: there room is wanted.
    """
    journal = read_journal(directory.place)
    try:
        state = recovered(journal, on_damage=tell).state
        config = state.configs.get(name)
        if config is None:
            there = ", ".join(state.configs) or "none"
            raise NotFound(f"there is no training config {name!r} in {directory.path} (there are: {there})")
        if not target.parent.is_dir():
            raise NotFound(f"there is no folder {target.parent} to put the export into; make it first")
        places, faults = holding.places_of(directory, directory.artifacts, environ)
        held = holding.look_around(places)
        for place, why in {**held.silent, **faults}.items():
            tell(f"{place} is not asked for artifacts: {why}")
        with archive.publishing(target, 0o666) as file, _scratch(target.parent) as scratch:
            tarball = Tarball(file, name)
            try:
                done = _fill(tarball, journal, state, config, _Source(directory, places, held, scratch), without)
            finally:
                tarball.close()
    finally:
        journal.close()
    artifacts, size, missing, left_out = done
    return Exported(
        path=target,
        bytes=target.stat().st_size,
        artifacts=artifacts,
        artifact_bytes=size,
        missing=tuple(missing),
        left_out=left_out,
    )


class _Source:
    """Where artifacts come from: the controller's own store, or whichever other place has them, by way of `scratch`."""

    def __init__(self, directory: StateDir, places: Places, held: holding.Holdings, scratch: Path) -> None:
        self.scratch = scratch
        self._own = directory.artifacts
        self._places = places
        self._held = held

    def opened(self, wanted: Named) -> tuple[IO[bytes] | None, str]:
        """All of it with the right hash, or `None` and why not. Raises `StoreFull`, `OSError` where it has no room."""
        places = self._held.places_of(wanted.name.sha256, wanted.bytes)
        why = "no place has it that was asked"
        for place in sorted(places, key=lambda each: each != HUB):
            try:
                return self._from(place, wanted), ""
            except (LinkError, FilesError, OSError) as error:
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    raise
                why = str(error)
        return None, why

    def _from(self, place: str, wanted: Named) -> IO[bytes]:
        store, name = self._places[place].store, wanted.name
        if place == HUB and wanted.bytes > SPOOLED:
            store.check(name, at_once)
            return (self._own / name.path).open("rb")
        if place == HUB:
            content = (self._own / name.path).read_bytes()
            if hashlib.sha256(content).hexdigest() == name.sha256:
                return io.BytesIO(content)
            raise FilesError(f"{name.path} in the controller's own store is damaged")
        _need_room(self.scratch, wanted)
        fetched = self.scratch / name.sha256
        try:
            store.get(name, fetched, at_once)
            return fetched.open("rb")
        finally:  # whoever has it open still can read it
            fetched.unlink(missing_ok=True)


def _fill(
    tarball: Tarball, journal: Journal, state: State, config: Config, source: _Source, without: Collection[ArtifactKind]
) -> tuple[int, int, list[str], int]:
    name, at = config.spec.name, state.at
    _add_state(tarball, config, at)
    _add_history(tarball, journal, name, state, source.scratch)
    own = [each for each in holding.named(journal) if each.config == name]
    own.sort(key=lambda each: ORDER[each.kind])
    _add_lineage(tarball, journal, own, at)
    wanted = [each for each in own if each.kind not in without]
    missing = dict(_add_artifacts(tarball, wanted, source, at))
    about = {
        "hostler": __version__,
        "config": name,
        "current": config.current,
        "journal": {"seq": state.seq, "at": at},
        "without": sorted(without),
        "missing": missing,
    }
    tarball.end(about, at)
    there = [each for each in wanted if each.name.sha256 not in missing]
    lines = [f"{each.kind} {each.name.sha256}: {missing[each.name.sha256]}" for each in wanted if each not in there]
    return len(there), sum(each.bytes for each in there), lines, len(own) - len(wanted)


def _add_state(tarball: Tarball, config: Config, at: float) -> None:
    tarball.add("spec.json", _json(plain(config.spec)), at)
    tarball.add("config.json", _json(plain(config_view(config, at))), at)
    tarball.add("models.json", _json([plain(each) for each in model_views(config)]), at)
    tarball.add("datasets.json", _json([plain(each) for each in dataset_views(config)]), at)
    columns = ("at", "player", "elo", "low", "high", "games")
    history = [(each.at, each.player, *_rating(each.rating)) for each in config.rating_history]
    tarball.add("ratings.csv", _csv(columns, history), at)
    tarball.add("players.csv", _csv(columns[1:], [(name, *_rating(each)) for name, each in config.ratings.items()]), at)
    hours = history_view(config, at).hours
    tarball.add(
        "hours.csv", _csv(("at", "games", "positions", "cpu_s"), [tuple(plain(each).values()) for each in hours]), at
    )


def _add_history(tarball: Tarball, journal: Journal, name: str, state: State, scratch: Path) -> None:
    """Its entries, and what there is to say of matches and promotions, in one reading of the journal."""
    with _spool(scratch) as events, _spool(scratch) as matches, _spool(scratch) as promotions:
        for entry in _about(journal, name, state.seq):
            _write(events, {"seq": entry.seq, "at": entry.at, "event": plain(entry.event)})
            if isinstance(entry.event, MatchesPlayed):
                told = {"seq": entry.seq, "at": entry.at, "job": entry.event.job}
                for match in entry.event.matches:
                    _write(matches, {**told, **plain(match)})
            if isinstance(entry.event, ModelPromoted | ModelRejected | ModelRolledBack):
                _write(promotions, {"seq": entry.seq, "at": entry.at, **plain(entry.event)})
        tarball.add("events.jsonl", events, state.at)
        tarball.add("matches.jsonl", matches, state.at)
        tarball.add("promotions.jsonl", promotions, state.at)


def _about(journal: Journal, name: str, seq: int) -> Iterator[Entry]:
    """The entries of a config and of its jobs."""
    jobs: set[str] = set()
    for entry in journal.read(limit=seq):
        if isinstance(entry.event, JobSubmitted) and getattr(entry.event.spec.payload, "config", None) == name:
            jobs.add(entry.event.job)
        if getattr(entry.event, "config", None) == name or subject(entry.event) in jobs:
            yield entry


def _add_lineage(tarball: Tarball, journal: Journal, own: Iterable[Named], at: float) -> None:
    names = [each.name.sha256 for each in own]
    with journal.catalogue() as connection:
        known, copies = catalogue.by_name(connection, names), catalogue.copies_of(connection, names)
        worths = catalogue.standings(connection, names)
    rows = {
        name: {
            **{key: value for key, value in plain(known[name]).items() if key != "sha256"},
            "standing": worths[name].standing,
            "games": worths[name].games,
            "copies": [plain(each) for each in copies[name]],
        }
        for name in names
    }
    tarball.add("lineage.json", _json(rows), at)


def _add_artifacts(tarball: Tarball, wanted: Iterable[Named], source: _Source, at: float) -> Iterator[tuple[str, str]]:
    """Those that do not come, and why."""
    for each in wanted:
        content, why = source.opened(each)
        if content is None:
            yield each.name.sha256, why
            continue
        with content:
            tarball.add(each.name.path, content, at)


@contextmanager
def _scratch(beside: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=".hostler-export-", dir=beside) as folder:
        yield Path(folder)


def _need_room(scratch: Path, wanted: Named) -> None:
    """For an artifact and its copy in the tarball. Raises `StoreFull`."""
    free = _free_bytes(scratch)
    if free < 2 * wanted.bytes:
        raise StoreFull(
            f"there is no room in {scratch.parent}: the {wanted.bytes} bytes of {wanted.name.sha256[:12]} are fetched "
            f"there on its way into the tarball, and {free} are free; nothing is left of it"
        )


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _rating(rating: Any) -> Row:
    return (None, None, None, None) if rating is None else (rating.elo, rating.low, rating.high, rating.games)


def _json(value: Any) -> IO[bytes]:
    return io.BytesIO(json.dumps(value, indent=1).encode() + b"\n")


def _csv(columns: Iterable[str], rows: Iterable[Row]) -> IO[bytes]:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(rows)
    return io.BytesIO(out.getvalue().encode())


def _spool(scratch: Path) -> Any:
    return tempfile.SpooledTemporaryFile(SPOOLED, dir=str(scratch))


def _write(file: Any, value: Any) -> None:
    file.write(json.dumps(value, separators=(",", ":")).encode() + b"\n")


class _Reading:
    """A file that remembers the hash of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data
