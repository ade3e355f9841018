"""How big is the next chunk? A share of what is left, by measured speed, of a length that its overhead is worth.

Weighted factoring (Flynn Hummel, Schonberg and Flynn, 1992; the weights are measured speeds): a round hands out most of
what is left, each device gets its part of that, so that all devices end together. No chunk is so long that a lost one
hurts, and none so short that starting it costs more than it brings. What is still uneven at the end is divided anew:
a device that has nothing to do gets a part of the chunk that would end last.
"""

from __future__ import annotations

from hostler.model.record import record

ALPHA = 0.3
"""Weight of the newest sample in the moving averages; one of a much longer chunk than any before weighs more."""
MAX_CORRECTION = 8.0
"""One sample moves an estimate by at most this factor: a hiccup must not make a giant or a dwarf."""
PROBE_SHARE = 1 / 4096
"""A device of unknown speed is given this share of the whole sweep."""
PROBE_MAX = 1 << 16
GROWTH = 8.0
"""A chunk is at most this many times longer than the longest its device has finished, while that was very short."""
SETTLED_S = 1.0
"""A chunk that lasted so long tells the speed well enough."""
USUAL_S = 10.0
"""How long a chunk lasts where starting one costs nothing to speak of: hits come early, others get their turn soon."""
LONGEST_S = 600.0
"""No chunk is made longer than this for its overhead's sake."""
OVERHEAD_SHARE = 1 / 200
"""The overhead that a chunk may have, as long as `LONGEST_S` allows."""
UNHEARD = 0.8
"""A worker of which no chunk has told its overhead gets chunks of so much of the silence it is allowed: it starts
slowly, or it tells nothing while it searches."""
TAIL_OVERHEADS = 10.0
"""Towards the end a chunk still lasts so many times as long as it costs to start."""
SHORTEST_S = 0.1
"""Towards the end chunks do not get shorter than this."""
TAIL = 1.5
"""A round hands out what is left, divided by this: two thirds of it."""
LEAD_S = 0.5
"""Work that a device has queued beyond the chunk at work, so that it never waits for the controller."""
LEAD_CHUNKS = 64
AHEAD_S = 2.0
"""A chunk that is at work is followed by the next one when it has so long to go: what is on a device is committed."""
SILENT_S = 15.0
"""A device that has told nothing of its chunk for so long has lost it, if another one has nothing else to do."""
LATE = 2.0
"""One that tells nothing at all is given so many times as long as its chunk should take."""
MARGIN_S = 1.0
"""What its owner has of a chunk for certain: word that the rest is another's takes its time."""
GAIN_S = 1.0
"""A chunk is not divided to end less than this earlier."""


@record
class Speed:
    """Measured speed of one device at one kernel, without overhead: items per second; the longest chunk finished."""

    per_s: float
    longest: int
    samples: int
    overhead_s: float | None = None
    """What a chunk costs beyond the searching; `None`: too short to be told, or never measured."""

    def seconds(self, items: int) -> float:
        """How long a chunk of so many items lasts."""
        return (self.overhead_s or 0.0) + items / self.per_s


@record
class Bounds:
    """What the owner of a sweep asked for; `target_s` is `None` where chunks may be as long as is good for them."""

    target_s: float | None
    floor: int
    ceiling: int | None
    silence_s: float = 30.0
    """A worker that says nothing for so long is replaced."""


def learn(speed: Speed | None, items: int, seconds: float, overhead_s: float | None = None) -> Speed:
    """The speed after one more chunk: `items` in `seconds`, of which so many were none of the searching's."""
    known = None if speed is None else speed.overhead_s
    overhead_s = known if overhead_s is None else _moved_overhead(known, min(max(overhead_s, 0.0), seconds))
    # Half of the time at least was searching: an overhead of another day must not make a device infinitely fast.
    sample = items / max(seconds - (overhead_s or 0.0), seconds / 2, 1e-6)
    if speed is None:
        return Speed(per_s=sample, longest=items, samples=1, overhead_s=overhead_s)
    bounded = min(max(sample, speed.per_s / MAX_CORRECTION), speed.per_s * MAX_CORRECTION)
    weight = max(ALPHA, 1 - speed.longest / items)
    if speed.overhead_s is None and items > speed.longest:
        weight = 1.0  # with an overhead in it, a shorter chunk tells less
    return Speed(
        per_s=(1 - weight) * speed.per_s + weight * bounded,
        longest=max(speed.longest, items),
        samples=speed.samples + 1,
        overhead_s=overhead_s,
    )


