"""One look at the queue for all pools of a cluster, as seldom as it may be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hostler.backends.slurm import cluster as clusters
from hostler.backends.slurm.cluster import Cluster, Key, Look
from hostler.backends.slurm.desk import Desk, News
from hostler.backends.slurm.errors import SlurmRefused
from hostler.backends.slurm.parsing import Parsed
from hostler.model.errors import LinkLost

from .running import Stepped
from .scripted import DOWN, Job, Post, Table, until

POLL_S = 30.0


class Pool:
    """A member that wants to know of these tasks."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = tokens
        self.looks: list[Look] = []
        self.news: list[News] = []
        self.why: list[str] = []
        self.lost_jobs: dict[str, float] = {}
        self.error: Exception | None = None

    def is_mine(self, token: str) -> bool:
        return token in self.tokens

    def heard(self, news: News) -> None:
        self.news.append(news)

    def looked(self, look: Look) -> None:
        if self.error is not None:
            raise self.error
        self.looks.append(look)

    def lost(self, why: str) -> None:
        self.why.append(why)

    def awaited(self) -> Mapping[str, str | None]:
        return dict.fromkeys(self.tokens)

    def missing(self, known: Set[Key]) -> Mapping[str, float]:
        return self.lost_jobs


class Site:
    """A cluster, with its clock, its commands and its desk."""

    def __init__(self, *names: str) -> None:
        self.clock = Stepped()
        self.table = Table()
        self.post = Post()
        self.desks: list[Desk] = []
        self.pools = {name: Pool(f"t-{name}") for name in names}
        self.cluster = Cluster(
            "hpc",
            self.clock,
            open_desk=self._open,
            slurm_at=lambda _desk: self.table,
            poll_s=POLL_S,  # type: ignore[arg-type, return-value]
        )

    async def _open(self, on_news: Any, on_lost: Any) -> Desk:
        self.desks.append(await self.post.opened(on_news, on_lost))
        return self.desks[-1]

    def job(self, name: str, state: str, **more: Any) -> Job:
        """A job in the queue."""
        self.table.known.append(
            job := Job(id=f"{len(self.table.known) + 1}00", name=name, task=None, state=state, **more)
        )
        return job


@asynccontextmanager
async def site(*names: str) -> AsyncIterator[Site]:
    made = Site(*names)
    for name, pool in made.pools.items():
        await made.cluster.join(name, pool)
    try:
        yield made
    finally:
        for name in names:
            await made.cluster.leave(name)
        for desk in made.desks:
            await desk.ended()


async def test_however_many_pools_one_squeue_for_all() -> None:
    async with site("a", "b", "c") as it:
        it.job("t-a", "RUNNING"), it.job("t-b", "PENDING")
        await it.clock.go(10 * POLL_S + 1)
        assert it.table.calls["squeue"] == 10
        assert "sacct" not in it.table.calls
        assert it.table.calls["sinfo"] <= 2
        assert [len(pool.looks) for pool in it.pools.values()] == [10] * 3
        assert {key: row.state.text for key, row in it.pools["c"].looks[0].rows.items()} == {
            ("t-a", 0): "RUNNING",
            ("t-b", 0): "PENDING",
        }
        assert len(it.desks) == 1


async def test_nobody_waits_nobody_looks() -> None:
    async with site("a") as it:
        it.pools["a"].tokens = ()
        await it.clock.go(20 * POLL_S)
        assert it.table.calls["squeue"] == 0


async def test_what_is_missing_is_asked_for_together_and_only_that() -> None:
    async with site("a", "b") as it:
        jobs = [
            it.job("t-a", "COMPLETED", listed=False),
            it.job("t-b", "TIMEOUT", listed=False),
            it.job("x", "RUNNING"),
        ]
        it.pools["a"].lost_jobs, it.pools["b"].lost_jobs = {jobs[0].id: 50.0}, {jobs[1].id: 40.0}
        await it.clock.go(POLL_S + 1)
        assert it.table.asked == [("sacct", "100", "200")]
        (look,) = it.pools["a"].looks
        assert {key: verdict.words for key, verdict in look.verdicts.items()} == {
            ("t-a", 0): "Slurm job 100 was COMPLETED",
            ("t-b", 0): "Slurm job 200 was TIMEOUT",
        }


@pytest.mark.parametrize(("configured", "asked"), [(None, 1), (False, 3)])
async def test_without_accounting_slurmctld_is_asked(configured: bool | None, asked: int) -> None:
    """Where there is none, nobody asks again; where it is down, it may come back."""
    async with site("a") as it:
        it.table.accounts = configured
        job = it.job("t-a", "NODE_FAIL", listed=False)
        it.pools["a"].lost_jobs = {job.id: 50.0}
        await it.clock.go(3 * POLL_S + 1)
        assert it.table.calls["sacct"] == asked
        assert it.table.calls["scontrol"] == 3
        assert it.pools["a"].looks[-1].verdicts["t-a", 0].state.text == "NODE_FAIL"


