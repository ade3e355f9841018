"""The order in which attempts write to their two streams: noted by a process that outlives the supervisor."""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hostler.agent import logs, order, recorder
from tests.agent.harness import Agent, Client, Json, fresh_name, until

ALTERNATING = """
import os, sys, time
for number in range(int(sys.argv[1])):
    os.write(1 + number % 2, b"line %d\\n" % number)
    time.sleep(float(sys.argv[2]))
"""
NOTED = """
import os, struct, sys, time
def noted():
    try:
        return struct.unpack("<dQQq", open(".order", "rb").read()[-32:])[1:3]
    except (OSError, struct.error):
        return None
for number in range(int(sys.argv[1])):
    os.write(1 + number % 2, b"line %d\\n" % number)
    while noted() != (os.fstat(1).st_size, os.fstat(2).st_size):
        time.sleep(0.01)
"""
"""Writes a line as soon as the one before it is noted: no line is noted together with another, on any machine."""
WAITING = """
import os, sys, time
os.write(1, b"begun\\n")
os.write(2, b"begun\\n")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""
IN_HALVES = """
import os, sys, time
count = int(sys.argv[1])
for number in range(count):
    while number == count // 2 and not os.path.exists(sys.argv[3]):
        time.sleep(0.01)
    os.write(1 + number % 2, b"line %d\\n" % number)
    time.sleep(float(sys.argv[2]))
"""
WITH_EARLY_TIMERS = """
import sys
from hostler.agent import __main__, loop, recording
call_later = loop.Loop.call_later
loop.Loop.call_later = lambda self, delay_s, callback: call_later(self, max(0.0, delay_s - 0.01), callback)
recording._FIRST_REST_S = 4.0
sys.exit(__main__.main())
"""
WITHOUT_REPORTS = """
import sys
from hostler.agent import __main__, inotify
def opened():
    raise OSError(24, "none is left")
inotify.opened = opened
sys.exit(__main__.main())
"""


def command(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-S", "-c", code, *map(str, arguments)]


def spec(name: str, argv: list[str]) -> Json:
    return {"id": name, "queue": name, "argv": argv}


def both(client: Client, name: str, at: tuple[int, int] = (0, 0), limit: int = 1 << 16) -> Json:
    client.send(type="read", id=1, attempt=name, stream="both", offset=list(at), limit=limit)
    return client.message("read")


def lines_of(pieces: list[list[str]]) -> list[tuple[str, bytes]]:
    return [(name, line) for name, data in pieces for line in base64.b64decode(data).splitlines()]


def expected(count: int) -> list[tuple[str, bytes]]:
    return [(order.STREAMS[number % 2], b"line %d" % number) for number in range(count)]


def recorders_of(agent: Agent) -> list[int]:
    """Pids of the processes that run in the agent's folder as its recorders."""
    found = []
    for process in psutil.process_iter():
        try:
            if "hostler.agent.recorder" in process.cmdline() and process.cwd() == str(agent.directory):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def wait_for_lines(agent: Agent, name: str, count: int) -> None:
    until(lambda: sum(_lines(agent, name, stream) for stream in order.STREAMS) >= count, f"{count} lines of {name}")


def _lines(agent: Agent, name: str, stream: str) -> int:
    path = agent.directory / "attempts" / name / stream
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Agent]:
    """An agent whose processes a test kills."""
    agent = Agent(tmp_path / "agent")
    yield agent
    agent.stop()
    until(lambda: not recorders_of(agent), "the end of the recorder")


def test_order_of_alternating_lines_is_exact(shared_agent: Agent) -> None:
    client = shared_agent.client()
    name = fresh_name()
    client.launch(spec(name, command(ALTERNATING, 30, 0.06)))
    client.ended(name)
    assert lines_of(both(client, name)["pieces"]) == expected(30)


def test_order_is_exact_though_the_supervisor_is_killed_in_between(killed: Agent) -> None:
    name = fresh_name()
    killed.client().launch(spec(name, command(ALTERNATING, 40, 0.1)))
    wait_for_lines(killed, name, 15)
    killed.kill_supervisor()
    client = killed.client(epoch=2)
    client.ended(name)
    assert lines_of(both(client, name)["pieces"]) == expected(40)


def test_order_is_exact_though_nobody_of_the_agent_lives_for_some_lines(killed: Agent) -> None:
    name = fresh_name()
    killed.client().launch(spec(name, command(ALTERNATING, 40, 0.1)))
    wait_for_lines(killed, name, 10)
    killed.kill()
    wait_for_lines(killed, name, 25)
    killed.start()
    client = killed.client(epoch=2)
    client.ended(name)
    assert lines_of(both(client, name)["pieces"]) == expected(40)


def test_order_is_exact_though_the_recorder_is_killed(killed: Agent, tmp_path: Path) -> None:
    _check_order_without_first_recorder(killed, tmp_path / "go")


def test_recorder_is_started_again_though_a_timer_fires_early(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "agent", (sys.executable, "-c", WITH_EARLY_TIMERS))
    try:
        _check_order_without_first_recorder(agent, tmp_path / "go")
    finally:
        agent.stop()


