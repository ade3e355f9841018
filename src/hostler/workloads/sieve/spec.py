"""What a search is: its parameters, checked strictly; their digest; and what chance alone would find.

Parameters (schema 2; what has a default may be left out)::

    {"schema": 2, "generator": "php-mt_rand", "calls": [{"kind": "range", "min": 1, "max": 1000}],
     "draws": [12, null, 877], "skip": [0, 20], "gap": [0, 0], "missing": 0,
     "share": 1.0, "rate": 1.0, "miss": 0.0, "items": "seeds", "method": "auto"}

``draws`` are outputs of the ``calls``, which are made again and again in this order; ``null`` is an unknown one. Draw
``i`` is output number ``skip + gap + i * (gap + 1)`` after the item's state, counted from 0: ``gap`` outputs nobody
wrote down stand before each draw. ``skip`` and ``gap`` are ranges, both ends included, or one number; each pair of
numbers from them is an *alignment*, tried by itself. :class:`Spec` says the rest. Schema 1 has one ``output`` and no
``calls`` and knows only ``skip``, as a number; what it can say is written in it. Nothing here imports numpy.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from hostler.workloads.sieve import callspec, chances, data, statistics
from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import Generator, Output, generator

SCHEMA = 2
MAX_DRAWS = 100_000
MAX_TEXT = 900_000
"""Characters of canonical parameters: they travel in one line to workers."""
MAX_SKIP = 1_000_000
MAX_MISSING = 1_000
MAX_ALIGNMENTS = 1_000_000
SEEDS, STATES, ENDS = ITEMS = ("seeds", "states", "ends")
AUTO = "auto"
METHODS = (AUTO, "low-bits", "gf2", "lattice", "halves", "line", "twister", "words", "lanes", "opencl")
CHOICES = frozenset({"skip", "gap", "missing", "share", "rate", "miss", "items", "method"})
"""What a data file does not say: how to search."""
SAID = frozenset({"generator", "calls", "filters", "ignore"})
"""What may be said beside a data file: whose draws they are, which of them count, and what else stands in it."""

Params = Mapping[str, Any]
R = TypeVar("R")
Range: TypeAlias = tuple[int, int]
"""From one number to another, both included."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Checked parameters: ``draws`` as integers (``None`` unknown), in the values of their calls.

    In one alignment at least ``need`` of the known draws have to fit, which is ``share`` of them, rounded up. Before
    each draw up to ``missing`` outputs more may have been dropped, another number each time; all have to fit then. The
    true seed may be given up early with the probability ``miss``, where each of its draws fits with ``rate``. ``items``
    is what is searched: seeds, states before the first output, or ``ends``, states after the last draw, from which it
    goes backwards. ``method`` is the one that searches; ``auto``: the cheapest.
    """

    generator: Generator
    calls: tuple[Output, ...]
    draws: tuple[int | None, ...]
    skip: Range = (0, 0)
    gap: Range = (0, 0)
    missing: int = 0
    share: float = 1.0
    rate: float = 1.0
    miss: float = 0.0
    items: str = SEEDS
    method: str = AUTO

    @property
    def known(self) -> int:
        """How many draws are known."""
        return sum(draw is not None for draw in self.draws)

    @property
    def need(self) -> int:
        """How many known draws have to fit."""
        return statistics.needed(self.known, self.share)

    @property
    def size(self) -> int:
        """How many items there are: they are ``0..size-1``."""
        return self.generator.seeds if self.items == SEEDS else self.generator.engine.states

    def call(self, draw: int) -> Output:
        """The call that made this draw."""
        return self.calls[draw % len(self.calls)]

    def alignments(self) -> Iterator[tuple[int, int]]:
        """All pairs of a skip and a gap."""
        for skip in range(self.skip[0], self.skip[1] + 1):
            for gap in range(self.gap[0], self.gap[1] + 1):
                yield skip, gap

    @property
    def alignments_count(self) -> int:
        """How many pairs there are."""
        return (self.skip[1] - self.skip[0] + 1) * (self.gap[1] - self.gap[0] + 1)

    @property
    def last_output(self) -> int:
        """The number of the last output that may be compared."""
        return self.skip[1] * len(self.calls) + len(self.draws) * (self.gap[1] + self.missing + 1) - 1


def prepare(params: Params, base_dir: Path) -> dict[str, Any]:
    """Canonical parameters: checked, complete, with the data inline.

    ``params`` are either the parameters themselves or ``{"data": PATH}`` with what a data file does not say, ``calls``
    as a text, too; the path is taken from ``base_dir``. Raises :class:`SpecError`.
    """
    if "data" in params:
        params = _inlined(params, base_dir)
    return canonical(parse(params))


def parse(params: object) -> Spec:
    """The search these inline parameters ask for; raises :class:`SpecError` on anything unknown, missing or wrong."""
    given = _modern(params)
    made_by = generator(given["generator"])
    calls = _calls(made_by, given["calls"])
    spec = Spec(
        made_by,
        calls,
        _draws(calls, given["draws"]),
        _range(given.get("skip", 0), "skip"),
        _range(given.get("gap", 0), "gap"),
        _integer(given.get("missing", 0), "missing", MAX_MISSING),
        _chance(given.get("share", 1.0), "share"),
        _chance(given.get("rate", 1.0), "rate"),
        _chance(given.get("miss", 0.0), "miss", lowest=True),
        _one_of(ITEMS, given.get("items", SEEDS), "items"),
        _one_of(METHODS, given.get("method", AUTO), "method"),
    )
    _check(spec)
    return spec


def parse_output(made_by: Generator, value: object) -> Output:
    """One kind of output of a generator, from ``{"kind": ..., its arguments}``."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in made_by.outputs:
        kinds = ", ".join(made_by.outputs)
        raise SpecError(f"output: kind {kind!r} is not known to {made_by.name}; choose one of {kinds}")
    names = output_arguments(made_by.outputs[kind])
    given = _object(value, "output", required={"kind", *names})
    return made_by.outputs[kind](**{name: _whole(given[name], f"output.{name}") for name in names})


