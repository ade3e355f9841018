"""The search that serves every generator and every output: lanes side by side, a block of items after the other.

Words come from a *fill* (:mod:`layout`), are cut into picks, and the picks of a lane stand under each other in
``picks``: what a draw must be is then a span that one row of picks lies in, whatever the alignment. Everything is made
only as far as some lane of a block still needs it.

Two stages: in the first one all items are tested by as many draws as make a chance survivor rare; what is left waits
until there is a block of it, which is then tested by all draws. Where words are seldom drawn again the first stage
takes it that none is, and keeps the lanes of those that are; else, and in the second stage, each lane goes on by itself
where one of its words is drawn again.
"""

from functools import cache

import numpy as np

from hostler.workloads.sieve.compiled import Callback, Pointer, call, carray, inlined
from hostler.workloads.sieve.kernels.arithmetic import high_product
from hostler.workloads.sieve.kernels.layout import (
    ABOVE,
    ALL_TESTS,
    AMBIGUOUS,
    BACKWARD,
    BASE,
    CHECK_EVERY,
    DRAWS,
    ENDS,
    FIRST_DRAWS,
    FIRST_EXACT,
    FIRST_TESTS,
    HALVES,
    I64,
    LANES,
    LOW_PRODUCT,
    MISSING,
    MODE,
    MOST_WORDS,
    NEED,
    ONWARD,
    PART_FIELDS,
    PART_MASK,
    PART_SHIFT,
    PART_UP,
    PART_WORD,
    REJECTS,
    RULE_AGAIN,
    RULE_FACTOR,
    RULE_FIELDS,
    RULE_FIRST,
    RULE_LAST,
    RULE_LIMIT,
    RULE_LOW,
    RULE_MAGIC,
    RULE_MODULUS,
    RULE_WIDE,
    RULE_WORDS,
    SCALARS,
    SKIPPED,
    SPAN_FIELDS,
    SPAN_LOW,
    SPAN_WIDTH,
    SURE,
    TEST_DRAW,
    TEST_FIELDS,
    TEST_PLACE,
    TEST_STRIDE,
    U64,
    UNIFORM,
)

i64 = np.int64
u64 = np.uint64

# Addresses, as a fill takes them.
FILL, ITEMS, HIGH, COUNTERS, STATE, WORDS, CONSTANTS = range(7)
ADDRESSES = 7

# How far a block has come: picks that all lanes have, rows of words taken and held, what the fill does next, the place
# of the next pick in its round, rows of words spent.
MADE, TAKEN, HELD, NEXT, TURN, SPENT = range(6)
PROGRESS = 6

# Rows of one number per lane: whether it passed, whether a word was drawn again that was not followed, and scratch.
PASSED, DOUBT, MATCH, FITTING, VALUE, AGAIN, SETTLED = range(7)
LANE_ROWS = 7
# Where each lane stands when each goes on by itself: its pick, that pick's place in the round, and its word.
POSITION, PLACE, PART = range(3)
CURSOR_ROWS = 3

# Of how many dropped outputs some lane is left: now, and after the present draw.
NOTED = 2

# A pick that is drawn again more often than this in a row makes its lane a candidate: some state is stuck.
PATIENCE = 64

# How many rows the arrays have that are given by their addresses.
RULES, PARTS, TESTS, LEAST, ALIGNMENTS, PICKS, DROPPED, HITS = range(8)
SIZES = 8

SIGNATURE = f"int64(uint64, int64, {', '.join(['voidptr'] * 17)})"


