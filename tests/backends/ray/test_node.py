"""A share of a Ray cluster as the controller sees it, with real pilots over TLS, and a cluster that is made up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hostler.agent.build import build_zipapp
from hostler.backends.base import Store
from hostler.backends.channel import Channel
from hostler.backends.courier import Parcel
from hostler.backends.dialin import NotYet
from hostler.backends.packing import Packer
from hostler.backends.ray import Calling, Door, RayCluster, RayNode, RayRest, Terms, Wants
from hostler.backends.ray.node import TICKET, Pilot
from hostler.backends.ray.rest import Job
from hostler.model.commands import AttemptOrder
from hostler.model.errors import LinkError, LinkLost, LinkRefused
from hostler.model.inputs import Closed, Ended, Input, LinkUp, NodeFound, Requested, Started, Submitted, Trouble
from hostler.model.pools import Batch
from hostler.runtime.clock import SteadyClock
from tests.backends.dialin.exchange import Exchange, exchange
from tests.backends.ray.fake import TOKEN, FakeRay, fake_ray
from tests.patience import PATIENCE_S

T = TypeVar("T", bound=Input)


@dataclass
class Share:
    """A node, observed as the runtime does it: again and again, what it tells kept and made durable."""

    node: RayNode
    told: list[Input] = field(default_factory=list)
    lost: list[LinkError] = field(default_factory=list)
    holds_back: bool = False
    """Whether nothing becomes durable."""

    async def observe(self) -> None:
        while True:
            try:
                async for report in self.node.observe(1):
                    self.told += report.inputs
                    if report.receipt is not None and not self.holds_back:
                        await self.node.acknowledge(report.receipt)
            except LinkError as error:
                self.lost.append(error)
            await asyncio.sleep(0.05)

    def all(self, kind: type[T]) -> list[T]:
        return [each for each in self.told if isinstance(each, kind)]

    async def until(self, question: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not question():  # noqa: ASYNC110 - of several things, and some are no events
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{self.told}\n{self.lost[-3:]}") from None

    async def some(self, kind: type[T], count: int = 1) -> T:
        await self.until(lambda: len(self.all(kind)) >= count)
        return self.all(kind)[count - 1]


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Exchange]:
    async with exchange(tmp_path / "exchange") as found:
        yield found


@pytest.fixture
def ray(tmp_path: Path) -> Any:
    with fake_ray(tmp_path / "ray") as found:
        yield found


@asynccontextmanager
async def share(
    made: Exchange, ray: FakeRay, batches: tuple[Batch, ...] = (), *, token: str = TOKEN, **asked: Any
) -> AsyncIterator[Share]:
    program = made.folder / "ours.pyz"
    if not program.exists():
        build_zipapp(program)
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    parcel = Parcel(source=program, path=f"blobs/{digest[:2]}/{digest}.pyz", size=program.stat().st_size, sha256=digest)
    rest = RayRest(Door(address=ray.address, token=token))
    wants = Wants(cpus=asked.pop("cpus", 2.0))
    use = Terms(
        wants=wants, cpu_slots=2, folder=str(made.folder / "far"), poll_s=0.1, **{"python": sys.executable, **asked}
    )
    node = RayNode(
        "share",
        RayCluster(rest, SteadyClock(), program.read_bytes),
        use,
        lambda: Calling(to=f"127.0.0.1:{made.port}", fingerprint=made.fingerprint),
        b"a secret",
        made.calls,
        parcel,
        packer=Packer(),
        controller="test",
        store=Store(results=made.folder / "results", artifacts=made.folder / "artifacts"),
    )
    node.remember(batches)
    found = Share(node)
    task = asyncio.create_task(found.observe())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await rest.close()


def order(name: str, *argv: str) -> AttemptOrder:
    return AttemptOrder(
        id=name, queue="cpu0", argv=argv, env={}, cwd=None, walltime_s=None, memory_bytes=None, grace_s=1.0,
        inputs=None,
    )  # fmt: skip


async def woken(found: Share, name: str = "j1.1", *argv: str) -> None:
    """Give an order as the runtime does: it is dropped while nobody is there, and given again when somebody is."""
    await found.some(LinkUp)
    with pytest.raises(LinkLost):
        await found.node.launch([order(name, *argv)])
    await found.some(LinkUp, 2)
    assert await found.node.launch([order(name, *argv)]) == []


async def test_nothing_is_held_until_there_is_work_and_nothing_after_it(made: Exchange, ray: FakeRay) -> None:
    async with share(made, ray) as found:
        assert [each.id for each in (await found.some(NodeFound)).node.devices] == ["share/cpu0", "share/cpu1"]
        await woken(found, "j1.1", "sh", "-c", "echo $RAY_ADDRESS; env | grep HOSTLER_CALL; exit 3")
        assert (await found.some(Ended)).exit_code == 3
        log = await found.node.read_log("j1.1", "out", 0, 100)
        assert log.data == b"10.0.0.0:6379\n", "the cluster is named to it, and no secret of ours"
        found.node._use = replace(found.node._use, idle_s=0.3)
        await found.node.clear("j1.1")
        closed = await found.some(Closed)
        assert "nothing to do" in closed.why
        assert [job["status"] for job in ray.jobs.values()] == ["SUCCEEDED"]
        first, second = found.all(LinkUp)[:2]
        assert first.agent == second.agent == closed.token, "what was put on a pilot to come is not lost when it comes"
        await found.some(LinkUp, 3)
        assert found.all(LinkUp)[2].agent != closed.token, "and what was on one that is over is"
        assert not found.all(Trouble)
        assert not (made.folder / "far" / closed.token).exists(), "it leaves nothing there"


async def test_token_of_a_pilot_is_in_nothing_that_ray_has_of_it(made: Exchange, ray: FakeRay) -> None:
    async with share(made, ray) as found:
        await woken(found, "j1.1", "true")
        await found.some(Ended)
        (name,) = ray.submissions
        token = found.node._token(name)
        listed = (
            json.dumps(ray.jobs) + "".join(map(repr, ray.packages.values())) + (ray.folder / name / "log").read_text()
        )
        assert token not in listed
        ticket = ray.jobs[name]["asked"]["runtime_env"]["env_vars"][TICKET]
        assert not made.calls.is_own("share", ticket), "the ticket is no token"
        assert found.node._redeem(ticket, "another one") is None, "and counts for nobody any more"


async def test_ticket_counts_once_and_is_awaited_until_the_pilot_is_on_record(made: Exchange, ray: FakeRay) -> None:
    async with share(made, ray) as found:
        pilot = found.node._pilot = Pilot(id="p")
        found.node._admit("p")
        ticket = found.node._made("ticket", "p")
        assert found.node._redeem("another", "x") is None
        with pytest.raises(NotYet):
            found.node._redeem(ticket, "x")
        pilot.ticket = True
        token = found.node._redeem(ticket, "x")
        assert token == found.node._token("p") == found.node._redeem(ticket, "x"), "its answer may have been lost"
        assert found.node._redeem(ticket, "y") is None


@pytest.mark.parametrize(("status", "counts"), [("PENDING", True), ("RUNNING", False)])
async def test_ticket_of_a_pilot_that_another_controller_submitted_counts_only_if_it_has_not_begun(
    made: Exchange, ray: FakeRay, status: str, counts: bool
) -> None:
    async with share(made, ray, (batch("hostler-share-x", "hostler-share-x"),)) as found:
        pilot = found.node._pilot
        assert pilot is not None
        job = Job(id=pilot.id, status=status, message="", machine=None, exit_code=None, error=None)
        found.node._note_ticket(pilot, job)
        assert pilot.ticket is counts


async def test_it_is_on_record_before_it_is_submitted(made: Exchange, ray: FakeRay) -> None:
    async with share(made, ray) as found:
        await found.some(LinkUp)
        found.holds_back = True
        with pytest.raises(LinkLost):
            await found.node.launch([order("j1.1", "true")])
        await found.some(Requested)
        await asyncio.sleep(0.5)
        assert ray.submissions == []
    async with share(made, ray, (batch(found.all(Requested)[0].token),)) as again:
        assert (await again.some(LinkUp)).agent == found.all(Requested)[0].token
        assert ray.submissions == [found.all(Requested)[0].token]


def batch(token: str, job: str | None = None, at: float = 1.0) -> Batch:
    from hostler.backends.ray.node import FOREVER

    return Batch(token=token, node="share", mode="pilot", tasks=(), wants="", time=FOREVER, requested_at=at, job=job)


async def test_a_pilot_of_the_controller_before_is_gone_on_with_and_older_ones_end(
    made: Exchange, ray: FakeRay
) -> None:
    async with share(made, ray) as found:
        await woken(found, "j1.1", "sleep", "600")
        await found.some(Started)
        token = (await found.some(Submitted)).token
    async with share(made, ray, (batch("hostler-share-old", "x", at=0.0), batch(token, token))) as again:
        up = await again.some(LinkUp)
        assert (up.agent, up.attempts) == (token, ("j1.1",))
        assert ray.submissions == [token]
        assert (await again.some(Closed)).token == "hostler-share-old"
        await again.node.stop(["j1.1"], "enough")
        assert (await again.some(Ended)).reason == "stopped"


async def test_pilot_is_not_idle_before_it_has_told_what_it_has(
    made: Exchange, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that was restarted looks at its pilot while that is connected and has not told anything."""
    async with share(made, ray) as found:
        await woken(found, "j1.1", "sleep", "600")
        await found.some(Started)
        token = (await found.some(Submitted)).token

    async def looked_at_twice(node: RayNode, _: Channel) -> None:
        look, looks = node._look, count(1)
        seen = asyncio.Event()

        async def noting(pilot: Pilot) -> None:
            await look(pilot)
            if next(looks) == 2:
                seen.set()

        monkeypatch.setattr(node, "_look", noting)
        async with asyncio.timeout(PATIENCE_S):
            await seen.wait()

    monkeypatch.setattr(RayNode, "_upgrade", looked_at_twice)
    async with share(made, ray, (batch(token, token),)) as again:
        assert (await again.some(LinkUp)).attempts == ("j1.1",)
        assert again.node._pilot is not None
        assert again.node._pilot.leaving is None
        await again.node.stop(["j1.1"], "enough")
        assert (await again.some(Ended)).reason == "stopped"


