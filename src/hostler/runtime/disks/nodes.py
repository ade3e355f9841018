"""Artifact folders of nodes are kept from filling up: what work needed there, or made there, and has its copies.

What lies there proves nothing for others and is sent again when work needs it. So nothing is buried, and no copy is
read once more: what goes is told with its rule and its proof, and then removed. The node itself refuses what was used
of late; whatever is asked for as work is sent there counts as used, so that nobody has to wait for anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

from hostler.agent.environments import FOLDER as ENVIRONMENTS
from hostler.backends.base import Backend, KeepsStock, Stock
from hostler.model.disks import CleanView, DoomedFile, Keeping, LeftView, RetentionView
from hostler.model.errors import FilesError, LinkError, NotFound, UsageError
from hostler.model.inputs import DropTold
from hostler.model.rules import Targets
from hostler.model.telemetry import Level
from hostler.policy import pressure
from hostler.policy.retention import Deletion, FileKind, Found, Judge, Planning, stock_of, unused_s
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.disks import views
from hostler.runtime.disks.measuring import Disk, of_bytes, over_warning
from hostler.runtime.disks.planned import Graves, Planned, until
from hostler.runtime.disks.surveying import Survey
from hostler.runtime.places import Places
from hostler.runtime.verdicts import Tell

TURN_S = 10.0
"""How often it is looked whether a node's disk is too full."""
REST_S = 60.0
"""How long it is not looked after there was nothing to do: telemetry is older than what was done."""
VAIN_S = 600.0
"""How long nothing is tried after a round that came to nothing, though the disk is too full."""
FRESH_S = 300.0
"""A plan that is older is made anew before anything is done by it; each file is judged again in any case."""
PAGE = 1000
"""Artifacts that a node is asked for at a time."""
LISTED_MOST = 10_000_000
"""A node that tells of more tells of what is not there."""
TOGETHER = 64
"""Files that are told, and removed, together."""
ROUND = 1024
"""Files of one node that are removed in a round, at most."""
ITSELF = "retention"
"""Who cleans when nobody asked for it."""
FOLDER = "artifacts/objects"
SILENT = "the node does not say what became of it"


@dataclass
class _Site:
    """What is known of one node."""

    name: str
    backend: KeepsStock
    disk: Disk
    planned: Planned | None = None
    not_before: float = 0.0
    said: str | None = None
    """What kept the last round from its work."""
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class _Done:
    """What has come of a cleaning so far."""

    gone: list[DoomedFile] = field(default_factory=list)
    left: list[LeftView] = field(default_factory=list)
    refused: LeftView | None = None
    """One of those that were to go together, and of which the node let go of none."""