def _check_order_without_first_recorder(agent: Agent, go: Path) -> None:
    """The second half of the lines is written once there is another recorder."""
    name = fresh_name()
    client = agent.client()
    client.launch(spec(name, command(IN_HALVES, 20, 0.1, go)))
    (old,) = until(lambda: recorders_of(agent), "a recorder")
    wait_for_lines(agent, name, 10)
    os.kill(old, signal.SIGKILL)
    until(lambda: [pid for pid in recorders_of(agent) if pid != old], "the next recorder")
    go.touch()
    client.ended(name)
    assert lines_of(both(client, name)["pieces"]) == expected(20)


def test_order_is_noted_where_the_kernel_reports_nothing(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "agent", (sys.executable, "-c", WITHOUT_REPORTS))
    try:
        name = fresh_name()
        client = agent.client()
        client.launch(spec(name, command(NOTED, 10)))
        client.ended(name)
        assert lines_of(both(client, name)["pieces"]) == expected(10)
    finally:
        agent.stop()


def test_lines_written_in_one_moment_are_in_order_where_they_alternate(shared_agent: Agent) -> None:
    name, client = fresh_name(), shared_agent.client()
    client.launch(spec(name, command(ALTERNATING, 9, 0)))
    client.ended(name)
    assert lines_of(both(client, name)["pieces"]) == expected(9)


def test_output_that_is_flushed_at_the_end_comes_before_a_traceback(shared_agent: Agent) -> None:
    name, client = fresh_name(), shared_agent.client()
    client.launch(spec(name, [sys.executable, "-S", "-c", "print('step 1')\nraise ValueError('no data')"]))
    client.ended(name)
    pieces = both(client, name)["pieces"]
    assert [stream for stream, _ in pieces] == ["out", "err"]


def test_output_of_an_attempt_that_runs_is_told(shared_agent: Agent, tmp_path: Path) -> None:
    name, client = fresh_name(), shared_agent.client()
    client.launch(spec(name, command(WAITING, tmp_path / "go")))
    (told,) = until(lambda: [each for each in [both(client, name)] if len(each.get("pieces", ())) == 2], "both lines")
    assert told["ended"] is False
    assert lines_of(told["pieces"]) == [("out", b"begun"), ("err", b"begun")]
    (tmp_path / "go").touch()
    client.ended(name)
    rest = both(client, name, (6, 6))
    assert (rest["pieces"], rest["ended"], rest["size"]) == ([], True, [6, 6])


def test_recorder_stays_with_an_attempt_and_ends_with_it(killed: Agent, tmp_path: Path) -> None:
    name = fresh_name()
    killed.client().launch(spec(name, command(WAITING, tmp_path / "go")))
    until((killed.directory / "attempts" / name / order.INDEX).exists, "the first record")
    (pid,) = recorders_of(killed)
    killed.kill()
    os.kill(pid, signal.SIGTERM)
    until(killed.leftovers, "the attempt, which runs on")
    assert recorders_of(killed) == [pid], "it ignores what a scheduler sends to all"
    (tmp_path / "go").touch()
    until(lambda: not recorders_of(killed), "the end of the recorder")


def test_agent_that_runs_nothing_has_no_recorder(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "agent")
    agent.client().sync()
    assert recorders_of(agent) == []
    agent.stop()


def test_attempt_whose_folder_is_hostile_loses_nothing_but_the_order(shared_agent: Agent) -> None:
    code = "import os\nos.mkfifo('.order')\nos.write(2, b'e\\n')\nos.write(1, b'o\\n')"
    name, client = fresh_name(), shared_agent.client()
    client.launch(spec(name, command(code)))
    client.ended(name)
    assert sorted(lines_of(both(client, name)["pieces"])) == [("err", b"e"), ("out", b"o")]


@pytest.mark.parametrize("offset", [0, None, [0], [0, 0, 0], ["0", 0], [1 << 63, 0], [0.0, 0]])
def test_offsets_that_are_not_two_integers_are_refused(shared_agent: Agent, offset: object) -> None:
    client = shared_agent.client()
    client.send(type="read", id=1, attempt="j1.1", stream="both", offset=offset, limit=10)
    assert "offset" in client.message("error")["error"]


def test_two_writes_apart_in_time_have_an_order_though_they_are_noted_together(tmp_path: Path) -> None:
    for name, at in (("err", 100.0), ("out", 100.2)):
        (tmp_path / name).write_bytes(b"x\n")
        os.utime(tmp_path / name, (at, at))
    watched = recorder.Watched(str(tmp_path), None, recorder.Runs())
    watched.note(*watched.sizes(), True)
    assert [name for name, _ in order.merged(str(tmp_path), (0, 0), 10, True).pieces] == ["err", "out"]


def test_rotation_of_a_stream_is_followed(tmp_path: Path) -> None:
    watched = recorder.Watched(str(tmp_path), None, recorder.Runs())
    for turn in range(40):
        for name in order.STREAMS:
            with (tmp_path / name).open("ab") as output:
                output.write(b"%s %02d\n" % (name.encode(), turn))
            logs.rotate(str(tmp_path / name), 100)
            watched.note(*watched.sizes(), True)
    told = order.merged(str(tmp_path), (0, 0), 1000, True)
    assert told.size == (280, 280)
    last = [line for _, data in told.pieces[-8:] for line in data.splitlines()]
    assert last == [b"%s %02d" % (name, turn) for turn in range(36, 40) for name in (b"out", b"err")]