def output_arguments(output: type[Output]) -> list[str]:
    """The names of an output kind's arguments."""
    return [field.name for field in fields(output)]


def output_params(output: Output) -> dict[str, Any]:
    """What :func:`parse_output` takes."""
    return {"kind": output.kind, **{name: getattr(output, name) for name in output_arguments(type(output))}}


def canonical(spec: Spec) -> dict[str, Any]:
    """The parameters of ``spec`` in their one canonical form, ready for JSON."""
    first = Spec(spec.generator, spec.calls, spec.draws, spec.skip)
    if spec == first and len(spec.calls) == 1 and spec.skip[0] == spec.skip[1]:
        # So that sweeps which were begun before there was another schema find their parameters again.
        call, skip = output_params(spec.calls[0]), spec.skip[0]
        name, draws = spec.generator.name, list(spec.draws)
        return {"schema": 1, "generator": name, "output": call, "draws": draws, "skip": skip}
    return {
        "schema": SCHEMA,
        "generator": spec.generator.name,
        "calls": [output_params(call) for call in spec.calls],
        "draws": list(spec.draws),
        "skip": list(spec.skip),
        "gap": list(spec.gap),
        "missing": spec.missing,
        "share": spec.share,
        "rate": spec.rate,
        "miss": spec.miss,
        "items": spec.items,
        "method": spec.method,
    }


def digest(params: Params) -> str:
    """SHA-256 of the canonical JSON of ``params``, as the worker protocol defines it."""
    return hashlib.sha256(_text(params).encode("ascii")).hexdigest()


def chance(params: Params) -> float:
    """The probability that a wrong item passes: draws taken as independent, but for what :mod:`chances` knows better.

    Times the number of items searched it is the number of survivors to expect by chance. Never 0: a value too small
    for a float is the smallest positive one.
    """
    return probability(log_chance(parse(params)))


