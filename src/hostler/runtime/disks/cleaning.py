"""The controller's own disk is looked through, cleaned, and what was deleted brought back: by one process alone.

What may go `policy.retention` says, of what `surveying` has found. Each file is judged again just before it goes, and
its copies are read (`proving`); then it is told, and only then moved into a tombstone (`tombs`). Nothing is remembered
here that counts: a controller that is killed at any moment finds in the tombstones how far it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from hostler.agent.environments import FOLDER as ENVIRONMENTS
from hostler.backends.base import KeepsEnvironments
from hostler.model.artifacts import HUB, ReplicationRules
from hostler.model.disks import CleanView, DoomedFile, Keeping, LeftView, RetentionView, TombView
from hostler.model.errors import Conflict, FilesError, LinkError, UsageError
from hostler.model.inputs import CopiesTold, DropTold, FilesTold, Input
from hostler.model.rules import Targets
from hostler.model.telemetry import Level
from hostler.policy import retention
from hostler.policy.retention import Deletion, FileKind, Found, Obstacle
from hostler.runtime.clock import Clock
from hostler.runtime.disks import views
from hostler.runtime.disks.measuring import Disk, measured, over_by
from hostler.runtime.disks.needs import Needs
from hostler.runtime.disks.planned import Graves, Planned, until
from hostler.runtime.disks.proving import Prover
from hostler.runtime.disks.spreading import Spreader
from hostler.runtime.disks.surveying import Survey
from hostler.runtime.disks.tombs import Buried, Move, Passing, Tomb, Tombs, pass_by
from hostler.runtime.disks.walking import Identity
from hostler.runtime.places import Places
from hostler.runtime.threads import Threads
from hostler.runtime.verdicts import Verdicts
from hostler.store import Journal
from hostler.stores.base import Damaged, Missing, ObjectName

FIRST_S = 60.0
"""How long after the start the disk is looked through first, unless somebody asks."""
TURN_S = 10.0
"""How often it is looked whether graces are over, and whether the disk is too full."""
SURVEY_S = 3600.0
"""How often the disk is looked through without being asked for, so that people see what could go."""
VAIN_S = 600.0
"""How long nothing is tried after a cleaning that came to nothing, though the disk is too full."""
FRESH_S = 300.0
"""A plan that is older is made anew before anything is done by it; each file is judged again in any case."""
NEEDS_S = 2.0
"""For how long it is good enough to know what was in use."""
TOGETHER = 64
"""Files that are told, and moved, together."""
READERS = 4
"""Files whose copies are read at the same time."""
REMEMBERED = 100
"""Answers that are kept for whoever asks again under the same key."""
NAMED_MOST = 5
"""Files that one sentence names."""
ITSELF = "retention"
"""Who cleans when nobody asked for it."""


class Cleaner:
    """Owns the retention of one state directory. `needs` reads the core's state, with the names of work folders.

    `builders` returns the nodes, by name, that build their Python environments on the same disk.
    """

    def __init__(
        self,
        journal: Journal,
        located: Places,
        roots: Mapping[str, Path],
        copies: ReplicationRules,
        keeping: Keeping,
        clock: Clock,
        *,
        now: Callable[[], float],
        needs: Callable[[frozenset[str]], Needs],
        targets: Callable[[], Targets],
        tell: Callable[..., Awaitable[object]],
        trouble: Callable[[str], None],
        passing: Passing = pass_by,
        builders: Callable[[], Mapping[str, KeepsEnvironments]] = dict,
    ) -> None:
        self._builders = builders
        self._located = located
        self._roots = roots
        self._keeping = keeping
        self._clock = clock
        self._now = now
        self._needs = needs
        self._targets = targets
        self._tell = tell
        self._trouble = trouble
        self._survey = Survey(roots, journal, copies)
        self._work: frozenset[str] = frozenset()
        self._known: tuple[float, Needs | None] = (0.0, None)
        verdicts = Verdicts(journal, located, clock, tell, trouble)
        self._threads = Threads("proves")
        rules = keeping.rules
        self._prover = Prover(self._survey, located, rules, clock, now, self._needs_of_late, verdicts, self._threads)
        self._spreader = Spreader(located, roots, clock, verdicts, self._threads)
        self._tombs = {name: Tombs(name, root, passing) for name, root in roots.items()}
        self._graves = Graves()
        self._unreadable: set[Path] = set()
        self._planned: Planned | None = None
        self._answers: dict[str, CleanView] = {}
        self._alone = asyncio.Lock()
        self._not_before: dict[str, float] = {}
        self._tried_at = float("-inf")
        self._goes_on = False
        self._survey_at = clock.now() + FIRST_S
        self._level = Level.NONE
        self._said: str | None = None

    async def run(self) -> None:
        """Until cancelled: delete what was buried long enough, and clean where that is wanted."""
        try:
            await self._or_say_why_not(self.settle)
            while True:
                await self._or_say_why_not(self.turn)
                await self._clock.sleep(0.0 if self._goes_on else TURN_S)
        finally:
            self._threads.close()

    async def turn(self) -> None:
        """What is due now."""
        self._goes_on = False
        async with self._alone:
            await self._delete_due()
            if self._now() >= self._survey_at:
                await self._plan()
            if self._keeping.mode == "clean":
                await self._clean_if_full()

    async def settle(self) -> None:
        """Find out how far a controller came that was ended in between, and finish or forget what it had begun."""
        async with self._alone:
            for tombs in self._tombs.values():
                if tombs.root.is_dir():
                    await asyncio.to_thread(tombs.sweep)
                    for tomb in await asyncio.to_thread(lambda each=tombs: list(each.all())):  # type: ignore[misc]
                        await self._settle(tombs, tomb)
            await self._look_at_tombs()

    async def plan(self, limit: int, after: Sequence[str] = (), *, fresh: bool) -> Sequence[DoomedFile]:
        """What may go, in the order in which it would; looked through anew, or as it was lately.

        The first `limit` of it behind the last of the paths `after`. Raises `UsageError` where none of these may go.
        """
        async with self._alone:
            planned = self._planned
            if fresh or planned is None or self._now() - planned.at >= FRESH_S:
                planned = await self._plan()
            return [views.doomed(each) for each in planned.page(limit, after)]

    async def clean(self, ask: str, who: str, files: Collection[str] | None, most: int) -> CleanView:
        """Bury what may go, the first `most` of it: of these files, or of all."""
        async with self._alone:
            planned = await self._recent()
            if files is None:
                chosen, more, strangers = list(islice(planned.left(), most)), len(planned) - most, set[str]()
            else:
                wanted = planned.named(files)
                chosen, more = wanted[:most], len(wanted) - most
                strangers = set(files) - {each.found.path for each in wanted}
            done = await self._clean(planned, chosen, who)
            left = (*done.left, *(LeftView(path=each, why=views.STRANGER) for each in sorted(strangers)))
            return self.remember(ask, _view(done.moved, left, done.until, more=max(more, 0)))

    async def undo(self, ask: str, who: str, files: Collection[str] | None) -> CleanView:
        """Bring back what was buried: these files, or all."""
        async with self._alone:
            await self._look_at_tombs()
            chosen, strangers = await asyncio.to_thread(self._graves.chosen, files)
            moved: list[Buried] = []
            left = [LeftView(path=each, why=views.NOT_BURIED) for each in strangers]
            for tomb, some in chosen:
                done = await self._bring_back(tomb, some, who, f"brought back by {who}")
                moved += done.moved
                left += [LeftView(path=each.file.path, why=why) for each, why in done.left]
            await self._replace_plan(None)
            await self._look_at_tombs()
            return self.remember(ask, _view(moved, left, None))

    def answer(self, ask: str) -> CleanView:
        """What came of something that was asked for before. Raises `Conflict` where that is not known any more."""
        if ask not in self._answers:
            raise Conflict(
                "this was asked for before, under the same key, and what came of it is not kept any more; "
                "`hostler disk plan` shows how things stand; ask again under another key"
            )
        return self._answers[ask]

    def remember(self, ask: str, said: CleanView) -> CleanView:
        """Keep what came of something for whoever asks again; the same."""
        self._answers[ask] = said
        while len(self._answers) > REMEMBERED:
            del self._answers[next(iter(self._answers))]
        return said

    def tombs(self, limit: int, after: Sequence[str] = ()) -> Sequence[TombView]:
        """What is buried, the oldest first; as `plan`, by `planned.row_name`."""
        return [views.tomb(tomb, each) for tomb, each in self._graves.page(limit, after)]

    def retention(self) -> RetentionView:
        """How things stand; costs nothing that grows with the number of files."""
        return views.retention(self._keeping, self._disk(), self._planned, self._graves, self._said)

    def trouble(self) -> str | None:
        """What a person should do about the disk; `None`: nothing."""
        if self._disk().level < Level.CRITICAL:
            return None
        does = "it is cleaned" if self._keeping.mode == "clean" else "`hostler disk plan` shows what may go"
        return f"the disk of the state directory is too full; {does}"

    def _disk(self) -> Disk:
        disk = measured(self._roots, self._level, self._targets())
        self._level = disk.own
        return disk

    async def _plan(self) -> Planned:
        self._work = await asyncio.to_thread(self._survey.work_folders)
        needs, places, now = self._needs(self._work), self._prover.places(), self._now()
        rules = self._keeping.rules

        def look() -> Planned:
            identities: dict[str, tuple[int, ...]] = {}
            planning = retention.Planning(retention.Judge(places, rules, now))
            for found, identity in self._survey.found(needs, places, rules, now):
                if planning.add(found):
                    identities[found.path] = tuple(identity)
            return Planned(now, planning.plan(), identities)

        planned = await asyncio.to_thread(look)
        await self._replace_plan(planned)
        self._survey_at = now + SURVEY_S
        return planned

    async def _replace_plan(self, planned: Planned | None) -> None:
        old, self._planned = self._planned, planned
        if old is not None:
            await asyncio.to_thread(old.forget)

    def _needs_of_late(self) -> Needs:
        """All jobs are gone through for it: not for each file. Whatever is about to be moved is looked at once more."""
        at, known = self._known
        if known is None or not 0 <= self._clock.now() - at < NEEDS_S:
            known = self._needs(self._work)
            self._known = self._clock.now(), known
        return known

    async def _recent(self) -> Planned:
        planned = self._planned
        return await self._plan() if planned is None or self._now() - planned.at >= FRESH_S else planned

    async def _clean_if_full(self) -> None:
        """Bring the disk below where it is to be cleaned, by what may go first; what is buried already counts."""
        disk = self._disk()
        need = over_by(disk, self._targets()) - self._graves.bytes
        if disk.level < Level.CLEAN or need <= 0 or self._now() - self._tried_at < VAIN_S:
            return
        planned = await self._plan()
        done = await self._clean(planned, until(planned.left(), need), ITSELF)
        freed = sum(each.file.bytes for each in done.moved)
        if freed < need:
            self._goes_on = await self._spreader.spread(planned.short, need - freed) > 0
            if not self._goes_on:
                await self._drop_environments(need - freed)
            self._tried_at = self._tried_at if self._goes_on else self._now()

    async def _drop_environments(self, need: int) -> None:
        """Remove Python environments that are not used, where artifacts were not enough: they can be built again."""
        for node, backend in self._builders().items():
            if need <= 0:
                break
            removed = await backend.drop_environments(need, retention.unused_s(self._keeping.rules))
            if removed.gone:
                paths, size = tuple(f"{ENVIRONMENTS}/{key}" for key in removed.gone), sum(removed.gone.values())
                await self._tell(DropTold(node=node, who=ITSELF, dropped=paths, bytes=size))
                need -= size

    async def _clean(self, planned: Planned, chosen: Iterable[Deletion], who: str) -> _Done:
        done = _Done()
        rest = iter(chosen)
        while some := list(islice(rest, TOGETHER)):
            allowed, refused = await self._proved(some)
            done.left += refused
            for root in sorted(self._roots):
                own = [each for each in allowed if each.found.path.startswith(f"{root}/")]
                move, done.until = await self._bury(root, own, planned.identity, who, done.until)
                done.moved += move.moved
                done.left += [LeftView(path=each.file.path, why=why) for each, why in move.left]
                listed = {each.file.path for each in (*move.moved, *(each for each, _ in move.left))}
                needed = (each.found.path for each in own if each.found.path not in listed)
                done.left += [LeftView(path=path, why=str(Obstacle.IN_USE)) for path in needed]
            planned.look_at(some)
        await self._look_at_tombs()
        return done

    async def _proved(self, some: Sequence[Deletion]) -> tuple[list[Deletion], list[LeftView]]:
        """Those that may still go, by what was read just now; of several copies of one artifact, one."""
        allowed: list[Deletion] = []
        left: list[LeftView] = []
        readers = asyncio.Semaphore(READERS)

        async def look(each: Deletion) -> None:
            async with readers:
                verdict = await self._prover.proved(each.found)
            if isinstance(verdict, str):
                left.append(LeftView(path=each.found.path, why=verdict))
            else:
                allowed.append(verdict)

        async with asyncio.TaskGroup() as tasks:
            for each in some:
                tasks.create_task(look(each))
        allowed.sort(key=lambda each: each.found.path)
        return _once(allowed, left), left

    async def _bury(
        self,
        root: str,
        files: Sequence[Deletion],
        identity: Callable[[str], Identity],
        who: str,
        until: float | None,
    ) -> tuple[Move, float | None]:
        """List it, tell it, move it, in this order; what did not move is told to be where it was."""
        needs = self._needs(self._work)
        files = [each for each in files if not _is_needed(each.found, needs)]
        if not files:
            return Move(moved=(), left=()), until
        tombs, now = self._tombs[root], self._now()
        rows = [(views.doomed(each), identity(each.found.path)) for each in files]
        tomb = tombs.draft(rows, who, now, now + self._keeping.grace_s)
        await asyncio.to_thread(tombs.open, tomb)
        told = FilesTold(tombstone=tomb.id, who=who, until=tomb.until, retired=tuple(each.file for each in tomb.files))
        await self._tell(told, *_gone(files))
        done = await asyncio.to_thread(tombs.bury, tomb)
        if done.left:
            await self._tell_restored(tomb, [each for each, _ in done.left], who, done.left[0][1])
            await asyncio.to_thread(tombs.shorten, tomb, [each for each, _ in done.left])
        return done, tomb.until if done.moved else until

    async def _delete_due(self) -> None:
        """What was buried long enough, and is proved once more, is deleted; what is not proved comes back."""
        now = self._now()
        if self._due(now):
            await self._look_at_tombs()  # whatever failed of late may have changed more than is known here
        due = self._due(now)
        for tomb in due:
            good, doubtful = await self._still_proved(tomb)
            if doubtful:
                back = await self._bring_back(tomb, doubtful, ITSELF, "its copies elsewhere are not proved any more")
                good += [each for each, _ in back.left if await self._lies_there(each)]
                # What can neither come back nor go is looked at again later.
                self._not_before[tomb.id] = now + VAIN_S
            if good:
                await self._delete(tomb, good)
        if due:
            await self._look_at_tombs()

    def _due(self, now: float) -> list[Tomb]:
        return [tomb for tomb in self._graves.due(now) if self._not_before.get(tomb.id, now) <= now]

    async def _lies_there(self, each: Buried) -> bool:
        """Whether it has been copied again to where it was: then the one in the tombstone is one too many."""
        name = _copy_of(each)
        if name is None:
            return False
        try:
            await asyncio.to_thread(self._located[HUB].store.check, name, self._located[HUB].bandwidth.pace)
        except (FilesError, LinkError, OSError):
            return False
        return True

    async def _still_proved(self, tomb: Tomb) -> tuple[list[Buried], list[Buried]]:
        """Of a tombstone: what may be deleted for good, and what may not."""
        good: list[Buried] = []
        doubtful: list[Buried] = []
        for each in tomb.files:
            (good if await self._is_still_proved(each) else doubtful).append(each)
        return good, doubtful

    async def _is_still_proved(self, each: Buried) -> bool:
        file = each.file
        if file.sha256 is None:
            return True
        found = Found(path=file.path, kind=FileKind.ARTIFACT, bytes=file.bytes, used_at=file.used_at, place=HUB)
        return isinstance(await self._prover.proved(found), Deletion)

    async def _delete(self, tomb: Tomb, files: Sequence[Buried]) -> None:
        """Told afterwards: that it would be deleted at that time has been told, and a full disk takes no more words."""
        tombs = self._of(tomb)
        done = await asyncio.to_thread(tombs.delete, tomb, files)
        if done.moved:
            paths = tuple(each.file.path for each in done.moved)
            size = sum(each.file.bytes for each in done.moved)
            await self._tell(FilesTold(tombstone=tomb.id, who=tomb.who, deleted=paths, bytes=size))
            await self._shorten(tombs, tomb, done.moved)

    async def _bring_back(self, tomb: Tomb, files: Sequence[Buried], who: str, why: str) -> Move:
        tombs = self._of(tomb)
        done = await asyncio.to_thread(tombs.bring_back, tomb, files, self._now())
        if done.moved:
            await self._tell_restored(tomb, done.moved, who, why)
            await self._shorten(tombs, tomb, done.moved)
        return done

    async def _tell_restored(self, tomb: Tomb, files: Iterable[Buried], who: str, why: str) -> None:
        """A copy counts again once it was read."""
        listed = list(files)
        paths = tuple(each.file.path for each in listed)
        await self._tell(FilesTold(tombstone=tomb.id, who=who, restored=paths, why=why))
        for each in listed:
            await self._read_again(each)

    async def _read_again(self, each: Buried) -> None:
        name, store = _copy_of(each), self._located[HUB].store
        if name is None:
            return
        try:
            await asyncio.to_thread(store.check, name, self._located[HUB].bandwidth.pace)
        except Damaged as error:
            await asyncio.to_thread(store.set_aside, name)
            await self._tell(CopiesTold(place=HUB, damaged=(name.sha256,), why=str(error)))
        except Missing:
            return
        except (FilesError, OSError) as error:  # it is there, and counts once somebody has read it
            self._trouble(f"{each.file.path} cannot be read now: {error}")
        else:
            await self._tell(CopiesTold(place=HUB, verified=(name.sha256,)))

    async def _settle(self, tombs: Tombs, tomb: Tomb) -> None:
        """What is not in the tombstone never came there, was brought back, or is deleted already."""
        here = await asyncio.to_thread(tombs.are_here, tomb)
        away = [each for each in tomb.files if not here[each.name]]
        if not away:
            return
        there = [each for each in away if (self._roots[tombs.name].parent / each.file.path).is_file()]
        gone = [each for each in away if each not in there]
        if there:
            await self._tell_restored(tomb, there, ITSELF, "the controller ended before it was moved")
        if gone and self._now() < tomb.until:  # nothing is deleted for good before
            said = ", ".join(each.file.path for each in gone[:NAMED_MOST])
            self._trouble(
                f"{said} should have been deleted and had gone before ({len(gone)} such): nobody told of that"
            )
        elif gone:
            paths, size = tuple(each.file.path for each in gone), sum(each.file.bytes for each in gone)
            await self._tell(FilesTold(tombstone=tomb.id, who=tomb.who, deleted=paths, bytes=size))
        await self._shorten(tombs, tomb, away)

    async def _shorten(self, tombs: Tombs, tomb: Tomb, gone: Iterable[Buried]) -> None:
        """By the list as it is on the disk: it may have become shorter since this one was read."""
        newest = await asyncio.to_thread(tombs.newest, tomb.id)
        if newest is not None:
            await asyncio.to_thread(tombs.shorten, newest, list(gone))

    async def _look_at_tombs(self) -> None:
        def look() -> tuple[Graves, list[Path]]:
            all_tombs = self._tombs.values()
            graves = Graves(tomb for tombs in all_tombs for tomb in tombs.all())
            return graves, [path for tombs in all_tombs for path in tombs.unreadable()]

        self._graves, unreadable = await asyncio.to_thread(look)
        for path in set(unreadable) - self._unreadable:
            self._trouble(f"{path} has no list that can be read: what lies in it is not shown, and stays; look into it")
        self._unreadable = set(unreadable)

    def _of(self, tomb: Tomb) -> Tombs:
        return self._tombs[tomb.files[0].file.path.partition("/")[0]]

    async def _or_say_why_not(self, work: Callable[[], Awaitable[None]]) -> None:
        """What is wrong with a disk or a database for a while must not end the controller; it is said once."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - recorded, and the next turn comes all the same
            words = f"the disk cannot be cleaned: {error}" if isinstance(error, _EXPECTED) else _surprise(error)
            if words != self._said:
                self._trouble(words)
            self._said = words
        else:
            self._said = None


