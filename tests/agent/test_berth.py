"""The agent in an allocation: real berths, without a cluster around them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.connection import connect
from hostler.agent.protocol import ALLOCATION_ENDS
from hostler.backends.slurm.cancelling import NOBODY

from .harness import PATIENCE_S, SOURCE, Json, alive, fill, until
from .test_attempts import attempt, shell
from .test_workers import worker

PATIENT = f"doubts.DOUBT_S = {PATIENCE_S}"
HELLO: Json = {"type": "hello", "protocol": 1, "controller": "test", "epoch": 1, "ack": 0}


class Berth:
    """A berth as a batch script would start it, and the controller's side of its streams."""

    def __init__(
        self, root: Path, *first: Json, task: int = 0, idle_s: float = 0, patch: str = "pass", **env: str
    ) -> None:
        self.root, self.task = root, task
        self.batch = root / "jobs" / "b1"
        self.number = int(env.get("SLURM_RESTART_COUNT", 0))
        self.folder = self.batch / str(task) / str(self.number)
        if first:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            (self.folder.parent / "first.in").write_bytes(lines(*first))
        program = f"import sys; from hostler.agent import __main__, berth, doubts; {patch}; sys.exit(__main__.main())"
        command = [sys.executable, "-c", program, "berth", "--root", str(root), "--token", "b1"]
        more = {"SLURM_JOB_ID": "823", "PYTHONPATH": str(SOURCE), **env}
        command += ["--idle-s", str(idle_s), "--task", str(task)]
        with tempfile.TemporaryFile() as errors:
            self._errors = os.dup(errors.fileno())
            self.process = subprocess.Popen(command, env={**os.environ, **more}, cwd="/", stderr=errors)

    @property
    def words(self) -> str:
        """What it has written to its standard error, until it is closed."""
        return os.pread(self._errors, 1 << 20, 0).decode()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        os.close(self._errors)

    def up(self) -> Berth:
        until(self._is_up, "the agent's socket")
        return self

    def _is_up(self) -> bool:
        try:
            connect(str(self.folder), 5.0).close()
        except OSError:
            return False
        return True

    def say(self, *messages: Json, stream: str = "e1-1") -> None:
        with (self.folder / "streams" / f"{stream}.in").open("ab") as target:
            target.write(lines(*messages))

    def said(self, stream: str = "first") -> list[Json]:
        path = self.folder / "streams" / f"{stream}.out"
        whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
        return [json.loads(line) for line in whole.splitlines()]

    def output(self, attempt: str) -> str:
        path = self.root / "attempts" / attempt / "out"
        return path.read_text() if path.exists() else ""

    def facts(self, stream: str = "first") -> list[Json]:
        return [fact for message in self.said(stream) if message["type"] == "facts" for fact in message["facts"]]

    def fact(self, kind: str, stream: str = "first", **fields: Any) -> Json:
        def find() -> Json | None:
            for fact in self.facts(stream):
                if fact["fact"] == kind and all(fact[key] == value for key, value in fields.items()):
                    return fact
            return None

        return until(find, f"a fact {kind} {fields}") or {}

    def news(self, what: str) -> Json:
        path = self.batch / "news" / f"{self.task}.{self.number}.{what}"
        until(path.exists, f"the news {path.name}")
        told: Json = json.loads(path.read_bytes())
        return told

    def ending(self, status: int = 0) -> Json:
        assert self.process.wait(PATIENCE_S) == status, self.words
        told = self.news("ended")
        assert told["status"] == status
        return told

    @property
    def keeper(self) -> int:
        return children(self.process.pid)[0]

    @property
    def supervisor(self) -> int:
        path = str(self.folder / "journal.jsonl")
        return until(lambda: [pid for pid in children(self.keeper) if holds(pid, path)], "the supervisor")[0]


