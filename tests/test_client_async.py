"""What is special about the client that is awaited: its connections, its streams, and how it tells of trouble."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler import client as sdk
from hostler.client import Address, AsyncClient, calls
from hostler.model import codec
from hostler.model.errors import Conflict, ControllerAbsent, LinkLost, LinkRefused, NotFound
from hostler.model.inputs import Submit, Trouble
from tests.core.builders import script
from tests.test_client import a_bad_line, announce
from tests.web.core_desk import TOKEN, CoreDesk, Window, window


@pytest.fixture
def served() -> Iterator[Window]:
    with window() as made:
        yield made


def at(port: int, token: str = TOKEN) -> AsyncClient:
    return AsyncClient(lambda: Address(f"http://127.0.0.1:{port}", token))


async def status_of(client: AsyncClient) -> Any:
    async with client:
        return await client.status()


def done(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_many_at_once(served: Window) -> None:
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(20))))

    async def ask() -> list[Any]:
        async with at(served.port) as client:
            return await asyncio.gather(*(client.job(f"j{n}") for n in range(1, 21)))

    assert [each["job"]["name"] for each in done(ask())] == [f"n{n}" for n in range(20)]


def test_lists_are_gone_through_page_by_page(served: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PAGE", 3)
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(10))))

    async def ask() -> list[Any]:
        async with at(served.port) as client:
            first = [job["name"] async for job in client.all_jobs(["pending", "leased"], after=7)]
            return [first, [job["name"] async for job in client.all_jobs()], len(await client.queue(None))]

    some, every, queued = done(ask())
    assert some == ["n7", "n8", "n9"]
    assert every == [f"n{n}" for n in range(10)]
    assert queued == 8


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda client: client.job("nobody"), NotFound),
        (lambda client: client.log("unreachable.1"), LinkLost),
        (lambda client: client.retry("j1"), Conflict),
    ],
)
def test_errors_come_back_as_what_they_are(
    served: Window, ask: Callable[[AsyncClient], Any], error: type[Exception]
) -> None:
    served.tell(Submit(specs=(script(),)))

    async def refused() -> None:
        async with at(served.port) as client:
            await ask(client)

    with pytest.raises(error) as caught:
        done(refused())
    assert type(caught.value) is error


def test_a_wrong_token_is_refused(served: Window) -> None:
    with pytest.raises(LinkRefused, match="401 Unauthorized"):
        done(status_of(at(served.port, "wrong")))


def test_a_refused_connection_is_an_absent_controller(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        announce(tmp_path, unused.getsockname()[1])
        with pytest.raises(ControllerAbsent, match="nothing answers at"):
            done(status_of(AsyncClient.from_state_dir(tmp_path)))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", LinkLost),
        (b"garbage\r\n\r\n", LinkLost),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", LinkLost),
        (b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nnope", LinkRefused),
    ],
)
def test_answers_that_are_none(said: bytes, error: type[Exception]) -> None:
    async def ask() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, at(server.sockets[0].getsockname()[1]) as client:
            await client.status()

    with pytest.raises(error):
        done(ask())


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_write_over_a_bad_line_is_done_once(served: Window, cut: str) -> None:
    async def submit(port: int) -> tuple[str, ...]:
        async with at(port) as client:
            return await client.submit_jobs([codec.plain(script("a"))])

    with a_bad_line(served.port, cut) as (port, keys):
        assert done(submit(port)) == ("j1",)
    assert len(set(keys)) == 1
    assert len(served.desk.driver.state.jobs) == 1


def test_it_follows_a_controller_to_another_port(tmp_path: Path) -> None:
    desk = CoreDesk()

    async def follow() -> list[int]:
        seen: list[int] = []
        client = AsyncClient.from_state_dir(tmp_path)
        async with client, aclosing(client.events(after=0, sleep=at_once)) as events:
            with window(desk) as served:
                announce(tmp_path, served.port)
                seen += [(await anext(events))["seq"] for _ in desk.driver.entries]
                served.call(desk.cut_off)
                served.tell(Trouble(where="here", what="after the cut"))
                seen.append((await anext(events))["seq"])
            with window(desk) as served:
                announce(tmp_path, served.port)
                served.tell(Trouble(where="here", what="after the restart"))
                seen.append((await anext(events))["seq"])
                assert (await client.status())["troubles"] == 2
        return seen

    assert done(follow()) == list(range(1, len(desk.driver.entries) + 1))


def test_events_give_up_in_the_end(tmp_path: Path) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    with pytest.raises(ControllerAbsent):
        done(anext(AsyncClient.from_state_dir(tmp_path).events(sleep=rest)))
    assert tuple(rests) == sdk.RECONNECT_S


def test_a_request_that_is_cancelled_harms_no_other(served: Window) -> None:
    async def ask() -> str:
        async with at(served.port) as client, following(client):
            waiting = asyncio.create_task(client.status())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert waiting.cancelled()
            return str((await client.status())["version"])

    assert done(ask()) == "test"


@asynccontextmanager
async def following(client: AsyncClient) -> AsyncIterator[None]:
    """An event stream is open meanwhile."""
    async with aclosing(client.events(after=0)) as events:
        await anext(events)
        yield


async def at_once(_: float) -> None:
    """No rest."""
