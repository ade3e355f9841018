"""Two more programs for sweeps, ``sieve-analysis`` and ``sieve-correlation``: items are files, or pairs with them.

Their parameters are canonical and hold the draws, as those of ``sieve`` do::

    {"schema": 1, "data": [{"name": "a.json", "sha256": "...", "draws": [12, null, 877]}],
     "candidates": [{"generator": "java-random", "calls": [{"kind": "bound", "bound": 1000}], "shift": 0}],
     "skip": [0, 20], "gap": [0, 0], "budget_s": 30.0}

Item ``i`` of an analysis is file ``i // n`` with candidate ``i % n``, of ``n``. A correlation has ``values``, the
lowest and the highest, in each entry of ``data`` instead of candidates, and ``most_lag``; its items are files. Each
item is a hit that holds its result. ``python -m hostler.workloads.sieve.jobs`` is the way in by hand.
Nothing here imports numpy or numba until a worker starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hostler.workloads.sieve import data
from hostler.workloads.sieve.candidates import Candidate, given, never_given, question, usual, values_of
from hostler.workloads.sieve.data import ALL, Draw, Filters, Recording
from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import Output
from hostler.workloads.sieve.spec import MAX_SKIP, MAX_TEXT, Range

SCHEMA = 1
BUDGET_S = 30.0
LAGS = 16
MOST_LAG = 256
FILES = ("name", "sha256", "draws")

Params: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file's draws; ``values`` the lowest and the highest that they can be, for tests of randomness."""

    name: str
    sha256: str | None
    draws: tuple[Draw | None, ...]
    values: Range | None = None

    def as_dict(self) -> dict[str, Any]:
        """In canonical form."""
        made = {"name": self.name, "sha256": self.sha256, "draws": list(self.draws)}
        return made if self.values is None else {**made, "values": list(self.values)}


@dataclass(frozen=True, slots=True)
class Analysis:
    """Checked parameters of ``sieve-analysis``."""

    entries: tuple[Entry, ...]
    candidates: tuple[Candidate, ...]
    skip: Range
    gap: Range
    budget_s: float

    @property
    def items(self) -> int:
        """How many pairs of a file and a candidate there are."""
        return len(self.entries) * len(self.candidates)

    def pair(self, item: int) -> tuple[Entry, Candidate]:
        """The file and the candidate of an item."""
        file, candidate = divmod(item, len(self.candidates))
        return self.entries[file], self.candidates[candidate]

    def result(self, item: int) -> dict[str, Any]:
        """The answer for a pair; it needs numpy and numba."""
        from hostler.workloads.sieve.analysis import analyse

        entry, candidate = self.pair(item)
        answer = analyse(candidate, entry.draws, skip=self.skip, gap=self.gap, budget_s=self.budget_s)
        return {"source": entry.name, **answer}


@dataclass(frozen=True, slots=True)
class Correlation:
    """Checked parameters of ``sieve-correlation``."""

    entries: tuple[Entry, ...]
    most_lag: int

    @property
    def items(self) -> int:
        """How many files there are."""
        return len(self.entries)

    def result(self, item: int) -> dict[str, Any]:
        """Every test of a file, not corrected; it needs numpy."""
        from hostler.workloads.sieve.correlation.examine import every_test
        from hostler.workloads.sieve.correlation.samples import sample

        entry = self.entries[item]
        assert entry.values is not None  # the parameters were checked
        recording = Recording(entry.draws, entry.name, entry.sha256 or "", "")
        made = every_test(sample(recording, entry.values), self.most_lag)
        tests = [
            {
                "test": test.test,
                "part": test.part,
                "statistic": test.statistic,
                "p": test.p,
                "n": test.n,
                "note": test.note,
            }
            for test in made
        ]
        return {"source": entry.name, "tests": tests}


