"""Attempts from launch to ``ended``, against a real agent."""

from __future__ import annotations

import base64
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.agent import procs

from .harness import Agent, Client, Json, alive, fresh_name, until

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 1:
    if os.fork() == 0:
        os.setsid()
os.write(1, b"%d\\n" % os.getpid())  # in one piece: two processes write here
time.sleep(3600)
"""


def attempt(name: str, *argv: str, **more: Any) -> Json:
    return {"id": name, "queue": "cpu0", "argv": list(argv), **more}


def shell(name: str, script: str, **more: Any) -> Json:
    return attempt(name, "sh", "-c", script, **more)


def text(client: Client, name: str, stream: str = "out") -> str:
    return base64.b64decode(client.read(name, stream)["data"]).decode()


def pids_in(path: Path, count: int) -> list[int]:
    def read() -> list[int]:
        words = path.read_text().split() if path.exists() else []
        return [int(word) for word in words] if len(words) == count else []

    return until(read, f"{count} pids in {path}")


def test_success(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "echo out; echo err >&2"))
    ended = client.ended("j1.1")
    started = client.fact("started", attempt="j1.1")
    assert (ended["exit_code"], ended["signal"], ended["reason"], ended["error"]) == (0, None, None, None)
    assert started["at"] == ended["started_at"] <= ended["at"]
    assert ended["cpu_s"] >= 0
    assert started["seq"] < ended["seq"]
    assert (text(client, "j1.1"), text(client, "j1.1", "err")) == ("out\n", "err\n")


def test_exit_code_and_signal(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "exit 42"), shell("j2.1", "kill -SEGV $$"), shell("j3.1", "kill -KILL $$"))
    assert client.ended("j1.1")["exit_code"] == 42
    assert client.ended("j2.1")["signal"] == signal.SIGSEGV
    assert (client.ended("j3.1")["signal"], client.ended("j3.1")["reason"]) == (signal.SIGKILL, None)


def test_environment_and_cwd(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    script = 'echo "$A:${HOME-none}:$HOSTLER_ATTEMPT:$HOSTLER_ATTEMPT_DIR:$HOSTLER_RESULT:$(pwd)"'
    client.launch(
        shell("j1.1", script, env={"A": "x y;é\n", "HOME": None}, cwd=str(tmp_path)),
        shell("j2.1", "pwd; exec cat /proc/self/status", env={"A": "b"}),
    )
    client.ended("j2.1")
    folder = agent.directory / "attempts" / "j1.1"
    assert text(client, "j1.1") == f"x y;é\n:none:j1.1:{folder}:{folder}/result.json:{tmp_path}\n"
    lines = text(client, "j2.1").splitlines()
    assert lines[0] == str(agent.directory / "attempts" / "j2.1")
    status = dict(line.split(":\t", 1) for line in lines[1:] if ":\t" in line)
    libc_own = 1 << 31 | 1 << 32  # signals 32 and 33 are the C library's, and nobody else can set them
    assert int(status["SigIgn"], 16) & ~libc_own == 0
    assert int(status["SigBlk"], 16) == 0


def test_only_three_descriptors(agent: Agent) -> None:
    client = agent.client()
    program = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1], os.readlink('/proc/self/fd/0'))"
    limited = attempt("j2.1", sys.executable, "-c", program, memory_bytes=4 << 30)
    client.launch(attempt("j1.1", sys.executable, "-c", program), limited)
    client.ended("j2.1")
    assert text(client, "j1.1") == text(client, "j2.1") == "[0, 1, 2] /dev/null\n"


@pytest.mark.parametrize(
    ("argv", "more", "reason", "words"),
    [
        (["no-such-program"], {}, "command", "no such program in PATH"),
        (["./missing"], {}, "script", "there is no program './missing' in "),
        (["/missing"], {}, "command", "No such file"),
        (["/dev"], {}, "command", "Permission denied"),
        (["true"], {"cwd": "/no/such/folder"}, "command", "working directory"),
        (["true", "x" * (1 << 20)], {}, "refused", "too long"),
        (["true", "\ud800"], {}, "refused", "surrogates"),
        (["true", "a\0b"], {}, "refused", "NUL"),
        ([], {}, "refused", "argv"),
        (["true"], {"env": {"A": 1}}, "refused", "env"),
        (["true"], {"env": {"A=B": "1"}}, "refused", "env"),
        (["true"], {"colour": "red"}, "refused", "colour"),
        (["no-such-program"], {"memory_bytes": 1 << 30}, "command", "no such program"),
        (["/dev"], {"memory_bytes": 1 << 30}, "command", "Permission denied"),
        (["/bin/sh", "deep/gone.sh", "x"], {}, "script", "there is no file 'deep/gone.sh' in "),
        (["sh", "gone"], {}, "script", "there is no file 'gone' in "),
        (["bash", "-euo", "pipefail", "gone"], {}, "script", "there is no file 'gone' in "),
        (["python3", "-u", "-W", "error", "gone"], {}, "script", "there is no file 'gone' in "),
        (["sh", "/gone"], {}, "command", "there is no file '/gone' in "),
        (["/usr/bin/python3.8", "/gone.py"], {}, "command", "there is no file '/gone.py' in "),
        (["bash", "gone.sh"], {"cwd": "/no/such/folder"}, "command", "working directory"),
    ],
)
def test_what_cannot_be_started(shared_agent: Agent, argv: list[str], more: Json, reason: str, words: str) -> None:
    client = shared_agent.client()
    bad, good = fresh_name(), fresh_name()
    client.launch(attempt(bad, *argv, **more), attempt(good, "true"))
    ended = client.ended(bad)
    assert ended["reason"] == reason
    assert words in ended["error"]
    assert ended["started_at"] is None
    assert client.ended(good)["exit_code"] == 0


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "exit 5", "gone.sh"],
        ["sh", "true"],
        ["sh", "-ec", "exit 5", "gone.sh"],
        ["true", "gone.py"],
        ["sh", "there.sh"],
    ],
)
def test_only_a_script_of_an_interpreter_is_looked_for(shared_agent: Agent, argv: list[str], tmp_path: Path) -> None:
    (tmp_path / "there.sh").write_text("exit 5")
    client, name = shared_agent.client(), fresh_name()
    client.launch(attempt(name, *argv, cwd=str(tmp_path)))
    ended = client.ended(name)
    assert (ended["reason"], ended["exit_code"] is None) == (None, False)


@pytest.mark.parametrize(
    ("text", "mode", "reason", "words"),
    [
        ("exit 5", 0o644, "script", "'./run' in "),
        ("#!/no/such/shell\nexit 5", 0o755, "command", "its first line names '/no/such/shell'"),
        ("#!/usr/bin/env no-such-shell\nexit 5", 0o755, "command", "its first line names 'no-such-shell'"),
    ],
)
def test_a_program_of_the_folder_that_cannot_run_is_named(
    shared_agent: Agent, text: str, mode: int, reason: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "run").write_text(text)
    (tmp_path / "run").chmod(mode)
    client, name = shared_agent.client(), fresh_name()
    client.launch(attempt(name, "./run", cwd=str(tmp_path)))
    ended = client.ended(name)
    assert (ended["reason"], ended["started_at"]) == (reason, None)
    assert words in ended["error"]


def test_a_program_without_a_format_never_starts(shared_agent: Agent, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x00\x01 neither a binary nor a script")
    program.chmod(0o755)
    client, name = shared_agent.client(), fresh_name()
    client.launch(attempt(name, str(program)))
    ended = client.ended(name)
    assert (ended["reason"], "format" in ended["error"]) == ("command", True)


def test_program_is_found_through_the_merged_path(agent: Agent, tmp_path: Path) -> None:
    program = tmp_path / "my tool;"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    client = agent.client()
    client.launch(
        attempt("j1.1", "my tool;", env={"PATH": f"/nowhere:{tmp_path}"}),
        attempt("j2.1", "./my tool;", cwd=str(tmp_path)),
    )
    assert client.ended("j2.1")["exit_code"] == 0
    assert text(client, "j1.1") == text(client, "j2.1") == "found\n"


@pytest.mark.parametrize(
    ("script", "result", "words"),
    [
        ("true", None, None),
        ("""echo '{"score": 0.5}' > $HOSTLER_RESULT""", {"score": 0.5}, None),
        ("""printf '{"score": 0.' > $HOSTLER_RESULT""", None, "no JSON"),
        ("echo NaN > $HOSTLER_RESULT", None, "NaN is a number that JSON does not have; write null"),
        ("echo '{\"loss\": -Infinity}' > $HOSTLER_RESULT", None, "-Infinity is a number that JSON does not have"),
        ("echo '{\"loss\": 1e999}' > $HOSTLER_RESULT", None, "1e999 is too large for a number; write null"),
        ("echo '[1e999]' > $HOSTLER_RESULT", None, "too large"),
        ("(printf '%0400d' 0 | tr 0 '['; printf '%0400d' 0 | tr 0 ']') > $HOSTLER_RESULT", None, "deeper"),
        ("""printf '["\\ud800"]' > $HOSTLER_RESULT""", ["\ud800"], None),
        ("head -c 2000 /dev/zero > $HOSTLER_RESULT", None, "longer than"),
        ("mkfifo $HOSTLER_RESULT", None, "regular file"),
        ("ln -s /dev/zero $HOSTLER_RESULT", None, "symbolic link"),
        ("mkdir $HOSTLER_RESULT", None, "result"),
    ],
)
def test_result(shared_agent: Agent, script: str, result: Any, words: str | None) -> None:
    client = shared_agent.client()
    name = fresh_name()
    client.launch(shell(name, script, result_bytes=1000))
    ended = client.ended(name)
    assert ended["exit_code"] == 0
    assert ended["result"] == result
    assert (words is None and ended["result_error"] is None) or words in ended["result_error"]


def test_walltime(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600", walltime_s=0.2))
    ended = client.ended("j1.1")
    assert (ended["reason"], ended["signal"]) == ("walltime", signal.SIGTERM)


def test_stop_kills_what_ignores_term_with_all_its_tree(agent: Agent) -> None:
    client = agent.client()
    out = agent.directory / "attempts" / "j1.1" / "out"
    client.launch(attempt("j1.1", sys.executable, "-c", STUBBORN, "fork", grace_s=0.3))
    pids = pids_in(out, 2)
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    ended = client.ended("j1.1")
    assert (ended["reason"], ended["signal"], ended["error"]) == ("stopped", signal.SIGKILL, "cancelled")
    until(lambda: not any(map(alive, pids)), "the end of the whole tree")


def test_stragglers_in_another_session_end_with_a_stopped_attempt(agent: Agent) -> None:
    client = agent.client()
    out = agent.directory / "attempts" / "j1.1" / "out"
    client.launch(shell("j1.1", "setsid sh -c 'echo $$; exec sleep 3600' & echo $$; sleep 3600"))
    pids = pids_in(out, 2)
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    assert client.ended("j1.1")["signal"] == signal.SIGTERM
    until(lambda: not any(map(alive, pids)), "the end of the whole tree")


def test_process_group_ends_with_its_leader(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "sleep 3600 & echo $!"))
    assert client.ended("j1.1")["exit_code"] == 0
    pid = int(text(client, "j1.1"))
    until(lambda: not alive(pid), "the end of the background process")


def test_stop_of_queued_and_unknown(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"), attempt("j2.1", "true"))
    client.fact("started", attempt="j1.1")
    client.send(type="stop", attempts=["j2.1", "j9.9", "j1.1"], reason="cancelled")
    assert client.ended("j2.1")["reason"] == "stopped"
    assert client.ended("j2.1")["started_at"] is None
    assert client.ended("j9.9")["reason"] == "unknown"
    assert client.ended("j1.1")["reason"] == "stopped"
    assert not (agent.directory / "attempts" / "j2.1").exists()


TAKE = """
import mmap, os, sys, time
megabytes, way, ready = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if way == "reserved":  # as CUDA does: address space that is never touched
    held = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | 0x4000)
