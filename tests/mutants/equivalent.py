"""Drawn mutants that change nothing anybody could notice, each with the argument why."""

from __future__ import annotations

from hostler.model.record import record


@record
class Equivalent:
    """A line that may be changed so."""

    file: str
    before: str
    after: str
    why: str


EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(
        file="core/ledger.py",
        before="if start == stop:",
        after="if start >= stop:",
        why="intervals are checked before they are merged: none has its end before its start",
    ),
    Equivalent(
        file="core/ledger.py",
        before="return [part for part in rest if part[0] < part[1]]",
        after="return [part for part in rest if part[0] != part[1]]",
        why="what is taken out lies inside: no part has its end before its start",
    ),
    Equivalent(
        file="policy/retention.py",
        before="found: Found, places: Mapping[str, Place], rules: RetentionRules, at: float, "
        "*, is_newest: bool = False",
        after="found: Found, places: Mapping[str, Place], rules: RetentionRules, at: float, /, is_newest: bool = False",
        why="every call gives these four by position and the last by its name",
    ),
    Equivalent(
        file="policy/retention.py",
        before="def judged(self, found: Found, *, is_newest: bool = False) -> Deletion | Obstacle:",
        after="def judged(self, found: Found, /, is_newest: bool = False) -> Deletion | Obstacle:",
        why="every call gives the file by position and the rest by its name",
    ),
    Equivalent(
        file="policy/retention.py",
        before="least, within_s = found.wanted or 0, rules.read_within_s",
        after="least, within_s = found.wanted or 1, rules.read_within_s",
        why="the larger of this and `rules.copies` counts, and settings let that be no less than 1",
    ),
    Equivalent(
        file="policy/retention.py",
        before="SAMPLES = 16",
        after="SAMPLES = 17",
        why="it sets which values are sorted together, and the order of all is the same for any number",
    ),
    Equivalent(
        file="runtime/disks/tombs.py",
        before="os.rmdir(folders[0], dir_fd=root)",
        after="os.rmdir(folders[ -1], dir_fd=root)",
        why="the line before it asks that there is one folder: it is the first and the last",
    ),
    Equivalent(
        file="store/checking.py",
        before="def _fault(row: Any, *, load: bool) -> str | None:",
        after="def _fault(row: Any, /, load: bool) -> str | None:",
        why="every call gives the row by position and the rest by its name",
    ),
    Equivalent(
        file="store/journal.py",
        before="PAGE = 10_000",
        after="PAGE = 9999",
        why="so many entries are read at once; pages of any size join without a seam, as a test of small ones shows",
    ),
)
