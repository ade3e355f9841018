"""The programs against what the real runtimes were recorded to make."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import generator
from hostler.workloads.sieve.opencl.source import Program, program_of
from hostler.workloads.sieve.opencl.table import Shape, Table, table_of
from hostler.workloads.sieve.spec import Spec

from ..support import tiers, vectors
from .support import SETTING, Search, device

NAMES = sorted({name for name, _ in vectors()})
COMMON = {"xorshift32"}
"""Each is a program or two, which OpenCL compiles."""

Asked = tuple[int, Spec, Table]


def searchable(name: str) -> Iterator[Asked]:
    """The vectors of a generator whose seed a sweep reaches: the seed, the question, and its table."""
    for made_by, vector in vectors():
        seed = vector["seed"]
        if made_by != name or not isinstance(seed, int) or not 0 <= seed < generator(name).seeds:
            continue
        try:
            asked = spec.parse(
                {"schema": 1, "generator": name, **{key: vector[key] for key in ("output", "draws", "skip")}}
            )
        except SpecError:  # outputs of one value
            continue
        table = table_of(asked)
        assert isinstance(table, Table), table
        yield seed, asked, table


def widest(shapes: Sequence[Shape]) -> Shape:
    """A shape that all these tables fit: one program, instead of one for each kind of output."""
    first = shapes[0]
    most = {name: max(getattr(shape, name) for shape in shapes) for name in ("v_bits", "parts", "most_words", "again")}
    return replace(first, **most)


@pytest.mark.parametrize("name", tiers(NAMES, COMMON))
def test_the_seed_of_every_vector_is_found(name: str) -> None:
    device()
    groups: dict[tuple[bool, bool], list[Asked]] = {}
    for each in searchable(name):
        # Engines with large states have programs of their own for the first words.
        groups.setdefault((each[2].shape.halves, each[2].words > 16), []).append(each)
    assert groups
    for asked in groups.values():
        find_all(asked)


def find_all(asked: Sequence[Asked]) -> None:
    """Find the seed of each, by one program."""
    search, seeds = Search(), asked[0][1].size
    shape = widest([table.shape for _, _, table in asked])
    words = max(table.words for _, _, table in asked)
    for seed, question, table in asked:
        program = program_of(question, replace(table, shape=shape, words=words))
        assert isinstance(program, Program), program
        low = max(seed - 3, seed >> 64 << 64)
        high = min(seeds, seed + 4, ((seed >> 64) + 1) << 64)
        launcher = search.launcher(program)
        rows = launcher.rows(program.table, (*question.skip, *question.gap))
        assert seed in launcher.launch(rows, low, high - low, SETTING)[1], (seed, question)
