"""Every seed of CPython's `random` below 2^32, tried by this machine and three hosts while much of it is killed.

`make seeds` tries all of them, which takes some minutes, with somebody killed every twenty seconds
(`LAB_SEEDS_EVERY_S`). Without `LAB_SEEDS` it is a small part, in which everybody dies once. In full, kernels are
compiled before: that is done once on a machine, and not at each search.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

from hostler.workloads.sieve import callspec, spec
from hostler.workloads.sieve.generators import generator, oracle
from tests.integration.conftest import Fleet, a_fleet, command
from tests.lab import datacentre
from tests.lab.datacentre import Datacentre
from tests.lab.host import Host
from tests.lab.runs import Run, read
from tests.lab.work import FREELY

pytest.importorskip("numba", reason="searches need numba: pip install 'hostler[kernels]'")
NO_LAB = datacentre.missing()
HIDDEN = (
    "hosts have a /tmp of their own, in which they do not see this project" if sys.prefix.startswith("/tmp") else None
)
pytestmark = pytest.mark.skipif(bool(NO_LAB or HIDDEN), reason=NO_LAB or HIDDEN or "")
BITS = int(os.environ.get("LAB_SEEDS", "26"))
IN_FULL = BITS == 32
STOP = 1 << BITS
SEED = STOP // 7 * 5
EVERY_S = float(os.environ.get("LAB_SEEDS_EVERY_S", "20")) if IN_FULL else 1.0
OVER_S = 1500.0 if IN_FULL else 900.0
BAR, WITHIN = 1.05, 1.15
"""Of the bound: what was asked for, and what two hyper-threads of one core allow. There a worker takes 2.5 CPU-seconds
to start while others search, which each death costs once and the beginning four times (docs/reliability.md)."""
WORKER = "hostler.workloads.sieve"
CACHE = Path(__file__).parents[2] / "build" / "numba"
CACHED = {"NUMBA_CACHE_DIR": str(CACHE)} if IN_FULL else {}
"""Hosts see this project, and no other folder of ours."""
CALLS = "randrange(1000)"
DRAWS = 10

Death = Callable[[Fleet, Host], object]


@pytest.fixture
def lab() -> Iterator[Datacentre]:
    with datacentre.running([], [], []) as made:
        yield made


def a_worker_there(fleet: Fleet, host: Host) -> int:
    return host.kill(WORKER)


def a_worker_here(fleet: Fleet, host: Host) -> int:
    """Those of the hosts are not this one's children: their namespaces are others."""
    assert fleet.controller is not None
    own = os.readlink("/proc/self/ns/pid")
    killed = 0
    for each in fleet.processes():
        with contextlib.suppress(psutil.Error, OSError):  # it has ended since it was listed
            if os.readlink(f"/proc/{each.pid}/ns/pid") == own and searches(each):
                each.kill()
                killed += 1
    return killed


def an_agent(fleet: Fleet, host: Host) -> int:
    return host.kill_agent()


def a_host(fleet: Fleet, host: Host) -> int:
    host.reboot()
    return 1


def the_controller(fleet: Fleet, host: Host) -> int:
    fleet.kill()
    fleet.launch("--until-idle")
    return 1


DEATHS: tuple[Death, ...] = (a_worker_there, a_worker_here, an_agent, a_host, the_controller)


@pytest.mark.long
def test_each_seed_is_tried_once_whatever_dies(lab: Datacentre, tmp_path: Path) -> None:
    given = settings(lab, tmp_path)
    if IN_FULL:
        compile_kernels(tmp_path / "draws.json")
    with a_fleet(tmp_path) as fleet:
        fleet.settle(**given)
        assert command("node", "trust", "--state-dir", fleet.state, fleet.file, "--yes").status == 0
        fleet.launch("--until-idle")
        died = killed_until_the_end(lab, fleet)
        run = read(fleet.state, "j1", STOP, [SEED])
        if IN_FULL:
            fleet.start()
            assert command("sweep", "verify", "j1", "--state-dir", fleet.state).status == 0
    assert set(died) == {death.__name__ for death in DEATHS}, died
    if IN_FULL:
        check_balance(run, died)


def compile_kernels(draws: Path) -> None:
    """Have what workers load lie in a cache that all nodes share: each would compile it once, and then never again."""
    CACHE.mkdir(parents=True, exist_ok=True)
    CACHE.chmod(0o777)
    search = [sys.executable, "-m", WORKER, "search", str(draws), "--stop", "1", "--threads", "1"]
    subprocess.run(search, env={**os.environ, **CACHED}, check=True, capture_output=True, timeout=OVER_S)


def check_balance(run: Run, died: Counter[str]) -> None:
    """Everybody has worked, and little time was lost by all of it."""
    told = (
        f"2^{BITS} seeds on {len(run.items)} devices, killed: {dict(died)}; bound {run.bound_s:.1f} s, "
        f"{run.ratio(run.began_at):.4f} of it from the first chunk on, {run.ratio(run.up_at):.4f} with the start"
    )
    print(f"{told}; {BAR} is {'met' if run.ratio(run.began_at) <= BAR else 'missed'}")
    assert len(run.items) == 4, told
    assert run.ratio(run.began_at) <= WITHIN, told


def settings(lab: Datacentre, folder: Path) -> dict[str, Any]:
    """This machine and the hosts with a worker each, all with the same Python, and one sweep."""
    made_by = generator("python")
    (call,) = callspec.parse(made_by, CALLS)
    draws = list(islice(oracle(made_by, call, SEED), DRAWS))
    made = {"runtime": "Hostler's own oracle", "script": "tests/lab/test_seeds.py", "command": f"seed {SEED}"}
    about = {"schema": 1, "generator": "python", "output": spec.output_params(call), "draws": draws, "provenance": made}
    (folder / "draws.json").write_text(json.dumps(about))
    return {
        "name": "seeds",
        "ssh": {"config": [], "known_hosts": [], "keepalive_s": 1.0, "connect_s": 5},
        "nodes": [
            {"name": "here", "cpu_slots": 1, "gpus": "none", "env": CACHED},
            *lab.fleet(cpu_slots=1, canary="none", python=sys.executable, env=CACHED),
        ],
        "sweeps": [
            {
                "name": "python",
                "program": "sieve",
                "range": [0, STOP],
                "params": {"data": "draws.json"},
                "retry": {"max_attempts": FREELY},
            }
        ],
    }


def killed_until_the_end(lab: Datacentre, fleet: Fleet) -> Counter[str]:
    """One death after the other, each kind in turn and a host by chance; how many there were of each kind."""
    chance, died = random.Random(32), Counter[str]()
    ends_at = time.monotonic() + OVER_S
    while time.monotonic() < ends_at:
        if over(fleet, chance.uniform(0.5, 1.5) * EVERY_S):
            return died
        if died.total() == len(DEATHS) and not IN_FULL:
            continue
        death = DEATHS[died.total() % len(DEATHS)]
        while not death(fleet, chance.choice(lab.hosts)):
            if over(fleet, 0.1):
                return died
        died[death.__name__] += 1
    pytest.fail(f"not over after {OVER_S} s: {command('explain', 'python', '--state-dir', fleet.state).out}")


def over(fleet: Fleet, within_s: float) -> bool:
    """Whether the controller ends by then; only with everything done."""
    assert fleet.controller is not None
    try:
        assert fleet.controller.wait(within_s) == 0, fleet.log()
    except subprocess.TimeoutExpired:
        return False
    return True


def searches(process: psutil.Process) -> bool:
    """Whether this is a worker; one that has ended meanwhile is not."""
    try:
        return WORKER in process.cmdline()
    except psutil.Error:
        return False
