"""How runs end, in every word that Slurm has for it, told at every moment; and what is made of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.agent.protocol import ALLOCATION_ENDS
from hostler.backends.slurm import following
from hostler.backends.slurm.states import STATES, Outcome, Phase
from hostler.model.inputs import Closed, Ended, Returned, Trouble
from hostler.model.pools import SlotPhase
from tests.patience import PATIENCE_S

from .scripted import Agent, until
from .stage import Stage, an_ask, chunks, order, stage, worker

pytestmark = pytest.mark.usefixtures("quick")

OVER = [name for name, (_, phase, _) in STATES.items() if phase is Phase.OVER]
ALIVE = [name for name, (_, phase, _) in STATES.items() if phase is not Phase.OVER]
FEW_ALIVE = ("PENDING", "RUNNING", "REQUEUED")
"""Those of which the whole story is played in `make test`; what each word means, tests of `states` say."""
SHOWN = [*OVER, "CANCELLED by 1000", "COMPLETED+", "OUT_OF_ME+"]
REASONS = {Outcome.PREEMPTED: "stopped", Outcome.OUT_OF_MEMORY: "memory", Outcome.TIMEOUT: "short"}


def reason(state: str) -> str:
    name = state.split()[0].rstrip("+")
    name = "OUT_OF_MEMORY" if name == "OUT_OF_ME" else name
    outcome = STATES[name][2]
    assert outcome is not None
    return REASONS.get(outcome, "lost")


def says(state: str) -> str:
    """What people are told."""
    return "of its allocation 100 were over" if state == "TIMEOUT" else f"Slurm job 100 was {state}"


async def over(it: Stage, token: str, state: str, shown_by: str) -> None:
    """The job is over; the queue says so, or has it no more and accounting does."""
    job = it.job(token)
    if shown_by == "squeue":
        job.state = state
    else:
        job.listed, job.recorded = False, state


@pytest.mark.parametrize("shown_by", ["squeue", "sacct"])
@pytest.mark.parametrize("state", SHOWN)
async def test_over_before_it_began(tmp_path: Path, state: str, shown_by: str) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await over(it, token, state, shown_by)
        end = await it.ended("j1.1")
        assert end.reason == reason(state)
        assert says(state) in str(end.error)
        await it.closed()
        await until(lambda: it.slot() is None)
        assert len(it.table.submitted) == 1


@pytest.mark.parametrize("state", SHOWN)
async def test_over_while_it_ran_and_without_a_word(tmp_path: Path, state: str) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.running(token, "j1.1")
        await over(it, token, state, "sacct")
        end = await it.ended("j1.1")
        assert end.reason == reason(state)
        assert says(state) in str(end.error)
        await it.closed()


@pytest.mark.parametrize("state", SHOWN)
async def test_over_after_its_last_words(tmp_path: Path, state: str) -> None:
    """The agent was told to end, and does not know why: the cluster does."""
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", exit_code=1, error=f"{ALLOCATION_ENDS}: TERM")
        it.post.end(token, "signal")
        it.job(token).state = "COMPLETING"
        await it.looks()
        assert it.all(Ended) == [], "nobody knows yet"
        await over(it, token, state, "sacct")
        end = await it.ended("j1.1")
        assert (end.reason, end.exit_code) == (reason(state), 1)
        assert says(state) in str(end.error)
        await it.closed()
        assert agent.asked("ack") == [], "what was held back was not durable"


async def test_cancelled_allocation_is_not_out_of_time_though_its_end_is_shown(tmp_path: Path) -> None:
    """While an allocation ends, the queue shows when it was told to, and no more when its time is over."""
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.job(token).state, it.job(token).ends = "COMPLETING", it.clock.now()
        await it.looks(2)
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", exit_code=1, error=f"{ALLOCATION_ENDS}: TERM")
        it.post.end(token, "signal")
        await over(it, token, "CANCELLED", "sacct")
        end = await it.ended("j1.1")
        assert (end.reason, says("CANCELLED") in str(end.error)) == ("lost", True), end.error
        await it.closed()


@pytest.mark.parametrize("state", SHOWN)
async def test_what_it_has_said_itself_wins(tmp_path: Path, state: str) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        agent.noted("ended", attempt="j1.1", reason=None, exit_code=0)  # on its disk; nobody heard it
        await over(it, token, state, "squeue")
        end = await it.ended("j1.1")
        assert (end.reason, end.exit_code) == (None, 0)
        await it.closed()


@pytest.mark.parametrize(
    "state",
    [
        *(each if each in FEW_ALIVE else pytest.param(each, marks=pytest.mark.long) for each in ALIVE),
        "NO_SUCH_STATE",
        pytest.param("RUNNING,NEW", marks=pytest.mark.long),
        "nonsense !",
    ],
)
async def test_whatever_else_it_is_it_lives(tmp_path: Path, state: str) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        it.job(token).state, it.job(token).reason = state, "Priority"
        await it.looks(30)
        assert it.all(Ended) == it.all(Closed) == []
        slot = it.slot()
        assert slot is not None
        assert slot.says.startswith(state)
        known = state in STATES
        assert slot.phase is (SlotPhase.WAITING if known else SlotPhase.UNKNOWN)
        agent = await it.begun(token)
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        assert (await it.ended("j1.1")).exit_code == 0


async def test_an_unknown_word_in_accounting_keeps_it_alive_too(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await over(it, token, "ODDLY_OVER", "sacct")
        await it.looks(40)
        assert it.all(Ended) == []


@pytest.mark.parametrize(("saves", "expected"), [(True, "stopped"), (False, "short")])
async def test_time_that_is_up_is_nobodys_fault_where_work_is_saved(tmp_path: Path, saves: bool, expected: str) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1", ask=an_ask(checkpoints=saves)))
        await it.running(token, "j1.1")
        await over(it, token, "TIMEOUT", "squeue")
        assert (await it.ended("j1.1")).reason == expected


async def test_without_a_trace_it_is_given_up_in_the_end_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "UNEXPLAINED_S", 3600.0)
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        job = it.job(token)
        job.listed, job.recorded = False, ""
        await it.looks(5)
        assert it.all(Ended) == []
        it.clock.ahead_s += 3600.0
        end = await it.ended("j1.1")
        assert end.reason == "lost"
        assert "does not say what became of it" in str(end.error)


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
async def test_what_accounting_never_hears_the_end_of_is_given_up(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slurmctld that lost its memory has never told it."""
    monkeypatch.setattr(following, "UNEXPLAINED_S", 3600.0)
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.running(token, "j1.1")
        it.job(token).listed, it.job(token).recorded = False, state
        await it.looks(3)
        assert it.all(Ended) == []
        it.clock.ahead_s += 3600.0
        end = await it.ended("j1.1")
        assert end.reason == "lost"
        assert "does not say what became of it" in str(end.error)
        await it.closed()


