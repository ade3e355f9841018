"""Planted bugs: each takes one promise out of the code that keeps it. The campaign has to find every one of them.

Where the real code is what is simulated (core, policy) it is changed there, else the simulated part that has its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from hostler.core import Core, conduct, intake, judging, orders, sweeping
from hostler.core.apply import FOLDS
from hostler.core.index import Index
from hostler.core.ledger import Ledger, _merge
from hostler.core.snapshot import dump_state
from hostler.model import events, inputs
from hostler.model.commands import Clear
from hostler.model.events import job_of
from hostler.policy.leadership import LEASE_S, Tenure, Watch
from hostler.sim.agent import Process, VirtualAgent
from hostler.sim.cluster.contender import Contender
from hostler.sim.cluster.desk import Journal
from hostler.sim.cluster.shelf import Errand, Sent, Shelf
from hostler.sim.cluster.store import Gone, Line, Log, Mark, Packed, Part, Row, Saved, VirtualStore
from hostler.sim.cluster.wire import Wire
from hostler.sim.cluster.world import Cluster

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]

MUTATIONS: dict[str, Plant] = {}
"""By name. Docstrings say what is wrong."""


def planted(plant: Plant) -> Plant:
    """Have it in the list."""
    MUTATIONS[plant.__name__.replace("_", "-")] = plant
    return plant


# The store.


@planted
def fence_removed_at_the_store(patch: pytest.MonkeyPatch) -> None:
    """Writes do not go through the leader's row."""
    patch.setattr(VirtualStore, "_fence", lambda self, epoch: None)


@planted
def takeover_without_compare_and_swap(patch: pytest.MonkeyPatch) -> None:
    """Whoever wants to takes over, whatever the leader has done since it was looked at."""
    patch.setattr(VirtualStore, "_is_still", lambda self, seen: True)


@planted
def epoch_not_counted_up(patch: pytest.MonkeyPatch) -> None:
    """A takeover goes on with the epoch there is."""
    patch.setattr(VirtualStore, "_next_epoch", lambda self: max(self.row.epoch, 1))


@planted
def fsync_removed(patch: pytest.MonkeyPatch) -> None:
    """A commit is answered before it is on the disk."""
    real = Log.sync
    patch.setattr(Log, "sync", lambda self: None)
    patch.setattr(
        Log,
        "lose_power",
        lambda self, random: (
            setattr(self, "written", self.written[: random.randint(0, len(self.written))]),
            real(self),
        ),
    )


@planted
def torn_writes_are_taken_for_whole(patch: pytest.MonkeyPatch) -> None:
    """Recovery does not look whether a transaction has its end."""

    def recover(self: Log) -> Sequence[Part]:
        if self.synced and not isinstance(self.synced[-1], Mark):
            self.synced.append(Mark())
        return self.synced

    patch.setattr(Log, "recover", recover)


