"""Requests to a dashboard that is none, hangs, lies, or repeats what it was told; and to one behind TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hostler.backends.ray import Door, RayRest, Wants, rest as rest_module
from hostler.backends.ray.check import examine
from hostler.backends.ray.errors import RayDown, RayRefused
from hostler.model.errors import SettingsError
from hostler.runtime.rays import rest as made_by_runtime
from tests.backends.ray.fake import TOKEN, FakeRay, fake_ray
from tests.backends.ray.tls import certificate, tls_before

OTHERS = "another-secret"


def answer(body: Any, status: str = "200 OK", *more: str) -> bytes:
    """A whole one."""
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close", *more]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def nodes(**row: Any) -> bytes:
    """A list of one machine."""
    machine = {"node_id": "a", "node_ip": "10.0.0.1", "state": "ALIVE", "resources_total": {"CPU": 1.0}, **row}
    return answer(json.dumps({"data": {"result": {"result": [machine]}}}))


@asynccontextmanager
async def dashboard(said: bytes, *, hangs: bool = False, drips: bool = False) -> AsyncIterator[RayRest]:
    """Whatever it is asked, it says this; `hangs`: and then nothing; `drips`: and then a byte from time to time."""

    serving: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())  # type: ignore[arg-type]
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            await writer.drain()
            while drips:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
            if hangs:
                await reader.read()
        writer.transport.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found = RayRest(Door(address=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", token=TOKEN))
    try:
        yield found
    finally:
        await found.close()
        server.close()
        await asyncio.gather(*serving)


ODD = {
    "a page": answer("<html>log in</html>"),
    "an empty answer": answer(""),
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    "an encoding that is none": answer(b"xx", "200 OK", "Content-Encoding: gzip"),
    "no text": answer(b"\xff\xfe\x00{"),
    "a nest": answer("[" * 100_000),
    "another server's": answer({"error": "log in first"}),
    "an amount that is none": nodes(resources_total={"CPU": "many"}),
    "no number": nodes(resources_total={"CPU": float("nan")}),
    "no end of CPUs": nodes(resources_total={"CPU": float("inf")}),
    "resources that are none": nodes(resources_total=[1]),
    "labels that are none": nodes(labels=[1]),
    "no machines": answer({"data": {"result": {"result": ["x"]}}}),
    "a status that is none": answer({"status": "DANCING"}),
    "too many questions": answer("slow down", "429 Too Many Requests"),
    "a gateway": answer("<html>no upstream</html>", "502 Bad Gateway"),
}


@pytest.mark.parametrize("said", ODD.values(), ids=ODD)
async def test_what_is_no_answer_says_nothing_of_machines_jobs_or_versions(said: bytes) -> None:
    async with dashboard(said) as rest:
        for question in (rest.machines(), rest.job("j"), rest.version()):
            with pytest.raises(RayDown):
                await question


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "500 Error", "302 Found"])
async def test_a_secret_that_is_repeated_is_not_told(status: str) -> None:
    said = answer(f"Traceback: Bearer {TOKEN}, env_vars {OTHERS}", status, f"Location: http://other/?token={TOKEN}")
    async with dashboard(said) as rest:
        with pytest.raises((RayDown, RayRefused)) as caught:
            await rest.submit("j", "true", Wants(cpus=1), {"env_vars": {"CALL": OTHERS}})
    assert TOKEN not in str(caught.value)
    assert OTHERS not in str(caught.value)
    job = answer({"status": "FAILED", "message": f"no environment: {TOKEN}"})
    async with dashboard(job) as rest:
        found = await rest.job("j")
        assert found is not None
        assert TOKEN not in found.message


async def test_whoever_is_sent_elsewhere_does_not_go_there() -> None:
    async with dashboard(answer("", "307 Temporary Redirect", "Location: https://login.example.org/")) as rest:
        with pytest.raises(RayRefused, match=r"sends elsewhere \(307\), to https://login.example.org/"):
            await rest.version()


async def test_an_old_ray_that_lists_no_nodes_is_told_by_the_path() -> None:
    async with dashboard(answer("Not Found", "404 Not Found")) as rest:
        with pytest.raises(RayRefused, match=r"/api/v0/nodes: 404"):
            await rest.machines()


@pytest.mark.parametrize("how", ["hangs", "drips"])
async def test_one_that_comes_to_no_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(rest_module, "ANSWER_S", 0.2)
    monkeypatch.setattr(rest_module, "WHOLE_S", 0.4)
    async with dashboard(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", **{how: True}) as rest:
        with pytest.raises(RayDown, match="within"):
            await rest.version()


async def test_an_answer_without_measure_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_module, "BODY_MAX", 1000)
    async with dashboard(answer("x" * 5000)) as rest:
        with pytest.raises(RayDown, match="more than"):
            await rest.logs("j")


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[FakeRay]:
    with fake_ray(tmp_path / "ray") as found:
        yield found


async def test_behind_tls_it_is_believed_by_its_certificates(ray: FakeRay, tmp_path: Path) -> None:
    shown, kept = certificate(tmp_path, "dashboard")
    with tls_before(ray.address, shown, kept) as address:
        door = Door(address=address, token=TOKEN, ca=shown)
        rest = made_by_runtime(door)
        (found,) = await examine(door, rest, {"a": Wants(cpus=1)}, None)
        assert not found.wrong, found.says
        await rest.put_package("p.zip", b"x" * 300_000)
        assert ray.packages["p.zip"] == b"x" * 300_000
        await rest.close()


@pytest.mark.parametrize("fault", ["unknown", "anothers", "elsewhere", "ended"])
async def test_a_certificate_that_proves_nothing_is_not_believed(ray: FakeRay, tmp_path: Path, fault: str) -> None:
    place, days = "10.9.9.9" if fault == "elsewhere" else "127.0.0.1", -1 if fault == "ended" else 1
    shown, kept = certificate(tmp_path, "dashboard", place, days)
    believed = {"unknown": None, "anothers": certificate(tmp_path, "other")[0]}.get(fault, shown)
    with tls_before(ray.address, shown, kept) as address:
        rest = RayRest(Door(address=address, token=TOKEN, ca=believed))
        with pytest.raises(RayDown, match=r"(?i)certificate"):
            await rest.version()
        await rest.close()


async def test_plain_http_where_tls_is_spoken_and_the_other_way_round(ray: FakeRay, tmp_path: Path) -> None:
    shown, kept = certificate(tmp_path, "dashboard")
    with tls_before(ray.address, shown, kept) as address:
        for wrong in (address.replace("https", "http"), ray.address.replace("http", "https")):
            rest = RayRest(Door(address=wrong, token=TOKEN))
            with pytest.raises(RayDown, match="cannot be reached"):
                await rest.version()
            await rest.close()


def test_certificates_that_are_none_are_an_error_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("empty", "nowhere"):
        with pytest.raises(SettingsError, match=r"ray\.ca"):
            made_by_runtime(Door(address="https://ray:8265", ca=tmp_path / name))


@pytest.mark.parametrize("amounts", ["[1.0, -1e999]", "[NaN, 8.0]", f"[0, {10**400}]", "[-1.5e308, 1.5e308]"])
async def test_free_amounts_that_are_not_finite_are_unknown(amounts: str) -> None:
    said = f'{{"data": {{"clusterStatus": {{"loadMetricsReport": {{"usage": {{"CPU": {amounts}}}}}}}}}}}'
    async with dashboard(answer(said)) as rest:
        assert await rest.free() == {}


async def test_machine_with_an_integer_beyond_a_float_is_refused() -> None:
    async with dashboard(nodes(resources_total={"CPU": 10**400})) as rest:
        with pytest.raises(RayDown, match="cannot be understood"):
            await rest.machines()
