"""The compiled rules: what a position's groups are, and what follows from them, for a batch of positions at once.

A position is a row of ``cells + 1`` bytes: 0 for an empty cell, ``k + 1`` for a stone of side ``k``; last, 1 when the
sides were swapped. Side 0 places the first stone. Without a swap side ``k`` is seat ``k``; with one, side 0 is seat 1.

A group is named by its *root*, its lowest cell. Kernels take ``behind``, the lower-numbered neighbours of each
cell (-1 for none), to find groups in one pass with a disjoint-set forest (Galler and Fischer, 1964), and ``graph``,
all neighbours, for what a stone on an empty cell would join.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.beacons.compiled import INT, inlined, kernel, reads, writes

I8: TypeAlias = NDArray[np.int8]
I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]
U64: TypeAlias = NDArray[np.uint64]
F32: TypeAlias = NDArray[np.float32]
Bool: TypeAlias = NDArray[np.bool_]

STATES = reads("int8", 2)
TABLE = reads("int32", 2)
CELLS = reads("bool_", 1)

SIZE = 1 << 20
"""A group is worth ``SIZE * beacons + size`` where groups are compared."""

# The fast engine, found by short matches on hex8 and square8.
DENIAL = 0.9  # what another's loss is worth beside an own gain
NEARNESS = 0.1  # of a gain, for each beacon next to the cell
NATS = 4.0  # of the first beacon: such that sampled games differ and are no easy prey
START = 1.5  # nats against strong first stones, and for taking one


# ---- groups -----------------------------------------------------------------------------------------------------


@inlined
def _find_groups(row: I8, behind: I32, root: I32) -> None:
    """Set ``root`` of each stone to the lowest cell of its group, of each empty cell to itself."""
    for cell in range(behind.shape[0]):
        root[cell] = cell
        if row[cell] == 0:
            continue
        for k in range(behind.shape[1]):
            near = behind[cell, k]
            if near >= 0 and row[near] == row[cell]:
                _join(root, near, cell)
    for cell in range(behind.shape[0]):
        root[cell] = root[root[cell]]  # lower cells point at their roots already


@inlined
def _join(root: I32, one: int, other: int) -> None:
    while root[one] != one:
        root[one] = root[root[one]]
        one = root[one]
    while root[other] != other:
        root[other] = root[root[other]]
        other = root[other]
    root[max(one, other)] = min(one, other)


@inlined
def _weigh_groups(row: I8, root: I32, beacons: Bool, weight: I64) -> None:
    """Set ``weight`` of each root to what its group is worth, of all other cells to 0."""
    weight[:] = 0
    for cell in range(root.shape[0]):
        if row[cell]:
            weight[root[cell]] += SIZE * beacons[cell] + 1


@inlined
def _count_stones(row: I8, cells: int) -> int:
    stones = 0
    for cell in range(cells):
        stones += row[cell] != 0
    return stones


@inlined
def _seat(side: int, swapped: int) -> int:
    return side ^ swapped


# ---- the order of the players -----------------------------------------------------------------------------------


@inlined
def _collect(row: I8, weight: I64, held: I64, count: I64) -> None:
    """Write the weights of the groups of each side to a row of ``held``, their number to ``count``."""
    count[:] = 0
    for cell in range(weight.shape[0]):
        if weight[cell]:
            side = row[cell] - 1
            held[side, count[side]] = weight[cell]
            count[side] += 1


@inlined
def _bring_forward(groups: I64, at: int, count: int) -> None:
    """Swap the greatest of ``groups[at:count]`` into place ``at``: a selection sort that goes only as far as needed."""
    best = at
    for k in range(at + 1, count):
        if groups[k] > groups[best]:
            best = k
    groups[at], groups[best] = groups[best], groups[at]


@inlined
def _outranks(one: int, other: int, held: I64, count: I64) -> bool:
    """Whether side ``one`` ranks above the later side ``other``, which wins where all groups are equal."""
    for at in range(count[one]):
        if at >= count[other]:
            return True
        _bring_forward(held[one], at, count[one])
        _bring_forward(held[other], at, count[other])
        if held[one, at] != held[other, at]:
            return bool(held[one, at] > held[other, at])
    return False


@inlined
def _rank(held: I64, count: I64, swapped: int, ranking: I8) -> None:
    players = count.shape[0]
    ranking[:] = 0
    for one in range(players):
        for other in range(one + 1, players):
            beaten = other if _outranks(one, other, held, count) else one
            ranking[_seat(beaten, swapped)] += 1


@kernel(STATES, TABLE, CELLS, writes("int8", 2))
def rank(states: I8, behind: I32, beacons: Bool, ranking: I8) -> None:
    """Fill ``ranking``, ``(batch, players)``: the place of each seat by the stones on the board."""
    cells, players = behind.shape[0], ranking.shape[1]
    root, weight = np.empty(cells, np.int32), np.empty(cells, np.int64)
    held, count = np.empty((players, cells), np.int64), np.empty(players, np.int64)
    for b in range(states.shape[0]):
        _find_groups(states[b], behind, root)
        _weigh_groups(states[b], root, beacons, weight)
        _collect(states[b], weight, held, count)
        _rank(held, count, int(states[b, cells]), ranking[b])


# ---- moves ------------------------------------------------------------------------------------------------------


@inlined
def _may_swap(stones: int, swapped: int, players: int) -> bool:
    return players == 2 and stones == 1 and swapped == 0


@kernel(STATES, INT, writes("int64", 1))
def count_damage(states: I8, players: int, damage: I64) -> None:
    """Set ``damage[0]`` to the number of bytes that no position holds, by which other kernels would go astray."""
    cells = states.shape[1] - 1
    damage[0] = 0
    for b in range(states.shape[0]):
        wrong = 0
        for cell in range(cells):
            wrong += (states[b, cell] < 0) | (states[b, cell] > players)
        damage[0] += wrong + ((states[b, cells] & ~int(players == 2)) != 0)


@kernel(STATES, INT, writes("int8", 1))
def to_move(states: I8, players: int, seats: I8) -> None:
    """Fill ``seats``, ``(batch,)``: whose turn it is."""
    cells = states.shape[1] - 1
    for b in range(states.shape[0]):
        seats[b] = _seat(_count_stones(states[b], cells) % players, int(states[b, cells]))


@kernel(STATES, INT, writes("bool_", 2))
def legal(states: I8, players: int, actions: Bool) -> None:
    """Fill ``actions``, ``(batch, actions)``: the empty cells, and the swap where it is allowed."""
    cells = states.shape[1] - 1
    for b in range(states.shape[0]):
        for cell in range(cells):
            actions[b, cell] = states[b, cell] == 0
        if players == 2:
            actions[b, cells] = _may_swap(_count_stones(states[b], cells), int(states[b, cells]), players)


@kernel(STATES, reads("int32", 1), INT, writes("int8", 2))
def play(states: I8, actions: I32, players: int, after: I8) -> None:
    """Fill ``after``, the positions after one legal action each."""
    cells = states.shape[1] - 1
    for b in range(states.shape[0]):
        after[b] = states[b]
        if actions[b] == cells:
            after[b, cells] = 1
        else:
            after[b, actions[b]] = _count_stones(states[b], cells) % players + 1


@kernel(STATES, writes("bool_", 1))
def full(states: I8, over: Bool) -> None:
    """Fill ``over``, ``(batch,)``: whether no cell is empty."""
    cells = states.shape[1] - 1
    for b in range(states.shape[0]):
        over[b] = _count_stones(states[b], cells) == cells


# ---- random games -----------------------------------------------------------------------------------------------


@inlined
def _draw(state: U64, bound: int) -> int:
    """A number below ``bound``, uniform but for a bias below ``bound / 2^32`` (SplitMix64: Steele et al., 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    high = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
    return int((high * np.uint64(bound)) >> np.uint64(32))


@inlined
def _fill(row: I8, players: int, empty: I32, state: U64) -> None:
    """Play random legal actions until the board is full: the empty cells in random order, and perhaps the swap."""
    cells, left = empty.shape[0], 0
    for cell in range(cells):
        if row[cell] == 0:
            empty[left] = cell
            left += 1
    # Whoever may swap has `cells` actions, of which one is to swap; so has whoever may only after the next stone.
    stones = cells - left
    if players == 2 and stones <= 1 and row[cells] == 0 and _draw(state, cells) == 0:
        row[cells] = 1
    while stones < cells:
        at = _draw(state, cells - stones)
        row[empty[at]] = stones % players + 1
        stones += 1
        empty[at] = empty[cells - stones]


@kernel(STATES, reads("uint64", 1), TABLE, CELLS, writes("int8", 2))
def play_out(states: I8, seeds: U64, behind: I32, beacons: Bool, ranking: I8) -> None:
    """Fill ``ranking``, ``(batch, players)``: the places after a uniformly random game from each position."""
    cells, players = behind.shape[0], ranking.shape[1]
    row, empty, state = np.empty(cells + 1, np.int8), np.empty(cells, np.int32), np.empty(1, np.uint64)
    root, weight = np.empty(cells, np.int32), np.empty(cells, np.int64)
    held, count = np.empty((players, cells), np.int64), np.empty(players, np.int64)
    for b in range(states.shape[0]):
        row[:] = states[b]
        state[0] = seeds[b]
        _fill(row, players, empty, state)
        _find_groups(row, behind, root)
        _weigh_groups(row, root, beacons, weight)
        _collect(row, weight, held, count)
        _rank(held, count, int(row[cells]), ranking[b])


# ---- features ---------------------------------------------------------------------------------------------------


@inlined
def _joined(row: I8, cell: int, side: int, graph: I32, root: I32, groups: I32) -> int:
    """Write to ``groups`` the roots of the groups that a stone of ``side`` on ``cell`` would join; return how many."""
    found = 0
    for k in range(graph.shape[1]):
        near = graph[cell, k]
        if near < 0 or row[near] != side + 1:
            continue
        known = False
        for g in range(found):
            known |= groups[g] == root[near]
        if not known:
            groups[found] = root[near]
            found += 1
    return found


@inlined
def _best_groups(row: I8, weight: I64, best: I64) -> None:
    best[:] = 0
    for cell in range(weight.shape[0]):
        if weight[cell]:
            best[row[cell] - 1] = max(best[row[cell] - 1], weight[cell])


@inlined
def _write_pair(planes: F32, at: int, cell: int, weight: int, scale: F32) -> None:
    """Write the beacons and the size of a group to the two planes from ``at`` on."""
    planes[at, cell] = (weight // SIZE) * scale[0]
    planes[at + 1, cell] = (weight % SIZE) * scale[1]


@inlined
def _describe_empty(
    row: I8, cell: int, stones: int, players: int, graph: I32, root: I32, beacons: Bool, weight: I64,
    groups: I32, scale: F32, planes: F32,
) -> None:  # fmt: skip
    """Write what group each side would have if it played on an empty cell, in turn order."""
    for turn in range(players):
        joint = SIZE * beacons[cell] + 1
        found = _joined(row, cell, (stones + turn) % players, graph, root, groups)
        for g in range(found):
            joint += weight[groups[g]]
        _write_pair(planes, players + 4 + 2 * turn, cell, joint, scale)


@inlined
def _describe_whole(stones: int, players: int, best: I64, may_swap: bool, scale: F32, planes: F32) -> None:
    """Write the planes that are the same in all cells."""
    for turn in range(players):
        top = best[(stones + turn) % players]
        planes[3 * players + 4 + 2 * turn] = (top // SIZE) * scale[0]
        planes[3 * players + 5 + 2 * turn] = (top % SIZE) * scale[1]
    planes[5 * players + 4] = np.float32(stones) / np.float32(planes.shape[1])
    planes[5 * players + 5] = 1.0 if may_swap else 0.0


@kernel(STATES, TABLE, TABLE, CELLS, INT, writes("float32", 3))
def encode(states: I8, graph: I32, behind: I32, beacons: Bool, players: int, planes: F32) -> None:
    """Fill ``planes``, ``(batch, 5 * players + 6, cells)``, whose meaning ``Beacons.plane_names`` tells."""
    cells = graph.shape[0]
    root, weight = np.empty(cells, np.int32), np.empty(cells, np.int64)
    best, groups = np.empty(players, np.int64), np.empty(graph.shape[1], np.int32)
    scale = np.empty(2, np.float32)
    scale[0], scale[1] = 2.0 / beacons.sum(), 2.0 / cells
    for b in range(states.shape[0]):
        row, out = states[b], planes[b]
        stones = _count_stones(row, cells)
        _find_groups(row, behind, root)
        _weigh_groups(row, root, beacons, weight)
        _best_groups(row, weight, best)
        out[: 3 * players + 4] = 0.0
        for cell in range(cells):
            out[players + 1, cell] = beacons[cell]
            if row[cell]:
                turn = (row[cell] - 1 + players - stones % players) % players
                out[turn, cell] = 1.0
                _write_pair(out, players + 2, cell, weight[root[cell]], scale)
            else:
                out[players, cell] = 1.0
                _describe_empty(row, cell, stones, players, graph, root, beacons, weight, groups, scale, out)
        _describe_whole(stones, players, best, _may_swap(stones, int(row[cells]), players), scale, out)


# ---- the fast engine --------------------------------------------------------------------------------------------


@inlined
def _worth(weight: int, cells: int, players: int) -> float:
    """A group as a number whose sum over the groups grows most where the greatest grow: the order made a scalar."""
    beacons = weight // SIZE + (weight % SIZE) / (cells + 1.0)
    return beacons * beacons if players == 2 else beacons * beacons * beacons


@inlined
def _gain(joint: int, found: int, groups: I32, weight: I64, cells: int, players: int) -> float:
    """How much more the joined groups are worth than they were apart."""
    gain = 0.0
    for g in range(found):
        joint += weight[groups[g]]
        gain -= _worth(weight[groups[g]], cells, players)
    return gain + _worth(joint, cells, players)


@inlined
def _judge_cells(
    row: I8, stones: int, graph: I32, root: I32, weight: I64, beacons: Bool, nearness: F32, players: int, scores: F32
) -> None:
    """Score a stone on each empty cell: the own gain, what it denies another side, how close it is to beacons."""
    cells, groups = graph.shape[0], np.empty(graph.shape[1], np.int32)
    for cell in range(cells):
        scores[cell] = -np.inf
        if row[cell]:
            continue
        own, denied = 0.0, 0.0
        for turn in range(players):
            found = _joined(row, cell, (stones + turn) % players, graph, root, groups)
            gain = _gain(SIZE * beacons[cell] + 1, found, groups, weight, cells, players)
            if turn == 0:
                own = gain
            else:
                denied = max(denied, gain)
        scores[cell] = NATS * (own + DENIAL * denied + NEARNESS * nearness[cell])


@inlined
def _is_strong_start(cell: int, graph: I32, beacons: Bool) -> bool:
    """Whether the first stone wins on that cell more often than not, as a rule: on a beacon, or off the edge."""
    inside = True
    for k in range(graph.shape[1]):
        inside &= graph[cell, k] >= 0
    return beacons[cell] or inside


@inlined
def _judge_start(graph: I32, beacons: Bool, scores: F32) -> None:
    """Score the first stone of a game in which the sides may be swapped: it should be weak."""
    for cell in range(graph.shape[0]):
        scores[cell] = -START if _is_strong_start(cell, graph, beacons) else 0.0


@inlined
def _judge_swap(row: I8, graph: I32, beacons: Bool, scores: F32) -> float:
    """The score of taking the first stone: above all placements together if it is strong, else below the best."""
    strong, best, total = False, -np.inf, 0.0
    for cell in range(graph.shape[0]):
        best = max(best, scores[cell])
        strong |= row[cell] != 0 and _is_strong_start(cell, graph, beacons)
    if not strong:
        return float(best - START)
    for cell in range(graph.shape[0]):
        total += np.exp(scores[cell] - best)
    return float(best + np.log(total) + START)


@kernel(STATES, TABLE, TABLE, CELLS, reads("float32", 1), INT, writes("float32", 2))
def judge(states: I8, graph: I32, behind: I32, beacons: Bool, nearness: F32, players: int, scores: F32) -> None:
    """Fill ``scores``, ``(batch, actions)``: how good each action looks, in nats, ``-inf`` where it is illegal."""
    cells = graph.shape[0]
    root, weight = np.empty(cells, np.int32), np.empty(cells, np.int64)
    for b in range(states.shape[0]):
        row = states[b]
        stones = _count_stones(row, cells)
        _find_groups(row, behind, root)
        _weigh_groups(row, root, beacons, weight)
        _judge_cells(row, stones, graph, root, weight, beacons, nearness, players, scores[b])
        if players > 2:
            continue
        if stones == 0:
            _judge_start(graph, beacons, scores[b])
        swap = _may_swap(stones, int(row[cells]), players)
        scores[b, cells] = _judge_swap(row, graph, beacons, scores[b]) if swap else -np.inf
