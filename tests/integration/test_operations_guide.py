"""docs/guides/operations.md: each of its situations is made on a real controller, and every command in it is executed.

A block is executed line by line; the `text` below it must be among what its last command says, `…` standing for
anything. What somebody has to mend is mended before a block that is marked `after=repair`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest

from hostler.model.codec import digest
from tests.integration.conftest import PATIENCE_S, WORKER, Fleet, Said, View, a_fleet, command, signal_each, until
from tests.integration.loops import soon
from tests.integration.test_loop_commands import own

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/operations.md"
BLOCK = re.compile(r"^```(sh|text)[ ]?(.*?)\n(.*?)^```$", re.M | re.S)
NODE = {"name": "rig-1", "cpu_slots": 2, "gpus": "none"}
CONFIG = "hex8_2p"
ASKS = {"status", "nodes", "explain", "bans", "jobs", "top", "queue", "events", "train status", "model list"}
"""Commands that change nothing: they are asked again until the world is as the guide says."""


@dataclass(frozen=True)
class Block:
    """Commands with what the last of them says."""

    lines: list[str]
    what: dict[str, str]
    says: list[str]
    line: int


@dataclass
class Situation:
    """A fleet with something wrong, what its placeholders stand for, and how it is mended."""

    fleet: Fleet
    words: Mapping[str, str] = field(default_factory=dict)
    repair: Callable[[], None] = lambda: None


Made: TypeAlias = Iterator[Situation]


def sections() -> dict[str, list[Block]]:
    """The guide's blocks by the title of their section; the first has none."""
    title, *rest = re.split(r"^## (.*)\n", GUIDE.read_text(), flags=re.M)
    return {"": _blocks(title), **{name: _blocks(text) for name, text in zip(rest[::2], rest[1::2], strict=True)}}


def _blocks(text: str) -> list[Block]:
    found: list[Block] = []
    for match in BLOCK.finditer(text):
        lines = match[3].splitlines()
        if match[1] == "text":
            found[-1].says.extend(lines)
        else:
            what = dict(word.split("=", 1) for word in match[2].split())
            found.append(Block(lines, what, [], text.count("\n", 0, match.start()) + 1))
    return found


@contextmanager
def stalled(path: Path) -> Made:
    """The first stage of a loop fails wherever it runs."""
    broken = own(CONFIG)
    says = "import sys; sys.exit('no kernel image for this GPU')"
    broken["training"]["command"] = [sys.executable, "-c", says]
    with a_fleet(path, nodes=[NODE], configs=[broken]) as fleet:
        fleet.start()
        failed = soon(lambda: list(fleet.client.all_jobs(["failed"])), "a failure", fleet)

        def mend() -> None:
            fleet.kill()
            fleet.settle(nodes=[NODE], configs=[own(CONFIG)])
            fleet.start()

        yield Situation(fleet, {"JOB": failed[0]["id"]}, mend)


@contextmanager
def idle(path: Path) -> Made:
    """A node is cordoned, and one of two jobs asks for what nobody has."""
    with a_fleet(path, nodes=[NODE]) as fleet:
        fleet.start()
        fleet.client.cordon("rig-1", "new power supply", "anna")
        job = fleet.script("sleep", "900")
        fleet.script("true", resources={"device": "gpu", "vram_gb": 80})
        yield Situation(fleet, {"JOB": job})


@contextmanager
def full(path: Path) -> Made:
    """More is asked to be free than any disk has."""
    with a_fleet(path, nodes=[NODE], scheduling={"targets": {"disk_free_gb": 1_000_000}}) as fleet:
        fleet.start()
        until(lambda: fleet.client.nodes()[0]["pressures"], "the pressure", PATIENCE_S, fleet.log)
        job = fleet.script("sleep", "900")

        def mend() -> None:
            fleet.kill()
            fleet.settle(nodes=[NODE], scheduling={"targets": {"disk_free_gb": 0, "disk_roomy_gb": 0.001}})
            fleet.start()

        yield Situation(fleet, {"JOB": job}, mend)


