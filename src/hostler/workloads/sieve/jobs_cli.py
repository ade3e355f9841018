"""Analysis and tests of recorded draws by hand: ``python -m hostler.workloads.sieve.jobs``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from hostler.workloads.sieve import itemwise, jobs
from hostler.workloads.sieve.errors import SieveError, SpecError
from hostler.workloads.sieve.wording import duration

COLUMNS = 80
FEW = 4
EXAMPLES = """examples:
  python -m hostler.workloads.sieve.jobs analyse examples/draws/xorshift32.json
  python -m hostler.workloads.sieve.jobs analyse draws.csv --values 1:1000 --skip 0:20
  python -m hostler.workloads.sieve.jobs analyse draws.csv --generator java --calls 'nextInt(1000)'
  python -m hostler.workloads.sieve.jobs correlate monday.csv tuesday.csv --values 1:1000
  hostler sweep hits j3 --json | python -m hostler.workloads.sieve.jobs correct
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
        print("sieve: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone; a second failure at interpreter exit would only repeat it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hostler.workloads.sieve.jobs",
        description="Which generators recorded draws exclude, and whether they look random.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_analyse(commands.add_parser("analyse", help="which generators the draws exclude, and why"))
    _add_correlate(commands.add_parser("correlate", help="tests of randomness, corrected for how many are made"))
    _add_correct(commands.add_parser("correct", help="correct the hits of a sweep, on standard input"))
    worker = commands.add_parser("worker", help="serve a controller on standard input and output")
    worker.add_argument("program", choices=sorted(jobs.PROGRAMS))
    worker.set_defaults(command=lambda options: itemwise.serve(jobs.PROGRAMS[options.program].parse))
    return parser


def _add_analyse(parser: argparse.ArgumentParser) -> None:
    parser.description = "All generators by their usual calls, unless one is named with its calls."
    _add_files(parser)
    parser.add_argument("--generator", metavar="NAME", help="only this one; with --calls")
    parser.add_argument("--calls", metavar="TEXT", help="its calls in its own language, parted by ;")
    parser.add_argument("--skip", type=_range, default=(0, 0), metavar="A:B", help="outputs before the draws")
    parser.add_argument("--gap", type=_range, default=(0, 0), metavar="A:B", help="outputs dropped before each draw")
    parser.add_argument(
        "--budget", type=float, default=jobs.BUDGET_S, metavar="S", help="CPU-seconds for a full search (default 30)"
    )
    parser.add_argument("--count", action="store_true", help="only tell how many items a sweep would have")
    parser.set_defaults(command=_analyse)


def _add_correlate(parser: argparse.ArgumentParser) -> None:
    parser.description = "p-values are for draws that are independent and equally likely, adjusted over all files."
    _add_files(parser)
    parser.add_argument("--most-lag", type=int, default=jobs.LAGS, metavar="N", help="largest lag (default 16)")
    _add_alpha(parser)
    parser.set_defaults(command=_correlate)


def _add_correct(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON lines")
    _add_alpha(parser)
    parser.set_defaults(command=_correct)


def _add_alpha(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--alpha", type=float, default=0.01, help="chance of any false claim (default 0.01)")


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="recorded draws: JSON, JSON lines, CSV, plain text")
    parser.add_argument("--values", type=_values, metavar="LOW:HIGH", help="what draws can be; by default as files say")
    parser.add_argument("--session", action="append", metavar="NAME", help="only draws of this session")
    parser.add_argument("--since", metavar="TIME", help="only draws from then on")
    parser.add_argument("--until", metavar="TIME", help="only draws up to then")
    parser.add_argument("--window", type=_range, metavar="OFFSET:SIZE", help="only so many of them, from there on")
    parser.add_argument("--json", action="store_true", help="JSON lines")


# ---- analysis -------------------------------------------------------------------------------------------------------


def _analyse(options: argparse.Namespace) -> int:
    given = {"skip": options.skip, "gap": options.gap, "budget_s": options.budget}
    named = {"generator": options.generator, "calls": options.calls}
    params = {**_files(options), **given, **{name: value for name, value in named.items() if value is not None}}
    analysis = jobs.parse_analysis(jobs.prepare_analysis(params, Path()))
    if options.count:
        print(analysis.items)
        return 0
    per_file = len(analysis.candidates)
    for file in range(len(analysis.entries)):
        answers = ((item, analysis.result(item)) for item in range(file * per_file, (file + 1) * per_file))
        _tell(answers, _json_line if options.json else _Table(analysis, file).add)
    return 0


def _tell(answers: Iterator[tuple[int, dict[str, Any]]], tell: Callable[[int, dict[str, Any]], None]) -> None:
    for item, answer in answers:
        tell(item, answer)


def _json_line(item: int, answer: Mapping[str, Any]) -> None:
    print(json.dumps(itemwise.told(item, answer), allow_nan=False), flush=True)


class _Table:
    """Lines of a file's answers as they come, and its sums at the end."""

    def __init__(self, analysis: jobs.Analysis, file: int) -> None:
        entry, self._left = analysis.entries[file], len(analysis.candidates)
        self._full = self._left <= FEW
        self._verdicts: Counter[str] = Counter()
        known = sum(draw is not None for draw in entry.draws)
        skips, gaps = (f"{low}..{high}" for low, high in (analysis.skip, analysis.gap))
        print(_folded(f"{entry.name}: {known} known draws, skips {skips}, gaps {gaps}"))
        print(f"{'generator':<19}{'calls':<28} {'verdict':<10}by")

    def add(self, _item: int, answer: dict[str, Any]) -> None:
        """One more answer."""
        self._left -= 1
        self._verdicts[answer["verdict"]] += 1
        print(f"{answer['generator']:<18.18} {answer['calls']:<28.28} {answer['verdict']:<10}{_by(answer)}", flush=True)
        if self._full or answer["verdict"] == "found":
            print(_folded(answer["says"], "    "))
            for survivor in answer.get("survivors", [])[:1]:
                print(_folded(f"next: {', '.join(map(str, survivor['next']))}", "    "))
        if not self._left:
            print(", ".join(f"{self._verdicts[verdict]} {verdict}" for verdict in ("found", "excluded", "undecided")))


def _by(answer: Mapping[str, Any]) -> str:
    """How the verdict came, in few words."""
    if answer["verdict"] == "found":
        return f"{answer['by']}"
    if answer["by"] == "relations":
        return f"draws {answer['first_draw']}..{answer['last_draw']}"
    if answer["by"] == "search":
        return f"all seeds ({answer['method']})"
    if answer["by"] == "values":
        return "a draw"
    enough, cpu_s = answer.get("draws_needed"), answer.get("brute_force_cpu_s")
    if enough is None or cpu_s is None or enough > answer["draws"]:
        return "too few draws" if enough is None else f"needs {enough} draws"
    return f"{duration(cpu_s)} to try"


# ---- tests of randomness --------------------------------------------------------------------------------------------


def _correlate(options: argparse.Namespace) -> int:
    params = {**_files(options), "most_lag": options.most_lag}
    correlation = jobs.parse_correlation(jobs.prepare_correlation(params, Path()))
    hits = [itemwise.told(item, correlation.result(item)) for item in range(correlation.items)]
    return _tests(hits, options)


def _correct(options: argparse.Namespace) -> int:
    return _tests([_hit(each) for each in _listed(sys.stdin.read())], options)


def _listed(text: str) -> list[Any]:
    """A JSON list, as ``hostler sweep hits --json`` prints it, or JSON lines."""
    try:
        if text.lstrip().startswith("["):
            return list(json.loads(text))
        return [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        raise SpecError(f"standard input: is no JSON ({error}); pipe in hostler sweep hits SWEEP --json") from None


def _hit(given: Any) -> dict[str, Any]:
    """A hit by itself, or as the controller tells of it."""
    try:
        hit = given.get("data", given)
        return {"at": hit["at"], "source": hit["source"], "tests": hit["tests"]}
    except (AttributeError, KeyError, TypeError):
        raise SpecError(f"standard input: {given!r:.60} is no hit of sieve-correlation") from None


def _tests(hits: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> int:
    results, source = jobs.corrected(hits, options.alpha), None
    for result in results:
        if options.json:
            print(json.dumps(itemwise.finite(result), allow_nan=False))
            continue
        if result["source"] != source:
            source = result["source"]
            print(_folded(f"{source}:"))
            print(f"  {'test':<12}{'part':<18}{'n':>7} {'statistic':>10} {'p':>9} {'corrected':>9}")
        print(_test_line(result))
    if not options.json:
        print(_folded(_summary(results, options.alpha)))
    return 0


def _test_line(result: Mapping[str, Any]) -> str:
    numbers = f"{_short(result['statistic']):>10} {_short(result['p']):>9} {_short(result['holm']):>9}"
    line = f"  {result['test']:<11.11} {result['part']:<17.17} {result['n']:>7} {numbers}"
    unusual = result["p"] is not None and result["says"] != "nothing unusual"
    return f"{line}\n{_folded(result['says'], '    ')}" if unusual else line


def _summary(results: Sequence[Mapping[str, Any]], alpha: float) -> str:
    made = [result for result in results if result["p"] is not None]
    unusual = sum(result["holm"] < alpha for result in made)
    rest = len(results) - len(made)
    more = f"; {rest} could not be made, with too few draws" if rest else ""
    return f"{len(made)} tests, corrected together: {unusual} unusual at {alpha:g}{more}"


def _short(number: float | None) -> str:
    return "-" if number is None else f"{number:.3g}"


# ---- options --------------------------------------------------------------------------------------------------------


def _files(options: argparse.Namespace) -> dict[str, Any]:
    window = None if options.window is None else list(options.window)
    ends = {"sessions": options.session, "since": options.since, "until": options.until, "window": window}
    filters = {name: value for name, value in ends.items() if value is not None}
    params: dict[str, Any] = {"data": options.files}
    if filters:
        params["filters"] = filters
    if options.values is not None:
        params["values"] = options.values
    return params


def _range(text: str) -> tuple[int, int]:
    """``A:B``, or one number for both."""
    low, _, high = text.partition(":")
    return int(low), int(high or low)


def _values(text: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    return int(low), int(high)


def _folded(line: str, indent: str = "") -> str:
    return fill(
        line, COLUMNS, initial_indent=indent, subsequent_indent=indent or "  ",
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