async def test_a_dead_machine_is_told_of_and_what_it_had_is_anothers(made: Exchange, ray: FakeRay) -> None:
    async with share(made, ray) as found:
        await woken(found, "j1.1", "sleep", "600")
        token = (await found.some(Submitted)).token
        ray.end(token, "FAILED", "The actor died", machine=1)
        assert "node 10.0.0.1 (id1) of the Ray cluster is dead: health check failed" in (await found.some(Trouble)).what
        assert (await found.some(LinkUp, 3)).agent != token


async def test_what_ray_repeats_of_a_pilot_is_told_without_its_token(made: Exchange, ray: FakeRay) -> None:
    async with share(made, ray, python=str(made.folder / "sleeps")) as found:  # it never calls
        (made.folder / "sleeps").write_text("#!/bin/sh\nexec sleep 600\n")
        (made.folder / "sleeps").chmod(0o755)
        await found.some(LinkUp)
        with pytest.raises(LinkLost):
            await found.node.launch([order("j1.1", "true")])
        token = (await found.some(Submitted)).token
        runtime = ray.jobs[token]["asked"]["runtime_env"]
        (secret,) = runtime["env_vars"].values()
        ray.end(token, "FAILED", f"cannot set up {runtime}")
        assert "cannot set up" in (await found.some(Trouble)).what
        assert secret not in repr(found.told) + repr(found.lost)
        assert secret not in ray.jobs[token]["asked"]["entrypoint"]


