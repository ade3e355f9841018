"""Questions with a planted item, made at random from a name and a number: the same each time."""

import math
import random
from dataclasses import dataclass, replace
from typing import Any

from hostler.workloads.sieve.generators import Generator, Output, generator
from hostler.workloads.sieve.judge import Survivor, judge
from hostler.workloads.sieve.methods.base import Method, Offer
from hostler.workloads.sieve.methods.gf2 import Gf2
from hostler.workloads.sieve.methods.halves import Halves
from hostler.workloads.sieve.methods.lanes import Lanes
from hostler.workloads.sieve.methods.lattice import Lattice
from hostler.workloads.sieve.methods.line import Line
from hostler.workloads.sieve.methods.low_bits import LowBits
from hostler.workloads.sieve.methods.twister import Twister
from hostler.workloads.sieve.methods.words import Words
from hostler.workloads.sieve.spec import Spec, log_chance, output_arguments, parse_output

from ..methods.asking import fits, planted

METHODS: tuple[Method, ...] = (Lanes(), Gf2(), LowBits(), Lattice(), Halves(), Line(), Twister(), Words())
TWISTERS = {"php-mt_rand", "python-random", "ruby-random", "numpy-randomstate", "php5-mt_rand"}
LEAST_ITEMS, MOST_ITEMS = 1 << 14, 1 << 22
SEARCH_S = 0.15
"""What an interval should cost by brute force, in CPU-seconds."""
MOST_S = 8.0
RARE = 1e-5
"""How many items are to survive by chance among those of the interval, at most."""
MOST_DRAWS, MOST_ALIKE = 4000, 200
FORETOLD = 40


@dataclass(frozen=True, slots=True)
class Planted:
    """A question, the item that answers it, and the interval around it that is searched."""

    label: str
    spec: Spec
    item: int
    start: int
    stop: int

    def told(self) -> str:
        """All there is to it, for the report of a failure."""
        return f"{self.label}: item {self.item} in [{self.start}, {self.stop}) of {self.spec}"


def planted_question(name: str, number: int) -> Planted:
    """The question of this number for this generator."""
    label = f"planted {name} {number}"
    source = random.Random(label)
    made_by = generator(name)
    if name in TWISTERS and number == 1:
        return _for_twister(label, made_by, source)
    pattern = source.choice(PATTERNS)
    several = pattern in ("plain", "skip") and source.random() < 0.4
    calls = tuple(random_output(made_by, source) for _ in range(source.randint(2, 4) if several else 1))
    # What a call leaves of a word for another sort of call is not known: such questions are refused.
    if all(call.odds < 2 for call in calls) or len({type(call).feed for call in calls}) > 1:
        calls = (_whole(made_by),)
    rest = _choices(pattern, made_by, source)
    seed = source.randrange(source.choice([made_by.seeds, min(made_by.seeds, 1 << 32)]))
    return _enough(label + " " + pattern, Spec(made_by, calls, (), **rest), seed, source)


def null_question(name: str, number: int, expected: float) -> Planted:
    """Draws by chance, and an interval in which about ``expected`` items survive them; the item says nothing."""
    label = f"null {name} {number}"
    source = random.Random(label)
    made_by = generator(name)
    while True:
        pattern = source.choice(["plain", "skip", "gap", "share"])
        output = random_output(made_by, source)
        blank = Spec(made_by, (output,), (), **_choices(pattern, made_by, source))
        # Values that never come are none of chance's; outputs of many picks are too large to fit by chance.
        if not 2 <= output.odds <= 2000 or output.odds != output.size or shows_low_bits(made_by, output):
            continue
        spec = _as_rare(blank, expected, source)
        if spec is not None:
            items = round(expected / math.exp(log_chance(spec)))
            start = source.randrange(spec.size - items + 1)
            return Planted(f"{label} {pattern}", spec, -1, start, start + items)


def shows_low_bits(made_by: Generator, output: Output) -> bool:
    """Whether the output may show bits that a few low bits of the state decide: many items then make the same draws."""
    modulus = made_by.parameters.get("modulus", 0) if made_by.parameters else 0
    if made_by.name.startswith("glibc-type0"):
        modulus = 1 << 31
    return bool(modulus) and modulus & (modulus - 1) == 0 and output.kind in ("mod", "bits")


def offers(spec: Spec) -> dict[str, Offer]:
    """What the methods that apply offer, by name."""
    given = ((method.name, method.offer(spec)) for method in METHODS)
    return {name: offer for name, offer in given if isinstance(offer, Offer)}


def e_value(spec: Spec, items: int, survivor: Survivor) -> float:
    """How many of so many items fit as many draws by chance."""
    fitting = survivor.fitting if spec.share < 1 else None
    return math.exp(min(700.0, math.log(items) + log_chance(spec, fitting)))


def alike(spec: Spec, one: int, other: int) -> bool:
    """Whether two items that survive go on alike: no draw tells one from the other."""
    first, second = judge(spec, one, FORETOLD), judge(spec, other, FORETOLD)
    return first is not None and second is not None and first.following == second.following


