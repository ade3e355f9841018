"""Who is let in, who is not, and how long strangers are borne."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.backends.dialin import Switchboard, context, switchboard
from hostler.model.errors import Conflict, LinkLost, LinkRefused, UsageError
from tests.backends.dialin.exchange import TOKENS, Caller, Exchange, caller, dialled, exchange, welcomed
from tests.patience import PATIENCE_S


@pytest.fixture
async def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Exchange]:
    monkeypatch.setattr(switchboard, "REFUSAL_REST_S", 0.05)
    async with exchange(tmp_path / "exchange") as found:
        yield found


async def gone(who: Caller) -> bool:
    """Whether it was hung up on, without a word."""
    return await who.hear() == {}


async def answers(who: Caller, **words: object) -> None:
    assert await who.hear() == {"type": "take"}
    who.say(**words)


async def test_one_that_is_taken_is_the_caller_s_from_then_on(made: Exchange) -> None:
    far = await welcomed(made)
    far.say(type="ping")
    assert await far.hear() == {"type": "pong"}
    far.say(type="ping")  # crosses the word that it is taken: it is not answered, for the agent would hear that
    taking = asyncio.create_task(made.calls.take("far", PATIENCE_S))
    first = await far.hear()
    if first == {"type": "pong"}:
        first = await far.hear()
    assert first == {"type": "take"}
    far.say(type="ping")
    far.say(type="taken")
    call = await taking
    assert (call.folder, call.dialler) == ("/far/0123456789ab", "d1")
    call.writer.write(b"to the agent\n")
    assert await far.reader.readline() == b"to the agent\n"
    far.writer.write(b"x" * 100_000 + b"\n")
    assert len(await call.reader.readline()) == 100_001
    call.writer.close()


@pytest.mark.parametrize(("node", "token"), [("far", "wrong"), ("far", ""), ("nobody", "wrong"), ("far", "ä")])
async def test_without_its_token_nobody_is_let_in(made: Exchange, node: str, token: str) -> None:
    for _ in range(3):
        who = await dialled(made, node, token=token)
        said = await who.hear()
        assert (said["type"], "hostler node invite" in said["reason"]) == ("refused", True)
        assert await gone(who)
    (told,) = made.told
    assert "127.0.0.1" in told
    with pytest.raises(LinkLost, match="has not called"):
        await made.calls.take("far", 0.1)


async def test_the_token_of_one_node_is_not_that_of_another(made: Exchange) -> None:
    who = await dialled(made, "far", token=TOKENS["other"])
    assert (await who.hear())["type"] == "refused"
    assert not any(token in told for token in TOKENS.values() for told in made.told)


async def test_whoever_guesses_has_to_wait(made: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    rests = list[float]()
    sleep = asyncio.sleep

    async def noted(delay: float) -> None:
        rests.append(delay)
        await sleep(0)

    monkeypatch.setattr(switchboard, "REFUSAL_REST_S", 1.0)
    monkeypatch.setattr(switchboard.asyncio, "sleep", noted)
    assert (await (await dialled(made, token="wrong")).hear())["type"] == "refused"
    assert 1.0 in rests


async def test_a_node_of_another_protocol_is_told_so(made: Exchange) -> None:
    said = await (await dialled(made, protocol=7)).hear()
    assert "hostler node agent" in said["reason"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00\xff" * 50 + b"\n",
        b"[]\n",
        b"[" * 4000 + b"\n",
        b'{"type":"dial","node":7,"token":[],"protocol":1}\n',
        b"x" * 100_000,
        json.dumps({"type": "dial", "token": "x" * 5000}).encode() + b"\n",
        b'{"type":"dial"}\n{"type":"dial"}\n',
    ],
)
async def test_garbage_is_hung_up_on(made: Exchange, garbage: bytes) -> None:
    who = await caller(made)
    who.writer.write(garbage)
    assert (await who.hear()).get("type") in ("refused", None)
    assert await gone(who)
    await welcomed(made)


async def test_no_tls_no_answer(made: Exchange) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    writer.write(b'{"type":"dial"}\n')
    async with asyncio.timeout(PATIENCE_S):
        assert b"welcome" not in await reader.read()
    writer.close()


async def test_strangers_have_little_time(made: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before nor within TLS, nor by a byte now and then."""
    monkeypatch.setattr(switchboard, "GREET_S", 0.4)
    silent, writer = await asyncio.open_connection("127.0.0.1", made.port)
    slow = await patient_caller(made)
    hung_up = asyncio.create_task(gone(slow))
    while not hung_up.done():
        slow.writer.write(b"{")
        await asyncio.sleep(0.02)
    assert await hung_up
    async with asyncio.timeout(PATIENCE_S):
        assert await silent.read() == b""
    writer.close()


