"""Linear maps and systems over GF(2) with rows that are Python integers: bit ``i`` is coordinate ``i``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Vector = int


@dataclass(frozen=True, slots=True)
class Matrix:
    """A square matrix by its columns: what the map makes of each basis vector."""

    columns: tuple[Vector, ...]

    @classmethod
    def of(cls, size: int, function: Callable[[Vector], Vector]) -> "Matrix":
        """The matrix of a linear function of vectors of ``size`` bits."""
        return cls(tuple(function(1 << i) for i in range(size)))

    def __call__(self, vector: Vector) -> Vector:
        made = 0
        columns = self.columns
        while vector:
            low = vector & -vector
            made ^= columns[low.bit_length() - 1]
            vector ^= low
        return made

    def after(self, first: "Matrix") -> "Matrix":
        """First the other map, then this one."""
        return Matrix(tuple(map(self, first.columns)))

    def power(self, times: int) -> "Matrix":
        """This map so many times, 0 or more."""
        square, made = self, Matrix(tuple(1 << i for i in range(len(self.columns))))
        while times:
            if times & 1:
                made = square.after(made)
            times >>= 1
            square = square.after(square) if times else square
        return made


@dataclass
class System:
    """Linear equations in ``size`` unknowns, brought into echelon form as they are added.

    With ``traced``, each row remembers of which equations it is the sum, so that a contradiction can name them.
    """

    size: int
    traced: bool = False
    contradiction: tuple[int, ...] | None = None
    """Once there is no solution: the numbers of equations, in the order they came, whose sum is 0 = 1."""
    _count: int = 0
    _rows: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """How many unknowns the equations decide."""
        return len(self._rows)

    def add(self, coefficients: Vector, value: int) -> bool:
        """Add an equation; whether there still are solutions. Without solutions nothing more is taken in."""
        if self.contradiction is not None:
            return False
        row, trace = coefficients << 1 | value, 1 << self._count if self.traced else 0
        self._count += 1
        while row > 1:
            pivot = row.bit_length()
            if pivot not in self._rows:
                self._rows[pivot] = row, trace
                return True
            other, others = self._rows[pivot]
            row, trace = row ^ other, trace ^ others
        if row:
            self.contradiction = tuple(ones(trace))
        return not row

    def solution(self) -> tuple[Vector, list[Vector]]:
        """One solution, and a basis of what can be added to it."""
        free = [i for i in range(self.size) if i + 2 not in self._rows]
        return self._solve(0, 1), [self._solve(1 << i, 0) for i in free]

    def _solve(self, vector: Vector, constant: int) -> Vector:
        """``vector``, whose free coordinates are given, made complete."""
        for pivot in sorted(self._rows):
            row, _ = self._rows[pivot]
            others = row >> 1 & ~(1 << pivot - 2)
            if ((others & vector).bit_count() ^ row & constant) & 1:
                vector |= 1 << pivot - 2
        return vector


def inverse(columns: Sequence[Vector], size: int) -> tuple[list[Vector], list[Vector]]:
    """A map that takes what ``columns`` make, ``size`` bits, back to something they make it of; and their kernel.

    The map is told by its columns, the kernel by a basis. Of what the columns do not make it makes something else.
    """
    rows: dict[int, tuple[Vector, Vector]] = {}
    kernel = []
    for i, column in enumerate(columns):
        left, of = _reduced(rows, column, 1 << i)
        if left:
            rows[left.bit_length()] = left, of
        else:
            kernel.append(of)
    return [_reduced(rows, 1 << i, 0)[1] for i in range(size)], kernel


def _reduced(rows: Mapping[int, tuple[Vector, Vector]], vector: Vector, of: Vector) -> tuple[Vector, Vector]:
    """What is left of ``vector`` without the rows, by their highest bits, and what was made of it all in all."""
    for highest in sorted(rows, reverse=True):
        if vector >> highest - 1 & 1:
            row, made_of = rows[highest]
            vector, of = vector ^ row, of ^ made_of
    return vector, of


def ones(vector: Vector) -> Iterator[int]:
    """The coordinates that are 1, ascending."""
    while vector:
        low = vector & -vector
        yield low.bit_length() - 1
        vector ^= low