@contextmanager
def away(path: Path) -> Made:
    """The agent of one node hangs; at the other's address nobody listens."""
    nodes = [NODE, {"name": "rig-2", "backend": "ssh", "host": "127.0.0.1", "port": 9}]
    with a_fleet(path, nodes=nodes) as fleet:
        fleet.start()
        job = fleet.script("sleep", "900")
        fleet.pid(job)
        agents = fleet.agents()
        assert agents
        signal_each(agents, signal.SIGSTOP)
        until(lambda: fleet.client.status()["nodes_up"] == 0, "silence", PATIENCE_S, fleet.log)
        yield Situation(fleet, {"JOB": job}, lambda: signal_each(agents, signal.SIGCONT))


@contextmanager
def wrong(path: Path) -> Made:
    """A sweep's worker answers for other parameters, twice; and a loop that has promoted a model."""
    with a_fleet(path, nodes=[NODE], configs=[own(CONFIG)]) as fleet:
        fleet.start()
        soon(lambda: fleet.client.config(CONFIG)["promotions"], "a promotion", fleet)
        fleet.client.pause_config(CONFIG, "room for the sweep")
        params = {"planted": [17], "fault": "another digest", "times": 2, "count": str(path / "count")}
        (sweep,) = fleet.client.submit_jobs([{"name": "seeds", "payload": _sweep(params)}])
        fleet.over(sweep)
        yield Situation(fleet, {"SWEEP": sweep})


@contextmanager
def sound(path: Path) -> Made:
    """Nothing is wrong."""
    with a_fleet(path, nodes=[NODE]) as fleet:
        fleet.start()
        yield Situation(fleet)


SITUATIONS = {
    "": sound,
    "A loop is stalled": stalled,
    "A device idles": idle,
    "A disk is full": full,
    "A node is out of reach": away,
    "A result is wrong": wrong,
}


def test_every_section_has_its_situation() -> None:
    assert list(sections()) == list(SITUATIONS)
    assert {key for blocks in sections().values() for block in blocks for key in block.what} == {"after", "status"}


QUICK = ("",)


@pytest.mark.long
@pytest.mark.parametrize(
    "title",
    [pytest.param(title, marks=() if title in QUICK else pytest.mark.long) for title in SITUATIONS],
    ids=lambda title: title or "beginning",
)
def test_its_commands_do_what_it_says(title: str, tmp_path: Path) -> None:
    with SITUATIONS[title](tmp_path) as now:
        for block in sections()[title]:
            if "after" in block.what:
                now.repair()
            where = f"{GUIDE.name}, {title or 'beginning'}, line {block.line} of it"
            for number, line in enumerate(block.lines):
                says = block.says if number == len(block.lines) - 1 else []
                _execute(now, _replaced(now, line), [_replaced(now, each) for each in says], block.what, where)


def _execute(now: Situation, line: str, says: list[str], what: Mapping[str, str], where: str) -> None:
    wanted, again = int(what.get("status", "0")), any(line.startswith(f"hostler {each}") for each in ASKS)
    deadline = time.monotonic() + (PATIENCE_S if again else 0.0)
    while True:
        said = _run(now, line)
        missing = [each for each in says if not _pattern(each).search(" ".join((said.out + said.err).split()))]
        if (said.status == wanted and not missing) or time.monotonic() >= deadline:
            break
        time.sleep(0.5)
    assert (said.status, missing) == (wanted, []), f"{where}: {line}\n{said.out}{said.err}\n{now.fleet.log()}"


def _run(now: Situation, line: str) -> Said:
    """A command as somebody types it, in the folder of the fleet file."""
    words = shlex.split(line)
    env = {**os.environ, "HOSTLER_STATE_DIR": str(now.fleet.state), "COLUMNS": "100"}
    if words[0] == "hostler":
        return command(*words[1:], env=env, cwd=now.fleet.path)
    done = subprocess.run(
        words, capture_output=True, text=True, env=env, cwd=now.fleet.path, timeout=PATIENCE_S, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr)


def _replaced(now: Situation, text: str) -> str:
    for word, stands_for in now.words.items():
        text = re.sub(rf"\b{word}\b", stands_for, text)
    return text


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*?".join(re.escape(" ".join(part.split())) for part in text.split("…")))


def _sweep(params: View) -> View:
    worker = [sys.executable, str(WORKER)]
    return {
        "kind": "sweep", "schema": 1, "start": 0, "stop": 100, "worker": worker, "params": params,
        "digest": digest(params),
    }  # fmt: skip
