"""The engines: their steps and the way back."""

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.generators import GENERATORS, generator
from hostler.workloads.sieve.generators.base import Engine, Structure, stream
from hostler.workloads.sieve.generators.go_rand import cooked

LCGS = ["lcg:25214903917,11,281474976710656,16", "lcg:16807,0,2147483647", "lcg:69069,1,4294967296,0"]
INVERTIBLE = [name for name in [*GENERATORS, *LCGS] if generator(name).engine.back is not None]


def test_nearly_every_step_can_be_undone() -> None:
    assert set(GENERATORS) - set(INVERTIBLE) == {"v8-random-2015"}
    assert generator("lcg:6,1,4096").engine.back is None


@pytest.mark.parametrize("name", INVERTIBLE)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_step_back_undoes_a_step(name: str, data: st.DataObject) -> None:
    made_by = generator(name)
    engine = made_by.engine
    assert engine.back is not None
    state = engine.seed(data.draw(st.integers(0, made_by.seeds - 1)))
    for _ in range(data.draw(st.integers(0, 80))):
        state = engine.step(state)
    assert engine.back(engine.step(state)) == state
    assert engine.step(engine.back(state)) == state


@pytest.mark.parametrize("name", ["php-mt_rand", "php5-mt_rand", "v8-random", "go-rand", "dotnet-random", "glibc-rand"])
def test_the_way_back_leads_to_the_first_state(name: str) -> None:
    engine = generator(name).engine
    assert engine.back is not None
    first = state = engine.seed(271828)
    for _ in range(1300):
        state = engine.step(state)
    for _ in range(1300):
        state = engine.back(state)
    assert state == first


@pytest.mark.parametrize("name", [*GENERATORS, *LCGS])
@given(seed=st.integers(0, 2**31 - 2))
@settings(max_examples=5, deadline=None)
def test_words_lie_within_their_width(name: str, seed: int) -> None:
    engine = generator(name).engine
    for _, word in zip(range(80), stream(engine, engine.seed(seed)), strict=False):
        assert 0 <= word < 1 << engine.width


@pytest.mark.parametrize("name", [n for n, g in GENERATORS.items() if g.parameters])
def test_constants_are_those_of_the_step(name: str) -> None:
    engine, constants = generator(name).engine, generator(name).parameters
    state = 123456789 % constants["modulus"]
    assert engine.step(state) == (constants["multiplier"] * state + constants["increment"]) % constants["modulus"]


@given(first=st.integers(0, 2**128 - 1), second=st.integers(0, 2**128 - 1))
def test_linear_steps_are_linear(first: int, second: int) -> None:
    for name in ("xorshift32", "xorshift64", "xorshift64star", "xorshift128"):
        made_by = generator(name)
        assert made_by.engine.structure is Structure.GF2
        a, b = first % made_by.seeds, second % made_by.seeds
        assert _xor(_made(made_by.engine, a), _made(made_by.engine, b)) == _made(made_by.engine, a ^ b)


def test_gos_table_is_gos() -> None:
    # The first, the second and the last entry of rngCooked in Go's rng.go.
    table = cooked()
    assert len(table) == 607
    assert [word - (1 << 64) if word >> 63 else word for word in (table[0], table[1], table[-1])] == [
        -4181792142133755926,
        -4576982950128230565,
        4152330101494654406,
    ]


def _made(engine: Engine, seed: int) -> tuple[int, ...]:
    state = engine.step(engine.seed(seed))
    return state if isinstance(state, tuple) else (state,)


def _xor(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a ^ b for a, b in zip(first, second, strict=True))
