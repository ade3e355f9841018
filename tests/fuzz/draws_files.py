"""Recorded draws in files of every form: JSON, JSON lines, CSV and plain text."""

from __future__ import annotations

import math

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.tables import Hints, read_table

from .base import Target

FORMS = ("json", "jsonl", "csv", "text")


def target(data: bytes) -> None:
    """A table whose columns are equally long and whose numbers are finite, or a `SpecError`."""
    for form in FORMS:
        for hexadecimal in (False, True):
            try:
                table = read_table(data, form, Hints(frozenset({"note"}), hexadecimal))
            except SpecError as error:
                assert 0 < len(str(error)) < 100_000
                continue
            assert len(table.draws) == len(table.places) > 0
            assert table.times is None or len(table.times) == len(table.draws)
            assert table.sessions is None or len(table.sessions) == len(table.draws)
            assert len({type(draw) for draw in table.draws} - {type(None)}) <= 1
            assert all(math.isfinite(draw) for draw in table.draws if isinstance(draw, float))


TARGET = Target(
    name="draws_files",
    run=target,
    seeds=(
        b"[1, 2, null, 3]",
        b"[0.5, 0, 0.25]",
        b'["0a", "ff"]',
        b"[[2, 0, 1], [1, 2, 0]]",
        b'{"schema": 2, "generator": "x", "output": "y", "draws": [1], "provenance": {"source": "s"}}',
        b'[{"draw": 1, "time": "2025-11-03T12:00:00", "session": "a"}]',
        b'{"draw": 1, "time": "2025-11-03"}\n{"draw": 2, "time": "2025-11-03T13:00:00+01:00"}\n',
        b"draw,time,session\n1,2025-11-03,a\n2,2025-11-04,b\n",
        b"draw,note\n0x1F,hello\n",
        b"# c\n1\n2\n-\n",
        b"0.5\n1e-3\n",
        b"0a\nff\n12\n",
        b"[2, 0, 1]\n[0, 1, 2]\n",
        b'draw\n"1"\n',
    ),
    reads=("hostler.workloads.sieve.tables",),
    large={
        "list": lambda: b"[" + b"1," * 500_000 + b"1]",
        "deep": lambda: b"[" * (1 << 20),
        "digits": lambda: b"9" * (1 << 20),
        "list of digits": lambda: b"[" + b"9" * (1 << 20) + b"]",
        "lines": lambda: b"1\n" * 500_000,
        "empty lines": lambda: b"\n" * (1 << 20),
        "keys": lambda: b"[{" + b",".join(b'"k%d":0' % at for at in range(100_000)) + b',"k99999":1}]',
        "columns": lambda: b"draw," + b",".join(b"c%d" % at for at in range(150_000)) + b"\n",
        "twin columns": lambda: b"draw," + b",".join(b"c%d" % (at // 2) for at in range(150_000)) + b"\n",
        "quotes": lambda: b'draw\n"' + b"x" * (1 << 20),
        "rows": lambda: b"draw,time\n" + b"1,2025-11-03\n" * 80_000,
        "objects": lambda: b'{"draw": 1}\n' * 90_000,
        "floats": lambda: b"1" * (1 << 20) + b".5",
    },
)