def _search(
    start: int, count: int, sizes_at: Pointer, addresses_at: Pointer, scalars_at: Pointer, rules_at: Pointer,
    parts_at: Pointer, tests_at: Pointer, spans_at: Pointer, least_at: Pointer, alignments_at: Pointer,
    items_at: Pointer, words_at: Pointer, picks_at: Pointer, lanes_at: Pointer, cursors_at: Pointer,
    progress_at: Pointer, reach_at: Pointer, hits_at: Pointer,
) -> int:  # fmt: skip
    """Search ``[start, start + count)``; writes the first candidates to ``hits`` and returns how many there are.

    A C function: arrays that numba knows the owner of are counted at every turn, which costs more than the lanes.
    """
    size = carray(sizes_at, (SIZES,), np.int64)
    addresses, scalars = carray(addresses_at, (ADDRESSES,), np.uint64), carray(scalars_at, (SCALARS,), np.int64)
    rules = carray(rules_at, (size[RULES], RULE_FIELDS), np.uint64)
    parts = carray(parts_at, (size[PARTS], PART_FIELDS), np.uint64)
    tests = carray(tests_at, (size[TESTS], TEST_FIELDS), np.int64)
    spans = carray(spans_at, (size[TESTS], SPAN_FIELDS), np.uint64)
    least, hits = carray(least_at, (size[LEAST],), np.int64), carray(hits_at, (size[HITS],), np.uint64)
    alignments = carray(alignments_at, (size[ALIGNMENTS], 2), np.int64)
    items, words = carray(items_at, (LANES,), np.uint64), carray(words_at, (MOST_WORDS, LANES), np.uint64)
    picks = carray(picks_at, (size[PICKS], LANES), np.uint64)
    lanes, cursors = carray(lanes_at, (LANE_ROWS, LANES), np.uint64), carray(cursors_at, (CURSOR_ROWS, LANES), np.int64)
    progress = carray(progress_at, (PROGRESS,), np.int64)
    reach = carray(reach_at, (3, size[DROPPED], LANES), np.uint64)
    queue = carray(items_at, (3 * LANES,), np.uint64)[LANES:]
    queued, found = 0, 0
    exact = scalars[FIRST_EXACT] != 0
    final = scalars[FIRST_TESTS] == scalars[ALL_TESTS] and (exact or scalars[REJECTS] == 0)
    for base in range(0, count, LANES):
        for lane in range(LANES):
            items[lane] = start + u64(base + lane)
        _sift(
            scalars[FIRST_TESTS], scalars[FIRST_DRAWS], exact, addresses, scalars, rules, parts, tests, spans, least,
            alignments, words, picks, lanes, cursors, progress, reach,
        )  # fmt: skip
        left = 0 if _none(lanes[PASSED]) and _none(lanes[DOUBT]) else min(LANES, count - base)
        for lane in range(left):
            if lanes[PASSED, lane] | lanes[DOUBT, lane]:
                if final:
                    found = _keep(hits, found, items[lane])
                else:
                    queue[queued] = items[lane]
                    queued += 1
        last = base + LANES >= count
        while queued >= LANES or (last and queued > 0):
            ready = min(queued, LANES)
            for lane in range(LANES):
                items[lane] = queue[lane if lane < ready else 0]
            _sift(
                scalars[ALL_TESTS], scalars[DRAWS], scalars[REJECTS] != 0, addresses, scalars, rules, parts, tests,
                spans, least, alignments, words, picks, lanes, cursors, progress, reach,
            )  # fmt: skip
            for lane in range(ready):
                if lanes[PASSED, lane] | lanes[DOUBT, lane]:
                    found = _keep(hits, found, items[lane])
            queued -= ready
            for i in range(queued):
                queue[i] = queue[i + ready]
    return found


@inlined
def _none(row: U64) -> bool:
    seen = u64(0)
    for lane in range(LANES):
        seen |= row[lane]
    return bool(seen == u64(0))


@inlined
def _set(row: U64, value: np.uint64) -> None:
    for lane in range(LANES):
        row[lane] = value


@inlined
def _keep(hits: U64, found: int, item: np.uint64) -> int:
    if found < hits.size:
        hits[found] = item
    return found + 1


# ---- one block --------------------------------------------------------------------------------------------------


