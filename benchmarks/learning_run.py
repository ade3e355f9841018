"""A real `hostler up` that learns for some minutes, watched over HTTP, and what it told; for learning.py."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from measure import become_subreaper, kill_descendants, tree_cpu_s

from hostler.client import Client
from hostler.model.errors import ControllerAbsent, LinkLost

POLL_S = 1.0
TOLD_EVERY_S = 60.0
START_S = 60.0  # for the controller to answer
DRAIN_S = 900.0  # for what runs to end
GRACE_S = 5.0  # for the agent to end after its controller
TAIL = 2000


@dataclass(frozen=True, slots=True)
class Told:
    """What the controller told when the minutes were over: the history of its one config, and its journal."""

    history: Mapping[str, Any]
    """`ConfigHistory`"""
    entries: Sequence[Mapping[str, Any]]
    """`Entry` by `Entry`, all of them."""
    at: float
    """Unix seconds."""
    cpu_s: float
    """Of everything: the controller, its agent, its jobs."""


def learn(fleet: Path, folder: Path, minutes: float) -> Told:
    """Run the fleet file in `folder/state`, stop it in good order, and leave nothing running.

    SystemExit says what went wrong: the controller ended by itself, or it did not end when it was told to.
    """
    become_subreaper()
    before = _children_cpu_s()
    try:
        with _controller(fleet, folder) as controller:
            client = _client(controller)
            name = _only_config(client)
            _watch(controller, client, name, time.monotonic() + 60 * minutes)
            told = _ask(client, name, before)
            controller.stop()
    finally:
        left = kill_descendants(grace_s=GRACE_S)
    if left:
        print(f"{left} processes outlived the controller and were killed", file=sys.stderr)
    return told


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller as a process, its state directory and where it writes."""

    process: subprocess.Popen[bytes]
    state: Path
    log: Path

    def check(self) -> None:
        """SystemExit if it has ended."""
        if self.process.poll() is not None:
            raise SystemExit(f"the controller ended by itself, status {self.process.returncode}:\n{self.tail()}")

    def stop(self) -> None:
        """`hostler down`, and wait until it has ended. SystemExit if it does not, or badly."""
        subprocess.run([sys.executable, "-m", "hostler", "down", "--state-dir", str(self.state)], check=True)
        try:
            status = self.process.wait(DRAIN_S)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"the controller did not end within {DRAIN_S:.0f} s:\n{self.tail()}") from None
        if status:
            raise SystemExit(f"the controller ended with status {status}:\n{self.tail()}")

    def tail(self) -> str:
        """The end of what it wrote."""
        return self.log.read_text(errors="replace")[-TAIL:]


@contextmanager
def _controller(fleet: Path, folder: Path) -> Iterator[Controller]:
    state, log = folder / "state", folder / "up.log"
    command = [sys.executable, "-m", "hostler", "up", "--state-dir", str(state), "--port", "0", str(fleet.resolve())]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield Controller(process, state, log)
    finally:
        process.kill()
        process.wait()


def _client(controller: Controller) -> Client:
    client = Client.from_state_dir(controller.state)
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        controller.check()
        try:
            client.status()
        except (ControllerAbsent, LinkLost):
            time.sleep(POLL_S)
        else:
            return client
    raise SystemExit(f"the controller does not answer:\n{controller.tail()}")


def _only_config(client: Client) -> str:
    names = [str(config["name"]) for config in client.configs()]
    if len(names) != 1:
        raise SystemExit(f"the fleet file has {len(names)} training configs {names}; give it the one to be measured")
    return names[0]


def _watch(controller: Controller, client: Client, name: str, until: float) -> None:
    """Wait, seeing that the controller lives, and say now and then where it stands."""
    say_at = time.monotonic() + TOLD_EVERY_S
    while time.monotonic() < until:
        controller.check()
        if time.monotonic() >= say_at:
            say_at += TOLD_EVERY_S
            print(f"{(until - time.monotonic()) / 60:.0f} min left: {_brief(client.config(name))}", file=sys.stderr)
        time.sleep(POLL_S)


def _brief(config: Mapping[str, Any]) -> str:
    rating = config["rating"]
    elo = "not rated" if rating is None else f"Elo {rating['elo']:.0f} [{rating['low']:.0f}, {rating['high']:.0f}]"
    counts = f"{config['games']} games, {config['promotions']} promotions, {config['rejections']} rejections"
    rests = "".join(f"; {rest['stage']} rests: {rest['why']}" for rest in config["resting"])
    return f"model {config['generation']}, {elo}, {counts}; next {config['next']}{rests}"


def _ask(client: Client, name: str, cpu_s_before: float) -> Told:
    newest = client.status()["seq"]
    history, entries = client.history(name), []
    for entry in client.events(after=0):
        entries.append(entry)
        if entry["seq"] >= newest:
            break
    return Told(history, entries, time.time(), _children_cpu_s() - cpu_s_before)


def _children_cpu_s() -> float:
    """CPU-seconds of everything below this process, which must be the subreaper of it all; without its own."""
    own = os.times()
    return float(tree_cpu_s(os.getpid()) - own.user - own.system)
