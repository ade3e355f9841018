"""The dialler as a process: whom it talks to, when it gives up, and what it copies."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hostler.agent import dial as dial_module, uplink
from hostler.agent.bridge import Bridge
from hostler.agent.build import build_zipapp
from hostler.agent.dial import LONGEST_REST_S, Dialler, Home, rest_s
from hostler.agent.uplink import Controller, Impostor, Refused, Uplink, fingerprint_of
from hostler.backends.dialin import context, fingerprint, self_signed

from .harness import PATIENCE_S, alive, until

TOKEN = "the-secret-token"


class Server:
    """Answers each TLS connection by `serve`, in a thread; keeps every byte that was said to it."""

    def __init__(self, folder: Path, serve: Callable[[ssl.SSLSocket, Server], None]) -> None:
        certificate = folder / "certificate.pem"
        certificate.write_text(self_signed("test"))
        self.fingerprint = fingerprint(certificate)
        self.heard = bytearray()
        self.called: list[float] = []
        """When, by the monotonic clock."""
        self._serve = serve
        self._streams: list[ssl.SSLSocket] = []
        self._threads: list[threading.Thread] = []
        self._context = context(certificate, certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._begin(self._accept)

    @property
    def calls(self) -> int:
        return len(self.called)

    def close(self) -> None:
        """Return when no thread of it is left."""
        for each in (self._listener, *self._streams):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # a close alone would leave a thread waiting at it
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._listener.close()
        assert not any(thread.is_alive() for thread in self._threads)

    def _begin(self, what: Callable[..., None], *given: object) -> None:
        self._threads.append(threading.Thread(target=what, args=given, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self.called.append(time.monotonic())
            self._begin(self._one, plain)

    def _one(self, plain: socket.socket) -> None:
        plain.settimeout(PATIENCE_S)
        try:
            with self._context.wrap_socket(plain, server_side=True) as stream:
                self._streams.append(stream)
                self._serve(stream, self)
        except OSError:
            return


def record(stream: ssl.SSLSocket, server: Server) -> None:
    while data := stream.recv(4096):
        server.heard += data


def refuse(stream: ssl.SSLSocket, server: Server) -> None:
    stream.recv(4096)
    stream.sendall(b'{"type":"refused","reason":"not you"}\n')


def hang_up(stream: ssl.SSLSocket, server: Server) -> None:
    stream.recv(4096)


def keep_waiting(stream: ssl.SSLSocket, server: Server) -> None:
    stream.recv(4096)
    stream.sendall(b'{"type":"welcome","journal":"aa"}\n')
    record(stream, server)


Dial = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "agent.pyz"
    build_zipapp(path)
    return path


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    made = list[Server]()

    def serve(how: Callable[[ssl.SSLSocket, Server], None]) -> Server:
        made.append(Server(tmp_path, how))
        return made[-1]

    yield serve
    for each in made:
        each.close()


@pytest.fixture
def dial(tmp_path: Path, program: Path) -> Iterator[Dial]:
    started = list[subprocess.Popen[str]]()

    def start(server: Server, *options: str, print_: str | None = None, token: str = TOKEN) -> subprocess.Popen[str]:
        folder = tmp_path / "dial"
        folder.mkdir(exist_ok=True)
        (folder / "token").touch(0o600)
        (folder / "token").write_text(token)
        given = ["--to", f"127.0.0.1:{server.port}", "--fingerprint", print_ or server.fingerprint, "--node", "far"]
        command = [sys.executable, program, "dial", "--dir", folder, *given, *options]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_nothing_is_said_to_whoever_shows_another_certificate(
    serving: Callable[..., Server], dial: Dial, tmp_path: Path
) -> None:
    server = serving(record)
    process = dial(server, print_="0" * 64)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 6
    assert server.fingerprint in said
    assert (bytes(server.heard), server.calls > 0) == (b"", True)
    assert TOKEN not in said


def test_whoever_is_refused_says_so_and_goes(serving: Callable[..., Server], dial: Dial) -> None:
    server = serving(refuse)
    process = dial(server)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "not you" in said) == (5, True)
    assert server.calls <= 2
    assert TOKEN not in said


def test_one_that_is_hung_up_on_rests_longer_each_time(serving: Callable[..., Server], dial: Dial) -> None:
    server = serving(hang_up)
    process = dial(server)
    until(lambda: server.calls >= 8)
    assert process.poll() is None
    # Of its two connections one has called four times, and has rested at least half of 0.5, 1 and 2 s between.
    assert server.called[7] - server.called[0] >= 1.75
    assert [rest_s(tries) for tries in (0, 1, 2, 3, 50)] == [0.5, 0.5, 1.0, 2.0, LONGEST_REST_S]


def test_one_folder_has_one_dialler(serving: Callable[..., Server], dial: Dial) -> None:
    server = serving(keep_waiting)
    dial(server)
    until(lambda: server.calls >= 2)
    second = dial(server)
    _, said = second.communicate(timeout=PATIENCE_S)
    assert (second.returncode, "another dialler" in said) == (3, True)


@pytest.mark.parametrize("spoilt", ["readable", "empty", "none"])
def test_a_token_that_is_none_or_everybody_s(
    serving: Callable[..., Server], dial: Dial, tmp_path: Path, spoilt: str
) -> None:
    token = tmp_path / "token"
    if spoilt != "none":
        token.touch(0o644 if spoilt == "readable" else 0o600)
        token.write_text("" if spoilt == "empty" else TOKEN)
    process = dial(serving(refuse), "--token-file", str(token))
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert str(token) in said


def test_the_token_may_come_through_standard_input(serving: Callable[..., Server], dial: Dial) -> None:
    server = serving(keep_waiting)
    heard = list[dict[str, Any]]()

    def listen(stream: ssl.SSLSocket, _: Server) -> None:
        said = stream.recv(4096)
        if said:  # the second call is hung up before it says anything where the first was refused by then
            heard.append(json.loads(said))
            stream.sendall(b'{"type":"refused","reason":"not you"}\n')

    server._serve = listen
    process = dial(server, "--token-file", "-", token="not this one\n")
    process.communicate(TOKEN + "\n", timeout=PATIENCE_S)
    assert heard[0]["token"] == TOKEN
    assert (heard[0]["type"], heard[0]["node"], heard[0]["protocol"]) == ("dial", "far", 1)


def test_in_the_background_it_tells_how_the_first_call_went(
    serving: Callable[..., Server], dial: Dial, tmp_path: Path
) -> None:
    process = dial(serving(refuse), "--detach")
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "not you" in said) == (5, True)
    server = serving(keep_waiting)
    process = dial(server, "--detach")
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "connected" in said) == (0, True)

    def diallers() -> list[int]:
        return [int(each.name) for each in Path("/proc").glob("[0-9]*") if runs(each, tmp_path / "dial")]

    until(lambda: len(diallers()) == 1, "the end of the one that was refused")
    (running,) = diallers()
    assert os.getsid(running) != os.getsid(0)
    os.kill(running, signal.SIGTERM)
    until(lambda: not alive(running), "its end")
    assert (tmp_path / "dial" / "dial.log").stat().st_mode & 0o077 == 0


def runs(process: Path, folder: Path) -> bool:
    try:
        return os.fsencode(folder) in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def test_a_starter_that_is_gone_and_a_log_that_cannot_be_written_end_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dial.log").mkdir()
    reading, writing = os.pipe()
    os.close(reading)
    dialler = Dialler(Home(str(tmp_path)), Controller("127.0.0.1", 1, "0" * 64), "far", TOKEN, writing)
    dialler._note("first")
    dialler._note("first")
    dialler._note("second")
    assert capfd.readouterr().err.count("hostler dial: ") == 2


def test_second_refusal_does_not_end_the_dialler_before_the_first_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls that are refused at the same time, and the first of them is slow to write its words."""
    reading, writing = os.pipe()
    dialler = Dialler(Home(str(tmp_path)), Controller("127.0.0.1", 1, "0" * 64), "far", TOKEN, writing)
    logged, begun, go_on = list[str](), threading.Event(), threading.Event()

    def slow(words: str) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        logged.append(words)

    monkeypatch.setattr(dial_module, "_say", slow)
    ending = [threading.Thread(target=dialler._end, args=(5, "refused: not you")) for _ in range(2)]
    ending[0].start()
    assert begun.wait(PATIENCE_S)
    ending[1].start()
    was_over = dialler._over.wait(0.3)
    go_on.set()
    assert dialler._over.wait(PATIENCE_S)
    assert dialler._status == 5
    assert (was_over, logged) == (False, ["refused: not you"])
    assert os.read(reading, 4096) == b"5 refused: not you"
    for thread in ending:
        thread.join(PATIENCE_S)
    os.close(reading)