@inlined
def _sift(
    used: int, draws: int, exact: bool, addresses: U64, scalars: I64, rules: U64, parts: U64, tests: I64, spans: U64,
    least: I64, alignments: I64, words: U64, picks: U64, lanes: U64, cursors: I64, progress: I64, reach: U64,
) -> None:  # fmt: skip
    """Test the lanes by the first ``used`` tests, those of the first ``draws`` draws, in each alignment."""
    progress[:] = 0
    progress[NEXT] = scalars[MODE]
    _set(lanes[PASSED], u64(0))
    _set(lanes[DOUBT], u64(0))
    if exact:
        cursors[POSITION, :] = -scalars[BASE]
        cursors[PLACE, :] = 0
        cursors[PART, :] = 0
        _set(lanes[VALUE], u64(0))
    else:
        progress[TURN] = scalars[BASE] % rules.shape[0]
        for _ in range(scalars[SKIPPED]):
            _take(scalars[SKIPPED], addresses, scalars, progress)
    _make(scalars[SURE], exact, addresses, scalars, rules, parts, words, picks, lanes, cursors, progress)
    for which in range(alignments.shape[0]):
        origin, gap = alignments[which, 0], alignments[which, 1]
        if scalars[MISSING]:
            _with_missing(
                origin, gap, used, draws, exact, addresses, scalars, rules, parts, tests, spans, words, picks, lanes,
                cursors, progress, reach,
            )  # fmt: skip
        elif scalars[NEED]:
            _with_mistakes(
                origin, gap, used, exact, addresses, scalars, rules, parts, tests, spans, least, words, picks, lanes,
                cursors, progress,
            )  # fmt: skip
        else:
            _all_fit(
                origin, gap, used, exact, alignments.shape[0], addresses, scalars, rules, parts, tests, spans, words,
                picks, lanes, cursors, progress,
            )  # fmt: skip


@inlined
def _all_fit(
    origin: int, gap: int, used: int, exact: bool, alignments: int, addresses: U64, scalars: I64, rules: U64,
    parts: U64, tests: I64, spans: U64, words: U64, picks: U64, lanes: U64, cursors: I64, progress: I64,
) -> None:  # fmt: skip
    """All of the tests have to be met."""
    match, passed, doubt, settled = lanes[MATCH], lanes[PASSED], lanes[DOUBT], lanes[SETTLED]
    once = scalars[REJECTS] != 0 and not exact and alignments == 1
    if once:
        _set(settled, u64(0))
    _set(match, u64(1))
    for test in range(used):
        pick = origin + tests[test, TEST_PLACE] + gap * tests[test, TEST_STRIDE]
        if pick >= progress[MADE]:
            _make(pick + 1, exact, addresses, scalars, rules, parts, words, picks, lanes, cursors, progress)
        row, low, width, left = picks[pick], spans[test, SPAN_LOW], spans[test, SPAN_WIDTH], u64(0)
        for lane in range(LANES):
            match[lane] &= u64(row[lane] - low <= width)
            left |= match[lane]
        if once:
            for lane in range(LANES):
                settled[lane] |= (match[lane] | doubt[lane]) ^ u64(1)
        if left == u64(0):
            break
    if once:
        # What was excluded before any of its words was drawn again is so for good.
        for lane in range(LANES):
            doubt[lane] &= settled[lane] ^ u64(1)
    for lane in range(LANES):
        passed[lane] |= match[lane]


@inlined
def _with_mistakes(
    origin: int, gap: int, used: int, exact: bool, addresses: U64, scalars: I64, rules: U64, parts: U64, tests: I64,
    spans: U64, least: I64, words: U64, picks: U64, lanes: U64, cursors: I64, progress: I64,
) -> None:  # fmt: skip
    """At least NEED draws have to fit, and ``least[j]`` of the first ``j + 1``, which is looked at now and then."""
    match, fitting, passed = lanes[MATCH], lanes[FITTING], lanes[PASSED]
    _set(match, u64(1))
    _set(fitting, u64(0))
    for test in range(used):
        pick = origin + tests[test, TEST_PLACE] + gap * tests[test, TEST_STRIDE]
        if pick >= progress[MADE]:
            _make(pick + 1, exact, addresses, scalars, rules, parts, words, picks, lanes, cursors, progress)
        row, low, width = picks[pick], spans[test, SPAN_LOW], spans[test, SPAN_WIDTH]
        draw = tests[test, TEST_DRAW]
        if test + 1 < used and tests[test + 1, TEST_DRAW] == draw:
            for lane in range(LANES):
                match[lane] &= u64(row[lane] - low <= width)
            continue
        if test == 0 or tests[test - 1, TEST_DRAW] != draw:
            for lane in range(LANES):
                fitting[lane] += u64(row[lane] - low <= width)
        else:
            for lane in range(LANES):
                fitting[lane] += match[lane] & u64(row[lane] - low <= width)
                match[lane] = u64(1)
        if draw % CHECK_EVERY == 0 and _highest(fitting) < u64(least[draw]):
            return
    for lane in range(LANES):
        passed[lane] |= u64(fitting[lane] >= u64(scalars[NEED]))