async def test_a_page_where_the_dashboard_was_says_nothing_of_a_pilot(
    made: Exchange, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with share(made, ray) as found:
        await woken(found, "j1.1", "sleep", "600")
        for answer in ((200, "<html>log in</html>"), (200, {"login": "first"}), (502, "<html>"), (302, "")):
            count = len(found.all(Trouble))
            monkeypatch.setattr(ray, "answer", lambda *_, said=answer: said)
            await found.some(Trouble, count + 1)
        assert not found.all(Closed)
        assert len(ray.submissions) == 1
        assert len(found.all(LinkUp)) == 2, "what runs there is linked still"


async def test_a_cluster_that_cannot_be_asked_is_no_end_of_anything(made: Exchange, ray: FakeRay) -> None:
    async with share(made, ray) as found:
        await woken(found, "j1.1", "sh", "-c", "sleep 2")
        ray.down = True
        assert "what runs there runs on" in (await found.some(Trouble)).what
        assert (await found.some(Ended)).exit_code == 0
        ray.down = False
        assert not found.all(Closed)


async def test_what_is_cancelled_before_it_is_up_takes_its_pilot_along(made: Exchange, ray: FakeRay) -> None:
    async with share(made, ray, python=str(made.folder / "sleeps")) as found:  # it never calls
        (made.folder / "sleeps").write_text("#!/bin/sh\nexec sleep 600\n")
        (made.folder / "sleeps").chmod(0o755)
        await found.some(LinkUp)
        with pytest.raises(LinkLost):
            await found.node.launch([order("j1.1", "true")])
        await found.some(Requested)
        await found.until(lambda: ray.submissions)
        await found.node.stop(["j1.1"], "cancelled")
        assert (await found.some(Ended)).reason == "stopped"
        await found.some(Closed)
        assert not found.all(Trouble)


async def test_a_pilot_that_cannot_be_is_told_with_its_words_and_not_tried_for_ever(
    made: Exchange, ray: FakeRay
) -> None:
    async with share(made, ray, python="/no/such/python") as found:
        await found.some(LinkUp)
        with pytest.raises(LinkLost):
            await found.node.launch([order("j1.1", "true")])
        assert "/no/such/python" in (await found.some(Trouble)).what
        await found.until(lambda: any(isinstance(each, LinkRefused) for each in found.lost))
        assert len(ray.submissions) == 1


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"cpus": 4.0}, "4 CPUs on one node are asked for, and the largest has 2"),
        ({"token": "another"}, "the token that was shown counts for nothing there"),
    ],
)
async def test_what_can_never_be_is_refused_at_once(
    made: Exchange, ray: FakeRay, asked: dict[str, Any], says: str
) -> None:
    async with share(made, ray, **asked) as found:
        await found.until(lambda: found.lost)
        assert isinstance(found.lost[0], LinkRefused)
        assert says in str(found.lost[0])
        with pytest.raises(LinkRefused):
            await found.node.probe()
        assert ray.submissions == []
