"""The desk of a cluster: at the real post, and at one that does what login nodes do on bad days."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.backends.slurm import desk as desks, opening
from hostler.backends.slurm.desk import Desk, News, opened
from hostler.model.errors import FilesError, LinkLost, LinkRefused, NotFound
from tests.backends.precompiled import precompile

from .scripted import HELLO, PATIENCE_S, Agent, Post, desk_at, reaped, until


@asynccontextmanager
async def real(root: Path, news: list[News] | None = None) -> AsyncIterator[Desk]:
    """A desk at a real post on this machine."""
    told = [] if news is None else news
    here = opening.Here(root)
    precompile(root / opening.CODE)
    desk = await opened(here.open, "this machine", told.append, lambda _why: None, here.ended)
    try:
        yield desk
    finally:
        desk.close()
        await desk.ended()
        await reaped()


# --- at a real post ---------------------------------------------------------------------------------------------------


async def test_it_runs_commands_there_and_tells_how_they_ended(tmp_path: Path) -> None:
    async with real(tmp_path) as desk:
        assert desk.hello["root"] == str(tmp_path)
        ran = await desk.run(
            ["sh", "-c", "cat; echo bad >&2; exit 3"], stdin="in", env={"L": None}, timeout_s=PATIENCE_S
        )
        assert (ran.status, ran.out, ran.err, ran.timed_out, ran.cut) == (3, "in", "bad\n", False, False)
        slow = await desk.run(["sleep", "60"], timeout_s=0.1)
        assert slow.timed_out
        missing = await desk.run(["no-such-program"], timeout_s=PATIENCE_S)
        assert missing.status is None
        assert "no-such-program" in missing.err


async def test_it_has_ended_when_that_was_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only its output has: else the loop that ran it closes before it is reaped, and complains to the terminal."""
    monkeypatch.setattr(opening, "ENDED_S", PATIENCE_S)
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\n{sys.executable} "$@"; exec >&-; sleep 0.5; touch {tmp_path}/over\n')
    slow.chmod(0o755)
    here = opening.Here(tmp_path / "root", str(slow))
    desk = await opened(here.open, "this machine", lambda _news: None, lambda _why: None, here.ended)
    desk.close()
    await desk.ended()
    assert (tmp_path / "over").exists()


async def test_files_and_news_of_batches_come_and_go(tmp_path: Path) -> None:
    news: list[News] = []
    async with real(tmp_path, news) as desk:
        await desk.prepare("t", {"script.sh": "#!/bin/sh\n", "0/first.in": "{}\n"})
        assert os.access(tmp_path / "jobs/t/script.sh", os.X_OK)
        (tmp_path / "jobs/t/news/0.0.began").write_text('{"job": "7"}\n')
        await desk.watch(["t"])
        assert news == [News(token="t", task=0, run=0, what="began", told={"job": "7"})]
        await desk.watch(["t"])
        assert len(news) == 2, "who watches anew is told everything"
        await desk.unwatch(["t"])
        (tmp_path / "jobs/t/news/0.0.ended").write_text('{"why": "done"}\n')
        await desk.probe("probe/a", "text")
        assert (await desk.probe("probe/a"), await desk.probe("probe/b")) == ("text", None)
        await desk.forget(["t"])
        assert not (tmp_path / "jobs/t").exists()
        assert len(news) == 2


async def test_a_stream_is_a_pair_of_files(tmp_path: Path) -> None:
    async with real(tmp_path) as desk:
        streams = tmp_path / "jobs/t/0/0/streams"
        streams.mkdir(parents=True)
        reader, writer = await desk.listen("t", 0, 0, "e1", create=True)
        writer.write(b"a request\n")
        await until(lambda: (streams / "e1.in").read_bytes() == b"a request\n")
        (streams / "e1.out").write_bytes(b"an answer\n")
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readline() == b"an answer\n"
        (streams / "e1.closed").touch()
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        with pytest.raises(FilesError):
            await desk.listen("t", 0, 0, "e1", create=True)