@inlined
def _highest(row: U64) -> np.uint64:
    highest = u64(0)
    for lane in range(LANES):
        highest = max(highest, row[lane])
    return highest


@inlined
def _with_missing(
    origin: int, gap: int, used: int, draws: int, exact: bool, addresses: U64, scalars: I64, rules: U64, parts: U64,
    tests: I64, spans: U64, words: U64, picks: U64, lanes: U64, cursors: I64, progress: I64, reach: U64,
) -> None:  # fmt: skip
    """Up to MISSING outputs are dropped before each draw: ``reach[0, d]`` tells the lanes where ``d`` are so far."""
    most, round_picks = scalars[MISSING], rules.shape[0]
    _set(reach[0, 0], u64(1))
    reach[NOTED, 0, 0] = u64(1)
    top, test = 0, 0
    for draw in range(draws):
        last = test
        while last < used and tests[last, TEST_DRAW] == draw:
            last += 1
        alive = u64(0)
        for dropped in range(top + most + 1):
            here, left = reach[1, dropped], u64(0)
            _set(here, u64(0))
            for before in range(max(dropped - most, 0), min(dropped, top) + 1):
                if reach[NOTED, before, 0]:
                    left = u64(1)
                    for lane in range(LANES):
                        here[lane] |= reach[0, before, lane]
            for each in range(test, last):
                if left == u64(0):
                    break
                pick = origin + tests[each, TEST_PLACE] + gap * tests[each, TEST_STRIDE] + dropped * round_picks
                if pick >= progress[MADE]:
                    _make(pick + 1, exact, addresses, scalars, rules, parts, words, picks, lanes, cursors, progress)
                row, low, width, left = picks[pick], spans[each, SPAN_LOW], spans[each, SPAN_WIDTH], u64(0)
                for lane in range(LANES):
                    here[lane] &= u64(row[lane] - low <= width)
                    left |= here[lane]
            reach[NOTED, dropped, 1] = left
            alive |= left
        if alive == u64(0):
            return
        top, test = top + most, last
        for dropped in range(top + 1):
            reach[NOTED, dropped, 0] = reach[NOTED, dropped, 1]
            if reach[NOTED, dropped, 0]:
                for lane in range(LANES):
                    reach[0, dropped, lane] = reach[1, dropped, lane]
    for dropped in range(top + 1):
        if reach[NOTED, dropped, 0]:
            for lane in range(LANES):
                lanes[PASSED, lane] |= reach[0, dropped, lane]


# ---- picks ------------------------------------------------------------------------------------------------------


@inlined
def _make(
    upto: int, exact: bool, addresses: U64, scalars: I64, rules: U64, parts: U64, words: U64, picks: U64, lanes: U64,
    cursors: I64, progress: I64,
) -> None:  # fmt: skip
    """Make picks until all lanes have ``upto`` of them."""
    if not exact:
        while progress[MADE] < upto:
            _make_even(upto, addresses, scalars, rules, parts, words, picks, lanes, progress)
    elif scalars[UNIFORM]:
        while progress[MADE] < upto:
            _make_uniform(upto, addresses, scalars, rules, parts, words, picks, lanes, cursors, progress)
    else:
        while progress[MADE] < upto:
            _make_apart(upto, addresses, scalars, rules, parts, words, picks, lanes, cursors, progress)


