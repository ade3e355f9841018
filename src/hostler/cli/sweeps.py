"""Sweeps: submitting, ledgers, hits."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hostler.cli import sieving
from hostler.cli.common import Json, StateDir, client
from hostler.cli.completing import complete_sweep
from hostler.cli.constraints import ExcludeGpuModel, ExcludeNode, GpuModel, Label, Node, Provider, constraints
from hostler.cli.declarations import Argument, Option
from hostler.cli.fleet import SWEEP_COLUMNS, sweep_row
from hostler.cli.show import Column, age, compact, duration, maybe, percent, say, say_json, table
from hostler.cli.submission import submit_specs
from hostler.cli.submitting import After, Files, Key, MaxAttempts, Priority, VramGb, attempts
from hostler.cli.words import assignments, interval, json_or_text
from hostler.client.grids import names_in, submit_command
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import View


SweepName = Annotated[str, Argument(metavar="ID", help="Id, key or unique name of a sweep.", complete=complete_sweep)]
SweepDevice = Annotated[
    Literal["any", "cpu", "gpu"] | None, Option(help="The kind of device it needs; by default any.")
]
SweepCwd = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="With --worker: the folder whose files it gets, as they are now; by default this one.",
    ),
]
MORE = 20
CHUNK_COLUMNS = (
    Column("CHUNK"),
    Column("DEVICE", yields=True),
    Column("FOR", right=True),
    Column("OF", right=True),
    Column("SEARCHED", right=True),
    Column("INTERVAL", yields=True),
)
HIT_COLUMNS = (Column("AT", right=True), Column("DATA", yields=True))


def submit(
    name: Annotated[str, Argument(metavar="NAME", help="What people call it; its key, too, without --key.")],
    extra: Annotated[
        list[str] | None, Argument(metavar="[WORD]", help="None; a grid is answered with its `submit`.")
    ] = None,
    range_: Annotated[
        str | None, Option("--range", metavar="START:STOP", help="Half-open; exact, as 0:2**32 or 0x10:1e9.")
    ] = None,
    program: Annotated[str | None, Option(metavar="NAME", help="An installed program, such as sieve.")] = None,
    worker: Annotated[
        str | None,
        Option(metavar="CMD", help="A command that speaks the worker protocol; quoted words, read by no shell."),
    ] = None,
    param: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="A parameter; JSON, or else a text; repeat for several."),
    ] = None,
    params: Annotated[
        Path | None, Option(metavar="FILE", help="Parameters from a YAML or JSON file; --param wins.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="Recorded draws whose seed the sieve is to find; repeat for several."),
    ] = None,
    generator: Annotated[
        str | None, Option(metavar="NAME", help="With --data: what made the draws, such as php8, java, v8.")
    ] = None,
    calls: Annotated[
        str | None, Option(metavar="CALLS", help="With --data: by which calls, such as 'mt_rand(1,100)'.")
    ] = None,
    all_generators: Annotated[
        bool, Option("--all-generators", help="With --data: search for every generator, by its usual calls.")
    ] = False,
    values: Annotated[
        str | None,
        Option(metavar="LOW:HIGH", help="With --all-generators: which integers draws can be, both included."),
    ] = None,
    budget_s: Annotated[
        float,
        Option(help="With --all-generators: leave out what takes more CPU-seconds of one core than that."),
    ] = 3600.0,
    part: Annotated[
        str | None, Option("--share", metavar="I/N", help="Only the I-th of N equal parts of the range.")
    ] = None,
    control: Annotated[
        bool, Option("--control/--no-control", help="With --data: search shuffled draws as well.")
    ] = True,
    wait: Annotated[bool, Option("--wait", help="With --data: wait, and print who survived.")] = False,
    key: Key = None,
    after: After = None,
    priority: Priority = 0,
    device: SweepDevice = None,
    node: Node = None,
    exclude_node: ExcludeNode = None,
    gpu_model: GpuModel = None,
    exclude_gpu_model: ExcludeGpuModel = None,
    provider: Provider = None,
    label: Label = None,
    vram_gb: VramGb = 0.0,
    max_attempts: MaxAttempts = None,
    target_s: Annotated[
        float | None, Option(help="How long a chunk should take, in seconds; by default what is good for it.")
    ] = None,
    chance: Annotated[
        float | None, Option(help="With --worker: the probability that an item is a hit by chance.")
    ] = None,
    cwd: SweepCwd = None,
    own_dir: Annotated[
        bool, Option("--own-dir", help="With --worker: send no files; start in an empty folder.")
    ] = False,
    files: Files = None,
    yes: Annotated[bool, Option("--yes", help="Send more than 1 GB of files without a question.")] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Submit a search over every integer of a range; print its id.

    A --worker runs with the files of the folder as they are now: a later edit changes nothing.

    Example:
      hostler sweep submit tokens --range 0:2**32 --program sieve --params examples/draws/php.json
      hostler sweep submit sieve --data draws.csv --generator php8 --calls 'mt_rand(1,100)' --wait
      hostler sweep submit sieve --data draws.csv --all-generators --values 1:100 --wait
      hostler sweep submit primes --range 0:1e9 --worker "python3 primes.py --fast" --param base=7
    """
    _expect_name([name, *(extra or ())], is_search=range_ is not None or bool(data))
    given, bounds = _params(params, param), None if range_ is None else interval("--range", range_)
    asked = {
        "name": name,
        "priority": priority,
        "after": after or [],
        "resources": {
            "device": device,
            "vram_gb": vram_gb,
            **constraints(
                nodes=node,
                exclude_nodes=exclude_node,
                gpu_models=gpu_model,
                exclude_gpu_models=exclude_gpu_model,
                providers=provider,
                labels=label,
            ),
        },
        "retry": {"max_attempts": attempts(max_attempts)},
        "target_s": target_s,
    }
    folder = _folder(worker, cwd, files, own_dir=own_dir)
    if data:
        from hostler.cli import seeking

        _only_sieve(program, worker, chance)
        who = sieving.Who(generator, calls, all_generators, values, budget_s)
        wanted = sieving.Wanted(data, who, given, bounds, part, control, key)
        seeking.seek(wanted, asked, client(state_dir), wait=wait, as_json=as_json)
        return
    if bounds is None or wait or generator is not None or calls is not None or all_generators or values is not None:
        raise UsageError(
            "give --range START:STOP; --generator, --calls, --all-generators, --values and --wait go with --data FILE "
            "alone"
        )
    more = _given(key=key, program=program, worker=_words(worker), chance=chance)
    bounds = bounds if part is None else sieving.part_of(bounds, part)
    base_dir = Path.cwd() if params is None else params.parent
    spec = _spec({**asked, "range": list(bounds), "params": given, **more, **folder}, base_dir)
    submit_specs([spec], as_json, state_dir, yes=yes)


