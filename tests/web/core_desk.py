"""A controller's desk on the real core, with its journal in a list; and a real server in front of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import re
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urljoin

import uvicorn.server

from hostler.core import groups, shown
from hostler.core.access import views as access
from hostler.core.access.sharing import may_change
from hostler.core.alerting import views as alerting
from hostler.core.dependencies import jobs_of
from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device, find_device
from hostler.core.listed import device_ids, fleet_view, intervals, placed_device
from hostler.core.loop.intake import find_config
from hostler.core.loop.state import Config
from hostler.core.loop.views import config_view, dataset_views, history_view, model_views
from hostler.core.machine import story
from hostler.core.metering.rows import present
from hostler.core.naming import find_jobs
from hostler.core.notes import gpu_by_default, notes_of, with_earlier_files
from hostler.core.readings import gist, readings
from hostler.core.slices import finished
from hostler.core.views import (
    find_job,
    find_sweep,
    job_detail,
    job_view,
    job_views,
    ledger_view,
    node_views,
    queue_rows,
    status_view,
    sweep_views,
)
from hostler.model.access import AuditView, Holder, TokenView
from hostler.model.alert_views import AlertView, RuleView, SilenceView, TargetView
from hostler.model.artifact_views import (
    ArtifactDetail,
    ArtifactRead,
    ArtifactView,
    LineageView,
    ReplicationView,
    Sought,
)
from hostler.model.disks import (
    CleanView,
    DoomedFile,
    GoingView,
    KeptView,
    LeftView,
    RetentionView,
    StoreDisk,
    TombView,
)
from hostler.model.errors import Conflict, LinkLost, NotFound, UsageError
from hostler.model.events import Entry
from hostler.model.files import OutputFile
from hostler.model.groups import GroupResult, GroupView
from hostler.model.inputs import Input
from hostler.model.listed import ANY_JOB, FleetView, IntervalView, JobMatch, PlacedDevice
from hostler.model.readings import Gist, Part, Readings
from hostler.model.steering import CostView, Durations, QuotaView
from hostler.model.telemetry import Level
from hostler.model.usage import UsageAsked, UsageView
from hostler.model.views import (
    BanView,
    ConfigHistory,
    ConfigView,
    DatasetView,
    DeviceExplanation,
    Explanation,
    HitView,
    JobDetail,
    JobView,
    LedgerProof,
    LedgerView,
    LogChunk,
    ModelView,
    NodeView,
    Output,
    OutputPiece,
    QueueRow,
    Status,
    SubmitNote,
    SweepView,
)
from hostler.model.work import JobSpec, JobState, WorkKind
from hostler.runtime.past import JobLooks
from hostler.runtime.results import content_of, files_of
from hostler.runtime.usage import gathered, hours_of
from hostler.runtime.vault import Vault
from hostler.snapshots.store import SnapshotStore
from hostler.web.app import make_app
from hostler.web.connections import USUAL, Admission
from hostler.web.desk import Content, FileContent, Piece
from hostler.web.door import Door
from hostler.web.server import serve
from tests.core.builders import Driver, fleet
from tests.patience import PATIENCE_S
from tests.web.kept import Kept

TOKEN = "a-token-of-tests"
T = TypeVar("T")


class CoreDesk:
    """What a controller shows, without store, agents or clock: `driver` is the world."""

    def __init__(self, driver: Driver | None = None, buffer: int = 1000) -> None:
        self.driver = driver or fleet(devices=2)
        self.logs: dict[tuple[str, str], bytes] = {}
        self.ended: set[str] = set()
        self.drained = 0
        self.told: list[TargetView] = []
        self.broken: Exception | None = None
        self.files: list[bytes] = []
        """What the controller's own store holds."""
        self.results = Path("/nowhere")
        """The folder of files that jobs left."""
        self._kept: Kept | None = None
        self._snapshots: SnapshotStore | None = None
        self._vault: Vault | None = None
        self.may_go: list[DoomedFile] = []
        self.buried: list[TombView] = []
        self._cleaned: dict[str, CleanView] = {}
        self._buffer = buffer
        self._readers: list[asyncio.Queue[Entry | None]] = []

    @property
    def _state(self) -> Any:
        return self.driver.core.state

    @property
    def _index(self) -> Any:
        return self.driver.core.index

    @property
    def kept(self) -> Kept:
        """Its catalogue and stores, made when they are asked for and brought to what the journal says."""
        if self._kept is None:
            self._kept = Kept(self.driver, self.tell)
            for each in self.files:
                self._kept.put(each)
        self._kept.sync()
        return self._kept

    @property
    def readers(self) -> int:
        """Open event streams."""
        return len(self._readers)

    def status(self) -> Status:
        if self.broken is not None:
            raise self.broken
        return status_view(self._state, self._index, "test", "test fleet")

    async def durable_status(self) -> Status:
        return self.status()

    def gist(self) -> Gist:
        return gist(self._state, self._index, self._index.now)

    def readings(self) -> Readings:
        made = readings(self._state, self._index, self._index.now, "test", "test fleet")
        return replace(made, replication=None if self._kept is None else self.replication())

    def parts(self) -> Sequence[Part]:
        return [Part(name="core", does="decides", last_at=self._index.now, times=self._state.seq, fault=None)]

    def jobs(self, states: frozenset[JobState] | None, after: int, limit: int) -> Sequence[JobView]:
        return job_views(self._state, self._index, states, after, limit)

    async def having(self, name: str) -> JobLooks:
        find_job(self._state, name)
        return JobLooks(self._state, self._index, name)

    async def named(self, names: Sequence[str]) -> Sequence[JobView]:
        return [job_view(self._state, job) for job in find_jobs(self._state, names)]

    async def all_jobs(
        self,
        states: frozenset[JobState] | None,
        after: int,
        limit: int,
        work: WorkKind | None = None,
        match: JobMatch = ANY_JOB,
    ) -> Sequence[JobView]:
        if match == ANY_JOB:
            return job_views(self._state, self._index, states, after, limit, work)
        if match.group is not None:
            groups.find(self._state, match.group)
        every = job_views(self._state, self._index, states, after, len(self._state.jobs), work)
        return [job for job in every if match.fits(job)][:limit]

    def groups(self, after: int, limit: int) -> Sequence[GroupView]:
        return groups.views(self._state, self._index, after, limit)

    def newest_groups(self, before: int | None, limit: int, owner: str | None = None) -> Sequence[GroupView]:
        return groups.newest(self._state, self._index, before, limit, owner)

    def group(self, name: str) -> GroupView:
        return groups.view(self._index, groups.find(self._state, name))

    async def group_results(self, name: str, after: int, limit: int) -> Sequence[GroupResult]:
        jobs = jobs_of(self._state, groups.find(self._state, name).id)
        return [groups.result(job) for job in jobs if job.number > after][:limit]

    async def all_sweeps(self, after: int, limit: int) -> Sequence[SweepView]:
        return sweep_views(self._state, self._index, after, limit)

    def job(self, name: str) -> JobDetail:
        return job_detail(self._state, self._index, find_job(self._state, name))

    def explain(self, name: str) -> Explanation:
        return explain_job(self._state, self._index, find_job(self._state, name))

    async def notes(self, ids: Sequence[str]) -> Sequence[SubmitNote]:
        return finished(notes_of(self._state, self._index, [self._state.jobs[name] for name in ids]))

    async def gpu_by_default(self, ids: Sequence[str]) -> int:
        return finished(gpu_by_default(self._state, self._index, [self._state.jobs[name] for name in ids]))

    def with_earlier_files(self, specs: Sequence[JobSpec], ids: Sequence[str]) -> Sequence[str]:
        return with_earlier_files(self._state, specs, ids)

    def queue(self, limit: int, after: Sequence[str] = ()) -> Sequence[QueueRow]:
        return queue_rows(self._state, self._index, limit, after)

    def fleet(self) -> FleetView:
        return fleet_view(self._state, self._index, self._index.now)

    def node_names(self) -> Sequence[str]:
        return list(self._state.nodes)

    def nodes(self, names: Sequence[str] | None = None) -> Sequence[NodeView]:
        return node_views(self._state, self._index, names)

    def device_ids(
        self, node: str | None = None, provider: str | None = None, tier: int | None = None
    ) -> Sequence[str]:
        return device_ids(self._state, self._index, node, provider, tier)

    def devices(self, ids: Sequence[str]) -> Sequence[PlacedDevice]:
        state, index = self._state, self._index
        return [placed_device(state, index, find_device(state, name)) for name in ids]

    def explain_device(self, name: str) -> DeviceExplanation:
        return explain_device(self._state, self._index, find_device(self._state, name))

    def quotas(self) -> QuotaView:
        return shown.quotas(self._state, self._index)

    def durations(self) -> Durations:
        return shown.durations(self._state)

    def costs(self) -> CostView:
        return shown.costs(self._state)

    async def usage(self, asked: UsageAsked, limit: int, after: Sequence[str] = ()) -> Sequence[UsageView]:
        _, unwritten = present(self._state, self._index, self._index.now)
        hours = hours_of(asked, self._index.now)
        rows = [row for row in (*self.driver.hours, *unwritten) if row.hour in hours]
        return gathered(asked, hours, rows, limit, after, (range(0), lambda _: [], lambda _: None))

    def bans(self) -> Sequence[BanView]:
        return shown.bans(self._state, self._index)

    def alerts(self) -> Sequence[AlertView]:
        return alerting.alert_views(self._state, self._index)

    def alert_rules(self) -> Sequence[RuleView]:
        return alerting.rule_views(self._state, self._index, {})

    def silences(self) -> Sequence[SilenceView]:
        return alerting.silence_views(self._state)

    def targets(self) -> Sequence[TargetView]:
        return self.told

    def sweeps(self, after: int = 0, limit: int | None = None) -> Sequence[SweepView]:
        return sweep_views(self._state, self._index, after, limit)

    def ledger(self, name: str) -> LedgerView:
        return ledger_view(self._state, self._index, find_sweep(self._state, name))

    def intervals(
        self, name: str, standings: frozenset[str] | None, after: int | None, limit: int
    ) -> Sequence[IntervalView]:
        return intervals(find_sweep(self._state, name), standings, after, limit)

    def configs(self) -> Sequence[ConfigView]:
        return [config_view(each, self._index.now) for each in self._state.configs.values()]

    def config(self, name: str) -> ConfigView:
        return config_view(find_config(self._state, name), self._index.now)

    def history(self, name: str) -> ConfigHistory:
        return history_view(find_config(self._state, name), self._index.now)

    def models(self, name: str | None = None) -> Sequence[ModelView]:
        return [view for config in self._configs(name) for view in model_views(config)]

    def datasets(self, name: str | None = None) -> Sequence[DatasetView]:
        return [view for config in self._configs(name) for view in dataset_views(config)]

    def _configs(self, name: str | None) -> Sequence[Config]:
        return list(self._state.configs.values()) if name is None else [find_config(self._state, name)]

    def retention(self, node: str | None = None) -> RetentionView:
        self._find(node)
        size = sum(each.bytes for each in self.may_go)
        going = GoingView(rule="log", why="a log, older than logs are kept", files=len(self.may_go), bytes=size)
        return RetentionView(
            mode="dry-run",
            grace_s=86400.0,
            disk=StoreDisk(total_bytes=10**12, free_bytes=10**11, used=0.9, level=Level.CRITICAL, says="it is full"),
            looked_at=None if not self.may_go else self.driver.now,
            may_go=(going,) if self.may_go else (),
            stays=(KeptView(why="nobody knows what it is", files=3, bytes=10**9),),
            buried_files=len(self.buried),
            buried_bytes=sum(each.bytes for each in self.buried),
            next_at=min((each.until for each in self.buried), default=None),
            trouble=None,
        )

    def tombs(self, limit: int, after: Sequence[str] = ()) -> Sequence[TombView]:
        return _page(self.buried, [f"{each.path} {each.until}" for each in self.buried], limit, after)

    async def doomed(
        self, limit: int, after: Sequence[str] = (), *, fresh: bool, node: str | None = None
    ) -> Sequence[DoomedFile]:
        self._find(node)
        may_go = [each for each in self.may_go if node is None or each.rule == "cache"]
        return _page(may_go, [each.path for each in may_go], limit, after)

    def _find(self, node: str | None) -> None:
        if node is not None and node not in self._state.nodes:
            raise NotFound(f"there is no node {node!r}")

    async def clean_disk(
        self, ask: str, who: str, files: Sequence[str] | None, most: int, node: str | None = None
    ) -> CleanView:
        if node is not None:
            self._find(node)
            gone = [each for each in self.may_go if each.rule == "cache"][:most]
            self.may_go = [each for each in self.may_go if each not in gone]
            return self._moved(ask, gone, files, 0, None)
        chosen = [each for each in self.may_go if files is None or each.path in files]
        self.may_go = [each for each in self.may_go if each not in chosen[:most]]
        until = self.driver.now + 86400.0
        for each in chosen[:most]:
            said = {name: getattr(each, name) for name in ("path", "bytes", "rule", "why", "sha256", "proof")}
            self.buried.append(TombView(**said, who=who, buried_at=self.driver.now, until=until))
        return self._moved(ask, chosen[:most], files, max(len(chosen) - most, 0), until)

    async def undo_cleaning(self, ask: str, who: str, files: Sequence[str] | None) -> CleanView:
        chosen = [each for each in self.buried if files is None or each.path in files]
        self.buried = [each for each in self.buried if each not in chosen]
        return self._moved(ask, chosen, files, 0, None)

    def cleaned(self, ask: str) -> CleanView:
        if ask not in self._cleaned:
            raise Conflict("what came of it is not known any more")
        return self._cleaned[ask]

    def _moved(
        self, ask: str, chosen: Sequence[Any], files: Sequence[str] | None, more: int, until: float | None
    ) -> CleanView:
        strangers = set(files or ()) - {each.path for each in chosen}
        self._cleaned[ask] = CleanView(
            files=tuple(each.path for each in chosen),
            bytes=sum(each.bytes for each in chosen),
            left=tuple(LeftView(path=each, why="it is not known") for each in sorted(strangers)),
            more=more,
            until=until,
        )
        return self._cleaned[ask]

    async def proof(self, name: str) -> LedgerProof:
        view = self.ledger(name)
        return LedgerProof(
            job=view.sweep.job,
            total=view.sweep.total,
            done=view.sweep.done,
            intervals=len(view.done),
            hits=view.sweep.hits,
            complete=view.sweep.done == view.sweep.total,
            fault=None,
        )

    async def hits(self, name: str, after: int, limit: int) -> Sequence[HitView]:
        found = find_sweep(self._state, name).job
        entries = story(self.driver.entries, found)
        hits = [hit for entry in entries for hit in getattr(entry.event, "hits", ())]
        return [HitView(job=found, at=hit["at"], data=hit) for hit in hits[after : after + limit]]

    async def story(self, name: str) -> Sequence[Entry]:
        return story(self.driver.entries, find_job(self._state, name).id)

    async def artifacts(
        self, sought: Sought, after: str | None, limit: int
    ) -> tuple[Sequence[ArtifactView], str | None]:
        return await self.kept.artifacts.page(sought, after, limit)

    async def artifact(self, name: str) -> ArtifactDetail:
        return await self.kept.artifacts.detail(name)

    async def lineage(self, name: str, depth: int, limit: int) -> LineageView:
        return await self.kept.artifacts.lineage(name, depth, limit)

    async def left_files(self, name: str) -> Sequence[OutputFile]:
        return files_of(self.job(name))

    async def left_file(self, name: str, path: str) -> FileContent:
        return await content_of(self.results, self.job(name), path)

    async def content(self, name: str) -> Content:
        return await self.kept.contents.content(name)

    async def verify(self, name: str, place: str | None, since: float) -> ArtifactRead:
        return await self.kept.contents.verify(name, place, since)

    def replication(self) -> ReplicationView:
        return self.kept.stock.replication(self.kept.replicator)

    def secrets(self) -> Vault:
        if self._vault is None:
            path = Path(tempfile.mkdtemp(prefix="secrets-")) / "secrets.json"
            self._vault = Vault(path, lambda: self._index.now)
        return self._vault

    def snapshots(self) -> SnapshotStore:
        if self._snapshots is None:
            self._snapshots = SnapshotStore(Path(tempfile.mkdtemp(prefix="snapshots-")))
        return self._snapshots

    async def log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        if attempt == "unreachable.1":
            raise LinkLost("the node does not answer")
        if (attempt, stream) not in self.logs:
            raise NotFound(f"there is no attempt {attempt!r}")
        whole = self.logs[attempt, stream]
        begin = min(len(whole), offset if offset >= 0 else max(0, len(whole) + offset))
        return LogChunk(
            attempt=attempt,
            stream=stream,
            offset=begin,
            data=whole[begin : begin + limit],
            size=len(whole),
            ended=attempt in self.ended,
        )

    async def output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        if attempt == "unreachable.1":
            raise LinkLost("the node does not answer")
        if not {(attempt, "out"), (attempt, "err")} & self.logs.keys():
            raise NotFound(f"there is no attempt {attempt!r}")
        first, second = self.logs.get((attempt, "out"), b""), self.logs.get((attempt, "err"), b"")
        told = (
            OutputPiece(stream="out", data=base64.b64encode(first[out : out + limit]).decode()),
            OutputPiece(stream="err", data=base64.b64encode(second[err : err + limit]).decode()),
        )
        pieces = tuple(each for each in told if each.data)
        sizes = {"out_size": len(first), "err_size": len(second)}
        return Output(attempt=attempt, out=out, err=err, pieces=pieces, **sizes, ended=attempt in self.ended)

    def holder(self, digest: str) -> Holder | None:
        return access.holder(self._state, digest, self.driver.now)

    def may_change(self, holder: Holder, owner: str | None) -> bool:
        return may_change(self._state, self._index, holder, owner)

    def tokens(self) -> Sequence[TokenView]:
        return access.token_views(self._state, self.driver.now)

    async def audit(self, before: int | None, limit: int) -> Sequence[AuditView]:
        told = reversed(access.audit_views(self.driver.entries))
        return [view for view in told if before is None or view.seq < before][:limit]

    async def tell(self, *inputs: Input) -> Sequence[Any]:
        before = len(self.driver.entries)
        self.driver.tell(*inputs)
        if self._kept is not None:
            self._kept.sync()
        for reader in list(self._readers):
            self._hand(reader, self.driver.entries[before:])
        return self.driver.answers

    def _hand(self, reader: asyncio.Queue[Entry | None], entries: Sequence[Entry]) -> None:
        if reader.qsize() + len(entries) > self._buffer:
            self._readers.remove(reader)
            reader.put_nowait(None)
            return
        for entry in entries:
            reader.put_nowait(entry)

    async def entries(self, after: int | None) -> AsyncIterator[Entry]:
        reader: asyncio.Queue[Entry | None] = asyncio.Queue()
        self._readers.append(reader)
        try:
            for entry in self.driver.entries[self._state.seq if after is None else after :]:
                yield entry
            while (coming := await reader.get()) is not None:
                yield coming
        finally:
            if reader in self._readers:
                self._readers.remove(reader)

    async def pieces(self, after: int | None) -> AsyncIterator[Piece]:
        async with contextlib.aclosing(cast(Any, self.entries(after))) as entries:
            async for entry in entries:
                yield Piece((entry,))

    def cut_off(self) -> None:
        """End every event stream, as if its reader had been too slow."""
        for reader in self._readers:
            reader.put_nowait(None)
        self._readers.clear()

    def drain(self) -> None:
        self.drained += 1