def children(pid: int) -> list[int]:
    return [int(item) for item in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def holds(pid: int, path: str) -> bool:
    with suppress(OSError):
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") == path for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


def lines(*messages: Json) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def launch(*attempts: Json) -> Json:
    return {"type": "launch", "attempts": list(attempts)}


Begin = Callable[..., Berth]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts berths in a folder; what they leave behind is ended, and is a failure."""
    root, begun = tmp_path / "root", list[Berth]()
    root.mkdir(exist_ok=True)

    def start(*first: Json, root: Path = root, **more: Any) -> Berth:
        begun.append(Berth(root, *first, **more))
        return begun[-1]

    yield start
    for berth in begun:
        berth.close()
    try:
        until(lambda: not left_by(tmp_path), "the end of what a killed berth leaves to end by itself")
    finally:
        for pid in left_by(tmp_path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def left_by(folder: Path) -> list[int]:
    """Those who carry it in their environment, or in their command line."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            if os.fsencode(folder) + b"/root" in words and b"\0post\0" not in words:
                found.append(pid)
    return [pid for pid in found if alive(pid)]


def test_a_task_is_done_and_told_of(begin: Begin) -> None:
    berth = begin(HELLO, launch(shell("j1.1", "echo out; pwd; echo '[7]' > $HOSTLER_RESULT")), SLURM_ARRAY_JOB_ID="820")
    told = berth.ending()
    assert (told["why"], told["signal"], told["error"]) == ("done", None, None)
    began = berth.news("began")
    assert began == json.loads((berth.folder / "claim").read_bytes())
    assert (began["job"], began["array_job"], began["task"], began["run"]) == ("823", "820", None, 0)
    assert began["pid"] == berth.process.pid
    assert began["at"] <= told["at"]
    ended = berth.fact("ended", attempt="j1.1")
    assert (ended["exit_code"], ended["result"], ended["left"]) == (0, [7], True)
    assert (berth.root / "attempts" / "j1.1" / "out").read_text() == f"out\n{berth.root}/attempts/j1.1\n"
    streams = sorted(os.listdir(berth.folder / "streams"))
    assert streams == ["first.closed", "first.out"]
    assert not (berth.folder / "agent.sock").exists()
    assert {path.stat().st_mode & 0o777 for path in (berth.folder, berth.batch / "news")} == {0o700}


def test_what_slurm_says_is_in_the_first_news(begin: Begin) -> None:
    env = {
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_JOB_END_TIME": "1763700000",
        "SLURM_CPUS_ON_NODE": "12",
        "SLURM_JOB_GPUS": "0,1",
        "CUDA_VISIBLE_DEVICES": "2,3",
    }
    began = begin(HELLO, launch(shell("j1.1", "echo $CUDA_VISIBLE_DEVICES")), task=3, **env).news("began")
    assert (began["task"], began["ends_at"], began["cpus"], began["gpus"]) == (3, 1763700000, 12, "0,1")
    assert begin(task=4).news("began")["ends_at"] is None


def idle_from(gate: Path) -> str:
    """The patch that starts the idle time once the file exists, however long the agent takes to start."""
    name = "berth.Allocation.say_all_is_said"
    return f"say = {name}; {name} = lambda self: berth.os.path.exists({str(gate)!r}) and say(self)"


def test_secrets_leave_the_shared_folder_once_they_are_read(begin: Begin) -> None:
    value = "planted-value"
    job = shell("j1.1", 'printf %s "$TOKEN" | wc -c > $HOSTLER_RESULT', secrets={"TOKEN": value})
    berth = begin(HELLO, {"type": "launch", "attempts": [job]}).up()
    assert berth.fact("ended", attempt="j1.1")["result"] == len(value)
    berth.ending()
    left = [path for path in berth.root.rglob("*") if path.is_file() and value in path.read_text("latin-1")]
    assert left == []


def test_an_idle_allocation_ends_by_itself_whatever_is_connected_and_unacknowledged(
    begin: Begin, tmp_path: Path
) -> None:
    berth = begin(idle_s=1, patch=idle_from(tmp_path / "all_said")).up()
    began = time.monotonic()
    berth.say(HELLO, launch(attempt("j1.1", "sleep", "1.5")))
    berth.fact("started", stream="e1-1", attempt="j1.1")
    (tmp_path / "all_said").touch()
    berth.fact("ended", stream="e1-1", attempt="j1.1")
    assert time.monotonic() - began > 1.5
    assert berth.ending()["why"] == "idle"
    assert time.monotonic() - began > 2.4
    assert (berth.folder / "streams" / "e1-1.closed").exists()


def test_the_idle_time_begins_when_all_that_was_to_be_said_first_is_said(begin: Begin) -> None:
    """More than fits on its way to the agent at once."""
    fat = [launch(attempt(f"j{number}.1", "true", "x" * 100_000)) for number in range(30)]
    berth = begin(HELLO, *fat)
    assert berth.ending()["why"] == "done"
    assert {fact["attempt"] for fact in berth.facts() if fact["fact"] == "ended"} == {f"j{n}.1" for n in range(30)}


def test_chunks_of_a_worker(begin: Begin) -> None:
    opening = {"type": "open", "worker": worker()}
    chunks = {"type": "chunks", "worker": "w1", "chunks": [["c.1", 0, 100], ["c.2", 100, 200]]}
    berth = begin(HELLO, opening, chunks)
    assert berth.ending()["why"] == "done"
    assert [fact["chunk"] for fact in berth.facts() if fact["fact"] == "chunk_done"] == ["c.1", "c.2"]


def test_a_job_that_was_submitted_twice_does_nothing(begin: Begin) -> None:
    first = begin(HELLO, launch(attempt("j1.1", "sleep", "3600")))
    first.fact("started", attempt="j1.1")
    before = sorted(first.batch.rglob("*"))
    for env in ({"SLURM_JOB_ID": "824"}, {"SLURM_JOB_ID": "824", "SLURM_RESTART_COUNT": "1"}, {}):
        second = begin(**env)
        assert second.process.wait(PATIENCE_S) == 0
        until(lambda second=second: "nothing is done here" in second.words, "its words")
    assert sorted(first.batch.rglob("*")) == before
    assert len([fact for fact in first.facts() if fact["fact"] == "started"]) == 1


def test_a_task_that_the_controller_has_barred_is_not_begun(begin: Begin, tmp_path: Path) -> None:
    task = tmp_path / "root" / "jobs" / "b1" / "0"
    task.mkdir(parents=True)
    (task / "claim").write_text(NOBODY)
    berth = begin(HELLO, launch(attempt("j1.1", "sleep", "3600")))
    assert berth.process.wait(PATIENCE_S) == 0
    assert "job nobody's; nothing is done here" in berth.words
    assert sorted(os.listdir(task)) == ["claim", "first.in"]


def test_a_job_that_was_requeued_goes_on_in_a_folder_of_its_own(begin: Begin) -> None:
    first = begin(HELLO, launch(attempt("j1.1", "sleep", "3600")))
    first.fact("started", attempt="j1.1")
    first.process.terminate()
    assert first.ending()["why"] == "signal"
    second = begin(SLURM_RESTART_COUNT="1", idle_s=600).up()
    assert second.news("began")["run"] == 1
    second.say(HELLO, launch(attempt("j1.2", "true")))
    second.fact("ended", stream="e1-1", attempt="j1.2")
    assert second.facts("first") == []
    second.say({"type": "shutdown", "when": "now"})
    assert second.ending()["why"] == "told"


def test_hanging_up_and_coming_again(begin: Begin) -> None:
    berth = begin(idle_s=600).up()
    berth.say(HELLO, launch(attempt("j1.1", "true")))
    berth.fact("ended", stream="e1-1", attempt="j1.1")
    berth.say(launch(attempt("j2.1", "true")))
    (berth.folder / "streams" / "e1-1.bye").touch()
    until((berth.folder / "streams" / "e1-1.closed").exists, "the end of the stream")
    berth.say(HELLO, stream="e2-1")
    berth.fact("ended", stream="e2-1", attempt="j2.1")
    berth.say({**HELLO, "epoch": 0}, stream="e0-1")
    until((berth.folder / "streams" / "e0-1.closed").exists, "the refusal")
    assert [message["type"] for message in berth.said("e0-1")] == ["refused"]
    berth.say({"type": "here"}, stream="../../../../outside")
    berth.say({"type": "shutdown", "when": "now"}, stream="e2-1")
    assert berth.ending()["why"] == "told"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything(begin: Begin, number: int) -> None:
    opening = {"type": "open", "worker": worker(params={"every": 10, "delay_s": 60})}
    chunks = {"type": "chunks", "worker": "w1", "chunks": [["c.1", 0, 100]]}
    berth = begin(HELLO, launch(attempt("j1.1", "sleep", "3600"), attempt("j2.1", "true")), opening, chunks)
    pid = berth.fact("started", attempt="j1.1")["pid"]
    berth.process.send_signal(number)
    told = berth.ending()
    assert (told["why"], told["signal"]) == ("signal", signal.Signals(number).name)
    for name in ("j1.1", "j2.1"):
        ended = berth.fact("ended", attempt=name)
        assert ended["reason"] == "stopped"
        assert ended["error"].startswith(ALLOCATION_ENDS)
    assert berth.fact("returned", chunk="c.1")["error"].startswith(ALLOCATION_ENDS)
    assert not alive(pid)


def test_everybody_is_sent_a_signal_at_once(begin: Begin) -> None:
    """As Slurm does it. The agent gets it from its parents, too, and must not take that for a second one."""
    slow = "trap 'sleep 0.7; exit 3' TERM; echo ready; while true; do sleep 0.05; done"
    berth = begin(HELLO, launch(attempt("j1.1", "sleep", "3600"), shell("j2.1", slow, queue="cpu1")))
    pids = [berth.fact("started", attempt=name)["pid"] for name in ("j1.1", "j2.1")]
    until(lambda: berth.output("j2.1") == "ready\n", "the trap")
    for pid in (*pids, berth.supervisor, berth.keeper, berth.process.pid):
        with suppress(ProcessLookupError):  # the first ones may be through with it before the last one gets it
            os.kill(pid, signal.SIGTERM)
    assert berth.ending()["why"] == "signal"
    assert [berth.fact("ended", attempt=name)["reason"] for name in ("j1.1", "j2.1")] == ["stopped"] * 2


@pytest.mark.parametrize(
    "script",
    ["exec sleep 3600", "sleep 3600; exit $?", "while :; do sleep 0.02; done"],
    ids=["a program", "a shell", "a trap"],
)
def test_what_was_ended_a_moment_before_the_agent_was_told_has_not_failed(begin: Begin, script: str) -> None:
    trap = "trap 'exit 1' TERM; " if script.startswith("while") else ""
    berth = begin(HELLO, launch(shell("j1.1", f"{trap}echo ready; {script}"), attempt("j2.1", "true")), patch=PATIENT)
    pid = berth.fact("started", attempt="j1.1")["pid"]
    until(lambda: berth.output("j1.1") == "ready\n", "the script")
    os.killpg(pid, signal.SIGTERM)
    until(lambda: not alive(pid), "its end")
    time.sleep(0.3)
    assert berth.facts()[-1]["fact"] == "started"
    berth.process.terminate()
    assert berth.ending()["why"] == "signal"
    ended = berth.fact("ended", attempt="j1.1")
    assert ended["reason"] == "stopped"
    assert ended["error"].startswith(ALLOCATION_ENDS)
    assert (ended["exit_code"], ended["signal"]) != (None, None)
    assert "evidence" not in ended
    assert berth.fact("ended", attempt="j2.1")["started_at"] is None


def test_a_worker_that_was_ended_a_moment_before_has_not_died(begin: Begin) -> None:
    opening = {"type": "open", "worker": worker(params={"every": 10, "delay_s": 60})}
    berth = begin(HELLO, opening, {"type": "chunks", "worker": "w1", "chunks": [["c.1", 0, 100]]}, patch=PATIENT)
    journal = berth.folder / "journal.jsonl"
    until(lambda: journal.exists() and '"op":"checkpoint"' in journal.read_text(), "the worker at work")
    [entry] = [json.loads(line) for line in journal.read_text().splitlines() if '"op":"process"' in line]
    os.kill(entry["pid"], signal.SIGTERM)
    until(lambda: not alive(entry["pid"]), "its end")
    berth.process.terminate()
    assert berth.ending()["why"] == "signal"
    returned = berth.fact("returned", chunk="c.1")
    assert (returned["reason"], returned["position"]) == ("closed", 50)
    assert returned["error"].startswith(ALLOCATION_ENDS)


def test_a_failure_of_its_own_stays_one(begin: Begin) -> None:
    berth = begin(HELLO, launch(shell("j1.1", "echo no >&2; exit 3"), shell("j2.1", "kill -TERM $$")))
    assert berth.ending()["why"] == "done"
    ended = [berth.fact("ended", attempt=name) for name in ("j1.1", "j2.1")]
    assert [(fact["exit_code"], fact["signal"], fact["reason"]) for fact in ended] == [
        (3, None, None),
        (None, 15, None),
    ]
    assert ended[0]["evidence"] == "no"


def test_a_supervisor_that_is_killed_is_followed_by_another_and_what_runs_runs_on(begin: Begin, tmp_path: Path) -> None:
    berth = begin(HELLO, launch(shell("j1.1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 5")), idle_s=2)
    pid = berth.fact("started", attempt="j1.1")["pid"]
    killed = berth.supervisor
    os.kill(killed, signal.SIGKILL)
    until((berth.folder / "streams" / "first.closed").exists, "the end of the first stream")
    until(lambda: berth.supervisor != killed and berth._is_up(), "the next supervisor")
    assert alive(pid)
    berth.say(HELLO, stream="e1-2")
    until(lambda: berth.said("e1-2"), "its inventory")
    (tmp_path / "go").touch()
    assert berth.fact("ended", stream="e1-2", attempt="j1.1")["exit_code"] == 5
    assert berth.ending()["why"] == "done"


def test_a_keeper_that_is_killed_is_a_failure_and_everything_ends(begin: Begin) -> None:
    berth = begin(HELLO, launch(attempt("j1.1", "sleep", "3600")))
    pid = berth.fact("started", attempt="j1.1")["pid"]
    os.kill(berth.keeper, signal.SIGKILL)
    told = berth.ending(1)
    assert (told["why"], told["error"]) == ("failed", "the agent's keeper was ended by signal 9")
    assert berth.fact("ended", attempt="j1.1")["error"].startswith(ALLOCATION_ENDS)
    assert not alive(pid)


def test_a_berth_that_is_killed_takes_everything_along_and_the_journal_tells(begin: Begin) -> None:
    berth = begin(HELLO, launch(attempt("j1.1", "sleep", "3600")))
    pid = berth.fact("started", attempt="j1.1")["pid"]
    berth.process.kill()
    until(lambda: not alive(pid), "the end of what it ran")
    journal = berth.folder / "journal.jsonl"
    until(lambda: '"fact":"ended"' in journal.read_text(), "the fact")
    assert not (berth.batch / "news" / "0.0.ended").exists()


def test_an_agent_that_does_not_come_up_is_a_failure(begin: Begin, tmp_path: Path) -> None:
    journal = tmp_path / "root" / "jobs" / "b1" / "0" / "0" / "journal.jsonl"
    journal.mkdir(parents=True)  # in the way of the file
    told = begin(patch="berth._UP_WITHIN_S = 1.0").ending(1)
    assert told["why"] == "failed"
    assert "did not come up" in told["error"]


@pytest.mark.parametrize("who", ["berth", "supervisor"])
def test_one_that_stands_still_for_a_while_loses_nothing(begin: Begin, tmp_path: Path, who: str) -> None:
    waits = shell("j1.1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done")
    berth = begin(HELLO, launch(waits), idle_s=1)
    berth.fact("started", attempt="j1.1")
    pid = berth.process.pid if who == "berth" else berth.supervisor
    os.kill(pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    for number in range(30):  # more than can wait for the agent to answer them
        berth.say({**HELLO, "epoch": 0}, stream=f"e0-{number}")
    time.sleep(2)
    os.kill(pid, signal.SIGCONT)
    assert berth.fact("ended", attempt="j1.1")["exit_code"] == 0
    closed = [berth.folder / "streams" / f"e0-{number}.closed" for number in range(30)]
    until(lambda: all(path.exists() for path in closed), "the end of the other streams")
    assert berth.ending()["why"] == "done"


def test_a_launch_that_comes_while_it_leaves_is_answered(begin: Begin, tmp_path: Path) -> None:
    trap = f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 0"
    slow = shell("j1.1", f"trap '{trap}' TERM; echo ready; while true; do sleep 0.05; done", grace_s=PATIENCE_S)
    berth = begin(HELLO, launch(slow))
    until(lambda: berth.output("j1.1") == "ready\n", "the trap")
    berth.process.terminate()
    until(lambda: '"op":"stop"' in (berth.folder / "journal.jsonl").read_text(), "the stop")
    with (berth.folder.parent / "first.in").open("ab") as target:
        target.write(lines(launch(attempt("j2.1", "true"))))
    ended = berth.fact("ended", attempt="j2.1")
    (tmp_path / "go").touch()
    assert berth.ending()["why"] == "signal"
    assert (ended["reason"], ended["started_at"]) == ("stopped", None)
    assert ended["error"].startswith(ALLOCATION_ENDS)


def test_it_is_not_upgraded(begin: Begin) -> None:
    berth = begin(idle_s=600).up()
    berth.say(HELLO, {"type": "upgrade", "zipapp": "/bin/sh", "sha256": "0" * 64})
    until(lambda: any("stays as it is" in str(message.get("error")) for message in berth.said("e1-1")), "the refusal")


def test_the_empty_folders_of_others_stay(begin: Begin) -> None:
    """Attempts of all allocations have their folders side by side."""
    one = begin(HELLO, launch(shell("j1.1", "sleep 1; pwd; echo '[1]' > $HOSTLER_RESULT")))
    one.fact("started", attempt="j1.1")
    (one.root / "attempts" / "j9.1").mkdir()
    two = begin(HELLO, launch(attempt("j2.1", "true")), {"type": "discard", "attempts": ["j2.1"]}, task=1)
    assert two.ending()["why"] == one.ending()["why"] == "done"
    assert one.fact("ended", attempt="j1.1")["result"] == [1]
    assert (one.root / "attempts" / "j9.1").is_dir()


def test_a_path_that_is_too_long_for_a_socket(begin: Begin, tmp_path: Path) -> None:
    root = tmp_path / "root" / ("d" * 100)
    root.mkdir()
    berth = begin(HELLO, launch(attempt("j1.1", "true")), root=root)
    assert berth.ending()["why"] == "done"
    assert berth.fact("ended", attempt="j1.1")["exit_code"] == 0


def test_a_folder_that_cannot_be_used(begin: Begin, tmp_path: Path) -> None:
    missing = begin(root=tmp_path / "nowhere")
    assert missing.process.wait(PATIENCE_S) == 2
    until(lambda: "is the shared file system mounted?" in missing.words, "its words")
    (tmp_path / "root" / "jobs").write_text("in the way")
    barred = begin()
    assert barred.process.wait(PATIENCE_S) == 2
    until(lambda: "cannot use the folder" in barred.words, "its words")


@pytest.mark.parametrize("arguments", [["--token", "a/b"], ["--token", ".."], ["--token", "b", "--idle-s", "nan"]])
def test_wrong_usage(tmp_path: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "hostler.agent", "berth", "--root", str(tmp_path), "--idle-s", "1", *arguments]
    failed = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, timeout=PATIENCE_S
    )
    assert failed.returncode == 2
    assert os.listdir(tmp_path) == []


def test_a_full_disk_loses_nothing(begin: Begin, small_disk: Path, tmp_path: Path) -> None:
    waits = shell("j1.1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done")
    berth = begin(HELLO, launch(waits), idle_s=1, root=small_disk)
    berth.fact("started", attempt="j1.1")
    fill(small_disk / "ballast")
    (tmp_path / "go").touch()
    time.sleep(3)
    (small_disk / "ballast").unlink()
    assert berth.fact("ended", attempt="j1.1")["exit_code"] == 0
    assert berth.ending()["why"] == "done"


def test_streams_are_carried_whole_while_they_are_written(begin: Begin) -> None:
    """Thousands of requests, in pieces that end anywhere, and an answer to each."""
    berth = begin(idle_s=600).up()
    said = lines(
        HELLO,
        *({"type": "read", "id": n, "attempt": "j1.1", "stream": "out", "offset": 0, "limit": 1} for n in range(5000)),
    )
    path = berth.folder / "streams" / "e1-1.in"
    for start in range(0, len(said), 9973):
        with path.open("ab") as target:
            target.write(said[start : start + 9973])
    until(lambda: sum(message["type"] == "read" for message in berth.said("e1-1")) == 5000, "all answers")
    assert [message["id"] for message in berth.said("e1-1") if message["type"] == "read"] == list(range(5000))
