"""What is said of a cluster before any work goes there, and the requests that everything else is made of."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.backends.ray import Door, RayRest, Wants
from hostler.backends.ray.check import Looked, examine
from hostler.backends.ray.errors import RayDown, RayRefused
from tests.backends.ray.fake import TOKEN, FakeRay, fake_ray

CALLS = "127.0.0.1:8767"


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[FakeRay]:
    with fake_ray(tmp_path) as found:
        yield found


@asynccontextmanager
async def asking(door: Door) -> AsyncIterator[RayRest]:
    rest = RayRest(door)
    try:
        yield rest
    finally:
        await rest.close()


async def looked(address: str, asked: dict[str, Wants], token: str | None = TOKEN, calls: str = CALLS) -> list[Looked]:
    door = Door(address=address, token=token)
    async with asking(door) as rest:
        return await examine(door, rest, asked, calls)


async def test_a_cluster_says_what_it_has_and_what_it_will_never_have(ray: FakeRay) -> None:
    (good,) = await looked(ray.address, {"a": Wants(cpus=2), "b": Wants(cpus=2)})
    assert (good.wrong, good.says) == (False, f"a, b: Ray 2.60.0 answers at {ray.address}; 2 nodes: 4 CPUs")
    _, bad = await looked(ray.address, {"a": Wants(cpus=2), "b": Wants(cpus=4)})
    assert (bad.wrong, bad.says) == (True, "b: 4 CPUs on one node are asked for, and the largest has 2")
    _, many = await looked(ray.address, dict.fromkeys("abc", Wants(cpus=2)))
    assert (many.wrong, many.says) == (True, "a, b, c: 3 pilots of 2 CPUs are asked for, and 2 fit on 2 nodes")


@pytest.mark.parametrize(("token", "says"), [(None, "no token was shown"), ("wrong", "counts for nothing there")])
async def test_a_token_that_is_missing_or_wrong_is_told(ray: FakeRay, token: str | None, says: str) -> None:
    (found,) = await looked(ray.address, {"a": Wants(cpus=1)}, token)
    assert found.wrong
    assert says in found.says
    assert "ray get-auth-token" in found.says
    assert "wrong" not in found.says


async def test_a_cluster_that_is_not_there_is_told(ray: FakeRay) -> None:
    ray.down = True
    (found,) = await looked(ray.address, {"a": Wants(cpus=1)})
    assert found.wrong
    assert "cannot be reached" in found.says


async def test_pilots_elsewhere_cannot_call_this_machine_by_its_loopback(ray: FakeRay) -> None:
    assert len(await looked(ray.address, {"a": Wants(cpus=1)})) == 1
    door = Door(address="http://10.0.0.5:8265", token=TOKEN)
    async with asking(Door(address=ray.address, token=TOKEN)) as rest:
        found = await examine(door, rest, {"a": Wants(cpus=1)}, CALLS)
    assert "give dialin.address" in found[-1].says


async def test_a_submission_is_made_once_and_logs_can_be_read(ray: FakeRay) -> None:
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as made:
        made.writestr("file", "content")
    async with asking(Door(address=ray.address, token=TOKEN)) as rest:
        assert not await rest.has_package("p.zip")
        await rest.put_package("p.zip", package.getvalue())
        assert await rest.has_package("p.zip")
        for _ in range(2):
            await rest.submit("j", "cat file; sleep 600", Wants(cpus=1), {"working_dir": "gcs://p.zip"})
        assert len(ray.jobs) == 1
        while await rest.logs("j") != "content":
            pass
        await rest.stop("j")
        while not (job := await rest.job("j")) or not job.over:
            pass
        assert job.status == "STOPPED"
        assert await rest.job("other") is None
        assert await rest.logs("other") == ""
        await rest.stop("other")


async def test_what_cannot_be_understood_is_no_answer(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asking(Door(address=ray.address, token=TOKEN)) as rest:
        for answer in ((200, "no JSON"), (200, [1]), (500, "GCS is dead"), (200, {"data": None})):
            monkeypatch.setattr(ray, "answer", lambda *_, said=answer: said)
            with pytest.raises(RayDown):
                await rest.machines()
        monkeypatch.setattr(ray, "answer", lambda *_: (400, "what is that"))
        with pytest.raises(RayRefused, match="what is that"):
            await rest.machines()
        monkeypatch.setattr(ray, "answer", lambda *_: (200, {}))
        assert await rest.free() == {}, "what it does not say is unknown"


def test_a_door_does_not_show_its_token() -> None:
    assert TOKEN not in repr(Door(address="http://x", token=TOKEN))
