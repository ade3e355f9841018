"""How each language writes the calls whose results are draws: one table for each family of generators.

A row is ``(spelling, kind, arguments)``. Names in capitals in the spelling stand for integers; each is the argument of
that name in small letters, unless ``arguments`` say otherwise: ``END`` (always ``max + 1``), a text (the argument's
name), ``"max - 1"``-like pairs, or an integer that is fixed. The first row of a kind is how it is shown. Objects and
modules before a name (``rng.``, ``Math.``, ``std::``) do not count, ``floor`` stands for all that cuts a float to an
integer, and a list that is shuffled is written as how many things it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Source = tuple[str, int] | int
"""Where an argument's value comes from: a name in the spelling and what is added to it, or a fixed value."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write one kind of output; ``sources`` say where its arguments come from."""

    text: str
    kind: str
    sources: Mapping[str, Source] = field(default_factory=lambda: MappingProxyType({}))


def _row(text: str, kind: str, **sources: Source) -> Spelling:
    return Spelling(text, kind, MappingProxyType(sources))


def _n(name: str) -> Source:
    return name, 0


_END: Source = ("END", -1)
_FLOOR_MATH = _row("Math.floor(Math.random() * N)", "floor", n=("N", 0))

PHP = (
    _row("mt_rand()", "exact"),
    _row("mt_rand(MIN, MAX)", "range", min=_n("MIN"), max=_n("MAX")),
    _row("shuffle(N)", "shuffle", n=_n("N")),
    _row("rand()", "exact"),
    _row("rand(MIN, MAX)", "range", min=_n("MIN"), max=_n("MAX")),
    _row("array_rand(N)", "range", min=0, max=("N", -1)),
    _row("str_shuffle(N)", "shuffle", n=_n("N")),
)
PHP5_RAND = (_row("rand()", "exact"), _row("rand(MIN, MAX)", "range", min=_n("MIN"), max=_n("MAX")))
PHP5_MT_RAND = (_row("mt_rand()", "exact"), _row("mt_rand(MIN, MAX)", "range", min=_n("MIN"), max=_n("MAX")))