class NodeCleaner:
    """Owns the retention of all nodes with artifact folders of their own.

    `needed` tells which artifacts work reads that is on a node or on its way there, `is_full` whether its disk, as it
    was heard of last, is to be cleaned.
    """

    def __init__(
        self,
        nodes: Mapping[str, Backend],
        survey: Survey,
        located: Places,
        keeping: Keeping,
        clock: Clock,
        *,
        now: Callable[[], float],
        needed: Callable[[str], frozenset[str]],
        is_full: Callable[[str], bool],
        targets: Callable[[], Targets],
        tell: Tell,
        trouble: Callable[[str], None],
    ) -> None:
        self._names = frozenset(nodes)
        self._survey = survey
        self._located = located
        self._keeping = keeping
        self._clock = clock
        self._now = now
        self._needed = needed
        self._is_full = is_full
        self._targets = targets
        self._tell = tell
        self._trouble = trouble
        unknown = of_bytes(None, None, pressure.DISK, Level.NONE, targets())
        self._sites = {name: _Site(name, each, unknown) for name, each in nodes.items() if isinstance(each, KeepsStock)}

    async def run(self) -> None:
        """Until cancelled: clean nodes whose disks are too full. One that hangs keeps no other waiting."""
        if self._keeping.mode != "clean":
            return
        async with asyncio.TaskGroup() as tasks:
            for name in self._sites:
                tasks.create_task(self._watch(name), name=f"disk of {name}")

    async def turn(self, node: str) -> None:
        """What is due now on a node."""
        site = self._sites[node]
        if self._keeping.mode != "clean" or self._now() < site.not_before or not self._is_full(node):
            return
        async with site.alone:
            try:
                await self._round(site)
            except Exception as error:  # noqa: BLE001 - recorded, and the next turn comes all the same
                site.not_before = max(site.not_before, self._now() + REST_S)
                self._say(site, error)
            else:
                site.said = None

    async def plan(self, node: str, limit: int, after: Sequence[str] = (), *, fresh: bool) -> Sequence[DoomedFile]:
        """What may go from a node, what was not used for longest first; otherwise as `Cleaner.plan`.

        Raises `NotFound`, `UsageError` for a node that has no such folder of its own, `LinkError` and `FilesError`.
        """
        site = self._site(node)
        async with site.alone:
            planned = await self._plan(site) if fresh else await self._recent(site)
            return [views.doomed(each) for each in planned.page(limit, after)]

    async def clean(self, node: str, who: str, files: Collection[str] | None, most: int) -> CleanView:
        """Remove what may go from a node, the first `most` of it: of these files, or of all. Raises as `plan`."""
        site, done = self._site(node), _Done()
        async with site.alone:
            planned = await self._recent(site)
            wanted = planned.named(files) if files is not None else list(islice(planned.left(), most))
            more = (len(planned) if files is None else len(wanted)) - most
            chosen = iter(wanted[:most])
            while some := list(islice(chosen, TOGETHER)):
                await self._remove(site, planned, some, who, done)
        strangers = set(files or ()) - {each.found.path for each in wanted}
        done.left += [LeftView(path=each, why=views.STRANGER) for each in sorted(strangers)]
        return CleanView(
            files=tuple(each.path for each in done.gone),
            bytes=sum(each.bytes for each in done.gone),
            left=tuple(done.left),
            more=max(more, 0),
            until=None,
        )

    def retention(self, node: str) -> RetentionView:
        """How things stand on a node, as it was looked through last. Raises as `plan`, but for what waits for it."""
        site, keeping = self._site(node), Keeping(mode=self._keeping.mode, grace_s=0.0)
        return views.retention(keeping, site.disk, site.planned, Graves(), site.said)

    async def _watch(self, node: str) -> None:
        while True:
            await self._clock.sleep(TURN_S)
            await self.turn(node)

    def _site(self, node: str) -> _Site:
        if node not in self._names:
            raise NotFound(f"there is no node {node!r} in this fleet; `hostler node list` lists them")
        if node not in self._sites:
            raise UsageError(
                f"{node} has no artifact folder of its own that Hostler cleans: only nodes behind SSH and those that "
                "call do; without `--node` the disk is meant that the state directory lies on"
            )
        return self._sites[node]

    async def _round(self, site: _Site) -> None:
        """Bring the disk below its warning, by what was not used for longest; the next round goes on with the rest.

        Raises as `plan`, and `FilesError` where the node keeps all that may go: on a disk that cannot be written to the
        journal would be told on and on what is to go from there.
        """
        planned, done = await self._recent(site), _Done()
        for _ in range(ROUND // TOGETHER):
            some = list(islice(until(planned.left(), self._need(site)), TOGETHER))
            if not some:
                break
            await self._remove(site, planned, some, ITSELF, done)
            if done.refused is not None:
                break
        rebuilt = await self._drop_environments(site)
        if self._need(site) <= 0:
            site.not_before = self._now() + REST_S
        elif not done.gone and not rebuilt:
            site.not_before = self._now() + VAIN_S
        if done.refused is not None:
            raise FilesError(f"it keeps what may go, {done.refused.path}: {done.refused.why}")

    async def _drop_environments(self, site: _Site) -> bool:
        """Remove Python environments that are not used, where artifacts were not enough: they can be built again."""
        need = self._need(site)
        if need <= 0:
            return False
        removed = await site.backend.drop_environments(need, unused_s(self._keeping.rules))
        if not removed.gone:
            return False
        self._measure(site, site.disk.total_bytes, removed.free_bytes)
        paths, size = tuple(f"{ENVIRONMENTS}/{key}" for key in removed.gone), sum(removed.gone.values())
        await self._tell(DropTold(node=site.name, who=ITSELF, dropped=paths, bytes=size))
        return True

    def _need(self, site: _Site) -> int:
        return over_warning(site.disk, self._targets())

    async def _recent(self, site: _Site) -> Planned:
        planned = site.planned
        return await self._plan(site) if planned is None or self._now() - planned.at >= FRESH_S else planned

    async def _plan(self, site: _Site) -> Planned:
        now = self._now()
        planning = Planning(self._judge(now))
        needed = self._needed(site.name)
        async for stock in _pages(site):
            self._measure(site, stock.total_bytes, stock.free_bytes)
            await asyncio.to_thread(self._add, planning, list(_found(site.name, stock, now)), needed)
        planned = await asyncio.to_thread(lambda: Planned(now, planning.plan(), {}))
        old, site.planned = site.planned, planned
        if old is not None:
            await asyncio.to_thread(old.forget)
        return planned

    def _add(self, planning: Planning, files: Sequence[Found], needed: frozenset[str]) -> None:
        for each in self._survey.known(files, needed):
            planning.add(each)

    def _judge(self, now: float) -> Judge:
        return Judge(places.seen(self._located, self._clock.now()), self._keeping.rules, now)

    async def _remove(self, site: _Site, planned: Planned, some: Sequence[Deletion], who: str, done: _Done) -> None:
        """Judge them once more, tell of those that go, and have them removed."""
        planned.look_at(some)
        files = {_name(each.path): each for each in await self._allowed(site, some, done)}
        if not files:
            return
        await self._tell(DropTold(node=site.name, who=who, dropping=tuple(files.values())))
        removed = await site.backend.drop(list(files), unused_s(self._keeping.rules))
        self._measure(site, site.disk.total_bytes, removed.free_bytes)
        gone = [files[name] for name in removed.gone if name in files]
        if gone:
            paths, size = tuple(each.path for each in gone), sum(each.bytes for each in gone)
            await self._tell(DropTold(node=site.name, who=who, dropped=paths, bytes=size))
        done.gone += gone
        stay = {name: each for name, each in files.items() if name not in removed.gone}
        left = [LeftView(path=each.path, why=removed.left.get(name, SILENT)) for name, each in stay.items()]
        done.left += left
        if not gone:
            done.refused = left[0]

    async def _allowed(self, site: _Site, some: Sequence[Deletion], done: _Done) -> list[DoomedFile]:
        """Those that may still go, by what is known now. Work that comes from now on uses what it needs there."""
        bare = [_bare(site.name, each.found.path, each.found.bytes, each.found.used_at) for each in some]
        known = await asyncio.to_thread(self._survey.known, bare, self._needed(site.name))
        judge, allowed = self._judge(self._now()), []
        for found in known:
            verdict = judge.judged(found)
            if isinstance(verdict, Deletion):
                allowed.append(views.doomed(verdict))
            else:
                done.left.append(LeftView(path=found.path, why=str(verdict)))
        return allowed

    def _measure(self, site: _Site, total: int | None, free: int | None) -> None:
        site.disk = of_bytes(total, free, pressure.DISK, site.disk.own, self._targets())

    def _say(self, site: _Site, error: Exception) -> None:
        """Once, as long as it stays the same."""
        known = isinstance(error, LinkError | FilesError)
        words = f"the disk of {site.name} cannot be cleaned: {error if known else f'{type(error).__name__}: {error}'}"
        if words != site.said:
            self._trouble(words)
        site.said = words


async def _pages(site: _Site) -> AsyncIterator[Stock]:
    """All that a node tells of. Raises as `stock`, and `FilesError` for a list that is none: it might never end."""
    after, count, more = "", 0, True
    while more:
        stock = await site.backend.stock(after, PAGE)
        names = [after, *(each.name for each in stock.files)]
        for before, name in pairwise(names):
            if name <= before:
                raise FilesError(f"{site.name} tells of {name} behind {before}: its list has no order, and no end")
        after, count, more = names[-1], count + len(stock.files), stock.more and bool(stock.files)
        if count > LISTED_MOST:
            raise FilesError(f"{site.name} tells of more than {LISTED_MOST} artifacts: its list has no end")
        yield stock


def _found(node: str, stock: Stock, now: float) -> Iterator[Found]:
    for each in stock.files:
        path = f"{FOLDER}/{each.name[:2]}/{each.name}"
        yield _bare(node, path, each.bytes, now - max(each.unused_s, 0.0))


def _bare(node: str, path: str, size: int, used_at: float) -> Found:
    """A file by where it lies."""
    return Found(path=path, kind=FileKind.STOCK, bytes=size, used_at=used_at, place=stock_of(node))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
