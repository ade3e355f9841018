"""Everything that can be asked of a controller: each operation of docs/reference/openapi.json once, for both clients.

`key` is the idempotency key of a request: asked again under it, within a day, nothing is done twice. Without one, each
call has its own. What returns `Rows` has gathered them from all pages of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hostler.client.calls import (
    Answer,
    LogPiece,
    Pages,
    Rows,
    Submitted,
    SubmittedGroup,
    View,
    binary,
    by_name,
    expect_ids,
    get,
    given,
    listed,
    log_piece,
    operation,
    pages,
    part,
    rows,
    text,
    walk,
    whole,
    write,
)
from hostler.client.snapshots import SentFolders, Watch, send_folders, send_snapshot

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from hostler.client import shapes
    from hostler.snapshots.folder import FolderSnapshot


class Operations:
    """The methods that both clients have in common. A job is named by its id, its key, or its unique name."""

    @operation
    def status(self) -> Answer[shapes.Status]:
        """The fleet in numbers."""
        return get("/status")

    @operation
    def queue_status(self) -> Answer[shapes.QueueStatus]:
        """What waits, what has devices, and how fast it goes."""
        return get("/queue/status")

    @operation
    def health(self) -> Answer[shapes.Health]:
        """What came to an end of late, and what each part of the controller last did."""
        return get("/daemons/health")

    @operation
    def fleet(self) -> Answer[shapes.FleetView]:
        """The fleet as a whole: totals by provider and tier, and what it achieves."""
        return get("/fleet")

    @operation
    def metrics(self) -> Answer[str]:
        """What Prometheus reads."""
        return text("/metrics")

    @operation
    def jobs(
        self,
        states: Sequence[str] = (),
        after: int = 0,
        limit: int = 100,
        *,
        group: str | None = None,
        node: str | None = None,
        called: str | None = None,
        mine: bool = False,
    ) -> Answer[Rows[shapes.JobView]]:
        """Jobs in order of submission beyond number `after`, at most `limit` of them.

        Only those of a `group`, those that run or ran last on a `node`, those whose name fits the shell-style pattern
        `called`, and those that belong to the owner of the token (`mine`), if these are given.
        """
        only = {"group": group, "node": node, "called": called, "mine": "true" if mine else None}
        return rows("/jobs", limit, state=list(states), after=after, **only)

    @operation
    def named(self, names: Sequence[str]) -> Answer[Rows[shapes.JobView]]:
        """The job of each name, in this order. Raises `NotFound`, and `UsageError` where several jobs have a name."""
        return by_name("/jobs", names)

    @walk
    def all_jobs(
        self,
        states: Sequence[str] = (),
        after: int = 0,
        *,
        group: str | None = None,
        node: str | None = None,
        called: str | None = None,
        mine: bool = False,
    ) -> Pages[shapes.JobView]:
        """Every job beyond number `after`, in order of submission, page by page; only some of them as `jobs` has it."""
        only = {"group": group, "node": node, "called": called, "mine": "true" if mine else None}
        return pages("/jobs", state=list(states), after=after, **only)

    @operation
    def submit_group(
        self,
        group: Mapping[str, Any],
        specs: Sequence[Mapping[str, Any]],
        key: str | None = None,
        *,
        strict: bool = False,
    ) -> Answer[SubmittedGroup]:
        """Submit jobs (`shapes.JobSpecInput`) as a group (`shapes.GroupSpecInput`), all or none.

        Jobs that are known by their keys stay in their groups; where all are known, the answer is the newest group that
        one of them is in. `key` and `strict` as of `submit_jobs`.
        """
        body = {"group": dict(group), "jobs": list(specs)}
        told = yield from write("POST", "/groups", body, key, strict="true" if strict else None)
        expect_ids(told["ids"], specs)
        return SubmittedGroup(
            told["group"],
            tuple(told["ids"]),
            tuple(told["known"]),
            told["notes"],
            told["gpu_by_default"],
            told["with_earlier_files"],
        )

    @operation
    def groups(self, after: int = 0, limit: int | None = 100) -> Answer[Rows[shapes.GroupView]]:
        """Job groups in order of submission beyond number `after`, at most `limit` of them; `None`: all."""
        return rows("/groups", limit, after=after)

    @operation
    def group(self, name: str) -> Answer[shapes.GroupView]:
        """A job group in numbers, by its id."""
        return get(f"/groups/{part(name)}")

    @walk
    def group_results(self, name: str) -> Pages[shapes.GroupResult]:
        """The jobs of a group in order, with their parameters and results, page by page."""
        return pages(f"/groups/{part(name)}/results")

    @operation
    def cancel_group(self, name: str, reason: str | None = None, *, key: str | None = None) -> Answer[shapes.GroupView]:
        """Cancel all jobs of a group that have not ended. Raises `Conflict` where all have."""
        return write("POST", f"/groups/{part(name)}/cancel", given(reason=reason), key)

    @operation
    def retry_group(self, name: str, *, only_failed: bool = False, key: str | None = None) -> Answer[shapes.GroupView]:
        """Try the failed jobs of a group again, and its cancelled jobs, too, unless `only_failed`.

        Raises `Conflict` where there are none.
        """
        return write("POST", f"/groups/{part(name)}/retry", {"only_failed": only_failed}, key)

    @operation
    def submit_jobs(
        self, specs: Sequence[Mapping[str, Any]], key: str | None = None, *, strict: bool = False
    ) -> Answer[Submitted]:
        """Submit jobs (`shapes.JobSpecInput`), all or none; returns their ids in order.

        The same request under the same idempotency `key`, within a day, is answered with the ids of the first time.
        `notes` of the answer has the jobs that no device can take as the fleet is now; `strict` refuses them.
        """
        told = yield from write("POST", "/jobs", list(specs), key, strict="true" if strict else None)
        expect_ids(told["ids"], specs)
        return Submitted(
            told["ids"], told.get("notes", ()), told.get("gpu_by_default", 0), told.get("with_earlier_files", ())
        )

    @operation
    def send_snapshot(self, snapshot: FolderSnapshot, sent: Callable[[int], None] | None = None) -> Answer[str]:
        """Send what the controller lacks of a folder's files; returns the digest that job specs name.

        `sent` is called with the bytes of files in each request. A cut connection is taken up where it broke. Raises
        `FilesChanged` where a file changed since the snapshot was taken.
        """
        return send_snapshot(snapshot, sent)

    @operation
    def send_folders(self, specs: Sequence[Mapping[str, Any]], skip: Path | None, watch: Watch) -> Answer[SentFolders]:
        """Send the folders (`cwd`) of specs, and put their snapshots in the place of them.

        `skip` is left out of every folder: the controller's own, where that is on this machine.
        """
        return send_folders(specs, skip, watch)

    @operation
    def job(self, name: str) -> Answer[shapes.JobDetail]:
        """Everything about one job."""
        return get(f"/jobs/{part(name)}")

    @operation
    def files(self, name: str) -> Answer[Rows[shapes.OutputFile]]:
        """The files that the accepted attempt of a job left; none while the job is not done."""
        return listed(f"/jobs/{part(name)}/files")

    @operation
    def fetch(
        self,
        name: str,
        directory: str | os.PathLike[str] | None = None,
        *,
        force: bool = False,
        told: Callable[[View], None] | None = None,
    ) -> Answer[Rows[View]]:
        """Copy these files to `directory`, by default a folder here with the id of the job as its name.

        A file appears under its name when it is whole and has the right hash; what is there with the same content is
        not copied again. A cut connection, or call, is taken up where it broke. Returns a row for each file: `path`,
        `file` (here), `size`, `sha256`, `copied`; `told` is called with each as soon as it is there.

        Raises `UsageError` where the job left no files, or one is there with other content and `force` is not given;
        `FilesError` where a file is not what the job left, or cannot be written; `Conflict` while the job is not done.
        """
        from hostler.client.downloads import fetch  # no other operation needs what it imports

        return fetch(name, directory, force=force, told=told)

    @operation
    def story(self, name: str) -> Answer[Rows[shapes.Entry]]:
        """What happened to a job."""
        return rows(f"/jobs/{part(name)}/story")

    @operation
    def explain(self, name: str) -> Answer[shapes.Explanation]:
        """Why a job waits, or runs where it runs."""
        return get(f"/jobs/{part(name)}/explain")

    @operation
    def cancel(self, name: str, reason: str | None = None, *, key: str | None = None) -> Answer[shapes.JobView]:
        """End a job. Raises `Conflict` where it is over already."""
        return write("POST", f"/jobs/{part(name)}/cancel", given(reason=reason), key)

    @operation
    def retry(self, name: str, *, key: str | None = None) -> Answer[shapes.JobView]:
        """Try a failed or cancelled job again."""
        return write("POST", f"/jobs/{part(name)}/retry", key=key)

    @operation
    def set_priority(self, name: str, priority: int, *, key: str | None = None) -> Answer[shapes.JobView]:
        """Rank a job anew."""
        return write("POST", f"/jobs/{part(name)}/priority", {"priority": priority}, key)

    @operation
    def log(self, attempt: str, stream: str = "out", offset: int = 0, limit: int = 1 << 20) -> Answer[LogPiece]:
        """A piece of what an attempt wrote to `out` or `err`; a negative offset counts from the end."""
        return log_piece(f"/attempts/{part(attempt)}/log", stream=stream, offset=offset, limit=limit)

    @operation
    def output(self, attempt: str, out: int = 0, err: int = 0, limit: int = 1 << 20) -> Answer[shapes.Output]:
        """Both streams of an attempt in the order of their writing, from these offsets on; at most `limit` bytes."""
        return get(f"/attempts/{part(attempt)}/output", out=out, err=err, limit=limit)

    @operation
    def rl(self, name: str) -> Answer[shapes.RlDetail]:
        """What a job that learns by reinforcement told of itself."""
        return get(f"/rl/{part(name)}")

    @operation
    def rl_curve(self, name: str) -> Answer[Rows[shapes.RlPointView]]:
        """How it went: steps a second, reward and places, the oldest first."""
        return listed(f"/rl/{part(name)}/curve")

    @operation
    def rl_picture(self, name: str, env: int) -> Answer[bytes]:
        """The last picture of one of its environments, a PNG. Raises `NotFound` where there is none yet."""
        return binary(f"/rl/{part(name)}/pictures/{env}")

    @operation
    def sweeps(self) -> Answer[Rows[shapes.SweepView]]:
        """All sweeps, in order of submission."""
        return rows("/sweeps")

    @operation
    def sweep(self, name: str) -> Answer[shapes.SweepView]:
        """A sweep's coverage."""
        return get(f"/sweeps/{part(name)}")

    @operation
    def ledger(self, name: str) -> Answer[shapes.LedgerView]:
        """A sweep's ledger at once, interval by interval."""
        return get(f"/sweeps/{part(name)}/ledger")

    @walk
    def intervals(self, name: str, standings: Sequence[str] = ()) -> Pages[shapes.IntervalView]:
        """A sweep's range from its beginning to its end, in parts that are `done`, `leased` or `free`, page by page."""
        return pages(f"/sweeps/{part(name)}/intervals", standing=list(standings))

    @operation
    def proof(self, name: str) -> Answer[shapes.LedgerProof]:
        """A sweep's ledger, folded again from the journal."""
        return get(f"/sweeps/{part(name)}/proof")

    @walk
    def hits(self, name: str, after: int = 0) -> Pages[shapes.HitView]:
        """Accepted hits of a sweep beyond the first `after`, in order of acceptance, page by page."""
        return pages(f"/sweeps/{part(name)}/hits", after=after)

    @operation
    def configs(self) -> Answer[Rows[shapes.ConfigView]]:
        """All training configs, those that are retired too."""
        return rows("/configs")

    @operation
    def config(self, name: str) -> Answer[shapes.ConfigView]:
        """A training config in numbers."""
        return get(f"/configs/{part(name)}")

    @operation
    def history(self, name: str) -> Answer[shapes.ConfigHistory]:
        """How a training config came to where it is."""
        return get(f"/configs/{part(name)}/history")

    @operation
    def models(self, name: str) -> Answer[Rows[shapes.ModelView]]:
        """All models of a training config, oldest first."""
        return rows(f"/configs/{part(name)}/models")

    @operation
    def datasets(self, name: str) -> Answer[Rows[shapes.DatasetView]]:
        """All datasets of a training config, oldest first."""
        return rows(f"/configs/{part(name)}/datasets")

    @walk
    def all_models(self) -> Pages[shapes.ModelView]:
        """Every model of one training config after the other, page by page."""
        return pages("/models")

    @walk
    def all_datasets(self) -> Pages[shapes.DatasetView]:
        """Every dataset of one training config after the other, page by page."""
        return pages("/datasets")

    @operation
    def roll_back(
        self, name: str, model: str | None = None, why: str | None = None, *, key: str | None = None
    ) -> Answer[shapes.ConfigView]:
        """Make an earlier model (by its SHA-256 or the beginning of it; without one, the one before) current again.

        Raises `NotFound` where there is no such model, and `Conflict` where it is current.
        """
        return write("POST", f"/configs/{part(name)}/rollback", given(model=model, why=why), key)

    @operation
    def pause_config(
        self, name: str, why: str, who: str | None = None, for_s: float | None = None, *, key: str | None = None
    ) -> Answer[shapes.ConfigView]:
        """Order nothing new for a training config for a while, a day where it is not said."""
        return write("POST", f"/configs/{part(name)}/pause", given(why=why, who=who, for_s=for_s), key)

    @operation
    def resume_config(self, name: str, who: str | None = None, *, key: str | None = None) -> Answer[shapes.ConfigView]:
        """Order for a training config again."""
        return write("POST", f"/configs/{part(name)}/resume", given(who=who), key)

    @operation
    def spawn(
        self,
        name: str,
        *,
        stage: str | None = None,
        games: int | None = None,
        nodes: Sequence[str] | None = None,
        why: str | None = None,
        who: str | None = None,
        key: str | None = None,
        request_key: str | None = None,
    ) -> Answer[shapes.JobView]:
        """Order one more job of a training config now, self-play where no `stage` is named.

        `key` is the job's, `request_key` that of this request. Raises `Conflict` where it cannot be ordered now, or
        there are as many such jobs as there may be.
        """
        wanted = None if nodes is None else list(nodes)
        asked = given(stage=stage, games=games, nodes=wanted, why=why, who=who, key=key)
        return write("POST", f"/configs/{part(name)}/spawn", asked, request_key)

    @operation
    def queue(self, limit: int | None = 100) -> Answer[Rows[shapes.QueueRow]]:
        """What goes next, at most `limit` rows; `None`: all of it."""
        return rows("/queue", limit)

    @operation
    def nodes(self) -> Answer[Rows[shapes.NodeView]]:
        """All nodes with their devices."""
        return rows("/nodes")

    @operation
    def node(self, name: str) -> Answer[shapes.NodeView]:
        """One node with its devices."""
        return get(f"/nodes/{part(name)}")

    @operation
    def cordon(
        self, name: str, why: str | None = None, who: str | None = None, *, key: str | None = None
    ) -> Answer[shapes.NodeView]:
        """Put nothing new on a node, whoever says so and why. Once more does no harm."""
        return write("POST", f"/nodes/{part(name)}/cordon", given(why=why, who=who), key)

    @operation
    def drain_node(
        self, name: str, why: str | None = None, who: str | None = None, *, now: bool = False, key: str | None = None
    ) -> Answer[shapes.NodeView]:
        """The same, and it is told when the node is empty; with `now`, what runs there is asked to go."""
        return write("POST", f"/nodes/{part(name)}/drain", given(why=why, who=who, now=now), key)

    @operation
    def resume(self, name: str, who: str | None = None, *, key: str | None = None) -> Answer[shapes.NodeView]:
        """Put work on a node again."""
        return write("POST", f"/nodes/{part(name)}/resume", given(who=who), key)

    @operation
    def devices(
        self, node: str | None = None, provider: str | None = None, tier: int | None = None
    ) -> Answer[Rows[shapes.PlacedDevice]]:
        """Devices of the nodes that are asked for, with what goes for these."""
        return rows("/devices", node=node, provider=provider, tier=tier)

    @operation
    def device(self, name: str) -> Answer[shapes.PlacedDevice]:
        """One device, with what goes for its node."""
        return get(f"/devices/{part(name)}")

    @operation
    def cordon_device(
        self,
        name: str,
        why: str | None = None,
        who: str | None = None,
        for_s: float | None = None,
        *,
        key: str | None = None,
    ) -> Answer[shapes.PlacedDevice]:
        """Put nothing new on a device, for so many seconds or until it is resumed; what runs there runs on."""
        return write("POST", f"/devices/{part(name)}/cordon", given(why=why, who=who, for_s=for_s), key)

    @operation
    def drain_device(
        self,
        name: str,
        why: str | None = None,
        who: str | None = None,
        for_s: float | None = None,
        *,
        key: str | None = None,
    ) -> Answer[shapes.PlacedDevice]:
        """The same, and it is recorded when the device is empty."""
        return write("POST", f"/devices/{part(name)}/drain", given(why=why, who=who, for_s=for_s), key)

    @operation
    def resume_device(
        self, name: str, who: str | None = None, *, key: str | None = None
    ) -> Answer[shapes.PlacedDevice]:
        """Put work on a device again."""
        return write("POST", f"/devices/{part(name)}/resume", given(who=who), key)

    @operation
    def explain_device(self, name: str) -> Answer[shapes.DeviceExplanation]:
        """Why a device does what it does, or nothing."""
        return get(f"/devices/{part(name)}/explain")

    @operation
    def quotas(self) -> Answer[shapes.QuotaView]:
        """Shares of device time, target against achieved."""
        return get("/quotas")

    @operation
    def durations(self) -> Answer[shapes.Durations]:
        """Learnt durations, and how good predictions were."""
        return whole("/durations", "rows")

    @operation
    def usage(
        self,
        per: str = "day",
        by: Sequence[str] = (),
        since: float | None = None,
        until: float | None = None,
        only: Mapping[str, str] | None = None,
    ) -> Answer[Rows[shapes.UsageView]]:
        """How devices were used in each `hour`, `day`, `week` or `month`, told apart `by` `node`, `device`, `model`,
        `pool`, `provider` and `work`, or `only` of some: `{"node": "rig-1"}`. Times are Unix seconds."""
        return rows("/usage", None, **{**(only or {}), "per": per, "by": list(by), "since": since, "until": until})

    @operation
    def costs(self) -> Answer[shapes.CostView]:
        """What work that is over has used up."""
        return whole("/costs", "rows")

    @operation
    def bans(self, kinds: Sequence[str] = ()) -> Answer[Rows[shapes.BanView]]:
        """Everything that is held back or put first for a while; `["pause"]`: configs that somebody has paused."""
        return rows("/bans", kind=list(kinds))

    @operation
    def alerts(
        self, states: Sequence[str] = (), rule: str | None = None, limit: int | None = None
    ) -> Answer[Rows[shapes.AlertView]]:
        """What fires, may come to fire (`pending`) or did (`over`), the newest of each first."""
        return rows("/alerts", limit, state=list(states), rule=rule)

    @operation
    def alert_rules(self) -> Answer[Rows[shapes.RuleView]]:
        """The rules of alerts, where their numbers come from, and what they measure now."""
        return rows("/alerts/rules")

    @operation
    def acknowledge(
        self, alert: str, who: str | None = None, note: str | None = None, *, key: str | None = None
    ) -> Answer[shapes.AlertView]:
        """Somebody looks after an alert. Raises `Conflict` where it is over."""
        return write("POST", f"/alerts/{part(alert)}/acknowledge", given(who=who, note=note), key)

    @operation
    def test_alert(
        self, rule: str, lasts_s: float | None = None, *, key: str | None = None
    ) -> Answer[shapes.ProbeView]:
        """Let a rule fire, marked as a test. Raises `Conflict` where it cannot."""
        return write("POST", f"/alerts/rules/{part(rule)}/test", given(lasts_s=lasts_s), key)

    @operation
    def silences(self) -> Answer[Rows[shapes.SilenceView]]:
        """Alerts that are not told for a while."""
        return rows("/alerts/silences")

    @operation
    def silence(
        self,
        rule: str,
        *,
        for_s: float,
        why: str,
        who: str | None = None,
        subject: str | None = None,
        key: str | None = None,
    ) -> Answer[shapes.SilenceView]:
        """Do not tell of a rule's alerts (`*`: of any) for so long."""
        asked = given(rule=rule, subject=subject, for_s=for_s, why=why, who=who)
        return write("POST", "/alerts/silences", asked, key)

    @operation
    def unsilence(self, silence: str, who: str | None = None, *, key: str | None = None) -> Answer[shapes.SilenceView]:
        """End a silence; returns it as it was."""
        return write("DELETE", f"/alerts/silences/{part(silence)}", key=key, who=who)

    @operation
    def alert_targets(self) -> Answer[Rows[shapes.TargetView]]:
        """Where alerts are told, and how that goes."""
        return rows("/alerts/targets")

    @operation
    def tokens(self) -> Answer[Rows[shapes.TokenView]]:
        """All tokens that were made and not revoked."""
        return rows("/tokens")

    @operation
    def create_token(
        self,
        name: str,
        scope: str = "read",
        lifetime_s: float | None = None,
        *,
        owner: str | None = None,
        key: str | None = None,
    ) -> Answer[shapes.TokenMade]:
        """Make a token; it is in this answer only. Jobs that are submitted with it belong to `owner`, by default to the
        owner of the token that this client has."""
        return write("POST", "/tokens", given(name=name, scope=scope, lifetime_s=lifetime_s, owner=owner), key)

    @operation
    def revoke_token(self, name: str, *, key: str | None = None) -> Answer[Rows[shapes.TokenView]]:
        """Let nobody in by a token any more; returns those that are left."""
        return write("DELETE", f"/tokens/{part(name)}", key=key)

    @operation
    def secrets(self) -> Answer[Rows[shapes.SecretView]]:
        """All secrets by name; no operation returns a value."""
        return rows("/secrets")

    @operation
    def set_secret(self, name: str, value: str, *, key: str | None = None) -> Answer[shapes.SecretView]:
        """Keep a secret under a name; the value it had is gone."""
        return write("POST", "/secrets", given(name=name, value=value), key)

    @operation
    def remove_secret(self, name: str, *, key: str | None = None) -> Answer[Rows[shapes.SecretView]]:
        """Forget a secret; returns those that are left."""
        return write("DELETE", f"/secrets/{part(name)}", key=key)

    @operation
    def disk(self, node: str | None = None) -> Answer[shapes.RetentionView]:
        """How full the controller's disk is, or a node's, what may go and what stays, as it was looked through last."""
        return get("/disk", node=node)

    @operation
    def disk_plan(self, node: str | None = None) -> Answer[Rows[shapes.DoomedFile]]:
        """Every file that may go from the controller's disk, or a node's, with rule and proof; looked through anew."""
        return rows("/disk/plan", node=node)

    @operation
    def disk_tombstones(self) -> Answer[Rows[shapes.TombView]]:
        """Files that were deleted and can be brought back, the oldest first."""
        return rows("/disk/tombstones")

    @operation
    def clean_disk(
        self,
        files: Sequence[str] | None = None,
        most: int | None = None,
        who: str | None = None,
        *,
        node: str | None = None,
        key: str | None = None,
    ) -> Answer[shapes.CleanView]:
        """Delete what may go from the controller's disk, of these files or of all, at most `most` of them.

        It can be brought back for a while. `more` of the answer are left: ask again. What goes from a node is sent
        there again when work needs it.
        """
        asked = given(files=None if files is None else list(files), most=most, who=who, node=node)
        return write("POST", "/disk/clean", asked, key)

    @operation
    def undo_cleaning(
        self, files: Sequence[str] | None = None, who: str | None = None, *, key: str | None = None
    ) -> Answer[shapes.CleanView]:
        """Bring back what was deleted from the controller's disk: these files, or all."""
        return write("POST", "/disk/undo", given(files=None if files is None else list(files), who=who), key)

    @walk
    def audit(self) -> Pages[shapes.AuditView]:
        """Who asked for what, newest first, page by page."""
        return pages("/audit")

    @walk
    def entries(self, after: int = 0) -> Pages[shapes.Entry]:
        """Journal entries beyond number `after` up to now, page by page; `events` goes on from there."""
        return pages("/entries", after=after)

    @operation
    def drain(self, *, key: str | None = None) -> Answer[shapes.Draining]:
        """Ask the controller to put nothing new on any device and to leave; what runs on nodes runs on."""
        return write("POST", "/controller/drain", key=key)

    @operation
    def artifacts(
        self,
        kind: str | None = None,
        config: str | None = None,
        standing: str | None = None,
        place: str | None = None,
        *,
        short: bool = False,
        limit: int | None = 100,
    ) -> Answer[Rows[shapes.ArtifactView]]:
        """Artifacts, newest first, at most `limit`; `None`: all of them. `short`: those that lack copies."""
        return rows("/artifacts", limit, **_sought(kind, config, standing, place, short))

    @walk
    def all_artifacts(
        self,
        kind: str | None = None,
        config: str | None = None,
        standing: str | None = None,
        place: str | None = None,
        *,
        short: bool = False,
    ) -> Pages[shapes.ArtifactView]:
        """Every artifact that is asked for, newest first, page by page."""
        return pages("/artifacts", **_sought(kind, config, standing, place, short))

    @operation
    def artifact(self, name: str) -> Answer[shapes.ArtifactDetail]:
        """One artifact by its SHA-256, or a beginning of it that no other has. Raises `UsageError` where several do."""
        return get(f"/artifacts/{part(name)}")

    @operation
    def lineage(self, name: str, depth: int = 3, limit: int = 100) -> Answer[shapes.LineageView]:
        """What an artifact was made from, and what was made from it: so many steps, so many of them each way."""
        return get(f"/artifacts/{part(name)}/lineage", depth=depth, limit=limit)

    @operation
    def verify_artifact(
        self, name: str, place: str | None = None, *, key: str | None = None
    ) -> Answer[shapes.ArtifactRead]:
        """Read all copies of an artifact again, or the one in a place; returns what was found. It may take long."""
        return write("POST", f"/artifacts/{part(name)}/verify", given(place=place), key)

    @operation
    def replication(self) -> Answer[shapes.ReplicationView]:
        """How far replication has come: what lacks copies, what there is, how places are."""
        return get("/replication")


def _sought(
    kind: str | None, config: str | None, standing: str | None, place: str | None, short: bool
) -> Mapping[str, str | None]:
    asked = {"kind": kind, "config": config, "standing": standing, "place": place}
    return {**asked, "short": "true" if short else None}
