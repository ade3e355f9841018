"""What a generator is to the sieve: a stream of 32-bit words per seed, and kinds of output made from words.

Every output kind says two things that must agree, and that the tests compare: ``take`` produces the next output
the way the runtime does it (the oracle), and ``rule`` says how a wanted output restricts the words (the kernels).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from hostler.workloads.sieve.errors import SpecError

Words = Iterator[int]
WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class Rule:
    """How one output is made of 32-bit words.

    An output takes ``len(shifts)`` words. Word ``w`` counts as ``v = w >> shift``; if ``v > limit`` the runtime throws
    the word away and draws again (only outputs of one word do that). The word fits the target ``t`` when
    ``v % modulus == t``; with ``modulus`` 2^32 that is ``v == t``.
    """

    shifts: tuple[int, ...] = (0,)
    modulus: int = WORD
    limit: int = WORD - 1

    @property
    def rejects(self) -> bool:
        """Whether some word makes the runtime draw again."""
        return self.limit < (WORD - 1) >> self.shifts[0]


class Output(ABC):
    """One kind of output with its arguments; subclasses are frozen dataclasses whose fields are all integers."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def lowest(self) -> int:
        """The smallest value this output can take."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many values it can take; they follow each other from ``lowest`` and are equally likely."""

    @abstractmethod
    def take(self, words: Words) -> int:
        """The next output, step by step as the runtime computes it."""

    @abstractmethod
    def rule(self) -> Rule:
        """How this output restricts the words."""

    def targets(self, draw: int) -> tuple[int, ...]:
        """The target of each word of :meth:`rule` for this draw."""
        return (draw - self.lowest,)

    def read(self, draw: object) -> int:
        """A draw as it stands in JSON, checked; raises :class:`SpecError`."""
        if type(draw) is not int:
            raise SpecError(f"{draw!r} is no integer; write null for an unknown output")
        if not self.lowest <= draw < self.lowest + self.size:
            raise SpecError(f"{draw} lies outside {self.lowest}..{self.lowest + self.size - 1}")
        return draw


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator: its ``name``, the seeds ``0..seeds-1`` it takes, its words, and its outputs by kind."""

    name: str
    title: str
    seeds: int
    words: Callable[[int], Words]
    outputs: Mapping[str, type[Output]]


def by_kind(*outputs: type[Output]) -> dict[str, type[Output]]:
    """Output classes by their ``kind``."""
    return {output.kind: output for output in outputs}


def need(holds: bool, message: str) -> None:
    """Raise :class:`SpecError` with ``message`` unless it holds."""
    if not holds:
        raise SpecError(message)


def oracle(generator: Generator, output: Output, seed: int, *, skip: int = 0) -> Iterator[int]:
    """The outputs of ``seed`` after the first ``skip``, without end; slow and plain."""
    words = generator.words(seed)
    return islice(iter(lambda: output.take(words), None), skip, None)
