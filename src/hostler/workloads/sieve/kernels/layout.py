"""What the kernels agree on: how many lanes there are, and what stands where in the arrays they are given.

A *fill* makes words for :data:`LANES` items side by side. It is a C function, so that one compiled search serves all::

    fill(items, high, mode, count, counters, state, words, constants)

``items`` are the lower 64 bits of the lanes' items and ``high`` the bits above, the same for all. It writes the next
``count`` words of each lane to ``words`` (``count`` rows of one word per lane), and keeps what it needs for the words
after them in ``state`` and in ``counters``, which are the same for all lanes. ``mode`` says where to begin, or to go
on.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

U32: TypeAlias = npt.NDArray[np.uint32]
U64: TypeAlias = npt.NDArray[np.uint64]
I64: TypeAlias = npt.NDArray[np.int64]

LANES = 128
"""Enough to hide the latency of a chain of multiplications, few enough for a row of any state to stay in the cache."""

COUNTERS = 8
MOST_WORDS = 32
"""The most words that are asked for at once."""

# What the items are, and whether the words are those that follow or, from a state at the end, those that came before.
SEEDS, STATES, ENDS, ONWARD, BACKWARD = range(5)

FILL = "void(voidptr, uint64, int64, int64, voidptr, voidptr, voidptr, voidptr)"

# A rule: how many words a pick takes, where its parts are, when it is drawn again, what it is reduced by.
(
    RULE_WORDS, RULE_FIRST, RULE_LAST, RULE_AGAIN, RULE_LIMIT, RULE_FACTOR, RULE_LOW, RULE_MODULUS, RULE_MAGIC,
    RULE_WIDE,
) = range(10)  # fmt: skip
RULE_FIELDS = 10
NEVER, ABOVE, LOW_PRODUCT = range(3)

# A part: which word of the pick, from which bit, how many bits (as a mask), and how far up they go in the pick.
PART_WORD, PART_SHIFT, PART_MASK, PART_UP = range(4)
PART_FIELDS = 4

# A test: which pick, ``place + gap * stride`` after the alignment's first, and of which draw; it must lie in a span.
TEST_PLACE, TEST_STRIDE, TEST_DRAW = range(3)
TEST_FIELDS = 3
SPAN_LOW, SPAN_WIDTH = range(2)
SPAN_FIELDS = 2

# The scalars of a search: what the items are; whether words are split in two; the first pick that is kept, and how many
# words come before it where none is drawn again; the picks that any item needs; how many tests and draws each stage
# takes, and whether lanes go on by themselves in the first; whether words are drawn again at all, whether all
# rules are one of one word, whether a word drawn again could be taken for another's; how many draws have to fit (0:
# all), how many outputs may be missing.
(
    MODE, HALVES, BASE, SKIPPED, SURE, FIRST_TESTS, FIRST_DRAWS, FIRST_EXACT, ALL_TESTS, DRAWS, REJECTS, UNIFORM,
    AMBIGUOUS, NEED, MISSING,
) = range(15)  # fmt: skip
SCALARS = 15
CHECK_EVERY = 8
"""After how many draws a block is given up in which no lane can reach the number that has to fit."""