def _page(rows: Sequence[T], names: Sequence[str], limit: int, after: Sequence[str]) -> Sequence[T]:
    """The first rows behind the last of those that are called so."""
    there = [names.index(name) for name in after if name in names]
    if after and not there:
        raise UsageError("`after` leads nowhere")
    begin = there[-1] + 1 if there else 0
    return list(rows[begin : begin + limit])


def door(desk: CoreDesk | None = None, **fields: Any) -> Door:
    """How people come in in tests: by `TOKEN`, at the time of the desk's world."""
    values: dict[str, Any] = {"token": TOKEN, "key": b"key of tests", "now": lambda: desk.driver.now if desk else 0.0}
    return Door(**{**values, **fields})


@dataclass
class Reply:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


@dataclass
class Window:
    """A real server on loopback, in a thread of its own, in front of a desk."""

    desk: CoreDesk
    port: int
    loop: asyncio.AbstractEventLoop
    headers: Mapping[str, str] = field(default_factory=lambda: {"Authorization": f"Bearer {TOKEN}"})

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send one request, with the token unless `headers` are given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(self.headers if headers is None else headers))
            response = connection.getresponse()
            return Reply(response.status, dict(response.headers), response.read())

    def get(self, path: str, **headers: str) -> Reply:
        """GET a path."""
        return self.ask("GET", path, headers={**self.headers, **headers})

    def post(self, path: str, value: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """POST a value as JSON, or nothing."""
        return self.ask("POST", path, None if value is None else json.dumps(value).encode(), headers)

    def tell(self, *given: Input) -> Sequence[Any]:
        """Let something happen in the world."""
        return asyncio.run_coroutine_threadsafe(self.desk.tell(*given), self.loop).result(PATIENCE_S)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the server's thread that takes its time."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def call(self, what: Callable[[], T]) -> T:
        """Run something in the server's thread."""

        async def inside() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(inside(), self.loop).result(PATIENCE_S)


def walk(served: Window, path: str) -> list[Any]:
    """All rows of a list, from all its pages."""
    rows: list[Any] = []
    here: str | None = path
    while here is not None:
        page = served.get(here)
        assert page.status == 200, page.body
        rows += page.json
        link = page.headers.get("link")
        here = None if link is None else urljoin(path, next_of(link))
    return rows


def next_of(link: str) -> str:
    """Where a `Link` leads to."""
    found = re.fullmatch(r'<([^<>]+)>; rel="next"', link)
    assert found is not None, link
    return found[1]


class _Hasty:
    """asyncio for uvicorn: it looks every moment, not ten times a second, whether it is to end."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


vars(uvicorn.server)["asyncio"] = _Hasty()


@contextlib.contextmanager
def window(
    desk: CoreDesk | None = None,
    port: int = 0,
    entrance: Mapping[str, Any] | None = None,
    admission: Admission = USUAL,
    **options: Any,
) -> Iterator[Window]:
    """Serve `desk` until the block ends; nothing listens afterwards. `entrance` are fields of its `door`."""
    made = desk or CoreDesk()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    served = None
    try:
        start = serve(make_app(made, door(made, **(entrance or {})), **options), "127.0.0.1", port, admission=admission)
        served = asyncio.run_coroutine_threadsafe(start, loop).result(PATIENCE_S)
        yield Window(made, served.port, loop)
    finally:
        if served is not None:
            asyncio.run_coroutine_threadsafe(served.close(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
