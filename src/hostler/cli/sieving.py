"""What searches for seeds are asked for on the command line: of which files, of whom, in which range; as job specs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from hostler.model.errors import UsageError

Params: TypeAlias = dict[str, Any]
Range: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Search:
    """One question (canonical `params`) for the items `[start, stop)` of `bounds`: who may have made which draws."""

    generator: str
    calls: str
    """As the generator's language writes them."""
    params: Params
    bounds: Range

    @property
    def items(self) -> int:
        """How many items are searched."""
        return self.bounds[1] - self.bounds[0]


@dataclass(frozen=True, slots=True)
class Who:
    """Who may have made the draws: one `generator` by its `calls`, or all by those that make `values`, LOW:HIGH.

    Of all generators those are left out whose search takes more than `budget_s` of one core.
    """

    generator: str | None
    calls: str | None
    all_generators: bool
    values: str | None
    budget_s: float

    def __post_init__(self) -> None:
        if self.all_generators and (self.generator is not None or self.calls is not None):
            raise UsageError("--all-generators: goes by the usual calls of each; leave out --generator and --calls")
        if self.values is not None and not self.all_generators:
            raise UsageError("--values: goes with --all-generators; calls say themselves what they can give")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for: draws of `files`, of whom, `how` to search, in which range, which part of it.

    With `control` the same draws are searched in another order as well; `key` is that of the only search.
    """

    files: Sequence[Path]
    who: Who
    how: Mapping[str, Any]
    range: Range | None
    part: str | None
    control: bool
    key: str | None

    @property
    def alone(self) -> bool:
        """Whether it is one search."""
        return len(self.files) == 1 and not self.who.all_generators


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A generator that is not searched for, and why."""

    generator: str
    calls: str
    why: str


def searches(
    files: Sequence[Path], generator: str | None, calls: str | None, how: Mapping[str, Any], base_dir: Path
) -> list[Search]:
    """One search for each file, of one generator and its calls; raises :class:`UsageError`."""
    from hostler.workloads.sieve import callspec, spec
    from hostler.workloads.sieve.errors import SpecError

    said = {name: value for name, value in (("generator", generator), ("calls", calls)) if value is not None}
    found = []
    for file in files:
        try:
            params = spec.prepare({"data": str(file), **how, **said}, base_dir)
            asked = spec.parse(params)
        except SpecError as error:
            raise UsageError(str(error)) from error
        native = callspec.native(asked.generator, asked.calls)
        found.append(Search(asked.generator.name, native, params, (0, asked.size)))
    return found


def searches_of_all(
    files: Sequence[Path], values: str | None, how: Mapping[str, Any], base_dir: Path
) -> tuple[list[Search], list[LeftOut]]:
    """One search for each file and each generator by its usual calls, and who cannot be asked.

    `values` is LOW:HIGH, the integers that draws can be; raises :class:`UsageError` where nobody can be asked.
    """
    from hostler.workloads.sieve import candidates, spec
    from hostler.workloads.sieve.errors import SpecError

    span, found, left = None if values is None else _values(values), [], []
    try:
        for file in files:
            for of, asked in candidates.questions(base_dir / file, span, how):
                if isinstance(asked, str):
                    left.append(LeftOut(of.made_by.name, of.text, asked))
                else:
                    found.append(Search(of.made_by.name, of.text, asked, spec.item_range(asked)))
    except SpecError as error:
        raise UsageError(str(error)) from error
    if not found:
        raise UsageError(left[0].why if left else "no generator usually draws such integers with one call")
    return found, left


def narrowed(search: Search, asked: Range | None, part: str | None, *, clipped: bool = False) -> Search | None:
    """The search of a part: of the range that is `asked` for, and of that the `part` I/N.

    With `clipped` what the range has beyond the generator's seeds is left out; `None` where nothing is left.
    """
    bounds = asked or search.bounds
    if clipped:
        bounds = max(bounds[0], search.bounds[0]), min(bounds[1], search.bounds[1])
        if bounds[0] >= bounds[1]:
            return None
    return replace(search, bounds=bounds if part is None else part_of(bounds, part))


def part_of(bounds: Range, words: str) -> Range:
    """The I-th of N parts of a range, from `I/N`; together the parts are the range, and none overlap."""
    first, slash, last = words.partition("/")
    if not (slash and first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise UsageError(f"--share {words!r} is no part; write I/N, such as 1/3, with I from 1 to N")
    start, size, parts = bounds[0], bounds[1] - bounds[0], int(last)
    found = start + size * (int(first) - 1) // parts, start + size * int(first) // parts
    if found[0] == found[1]:
        raise UsageError(f"--share {words!r}: a range of {size} items has no {parts} parts")
    return found


def key_of(name: str, params: Params, bounds: Range) -> str:
    """The key of a search: the same question of the same range is the same job, and goes on where it was."""
    from hostler.workloads.sieve import spec

    return f"{name}-{spec.digest(params)[:12]}-{bounds[0]}-{bounds[1]}"


def sweeps_of(search: Search, asked: Params, key: str | None, *, control: bool) -> Iterator[Params]:
    """The sweep, as a fleet file has it, and with `control` the same one over its draws in another order.

    `asked` has what both have in common, their `name` above all.
    """
    from hostler.workloads.sieve.prospect import shuffled

    sweep = {
        **asked,
        "program": "sieve",
        "range": list(search.bounds),
        "params": search.params,
        "key": key or key_of(asked["name"], search.params, search.bounds),
    }
    yield sweep
    if control:
        names = {name: control_of(sweep[name]) for name in ("name", "key")}
        yield {**sweep, **names, "params": shuffled(search.params)}


def control_of(key: str) -> str:
    """The key, or the name, of the control of a search."""
    return f"{key}-control"


def _values(words: str) -> Range:
    low, colon, high = words.partition(":")
    try:
        found = int(low), int(high)
    except ValueError:
        raise UsageError(f"--values {words!r}: write LOW:HIGH, both included, such as 1:100") from None
    if not colon or found[0] >= found[1]:
        raise UsageError(f"--values {words!r}: are fewer than two; write LOW:HIGH, both included, such as 1:100")
    return found
