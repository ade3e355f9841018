"""The sieve by hand: ``python -m hostler.workloads.sieve``."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SieveError, SpecError
from hostler.workloads.sieve.generators import generator, oracle
from hostler.workloads.sieve.generators.base import TEXT

PROGRESS_S = 1.0

EXAMPLES = """examples:
  python -m hostler.workloads.sieve generators
  python -m hostler.workloads.sieve check examples/draws/php.json
  python -m hostler.workloads.sieve search examples/draws/php.json
  python -m hostler.workloads.sieve search examples/draws/java.json --start 0 --stop 4294967296 --threads 2
  python -m hostler.workloads.sieve draw java-random --seed 42 --count 12 --output '{"kind": "bound", "bound": 1000}'
  python -m hostler.workloads.sieve draw python --seed text:hello --output '{"kind": "shuffle", "n": 52}' --count 1
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status (0 done, 1 refused, 2 wrong usage, 130 interrupted)."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except SieveError as error:
        print(f"sieve: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sieve: interrupted; what was not reported as searched was not searched", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone; a second failure at interpreter exit would only repeat it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hostler.workloads.sieve",
        description="Search for the seeds of a random number generator that reproduce recorded outputs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_search(commands.add_parser("search", help="search seeds on this machine with all cores"))
    planned = commands.add_parser("plan", help="say which method would search, for questions on standard input")
    planned.description = 'Reads lines {"params": {...}, "items": N}; each is answered by a plan, or {"refused": WHY}.'
    planned.set_defaults(command=_plan)
    worker = commands.add_parser("worker", help="serve a controller on standard input and output")
    worker.set_defaults(command=_worker)
    listing = commands.add_parser("generators", help="list the generators and their kinds of output")
    listing.set_defaults(command=_generators)
    _add_draw(commands.add_parser("draw", help="produce draws from a seed, slowly, as a JSON list"))
    check = commands.add_parser("check", help="validate data files")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    check.set_defaults(command=_check)
    return parser


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.description = "Hits go to standard output, one JSON object a line; progress goes to standard error."
    parser.add_argument("file", type=Path, metavar="FILE", help="a data file of recorded draws")
    parser.add_argument("--skip", type=int, default=0, help="outputs before the first draw (default 0)")
    parser.add_argument("--start", type=_integer, default=0, help="first seed (default 0)")
    parser.add_argument("--stop", type=_integer, help="seed after the last (default: 2^32, or all seeds if fewer)")
    parser.add_argument("--threads", type=int, default=_cores(), help="default: one per core this process may use")
    parser.set_defaults(command=_search)


def _add_draw(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("generator", help="a name that 'generators' lists")
    parser.add_argument("--seed", type=_seed, required=True, help="an integer, or text:TEXT where texts are seeds")
    parser.add_argument("--output", type=json.loads, required=True, metavar="JSON", help="the kind and its arguments")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--skip", type=int, default=0)
    parser.set_defaults(command=_draw)


def _search(options: argparse.Namespace) -> int:
    checked = spec.parse(spec.prepare({"data": str(options.file), "skip": options.skip}, Path()))
    from hostler.workloads.sieve.hits import hit
    from hostler.workloads.sieve.search import search_parallel

    stop = min(1 << 32, checked.size) if options.stop is None else options.stop
    if not 0 <= options.start < stop <= checked.size or options.threads < 1:
        raise SpecError(f"[{options.start}, {stop}) on {options.threads} threads: choose 0 <= start < stop <= "
                        f"{checked.size} and at least one thread")  # fmt: skip
    expected = spec.chance(spec.canonical(checked)) * (stop - options.start)
    progress = _Progress(stop - options.start)
    for part in search_parallel(checked, options.start, stop, options.threads, time.monotonic):
        for survivor in part.survivors:
            told = hit(checked, survivor)
            e_value = told["chance"] * (stop - options.start)
            print(json.dumps({**told, "e_value": e_value, "expected_by_chance": expected}), flush=True)
        progress.add(part.stop - part.start, len(part.survivors))
    progress.finish(expected)
    return 0


class _Progress:
    """Lines on standard error: the share searched, the speed, the hits."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._hits = total, 0, 0
        self._began = self._shown = time.monotonic()

    def add(self, seeds: int, hits: int) -> None:
        self._done, self._hits = self._done + seeds, self._hits + hits
        if time.monotonic() - self._shown >= PROGRESS_S:
            self._shown = time.monotonic()
            self._show("")

    def finish(self, expected: float) -> None:
        self._show(f"; expected by chance: {expected:.3g}")

    def _show(self, more: str) -> None:
        seconds = max(time.monotonic() - self._began, 1e-9)
        print(
            f"{self._done / self._total:6.1%} of {self._total} seeds in {seconds:.1f} s, "
            f"{self._done / seconds / 1e6:.1f} M seeds/s, hits: {self._hits}{more}",
            file=sys.stderr,
        )


def _plan(options: argparse.Namespace) -> int:
    import numpy  # noqa: F401  # who has no numpy is told so once, and not by each question

    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_planned(asked["params"], asked["items"])), flush=True)
    return 0


def _planned(params: dict[str, Any], items: int) -> dict[str, Any]:
    from hostler.workloads.sieve.methods.choosing import choose

    try:
        chosen = choose(spec.parse(params), items)
    except SpecError as error:
        return {"refused": str(error)}
    cost = {"cpu_s": chosen.offer.cpu_s(items), "missed": chosen.offer.missed}
    return {"method": chosen.name, "why": chosen.offer.why, **cost, "others": dict(chosen.others)}


def _worker(options: argparse.Namespace) -> int:
    # Standard output belongs to the protocol alone: whatever a library prints must not get in between.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from hostler.workloads.sieve.protocol import Requests
    from hostler.workloads.sieve.worker import Worker

    status = Worker(Requests(sys.stdin.buffer), output, time.monotonic).run()
    output.close()
    # The reading thread may hold the lock of standard input, which a regular exit would wait for.
    sys.stderr.flush()
    os._exit(status)


def _generators(options: argparse.Namespace) -> int:
    from hostler.workloads.sieve.listing import listing

    print(listing())
    return 0


def _draw(options: argparse.Namespace) -> int:
    made_by = generator(options.generator)
    output = spec.parse_output(made_by, options.output)
    if min(options.skip, options.count) < 0:
        raise SpecError("draw: skip and count must not be negative")
    draws = oracle(made_by, output, made_by.read_seed(options.seed), skip=options.skip)
    print(json.dumps([output.show(draw) for draw in islice(draws, options.count)]))
    return 0


def _check(options: argparse.Namespace) -> int:
    for file in options.files:
        params: dict[str, Any] = spec.prepare({"data": str(file)}, Path())
        known = sum(draw is not None for draw in params["draws"])
        print(f"{file}: {params['generator']}, {known} known draws, chance {spec.chance(params):.3g} per seed")
    return 0


def _integer(text: str) -> int:
    return int(text, 0)


def _seed(text: str) -> int | str:
    return text if text.startswith(TEXT) else int(text, 0)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