async def patient_caller(made: Exchange) -> Caller:
    """A caller after its TLS handshake, which is repeated where it takes longer than `GREET_S`."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(OSError):
                return await caller(made)


async def test_a_crowd_of_one_address_keeps_no_other_out(made: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switchboard, "STRANGERS_MAX", 6)
    other = await caller(made)
    crowd = [await asyncio.open_connection("127.0.0.1", made.port, local_addr=("127.0.0.2", 0)) for _ in range(30)]
    await asyncio.sleep(0.1)
    assert len(made.calls._strangers) <= 6
    other.say(type="dial", node="far", token=TOKENS["far"], protocol=1, dir="/far", dialler="d1")
    assert (await other.hear())["type"] == "welcome"
    assert (await crowd[0][0].read()) == b""
    for _, writer in crowd:
        writer.close()


async def test_of_one_address_the_oldest_that_has_not_named_its_token_goes(made: Exchange) -> None:
    made.calls._unauthenticated = 3
    other = await caller(made)
    crowd = [await asyncio.open_connection("127.0.0.1", made.port, local_addr=("127.0.0.2", 0)) for _ in range(5)]
    async with asyncio.timeout(PATIENCE_S):
        assert [await reader.read() for reader, _ in crowd[:2]] == [b"", b""]
    other.say(type="dial", node="far", token=TOKENS["far"], protocol=1, dir="/far", dialler="d1")
    assert (await other.hear())["type"] == "welcome"
    for _, writer in crowd:
        writer.close()


async def test_of_more_than_eight_that_wait_the_oldest_goes(made: Exchange) -> None:
    waiting = [await welcomed(made) for _ in range(10)]
    assert await gone(waiting[0])
    assert await gone(waiting[1])
    waiting[2].say(type="ping")
    assert await waiting[2].hear() == {"type": "pong"}


async def test_a_dead_one_is_passed_over(made: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switchboard, "RING_S", 0.2)
    alive, dead = await welcomed(made), await welcomed(made)
    taking = asyncio.create_task(made.calls.take("far", PATIENCE_S))
    assert await dead.hear() == {"type": "take"}
    monkeypatch.setattr(switchboard, "RING_S", PATIENCE_S)
    await answers(alive, type="taken")
    (await taking).writer.close()
    assert await gone(dead)


async def test_connections_for_files_are_those_of_one_dialler(made: Exchange) -> None:
    await welcomed(made, dialler="d2")
    with pytest.raises(LinkLost):
        await made.calls.take("far", 0.1, "d1")
    mine = await welcomed(made, dialler="d1")
    taking = asyncio.create_task(made.calls.take("far", PATIENCE_S, "d1"))
    await answers(mine, type="taken")
    (await taking).writer.close()


async def test_a_node_without_an_agent_says_why(made: Exchange) -> None:
    far = await welcomed(made)
    taking = asyncio.create_task(made.calls.take("far", PATIENCE_S))
    await answers(far, type="failed", reason="the disk is full")
    with pytest.raises(LinkRefused, match="the disk is full"):
        await taking


@pytest.mark.parametrize("how", ["ping", "take"])
async def test_who_waits_by_a_revoked_token_is_sent_away(made: Exchange, how: str) -> None:
    far = await welcomed(made)
    made.tokens["far"] = "the next one"
    if how == "ping":
        far.say(type="ping")
    else:
        with pytest.raises(LinkLost):
            await made.calls.take("far", 0.1)
    assert (await far.hear())["type"] == "refused"
    assert await gone(far)


async def test_one_that_waits_without_a_sign_of_life_is_dropped(
    made: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switchboard, "SILENCE_S", 0.1)
    assert await gone(await welcomed(made))


async def test_nonsense_of_one_that_waits_ends_its_connection_alone(made: Exchange) -> None:
    for nonsense in (b"nonsense\n", b"[1]\n", b'{"type":"taken"}\n', b"[" * 100_000 + b"\n"):
        far = await welcomed(made)
        far.writer.write(nonsense)
        assert await gone(far)
    assert made.calls._waiting["far"] == []


async def test_a_port_that_is_taken_is_named(made: Exchange) -> None:
    certificate = made.folder / "certificate.pem"
    with pytest.raises(Conflict, match=r"dialin\.listen"):
        Switchboard("x", {}.get).open("127.0.0.1", made.port, context(certificate, certificate), lambda *_: None)
    with pytest.raises(UsageError, match="cannot be used"):
        context(made.folder / "none.pem", made.folder / "none.pem")


@pytest.mark.parametrize("turns", range(9))
async def test_close_hangs_up_on_connections_accepted_meanwhile(tmp_path: Path, turns: int) -> None:
    """However far the loop has come with three of them: in the queue, accepted, or about to begin with TLS."""
    loop, troubles = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _loop, about: troubles.append(about))
    async with exchange(tmp_path) as made:
        await asyncio.sleep(0)
        callers = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        await made.calls.close()
        for each in callers:
            with each:
                each.setblocking(False)
                await hung_up(each)
    assert troubles == []


@pytest.mark.parametrize("turns", range(0, 12, 2))
async def test_close_hangs_up_on_a_connection_in_the_middle_of_its_handshake(tmp_path: Path, turns: int) -> None:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    loop, troubles = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _loop, about: troubles.append(about))
    async with exchange(tmp_path) as made:
        await asyncio.sleep(0)
        calling = asyncio.create_task(asyncio.open_connection("127.0.0.1", made.port, ssl=trusting))
        for _ in range(turns):
            await asyncio.sleep(0)
        await made.calls.close()
        async with asyncio.timeout(PATIENCE_S):
            try:
                reader, writer = await calling
            except OSError:
                pass
            else:
                with contextlib.suppress(OSError):
                    assert await reader.read() == b""
                writer.close()
    assert troubles == []


async def test_close_before_the_first_turn_closes_the_listener(tmp_path: Path) -> None:
    async with exchange(tmp_path) as made:
        await made.calls.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", made.port))


async def hung_up(who: socket.socket) -> None:
    """Return once the other side has hung up."""
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.get_running_loop().sock_recv(who, 1) == b""