PYTHON = (
    _row("random()", "random"),
    _row("randrange(STOP)", "randrange", stop=_n("STOP")),
    _row("randint(MIN, MAX)", "range", min=_n("MIN"), max=_n("MAX")),
    _row("randrange(MIN, END)", "range", min=_n("MIN"), max=_END),
    _row("choice(N)", "randrange", stop=_n("N")),
    _row("getrandbits(K)", "getrandbits", k=_n("K")),
    _row("shuffle(N)", "shuffle", n=_n("N")),
    _row("int(random() * N)", "floor", n=_n("N")),
)
JAVA = (
    _row("nextInt()", "int"),
    _row("nextInt(BOUND)", "bound", bound=_n("BOUND")),
    _row("nextLong()", "long"),
    _row("nextDouble()", "double"),
    _row("Math.random()", "double"),
    _row("nextFloat()", "float"),
    _row("nextBoolean()", "boolean"),
    _row("nextBytes(N)", "bytes", n=_n("N")),
    _row("(int)(Math.random() * N)", "floor", n=_n("N")),
    _row("(int)(nextDouble() * N)", "floor", n=_n("N")),
    _row("Collections.shuffle(N)", "shuffle", n=_n("N")),
)
RUBY = (
    _row("rand", "float"),
    _row("rand(N)", "below", n=_n("N")),
    _row("rand(MIN..MAX)", "range", min=_n("MIN"), max=_n("MAX")),
    _row("rand(MIN...END)", "range", min=_n("MIN"), max=_END),
    _row("(rand * N).floor", "floor", n=_n("N")),
    _row("bytes(N)", "bytes", n=_n("N")),
    _row("shuffle(N)", "shuffle", n=_n("N")),
    _row("sample(N)", "below", n=_n("N")),
)
NUMPY_LEGACY = (
    _row("random_sample()", "float"),
    _row("random()", "float"),
    _row("rand()", "float"),
    _row("randint(N)", "below", n=_n("N")),
    _row("randint(MIN, END)", "range", min=_n("MIN"), max=_END),
    _row("choice(N)", "below", n=_n("N")),
    _row("int(random_sample() * N)", "floor", n=_n("N")),
    _row("int(random() * N)", "floor", n=_n("N")),
    _row("int(rand() * N)", "floor", n=_n("N")),
    _row("bytes(N)", "bytes", n=_n("N")),
    _row("shuffle(N)", "shuffle", n=_n("N")),
    _row("permutation(N)", "shuffle", n=_n("N")),
)
NUMPY = (
    _row("random()", "float"),
    _row("integers(N)", "below", n=_n("N")),
    _row("integers(MIN, END)", "range", min=_n("MIN"), max=_END),
    _row("choice(N)", "below", n=_n("N")),
    _row("int(random() * N)", "floor", n=_n("N")),
    _row("random_raw()", "exact"),
)
V8 = (_row("Math.random()", "float"), _FLOOR_MATH)
DOTNET = (
    _row("Next()", "exact"),
    _row("Next(N)", "below", n=_n("N")),
    _row("Next(MIN, END)", "range", min=_n("MIN"), max=_END),
    _row("NextDouble()", "double"),
    _row("Next() % MODULUS", "mod", modulus=_n("MODULUS")),
    _row("NextBytes(N)", "bytes", n=_n("N")),
)
GO = (
    _row("Intn(N)", "intn", n=_n("N")),
    _row("Int31n(N)", "intn", n=_n("N")),
    _row("Int63n(N)", "int63n", n=_n("N")),
    _row("Int63()", "int63"),
    _row("Int()", "int63"),
    _row("Uint64()", "uint64"),
    _row("Int31()", "int31"),
    _row("Uint32()", "uint32"),
    _row("Float64()", "float64"),
    _row("Perm(N)", "perm", n=_n("N")),
    _row("Shuffle(N)", "shuffle", n=_n("N")),
)
LUA = (
    _row("math.random(0)", "integer"),
    _row("math.random()", "float"),
    _row("math.random(N) - 1", "below", n=_n("N")),
    _row("math.random(MIN, MAX)", "range", min=_n("MIN"), max=_n("MAX")),
    _row("math.random(MAX)", "range", min=1, max=_n("MAX")),
    _row("math.floor(math.random() * N)", "floor", n=_n("N")),
)


def _bare(call: str, *others: str, real: str = "") -> tuple[Spelling, ...]:
    """Those of a generator of plain numbers: ``call`` and its other names, and what makes a float of it."""
    rows: list[Spelling] = []
    for name in (call, *others):
        rows += [
            _row(name, "exact"),
            _row(f"{name} % MODULUS", "mod", modulus=_n("MODULUS")),
            _row(f"{name} >> SHIFT & MASK", "bits"),
            _row(f"{name} >> SHIFT", "bits"),
            _row(f"{name} & MASK", "bits"),
        ]
    for name in (real,) if real else tuple(f"{name} / (RAND_MAX + 1.0)" for name in (call, *others)):
        rows += [_row(name, "float"), _row(f"floor({name} * N)", "floor", n=_n("N"))]
    return tuple(rows)


BARE = _bare("next()", real="float()")
"""``bits`` are those of the number: its arguments come from SHIFT and MASK, which the parser works out."""

SPELLINGS: dict[str, tuple[Spelling, ...]] = {
    "php-mt_rand": PHP,
    "php5-mt_rand": PHP5_MT_RAND,
    "php5-rand": PHP5_RAND,
    "python-random": PYTHON,
    "java-random": JAVA,
    "ruby-random": RUBY,
    "numpy-randomstate": NUMPY_LEGACY,
    "numpy-pcg64": NUMPY,
    "numpy-sfc64": NUMPY,
    "v8-random": V8,
    "v8-random-2015": V8,
    "v8-random-2025": V8,
    "v8-random-2026": V8,
    "dotnet-random": DOTNET,
    "go-rand": GO,
    "lua-random": LUA,
    "msvc-rand": _bare("rand()"),
    **dict.fromkeys(
        ("glibc-rand", "glibc-type0", "glibc-type1", "glibc-type2", "glibc-type4"), _bare("rand()", "random()")
    ),
}
"""By the generator's name; any other has those of ``BARE``."""
