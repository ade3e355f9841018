"""What a search is: its parameters, checked strictly; their digest; and what chance alone would find.

Parameters (schema 1)::

    {"schema": 1, "generator": "php-mt_rand", "output": {"kind": "range", "min": 1, "max": 1000},
     "draws": [12, null, 877], "skip": 0}

``draws`` are consecutive outputs, ``null`` an unknown one; ``skip`` (0 if absent) counts the outputs between
seeding and the first of them. A data file has the same fields without ``skip`` and with the ``provenance`` of the
recording. Nothing here imports numpy or numba.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import GENERATORS, SEARCHABLE, Generator, Output, generator

SCHEMA = 1
MAX_DRAWS = 10_000
MAX_SKIP = 1_000_000
PROVENANCE = frozenset({"runtime", "script", "command"})

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Spec:
    """Checked parameters: ``draws`` as integers (``None`` unknown), in the output's own values."""

    generator: Generator
    output: Output
    draws: tuple[int | None, ...]
    skip: int

    @property
    def known(self) -> int:
        """How many draws are known."""
        return sum(draw is not None for draw in self.draws)


def prepare(params: Params, base_dir: Path) -> dict[str, Any]:
    """Canonical parameters: checked, complete, with the data inline.

    ``params`` are either the parameters themselves or ``{"data": PATH}``, optionally with ``skip``; the path of a data
    file is taken from ``base_dir``. Raises :class:`SpecError`.
    """
    if "data" in params:
        params = _inlined(params, base_dir)
    return canonical(parse(params))


def parse(params: object) -> Spec:
    """The search these inline parameters ask for; raises :class:`SpecError` on anything unknown, missing or wrong."""
    given = _object(params, "the parameters", required={"schema", "generator", "output", "draws"}, optional={"skip"})
    _check_schema(given)
    made_by = generator(given["generator"])
    output = parse_output(made_by, given["output"])
    spec = Spec(made_by, output, _draws(output, given["draws"]), _integer(given.get("skip", 0), "skip", MAX_SKIP))
    if spec.known == 0 or output.size == 1:
        raise SpecError(
            "draws: every seed would pass; give at least one known draw of an output with two or more values"
        )
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


def canonical(spec: Spec) -> dict[str, Any]:
    """The parameters of ``spec`` in their one canonical form, ready for JSON."""
    arguments = {name: getattr(spec.output, name) for name in output_arguments(type(spec.output))}
    return {
        "schema": SCHEMA,
        "generator": spec.generator.name,
        "output": {"kind": spec.output.kind, **arguments},
        "draws": list(spec.draws),
        "skip": spec.skip,
    }


def digest(params: Params) -> str:
    """SHA-256 of the canonical JSON of ``params``, as the worker protocol defines it."""
    text = json.dumps(params, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def chance(params: Params) -> float:
    """The probability that a wrong seed passes: draws taken as independent and uniform over their values.

    Times the number of seeds searched it is the number of survivors to expect by chance. Never 0: a value too small
    for a float is the smallest positive one.
    """
    spec = parse(params)
    if spec.output.odds.bit_length() > sys.float_info.max_exp:
        return sys.float_info.min
    return max(float(spec.output.odds) ** -spec.known, sys.float_info.min)


def need_kernel(spec: Spec) -> None:
    """Raise :class:`SpecError`, which says what can be searched so far, if no kernel searches for ``spec``."""
    made_by, kind = spec.generator, spec.output.kind
    if kind in made_by.searched:
        return
    searched = "; ".join(f"{name}: {', '.join(sorted(GENERATORS[name].searched))}" for name in SEARCHABLE)
    raise SpecError(
        f"output {kind} of generator {made_by.name} can be drawn and checked, but not searched yet; "
        f"what can be searched so far: {searched}"
    )


def seed_range(params: Params) -> tuple[int, int]:
    """All seeds of the generator, half-open."""
    return 0, parse(params).generator.seeds


def read_data(path: Path) -> dict[str, Any]:
    """A recorded data file, checked; raises :class:`SpecError`. Its draws are consecutive outputs."""
    content = _load(path)
    try:
        data = _object(content, "the file", required={"schema", "generator", "output", "draws", "provenance"})
        _check_provenance(data["provenance"])
        parse({name: value for name, value in data.items() if name != "provenance"})
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
    return data


def _inlined(params: Params, base_dir: Path) -> Params:
    given = _object(params, "the parameters", required={"data"}, optional={"skip"})
    if not isinstance(given["data"], str):
        raise SpecError(f"data: {given['data']!r} is no path; name a data file")
    data = read_data(base_dir / given["data"])
    del data["provenance"]
    return {**data, "skip": given.get("skip", 0)}


def _load(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(
            f"{path}: cannot be read ({error.strerror}); check the path, which starts at the job's folder"
        ) from None
    except ValueError as error:
        raise SpecError(f"{path}: is no JSON text ({error}); record it again") from None


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


def _check_schema(given: Params) -> None:
    if type(given["schema"]) is not int or given["schema"] != SCHEMA:
        raise SpecError(f"schema: {given['schema']!r} is not supported; this version reads schema {SCHEMA}")


def _check_provenance(value: object) -> None:
    for name, text in _object(value, "provenance", required=PROVENANCE).items():
        if not isinstance(text, str) or not text:
            raise SpecError(f"provenance.{name}: must be a text that is not empty")


def _draws(output: Output, values: object) -> tuple[int | None, ...]:
    if not isinstance(values, list) or not 0 < len(values) <= MAX_DRAWS:
        raise SpecError(f"draws: must be a list of 1 to {MAX_DRAWS} outputs")
    return tuple(_at(f"draws[{i}]", output.read, value) for i, value in enumerate(values))


def _at(where: str, read: Callable[[object], int], value: object) -> int | None:
    if value is None:
        return None
    try:
        return read(value)
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None


def _whole(value: object, where: str) -> int:
    if type(value) is not int:
        raise SpecError(f"{where}: {value!r} is no integer")
    return value


def _integer(value: object, where: str, top: int) -> int:
    if not 0 <= _whole(value, where) <= top:
        raise SpecError(f"{where}: {value} lies outside 0..{top}")
    return _whole(value, where)