def suggest(words: Sequence[str]) -> None:
    """Raise `UsageError` for `hostler sweep lr=0.1,0.03` and `hostler sweep NAME --range ...`: with what was meant."""
    if names_in(words):
        _expect_name([word for word in words if word != "--"], is_search=False)
    if any(word.startswith("--") for word in words):
        raise UsageError(f"no such command: sweep {words[0]}; `hostler sweep submit {words[0]} ...` submits a search")


def list_sweeps(as_json: Json = False, state_dir: StateDir = None) -> None:
    """List all sweeps, in order of submission: how much of each is done, and how many hits there are.

    Example:
      hostler sweep list
    """
    found = list(client(state_dir).sweeps())
    if as_json:
        say_json(found)
    else:
        say(table(SWEEP_COLUMNS, map(sweep_row, found)) if found else ["no sweeps"])


def show(name: SweepName, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show one sweep in numbers. `hostler sweep ledger` has its intervals, `hostler job show` its events.

    Example:
      hostler sweep show j3
    """
    found = client(state_dir).sweep(name)
    if as_json:
        say_json(found)
    else:
        say(table(SWEEP_COLUMNS, [sweep_row(found)]))


def hits(name: SweepName, as_json: Json = False, state_dir: StateDir = None) -> None:
    """List the accepted hits of a sweep, in order of acceptance.

    Example:
      hostler sweep hits j3
      hostler sweep hits tokens --json | jq '.[].at'
    """
    found = client(state_dir).hits(name)
    if as_json:
        say_json(list(found))
        return
    say(table(HIT_COLUMNS, [(hit["at"], compact(hit["data"])) for hit in found]))


def ledger(name: SweepName, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show which intervals of a sweep are done, leased and free.

    Example:
      hostler sweep ledger j3
    """
    view = client(state_dir).ledger(name)
    if as_json:
        say_json(view)
        return
    say(table(SWEEP_COLUMNS, [sweep_row(view["sweep"])]))
    for part in ("done", "free"):
        print(f"\n{part}: {_intervals(view[part])}")
    if view["leased"]:
        print()
        now = time.time()
        say(table(CHUNK_COLUMNS, [_chunk_row(chunk, now) for chunk in view["leased"]]))


def verify(name: SweepName, as_json: Json = False, state_dir: StateDir = None) -> int:
    """Fold a sweep's ledger again from the journal alone.

    The exit status is 1 if it contradicts itself; a sweep that is not complete yet is none.

    Example:
      hostler sweep verify j3 && echo sound
    """
    proof = client(state_dir).proof(name)
    if as_json:
        say_json(proof)
    else:
        say(_proof_lines(proof))
    return 0 if proof["fault"] is None else 1


def _expect_name(words: Sequence[str], *, is_search: bool) -> None:
    """Raise `UsageError` where the words are those of a grid, which is no search over integers, or more than a name."""
    if not is_search and names_in(words):
        raise UsageError(
            f"`hostler sweep` searches a range of integers, and {words[0]!r} is a grid. Submit a job for each value: "
            f"{submit_command(words)}"
        )
    if len(words) > 1:
        raise UsageError(f"unexpected words after the name {words[0]!r}: {' '.join(words[1:])}. Leave them out")


def _only_sieve(program: str | None, worker: str | None, chance: float | None) -> None:
    if worker is not None or chance is not None or program not in (None, "sieve"):
        raise UsageError("--data goes with the program sieve; leave out --worker, --chance and other programs")


def _folder(worker: str | None, cwd: Path | None, files: Sequence[str] | None, *, own_dir: bool) -> dict[str, Any]:
    """The folder of a worker, as a fleet file has it. Raises `UsageError` where options do not go together."""
    if worker is None:
        if cwd is not None or files or own_dir:
            raise UsageError("--cwd, --file and --own-dir go with --worker alone; programs need no files of a folder")
        return {}
    if own_dir:
        if cwd is not None or files:
            raise UsageError("--own-dir sends no files; leave out --cwd and --file, or --own-dir")
        return {}
    return _given(cwd=str((cwd or Path()).absolute()), files=list(files) if files else None)


def _params(path: Path | None, words: Sequence[str] | None) -> dict[str, Any]:
    from_words = {name: json_or_text(value) for name, value in assignments("--param", words).items()}
    return {**({} if path is None else _read_params(path)), **from_words}


def _read_params(path: Path) -> dict[str, Any]:
    from hostler.settings.reading import read_file

    value = read_file(path).value
    if not isinstance(value, dict):
        raise UsageError(f"--params {str(path)!r} holds no mapping of parameters; write NAME: VALUE lines")
    return value


def _words(command: str | None) -> list[str] | None:
    try:
        return None if command is None else shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--worker {command!r} cannot be split into words: {error}") from error


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _spec(asked: dict[str, Any], base_dir: Path) -> Any:
    from hostler.model.codec import plain
    from hostler.settings import sweep_spec

    return plain(sweep_spec(asked, base_dir))


def _intervals(intervals: Sequence[Sequence[int]]) -> str:
    shown = ", ".join(f"[{start}, {stop})" for start, stop in intervals[:MORE]) or "none"
    more = len(intervals) - MORE
    return shown + (f" and {more} more (`--json` has all)" if more > 0 else "")


def _chunk_row(chunk: View, now: float) -> Sequence[object]:
    start, stop, position = chunk["start"], chunk["stop"], chunk["position"]
    searched = maybe(position) if position is None else percent(position - start, stop - start)
    since, expected = age(chunk["leased_at"], now), duration(chunk["expected_s"])
    return chunk["chunk"], chunk["device"], since, expected, searched, f"[{start}, {stop})"


def _proof_lines(proof: View) -> Iterator[str]:
    yield f"{proof['job']}: {proof['done']} of {proof['total']} items done; intervals: {proof['intervals']}"
    yield f"hits accepted: {proof['hits']}"
    yield "complete" if proof["complete"] else "not complete"
    yield "disjoint, within its range" if proof["fault"] is None else f"FAULT: {proof['fault']}"