@inlined
def _take(wanted: int, addresses: U64, scalars: I64, progress: I64) -> int:
    """The row of the next words; asks the fill for ``wanted`` rows where none is left."""
    if progress[TAKEN] == progress[HELD]:
        halves = scalars[HALVES]
        count = min(max((wanted + halves) >> halves, 1), MOST_WORDS)
        call(
            addresses[FILL],
            (
                addresses[ITEMS], addresses[HIGH], i64(progress[NEXT]), i64(count), addresses[COUNTERS],
                addresses[STATE], addresses[WORDS], addresses[CONSTANTS],
            ),
        )  # fmt: skip
        progress[NEXT] = BACKWARD if progress[NEXT] == ENDS or progress[NEXT] == BACKWARD else ONWARD
        progress[TAKEN], progress[HELD] = 0, count << halves
    progress[TAKEN] += 1
    progress[SPENT] += 1
    return int(progress[TAKEN] - 1)


@inlined
def _cut(turn: int, part: int, row: int, into: U64, scalars: I64, rules: U64, parts: U64, words: U64) -> None:
    """The parts that a pick has in word number ``part`` of it, which is in ``row``, put into their places."""
    source, half = words[row >> scalars[HALVES]], u64(32 * (row & scalars[HALVES]))
    fresh = part == 0
    for each in range(i64(rules[turn, RULE_FIRST]), i64(rules[turn, RULE_LAST])):
        if i64(parts[each, PART_WORD]) != part:
            continue
        shift, mask, up = parts[each, PART_SHIFT] + half, parts[each, PART_MASK], parts[each, PART_UP]
        if fresh:
            for lane in range(LANES):
                into[lane] = ((source[lane] >> shift) & mask) << up
        else:
            for lane in range(LANES):
                into[lane] |= ((source[lane] >> shift) & mask) << up
        fresh = False
    if fresh:
        _set(into, u64(0))


@inlined
def _reduce(turn: int, values: U64, rules: U64) -> None:
    """The values modulo what the rule says, by multiplications: D. Lemire et al., 2019 (32 bits); P. Barrett, 1986."""
    modulus, magic = rules[turn, RULE_MODULUS], rules[turn, RULE_MAGIC]
    if modulus == u64(0):
        return
    if rules[turn, RULE_WIDE]:
        for lane in range(LANES):
            left = values[lane] - high_product(values[lane], magic) * modulus
            values[lane] = left - u64(left >= modulus) * modulus
        return
    for lane in range(LANES):
        part = values[lane] * magic
        low = (part & u64(0xFFFFFFFF)) * modulus
        values[lane] = ((part >> u64(32)) * modulus + (low >> u64(32))) >> u64(32)


@inlined
def _make_even(
    upto: int, addresses: U64, scalars: I64, rules: U64, parts: U64, words: U64, picks: U64, lanes: U64, progress: I64
) -> None:
    """One pick of all lanes, as if nothing were drawn again; lanes in which something is are noted as doubtful."""
    turn, into = progress[TURN], picks[progress[MADE]]
    taken = i64(rules[turn, RULE_WORDS])
    for part in range(taken):
        row = _take((upto - progress[MADE]) * taken - part, addresses, scalars, progress)
        _cut(turn, part, row, into, scalars, rules, parts, words)
    _note_again(turn, into, lanes[DOUBT], rules)
    _reduce(turn, into, rules)
    progress[MADE] += 1
    progress[TURN] = turn + 1 if turn + 1 < rules.shape[0] else 0


@inlined
def _note_again(turn: int, values: U64, noted: U64, rules: U64) -> None:
    """``noted`` becomes 1 where the value is drawn again, and stays what it is elsewhere."""
    limit, factor, low = rules[turn, RULE_LIMIT], rules[turn, RULE_FACTOR], rules[turn, RULE_LOW]
    if rules[turn, RULE_AGAIN] == ABOVE:
        for lane in range(LANES):
            noted[lane] |= u64(values[lane] > limit)
    elif rules[turn, RULE_AGAIN] == LOW_PRODUCT:
        for lane in range(LANES):
            noted[lane] |= u64((values[lane] * factor) & low < limit)