elif way == "shared":  # one piece of memory, in the resident size of each of four processes
    held = mmap.mmap(-1, megabytes << 20)
    for _ in range(3):
        if os.fork() == 0:
            for at in range(megabytes):
                held[at << 20 : at + 1 << 20] = b"y" * (1 << 20)
            time.sleep(3600)
    for at in range(megabytes):
        held[at << 20 : at + 1 << 20] = b"x" * (1 << 20)
elif way == "children":  # each a quarter, in a session of its own
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            held = b"x" * (megabytes << 18)
            time.sleep(3600)
else:
    held = b"x" * (megabytes << 20)
while way != "reserved" and way != "shared" and not os.path.exists(ready):
    time.sleep(0.01)
time.sleep(2)
"""


@pytest.mark.parametrize("way", ["alone", "children"])
def test_memory_limit_ends_an_attempt_that_takes_more(agent: Agent, tmp_path: Path, way: str) -> None:
    client = agent.client()
    argv = (sys.executable, "-c", TAKE, "700", way, str(tmp_path / "never"))
    client.launch(attempt("j1.1", *argv, memory_bytes=400 << 20, grace_s=3600))
    ended = client.ended("j1.1")
    assert (ended["reason"], ended["exit_code"]) == ("memory", None)
    assert re.fullmatch(r"its processes took \d\.\d\d GiB of memory, more than its 0\.39 GiB", ended["error"])
    assert not procs.carriers(f"HOSTLER_ATTEMPT_DIR={agent.directory}/attempts/j1.1")


@pytest.mark.parametrize("way", ["reserved", "shared"])
def test_memory_limit_counts_resident_memory_once(agent: Agent, tmp_path: Path, way: str) -> None:
    client = agent.client()
    argv = (sys.executable, "-c", TAKE, "250", way, str(tmp_path / "never"))
    client.launch(attempt("j1.1", *argv, memory_bytes=400 << 20))
    ended = client.ended("j1.1")
    assert (ended["exit_code"], ended["reason"], ended["error"]) == (0, None, None)


def test_memory_limit_holds_for_an_attempt_that_is_adopted(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    argv = (sys.executable, "-c", "import os,sys,time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
            "held = b'x' * (700 << 20); time.sleep(3600)", str(tmp_path / "go"))  # fmt: skip
    client.launch(attempt("j1.1", *argv, memory_bytes=400 << 20))
    client.fact("started", attempt="j1.1")
    agent.kill_supervisor()
    client = agent.client(epoch=2)
    (tmp_path / "go").touch()
    assert client.ended("j1.1")["reason"] == "memory"


def test_one_queue_runs_in_order_and_queues_run_side_by_side(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    log = tmp_path / "log"
    scripts = [shell(f"a.{n}", f"echo begin {n} >> {log}; sleep 0.02; echo end {n} >> {log}") for n in range(5)]
    waiting = shell("b.1", f"while ! grep -q 'end 4' {log}; do sleep 0.01; done", queue="cpu1")
    client.launch(waiting, *scripts)
    client.ended("b.1")
    assert log.read_text().split("\n")[:-1] == [f"{what} {n}" for n in range(5) for what in ("begin", "end")]


def test_launch_is_idempotent_until_acknowledged(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    once = shell("j1.1", f"echo ran >> {tmp_path}/log")
    client.launch(once, once)
    client.launch(once)
    client.ended("j1.1")
    client.launch(once)
    client.sync()
    assert (tmp_path / "log").read_text() == "ran\n"
    client.ack()
    client.launch(once)
    until(lambda: (tmp_path / "log").read_text() == "ran\nran\n", "the second run")


def test_logs_rotate_and_offsets_count_every_byte(agent: Agent) -> None:
    client = agent.client()
    # The agent loses bytes written between its copy and its truncation (`agent.logs`), so the program writes none then.
    # Each block is one write, and its first page alone does not reach the size at which the agent rotates.
    program = """if True:
        import os, time
        lines = [b"%07d\\n" % n for n in range(1750)]
        for start in (0, 750):
            os.write(1, b"".join(lines[start : start + 750]))
            while os.fstat(1).st_size:
                time.sleep(0.01)
        os.write(1, b"".join(lines[1500:]))
    """
    client.launch(attempt("j1.1", sys.executable, "-c", program, log_bytes=10_000))
    client.ended("j1.1")
    folder = agent.directory / "attempts" / "j1.1"
    answer = client.read("j1.1", offset=-80)
    assert (folder / "out.1").exists()
    assert answer["ended"] is True
    data = base64.b64decode(answer["data"])
    assert data.endswith(b"0001749\n")
    assert answer["size"] == 1750 * 8
    assert answer["offset"] == answer["size"] - len(data)
    oldest = client.read("j1.1")
    assert oldest["offset"] > 0
    assert base64.b64decode(oldest["data"])[:8] == b"%07d\n" % (oldest["offset"] // 8)


def test_read_of_a_running_attempt_and_of_nothing(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "echo hello; sleep 3600"))
    until(lambda: client.read("j1.1").get("size") == 6, "some output")
    answer = client.read("j1.1", offset=1, limit=3)
    assert (base64.b64decode(answer["data"]), answer["offset"], answer["ended"]) == (b"ell", 1, False)
    assert "No such file" in client.read("j9.9")["error"]
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")


def test_discard_and_reuse_of_folders(agent: Agent) -> None:
    client = agent.client()
    attempts = agent.directory / "attempts"
    client.launch(attempt("quiet.1", "true"), shell("loud.1", "echo hello"), shell("files.1", "touch x"))
    client.ended("files.1")
    client.send(type="discard", attempts=["quiet.1", "loud.1", "files.1"])
    client.sync()
    assert os.listdir(attempts) == ["quiet.1"]
    spare = (attempts / "quiet.1").stat().st_ino
    client.launch(shell("next.1", "ls -A; echo $HOSTLER_ATTEMPT_DIR"))
    client.ended("next.1")
    assert text(client, "next.1") == f"err\nout\n{attempts}/next.1\n"
    assert os.listdir(attempts) == ["next.1"]
    assert (attempts / "next.1").stat().st_ino == spare


def test_spare_folders_go_with_their_agent(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "true"), attempt("j2.1", "sleep", "3600"))
    client.fact("started", attempt="j2.1")
    client.send(type="discard", attempts=["j1.1"])
    client.sync()
    agent.kill_supervisor()
    assert os.listdir(agent.directory / "attempts") == ["j2.1"]
    agent.client().send(type="stop", attempts=["j2.1"], reason="cancelled")


def test_a_spare_folder_may_get_its_old_name_again(agent: Agent) -> None:
    client = agent.client()
    for _ in range(3):
        client.launch(attempt("j1.1", "true"))
        assert client.ended("j1.1")["left"] is False
        client.ack()
        client.send(type="discard", attempts=["j1.1"])
        client.sync()
        client.facts.clear()


def test_folder_of_an_attempt_whose_orphan_was_ended_holds_nothing_of_it(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    flag = tmp_path / "flag"
    orphan = f"trap : TERM; touch {flag}; while true; do echo late > late; done"
    client.launch(shell("j1.1", f'setsid sh -c "{orphan}" & while ! [ -e {flag} ]; do sleep 0.01; done'))
    client.ended("j1.1")
    assert agent.leftovers() == []
    client.send(type="discard", attempts=["j1.1"])
    client.launch(shell("j2.1", "test ! -e late"))
    assert client.ended("j2.1")["exit_code"] == 0


def test_discard_of_a_running_attempt_is_refused(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"))
    client.send(type="discard", attempts=["j1.1"])
    assert "not ended" in client.message("error")["error"]
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")


def test_lanes_and_jobs_on_several_devices_are_queues_of_their_own(agent: Agent) -> None:
    client = agent.client()
    queues = ("cuda0", "cuda0.1", "cuda0.2", "cuda0+cuda1")
    client.launch(*(shell(f"j{at}.1", "sleep 60", grace_s=0.1, queue=queue) for at, queue in enumerate(queues)))
    for at in range(len(queues)):
        client.fact("started", attempt=f"j{at}.1")
    client.launch(shell("j9.1", "true", queue="cuda0.1"))
    client.sync()
    assert not [fact for fact in client.facts if fact["attempt"] == "j9.1"], "a lane is a queue like any other"
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    assert client.ended("j9.1")["exit_code"] == 0


def test_an_attempt_without_its_room_is_not_started(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    ran = tmp_path / "ran"
    client.launch(shell("j1.1", f"touch {ran}", disk_bytes=1 << 60), shell("j2.1", "true", disk_bytes=1))
    ended = client.ended("j1.1")
    assert (ended["reason"], ended["exit_code"], ended["started_at"]) == ("full", None, None)
    assert ended["error"].startswith("it needs 1.07e+09 GB of free space, ")
    assert not ran.exists()
    assert client.ended("j2.1")["exit_code"] == 0, "the next in its queue goes on"


def test_room_is_looked_for_where_it_writes(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "true", disk_bytes=1 << 60, cwd=str(tmp_path)))
    assert client.ended("j1.1")["reason"] == "full"
    client.launch(shell("j2.1", "true", disk_bytes=1, env={"HOSTLER_ARTIFACTS": "/nobody/has/this"}))
    assert client.ended("j2.1")["exit_code"] == 0, "what cannot be measured refuses nothing"