def probability(logarithm: float) -> float:
    """The probability with this natural logarithm, to 6 digits: more of them would be noise. Never 0."""
    return max(float(f"{math.exp(logarithm):.6g}"), sys.float_info.min)


def log_chance(spec: Spec, fitting: int | None = None) -> float:
    """The natural logarithm of :func:`chance`; of fitting at least so many draws where ``fitting`` is given."""
    return chances.log_chance(spec, fitting)


def item_range(params: Params) -> tuple[int, int]:
    """All items, half-open."""
    return 0, parse(params).size


def recorded(path: Path, given: Params) -> data.Recording:
    """The draws of a file, by the ``filters`` and without the columns to ``ignore`` that are given."""
    filters, ignore = data.Filters.parse(given.get("filters", {})), given.get("ignore", [])
    if not isinstance(ignore, list) or any(not isinstance(name, str) for name in ignore):
        raise SpecError(f"ignore: {ignore!r}: must be a list of names of columns")
    return data.read(path, filters, ignore=ignore)


def _inlined(params: Params, base_dir: Path) -> Params:
    given = _object(params, "the parameters", required={"data"}, optional=CHOICES | SAID)
    if not isinstance(given["data"], str):
        raise SpecError(f"data: {given['data']!r} is no path; name a data file")
    recording = recorded(base_dir / given["data"], given)
    said: dict[str, Any] = dict(recording.says)
    said |= {name: given[name] for name in ("generator", "calls") if name in given}
    if "generator" not in said:
        raise SpecError(f"{given['data']} does not say which generator made its draws; give generator and calls")
    how = {name: value for name, value in given.items() if name in CHOICES}
    calls = _said_calls(generator(said["generator"]), said)
    return {"schema": SCHEMA, "generator": said["generator"], "calls": calls, "draws": list(recording.draws), **how}


def _said_calls(made_by: Generator, said: Params) -> object:
    """The calls as parameters; people write them as their language does."""
    if isinstance(said.get("calls"), str):
        return [output_params(call) for call in callspec.parse(made_by, said["calls"])]
    if "calls" in said:
        return said["calls"]
    if "output" in said:
        return [said["output"]]
    raise SpecError(f"calls: nothing says which calls of {made_by.name} the draws come from; give calls")


def _modern(params: object) -> dict[str, Any]:
    """Parameters of any schema as those of the present one."""
    if isinstance(params, Mapping) and params.get("schema") == 1 and type(params["schema"]) is int:
        needed = {"schema", "generator", "output", "draws"}
        given = _object(params, "the parameters", required=needed, optional={"skip"})
        skip = _integer(given.get("skip", 0), "skip", MAX_SKIP)
        return {"generator": given["generator"], "calls": [given["output"]], "draws": given["draws"], "skip": skip}
    if isinstance(params, Mapping) and "schema" in params:
        _check_schema(params)
    return _object(params, "the parameters", required={"schema", "generator", "calls", "draws"}, optional=CHOICES)


def _check_schema(given: Params) -> None:
    if type(given["schema"]) is not int or given["schema"] != SCHEMA:
        raise SpecError(f"schema: {given['schema']!r} is not supported; this version reads schema 1 and {SCHEMA}")


def _check(spec: Spec) -> None:
    """What must hold between the fields."""
    _need(
        any(draw is not None and spec.call(i).size > 1 for i, draw in enumerate(spec.draws)),
        "draws: every seed would pass; give at least one known draw of an output with two or more values",
    )
    ways = spec.alignments_count
    _need(ways <= MAX_ALIGNMENTS, f"skip, gap: {ways} alignments are more than {MAX_ALIGNMENTS}; narrow the ranges")
    alike = len({type(call).feed for call in spec.calls}) == 1
    _need(alike, "calls: some take half a word and some a whole one; what is left of a word between them is not known")
    one = len(spec.calls) == 1
    _need(one or spec.gap == (0, 0), "gap: only with one call; with several, write null for outputs nobody wrote down")
    _need(one or not spec.missing, "missing: only with one call; with several, nobody knows which one is missing")
    _need(one or spec.share == 1.0, "share: only with one call; with several, all draws have to fit")
    _need(not spec.missing or spec.share == 1.0, "missing: all draws have to fit; leave share at 1")
    _need(spec.share < 1.0 or not spec.miss, "miss: nothing is given up while all draws have to fit; leave it at 0")
    _need(spec.share == 1.0 or spec.calls[0].odds > 1, "share: the output has one value only")
    _check_items(spec)
    length = len(_text(canonical(spec)))
    _need(length <= MAX_TEXT, f"draws: {length} characters are more than {MAX_TEXT}; take a window of them")


