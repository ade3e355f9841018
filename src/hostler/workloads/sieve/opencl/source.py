"""The text of a program: the constants of a question's shape, an engine, and the search around it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from hostler.workloads.sieve.opencl.engines import EngineCode, engine_code
from hostler.workloads.sieve.opencl.table import COLUMNS, Table, table_of
from hostler.workloads.sieve.spec import STATES, Spec

CONSTANT_BYTES = 32_768
"""The largest table for constant memory, of which every device has 64 KiB, for engines' tables as well."""

MOST_BUFFERED = 2048
"""How many picks a work item may keep."""

MOST_PASSING = -24 * math.log(2)
"""The logarithm of the largest share of seeds that may be left to the judge for want of draws that are compared."""

BUFFER_STEPS = (16, 64, 256, 1024, MOST_BUFFERED)


@dataclass(frozen=True, slots=True)
class Program:
    """A program for a question: its source text and its table; ``operations`` is what a seed costs, roughly."""

    source: str
    table: Table
    operations: float

    @property
    def digest(self) -> str:
        """Names the source text."""
        return hashlib.sha256(self.source.encode()).hexdigest()


def program_for(spec: Spec) -> Program | str:
    """The program that searches for ``spec``; a text says why there is none."""
    table = table_of(spec)
    return table if isinstance(table, str) else program_of(spec, table)


def program_of(spec: Spec, table: Table) -> Program | str:
    """The program for the shape of a table, which is the question's or wider."""
    if table.draws < len(spec.draws) and table.passing > MOST_PASSING:
        return f"it follows missing outputs for {table.draws} of {len(spec.draws)} draws, and too many seeds pass those"
    words = -(-table.words // 2) if table.shape.halves else table.words
    code = engine_code(spec.generator, words, spec.items == STATES)
    if isinstance(code, str):
        return code
    buffer = 0
    if table.shape.missing or (table.shape.alignments and code.big):
        buffer = next((step for step in BUFFER_STEPS if table.kept <= step), 0)
        if not buffer:
            return f"it keeps up to {MOST_BUFFERED} numbers that a seed makes, and this takes {table.kept}"
    return Program("\n".join(_lines(code, table, buffer)), table, _operations(spec, code, table, buffer))


def _lines(code: EngineCode, table: Table, buffer: int) -> Iterator[str]:
    shape = table.shape
    rows = len(table.blank) + len(table.picks)
    space = "__constant" if rows * shape.columns * shape.v_bits // 8 <= CONSTANT_BYTES else "__global"
    constants = {
        "WORD": "uint" if code.width <= 32 else "ulong",
        "PICKED": "uint" if code.width <= 32 or shape.halves else "ulong",
        "V": "uint" if shape.v_bits == 32 else "ulong",
        "TABLE": f"{space} const V *",
        **{name: f"{place}u" for place, name in enumerate(COLUMNS)},
        "COLUMNS": f"{shape.columns}u",
        "PARTS": shape.parts,
        "MOST_WORDS": shape.most_words,
        "AGAIN": int(shape.again),
        "HALVES": int(shape.halves),
        "GAPS": int(shape.gaps),
        "ALIGNMENTS": int(shape.alignments),
        "MISSING": int(shape.missing > 0),
        "BUFFER": buffer,
        **code.constants,
    }
    yield from (f"#define {name} {value}" for name, value in constants.items())
    for name, (kind, numbers) in code.tables.items():
        suffix = "ul" if kind == "ulong" else "u"
        yield f"__constant {kind} {name}[] = {{"
        yield from (", ".join(f"{n}{suffix}" for n in numbers[i : i + 8]) + "," for i in range(0, len(numbers), 8))
        yield "};"
    for file in (*code.files, "main.cl"):
        yield files(__package__).joinpath("cl", file).read_text(encoding="utf-8")


def _operations(spec: Spec, code: EngineCode, table: Table, buffer: int) -> float:
    """Operations on 32 bits for a seed that fails early: seeding, the words before the first draw, some picks."""
    pick = table.shape.most_words * code.per_word + 12
    dropped = sum(pick.rule.words for pick in table.blank) * code.per_word
    ahead = (buffer and table.words) * code.per_word or spec.skip[1] * dropped
    # Where some draws need not fit, so many more are looked at.
    looked = min(table.draws, 2 + (spec.known - spec.need) / (1 - 1 / max(2, spec.calls[0].odds)))
    between = (spec.gap[0] + spec.gap[1]) / 2 * dropped
    each = looked * (pick + between) * (1 + table.shape.missing) ** 2
    return code.seeding + ahead + spec.alignments_count * each
