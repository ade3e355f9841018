"""CPU time of a command against a running controller, beside the clients of Ray, dstack and HyperQueue.

    python benchmarks/cli.py [--quick] [--json FILE]

A real controller with 20 jobs that have ended; each command is a process of its own, started as a user starts it, and
its CPU time is that of the process, its start and imports included. All commands are run in turn, 15 times
(`--quick`: 5), so that a change in the load of the machine meets all of them; each figure is the lowest one. `ratio` is
that to `python -c pass`, of the same environment. The bar: 2 × `python -c pass` + 40 ms.

- `ray job list` is asked of a Ray cluster on this machine.
- `dstack ps` without a server, as that loads catalogs from the internet: it ends with an error before it asks one, so
  that its figure is a lower bound.
- HyperQueue's package on PyPI has its Python API and no command line (`hq`): a Python process that connects to a
  server.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import peers_env
from common import Bar, Row, arguments, report
from groups import controller, run
from hostler import __version__
from hostler.client import Client

TIMES, QUICK_TIMES = 15, 5
JOBS = 20
FACTOR, ADDED_MS = 2, 40
PYTHON = sys.executable
HOSTLER = str(Path(PYTHON).with_name("hostler"))
COMMANDS: Mapping[str, Sequence[str]] = {
    "hostler jobs": ["jobs"],
    "hostler status": ["status"],
    "hostler queue": ["queue"],
    "hostler job show j1": ["job", "show", "j1"],
    "hostler explain j1": ["explain", "j1"],
    "hostler logs j1": ["logs", "j1"],
    "hostler wait j1": ["wait", "j1"],
    "hostler node list": ["node", "list"],
    "hostler events": ["events", "--after", "0"],
    "hostler results g1": ["results", "g1"],
    "hostler submit": ["submit", "--own-dir", "--device", "cpu", "--", "true"],
    "hostler --help": ["--help"],
}
HYPERQUEUE = "from hyperqueue import Client; Client(__import__('sys').argv[1])"
HYPERQUEUE_SERVER = """
import sys
from hyperqueue import LocalCluster
with LocalCluster(sys.argv[1]) as cluster:
    print(flush=True)
    sys.stdin.read()
"""


class Case(NamedTuple):
    """A command to measure, and the command of its environment that does nothing."""

    name: str
    version: str
    words: Sequence[str]
    environ: Mapping[str, str]
    base: str
    may_fail: bool = False


def main() -> None:
    """Run the command line described above."""
    options = arguments(__doc__)
    times = QUICK_TIMES if options.quick else TIMES
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb-cli-")))
        cases = [*ours(home, stack), *peers(home, stack)]
        figures: dict[str, list[float]] = {case.name: [] for case in cases}
        for _ in range(times):
            for case in cases:
                figures[case.name].append(cpu_ms(case))
    lowest = {name: min(found) for name, found in figures.items()}
    rows: list[Row] = [
        {
            "command": case.name,
            "version": case.version,
            "CPU ms": lowest[case.name],
            "ratio": lowest[case.name] / lowest[case.base],
        }
        for case in cases
    ]
    target = FACTOR * lowest["python -c pass"] + ADDED_MS
    bars = [Bar(f"CPU ms of `{name}`", lowest[name], target, "<=") for name in COMMANDS]
    report("cli", rows, bars, options.json)


def ours(home: Path, stack: ExitStack) -> list[Case]:
    """A controller with jobs that have ended, and our commands."""
    place = home / "state"
    process = stack.enter_context(controller(place, {"nodes": [{"name": "here", "cpu_slots": 2, "gpus": "none"}]}))
    run(process, place, ["submit", "--own-dir", "--device", "cpu", "--repeat", str(JOBS), "--wait", "--", "true"], home)
    Client.from_state_dir(place).status()
    environ = {**os.environ, "HOSTLER_STATE_DIR": str(place)}
    python = f"Python {sys.version.split()[0]}"
    pass_ = Case("python -c pass", python, [PYTHON, "-c", "pass"], environ, "python -c pass")
    return [
        pass_,
        *(Case(name, __version__, [HOSTLER, *words], environ, pass_.name) for name, words in COMMANDS.items()),
    ]


def peers(home: Path, stack: ExitStack) -> list[Case]:
    """The peers' clients; none where their environment cannot be made."""
    try:
        python = peers_env.ensure("peers-cli")
    except subprocess.CalledProcessError as error:
        print(f"no peers: their environment could not be made ({error})", file=sys.stderr)
        return []
    environ = {**os.environ, "HOME": str(home), "RAY_ADDRESS": "http://127.0.0.1:8265"}
    base = Case("python -c pass (peers)", "", [str(python), "-c", "pass"], environ, "python -c pass (peers)")
    cases = [base]
    ray = str(python.with_name("ray"))
    words = ["start", "--head", "--num-cpus=1", "--dashboard-host=127.0.0.1", "--disable-usage-stats"]
    started = subprocess.run([ray, *words], env=environ, capture_output=True, text=True, check=False)
    if started.returncode == 0:
        stack.callback(subprocess.run, [ray, "stop"], env=environ, capture_output=True, check=False)
        cases.append(Case("ray job list", version("ray", python), [ray, "job", "list"], environ, base.name))
    else:
        print(f"no Ray: {started.stderr.strip()[-200:]}", file=sys.stderr)
    dstack = str(python.with_name("dstack"))
    name = "dstack ps, without a server"
    cases.append(Case(name, version("dstack", python), [dstack, "ps"], environ, base.name, may_fail=True))
    folder = home / "hyperqueue"
    folder.mkdir()
    server = stack.enter_context(
        subprocess.Popen(
            [python, "-c", HYPERQUEUE_SERVER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
        )
    )
    assert server.stdin is not None
    assert server.stdout is not None
    stack.callback(server.stdin.close)
    server.stdout.readline()
    words = [str(python), "-c", HYPERQUEUE, str(folder)]
    cases.append(
        Case("HyperQueue, connecting", version("hyperqueue", python), words, environ, base.name, may_fail=True)
    )
    return cases


def version(package: str, python: Path) -> str:
    """The version of a package in the peers' environment."""
    words = [str(python), "-c", f"from importlib.metadata import version; print(version({package!r}))"]
    return str(subprocess.run(words, capture_output=True, text=True, check=True).stdout).strip()


def cpu_ms(case: Case) -> float:
    """Milliseconds of CPU time, user and system, of a process of this command."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            case.words, env=dict(case.environ), stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/"
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode and not case.may_fail:
            said.seek(0)
            raise SystemExit(f"`{case.name}` failed: {said.read().decode()[-500:]}")
    return 1000 * (usage.ru_utime + usage.ru_stime)


if __name__ == "__main__":
    main()
