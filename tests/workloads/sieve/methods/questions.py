"""What the tests of methods share: questions with a planted item, and whether an item makes the draws, told plainly."""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from hostler.workloads.sieve.generators import generator
from hostler.workloads.sieve.generators.base import Output, stream
from hostler.workloads.sieve.methods.base import Method, Offer
from hostler.workloads.sieve.spec import ENDS, SEEDS, STATES, Spec, parse_output

Call = dict[str, Any]
LCG64 = "lcg:6364136223846793005,1442695040888963407,0x10000000000000000,33"
LCG128 = (
    "lcg:0x2360ED051FC65DA44385DF649FCCF645,0x5851F42D4C957F2D14057B7EF767814F,0x100000000000000000000000000000000,64"
)


def question(
    name: str,
    calls: Call | Sequence[Call],
    count: int,
    planted: int,
    *,
    at: tuple[int, int] = (0, 0),
    hide: Sequence[int] = (),
    **how: Any,
) -> Spec:
    """A question whose answer is the item ``planted`` with skip and gap ``at``; the draws ``hide`` are not told."""
    made_by = generator(name)
    outputs = tuple(parse_output(made_by, call) for call in ([calls] if isinstance(calls, dict) else calls))
    items = how.get("items", SEEDS)
    state = made_by.engine.seed(planted) if items != STATES else planted
    draws = list(islice(_draws(outputs, stream(made_by.engine, state), *at), count))
    told = tuple(None if i in hide else draw for i, draw in enumerate(draws))
    return Spec(made_by, outputs, told, **{"skip": (at[0], at[0]), "gap": (at[1], at[1]), **how})


def end(spec: Spec, seed: int, gap: int) -> int:
    """The state that made the last draw after ``seed``, for generators that throw nothing away."""
    words = sum(rule.words for rule in spec.calls[0].rules()) * len(spec.draws) * (gap + 1)
    state = spec.generator.engine.seed(seed)
    for _ in range(words):
        state = spec.generator.engine.step(state)
    return int(state)


def offered(method: Method, spec: Spec) -> Offer:
    """The method's offer, which must be one."""
    offer = method.offer(spec)
    assert isinstance(offer, Offer), offer
    assert offer.fixed_s >= 0
    assert offer.items_per_s > 0
    return offer


def found(method: Method, spec: Spec, start: int = 0, stop: int | None = None) -> list[int]:
    """What the method finds."""
    return offered(method, spec).make().find(start, spec.size if stop is None else stop)


def survives(spec: Spec, item: int) -> bool:
    """Whether an item makes enough of the draws in some alignment; items are seeds or states."""
    assert spec.items != ENDS
    state = spec.generator.engine.seed(item) if spec.items == SEEDS else item
    for skip, gap in spec.alignments():
        made = islice(_draws(spec.calls, stream(spec.generator.engine, state), skip, gap), len(spec.draws))
        if sum(a == b for a, b in zip(made, spec.draws, strict=True) if b is not None) >= spec.need:
            return True
    return False


def noise(spec: Spec, seed: int) -> Spec:
    """The question with draws by chance."""
    source = random.Random(seed)
    draws = [source.randrange(spec.call(i).size) + spec.call(i).lowest for i in range(len(spec.draws))]
    return Spec(spec.generator, spec.calls, tuple(draws), spec.skip, spec.gap, items=spec.items)


def _draws(calls: Sequence[Output], words: Iterator[int], skip: int, gap: int) -> Iterator[int]:
    for _ in range(skip):
        for call in calls:
            call.take(words)
    while True:
        for call in calls:
            for _ in range(gap):
                call.take(words)
            yield call.take(words)
