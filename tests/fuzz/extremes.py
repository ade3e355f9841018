"""Extreme values: the one list that structured fuzzing, the tests of messages and the tests of events draw from."""

from __future__ import annotations

import json
import math
from typing import Any

DEEP: Any = 1
for _ in range(80):
    DEEP = [DEEP]

TEXTS: tuple[str, ...] = (
    "", " ", "\0", "a\0b", "j1.1\0", "\ud800", "\udfff x", "x\n", "\x1b[2J", "\u202e", "\u200b", "\ufeff", "e\u0301",
    "é", "\u0661", "²", "\uff11", "𝟙", "\U0010ffff", "x" * 5_000, "x" * 70_000, "j1.1", "../x", "../../etc/passwd", "/",
    "-1", "--x", "1e400", "0x10", "NaN", "null", "True", "{}", "%s%n", "{attempt}", "*", "**/" * 40, "$(x)",
)  # fmt: skip
"""Texts: empty, with NUL, with half of a surrogate pair, long, looking like others, and like something else."""
NUMBERS: tuple[int | float, ...] = (
    0, -1, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64,
    -(2**70), 10**400, 0.5, -0.0, 1e308, -1e308, 1e-320,
)  # fmt: skip
"""Numbers that JSON has a form for: around the limits of 31, 53, 63 and 64 bits, and beyond those of floats."""
SHAPES: tuple[Any, ...] = (
    None, True, False, [], {}, [None], [[]], [0, 0, 0, 0], [{}], {"a": {}}, {"": 1}, {"\0": 1}, {"x": "\ud800"}, [[1]],
    {"a" * 300: 1}, DEEP, {"a": DEEP}, [0] * 3_000, {f"k{at}": at for at in range(500)}, ["x", 1, None],
)  # fmt: skip
"""Values of other types, nested, large."""
VALUES: tuple[Any, ...] = (*TEXTS, *NUMBERS, *SHAPES)
"""All that JSON has a form for."""
NO_JSON: tuple[Any, ...] = (math.nan, math.inf, -math.inf, {"a": math.nan}, (), object(), b"x")
"""Values of Python that JSON has no form for."""
RAW = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "9" * 5_000,
    "[" * 300 + "]" * 300,
    '{"a":1,"a":2}',
    "",
    "tru",
)
"""Texts that are no JSON, or that readers of JSON take for one value or another."""
YAML = (
    ".nan", "-.inf", "1_000", "0o17", "0b1", "0x1_0000", "'2**70'", "2026-02-30", "12:30", "yes", "~",
    "!!python/name:os.system", "!!binary aGk=", "&a [*a]", "<<", "? x", "|", "'\u0085'", "1e5", "+1", ".5",
)  # fmt: skip
"""Values of YAML that are not what they look like."""
JSON = (*dict.fromkeys(json.dumps(each) for each in VALUES), *RAW)
"""All of them as they stand in a document."""