@dataclass
class _Done:
    """What has come of a cleaning so far."""

    moved: list[Buried] = field(default_factory=list)
    left: list[LeftView] = field(default_factory=list)
    until: float | None = None


_EXPECTED = (FilesError, LinkError, UsageError)


def _surprise(error: Exception) -> str:
    return f"the disk cannot be cleaned: {type(error).__name__}: {error}"


def _copy_of(each: Buried) -> ObjectName | None:
    """What it is called in the controller's store; `None` for what is no copy there, or was set aside."""
    _, _, inside = each.file.path.partition("/")
    return None if each.file.sha256 is None else ObjectName.at(inside)


def _view(moved: Iterable[Buried], left: Iterable[LeftView], until: float | None, *, more: int = 0) -> CleanView:
    files = [each.file for each in moved]
    return CleanView(
        files=tuple(each.path for each in files),
        bytes=sum(each.bytes for each in files),
        left=tuple(left),
        more=more,
        until=until,
    )


def _gone(files: Sequence[Deletion]) -> list[Input]:
    """The copies here count no more from now on, whatever happens next."""
    by_rule: dict[str, list[str]] = {}
    for each in files:
        if each.found.artifact is not None and each.found.place == HUB:
            by_rule.setdefault(str(each.rule), []).append(each.found.artifact.sha256)
    return [CopiesTold(place=HUB, gone=tuple(names), why=f"deleted: {rule}") for rule, names in by_rule.items()]


def _is_needed(found: Found, needs: Needs) -> bool:
    if found.kind is FileKind.CHECKPOINT:
        standing = needs.orders.get(found.series or "")
        return standing is None or not standing.final
    return found.artifact is not None and found.artifact.sha256 in needs.artifacts


def _once(allowed: Sequence[Deletion], left: list[LeftView]) -> list[Deletion]:
    """One file of each artifact at a time: they may be each other's proof."""
    kept: dict[str, Deletion] = {}
    for each in allowed:
        name = each.found.path if each.found.artifact is None else each.found.artifact.sha256
        if name in kept:
            left.append(LeftView(path=each.found.path, why=views.TWICE))
        else:
            kept[name] = each
    return list(kept.values())
