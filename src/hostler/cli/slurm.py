"""Slurm clusters: what is wrong with them, and whether work goes through."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from hostler.cli.common import Json
from hostler.cli.declarations import Argument, Option
from hostler.cli.errors import Interrupted
from hostler.cli.nodes import tell_findings
from hostler.cli.show import Column, clean, duration, maybe, paragraph, plural, say, say_json, table
from hostler.model.errors import NotFound, UsageError

if TYPE_CHECKING:
    from hostler.backends.slurm.smoke import Smoked
    from hostler.settings import Loaded
    from hostler.settings.nodes import Node

T = TypeVar("T")


SMOKE_COLUMNS = (
    Column("PARTITION", yields=True),
    Column("KIND"),
    Column("JOB", right=True),
    Column("WAITED", right=True),
    Column("RAN", right=True),
    Column("RESULT"),
    Column("SAYS", yields=True),
)

FleetFile = Annotated[Path, Argument(metavar="FLEET", help="The fleet file.")]
Only = Annotated[
    list[str] | None, Option("--node", metavar="NODE", help="Only this partition, by its name in the file.")
]
Wait = Annotated[
    float, Option("--wait", min=1.0, max=86400.0, metavar="SECONDS", help="How long a job may be in the queue.")
]


def check(
    fleet: FleetFile = Path("fleet.yaml"),
    node: Only = None,
    wait: Wait = 60.0,
    as_json: Json = False,
) -> int:
    """Look at clusters and their partitions: what keeps work from them or slows it down, and what to do about it.

    Asks sbatch whether it would take what each kind of work asks for, and runs one tiny job in each partition: whether
    it sees the shared folder, Python, its GPUs, which clock it has. A job that does not begin in time is cancelled.
    Nothing is left there, and a controller that runs is not disturbed.

    Exit status 1 where there is an error.

    Example:
      hostler slurm check fleet.yaml
      hostler slurm check fleet.yaml --node gpu-train --wait 600
    """
    from hostler.runtime.visits import checked

    loaded, nodes = _partitions(fleet, node or [])
    found = _interruptible(lambda left: checked(loaded, nodes, wait, left))
    if as_json:
        say_json([each._asdict() for each in found])
    else:
        tell_findings(found)
    return int(any(each.health == "error" for each in found))


def smoke(
    fleet: FleetFile = Path("fleet.yaml"),
    node: Only = None,
    wait: Wait = 60.0,
    at_a_time: Annotated[
        int, Option("--at-a-time", min=1, max=1000, metavar="N", help="So many jobs at the same time.")
    ] = 8,
    as_json: Json = False,
) -> int:
    """Run one tiny job for each partition and each kind of work that is allowed there, as such work is run.

    Each asks for what its kind of work asks for, but for five minutes at most, and is submitted in the same way. A job
    that does not begin in time is cancelled; so is everything at Ctrl-C.

    Exit status 1 where one has failed or did not begin.

    Example:
      hostler slurm smoke fleet.yaml
      hostler slurm smoke fleet.yaml --node cpu-eval --wait 300
    """
    from hostler.runtime.visits import smoked

    loaded, nodes = _partitions(fleet, node or [])
    count = [0]

    def tell(each: Smoked) -> None:
        count[0] += 1
        if not as_json and sys.stderr.isatty():
            print(f"\r{plural(count[0], 'job')} over", end="", file=sys.stderr, flush=True)

    rows = _interruptible(lambda left: smoked(loaded, nodes, wait, at_a_time, left, tell))
    if as_json:
        say_json([asdict(each) for each in rows])
    else:
        if sys.stderr.isatty():
            print("\r", end="", file=sys.stderr)
        _tell_rows(rows)
    return int(any(each.result != "ok" for each in rows))


def _tell_rows(rows: Sequence[Smoked]) -> None:
    say(table(SMOKE_COLUMNS, map(_row, rows)))
    for each in rows:
        if each.result != "ok":
            fix = f": {each.fix}" if each.fix else ""
            say(paragraph(f"{each.node} {each.work}: {each.says}{fix}", rest="  "))
    good = sum(each.result == "ok" for each in rows)
    print(f"{good} of {plural(len(rows), 'job')} went through")


def _row(each: Smoked) -> Sequence[object]:
    waited = "-" if each.waited_s is None else duration(each.waited_s)
    ran = "-" if each.ran_s is None else duration(each.ran_s)
    return each.node, each.work, "-" if each.job is None else maybe(each.job), waited, ran, each.result, each.says


def _interruptible(work: Callable[[list[str]], Coroutine[Any, Any, T]]) -> T:
    """Carry it out; at Ctrl-C or SIGTERM what it has started is cancelled first."""
    from asyncio import CancelledError

    from hostler.runtime.visits import interruptible

    left: list[str] = []
    try:
        return interruptible(work(left))
    except CancelledError as error:
        raise Interrupted from error
    finally:
        if left:
            named = clean(" ".join(left))
            print(f"hostler: these could not be seen to end; cancel them: scancel {named}", file=sys.stderr)


def _partitions(fleet: Path, names: Sequence[str]) -> tuple[Loaded, list[Node]]:
    from hostler.settings import load

    loaded = load(fleet, os.environ)
    found = [node for node in loaded.fleet.nodes if node.backend == "slurm"]
    known = ", ".join(node.name for node in found) or "none"
    unknown = sorted(set(names) - {node.name for node in found})
    if unknown:
        raise NotFound(f"{unknown[0]!r} is no partition of a cluster in {loaded.path}; it has {known}")
    if not found:
        raise UsageError(f"{loaded.path} has no partition of a cluster (`backend: slurm`)")
    return loaded, [node for node in found if not names or node.name in names]
