"""Questions for methods, and what the oracle answers item by item."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

from hostler.workloads.sieve.generators import Output, generator
from hostler.workloads.sieve.generators.base import Words, stream
from hostler.workloads.sieve.spec import Spec, parse_output

Kind = dict[str, Any]


def ask(name: str, calls: list[Kind] | Kind, draws: list[int | None], **rest: Any) -> Spec:
    """A question; ``calls`` is one kind of output or several, ``rest`` the other fields of a spec."""
    made_by = generator(name)
    outputs = tuple(parse_output(made_by, call) for call in (calls if isinstance(calls, list) else [calls]))
    return Spec(made_by, outputs, tuple(draws), **rest)


def outputs_after(spec: Spec, state: Any, number: int) -> list[int]:
    """The first outputs after a state."""
    words = spec.calls[0].feed(stream(spec.generator.engine, state))
    return [spec.calls[i % len(spec.calls)].take(words) for i in range(number)]


def window(spec: Spec) -> int:
    """How many outputs the draws may reach over."""
    rounds, per_draw = len(spec.calls), spec.gap[1] + 1 + spec.missing
    return spec.skip[1] * rounds + spec.gap[1] + len(spec.draws) * per_draw + 1


def fits(spec: Spec, item: int) -> bool:
    """Whether an item reproduces the draws, as the decision on searches says it."""
    if spec.items == "ends":
        return any(_fits_back(spec, item, gap) for gap in range(spec.gap[0], spec.gap[1] + 1))
    state = item if spec.items == "states" else spec.generator.engine.seed(item)
    made = outputs_after(spec, state, window(spec))
    if spec.missing:
        return any(_fits_with_missing(spec, made, skip, gap) for skip, gap in spec.alignments())
    return any(_fitting(spec, made[skip * len(spec.calls) + gap :: gap + 1]) for skip, gap in spec.alignments())


def planted(
    spec: Spec, seed: int, source: random.Random, *, unknown: float = 0.2, wrong: float = 0.0
) -> tuple[Spec, int]:
    """The question with draws that ``seed`` makes, in one of its alignments; and the item that answers it."""
    skip, gap = source.choice(list(spec.alignments()))
    engine = spec.generator.engine
    used = count()
    words = spec.calls[0].feed(_counted(stream(engine, engine.seed(seed)), used))
    for i in range(skip * len(spec.calls) + gap):
        spec.calls[i % len(spec.calls)].take(words)
    draws: list[int | None] = []
    for i in range(len(spec.draws)):
        for _ in range((gap if i else 0) + source.randint(0, spec.missing)):
            spec.calls[0].take(words)
        draws.append(spec.calls[i % len(spec.calls)].take(words))
    item = engine.seed(seed) if spec.items != "seeds" else seed
    if spec.items == "ends":
        item = next(islice(_states(engine, item), next(used), None))
    draws = [draw if source.random() >= wrong else _other(spec, i, source) for i, draw in enumerate(draws)]
    known = [draw if source.random() >= unknown else None for draw in draws]
    return replace(spec, draws=tuple(known if any(draw is not None for draw in known) else draws)), item


def _other(spec: Spec, i: int, source: random.Random) -> int:
    output: Output = spec.calls[i % len(spec.calls)]
    return source.randrange(output.lowest, output.lowest + output.size)


def _counted(words: Words, used: "count[int]") -> Iterator[int]:
    for word in words:
        next(used)
        yield word


def _states(engine: Any, state: Any) -> Iterator[Any]:
    while True:
        yield state
        state = engine.step(state)


def _fitting(spec: Spec, made: list[int]) -> bool:
    return sum(draw == output for draw, output in zip(spec.draws, made, strict=False) if draw is not None) >= spec.need


def _fits_with_missing(spec: Spec, made: list[int], skip: int, gap: int) -> bool:
    places = {skip + gap + more for more in range(spec.missing + 1)}
    for i, draw in enumerate(spec.draws):
        if i:
            places = {place + 1 + gap + more for place in places for more in range(spec.missing + 1)}
        places = {place for place in places if draw is None or made[place] == draw}
    return bool(places)


def _fits_back(spec: Spec, end: int, gap: int) -> bool:
    """Only for outputs that take the same number of words each time."""
    engine, number = spec.generator.engine, (len(spec.draws) - 1) * (gap + 1) + 1
    per_output = sum(rule.words for rule in spec.calls[0].rules())
    state: Any = end
    for _ in range(number * per_output):
        assert engine.back is not None
        state = engine.back(state)
    return _fitting(spec, outputs_after(spec, state, number)[:: gap + 1])