def corrected(hits: Sequence[Mapping[str, Any]], alpha: float = 0.01) -> list[dict[str, Any]]:
    """The tests of all files together, from the hits of ``sieve-correlation``, corrected for how many there are.

    In the order of the files; each test is a dictionary as :class:`~...correlation.results.Result` makes it.
    ``alpha`` is the probability of claiming anything where everything is chance. It needs numpy.
    """
    from hostler.workloads.sieve.correlation.examine import corrected as correct
    from hostler.workloads.sieve.correlation.results import Result

    results = [
        Result(hit["source"], **test) for hit in sorted(hits, key=lambda hit: hit["at"]) for test in hit["tests"]
    ]
    return [result.as_dict() for result in correct(results, alpha)]


# ---- programs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Program:
    """What a sweep needs to know; as :class:`hostler.settings.programs.Program` says."""

    name: str
    of: str
    make: Callable[[Params, Path], dict[str, Any]]
    parse: Callable[[Params], Analysis | Correlation]

    @property
    def worker(self) -> tuple[str, ...]:
        """The command of a warm worker."""
        return "{python}", "-m", "hostler.workloads.sieve.jobs", "worker", self.of

    def prepare(self, params: Params, base_dir: Path) -> dict[str, Any]:
        """Canonical parameters with the draws inline; raises ``ValueError`` naming what is wrong."""
        try:
            return self.make(params, base_dir)
        except SpecError as error:
            raise ValueError(str(error)) from error

    def chance(self, params: Params) -> float | None:
        """Each item has a result, which is a hit: that is not a matter of chance."""
        return None

    def kernel(self, params: Params) -> str:
        """Items of one program take about as long as each other."""
        return self.name

    def bounds(self, params: Params) -> tuple[int, int]:
        """All items, half-open."""
        return 0, self.parse(params).items


def prepare_analysis(params: Params, base_dir: Path) -> dict[str, Any]:
    """Canonical parameters of ``sieve-analysis``; raises :class:`SpecError`.

    ``params``: ``data`` (paths, or entries with ``path`` and ``filters``), what the draws may be outputs of
    (``candidates``, or one by ``generator`` and ``calls``, or all generators for ``values`` ``[LOW, HIGH]``, by
    default those that the files say), ``skip``, ``gap``, ``budget_s``.
    """
    how = {"candidates", "generator", "calls", "values", "skip", "gap", "budget_s", "filters", "schema"}
    _check_names(params, how)
    read = _read(params, base_dir)
    made = Analysis(
        tuple(_entry(recording) for recording in read),
        _candidates(params, read),
        _range(params.get("skip", 0), "skip"),
        _range(params.get("gap", 0), "gap"),
        _seconds(params.get("budget_s", BUDGET_S)),
    )
    _check_questions(made)
    return _sized(
        {
            "schema": SCHEMA,
            "data": [entry.as_dict() for entry in made.entries],
            "candidates": [candidate.as_dict() for candidate in made.candidates],
            "skip": list(made.skip),
            "gap": list(made.gap),
            "budget_s": made.budget_s,
        }
    )


def parse_analysis(params: Params) -> Analysis:
    """Canonical parameters, checked; raises :class:`SpecError`."""
    _check_exactly(params, {"schema", "data", "candidates", "skip", "gap", "budget_s"})
    return Analysis(
        tuple(_given_entry(entry, FILES) for entry in _list(params["data"], "data")),
        tuple(given(each) for each in _list(params["candidates"], "candidates")),
        _range(params["skip"], "skip"),
        _range(params["gap"], "gap"),
        _seconds(params["budget_s"]),
    )


def prepare_correlation(params: Params, base_dir: Path) -> dict[str, Any]:
    """Canonical parameters of ``sieve-correlation``; raises :class:`SpecError`.

    ``params``: ``data`` as for an analysis, ``values`` ``[LOW, HIGH]`` (by default those that each file says), and
    ``most_lag``.
    """
    _check_names(params, {"values", "most_lag", "filters", "schema"})
    values = _range_of_values(params["values"]) if "values" in params else None
    entries = [_indexed(recording, values) for recording in _read(params, base_dir)]
    most_lag = _lag(params.get("most_lag", LAGS))
    return _sized({"schema": SCHEMA, "data": [entry.as_dict() for entry in entries], "most_lag": most_lag})


