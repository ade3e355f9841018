"""What can be seen of a controller: its state as views, at once and without changing it; stories from its journal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from hostler import __version__
from hostler.core import Core, groups, shown
from hostler.core.access import views as access
from hostler.core.access.sharing import may_change
from hostler.core.alerting import views as alerting
from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device, find_device
from hostler.core.listed import device_ids, fleet_view, intervals, placed_device
from hostler.core.loop.intake import find_config
from hostler.core.loop.state import Config
from hostler.core.loop.views import config_view, dataset_views, history_view, model_views
from hostler.core.notes import gpu_by_default, notes_of, with_earlier_files
from hostler.core.readings import gist
from hostler.core.state import sweep_payload
from hostler.core.views import (
    find_job,
    find_sweep,
    job_detail,
    job_views,
    ledger_view,
    node_views,
    queue_rows,
    status_view,
    sweep_views,
)
from hostler.model.access import AuditView, Holder, TokenView
from hostler.model.alert_views import AlertView, RuleView, SilenceView
from hostler.model.artifact_views import (
    ArtifactDetail,
    ArtifactRead,
    ArtifactView,
    LineageView,
    ReplicationView,
    Sought,
)
from hostler.model.errors import StoreFull
from hostler.model.events import Entry
from hostler.model.files import OutputFile
from hostler.model.groups import GroupResult, GroupView
from hostler.model.listed import ANY_JOB, FleetView, IntervalView, JobMatch, PlacedDevice
from hostler.model.readings import Gist
from hostler.model.steering import CostView, Durations, QuotaView
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
    ModelView,
    NodeView,
    QueueRow,
    Status,
    SubmitNote,
    SweepView,
)
from hostler.model.work import JobSpec, JobState, WorkKind
from hostler.runtime.artifacts import Artifacts
from hostler.runtime.clock import Clock
from hostler.runtime.contents import Contents
from hostler.runtime.link import Link
from hostler.runtime.past import JobLooks, PastJobs
from hostler.runtime.proof import proof_of
from hostler.runtime.replicating import Replicator
from hostler.runtime.results import content_of, files_of
from hostler.runtime.slicing import in_slices
from hostler.runtime.statedir import StateDir
from hostler.runtime.stock import Stock
from hostler.runtime.usage import Usage
from hostler.runtime.vault import Vault
from hostler.store import Journal
from hostler.web.desk import Content, FileContent


class Looks:
    """The part of a `Desk` that only reads. Who inherits it has the core, and what is beside it."""

    _core: Core
    _directory: StateDir
    _fleet: str
    """What people call it."""
    _clock: Clock
    _journal: Journal
    _links: Mapping[str, Link]
    _alert_origins: Mapping[str, Mapping[str, str]]
    _artifacts: Artifacts
    _contents: Contents
    _stock: Stock
    _replicator: Replicator
    _past: PastJobs
    _vault: Vault

    def secrets(self) -> Vault:
        """The secrets of this machine."""
        return self._vault

    def status(self) -> Status:
        """The fleet in numbers."""
        return status_view(self._core.state, self._core.index, __version__, self._fleet)

    async def durable_status(self) -> Status:
        """The same, of nothing that the journal does not have yet."""
        return self.status()

    def gist(self) -> Gist:
        """What there is to do and what came of it."""
        return gist(self._core.state, self._core.index, self._clock.now(), self._links)

    def jobs(self, states: frozenset[JobState] | None, after: int, limit: int) -> Sequence[JobView]:
        """Jobs in order of submission."""
        return job_views(self._core.state, self._core.index, states, after, limit)

    async def having(self, name: str) -> JobLooks:
        """One job, wherever it is."""
        return await self._past.having(name)

    async def named(self, names: Sequence[str]) -> Sequence[JobView]:
        """The job of each name."""
        return await self._past.named(names)

    async def all_jobs(
        self,
        states: frozenset[JobState] | None,
        after: int,
        limit: int,
        work: WorkKind | None = None,
        match: JobMatch = ANY_JOB,
    ) -> Sequence[JobView]:
        """Jobs in order of submission, also those that have left."""
        if match == ANY_JOB:
            return await self._past.jobs(states, after, limit, work)
        return await self._past.matching(states, after, limit, match)

    def groups(self, after: int, limit: int) -> Sequence[GroupView]:
        """Job groups in order of submission."""
        return groups.views(self._core.state, self._core.index, after, limit)

    def newest_groups(self, before: int | None, limit: int, owner: str | None = None) -> Sequence[GroupView]:
        """Job groups, the newest first."""
        return groups.newest(self._core.state, self._core.index, before, limit, owner)

    def group(self, name: str) -> GroupView:
        """A job group."""
        return groups.view(self._core.index, groups.find(self._core.state, name))

    async def group_results(self, name: str, after: int, limit: int) -> Sequence[GroupResult]:
        """The jobs of a group with what came of them."""
        return await self._past.group_results(name, after, limit)

    async def all_sweeps(self, after: int, limit: int) -> Sequence[SweepView]:
        """The same of sweeps."""
        return await self._past.sweeps(after, limit)

    def job(self, name: str) -> JobDetail:
        """One job."""
        return job_detail(self._core.state, self._core.index, find_job(self._core.state, name))

    def explain(self, name: str) -> Explanation:
        """Why a job waits, or runs where it runs."""
        return explain_job(self._core.state, self._core.index, find_job(self._core.state, name))

    async def notes(self, ids: Sequence[str]) -> Sequence[SubmitNote]:
        """Which of these jobs no device can take now."""
        jobs = self._core.state.jobs
        found = (jobs[name] for name in ids if name in jobs)
        return await in_slices(notes_of(self._core.state, self._core.index, found))

    async def gpu_by_default(self, ids: Sequence[str]) -> int:
        """How many of these jobs take a GPU or wait for one, as they state no device."""
        jobs = self._core.state.jobs
        found = (jobs[name] for name in ids if name in jobs)
        return await in_slices(gpu_by_default(self._core.state, self._core.index, found))

    def with_earlier_files(self, specs: Sequence[JobSpec], ids: Sequence[str]) -> Sequence[str]:
        """Those of these jobs that keep the files of their first submission."""
        return with_earlier_files(self._core.state, specs, ids)

    def queue(self, limit: int, after: Sequence[str] = ()) -> Sequence[QueueRow]:
        """What goes next."""
        return queue_rows(self._core.state, self._core.index, limit, after)

    def fleet(self) -> FleetView:
        """The fleet as a whole."""
        return fleet_view(self._core.state, self._core.index, self._clock.now(), self._links)

    def node_names(self) -> Sequence[str]:
        """All nodes."""
        return list(self._core.state.nodes)

    def nodes(self, names: Sequence[str] | None = None) -> Sequence[NodeView]:
        """Nodes with their devices."""
        return node_views(self._core.state, self._core.index, names)

    def device_ids(
        self, node: str | None = None, provider: str | None = None, tier: int | None = None
    ) -> Sequence[str]:
        """Devices of the nodes that are asked for."""
        return device_ids(self._core.state, self._core.index, node, provider, tier)

    def devices(self, ids: Sequence[str]) -> Sequence[PlacedDevice]:
        """Devices with what goes for their nodes."""
        state, index = self._core.state, self._core.index
        return [placed_device(state, index, find_device(state, name)) for name in ids]

    def explain_device(self, name: str) -> DeviceExplanation:
        """Why a device does what it does, or nothing."""
        return explain_device(self._core.state, self._core.index, find_device(self._core.state, name))

    def quotas(self) -> QuotaView:
        """Shares of device time, target against achieved."""
        return shown.quotas(self._core.state, self._core.index)

    def durations(self) -> Durations:
        """Learnt durations, and how good predictions were."""
        return shown.durations(self._core.state)

    def costs(self) -> CostView:
        """What work that is over has used up."""
        return shown.costs(self._core.state)

    async def usage(self, asked: UsageAsked, limit: int, after: Sequence[str] = ()) -> Sequence[UsageView]:
        """How devices were used."""
        return await Usage(self._core, self._journal, self._past, self._clock).page(asked, limit, after)

    def bans(self) -> Sequence[BanView]:
        """Everything that is held back or put first for a while."""
        return shown.bans(self._core.state, self._core.index)

    def alerts(self) -> Sequence[AlertView]:
        """What fires, may come to fire, or did."""
        return alerting.alert_views(self._core.state, self._core.index)

    def alert_rules(self) -> Sequence[RuleView]:
        """The rules, with what they measure now."""
        return alerting.rule_views(self._core.state, self._core.index, self._alert_origins)

    def silences(self) -> Sequence[SilenceView]:
        """Alerts that are not told for a while."""
        return alerting.silence_views(self._core.state)

    def sweeps(self, after: int = 0, limit: int | None = None) -> Sequence[SweepView]:
        """Sweeps in order of submission."""
        return sweep_views(self._core.state, self._core.index, after, limit)

    def ledger(self, name: str) -> LedgerView:
        """A sweep's ledger."""
        return ledger_view(self._core.state, self._core.index, find_sweep(self._core.state, name))

    def intervals(
        self, name: str, standings: frozenset[str] | None, after: int | None, limit: int
    ) -> Sequence[IntervalView]:
        """A sweep's range in order."""
        return intervals(find_sweep(self._core.state, name), standings, after, limit)

    async def proof(self, name: str) -> LedgerProof:
        """A sweep's ledger, folded again from the journal."""
        state = (await self.having(name)).state
        sweep = find_sweep(state, name)
        payload = sweep_payload(state.jobs[sweep.job])
        story = await self.story(sweep.job)
        return await asyncio.to_thread(proof_of, sweep.job, (payload.start, payload.stop), story)

    async def hits(self, name: str, after: int, limit: int) -> Sequence[HitView]:
        """Accepted hits of a sweep, with all that its state counts. Raises `StoreFull` as `story` does."""
        await self._written()
        sweep = find_sweep((await self.having(name)).state, name)
        return await asyncio.to_thread(self._journal.hits, sweep.job, after, limit)

    async def story(self, name: str) -> Sequence[Entry]:
        """A job's entries in the journal: all that its state shows has its entry."""
        await self._written()
        return await asyncio.to_thread(self._journal.story, find_job((await self.having(name)).state, name).id)

    def configs(self) -> Sequence[ConfigView]:
        """All training configs."""
        return [config_view(config, self._clock.now()) for config in self._core.state.configs.values()]

    def config(self, name: str) -> ConfigView:
        """One training config."""
        return config_view(find_config(self._core.state, name), self._clock.now())

    def history(self, name: str) -> ConfigHistory:
        """How a training config came to where it is."""
        return history_view(find_config(self._core.state, name), self._clock.now())

    def models(self, name: str | None = None) -> Sequence[ModelView]:
        """All models of a training config, or of all."""
        return [view for config in self._configs(name) for view in model_views(config)]

    def datasets(self, name: str | None = None) -> Sequence[DatasetView]:
        """All datasets of a training config, or of all."""
        return [view for config in self._configs(name) for view in dataset_views(config)]

    async def artifacts(
        self, sought: Sought, after: str | None, limit: int
    ) -> tuple[Sequence[ArtifactView], str | None]:
        """Artifacts, newest first."""
        await self._written_or_full()
        return await self._artifacts.page(sought, after, limit)

    async def artifact(self, name: str) -> ArtifactDetail:
        """One artifact."""
        await self._written_or_full()
        return await self._artifacts.detail(name)

    async def lineage(self, name: str, depth: int, limit: int) -> LineageView:
        """What an artifact was made from, and what from it."""
        await self._written_or_full()
        return await self._artifacts.lineage(name, depth, limit)

    async def left_files(self, name: str) -> Sequence[OutputFile]:
        """The files that a job left."""
        return files_of((await self.having(name)).job())

    async def left_file(self, name: str, path: str) -> FileContent:
        """One of the files that a job left."""
        return await content_of(self._directory.results, (await self.having(name)).job(), path)

    async def content(self, name: str) -> Content:
        """The bytes of an artifact."""
        await self._written_or_full()
        return await self._contents.content(name)

    async def verify(self, name: str, place: str | None, since: float) -> ArtifactRead:
        """Read the copies of an artifact again."""
        await self._written_or_full()
        return await self._contents.verify(name, place, since)

    def replication(self) -> ReplicationView:
        """How far replication has come."""
        return self._stock.replication(self._replicator)

    async def _written(self) -> None:
        """Wait until the journal has all that the state shows. The state of a standby comes from the journal."""

    async def _written_or_full(self) -> None:
        """Wait as `_written` does, and go ahead where the disk is full: artifacts are listed there to make room."""
        with contextlib.suppress(StoreFull):
            await self._written()

    def _configs(self, name: str | None) -> Sequence[Config]:
        return list(self._core.state.configs.values()) if name is None else [find_config(self._core.state, name)]

    def holder(self, digest: str) -> Holder | None:
        """Who has the token with this hash."""
        return access.holder(self._core.state, digest, self._now())

    def may_change(self, holder: Holder, owner: str | None) -> bool:
        """Whether the holder of a token may change the jobs of this owner, as far as owners decide that."""
        return may_change(self._core.state, self._core.index, holder, owner)

    def tokens(self) -> Sequence[TokenView]:
        """All tokens that were made and not revoked."""
        return access.token_views(self._core.state, self._now())

    async def audit(self, before: int | None, limit: int) -> Sequence[AuditView]:
        """Who asked for what, newest first."""
        return access.audit_views(await asyncio.to_thread(self._journal.requests, before, limit))

    def _now(self) -> float:
        """The core's time, which may be ahead of the clock."""
        return max(self._clock.now(), self._core.index.now)
