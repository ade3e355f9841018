"""A plan, and what is buried, as they are kept: made in a thread with all that is asked of them later.

There may be a million files of each. The event loop never goes through them: sums are there, a page costs as much as
the page has rows, and what is not wanted any more is let go of in a thread, little by little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from hostler.model.disks import GoingView, KeptView
from hostler.model.errors import UsageError
from hostler.policy.retention import BYTES, PATH, RANK, RULES, Deletion, Plan
from hostler.runtime.disks.tombs import Buried, Tomb
from hostler.runtime.disks.walking import Identity

NOWHERE = "`after` leads nowhere: no file of that page is in the list any more; begin again without it"


class Planned:
    """A plan, and what tells its files from others that may come into their places."""

    def __init__(self, at: float, plan: Plan, identities: dict[str, tuple[int, ...]]) -> None:
        self.at = at
        self.short = plan.short
        """Games that could go if there were more copies of them elsewhere."""
        self.may_go = tuple(_by_rule(plan))
        self.stays = tuple(_stays(plan))
        self._identities = identities
        self._deletions = plan.deletions
        self._numbers = {row[PATH]: number for number, row in enumerate(plan.deletions.rows)}
        self._begin = 0
        """All before it have been looked at since."""
        self._looked_at: set[int] = set()
        """So have these, behind it."""

    def __len__(self) -> int:
        """Files that have not been looked at since."""
        return len(self._deletions) - self._begin - len(self._looked_at)

    def left(self, begin: int = 0) -> Iterator[Deletion]:
        """What has not been looked at since, in order; what is looked at meanwhile is in nobody's way."""
        number = max(begin, self._begin)
        while number < len(self._deletions):
            if number >= self._begin and number not in self._looked_at:
                yield self._deletions[number]
            number += 1

    def page(self, limit: int, after: Sequence[str]) -> list[Deletion]:
        """The same, behind the last of these paths that is in the plan. Raises `UsageError` where none is."""
        begin = 0
        if after:
            found = next((self._numbers[path] for path in reversed(after) if path in self._numbers), None)
            if found is None:
                raise UsageError(NOWHERE)
            begin = found + 1
        return list(islice(self.left(begin), limit))

    def named(self, paths: Collection[str]) -> list[Deletion]:
        """Of these files, those that have not been looked at since, in order."""
        numbers = sorted(self._numbers[path] for path in set(paths) & self._numbers.keys())
        return [self._deletions[each] for each in numbers if each >= self._begin and each not in self._looked_at]

    def identity(self, path: str) -> Identity:
        """What tells the file of that path from others that may come into its place."""
        device, inode, size, mtime_ns = self._identities[path]
        return Identity(device, inode, size, mtime_ns)

    def look_at(self, some: Iterable[Deletion]) -> None:
        """These have been looked at now: whether they went or stay, they are not planned any more."""
        self._looked_at.update(self._numbers[each.found.path] for each in some)
        while self._begin in self._looked_at:
            self._looked_at.remove(self._begin)
            self._begin += 1

    def forget(self) -> None:
        """Let go of all files one by one: at once, it would keep every other thread waiting for a second."""
        while self._deletions:
            self._deletions.rows.pop()
        for held in (self._identities, self._numbers):
            while held:
                held.popitem()


class Graves:
    """All tombstones as they were looked at last, the oldest first."""

    def __init__(self, tombs: Iterable[Tomb] = ()) -> None:
        self.tombs = sorted(tombs, key=lambda each: (each.made_at, each.id))
        self.files = sum(len(tomb.files) for tomb in self.tombs)
        self.bytes = sum(each.file.bytes for tomb in self.tombs for each in tomb.files)
        self.next_at = min((tomb.until for tomb in self.tombs), default=None)
        """When the next of them are deleted for good."""
        self._by_until: dict[str, list[int]] = {}
        for number, tomb in enumerate(self.tombs):
            self._by_until.setdefault(str(tomb.until), []).append(number)

    def due(self, now: float) -> list[Tomb]:
        """Those whose grace is over."""
        return [tomb for tomb in self.tombs if tomb.until <= now] if (self.next_at or now) <= now else []

    def page(self, limit: int, after: Sequence[str]) -> list[tuple[Tomb, Buried]]:
        """Files, behind the last of these that is there still, by `row_name`. Raises `UsageError` where none is."""
        begin = (0, 0)
        if after:
            found = next((place for name in reversed(after) if (place := self._place(name)) is not None), None)
            if found is None:
                raise UsageError(NOWHERE)
            begin = (found[0], found[1] + 1)
        return list(islice(self._behind(*begin), limit))

    def chosen(self, paths: Collection[str] | None) -> tuple[list[tuple[Tomb, list[Buried]]], list[str]]:
        """These files with their tombstones, or all; and the paths that are in none. Goes through all of them."""
        if paths is None:
            return [(tomb, list(tomb.files)) for tomb in self.tombs], []
        asked, rows = frozenset(paths), []
        for tomb in self.tombs:
            if files := [each for each in tomb.files if each.file.path in asked]:
                rows.append((tomb, files))
        there = {each.file.path for _, files in rows for each in files}
        return rows, sorted(asked - there)

    def _place(self, name: str) -> tuple[int, int] | None:
        path, _, until = name.rpartition(" ")
        for number in reversed(self._by_until.get(until, ())):
            for place, each in enumerate(self.tombs[number].files):
                if each.file.path == path:
                    return number, place
        return None

    def _behind(self, number: int, place: int) -> Iterator[tuple[Tomb, Buried]]:
        for tomb in islice(self.tombs, number, None):
            for each in tomb.files[place:]:
                yield tomb, each
            place = 0


def until(deletions: Iterable[Deletion], need_bytes: int) -> Iterator[Deletion]:
    """As many of these, from the first on, as it takes to free so much."""
    freed = 0
    for each in deletions:
        if freed >= need_bytes:
            return
        freed += each.found.bytes
        yield each


def row_name(path: str, until: float) -> str:
    """What the row of a buried file is called: the same path may be buried twice."""
    return f"{path} {until}"


def _by_rule(plan: Plan) -> Iterator[GoingView]:
    counts, sizes = Counter[int](), Counter[int]()
    for row in plan.deletions.rows:
        counts[row[RANK]] += 1
        sizes[row[RANK]] += row[BYTES]
    for rank, count in counts.items():
        rule = RULES[rank]
        yield GoingView(rule=rule.name.lower(), why=str(rule), files=count, bytes=sizes[rank])


def _stays(plan: Plan) -> Sequence[KeptView]:
    """What is most first."""
    kept = [KeptView(why=str(why), files=count, bytes=size) for why, (count, size) in plan.kept.items()]
    return sorted(kept, key=lambda each: (-each.bytes, each.why))