async def test_a_row_that_is_missing_for_a_cycle_means_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "GRACE_S", 3600.0)
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        for _ in range(4):
            it.job(token).listed, it.job(token).recorded = False, "COMPLETED"
            await it.looks(1)
            it.job(token).listed = True
            await it.looks(2)
        await it.looks(10)
        assert it.all(Ended) == []
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        assert (await it.ended("j1.1")).exit_code == 0


async def test_a_verdict_that_comes_late_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounting writes it down a while after the queue has forgotten it."""
    monkeypatch.setattr(following, "UNEXPLAINED_S", PATIENCE_S)
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.running(token, "j1.1")
        it.job(token).listed, it.job(token).recorded = False, ""
        await it.looks(4)
        it.job(token).recorded = "OUT_OF_MEMORY"
        assert (await it.ended("j1.1")).reason == "memory"


async def test_a_job_of_another_name_with_our_id_is_not_ours(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.running(token, "j1.1")
        it.job(token).name = "somebody-else"
        it.table.of("somebody-else").listed = False
        it.table.of("somebody-else").recorded = "COMPLETED"
        assert "does not say what became of it" in str((await it.ended("j1.1")).error)


async def test_a_journal_that_cannot_be_read_now_is_read_later(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.running(token, "j1.1")
        it.post.faults = {"facts": "Stale file handle"}
        agent.noted("ended", attempt="j1.1", reason=None, exit_code=0)
        it.post.end(token, "done")
        await it.first(Trouble, lambda each: "Stale file handle" in each.what)
        await until(lambda: len(it.post.ops("facts")) > 3)
        assert (it.all(Ended), len(it.all(Trouble))) == ([], 1)
        it.post.faults = {}
        assert (await it.ended("j1.1")).exit_code == 0
        await it.closed()


async def test_allocation_unknown_to_slurm_lives_while_its_pilot_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the cluster's controller came up again with an older state."""
    async with stage(tmp_path) as it:
        monkeypatch.setattr(following, "UNEXPLAINED_S", 3600.0)
        token = await it.submitted(order("j1.1"))
        await it.running(token, "j1.1")
        it.job(token).name = "somebody-else"
        it.table.of("somebody-else").listed = False
        await it.looks()
        (berth,) = [each for _, each in it.pool._holdings.berths()]
        for _ in range(3):
            it.clock.ahead_s += 2000.0
            heard_at = it.clock.now()
            it.post.data(next(iter(it.post.streams)), {"type": "telemetry", "devices": []})
            await until(lambda heard_at=heard_at: (berth.heard_at or 0.0) >= heard_at)
            await it.looks()
        assert not it.all(Ended)
        it.clock.ahead_s += 4000.0
        await it.ended("j1.1")


@pytest.mark.parametrize("why", ["done", "idle", "told"])
async def test_an_orderly_end_asks_nobody(tmp_path: Path, why: str) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        agent.noted("ended", attempt="j1.1", reason=None, exit_code=3)
        it.post.end(token, why)
        assert (await it.ended("j1.1")).exit_code == 3
        await it.closed()
        assert it.table.calls["sacct"] == 0