def _check_items(spec: Spec) -> None:
    if spec.items == SEEDS:
        return
    engine, name = spec.generator.engine, spec.generator.name
    _need(engine.states > 0, f"items: the states of {name} are no single numbers to count through; search its seeds")
    _need(spec.items == STATES or engine.back is not None, f"items: no step of {name} can be undone; search states")
    unmoved = spec.skip == (0, 0) and not spec.missing
    _need(spec.items == STATES or unmoved, "items: before an end nothing is skipped or missing; leave both at 0")


def _object(
    value: object, where: str, *, required: set[str] | frozenset[str], optional: set[str] | frozenset[str] = frozenset()
) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{where}: must be a JSON object, not {type(value).__name__}")
    if missing := sorted(required - value.keys()):
        raise SpecError(f"{where}: missing {', '.join(missing)}")
    if unknown := sorted(map(str, value.keys() - required - optional)):
        raise SpecError(f"{where}: unknown {', '.join(unknown)}; allowed are {', '.join(sorted(required | optional))}")
    return dict(value)


def _calls(made_by: Generator, values: object) -> tuple[Output, ...]:
    if not isinstance(values, list) or not 0 < len(values) <= MAX_DRAWS:
        raise SpecError("calls: must be a list of at least one output; one is usual")
    if len(values) == 1:
        return (parse_output(made_by, values[0]),)
    return tuple(_named(f"calls[{i}]", partial(parse_output, made_by, value)) for i, value in enumerate(values))


def _draws(calls: tuple[Output, ...], values: object) -> tuple[int | None, ...]:
    if not isinstance(values, list) or not 0 < len(values) <= MAX_DRAWS:
        raise SpecError(f"draws: must be a list of 1 to {MAX_DRAWS} outputs")
    reads = [call.read for call in calls]
    return tuple(_at(i, reads[i % len(reads)], value) for i, value in enumerate(values))


def _at(place: int, read: Callable[[object], int], value: object) -> int | None:
    return None if value is None else _named(f"draws[{place}]", partial(read, value))


def _named(where: str, ask: Callable[[], R]) -> R:
    try:
        return ask()
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None


def _range(value: object, where: str) -> Range:
    low, high = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    pair = _integer(low, where, MAX_SKIP), _integer(high, where, MAX_SKIP)
    _need(pair[0] <= pair[1], f"{where}: {value!r} ends before it starts; write [LOW, HIGH]")
    return pair


def _one_of(known: tuple[str, ...], value: object, where: str) -> str:
    _need(value in known, f"{where}: {value!r} is not known; choose one of {', '.join(known)}")
    return str(value)


def _chance(value: object, where: str, *, lowest: bool = False) -> float:
    """A number above 0 and up to 1; with ``lowest`` from 0 to below 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"{where}: {value!r} is no number")
    fits = 0 <= value < 1 if lowest else 0 < value <= 1
    _need(fits, f"{where}: {value!r} lies outside {'[0, 1)' if lowest else '(0, 1]'}")
    return float(value)


def _whole(value: object, where: str) -> int:
    if type(value) is not int:
        raise SpecError(f"{where}: {value!r} is no integer")
    return value


def _integer(value: object, where: str, top: int) -> int:
    if not 0 <= _whole(value, where) <= top:
        raise SpecError(f"{where}: {value} lies outside 0..{top}")
    return _whole(value, where)


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise SpecError(message)


def _text(params: Params) -> str:
    return json.dumps(params, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
