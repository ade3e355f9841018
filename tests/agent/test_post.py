"""The controller's hands on a cluster: a real post, its words, and the berths it speaks with."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from hostler.agent.journal import Journal, entries
from hostler.agent.post import Intake
from hostler.agent.protocol import RequestError, encode

from .harness import PATIENCE_S, SOURCE, Json, alive, fill, until
from .test_attempts import attempt, shell
from .test_berth import HELLO, Begin, begin, launch, lines
from .test_workers import worker

__all__ = ["begin"]
SAY_IDLE: Json = {"type": "shutdown", "when": "now"}


class Post:
    """A post, by its pipes. It keeps what it was told."""

    def __init__(self, root: Path, **env: str) -> None:
        command = [sys.executable, "-m", "hostler.agent", "post", "--root", str(root)]
        more = {**os.environ, "PYTHONPATH": str(SOURCE), **env}
        self.started_at = time.time()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=more, cwd="/")
        self.told: list[Json] = []
        self.data: dict[int, bytearray] = {}
        self._ids = 0
        self.hello = self._next()

    def close(self) -> int:
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        status = self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def ask(self, op: str, **more: Any) -> Json:
        return self.answer(self.request(op, **more))

    def request(self, op: str, **more: Any) -> int:
        self._ids += 1
        self.send(lines({"id": self._ids, "op": op, **more}))
        return self._ids

    def answer(self, number: int) -> Json:
        return self.wait(lambda message: message.get("id") == number)

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def say(self, stream: int, *messages: Json) -> None:
        data = lines(*messages)
        self.send(lines({"op": "say", "stream": stream, "size": len(data)}) + data)

    def wait(self, fits: Callable[[Json], bool]) -> Json:
        """The first thing told that fits; it is told once."""
        for message in self.told:
            if fits(message):
                self.told.remove(message)
                return message
        while True:
            message = self._next()
            if fits(message):
                return message
            self.told.append(message)

    def heard(self, stream: int, kind: str, **fields: Any) -> Json:
        """The first fact of a kind that comes on a stream."""

        def find() -> Json | None:
            whole = self.data.get(stream, b"").rpartition(b"\n")[0]
            said = [json.loads(line) for line in whole.splitlines()]
            for fact in (fact for message in said for fact in message.get("facts", [])):
                if fact["fact"] == kind and all(fact[key] == value for key, value in fields.items()):
                    return fact  # type: ignore[no-any-return]
            return None

        while (fact := find()) is None:
            self.wait(lambda message: message.get("type") == "data" and message["stream"] == stream)
        return fact

    def _next(self) -> Json:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, "the post has ended"
        message: Json = json.loads(text)
        if message.get("type") == "data":
            self.data.setdefault(message["stream"], bytearray()).extend(self.process.stdout.read(message["size"]))
        return message


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    serving = Post(tmp_path / "root")
    yield serving
    assert serving.close() == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


# --- what it is, and how it ends --------------------------------------------------------------------------------------


def test_hello(post: Post, root: Path) -> None:
    assert (post.hello["type"], post.hello["protocol"], post.hello["root"]) == ("hello", 1, str(root))
    assert post.started_at <= post.hello["now"] <= time.time()
    assert root.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "hostler.agent", "post", "--root", str(tmp_path / "file" / "root")]
    failed = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, timeout=PATIENCE_S
    )
    assert failed.returncode == 2
    assert b"cannot use the folder" in failed.stderr


@pytest.mark.parametrize("end", ["input", "output", "signal"])
def test_the_end_takes_along_what_it_runs(root: Path, end: str) -> None:
    post = Post(root)
    post.request("run", argv=["sh", "-c", "echo $$ > pid; sleep 3600 & wait"], timeout_s=600, env={"PWD": None})
    post.request("run", argv=["sh", "-c", f"echo $$ > {root}/pid; sleep 3600 & wait"], timeout_s=600)
    pid = int(until(lambda: (root / "pid").exists() and (root / "pid").read_text().strip(), "its pid"))
    assert post.process.stdin is not None
    assert post.process.stdout is not None
    if end == "input":
        post.process.stdin.close()
    elif end == "output":
        post.process.stdout.close()
        post.request("probe", path="a")
    else:
        post.process.terminate()
    assert post.process.wait(PATIENCE_S) == (1 if end == "output" else 0)
    until(lambda: not alive(pid), "its end")
    post.close()


@pytest.mark.parametrize(
    "line",
    [b"garbage\n", b"[1]\n", b'{"id":5,"op":"fly"}\n', b'{"id":5}\n', b'{"id":[[1]],"op":"watch","tokens":["../x"]}\n'],
)
def test_what_cannot_be_understood_is_an_error_and_no_end(post: Post, line: bytes) -> None:
    post.send(line)
    answer = post.wait(lambda message: "error" in message)
    assert answer["id"] in (5, None)
    assert post.ask("probe", path="nothing") == {"id": 1, "text": None}


def test_a_say_without_a_size_is_the_end(root: Path) -> None:
    post = Post(root)
    post.send(b'{"op":"say","stream":1,"size":-1}\n')
    assert "this ends" in post.wait(lambda message: True)["error"]
    assert post.close() == 0


@given(strategies.lists(strategies.binary(max_size=40), max_size=8), strategies.integers(1, 30))
def test_requests_are_cut_wherever_they_come_in_pieces(datas: list[bytes], step: int) -> None:
    said = b"".join(
        lines({"op": "say", "stream": 1, "size": len(data)}) + data + lines({"op": "run", "id": number})
        for number, data in enumerate(datas)
    )
    intake = Intake()
    got = [each for start in range(0, len(said), step) for each in intake.feed(said[start : start + step])]
    assert [data for request, data in got if request["op"] == "say"] == datas
    assert [request["id"] for request, _ in got if request["op"] == "run"] == list(range(len(datas)))


def test_a_line_without_an_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.agent.post.MAX_REQUEST_BYTES", 100)
    intake = Intake()
    assert list(intake.feed(b"x" * 100)) == []
    with pytest.raises(RequestError, match="longer than 100"):
        list(intake.feed(b"x"))


# --- commands ---------------------------------------------------------------------------------------------------------


def run(post: Post, script: str, **more: Any) -> Json:
    return post.ask("run", argv=["sh", "-c", script], **{"timeout_s": PATIENCE_S, **more})


def test_a_command(post: Post) -> None:
    done = run(post, 'cat; echo "$A:${HOME-none}" >&2; exit 7', stdin="é\n", env={"A": "b c", "HOME": None})
    assert (done["status"], done["out"], done["err"]) == (7, "é\n", "b c:none\n")
    assert (done["timed_out"], done["cut"]) == (False, False)
    assert run(post, "wc -c", stdin="x" * 1_000_000)["out"].strip() == "1000000"
    assert run(post, "exec 0<&-; sleep 0.1; echo done", stdin="x" * 1_000_000)["out"] == "done\n"
    assert run(post, "kill -TERM $$")["status"] == 128 + signal.SIGTERM


def test_a_program_that_is_missing(post: Post) -> None:
    done = post.ask("run", argv=["no-such-program"], timeout_s=5)
    assert done["status"] is None
    assert "no-such-program" in done["err"]


def test_one_that_takes_too_long_is_killed_with_all_it_started(post: Post, root: Path) -> None:
    script = f"sleep 3600 & echo $! > {root}/pid; echo before; sleep 3600"
    for timeout_s in (0.5, 4.0, PATIENCE_S):  # on a crowded machine it has not come to its words in half a second
        done = run(post, script, timeout_s=timeout_s)
        assert (done["status"], done["timed_out"]) == (None, True)
        assert done["seconds"] >= timeout_s
        if done["out"]:
            break
    assert done["out"] == "before\n"
    pid = int((root / "pid").read_text())
    until(lambda: not alive(pid), "its end")


def test_one_that_leaves_others_with_its_output_is_not_waited_for(post: Post, root: Path) -> None:
    other = f"echo $$ > {root}/pid.new; mv {root}/pid.new {root}/pid; while :; do echo x; sleep 0.01; done"
    done = run(post, f"setsid sh -c '{other}' & while ! [ -e {root}/pid ]; do sleep 0.01; done")
    assert (done["status"], done["timed_out"]) == (0, False)
    os.killpg(int((root / "pid").read_text()), signal.SIGKILL)


def test_output_is_bounded(post: Post) -> None:
    done = run(post, "head -c 20000000 /dev/zero | tr '\\0' x; echo no >&2")
    assert (done["status"], done["cut"]) == (0, True)
    assert len(done["out"]) + len(done["err"]) == 16 << 20


def test_post_runs_four_commands_at_a_time(post: Post, tmp_path: Path) -> None:
    script = f"touch {tmp_path}/$0; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done"
    asked = [post.request("run", argv=["sh", "-c", script, f"{n}.up"], timeout_s=2 * PATIENCE_S) for n in range(8)]
    until(lambda: len(list(tmp_path.glob("*.up"))) >= 4, "the first four")
    time.sleep(0.5)
    assert len(list(tmp_path.glob("*.up"))) == 4
    (tmp_path / "go").touch()
    assert [post.answer(number)["status"] for number in asked] == [0] * 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": []},
        {"argv": "ls"},
        {"argv": ["a\0"]},
        {"timeout_s": 0},
        {"timeout_s": None},
        {"env": {"A": 1}},
        {"stdin": 5},
    ],
)
def test_orders_that_are_none(post: Post, wrong: Json) -> None:
    assert "error" in post.ask("run", **{"argv": ["ls"], "timeout_s": 5, **wrong})


# --- files ------------------------------------------------------------------------------------------------------------


def test_preparing_a_batch_again_changes_nothing(post: Post, root: Path) -> None:
    files = {"script.sh": "#!/bin/sh\n", "intent.json": "{}", "0/first.in": "line\n"}
    folder = root / "jobs" / "t.1"
    for _ in range(2):
        assert post.ask("prepare", token="t.1", files=files)["folder"] == str(folder)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == [
        "0",
        "0/first.in",
        "intent.json",
        "news",
        "script.sh",
    ]
    assert (folder / "script.sh").stat().st_mode & 0o777 == 0o700
    assert (folder / "intent.json").stat().st_mode & 0o777 == 0o600
    assert (folder / "0").stat().st_mode & 0o777 == 0o700
    with (folder / "0" / "first.in").open("a") as target:
        target.write("said since\n")
    post.ask("prepare", token="t.1", files={**files, "intent.json": "{}\n"})
    assert (folder / "0" / "first.in").read_text() == "line\nsaid since\n"
    assert (folder / "intent.json").read_text() == "{}\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "../t"},
        {"token": ".."},
        {"token": "t", "files": {"../a": ""}},
        {"token": "t", "files": {"/a": ""}},
        {"token": "t", "files": {"a/../../b": ""}},
        {"token": "t", "files": {"a": None}},
    ],
)
def test_nothing_is_written_elsewhere(post: Post, root: Path, wrong: Json) -> None:
    assert "error" in post.ask("prepare", **{"files": {"a": ""}, **wrong})
    assert [path for path in root.parent.rglob("*") if path.is_file()] == []


def test_a_probe_file_is_written_and_read(post: Post, root: Path, tmp_path: Path) -> None:
    assert post.ask("probe", path="probe/a", text="hello\n")["ok"]
    assert post.ask("probe", path="probe/a")["text"] == "hello\n"
    assert post.ask("probe", path="probe/b")["text"] is None
    (tmp_path / "secret").write_text("no")
    (root / "out").symlink_to(tmp_path)
    for path in ("../secret", "out/secret", str(tmp_path / "secret"), 5):
        assert "error" in post.ask("probe", path=path)
    assert "error" in post.ask("probe", path="out/new", text="no")
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_an_answer(small_disk: Path) -> None:
    post = Post(small_disk / "root")
    post.ask("prepare", token="t", files={})
    sid = post.ask("listen", token="t", task=0, run=0, stream="e1-1", create=True)["stream"]
    fill(small_disk / "ballast")
    assert "No space left" in post.ask("prepare", token="t", files={"a": "x" * 100_000})["error"]
    assert list((small_disk / "root" / "jobs" / "t").glob(".*")) == []
    post.say(sid, {"type": "here", "words": "x" * 100_000})
    closed = post.wait(lambda message: message.get("type") == "closed")
    assert closed["stream"] == sid
    assert "No space left" in closed["error"]
    (small_disk / "ballast").unlink()
    assert post.ask("prepare", token="t", files={"a": "x" * 100_000})["ok"]
    assert post.close() == 0


def test_output_of_attempts_is_read_and_discarded(post: Post, root: Path) -> None:
    folder = root / "attempts" / "j1.1"
    folder.mkdir(parents=True)
    (folder / "out").write_bytes(b"0123456789")
    read = {"attempt": "j1.1", "stream": "out", "offset": -4, "limit": 3}
    answer = post.ask("read", **read)
    assert (answer["offset"], base64.b64decode(answer["data"]), answer["size"]) == (6, b"678", 10)
    for wrong in ({"attempt": "../j1.1"}, {"stream": "claim"}, {"limit": -1}, {"stream": "err"}):
        assert "error" in post.ask("read", **{**read, **wrong})
    assert "error" in post.ask("discard", attempts=["../attempts"])
    assert post.ask("discard", attempts=["j1.1", "j2.1"])["ok"]
    assert list((root / "attempts").iterdir()) == []


def test_batches_are_forgotten_and_tidied_up(post: Post, root: Path) -> None:
    for token in ("a", "b", "c", "d"):
        post.ask("prepare", token=token, files={"script.sh": ""})
    for folder in (root / "jobs" / "b", root / "jobs" / "c"):
        os.utime(folder / "news", (0, 0))
        os.utime(folder, (0, 0))
    assert post.ask("tidy", older_s=3600, keep=["c"])["removed"] == ["b"]
    assert "error" in post.ask("tidy", older_s=3600, keep=None)
    assert post.ask("forget", tokens=["a", "never"])["ok"]
    assert "error" in post.ask("forget", tokens=["."])
    assert sorted(os.listdir(root / "jobs")) == ["c", "d"]


# --- what dead agents knew --------------------------------------------------------------------------------------------


def test_facts_of_a_run_that_was_killed(post: Post, begin: Begin, root: Path) -> None:
    opening = {"type": "open", "worker": worker(params={"every": 10, "delay_s": 60})}
    berth = begin(
        HELLO,
        launch(attempt("j1.1", "true"), attempt("j2.1", "sleep", "3600"), attempt("j3.1", "true")),
        opening | {"worker": {**opening["worker"], "queue": "cpu1"}},
        {"type": "chunks", "worker": "w1", "chunks": [["c.1", 0, 100], ["c.2", 100, 200]]},
    )
    pid = berth.fact("started", attempt="j2.1")["pid"]
    journal = berth.folder / "journal.jsonl"
    until(lambda: '"op":"checkpoint"' in journal.read_text(), "the checkpoint")
    [worker_pid] = [json.loads(line)["pid"] for line in journal.read_text().splitlines() if '"op":"process"' in line]
    everybody = (berth.supervisor, berth.keeper, berth.process.pid, pid, worker_pid)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # as when a node dies: nobody learns of the others' ends
        for each in everybody:
            os.kill(each, number)
    berth.process.wait()
    until(lambda: not any(map(alive, everybody)), "the end of all")
    with journal.open("a") as torn:
        torn.write('{"op":"exit","attempt":"j2.1","co')
    before = journal.read_bytes()
    told = post.ask("facts", token="b1", task=0, run=0)
    assert told["agent"] == berth.said()[0]["agent"]
    assert [(fact["fact"], fact["attempt"]) for fact in told["facts"]] == [
        ("started", "j1.1"),
        ("ended", "j1.1"),
        ("started", "j2.1"),
    ]
    started_at = berth.fact("started", attempt="j2.1")["at"]
    assert told["attempts"] == [
        {"id": "j2.1", "begun": True, "started_at": started_at, "exit": None},
        {"id": "j3.1", "begun": False, "started_at": None, "exit": None},
    ]
    [first, second] = told["chunks"]
    assert (first[0], first[1], [hit["at"] for hit in first[3]]) == ("c.1", 50, [0, 10, 20, 30, 40])
    assert second == ["c.2", None, opening["worker"]["open"]["digest"], []]
    assert first[2] == second[2]
    assert journal.read_bytes() == before


def test_facts_of_a_run_that_never_was(post: Post) -> None:
    assert "No such file" in post.ask("facts", token="b1", task=0, run=3)["error"], "the folder may not be mounted"
    post.ask("prepare", token="b1", files={})
    told = post.ask("facts", token="b1", task=0, run=3)
    assert told == {"id": told["id"], "agent": None, "facts": [], "attempts": [], "chunks": []}
    assert "error" in post.ask("facts", token="b1", task=-1, run=3)


def test_an_end_that_was_seen_but_not_understood_yet_is_told(post: Post, root: Path) -> None:
    """Killed while it waited whether it was to be told of the end of all."""
    folder = root / "jobs" / "b1" / "0" / "0"
    folder.mkdir(parents=True)
    exited = {"op": "exit", "attempt": "j1.1", "code": None, "signal": 15, "at": 5.0}
    said = [
        {"op": "agent", "agent": "aa", "incarnation": 1, "boot": "b"},
        {"op": "launch", "attempts": [attempt("j1.1", "true")]},
        {"op": "starting", "attempt": "j1.1", "at": 3.0},
        {"seq": 1, "fact": "started", "attempt": "j1.1", "pid": 1, "pid_start": 1, "at": 4.0},
        exited,
    ]
    (folder / "journal.jsonl").write_text("".join(encode(entry) + "\n" for entry in said))
    [told] = post.ask("facts", token="b1", task=0, run=0)["attempts"]
    assert told == {"id": "j1.1", "begun": True, "started_at": 4.0, "exit": {"code": None, "signal": 15, "at": 5.0}}


def test_a_journal_is_read_without_repairing_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"a":1}\n\0\0\0\n{"b":2}\n{"c"')
    assert list(entries(str(path))) == [{"a": 1}, {"b": 2}]
    assert path.read_bytes().endswith(b'{"c"')
    Journal(str(path)).close()
    assert path.read_bytes().endswith(b'{"b":2}\n')


# --- news -------------------------------------------------------------------------------------------------------------


def news(post: Post, token: str) -> tuple[int, int, str, Json]:
    told = post.wait(lambda message: message.get("type") == "news" and message["token"] == token)
    return told["task"], told["run"], told["what"], told["told"]


def publish(root: Path, token: str, name: str, told: Json) -> None:
    folder = root / "jobs" / token / "news"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".new").write_text(json.dumps(told))
    (folder / ".new").rename(folder / name)


def test_news_are_told_once_those_that_are_there_first(post: Post, root: Path) -> None:
    publish(root, "a", "10.0.began", {"job": "1"})
    publish(root, "a", "9.0.began", {"job": "2"})
    publish(root, "a", "hello.began", {"job": "3"})
    post.ask("watch", tokens=["a", "b"])
    assert sorted([news(post, "a"), news(post, "a")]) == [(9, 0, "began", {"job": "2"}), (10, 0, "began", {"job": "1"})]
    publish(root, "b", "0.1.ended", {"why": "done"})
    assert news(post, "b") == (0, 1, "ended", {"why": "done"})
    publish(root, "a", "9.0.ended", {"why": "idle"})
    assert news(post, "a") == (9, 0, "ended", {"why": "idle"})
    post.ask("unwatch", tokens=["a"])
    publish(root, "a", "10.0.ended", {"why": "idle"})
    time.sleep(0.5)
    post.ask("probe", path="a")
    assert [message for message in post.told if message.get("type") == "news"] == []
    post.ask("watch", tokens=["a"])
    assert len({news(post, "a")[:3] for _ in range(4)}) == 4


def test_news_come_though_the_time_of_the_folder_does_not_change(post: Post, root: Path) -> None:
    """As over NFS, for a while."""
    publish(root, "a", "0.0.began", {})
    folder = root / "jobs" / "a" / "news"
    os.utime(folder, (1, 1))
    post.ask("watch", tokens=["a"])
    assert news(post, "a")[2] == "began"
    time.sleep(3)
    publish(root, "a", "0.0.ended", {})
    os.utime(folder, (1, 1))
    assert news(post, "a")[2] == "ended"


def test_news_that_are_damaged_keep_nobody_waiting(post: Post, root: Path) -> None:
    publish(root, "b", "0.0.began", {})
    (root / "jobs" / "b" / "news" / "0.0.ended").write_text("{")
    publish(root, "c", "0.0.began", {})
    post.ask("watch", tokens=["b", "c"])
    assert news(post, "c")[2] == news(post, "b")[2] == "began"
    publish(root, "b", "0.0.ended", {"why": "done"})
    assert news(post, "b")[2] == "ended"


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_conversation_with_an_agent_in_an_allocation(post: Post, begin: Begin) -> None:
    post.ask("prepare", token="b1", files={"script.sh": ""})
    post.ask("watch", tokens=["b1"])
    berth = begin(idle_s=600)
    assert news(post, "b1")[2] == "began"
    sid = post.ask("listen", token="b1", task=0, run=0, stream="e3-1", create=True)["stream"]
    post.say(sid, HELLO, launch(shell("j1.1", "echo '[5]' > $HOSTLER_RESULT")))
    assert post.heard(sid, "ended", attempt="j1.1")["result"] == [5]
    post.say(sid, {"type": "ack", "seq": 2})
    post.say(sid, SAY_IDLE)
    assert post.wait(lambda message: message.get("type") == "closed") == {"type": "closed", "stream": sid}
    assert news(post, "b1")[2:] == ("ended", berth.ending())
    assert post.data[sid] == (berth.folder / "streams" / "e3-1.out").read_bytes()


def test_what_was_to_be_said_first_is_prepared_and_listened_to_before_anybody_is_there(
    post: Post, begin: Begin, tmp_path: Path
) -> None:
    runs = shell("j1.1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done")
    first = lines(HELLO, launch(runs)).decode()
    post.ask("prepare", token="b1", files={"0/first.in": first})
    sid = post.ask("listen", token="b1", task=0, run=0, stream="first", create=False, offset=0)["stream"]
    berth = begin()
    post.heard(sid, "started", attempt="j1.1")
    post.say(sid, launch(attempt("j2.1", "true", queue="cpu1")))
    assert post.heard(sid, "ended", attempt="j2.1")["exit_code"] == 0
    (tmp_path / "go").touch()
    assert berth.ending()["why"] == "done"
    again = post.ask("listen", token="b1", task=0, run=0, stream="first", create=False, offset=10)["stream"]
    for _ in range(2):
        assert "error" not in post.wait(lambda message: message.get("type") == "closed")
    assert post.data[again] == post.data[sid][10:]


def test_hanging_up(post: Post, begin: Begin) -> None:
    post.ask("prepare", token="b1", files={})
    berth = begin(idle_s=600)
    sid = post.ask("listen", token="b1", task=0, run=0, stream="e1-1", create=True)["stream"]
    post.say(sid, HELLO)
    post.wait(lambda message: message.get("type") == "data")
    assert post.ask("hang_up", stream=sid)["ok"]
    until((berth.folder / "streams" / "e1-1.closed").exists, "the end of the connection")
    post.say(sid, SAY_IDLE)
    assert "no such stream" in post.wait(lambda message: message.get("type") == "closed")["error"]
    assert "error" in post.ask("hang_up", stream=sid)
    assert "error" in post.ask("listen", token="b1", task=0, run=0, stream="e1-1", create=True)
    assert "error" in post.ask("listen", token="b1", task=0, run=0, stream="../x", create=True)


def test_listening_makes_no_folder_of_a_batch_that_is_not_there(post: Post, root: Path) -> None:
    """Where the shared folder is not mounted, an empty batch would mean that the run has left nothing."""
    post.ask("prepare", token="b1", files={})
    (root / "jobs").rename(root / "away")
    assert "No such file" in post.ask("listen", token="b1", task=0, run=0, stream="e1-1", create=True)["error"]
    assert not (root / "jobs").exists()
    (root / "away").rename(root / "jobs")
    assert post.ask("listen", token="b1", task=0, run=0, stream="e1-1", create=True)["ok"]


def test_a_controller_that_does_not_read_keeps_nobody_from_writing(post: Post, root: Path) -> None:
    folder = root / "jobs" / "b1" / "0" / "0" / "streams"
    folder.mkdir(parents=True)
    size = 40 << 20
    (folder / "e1-1.out").write_bytes(b"x" * size)
    sid = post.ask("listen", token="b1", task=0, run=0, stream="e1-1")["stream"]
    time.sleep(1)
    status = Path(f"/proc/{post.process.pid}/status").read_text()
    assert int(status.split("VmRSS:")[1].split()[0]) < 100_000
    for number in range(2000):
        post.say(sid, {"type": "here", "number": number})
    (folder / "e1-1.closed").touch()
    post.wait(lambda message: message.get("type") == "closed")
    assert len(post.data[sid]) == size
    assert (folder / "e1-1.in").read_bytes().count(b"\n") == 2000


def test_what_has_not_arrived_yet_is_waited_for(post: Post, root: Path) -> None:
    """Over NFS a later piece of a file may come first, and there are zeros before it."""
    folder = root / "jobs" / "b1" / "0" / "0" / "streams"
    folder.mkdir(parents=True)
    out = folder / "e1-1.out"
    out.write_bytes(b"one\n\0\0\0\0three\n")
    (folder / "e1-1.closed").touch()
    sid = post.ask("listen", token="b1", task=0, run=0, stream="e1-1")["stream"]
    post.wait(lambda message: message.get("type") == "data")
    time.sleep(1)
    assert post.data[sid] == b"one\n"
    with out.open("r+b") as late:
        late.seek(4)
        late.write(b"two\n")
    post.wait(lambda message: message.get("type") == "closed")
    assert post.data[sid] == b"one\ntwo\nthree\n"
