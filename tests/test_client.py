"""The SDK against real servers on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler import client as sdk
from hostler.client import Address, Client, address_in, calls
from hostler.model import codec
from hostler.model.errors import (
    AnswerError,
    Conflict,
    ControllerAbsent,
    LinkLost,
    LinkRefused,
    NotFound,
    SpecError,
    UsageError,
)
from hostler.model.inputs import Submit, Trouble
from hostler.web.answers import MAX_BODY_BYTES
from tests.core.builders import script, sweep
from tests.patience import PATIENCE_S
from tests.web.core_desk import TOKEN, CoreDesk, Window, window
from tests.web.loops import LoopDesk, busy, empty


def announce(state_dir: Path, port: int, pid: int | None = None) -> None:
    """What a running controller leaves in its state directory."""
    state_dir.mkdir(exist_ok=True)
    (state_dir / "token").write_text(TOKEN + "\n")
    about = {"url": f"http://127.0.0.1:{port}", "pid": pid or os.getpid(), "started_at": 0.0}
    (state_dir / "controller.json").write_text(json.dumps(about))


@pytest.fixture
def served() -> Iterator[Window]:
    with window() as made:
        yield made


@pytest.fixture
def client(served: Window, tmp_path: Path) -> Client:
    announce(tmp_path, served.port)
    return Client.from_state_dir(tmp_path)


def test_every_reader_gives_what_the_desk_shows(client: Client, served: Window) -> None:
    served.tell(Submit(specs=(script("a", key="k/1 ?&#ü%2F"), sweep("s", stop=2**100))))
    desk = served.desk
    assert client.status() == codec.plain(desk.status())
    assert client.job("k/1 ?&#ü%2F") == client.job("j1") == codec.plain(desk.job("j1"))
    assert client.explain("j1") == codec.plain(desk.explain("j1"))
    assert client.queue() == [codec.plain(row) for row in desk.queue(100)]
    assert client.nodes() == [codec.plain(node) for node in desk.nodes()]
    assert client.explain_device("n/cpu0") == codec.plain(desk.explain_device("n/cpu0"))
    assert client.quotas() == codec.plain(desk.quotas())
    assert client.durations() == codec.plain(desk.durations())
    assert client.costs() == codec.plain(desk.costs())
    assert client.bans() == [codec.plain(ban) for ban in desk.bans()]
    assert client.sweeps() == [codec.plain(each) for each in desk.sweeps()] == [client.sweep("j2")]
    assert client.ledger("j2") == json.loads(json.dumps(codec.plain(desk.ledger("j2"))))
    assert client.proof("j2")["total"] == 2**100
    assert [entry["event"]["job"] for entry in client.story("j2")]


def test_training_configs_are_read_and_rolled_back(tmp_path: Path) -> None:
    desk = LoopDesk(busy("hex8_2p"), empty("square8_2p"))
    with window(desk) as served:
        announce(tmp_path, served.port)
        client = Client.from_state_dir(tmp_path)
        assert client.configs() == [codec.plain(each) for each in desk.configs()]
        assert client.config("hex8_2p") == codec.plain(desk.config("hex8_2p"))
        assert client.history("hex8_2p") == json.loads(json.dumps(codec.plain(desk.history("hex8_2p"))))
        assert client.models("hex8_2p") == [codec.plain(each) for each in desk.models("hex8_2p")]
        with pytest.raises(NotFound, match="no training config 'x/y'"):
            client.config("x/y")
        assert client.roll_back("hex8_2p")["generation"] == 9
        wanted = desk.models("hex8_2p")[3].sha256
        assert client.roll_back("hex8_2p", wanted[:9], "better")["current"] == wanted
        assert [(each.model, each.why) for each in desk.rolled_back] == [(None, "asked for"), (wanted[:9], "better")]


def test_all_jobs_are_gathered_from_all_pages(client: Client, served: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PAGE", 3)
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(10))))
    assert [job["name"] for job in client.all_jobs()] == [f"n{n}" for n in range(10)]
    assert [job["name"] for job in client.all_jobs(["pending", "leased"], after=7)] == ["n7", "n8", "n9"]


def test_jobs_are_submitted_cancelled_ranked_and_tried_again(client: Client) -> None:
    specs = [codec.plain(script("a", key="a")), codec.plain(script("b", after=("a",)))]
    assert client.submit_jobs(specs) == ("j1", "j2")
    assert client.set_priority("j2", -3)["priority"] == -3
    assert client.cancel("j2")["state"] == "cancelled"
    assert client.retry("j2")["state"] == "pending"
    assert client.cancel("a", "it is late")["cancelling"] is True


def test_hits_and_output(client: Client, served: Window) -> None:
    served.tell(Submit(specs=(sweep(),)))
    driver = served.desk.driver
    chunk, start, _ = driver.chunk("j1")
    served.call(lambda: driver.tell(driver.searched(chunk, hits=[{"at": start}])))
    served.desk.logs["j1.1", "err"] = b"\xff\x00tail"
    assert [hit["at"] for hit in client.hits("j1")] == [start]
    assert client.log("j1.1", "err", offset=-4) == (2, b"tail", 6, False)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda client: client.job("nobody"), NotFound),
        (lambda client: client.retry("j1"), Conflict),
        (lambda client: client.submit_jobs([{"name": "x"}]), SpecError),
        (lambda client: client.queue(limit=0), UsageError),
        (lambda client: client.log("unreachable.1"), LinkLost),
    ],
)
def test_errors_come_back_as_what_they_are(client: Client, ask: Any, error: type[Exception]) -> None:
    client.submit_jobs([codec.plain(script("a"))])
    with pytest.raises(error) as caught:
        ask(client)
    assert type(caught.value) is error


def test_a_submission_beyond_the_limit_is_refused_clearly(client: Client) -> None:
    with pytest.raises(LinkRefused, match="in several parts"):
        client.submit_jobs([{"name": "x" * (MAX_BODY_BYTES + 1)}])


def test_draining(client: Client, served: Window) -> None:
    client.drain()
    assert served.desk.drained == 1


def test_a_wrong_token_is_refused_not_absent(served: Window) -> None:
    with pytest.raises(LinkRefused, match="401 Unauthorized"):
        Client(lambda: Address(f"http://127.0.0.1:{served.port}", "wrong")).status()


def ended_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_no_state_directory_means_no_controller(tmp_path: Path) -> None:
    with pytest.raises(ControllerAbsent, match=r"state directory .*nowhere.*hostler up --detach"):
        address_in(tmp_path / "nowhere")


def test_a_dead_controllers_address_is_not_used(tmp_path: Path) -> None:
    pid = ended_pid()
    announce(tmp_path, 1, pid)
    with pytest.raises(ControllerAbsent, match=rf"process {pid}, which had it, has ended.*hostler up"):
        Client.from_state_dir(tmp_path).status()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"url": "x", "pid": "y"}', "\xff"])
def test_an_unreadable_address_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text("x")
    (tmp_path / "controller.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ControllerAbsent, match="cannot be understood"):
        address_in(tmp_path)


def test_a_refused_connection_is_an_absent_controller(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        announce(tmp_path, unused.getsockname()[1])
        with pytest.raises(ControllerAbsent, match="nothing answers at"):
            Client.from_state_dir(tmp_path).status()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", LinkLost),
        (b"garbage\r\n\r\n", LinkLost),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", LinkLost),
        (b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nnope", LinkRefused),
        (b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n[]", LinkRefused),
        (b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n", LinkRefused),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", AnswerError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", AnswerError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\xff\xfe\0", AnswerError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200000, AnswerError),
        (b'HTTP/1.1 500 No\r\nContent-Length: 36\r\n\r\n{"error": "os.system", "message": ""}', LinkRefused),
    ],
)
def test_answers_that_are_none(said: bytes, error: type[Exception]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_once() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(said)

        thread = threading.Thread(target=answer_once)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(error):
            Client(lambda: Address(url, "t"), timeout_s=PATIENCE_S).status()
        thread.join(PATIENCE_S)


def test_events_survive_a_cut_and_a_restart_on_another_port(tmp_path: Path) -> None:
    desk = CoreDesk()
    client = Client.from_state_dir(tmp_path)
    seen: list[int] = []
    with closing(client.events(after=0, sleep=lambda _: None)) as events:  # type: ignore[type-var]
        with window(desk) as served:
            announce(tmp_path, served.port)
            seen += [next(events)["seq"] for _ in desk.driver.entries]
            served.call(desk.cut_off)
            served.tell(Trouble(where="here", what="after the cut"))
            seen.append(next(events)["seq"])
        with window(desk) as served:
            announce(tmp_path, served.port)
            served.tell(Trouble(where="here", what="after the restart"))
            seen.append(next(events)["seq"])
    assert seen == list(range(1, len(desk.driver.entries) + 1))


def test_events_from_now_on_lose_nothing_when_cut_before_the_first(tmp_path: Path) -> None:
    desk = CoreDesk()
    entries: list[Any] = []
    with window(desk) as served:
        announce(tmp_path, served.port)
        newest = desk.status().seq
        cut = iter([lambda: None])

        def meanwhile(_: float) -> None:
            next(cut)()
            served.tell(Trouble(where="here", what="while cut off"))

        events = Client.from_state_dir(tmp_path).events(sleep=meanwhile)
        reader = threading.Thread(target=lambda: entries.append(next(events)))
        reader.start()
        while served.call(lambda: desk.readers) == 0:
            assert reader.is_alive()
        served.call(desk.cut_off)
        reader.join(PATIENCE_S)
        events.close()  # type: ignore[attr-defined]
    assert [entry["seq"] for entry in entries] == [newest + 1]


def test_events_give_up_in_the_end(tmp_path: Path) -> None:
    rests: list[float] = []
    with pytest.raises(ControllerAbsent):
        next(Client.from_state_dir(tmp_path).events(sleep=rests.append))
    assert tuple(rests) == sdk.RECONNECT_S


class TestWrites:
    """A write whose answer is lost is asked for again under the same key, and done once."""

    @pytest.mark.parametrize("cut", ["before", "after"])
    def test_a_broken_connection_does_no_harm(self, served: Window, cut: str) -> None:
        with a_bad_line(served.port, cut) as (port, keys):
            client = Client(lambda: Address(f"http://127.0.0.1:{port}", TOKEN))
            assert client.submit_jobs([codec.plain(script("a"))]) == ("j1",)
        assert len(keys) == 2
        assert keys[0] == keys[1]
        assert len(served.desk.driver.state.jobs) == 1

    def test_each_request_has_a_key_of_its_own_unless_it_is_given(self, client: Client, served: Window) -> None:
        spec = [codec.plain(script("a"))]
        assert client.submit_jobs(spec) != client.submit_jobs(spec)
        assert client.submit_jobs(spec, "k") == client.submit_jobs(spec, "k")
        with pytest.raises(Conflict, match="another request"):
            client.submit_jobs([codec.plain(script("b"))], "k")

    def test_tokens_and_the_audit(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(calls, "PAGE", 2)
        made = [client.create_token(name, "operate", 60.0) for name in "abc"]
        changing = {"left_s": None}
        assert [{**each, **changing} for each in client.tokens()] == [{**each["about"], **changing} for each in made]
        assert all(0 < each["left_s"] <= 60.0 for each in client.tokens())
        assert [each["name"] for each in client.revoke_token("b")] == ["a", "c"]
        assert [each["what"] for each in client.audit()] == ["revoke_token b", *["create_token"] * 3]


@contextmanager
def a_bad_line(port: int, cut: str) -> Iterator[tuple[int, list[str]]]:
    """A port that leads to another one; the first connection breaks before or after what was asked arrived."""
    keys: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pass_on() -> None:
            for broken in (True, False):
                near, _ = listener.accept()
                with near, socket.create_connection(("127.0.0.1", port)) as far:
                    asked = near.recv(65536)
                    while not asked.endswith(b"]"):
                        asked += near.recv(65536)
                    keys.append(asked.partition(b"Idempotency-Key: ")[2].partition(b"\r\n")[0].decode())
                    if not broken or cut == "after":
                        far.sendall(asked)
                        answer = far.recv(65536)
                        while not answer.endswith(b"}"):
                            answer += far.recv(65536)
                        near.sendall(b"" if broken else answer)

        thread = threading.Thread(target=pass_on)
        thread.start()
        yield listener.getsockname()[1], keys
        thread.join(PATIENCE_S)