@inlined
def _make_uniform(
    upto: int, addresses: U64, scalars: I64, rules: U64, parts: U64, words: U64, picks: U64, lanes: U64, cursors: I64,
    progress: I64,
) -> None:  # fmt: skip
    """One word of all lanes, where every pick takes one word by the same rule; each lane keeps its own position."""
    value, again, position = lanes[VALUE], lanes[AGAIN], cursors[POSITION]
    row = _take(upto - progress[MADE], addresses, scalars, progress)
    _cut(0, 0, row, value, scalars, rules, parts, words)
    _set(again, u64(0))
    _note_again(0, value, again, rules)
    _reduce(0, value, rules)
    for lane in range(LANES):
        here = position[lane]
        if 0 <= here < picks.shape[0]:
            picks[here, lane] = value[lane]
        position[lane] = here + i64(again[lane] ^ u64(1))
    _look_back(upto, scalars, lanes, cursors, progress)


@inlined
def _make_apart(
    upto: int, addresses: U64, scalars: I64, rules: U64, parts: U64, words: U64, picks: U64, lanes: U64, cursors: I64,
    progress: I64,
) -> None:  # fmt: skip
    """One word of all lanes, each of which stands at a pick and a word of its own."""
    row = _take(upto - progress[MADE], addresses, scalars, progress)
    for lane in range(LANES):
        word = words[row >> scalars[HALVES], lane] >> u64(32 * (row & scalars[HALVES]))
        turn, part, v = cursors[PLACE, lane], cursors[PART, lane], lanes[VALUE, lane]
        for each in range(i64(rules[turn, RULE_FIRST]), i64(rules[turn, RULE_LAST])):
            if i64(parts[each, PART_WORD]) == part:
                v |= ((word >> parts[each, PART_SHIFT]) & parts[each, PART_MASK]) << parts[each, PART_UP]
        part += 1
        if part == i64(rules[turn, RULE_WORDS]):
            here = cursors[POSITION, lane]
            if _kept(turn, v, rules):
                if 0 <= here < picks.shape[0]:
                    picks[here, lane] = _reduced(turn, v, rules)
                cursors[POSITION, lane] = here + 1
                cursors[PLACE, lane] = turn + 1 if turn + 1 < rules.shape[0] else 0
            elif scalars[AMBIGUOUS]:
                lanes[DOUBT, lane] = u64(1)
            part, v = 0, u64(0)
        cursors[PART, lane], lanes[VALUE, lane] = part, v
    _look_back(upto, scalars, lanes, cursors, progress)


@inlined
def _kept(turn: int, v: np.uint64, rules: U64) -> bool:
    if rules[turn, RULE_AGAIN] == ABOVE:
        return bool(v <= rules[turn, RULE_LIMIT])
    if rules[turn, RULE_AGAIN] == LOW_PRODUCT:
        return bool((v * rules[turn, RULE_FACTOR]) & rules[turn, RULE_LOW] >= rules[turn, RULE_LIMIT])
    return True


@inlined
def _reduced(turn: int, v: np.uint64, rules: U64) -> np.uint64:
    return v % rules[turn, RULE_MODULUS] if rules[turn, RULE_MODULUS] else v


@inlined
def _look_back(upto: int, scalars: I64, lanes: U64, cursors: I64, progress: I64) -> None:
    """How many picks all lanes have by now; a lane that does not get on is kept for the judge."""
    position, made = cursors[POSITION], cursors[POSITION, 0]
    for lane in range(LANES):
        made = min(made, position[lane])
    if made < upto and progress[SPENT] > PATIENCE * (upto + scalars[BASE] + PATIENCE) * MOST_WORDS:
        for lane in range(LANES):
            if position[lane] < upto:
                lanes[DOUBT, lane] = u64(1)
                position[lane] = upto
        made = upto
    progress[MADE] = max(made, 0)


@cache
def search() -> Callback:
    """The compiled search, which takes numbers and addresses."""
    return Callback(_search, "search", SIGNATURE, {})