@pytest.mark.parametrize(("error", "asked"), [(DOWN, 3), (SlurmRefused("there is no sacct"), 1)])
async def test_accounting_that_hangs_or_is_not_for_us_does_not_hide_the_queue(error: Exception, asked: int) -> None:
    async with site("a") as it:
        it.table.fails["sacct"] = [error] * 9
        job = it.job("t-a", "NODE_FAIL", listed=False)
        it.pools["a"].lost_jobs = {job.id: 50.0}
        await it.clock.go(3 * POLL_S + 1)
        assert it.table.calls["sacct"] == asked
        assert [look.verdicts["t-a", 0].state.text for look in it.pools["a"].looks] == ["NODE_FAIL"] * 3
        assert it.cluster.trouble is None


async def test_an_id_that_is_anothers_now_tells_nothing_of_ours() -> None:
    async with site("a") as it:
        it.job("somebody-else", "COMPLETED", listed=False)
        it.pools["a"].lost_jobs = {"100": 50.0}
        await it.clock.go(POLL_S + 1)
        assert ("t-a", 0) not in it.pools["a"].looks[0].verdicts


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("works", "waits"), [("RUNNING", "PENDING"), ("NEWSTATE", "PENDING"), ("RUNNING", "COMPLETED")]
)
async def test_of_a_job_submitted_twice_the_one_that_does_something_counts(works: str, waits: str, order: int) -> None:
    async with site("a") as it:
        for state in (works, waits)[::order]:
            it.job("t-a", state)
        await it.clock.go(POLL_S + 1)
        assert it.pools["a"].looks[0].rows["t-a", 0].state.text == works


@pytest.mark.parametrize("order", [1, -1])
async def test_of_two_that_are_over_the_one_that_had_nothing_to_do_does_not_count(order: int) -> None:
    async with site("a") as it:
        for state in ("TIMEOUT", "COMPLETED")[::order]:
            it.job("t-a", state)
        await it.clock.go(POLL_S + 1)
        assert it.pools["a"].looks[0].verdicts["t-a", 0].state.text == "TIMEOUT"


async def test_slurm_that_is_down_is_noted_and_asked_again() -> None:
    async with site("a") as it:
        it.table.fails["squeue"] = [DOWN, SlurmRefused("no")]
        await it.clock.go(POLL_S + 1)
        assert it.cluster.trouble == "it is down"
        await it.clock.go(POLL_S)
        assert it.cluster.trouble == "no"
        assert it.pools["a"].looks == []
        await it.clock.go(POLL_S)
        assert (it.cluster.trouble, len(it.pools["a"].looks)) == (None, 1)


async def test_output_that_is_not_understood_is_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site("a") as it:

        async def queue() -> Parsed[Any]:
            return Parsed((), ("garbage",))

        monkeypatch.setattr(it.table, "queue", queue)
        await it.clock.go(POLL_S + 1)
        assert it.pools["a"].looks == []
        assert "garbage" in str(it.cluster.trouble)


async def test_who_is_in_a_hurry_is_told_soon_but_not_all_the_time() -> None:
    async with site("a") as it:
        it.cluster.hurry()
        await it.clock.go(clusters.SOON_S)
        assert len(it.pools["a"].looks) == 1
        for _ in range(40):
            it.cluster.hurry()
            await it.clock.go(0.5)
        assert 3 <= len(it.pools["a"].looks) <= 2 + 20 / (2 * clusters.SOON_S)


async def test_a_hurry_during_a_look_is_not_forgotten() -> None:
    async with site("a") as it:
        it.table.held["squeue"] = asyncio.Event()
        it.cluster.hurry()
        await it.clock.go(clusters.SOON_S)
        assert it.table.calls["squeue"] == 1
        it.cluster.hurry()  # what it wants to know, this look may not tell
        it.table.held.pop("squeue").set()
        await it.clock.go(3 * clusters.SOON_S)
        assert len(it.pools["a"].looks) == 2


async def test_a_look_tells_when_it_was_asked_for() -> None:
    async with site("a") as it:
        held = it.table.held["squeue"] = asyncio.Event()
        await it.clock.go(POLL_S)
        await it.clock.go(7.0)
        held.set()
        await it.clock.go()
        assert it.pools["a"].looks[0].asked_at == 1000.0 + POLL_S


async def test_pools_that_join_together_ask_once_what_the_cluster_is() -> None:
    async with site("a", "b") as it:
        await asyncio.gather(*(it.cluster.hosts() for _ in range(3)), *(it.cluster.partitions() for _ in range(3)))
        assert (it.table.calls["sinfo"], it.table.calls["scontrol partitions"]) == (1, 1)