def test_a_silent_controller_is_taken_for_dead(serving: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uplink, "PING_S", 0.2)
    server = serving(keep_waiting)
    line = Uplink(Controller("127.0.0.1", server.port, server.fingerprint))
    line.call({"node": "far", "token": TOKEN})
    with pytest.raises(ConnectionError, match="silent"):
        line.wait()
    line.close()
    until(lambda: server.heard.endswith(b"\n"), "the ping")
    assert json.loads(bytes(server.heard)) == {"type": "ping"}


def test_a_welcome_may_not_name_a_path(serving: Callable[..., Server]) -> None:
    def lure(stream: ssl.SSLSocket, _: Server) -> None:
        stream.recv(4096)
        stream.sendall(b'{"type":"welcome","journal":"../../etc"}\n')

    server = serving(lure)
    line = Uplink(Controller("127.0.0.1", server.port, server.fingerprint))
    with pytest.raises(Refused, match="cannot be understood"):
        line.call({})
    line.close()
    with pytest.raises(Impostor):
        Uplink(Controller("127.0.0.1", server.port, "1" * 64)).call({})


@pytest.mark.parametrize("text", ["ab" * 32, "SHA256:" + "AB" * 32, ":".join(["aB"] * 32)])
def test_fingerprints_as_people_write_them(text: str) -> None:
    assert fingerprint_of(text) == "ab" * 32


