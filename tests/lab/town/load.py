"""Somebody who keeps a town busy: scripts, scripts that leave files, and sweeps, submitted to whoever takes them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hostler.model.errors import HostlerError, StandsBy
from tests.lab.town.town import Town
from tests.lab.work import FREELY

HERE = Path(__file__).parent
PER_S = 1000
PLANTED = 5
MOST_WAITING = 40
REST_S = 0.3
NEVER_AGAIN = 0.1
"""Share of submissions that are not repeated when no answer comes: nobody knows whether they were taken."""
SWEEPS_OF = 12
"""One of so many orders is a sweep, two leave files."""
RETRY = {"max_attempts": FREELY, "backoff_s": 0.1}


@dataclass(frozen=True)
class Order:
    """What somebody asks for."""

    name: str
    spec: Mapping[str, Any]
    files: int = 0
    stop: int = 0
    planted: tuple[int, ...] = ()


@dataclass
class Orders:
    """What was asked for, and what came of asking."""

    confirmed: dict[str, Order] = field(default_factory=dict)
    """By the job's id."""
    unsure: list[Order] = field(default_factory=list)
    """No answer came, and they were not repeated."""
    refused: list[str] = field(default_factory=list)
    """What controllers said that did not take one, but for standing by."""


class Customer:
    """Submits until told to stop; everything it does not give up is confirmed then."""

    def __init__(self, town: Town, folder: Path, seed: int, per_s: float) -> None:
        self.orders = Orders()
        self._town = town
        self._random = Random(seed)
        self._pause_s = 1.0 / per_s
        self._over = threading.Event()
        self._number = 0
        self._search, self._project = _laid_out(folder)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Submitting meanwhile; after it everything that was to be confirmed is."""
        thread = threading.Thread(target=self._run, name="customer")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._pause_s * self._random.uniform(0.5, 1.5)):
            if self._waiting() < MOST_WAITING:
                self._submit(self._next())

    def _next(self) -> Order:
        self._number += 1
        name = f"order-{self._number}"
        dealt = self._number % SWEEPS_OF
        if dealt == 1:
            return self._sweep(name)
        files = self._random.randint(1, 3) if dealt in (4, 8) else 0
        return self._script(name, self._random.uniform(0.2, 3.0), files)

    def _submit(self, order: Order) -> None:
        once = self._random.random() < NEVER_AGAIN
        while True:
            for seat in (self._town.leader, self._town.standby):
                try:
                    (job,) = seat.client.submit_jobs([order.spec])
                except StandsBy:
                    continue
                except (HostlerError, OSError) as error:
                    self.orders.refused.append(f"{type(error).__name__}: {str(error)[:200]}")
                    if once:
                        self.orders.unsure.append(order)
                        return
                else:
                    self.orders.confirmed[job] = order
                    return
            time.sleep(REST_S)

    def _waiting(self) -> int:
        """Jobs that nobody has begun; none where nobody says."""
        with contextlib.suppress(HostlerError, OSError):
            return int(self._town.leader.client.status()["jobs"].get("pending", 0))
        return 0

    def _script(self, name: str, seconds: float, files: int) -> Order:
        argv = ["{python}", "task.py", name, f"{seconds:.2f}", str(files)]
        payload = {"kind": "script", "schema": 1, "argv": argv, "cwd": str(self._project), "require_result": True}
        if files:
            payload["outputs"] = ["out"]
        return Order(name, {"name": name, "key": name, "payload": payload, "retry": RETRY}, files=files)

    def _sweep(self, name: str) -> Order:
        stop = int(PER_S * self._random.uniform(5.0, 25.0))
        planted = tuple(sorted(self._random.sample(range(stop), PLANTED)))
        params = {"planted": list(planted), "per_s": PER_S, "of": name}
        payload = {
            "kind": "sweep",
            "schema": 1,
            "start": 0,
            "stop": stop,
            "worker": ["{python}", "worker.py"],
            "cwd": str(self._search),
            "params": params,
            "digest": hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest(),
            "kernel": "lab",
            "target_s": 2.0,
        }
        spec = {"name": name, "key": name, "payload": payload, "retry": RETRY}
        return Order(name, spec, stop=stop, planted=planted)


def _laid_out(folder: Path) -> tuple[Path, Path]:
    """Folders that the work runs in; both controllers have them under the same name."""
    search, project = folder / "search", folder / "project"
    for made, program in ((search, HERE.parent / "worker.py"), (project, HERE / "task.py")):
        made.mkdir()
        shutil.copy(program, made)
    return search, project