async def test_hanging_up_leaves_word(tmp_path: Path) -> None:
    async with real(tmp_path) as desk:
        streams = tmp_path / "jobs/t/0/0/streams"
        streams.mkdir(parents=True)
        _, writer = await desk.listen("t", 0, 0, "e1", create=True)
        writer.close()
        await until((streams / "e1.bye").exists)


async def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    async with real(tmp_path) as desk:
        with pytest.raises(NotFound, match=r"no output of j1\.1"):
            await desk.read_log("j1.1", "out", 0, 100)
        with pytest.raises(FilesError):
            await desk.prepare("../t", {})
        (tmp_path / "attempts/j1.1").mkdir(parents=True)
        (tmp_path / "attempts/j1.1/out").write_text("hello")
        assert (await desk.read_log("j1.1", "out", 1, 3)).data == b"ell"
        await desk.discard(["j1.1"])
        assert not (tmp_path / "attempts/j1.1").exists()
        with pytest.raises(FilesError):
            await desk.facts("t", 0, 0)
        await desk.prepare("t", {})
        assert (await desk.facts("t", 0, 0))["facts"] == []


async def test_a_root_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LinkRefused, match="shared_root"):
        await opening.Here(tmp_path / "file" / "root").open()


# --- at one that has bad days -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        b"Welcome to the cluster!\n",
        b'{"type": "data", "stream"',
        b"[]\n",
        b"7\n",
        b"null\n",
        b"{}\n",
        b'{"type": "data", "stream": 1}\n',
        b'{"type": "data", "stream": 1, "size": -1}\n',
        b'{"type": "data", "stream": 1, "size": "7"}\n',
        b'{"type": "data", "stream": [], "size": 1}\nx',
        b'{"type": "data", "stream": 1, "size": 100}\nshort',
        b'{"type": "news", "token": "t"}\n',
        b'{"type": "closed"}\n',
        b'{"id": []}\n',
        b"\xff\xfe\n",
        b"{" * 5000 + b"\n",
        b"[" * 100_000 + b"\n",
    ],
)
async def test_garbage_ends_it_at_once_and_everybody_is_told(bad: bytes) -> None:
    post, lost = Post(), list[str]()
    post.mute = {"prepare"}
    async with desk_at(post, lost=lost) as desk:
        asking = asyncio.create_task(desk.prepare("t", {}))
        await until(lambda: post.ops("prepare"))
        post.send(bad)
        post.hang_up() if not bad.endswith(b"\n") else None
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(LinkLost):
                await asking
        assert len(lost) == 1
        with pytest.raises(LinkLost):
            await desk.watch(["t"])


async def test_an_answer_for_nobody_is_passed_over() -> None:
    post = Post()
    async with desk_at(post) as desk:
        post.send({"id": 99, "ok": True})
        post.send({"id": None, "error": "a line that could not be read"})
        post.send({"type": "closed", "stream": 99})
        post.data(99, {"type": "hello"})
        assert await desk.probe("a") is None


async def test_data_right_behind_the_answer_is_not_lost() -> None:
    post = Post()
    post.agents["t", 0, 0] = agent = _agent()
    async with desk_at(post) as desk:
        for number in range(20):
            reader, _ = await desk.listen("t", 0, 0, f"e{number}", create=True)
            assert b'"hello"' in await reader.readline()
            assert b'"started"' in await reader.readline()
    assert agent.facts


async def test_a_stream_that_nobody_waits_for_any_more_is_hung_up() -> None:
    post = Post()
    post.mute = {"listen"}
    async with desk_at(post) as desk:
        asking = asyncio.create_task(desk.listen("t", 0, 0, "e1", create=True))
        (asked,) = await until(lambda: post.ops("listen"))
        asking.cancel()
        await asyncio.wait({asking})
        post.streams[7] = ("t", 0, 0)
        post.send({"id": asked["id"], "ok": True, "stream": 7})
        await until(lambda: post.hung_up == [7])


