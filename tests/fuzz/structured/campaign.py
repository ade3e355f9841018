"""The campaign: so many changed documents for each reader, then the journal, a backup, and the next controller.

`python -m tests.fuzz.structured.campaign --inputs 10000` prints its seed; `--seed` plays it again. Half of the inputs
of each reader are given to a controller on SQLite, the other half to one on PostgreSQL, side by side. What breaks is
written below `tests/fuzz/kept/structured`, where `make test` tries it again, and the status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import postgres
from tests.fuzz.extremes import JSON

from . import bodies, files, messages
from .changes import Case, Document, drawn
from .town import Town, expect_whole, new_directory, town

KEPT = Path(__file__).parents[1] / "kept" / "structured"
ROOM = 4 << 30
"""Bytes that must be free: the product keeps a gigabyte free by itself."""
OFTEN = 250
"""Inputs between two jobs of the honest node, and two looks at all lists."""


@dataclass(frozen=True)
class Reader:
    """Where documents of one kind come in."""

    name: str
    documents: Callable[[], list[Document]]
    give: Callable[[Town, Case], Awaitable[None]]
    texts: Sequence[str] = JSON


READERS = (
    Reader("messages", messages.documents, messages.give),
    Reader("bodies", bodies.documents, bodies.give),
    Reader("jobs", files.jobs_documents, files.give_jobs, files.TEXTS),
    Reader("fleets", files.fleet_documents, files.give_fleet, files.TEXTS),
)
BY_NAME = {reader.name: reader for reader in READERS}


@dataclass
class Outcome:
    """What came of a share."""

    reader: str
    database: str
    given: int
    cpu_s: float
    broke: list[tuple[Case, str]]


async def play(
    cases: Sequence[tuple[Reader, Case]], folder: Path, database: str | None = None
) -> list[tuple[Case, str]]:
    """Give the cases to one controller; what broke. Then the journal, a backup and two more controllers are tried."""
    broke = list[tuple[Case, str]]()
    directory = new_directory(folder / "state", database)
    at = 0
    while at < len(cases):
        async with town(directory) as made:
            await made.busy()
            at = await _given(made, cases, at, broke)
            await made.honest_job()
            await bodies.expect_views(made)
    again = expect_whole(directory, folder)
    async with town(directory) as made:
        await made.honest_job()
    directory.release()
    again.take()
    async with town(again) as made:
        await made.honest_job()
    again.release()
    return broke


async def _given(made: Town, cases: Sequence[tuple[Reader, Case]], at: int, broke: list[tuple[Case, str]]) -> int:
    """Give cases until all are given, or one broke: then the next are for another controller."""
    for number, (reader, case) in enumerate(cases[at:], at):
        try:
            await reader.give(made, case)
            if number % OFTEN == OFTEN - 1:
                await made.honest_job()
                await bodies.expect_views(made)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
            broke.append((case, f"{type(error).__name__} at {place}: {error}"))
            return number + 1
    return len(cases)


def keep(reader: Reader, case: Case) -> Path:
    """Keep an input that broke something: its document's name in the first line, then the text."""
    folder = KEPT / reader.name
    folder.mkdir(parents=True, exist_ok=True)
    data = f"{case.document}\n{case.text}".encode(errors="surrogatepass")
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


def kept(reader: Reader) -> list[Case]:
    """What broke a reader once."""
    found = list[Case]()
    for path in sorted((KEPT / reader.name).glob("*")):
        name, _, text = path.read_bytes().decode(errors="surrogatepass").partition("\n")
        found.append(Case(name, text, path.name))
    return found


def _share(name: str, inputs: int, seed: int, which: int, database: str | None) -> Outcome:
    """One share of the inputs of a reader, in a process of its own."""
    reader = BY_NAME[name]
    cases = drawn(reader.documents(), inputs, random.Random(f"{seed} {name}"), reader.texts)[which::2]
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="hostler-fuzz-", dir=_room()) as folder:
        broke = asyncio.run(play([(reader, case) for case in cases], Path(folder), database))
    kind = "SQLite" if database is None else "PostgreSQL"
    return Outcome(name, kind, len(cases), time.process_time() - began, broke)


def _room() -> str | None:
    """A folder in memory where there is one with room: what a disk takes for its writes is not what is looked for."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else None


def main() -> int:
    """Play all, and tell what broke."""
    parser = argparse.ArgumentParser(description="Structured fuzzing of messages, bodies, jobs files and fleet files.")
    parser.add_argument("names", nargs="*", metavar="READER", help=f"{', '.join(BY_NAME)}; all, if none is named")
    parser.add_argument("--inputs", type=int, default=10_000, help="for each reader")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--sqlite-only", action="store_true", help="without PostgreSQL: all inputs on SQLite")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in BY_NAME]:
        parser.error(f"there is no reader {unknown[0]}; there are {', '.join(BY_NAME)}")
    print(f"seed {asked.seed}", flush=True)
    if asked.sqlite_only:
        return _all(asked.names or list(BY_NAME), asked.inputs, asked.seed, None)
    if (why := postgres.missing()) is not None:
        parser.error(f"{why}; --sqlite-only plays all on SQLite")
    with postgres.running() as server:
        return _all(asked.names or list(BY_NAME), asked.inputs, asked.seed, server)


def _all(names: Sequence[str], inputs: int, seed: int, server: postgres.Server | None) -> int:
    print(f"{'reader':10} {'database':10} {'inputs':>7} {'CPU s':>6}  broke", flush=True)
    status = 0
    with ProcessPoolExecutor(2) as pool:
        shares = [
            pool.submit(_share, name, inputs, seed, which, server.database() if server is not None and which else None)
            for name in names
            for which in (0, 1)
        ]
        for share in shares:
            made = share.result()
            print(
                f"{made.reader:10} {made.database:10} {made.given:>7} {made.cpu_s:>6.0f}  {len(made.broke)}", flush=True
            )
            for case, why in made.broke:
                path = keep(BY_NAME[made.reader], case)
                print(f"  {path.name}: {case.what}\n    {why:.600}", flush=True)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