def length(bounds: Bounds, total: int, left: int, speed: Speed | None, fleet_per_s: float) -> int:
    """Items of the next chunk: at least 1, at most `left`.

    `total` is the size of the sweep, `left` what nobody has yet, `speed` that of the device asking (`None`: never
    measured), `fleet_per_s` the summed speed of all devices at work on the sweep.
    """
    if speed is None:
        return _bounded(bounds, _probe(total), left)
    wanted = _measured(bounds, left, speed, fleet_per_s)
    # What would be left is not worth a chunk of its own.
    return _bounded(bounds, left if left - wanted < speed.per_s * shortest_s(speed) / 2 else wanted, left)


def trial(bounds: Bounds, total: int, left: int, speed: Speed | None) -> int:
    """Items for a device whose last chunk came to nothing: as few as are worth it, until it has shown that it works."""
    wanted = _probe(total) if speed is None else int(speed.per_s * shortest_s(speed))
    return _bounded(bounds, wanted, left)


def longest_s(bounds: Bounds, speed: Speed) -> float:
    """How long a chunk should last at most: as its owner asked, or so long that its overhead is next to nothing."""
    if bounds.target_s is not None:
        return bounds.target_s
    if speed.overhead_s is None:
        return max(bounds.silence_s * UNHEARD, USUAL_S)
    return min(max(speed.overhead_s / OVERHEAD_SHARE, USUAL_S), LONGEST_S)


def shortest_s(speed: Speed) -> float:
    """How long a chunk should last at least, however little is left."""
    return max((speed.overhead_s or 0.0) * TAIL_OVERHEADS, SHORTEST_S)


def wants_more(queued: int, left_s: float | None) -> bool:
    """Whether a device that holds `queued` chunks, expected to last for `left_s` yet, should be given another.

    The next one comes shortly before it is needed, more of them only where chunks are so short that the round trip
    shows. A device whose speed is not known holds two: nobody can say when the first one ends.
    """
    if queued == 0:
        return True
    if left_s is None:
        return queued == 1
    return left_s < (AHEAD_S if queued == 1 else LEAD_S) and queued < LEAD_CHUNKS


def is_silent(quiet_s: float, speed: Speed | None, expected_s: float | None) -> bool:
    """Whether a device that has told nothing of its chunk for so long is to be taken for one that does nothing.

    `expected_s` is how long the chunk should take where nobody has reason to doubt the device: some workers never tell
    how far they are; `None` where there is a reason.
    """
    patience_s = SILENT_S + (0.0 if speed is None else speed.overhead_s or 0.0)
    return quiet_s > patience_s + (0.0 if expected_s is None else LATE * expected_s)


def relief(left_s: float, owner_per_s: float, helper: Speed) -> int:
    """Items that an idle device takes over from one that has work for `left_s`, so that both end together.

    0 where that would not end noticeably earlier.
    """
    overhead_s = helper.overhead_s or 0.0
    items = int((left_s - overhead_s) / (1 / owner_per_s + 1 / helper.per_s))
    if items / owner_per_s < max(GAIN_S, overhead_s / 4):
        return 0
    return items


def _moved_overhead(known: float | None, sample_s: float) -> float:
    if known is None:
        return sample_s
    bounded = min(sample_s, known * MAX_CORRECTION + SHORTEST_S)
    return (1 - ALPHA) * known + ALPHA * bounded


def _bounded(bounds: Bounds, wanted: int, left: int) -> int:
    wanted = max(wanted, bounds.floor)
    if bounds.ceiling is not None:
        wanted = min(wanted, bounds.ceiling)
    return max(1, min(wanted, left))


def _probe(total: int) -> int:
    return max(1, min(int(total * PROBE_SHARE), PROBE_MAX))


def _measured(bounds: Bounds, left: int, speed: Speed, fleet_per_s: float) -> int:
    share = speed.per_s / max(fleet_per_s, speed.per_s)
    by_tail = max(left * share / TAIL, speed.per_s * shortest_s(speed))
    by_target = speed.per_s * longest_s(bounds, speed)
    by_growth = speed.longest * GROWTH
    if speed.longest >= speed.per_s * SETTLED_S:
        by_growth = by_target
    if bounds.target_s is None and speed.overhead_s is None and speed.longest < speed.per_s * USUAL_S / 2:
        by_target = by_growth = speed.longest * GROWTH  # long enough, if need be, to tell what a chunk costs to start
    return int(min(by_target, by_growth, by_tail))
