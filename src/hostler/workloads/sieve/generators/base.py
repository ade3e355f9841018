"""What a generator is to the sieve: seeding, step, output word, and mappings from words to outputs.

An :class:`Engine` holds the first three: plain functions on states that are plain values (integers, tuples of
integers). An :class:`Output` is a mapping. It says two things that must agree, and that the tests compare: ``take``
produces the next output the way the runtime does it (the oracle), and ``rules`` with ``wants`` say how a wanted
output restricts the words (:mod:`rules`), which is what kernels and algebra build on.

States are typed ``Any`` here because each engine has its own; its file says what they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from types import MappingProxyType
from typing import Any, ClassVar

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators.rules import Rule, Want, Words, exactly

WORD = 1 << 32
TEXT = "text:"
ANY = 1 << 4096
"""More than any seed that somebody would write down, where a runtime takes integers of any size."""

__all__ = [
    "ANY", "TEXT", "WORD", "Engine", "Generator", "Output", "Picked", "Rule", "Structure", "Want", "Words", "by_kind",
    "need", "oracle", "signed", "stream",
]  # fmt: skip


class Structure(Enum):
    """What algebra there is to a step, as far as the words show it."""

    POWER_OF_TWO_LCG = "linear congruential, modulus 2^k"
    LCG = "linear congruential"
    GF2 = "linear over GF(2)"
    ADDITIVE = "additive (lagged)"
    COUNTER = "a counter, mixed"
    OTHER = "none in use"


@dataclass(frozen=True, slots=True)
class Engine:
    """The part of a generator below its outputs.

    ``seed`` makes the state that stands before the first word; ``word`` is the word of a state, below ``2^width``. The
    words of a seed are those of the states after 1, 2, 3 ... steps; with ``early``, after 0, 1, 2 ... steps, as
    in generators that compute their output before they step. ``back(step(state)) == state``; ``None`` where a step
    cannot be undone. ``states`` is how many states there are where each is one integer, from 0; otherwise 0.
    """

    width: int
    seed: Callable[[int], Any]
    step: Callable[[Any], Any]
    word: Callable[[Any], int]
    back: Callable[[Any], Any] | None
    structure: Structure = Structure.OTHER
    early: bool = False
    states: int = 0


@dataclass(frozen=True)
class Output(ABC):
    """One kind of output with its arguments; those of subclasses are their fields, all of them integers."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def lowest(self) -> int:
        """The smallest value this output can take."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many values it can take; they follow each other from ``lowest`` and are equally likely, or nearly."""

    @property
    def odds(self) -> int:
        """How many equally likely values chance has to choose from: ``size``, or fewer where some never come."""
        return self.size

    @abstractmethod
    def take(self, words: Words) -> int:
        """The next output, step by step as the runtime computes it."""

    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """The picks that an output is made of, in the order they are drawn; of the words that :meth:`feed` gives."""

    @abstractmethod
    def wants(self, draw: int) -> tuple[Want, ...]:
        """What each pick of :meth:`rules` must be for this draw."""

    def feed(self, words: Words) -> Words:
        """The words that outputs are made of, from the engine's; other ones where the runtime splits words."""
        return words

    def read(self, draw: object) -> int:
        """A draw as it stands in JSON, checked; raises :class:`SpecError`."""
        if type(draw) is not int:
            raise SpecError(f"{draw!r} is no integer; write null for an unknown output")
        if not self.lowest <= draw < self.lowest + self.size:
            raise SpecError(f"{draw} lies outside {self.lowest}..{self.lowest + self.size - 1}")
        return draw

    def show(self, draw: int) -> object:
        """A draw as a person writes it; :meth:`read` takes it back."""
        return draw


class Picked(Output):
    """An output of one pick, whose smallest value is 0 unless it says otherwise."""

    @property
    def lowest(self) -> int:
        return 0

    @abstractmethod
    def rule(self) -> Rule:
        """The pick."""

    def want(self, draw: int) -> Want:
        """What ``v`` must be for this draw: the draw itself unless a subclass says otherwise."""
        return exactly(draw - self.lowest)

    def rules(self) -> tuple[Rule, ...]:
        return (self.rule(),)

    def wants(self, draw: int) -> tuple[Want, ...]:
        return (self.want(draw),)


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator: its ``name``, the seeds ``0..seeds-1`` it takes, its engine, and its outputs by kind.

    ``reference`` names the source it follows: which file, which version, which function. ``aliases`` are other names
    for it. ``text_seed`` turns a seed that is a text into the integer that seeds alike, where the runtime takes texts.
    ``drawn`` are the lowest and the highest seed that can be drawn from where that is more than the ``0..seeds-1`` of
    a sweep; ``seed_notes`` says in a few words which of them are the same. ``parameters`` are the constants of a
    linear congruential generator.
    """

    name: str
    title: str
    seeds: int
    engine: Engine
    outputs: Mapping[str, type[Output]]
    reference: str = ""
    aliases: tuple[str, ...] = ()
    text_seed: Callable[[bytes], int] | None = None
    drawn: tuple[int, int] | None = None
    seed_notes: str = ""
    parameters: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def words(self, seed: int) -> Words:
        """The words of ``seed``, without end."""
        return stream(self.engine, self.engine.seed(seed))

    def read_seed(self, seed: object) -> int:
        """A seed to draw from, checked: an integer, or ``"text:..."``; raises :class:`SpecError`."""
        if isinstance(seed, str) and seed.startswith(TEXT):
            if self.text_seed is None:
                raise SpecError(f"seed: {self.name} takes no texts; give an integer")
            return self.text_seed(seed.removeprefix(TEXT).encode())
        if type(seed) is not int:
            raise SpecError(f"seed: {seed!r} is no integer")
        lowest, highest = self.drawn or (0, self.seeds - 1)
        need(lowest <= seed <= highest, f"seed: {seed} lies outside {lowest}..{highest}; the seed must lie within")
        return seed


def stream(engine: Engine, state: Any) -> Words:
    """The words that follow ``state``, without end."""
    while True:
        if engine.early:
            yield engine.word(state)
            state = engine.step(state)
        else:
            state = engine.step(state)
            yield engine.word(state)


def by_kind(*outputs: type[Output]) -> dict[str, type[Output]]:
    """Output classes by their ``kind``."""
    return {output.kind: output for output in outputs}


def need(holds: bool, message: str) -> None:
    """Raise :class:`SpecError` with ``message`` unless it holds."""
    if not holds:
        raise SpecError(message)


def signed(word: int, bits: int = 32) -> int:
    """The lower ``bits`` of ``word`` as a two's complement number."""
    word %= 1 << bits
    return word - (1 << bits) if word >> (bits - 1) else word


def oracle(generator: Generator, output: Output, seed: int, *, skip: int = 0) -> Iterator[int]:
    """The outputs of ``seed`` after the first ``skip``, without end; slow and plain."""
    words = output.feed(generator.words(seed))
    return islice(iter(lambda: output.take(words), None), skip, None)