def parse_correlation(params: Params) -> Correlation:
    """Canonical parameters, checked; raises :class:`SpecError`."""
    _check_exactly(params, {"schema", "data", "most_lag"})
    entries = tuple(_given_entry(entry, (*FILES, "values")) for entry in _list(params["data"], "data"))
    return Correlation(entries, _lag(params["most_lag"]))


ANALYSIS = Program("sieve-analysis", "analysis", prepare_analysis, parse_analysis)
CORRELATION = Program("sieve-correlation", "correlation", prepare_correlation, parse_correlation)
PROGRAMS = {program.of: program for program in (ANALYSIS, CORRELATION)}


# ---- data -----------------------------------------------------------------------------------------------------------


def _read(params: Params, base_dir: Path) -> list[Recording]:
    """The files that ``data`` names, in this order."""
    paths = params["data"]
    each = Filters.parse(params["filters"]) if "filters" in params else ALL
    return [
        _recording(value, base_dir, each) for value in ([paths] if isinstance(paths, str) else _list(paths, "data"))
    ]


def _recording(value: object, base_dir: Path, filters: Filters) -> Recording:
    if isinstance(value, str):
        return _named(data.read(base_dir / value, filters), value)
    if (
        isinstance(value, Mapping)
        and {"path"} <= value.keys() <= {"path", "filters"}
        and isinstance(value["path"], str)
    ):
        own = Filters.parse(value["filters"]) if "filters" in value else filters
        return _named(data.read(base_dir / value["path"], own), value["path"])
    raise SpecError(f"data: {value!r:.80}: name a data file, or write path and filters")


def _named(recording: Recording, path: str) -> Recording:
    """With the path as it was given: it names the file in results, wherever they are read."""
    return Recording(recording.draws, path, recording.sha256, recording.kept, says=recording.says)


def _entry(recording: Recording) -> Entry:
    return Entry(recording.source, recording.sha256, recording.draws)


def _indexed(recording: Recording, values: Range | None) -> Entry:
    """Draws as integers among their values, whatever the file writes."""
    if values is not None:
        draws = tuple(_within(recording, i, draw, values) for i, draw in enumerate(recording.draws))
        return Entry(recording.source, recording.sha256, draws, values)
    of = _own_values(recording)
    numbers = tuple(_number(recording, of, i, draw) for i, draw in enumerate(recording.draws))
    return Entry(recording.source, recording.sha256, numbers, (of.lowest, of.lowest + of.size - 1))


def _own_values(recording: Recording) -> Output:
    of = values_of(recording)
    if of is None:
        raise SpecError(f"{recording.source}: the file does not say what its draws are; give values, [LOW, HIGH]")
    return of


def _number(recording: Recording, of: Output, i: int, draw: Draw | None) -> int | None:
    try:
        return None if draw is None else of.read(draw)
    except SpecError as error:
        raise SpecError(f"{recording.source}: draws[{i}]: {error}") from None


def _within(recording: Recording, i: int, draw: Draw | None, values: Range) -> int | None:
    if draw is None:
        return None
    if type(draw) is not int or not values[0] <= draw <= values[1]:
        raise SpecError(f"{recording.source}: draws[{i}]: {draw!r:.40} is no integer of {values[0]}..{values[1]}")
    return draw


def _candidates(params: Params, read: Sequence[Recording]) -> tuple[Candidate, ...]:
    named = [name for name in ("candidates", "generator", "values") if name in params]
    if len(named) > 1 or ("calls" in params) != ("generator" in params):
        raise SpecError("candidates: give one of candidates, generator with calls, or values")
    if "candidates" in params:
        return tuple(given(each) for each in _list(params["candidates"], "candidates"))
    if "generator" in params:
        return (given({"generator": params["generator"], "calls": params["calls"]}),)
    low, high = _range_of_values(params["values"]) if "values" in params else _common_values(read)
    found = usual(low, high)
    if not found:
        raise SpecError(f"values: no generator usually draws integers {low}..{high} with one call; name candidates")
    return found