@pytest.mark.parametrize("text", ["", "ab", "zz" * 32, "ab" * 33])
def test_what_is_no_fingerprint(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        fingerprint_of(text)


def test_the_bridge_copies_both_ways_at_once_and_to_the_last_byte(serving: Callable[..., Server]) -> None:
    """Neither side reads before it has sent a lot, so that every buffer on the way is full."""
    down, up = os.urandom(8 << 20), os.urandom(8 << 20)
    came = dict[str, str]()

    def talk(stream: socket.socket, data: bytes, name: str, wanted: int) -> None:
        digest = hashlib.sha256()
        sending = threading.Thread(target=stream.sendall, args=(data,))
        if isinstance(stream, ssl.SSLSocket):
            stream.sendall(data)  # one TLS stream bears no two threads
        else:
            sending.start()
        while wanted:
            piece = stream.recv(min(wanted, 1 << 16))
            assert piece, f"{wanted} bytes are missing"
            digest.update(piece)
            wanted -= len(piece)
        if sending.ident is not None:
            sending.join(PATIENCE_S)
        came[name] = digest.hexdigest()

    server = serving(lambda stream, _: talk(stream, down, "up", len(up)))
    line = Uplink(Controller("127.0.0.1", server.port, server.fingerprint))
    line._stream = uplink._connected(line._controller)
    near, agent = socket.socketpair()
    bridge = threading.Thread(target=Bridge(line.stream, near).run)
    bridge.start()
    talk(agent, up, "down", len(down))
    until(lambda: "up" in came)
    agent.close()
    bridge.join(PATIENCE_S)
    assert not bridge.is_alive()
    assert came == {"down": hashlib.sha256(down).hexdigest(), "up": hashlib.sha256(up).hexdigest()}


def test_last_words_come_through(serving: Callable[..., Server]) -> None:
    """What was said just before hanging up arrives, though the other side is still talking."""
    came = bytearray()

    def listen(stream: ssl.SSLSocket, _: Server) -> None:
        stream.sendall(b"never read " * 10_000)
        time.sleep(0.3)
        while data := stream.recv(1 << 16):
            came.extend(data)

    server = serving(listen)
    stream = uplink._connected(Controller("127.0.0.1", server.port, server.fingerprint))
    near, agent = socket.socketpair()
    agent.sendall(b"last words")
    agent.shutdown(socket.SHUT_WR)
    bridge = threading.Thread(target=Bridge(stream, near).run)
    bridge.start()
    until(lambda: bytes(came) == b"last words")
    agent.close()
    bridge.join(PATIENCE_S)
    assert not bridge.is_alive()
