"""A real controller on this machine, and jobs that ask the CUDA driver what they see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hostler.model.errors import NotFound
from tests.gpu.machine import Card, Machine
from tests.integration.conftest import FINAL, Fleet, a_fleet

PYTHON = sys.executable
PROBE = Path(__file__).with_name("probe.py")
WAIT_S = float(os.environ.get("GPU_WAIT_S", "90"))
"""Bound of one wait; all checks together have another one."""
T = TypeVar("T")


class CheckFailed(Exception):
    """A check has seen something else than it should."""


class World:
    """The fleet of one machine, `here`, and its cards as nvidia-smi lists them."""

    def __init__(self, fleet: Fleet, machine: Machine, folder: Path) -> None:
        self.fleet = fleet
        self.cards = {f"here/cuda{card.number}": card for card in machine.cards}
        self.folder = folder
        self._gates = 0

    def devices(self) -> dict[str, dict[str, Any]]:
        """The GPUs that the controller knows, by id."""
        (node,) = self.fleet.client.nodes()
        return {each["id"]: dict(each) for each in node["devices"] if each["kind"] != "cpu"}

    def gate(self) -> Path:
        """A file that does not exist yet, for jobs that wait for it."""
        self._gates += 1
        return self.folder / f"gate-{self._gates}"

    def probe(self, *words: object, **spec: Any) -> str:
        """Submit the probe; returns the job's id."""
        return self.fleet.script(PYTHON, str(PROBE), *map(str, words), **spec)

    def ended(self, job: str) -> dict[str, Any]:
        """A job, once it is over."""

        def over() -> dict[str, Any] | None:
            found = self.fleet.job(job)
            return found if found["state"] in FINAL else None

        return self.until(over, f"the end of {job}")

    def done(self, job: str) -> dict[str, Any]:
        """A job that must succeed."""
        found = self.ended(job)
        if found["state"] != "done":
            raise CheckFailed(f"{job} {found['state']}: {found['why']}: {self.printed(job)[-300:]}")
        return found

    def printed(self, job: str) -> str:
        """The output of the first attempt of a job, then its errors; nothing while it has not been placed."""
        try:
            out, err = (
                self.fleet.client.log(f"{job}.1", stream).data.decode(errors="replace") for stream in ("out", "err")
            )
        except NotFound:
            return ""
        return f"{out}{err}"

    def answer(self, job: str) -> None:
        """Wait until a job that runs on has printed its cards."""
        self.until(lambda: "]" in self.printed(job), f"the answer of {job}")

    def seen(self, job: str) -> list[str]:
        """The UUIDs that a job which shows its cards has seen."""
        return [bare(each["uuid"]) for each in json.loads(self.printed(job))]

    def until(self, question: Callable[[], T | None], what: str) -> T:
        """The first true answer."""
        deadline = time.monotonic() + WAIT_S
        while not (answer := question()):
            if time.monotonic() > deadline:
                raise CheckFailed(f"{what} did not come within {WAIT_S:g} s")
            time.sleep(0.1)
        return answer


def bare(uuid: str) -> str:
    """A UUID without the prefix that nvidia-smi gives it, and the driver does not."""
    return uuid.lower().removeprefix("gpu-")


def listed(cards: Sequence[Card]) -> str:
    """Cards in words."""
    return ", ".join(f"{card.number} ({card.model})" for card in cards)


def shown(machine: Machine) -> Machine:
    """The cards that the CUDA runtime shows a process of this environment: its owner may have kept some from us."""
    environ = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    asked = subprocess.run(
        [PYTHON, PROBE, "show"], env=environ, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    if asked.returncode != 0:
        raise CheckFailed(f"the CUDA driver library does not answer: {asked.stderr.strip()[-300:]}")
    uuids = {bare(each["uuid"]) for each in json.loads(asked.stdout)}
    return machine._replace(cards=[card for card in machine.cards if bare(card.uuid) in uuids])


@contextmanager
def a_world(folder: Path, machine: Machine) -> Iterator[World]:
    """A controller that runs; nothing of it is left afterwards."""
    with a_fleet(folder) as fleet:
        fleet.settle(nodes=[{"name": "here", "cpu_slots": 2, "canary": "auto"}])
        fleet.start()
        yield World(fleet, machine, folder)