async def test_a_failed_agent_with_nothing_to_do_is_soon_over(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        await it.ended("j1.1")
        it.job(token).listed, it.job(token).recorded = False, "FAILED"
        it.post.end(token, "failed")
        before = it.table.calls["squeue"]
        await it.closed()
        assert it.table.calls["squeue"] - before < 8, "it was not waited for until patience ended"


async def test_what_an_allocation_never_took_up_is_asked_for_anew(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.begun(token)
        it.job(token).state = "COMPLETED"
        it.post.end(token, "idle")
        await until(lambda: len(it.table.submitted) == 2)
        assert it.all(Ended) == []
        again = it.requested.token
        agent = await it.begun(again)
        assert [each["id"] for request in agent.asked("launch") for each in request["attempts"]] == ["j1.1"]


# --- acknowledgements -------------------------------------------------------------------------------------------------


async def test_facts_are_acknowledged_when_they_are_durable(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.durable = False
        it.post.tell(agent, "started", attempt="j1.1", pid=1, pid_start=1)
        fact = it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        await it.ended("j1.1")
        assert agent.asked("ack") == []
        await it.acknowledge()
        await until(lambda: not agent.facts)
        assert agent.asked("ack")[-1] == {"type": "ack", "seq": fact["seq"], "agent": "a"}
        assert agent.asked("shutdown") == [], "a pilot stays"


async def test_an_agent_that_has_nothing_more_to_do_is_let_go(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        await until(lambda: agent.asked("shutdown"))
        it.post.end(token, "told")
        await it.closed()
        assert len(it.all(Ended)) == 1


async def test_after_an_end_that_is_held_back_nothing_is_acknowledged(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", error=f"{ALLOCATION_ENDS}: TERM")
        it.post.tell(agent, "started", attempt="j2.1", pid=1, pid_start=1)
        await it.looks(3)
        assert agent.asked("ack") == []
        assert len(agent.facts) == 2
        it.job(token).state = "PREEMPTED"
        it.post.end(token, "signal")
        assert (await it.ended("j1.1")).reason == "stopped"


async def test_facts_that_are_told_again_are_told_once(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.durable = False
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        await it.ended("j1.1")
        it.post.send({"type": "closed", "stream": next(iter(it.post.streams))})
        await until(lambda: len(it.post.ops("listen")) == 2)
        await until(lambda: len(agent.asked("hello")) == 2)
        await it.looks()
        assert len(it.all(Ended)) == 1


async def test_an_agent_that_obeys_another_is_said_and_left_alone(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        it.job(token).state = "RUNNING"
        it.post.agents[token, 0, 0] = Agent(silent=True)
        it.post.begin(token, "100")
        await until(lambda: it.post.streams)
        it.post.data(next(iter(it.post.streams)), {"type": "refused", "reason": "a newer one", "epoch": 9})
        trouble = await it.first(Trouble, lambda each: "a newer one" in each.what)
        assert token in trouble.where
        await it.looks(3)
        assert len(it.post.ops("listen")) == 1


async def test_streams_that_are_not_listened_to_any_more_are_hung_up(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.begun(token)
        (stream,) = it.post.streams
        it.job(token).state = "NODE_FAIL"
        await it.closed()
        await until(lambda: stream in it.post.hung_up)


# --- chunks -----------------------------------------------------------------------------------------------------------


async def test_chunks_of_an_allocation_that_is_gone_come_back_at_their_checkpoints(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.lent("j9.0", "j9.1")
        agent = await it.begun(token)
        assert agent.asked("open")[0]["worker"]["id"] == worker().id
        agent.chunks.append(["j9.0", 40, "d", [{"n": 7}]])
        it.job(token).state = "PREEMPTED"
        first, second = await it.returned("j9.0"), await it.returned("j9.1")
        assert (first.position, first.digest, first.hits, first.reason) == (40, "d", ({"n": 7},), "node_lost")
        assert (second.position, second.error) == (None, "Slurm job 100 was PREEMPTED")
        await it.closed()


async def test_chunks_that_its_agent_gives_back_are_not_given_back_twice(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.lent("j9.0")
        agent = await it.begun(token)
        it.post.tell(
            agent, "returned", chunk="j9.0", position=None, digest=None, hits=[], reason="closed", error="TERM"
        )
        it.job(token).state = "CANCELLED"
        it.post.end(token, "signal")
        await it.closed()
        assert len(it.all(Returned)) == 1


async def test_more_chunks_go_to_the_same_allocation(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.lent("j9.0")
        await it.pool.lend(worker(), chunks("j9.0", "j9.1"))
        agent = await it.begun(token)
        await until(lambda: len(agent.asked("chunks")) == 2)
        assert [each[0] for request in agent.asked("chunks") for each in request["chunks"]] == ["j9.0", "j9.1"]
        await it.pool.trim({"j9.1": 50})
        await it.pool.recall(["j9.0"], "another has it")
        await it.pool.close_worker(worker().id)
        await until(lambda: agent.asked("close"))
        assert agent.asked("trim") == [{"type": "trim", "chunks": [["j9.1", 50]]}]
        assert agent.asked("recall")[0]["chunks"] == ["j9.0"]
        assert len(it.table.submitted) == 1