def _common_values(read: Sequence[Recording]) -> Range:
    """The values that all files say their draws have."""
    found = {(of.lowest, of.lowest + of.size - 1) for of in map(_own_values, read)}
    if len(found) > 1:
        raise SpecError("data: the files have draws of different values; give values, or a sweep for each of them")
    if any(type(draw) is not int for recording in read for draw in recording.draws if draw is not None):
        raise SpecError("data: the draws are no integers; name candidates, or generator and calls")
    return found.pop()


def _check_questions(made: Analysis) -> None:
    """Errors of the parameters, told before anything runs: draws that calls never give are an answer instead."""
    for candidate in made.candidates:
        try:
            question(candidate, made.entries[0].draws, made.skip, made.gap)
        except SpecError as error:
            if not never_given(error):
                raise


# ---- checks ---------------------------------------------------------------------------------------------------------


def _check_names(params: Params, allowed: set[str]) -> None:
    if "data" not in params:
        raise SpecError("data: is missing; name data files")
    if unknown := sorted(map(str, params.keys() - allowed - {"data"})):
        raise SpecError(f"unknown {', '.join(unknown)}; allowed are {', '.join(sorted(allowed | {'data'}))}")
    if params.get("schema", SCHEMA) != SCHEMA:
        raise SpecError(f"schema: {params['schema']!r} is not supported; this version reads schema {SCHEMA}")


def _check_exactly(params: Params, names: set[str]) -> None:
    if not isinstance(params, Mapping) or params.keys() != names:
        raise SpecError(f"the parameters must be an object with exactly {', '.join(sorted(names))}")
    if type(params["schema"]) is not int or params["schema"] != SCHEMA:
        raise SpecError(f"schema: {params['schema']!r} is not supported; this version reads schema {SCHEMA}")


def _given_entry(entry: object, names: Sequence[str]) -> Entry:
    if not isinstance(entry, Mapping) or entry.keys() != set(names) or not isinstance(entry["name"], str):
        raise SpecError(f"data: an entry takes exactly {', '.join(names)}")
    draws = tuple(_list(entry["draws"], "draws"))
    values = _range_of_values(entry["values"]) if "values" in names else None
    return Entry(entry["name"], entry["sha256"], draws, values)


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise SpecError(f"{where}: must be a list that is not empty")
    return value


def _range(value: object, where: str) -> Range:
    low, high = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    if type(low) is not int or type(high) is not int or not 0 <= low <= high <= MAX_SKIP:
        raise SpecError(f"{where}: {value!r}: write a number, or [LOW, HIGH], up to {MAX_SKIP}")
    return low, high


def _range_of_values(value: object) -> Range:
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = value
        if type(low) is int and type(high) is int and low < high:
            return low, high
    raise SpecError(f"values: {value!r}: write [LOW, HIGH], the lowest and the highest integer")


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e6:
        raise SpecError(f"budget_s: {value!r} is no number of seconds from 0 to a million")
    return float(value)


def _lag(value: object) -> int:
    if type(value) is not int or not 1 <= value <= MOST_LAG:
        raise SpecError(f"most_lag: {value!r} is no integer of 1..{MOST_LAG}")
    return value


def _sized(params: dict[str, Any]) -> dict[str, Any]:
    length = len(json.dumps(params, separators=(",", ":")))
    if length > MAX_TEXT:
        raise SpecError(f"data: {length} characters are more than {MAX_TEXT}; take fewer files, or windows of them")
    return params


if __name__ == "__main__":
    from hostler.workloads.sieve.jobs_cli import main

    sys.exit(main())