def undecided(asked: Planted) -> bool:
    """Whether the draws show low bits alone, of a state whose upper bits never reach them: most items go on alike."""
    other = (asked.item + asked.spec.size // 2) % asked.spec.size
    return alike(asked.spec, asked.item, other)


def random_output(made_by: Generator, source: random.Random) -> Output:
    """An output of some kind with some arguments."""
    kind = source.choice(list(made_by.outputs))
    names = output_arguments(made_by.outputs[kind])
    size = source.choice([source.randint(2, 2000), 1 << source.randint(1, 30), source.randint(2, 2**31 - 2)])
    if kind in ("shuffle", "perm", "bytes"):
        size = source.randint(2, 12)
    if kind in ("mod", "floor"):
        size = min(size, made_by.seeds >> 1, 1 << 14)
    given: dict[str, Any] = dict.fromkeys(names, size)
    if kind == "range":
        low = source.randint(-(2**20), 2**20)
        given = {"min": low, "max": low + min(size, 2**30) - 1}
    if kind == "bits":
        shift = source.randrange(made_by.engine.width)
        given = {"shift": shift, "bits": source.randint(1, made_by.engine.width - shift)}
    if kind == "getrandbits":
        given = {"k": source.randint(1, 100)}
    return parse_output(made_by, {"kind": kind, **given})


PATTERNS = (
    "plain", "plain", "skip", "skip", "far skip", "gap", "skip and gap", "missing", "share", "noise", "states", "ends",
)  # fmt: skip


def _choices(pattern: str, made_by: Generator, source: random.Random) -> dict[str, Any]:
    low, gap = source.randint(0, 40), source.randint(1, 3)
    far = source.randint(100, 1500)
    given: dict[str, dict[str, Any]] = {
        "plain": {},
        "skip": {"skip": (low, low + source.randint(0, 8))},
        "far skip": {"skip": (far, far + source.randint(0, 3))},
        "gap": {"gap": (gap, gap)},
        "skip and gap": {"skip": (low, low + 3), "gap": (0, gap)},
        "missing": {"skip": (low, low + 1), "missing": source.randint(1, 3)},
        "share": {"skip": (low, low + source.randint(0, 2)), "share": source.choice([0.5, 0.7, 0.9])},
        "noise": {"skip": (low, low), "share": 0.6, "rate": 0.85, "miss": 1e-4},
        "states": {"items": "states", "skip": (low, low + 2)},
        "ends": {"items": "ends", "gap": (0, source.randint(0, 2))},
    }
    if pattern in ("states", "ends") and not made_by.engine.states:
        return {}
    return given[pattern]


def _whole(made_by: Generator) -> Output:
    kind = next(kind for kind, of in made_by.outputs.items() if not output_arguments(of))
    return parse_output(made_by, {"kind": kind})


def _enough(label: str, blank: Spec, seed: int, source: random.Random) -> Planted:
    """The question with so many draws that chance finds nothing, at times with many more."""
    if blank.share < 1 and blank.calls[0].odds < 3:
        blank = replace(blank, share=0.9)
    # One draw says nothing of the gap between draws.
    many, count = source.choice([1, 1, 1.5, 4, 10]), 3 if blank.gap[0] < blank.gap[1] else 1
    while True:
        spec, item = _planted(blank, count, seed, source)
        items = _items(spec)
        if math.log(items) + log_chance(spec) < math.log(RARE) or count >= _most_draws(spec):
            break
        count += 1 + count // 4
    if many > 1:
        spec, item = _planted(blank, min(_most_draws(spec), math.ceil(many * count)), seed, source)
        items = _items(spec)
    start = max(0, min(item - source.randrange(items), spec.size - items))
    return Planted(label, spec, item, start, start + items)


def _most_draws(spec: Spec) -> int:
    """How many draws are worth trying: more do not tell items apart that agree in all bits which are ever seen."""
    return MOST_ALIKE if shows_low_bits(spec.generator, spec.calls[0]) else MOST_DRAWS


def _planted(blank: Spec, count: int, seed: int, source: random.Random) -> tuple[Spec, int]:
    wrong = (1 - blank.share) * 0.5 if blank.share < 1 else 0.0
    unknown = source.choice([0.0, 0.0, 0.2, 0.5])
    for _ in range(50):
        spec, item = planted(replace(blank, draws=(None,) * count), seed, source, unknown=unknown, wrong=wrong)
        # More mistakes than are asked for may befall a question: that one has no answer.
        if blank.share == 1 or fits(spec, item):
            break
    return spec, item


def _items(spec: Spec) -> int:
    offer = Lanes().offer(spec)
    rate = offer.items_per_s if isinstance(offer, Offer) else 0.0
    wanted = min(MOST_ITEMS, max(LEAST_ITEMS, int(SEARCH_S * rate)))
    return min(wanted, spec.size)


def _for_twister(label: str, made_by: Generator, source: random.Random) -> Planted:
    """Enough draws for MT19937's whole state."""
    kind = "random" if "random" in made_by.outputs else "float" if "float" in made_by.outputs else "exact"
    output = parse_output(made_by, {"kind": kind})
    low = source.randint(0, 5)
    blank = Spec(made_by, (output,), (None,) * 1600, (low, low + 2))
    spec, item = planted(blank, source.randrange(made_by.seeds), source, unknown=0.02)
    start = max(0, item - source.randrange(LEAST_ITEMS))
    return Planted(label + " twister", spec, item, start, start + LEAST_ITEMS)


def _as_rare(blank: Spec, expected: float, source: random.Random) -> Spec | None:
    """The question with draws by chance, so many that the items an interval may have leave ``expected``."""
    (output,) = blank.calls
    for count in range(1, 200):
        draws = tuple(output.lowest + source.randrange(output.size) for _ in range(count))
        spec = replace(blank, draws=draws)
        items = expected / math.exp(log_chance(spec))
        if items > _items(spec):
            return None
        if items >= LEAST_ITEMS / 4:
            return spec
    return None