async def test_how_busy_the_hosts_are_is_asked_for_now_and_then() -> None:
    async with site("a") as it:
        assert it.cluster.known_hosts() is None
        await it.clock.go(3 * clusters.HOSTS_EVERY_S + POLL_S + 1)
        assert it.table.calls["sinfo"] == 4
        assert it.cluster.known_hosts() is not None


async def test_the_rules_of_partitions_are_not_those_of_long_ago() -> None:
    """They outlive desks, and are asked for again: sooner where something waits that can never begin."""
    async with site("a") as it:
        await it.cluster.partitions()
        await it.clock.go(3 * clusters.HOSTS_EVERY_S + POLL_S + 1)
        assert it.table.calls["scontrol partitions"] == 4
        it.table.max_time_s = 60.0
        it.job("t-a", "PENDING", reason="PartitionTimeLimit")
        await it.clock.go(clusters.ANEW_S + POLL_S)
        assert it.cluster.known_partitions()[0].max_time_s == 60.0
        before = it.table.calls["scontrol partitions"]
        await it.clock.go(600.0)
        assert it.table.calls["scontrol partitions"] <= before + 600.0 / clusters.ANEW_S


async def test_news_go_to_whom_they_concern() -> None:
    async with site("a", "b") as it:
        await it.cluster.desk.watch(["t-a", "t-b", "t-c"])
        it.post.begin("t-b", "7"), it.post.begin("t-c", "8")
        await until(lambda: it.pools["b"].news)
        assert [news.token for news in it.pools["b"].news] == ["t-b"]
        assert it.pools["a"].news == []


async def test_the_last_one_closes_the_desk_and_the_next_one_opens_another() -> None:
    async with site("a", "b") as it:
        await it.cluster.leave("a")
        assert (await it.cluster.desk.probe("x")) is None
        await it.cluster.leave("b")
        with pytest.raises(LinkLost):
            _ = it.cluster.desk
        with pytest.raises(LinkLost):
            _ = it.cluster.slurm
        await it.cluster.join("b", it.pools["b"])
        assert len(it.desks) == 2
        await it.clock.go(POLL_S + 1)
        assert [len(pool.looks) for pool in it.pools.values()] == [0, 1]
        assert it.pools["a"].why == it.pools["b"].why == []


async def test_a_lost_desk_is_told_to_all_and_a_new_one_is_looked_through() -> None:
    """One pool is back before another has even left."""
    async with site("a", "b") as it:
        it.post.hang_up()
        await until(lambda: all(pool.why for pool in it.pools.values()))
        await it.clock.go(POLL_S + 1)
        await it.cluster.leave("a")
        await it.cluster.join("a", it.pools["a"])
        await it.cluster.leave("b")
        await it.clock.go(POLL_S + 1)
        assert len(it.desks) == 2
        assert len(it.pools["a"].looks) == 1


async def test_who_joins_as_the_looking_ends_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site("a") as it:
        monkeypatch.setattr(it.cluster, "_looked_on", lambda _task: None)  # nobody has been told yet
        it.post.hang_up()
        await until(lambda: it.pools["a"].why)
        await it.clock.go(POLL_S + 1)
        await it.cluster.join("a", it.pools["a"])
        await it.clock.go(POLL_S + 1)
        assert len(it.pools["a"].looks) == 1


async def test_nothing_goes_on_of_a_desk_that_is_gone() -> None:
    async with site("a") as it:
        before = asyncio.all_tasks()
        for _ in range(5):
            it.post.hang_up()
            await until(lambda: it.cluster._desk is None)
            await it.cluster.join("a", it.pools["a"])
        await it.clock.go(0)
        assert len([task for task in asyncio.all_tasks() - before if "_tidy" in repr(task)]) == 1


async def test_a_desk_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site() as it:

        async def refuse(*_: Any) -> Desk:
            raise LinkLost("no route")

        monkeypatch.setattr(it.cluster, "_open_desk", refuse)
        with pytest.raises(LinkLost, match="no route"):
            await it.cluster.join("a", Pool("t"))
        assert it.cluster.known_hosts() is None
        await it.cluster.leave("a")


async def test_looking_that_fails_in_a_way_nobody_thought_of_is_no_silence() -> None:
    async with site("a", "b") as it:
        it.pools["a"].error = KeyError("oh")
        await it.clock.go(POLL_S + 1)
        assert all("KeyError" in why for pool in it.pools.values() for why in pool.why)
        assert all(pool.why for pool in it.pools.values())
        it.pools["a"].error = None
        await it.cluster.join("a", it.pools["a"])
        await it.clock.go(POLL_S + 1)
        assert len(it.pools["a"].looks) == 1