async def test_the_end_ends_its_streams() -> None:
    post = Post()
    post.agents["t", 0, 0] = _agent()
    async with desk_at(post) as desk:
        reader, writer = await desk.listen("t", 0, 0, "e1", create=True)
        post.hang_up()
        assert b"hello" in await reader.read()
        assert writer.is_closing()
        writer.write(b"into the void\n")
        writer.close()
        with pytest.raises(LinkLost, match="ended"):
            await desk.probe("a")


async def test_a_stream_that_is_closed_at_once() -> None:
    post = Post()
    post.mute = {"listen"}
    async with desk_at(post) as desk:
        asking = asyncio.create_task(desk.listen("t", 0, 0, "e1", create=True))
        (asked,) = await until(lambda: post.ops("listen"))
        post.send(b'{"id": %d, "ok": true, "stream": 3}\n{"type": "closed", "stream": 3}\n' % asked["id"])
        with pytest.raises(LinkLost, match="closed at once"):
            await asking


async def test_a_file_system_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "ANSWER_S", 0.05)
    post, news, lost = Post(), list[News](), list[str]()
    post.mute = {"watch"}
    async with desk_at(post, news, lost) as desk:
        with pytest.raises(LinkLost, match="did not answer 'watch'"):
            await desk.watch(["t"])
        assert len(lost) == 1


async def test_what_comes_after_the_end_is_not_told() -> None:
    post, news = Post(), list[News]()
    async with desk_at(post, news) as desk:
        await desk.watch(["t"])
        desk.close()
        post.begin("t", "7")
        await desk.ended()
    assert news == []


async def test_a_listener_that_fails_ends_the_desk_and_is_not_silent() -> None:
    def fail(news: News) -> None:
        raise LinkLost(f"nobody wants {news.token}")

    post, lost = Post(), list[str]()
    desk = await post.opened(fail, lost.append)
    await desk.watch(["t"])
    post.begin("t", "7")
    await until(lambda: lost)
    assert "nobody wants t" in lost[0]
    await desk.ended()


async def test_a_command_that_cannot_even_be_tried_is_a_lost_link() -> None:
    """As where a login node allows no more processes: of the command nothing is known."""
    post = Post()
    post.faults = {"run": "Resource temporarily unavailable"}
    async with desk_at(post) as desk:
        with pytest.raises(LinkLost, match="temporarily unavailable"):
            await desk.run(["squeue"], timeout_s=1)
        post.faults = {"prepare": "No space left on device"}
        with pytest.raises(FilesError, match="No space"):
            await desk.prepare("t", {})


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "speaks another protocol: None"),
        (b"Last login: today\n", "could not be started"),
        (b'{"type": "hello", "protocol": 2}\n', "another protocol"),
        (b'{"type": "hello", "protocol": 1}\n', "another protocol"),
        (b"[]\n", "another protocol"),
    ],
)
async def test_a_bad_beginning_is_refused_and_leaves_nothing_open(said: bytes, words: str) -> None:
    with pytest.raises(LinkLost, match=words):
        await _begin(said, [])


async def test_a_desk_that_says_nothing_is_given_up_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "HELLO_S", 0.05)
    with pytest.raises(LinkLost, match="said nothing"):
        await _begin(None, [])


async def _begin(said: bytes | None, lost: list[str]) -> None:
    """A process that says this first, which has to end by itself when it is not wanted any more."""
    words = "" if said is None else said.decode()
    end = "sys.exit()" if said == b"" else "sys.stdin.read()"
    program = f"import sys; sys.stdout.write({words!r}); sys.stdout.flush(); {end}"
    # Before anybody waits: a start that is given up half way would leave the process behind.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )

    async def open_streams() -> desks.Streams:
        assert process.stdout is not None
        assert process.stdin is not None
        return process.stdout, process.stdin

    try:
        await opened(open_streams, "a test", lambda _news: None, lost.append)
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await process.wait()
        await reaped()


def test_the_hello_of_tests_is_one() -> None:
    assert {"root", "host", "protocol"} <= HELLO.keys()


def _agent() -> Agent:
    agent = Agent()
    agent.noted("started", attempt="j1.1", pid=1, pid_start=1)
    return agent
