"""The generators as a list that a person reads, 80 columns wide."""

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from hostler.workloads.sieve.generators import GENERATORS, Generator, Output
from hostler.workloads.sieve.spec import output_arguments

COLUMNS = 80
INDENT = " " * 4

HEAD = """Each output is written with the arguments it takes: range(min, max) stands for
{"kind": "range", "min": INTEGER, "max": INTEGER}. docs/reference/sieve.md
explains the outputs."""

TAIL = """lcg:A,C,M,SHIFT
    any linear congruential generator: x -> (A x + C) mod M, giving x >> SHIFT"""


def listing() -> str:
    """All generators: title, other names, seeds, outputs."""
    return "\n\n".join([HEAD, *map(_entry, GENERATORS.values()), TAIL])


def rows() -> Iterator[dict[str, Any]]:
    """All generators for programs: names, how many seeds (from 0), outputs with the names of their arguments."""
    for made_by in GENERATORS.values():
        outputs = {kind: output_arguments(output) for kind, output in made_by.outputs.items()}
        names = {"name": made_by.name, "also": list(made_by.aliases), "title": made_by.title}
        yield {**names, "seeds": made_by.seeds, "outputs": outputs, "reference": made_by.reference}


def _entry(made_by: Generator) -> str:
    also = f" (also: {', '.join(made_by.aliases)})" if made_by.aliases else ""
    notes = f"; {made_by.seed_notes}" if made_by.seed_notes else ""
    lines = [
        f"{made_by.name}{also}",
        f"{INDENT}{made_by.title}",
        f"{INDENT}seeds 0 to {seeds(made_by)}{notes}",
        f"{INDENT}{', '.join(_call(kind, output) for kind, output in made_by.outputs.items())}",
    ]
    return "\n".join(map(_folded, lines))


def seeds(made_by: Generator) -> str:
    """The highest seed, as a power of two where it is one less."""
    count = made_by.seeds
    return f"2^{count.bit_length() - 1}-1" if count & (count - 1) == 0 else str(count - 1)


def _call(kind: str, output: type[Output]) -> str:
    arguments = output_arguments(output)
    return f"{kind}({', '.join(arguments)})" if arguments else kind


def _folded(line: str) -> str:
    return fill(line, COLUMNS, subsequent_indent=INDENT + "  ", break_on_hyphens=False, break_long_words=False)