@planted
def retry_after_a_lost_answer_writes_twice(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether the lines are there already, and the table has no key."""

    def append(self: VirtualStore, who: str, epoch: int, lines: Sequence[Line]) -> None:
        self._expect_up()
        self._fence(epoch)
        self._proof.trying(lines)
        try:
            self._commit([replace(self.row, beat=self.row.beat + 1), *lines])
        finally:
            self._proof.written(who, epoch, self.lines)

    patch.setattr(Journal, "_are_there", lambda self, store, lines: False)
    patch.setattr(VirtualStore, "append", append)


@planted
def lost_answer_taken_for_success(patch: pytest.MonkeyPatch) -> None:
    """Who hears nothing goes on as if it were written."""
    patch.setattr(Journal, "_are_there", lambda self, store, lines: True)


@planted
def written_in_doubt_taken_for_leading(patch: pytest.MonkeyPatch) -> None:
    """Lines that were found after a lost answer count as a renewal: the store had this bug."""

    def append(self: Journal, lines: Sequence[Line], done: Any, failed: Any) -> None:
        was_in_doubt, self._in_doubt = self._in_doubt, True

        def work(store: VirtualStore) -> None:
            if not (was_in_doubt and lines and self._are_there(store, lines)):
                store.append(self._who, self.epoch, lines)

        def written(_: None) -> None:
            self._in_doubt = False
            done()

        self._desk.ask(work, written, failed)

    patch.setattr(Journal, "append", append)


@planted
def another_writers_lines_taken_for_ones_own(patch: pytest.MonkeyPatch) -> None:
    """After a lost answer whatever stands at the number counts, and nobody asks who leads."""

    def append(self: Journal, lines: Sequence[Line], done: Any, failed: Any) -> None:
        def work(store: VirtualStore) -> None:
            if not (lines and store.read(lines[-1].seq - 1)):
                store.append(self._who, self.epoch, lines)

        self._desk.ask(work, lambda _: done(), failed)

    patch.setattr(Journal, "append", append)


@planted
def rows_deleted_before_the_segment_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Old lines go in one transaction, and their segment comes in another one behind it."""

    def replace_apart(self: VirtualStore, row: Row, packed: Packed, gone: Gone) -> None:
        self._commit([row, gone], self._compacting)
        self._commit([packed], self._compacting)

    patch.setattr(VirtualStore, "_replace", replace_apart)


@planted
def segment_written_and_rows_kept(patch: pytest.MonkeyPatch) -> None:
    """The segment is there before its lines are gone."""

    def replace_apart(self: VirtualStore, row: Row, packed: Packed, gone: Gone) -> None:
        self._commit([row, packed], self._compacting)
        self._commit([gone], self._compacting)

    patch.setattr(VirtualStore, "_replace", replace_apart)


# Leading.


@planted
def tenure_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A leader acts although it could not renew."""
    patch.setattr(Tenure, "holds", lambda self, now: True)


@planted
def tenure_counted_from_the_answer(patch: pytest.MonkeyPatch) -> None:
    """A renewal counts from when its answer came, not from when it was asked for."""
    real = Contender._renewed
    patch.setattr(Contender, "_renewed", lambda self, asked_at: real(self, self.clocks.steady()))


@planted
def tenure_outlasts_the_lease(patch: pytest.MonkeyPatch) -> None:
    """A leader acts for twice as long as others wait, not for a little less."""
    real = Tenure.__init__
    patch.setattr(
        Tenure, "__init__", lambda self, now, lease_s=LEASE_S, margin_s=-LEASE_S: real(self, now, lease_s, margin_s)
    )


@planted
def standby_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    """A standby takes over from whomever it sees."""
    patch.setattr(Watch, "look", lambda self, epoch, beat, now, given_up=False: True)


@planted
def standby_counts_from_its_first_look(patch: pytest.MonkeyPatch) -> None:
    """A beat does not begin the leader's time anew; only compare-and-swap stands in between."""

    def look(self: Watch, epoch: int, beat: int, now: float, *, given_up: bool = False) -> bool:
        if self._seen is None or self._seen[0] != epoch:
            self._seen, self._since = (epoch, beat), now
        return given_up or now - self._since >= self._lease_s

    patch.setattr(Watch, "look", look)


@planted
def retry_after_a_fence_goes_on(patch: pytest.MonkeyPatch) -> None:
    """Who is fenced takes the newest epoch for its own and tries again."""

    def fenced(self: Contender) -> None:
        assert self._journal is not None
        self._journal.epoch = self.epoch = self._desk._store.row.epoch
        self._writing = False
        lines = [line for batch in self._pending for line in batch.lines]
        self.process.do(0.2, lambda: self._append([replace(each, epoch=self.epoch) for each in lines]))

    patch.setattr(Contender, "_fenced", fenced)


@planted
def fence_taken_for_trouble(patch: pytest.MonkeyPatch) -> None:
    """Who is fenced believes that its batch is done, and acts on."""

    def fenced(self: Contender) -> None:
        self._writing = False
        self._renewed(self.clocks.steady())
        self._written()

    patch.setattr(Contender, "_fenced", fenced)


@planted
def takeover_with_a_stale_state(patch: pytest.MonkeyPatch) -> None:
    """A standby leads with what it had read when it began to watch."""
    real = Contender._follow
    patch.setattr(Contender, "_follow", lambda self, lines: None if self.core.state.seq else real(self, lines))


@planted
def commands_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Commands go out as soon as they are decided."""
    real = Contender._write

    def write(self: Contender) -> None:
        if self._unwritten:
            last = self._unwritten[-1]
            self._do(replace(last, done=None))
            self._unwritten[-1] = replace(last, outcome=replace(last.outcome, commands=()))
            self._put_out()
        real(self)

    patch.setattr(Contender, "_write", write)


@planted
def snapshot_newer_than_the_journal(patch: pytest.MonkeyPatch) -> None:
    """The leader saves its own state, which is ahead of what is written."""
    real = Contender.take

    def take(self: Contender, *given: Any, done: Any = None) -> None:
        real(self, *given, done=done)
        if self.role == "leader" and self.core is not None and self.core.state.seq >= self._saved_at + 20:
            saved = Saved(seq=self.core.state.seq, data=dump_state(self.core.state))
            self._saved_at = saved.seq
            self._desk.ask(lambda store: store.save(saved), lambda _: None, lambda _: None)

    patch.setattr(Contender, "take", take)


@planted
def resigned_and_acts_on(patch: pytest.MonkeyPatch) -> None:
    """A leader lets others take over before it has done what it had begun."""

    def leave(self: Contender) -> None:
        if self.role == "leader":
            epoch = self.epoch
            self._desk.ask(lambda store: store.resign(epoch), lambda _: None, lambda _: None)

    patch.setattr(Contender, "leave", leave)


# Nodes.


@planted
def fence_removed_at_the_agent(patch: pytest.MonkeyPatch) -> None:
    """An agent lets in whoever comes."""

    def greet(self: VirtualAgent, epoch: int, peer: object) -> bool:
        self.peer = peer
        return True

    patch.setattr(VirtualAgent, "greet", greet)


@planted
def agent_forgets_its_epoch_at_restart(patch: pytest.MonkeyPatch) -> None:
    """The newest epoch is not in the agent's journal."""
    real = VirtualAgent.restart

    def restart(self: VirtualAgent) -> None:
        self.epoch = 0
        real(self)

    patch.setattr(VirtualAgent, "restart", restart)


@planted
def agent_hears_old_connections(patch: pytest.MonkeyPatch) -> None:
    """What is under way on a connection counts although a newer controller was let in since."""
    patch.setattr(VirtualAgent, "hears", lambda self, peer: True)
    patch.setattr(Cluster, "_is_open", lambda self, name, peer: self.agents[name].peer == peer)


@planted
def agent_forgets_facts_at_restart(patch: pytest.MonkeyPatch) -> None:
    """Facts that are not acknowledged are in memory only."""
    real = VirtualAgent.restart

    def restart(self: VirtualAgent) -> None:
        self.facts.clear()
        real(self)

    patch.setattr(VirtualAgent, "restart", restart)


@planted
def agent_accepts_a_launch_twice(patch: pytest.MonkeyPatch) -> None:
    """An order's id is no idempotency key."""

    def launch(self: VirtualAgent, order: Any) -> None:
        self._processes[order.id] = Process(order=order)
        self._go_on(order.queue)

    patch.setattr(VirtualAgent, "_launch", launch)


@planted
def acknowledged_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """Agents hear that a fact is taken before it is in the journal."""

    def report(self: Cluster, contender: Contender, told: Sequence[Any], acknowledge: Any) -> None:
        contender.take(*told)
        if contender.leads:
            acknowledge(())

    patch.setattr(Cluster, "_report", report)


@planted
def acknowledged_whatever_was_told(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement makes an agent forget all its facts, the newest, too."""
    real = VirtualAgent.acknowledge
    patch.setattr(VirtualAgent, "acknowledge", lambda self, seq: real(self, self._seq))


@planted
def facts_dropped_when_reordered(patch: pytest.MonkeyPatch) -> None:
    """Messages of a connection come in any order, while acknowledgements count all that went before."""
    patch.setattr(Wire, "_arrival", lambda self, way: self._agenda.now + self._under_way_s())


@planted
def isolated_leader_keeps_leases_alive(patch: pytest.MonkeyPatch) -> None:
    """A leader that cannot renew goes on telling nodes that it lives, while another gives away what they have."""
    real = Contender._keep

    def keep(self: Contender) -> None:
        self._town.here(self)
        real(self)

    patch.setattr(Contender, "_keep", keep)


# Files.


@planted
def hash_not_compared(patch: pytest.MonkeyPatch) -> None:
    """What has come is published under the name it should have."""
    patch.setattr(Sent, "is_right", property(lambda self: True))


@planted
def told_before_it_is_verified(patch: pytest.MonkeyPatch) -> None:
    """The core hears that files are here as soon as they have come."""

    def came(self: Errand, files: Sequence[Sent]) -> None:
        self._tell([each.ref for each in files])
        self._are_kept(files)

    patch.setattr(Errand, "came", came)


@planted
def full_disk_overlooked(patch: pytest.MonkeyPatch) -> None:
    """That there was no room for a file is nobody's concern."""
    real = Errand._are_kept
    patch.setattr(Errand, "_are_kept", lambda self, files: real(self, files) or True)


@planted
def published_without_fsync(patch: pytest.MonkeyPatch) -> None:
    """A file is renamed before it is on the disk."""
    patch.setattr(Shelf, "_sync", lambda self, name: None)


@planted
def cleared_before_it_was_fetched(patch: pytest.MonkeyPatch) -> None:
    """Core: a node's folder is given up when an attempt ends."""
    real = orders.DERIVES[events.AttemptEnded]

    def ended(state: Any, index: Any, event: events.AttemptEnded) -> Any:
        yield from real(state, index, event)
        job = state.jobs[job_of(event.attempt)]
        yield Clear(node=state.devices[job.attempt.device].spec.node, attempt=event.attempt)

    patch.setitem(orders.DERIVES, events.AttemptEnded, ended)


# The core.


@planted
def ledger_counts_twice(patch: pytest.MonkeyPatch) -> None:
    """Core: what is done of a chunk is free again as well."""

    def settle(self: Ledger, chunk: str, position: int) -> None:
        start, stop = self.leased.pop(chunk)
        _merge(self.done, (start, position))
        _merge(self.free, (start, stop))
        self.done_items += position - start
        self.free_items += stop - start

    patch.setattr(Ledger, "settle", settle)


@planted
def results_of_taken_leases_accepted(patch: pytest.MonkeyPatch) -> None:
    """Core: a result counts although its chunk was taken back or shortened, with all its hits."""
    patch.setattr(sweeping, "searched_within", lambda sweep, given: given)
    patch.setattr(intake, "_result_fault", lambda job, leased, given: None)


@planted
def results_of_other_parameters_accepted(patch: pytest.MonkeyPatch) -> None:
    """Core: nobody looks what a chunk was searched for."""
    real = intake._result_fault

    def fault(job: Any, leased: Any, given: Any) -> str | None:
        return real(job, leased, replace(given, digest=job.spec.payload.digest))

    patch.setattr(intake, "_result_fault", fault)


@planted
def relaunch_on_unreachability(patch: pytest.MonkeyPatch) -> None:
    """Core: what cannot be reached is taken for dead."""
    real = intake.TAKES[inputs.LinkDown]

    def down(state: Any, index: Any, given: inputs.LinkDown, emit: Any) -> None:
        real(state, index, given, emit)
        for device in intake._devices(state, index, given.node):
            for name in list(device.attempts):
                judging.lose(state, index, name, given.why, emit)

    patch.setitem(intake.TAKES, inputs.LinkDown, down)


@planted
def result_of_another_attempt_accepted(patch: pytest.MonkeyPatch) -> None:
    """Core: the end of an older attempt counts for the one that runs now."""
    real = intake.TAKES[inputs.Ended]

    def ended(state: Any, index: Any, given: inputs.Ended, emit: Any) -> None:
        job = state.jobs.get(job_of(given.attempt))
        if job is not None and job.attempt is not None:
            given = replace(given, attempt=job.attempt.id)
        real(state, index, given, emit)

    patch.setitem(intake.TAKES, inputs.Ended, ended)


@planted
def result_counted_again_when_told_again(patch: pytest.MonkeyPatch) -> None:
    """Core: of an end that is told twice the second is judged as well."""
    real = intake.TAKES[inputs.Ended]

    def ended(state: Any, index: Any, given: inputs.Ended, emit: Any) -> None:
        job = state.jobs.get(job_of(given.attempt))
        real(state, index, given, emit)
        if job is not None and job.state.final and job.result is not None:
            emit(events.JobDone(job=job.id, attempt=given.attempt, result=given.result))

    patch.setitem(intake.TAKES, inputs.Ended, ended)


@planted
def replay_skips_a_kind_of_event(patch: pytest.MonkeyPatch) -> None:
    """Core: replay passes over chunks that came back."""
    real = Core.replay

    def replay(self: Core, entries: Any) -> None:
        def known() -> Any:
            for entry in entries:
                if not isinstance(entry.event, events.ChunkReturned | events.JobRequeued):
                    yield entry

        real(self, known())

    patch.setattr(Core, "replay", replay)


@planted
def replay_forgets_refusals(patch: pytest.MonkeyPatch) -> None:
    """Core: a fold says something else when it replays: nothing breaks, states differ."""
    real, fold = Core.replay, FOLDS[events.ResultRefused]

    def replay(self: Core, entries: Any) -> None:
        FOLDS[events.ResultRefused] = lambda state, index, event: None
        try:
            real(self, entries)
        finally:
            FOLDS[events.ResultRefused] = fold

    patch.setattr(Core, "replay", replay)


@planted
def late_ends_counted_from_the_first(patch: pytest.MonkeyPatch) -> None:
    """Core: a late end leaves no event, not even the first of a node."""
    patch.setattr(conduct, "FAULTS_MOST", 0)


@planted
def time_goes_back(patch: pytest.MonkeyPatch) -> None:
    """Core: the clock of whoever leads counts, wherever the last one's was."""

    def time(self: Core, now: float) -> float:
        self._clock = now
        return now

    real = Index.wake

    def wake(self: Index, state: Any, now: float) -> None:
        self.now = min(self.now, now)
        real(self, state, now)

    patch.setattr(Core, "_time", time)
    patch.setattr(Index, "wake", wake)


@planted
def links_are_not_reconciled(patch: pytest.MonkeyPatch) -> None:
    """Core: a node that is linked anew is told nothing."""
    patch.setitem(orders.DERIVES, events.NodeLinked, lambda state, index, event: iter(()))


@planted
def unknown_agents_are_taken_for_known(patch: pytest.MonkeyPatch) -> None:
    """Core: a node that comes back empty is believed to be the one that had the work."""
    real = intake.TAKES[inputs.LinkUp]

    def up(state: Any, index: Any, given: inputs.LinkUp, emit: Any) -> None:
        node = state.nodes[given.node]
        held = [name for each in intake._devices(state, index, given.node) for name in each.attempts]
        attempts = given.attempts if node.agent in (None, given.agent) else tuple(held)
        real(state, index, replace(given, attempts=attempts), emit)

    patch.setitem(intake.TAKES, inputs.LinkUp, up)


@planted
def folders_of_sweeps_go_when_a_chunk_is_done(patch: pytest.MonkeyPatch) -> None:
    """Core: the folder of a sweep is cleared while the sweep goes on."""

    def done(state: Any, index: Any, event: events.ChunkDone) -> Any:
        yield from (
            Clear(node=each.spec.node, attempt=job_of(event.chunk), output=False) for each in state.devices.values()
        )

    patch.setitem(orders.DERIVES, events.ChunkDone, done)
