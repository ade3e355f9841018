"""What a person reads while `hostler up` runs."""

from __future__ import annotations

from io import BytesIO, StringIO, TextIOWrapper

import pytest

from hostler.model.codec import digest
from hostler.model.inputs import Ended
from hostler.model.work import JobSpec, Retry, ScriptPayload, SweepPayload
from hostler.runtime.clock import SteadyClock
from hostler.runtime.controller import Controller
from hostler.runtime.report import Reporter
from hostler.runtime.statedir import StateDir
from tests.backends.fake import FakeNode, succeed
from tests.runtime.conftest import running, script, submit, until

pytestmark = pytest.mark.anyio

HOSTILE = "[red]x[/red]\x1b[31m\n; rm -rf /"


def reporter(controller: Controller, out: StringIO | TextIOWrapper) -> Reporter:
    return Reporter(controller, out, SteadyClock(), "test", ("the first line",))


def sweep(stop: int) -> JobSpec:
    payload = SweepPayload(
        schema=1, start=0, stop=stop, worker=("w",), params={}, digest=digest({}), chance=0.5, max_chunk=1
    )
    return JobSpec(name="found it", key="s", payload=payload)


async def test_plain_lines_say_only_what_is_new(directory: StateDir) -> None:
    out = StringIO()
    async with running(directory, FakeNode(behave=lambda order: None)) as controller:
        await submit(controller, *(script(f"s{at}") for at in range(3)))
        await until(lambda: controller.job("s1").attempt is not None)
        with reporter(controller, out) as show:
            await show.show()
            await show.show()
    lines = out.getvalue().splitlines()
    assert lines[0] == "the first line"
    assert len(lines) == 2
    assert lines[1].endswith("1 waiting, 2 running")


async def test_the_summary_tells_hits_chance_failures_and_attempts(directory: StateDir) -> None:
    node = FakeNode(slots=1)
    node.behave = lambda order: (
        Ended(attempt=order.id, ended_at=1.0, exit_code=3) if order.argv == ("false",) else succeed(order)
    )
    node.hold_chunks = True
    out = StringIO()
    async with running(directory, node) as controller:
        bad = JobSpec(name=HOSTILE, payload=ScriptPayload(schema=1, argv=("false",)), retry=Retry(backoff_s=0.0))
        names = await submit(controller, script("good"), bad, sweep(2))
        for chunk, hit in (("j3.1", 0), ("j3.2", 1)):
            await until(lambda chunk=chunk: chunk in node.chunks)  # type: ignore[misc]
            node.search(chunk, hits=({"at": hit, "note": HOSTILE},))
        await controller.ended(until_idle=True)
        await reporter(controller, out).summary(names)
    text = out.getvalue()
    assert "test: 2 of 3 jobs are done" in text
    assert "found it done: 100 % of [0, 2) in 2 chunks" in text
    assert "2 hits (1 expected by chance)" in text
    assert "found 0" in text
    assert "scripts: 1 of 2 done, 1 attempts more than jobs" in text
    assert "exit status 3 (exit: 2 of 2 allowed attempts used)" in text
    assert "\x1b" not in text
    assert "[red]x" in text


async def test_a_stream_that_cannot_write_a_name_gets_it_escaped(directory: StateDir) -> None:
    raw = BytesIO()
    out = TextIOWrapper(raw, encoding="ascii")
    async with running(directory, FakeNode()) as controller:
        names = await submit(controller, script("größe", after=()), script("x"))
        await controller.ended(until_idle=True)
        show = reporter(controller, out)
        show.say("größe")
        await show.summary(names)
    out.flush()
    assert b"gr\\xf6\\xdfe" in raw.getvalue()


async def test_a_reader_who_is_gone_does_not_end_the_controller(directory: StateDir) -> None:
    class Gone(StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError("nobody reads this")

    async with running(directory, FakeNode()) as controller:
        await submit(controller, script("a"))
        with reporter(controller, Gone()) as show:
            await show.show()
        await controller.ended(until_idle=True)
        assert await controller.undone((), 0) == []
