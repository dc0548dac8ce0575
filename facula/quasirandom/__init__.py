"""Generate quasi-random points: Sobol sequences, which fill the unit cube more evenly than random points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

import facula

from ._sobol_numbers import table

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Generate the points of a Sobol sequence, one after another.

    Args:
        dimension: of the points, up to `SobolEngine.MAXDIM`.
        scramble: whether the points are scrambled, by an Owen scramble of bits.
        seed: of the scrambling. Default: a random one.

    Errors: ValueError for another number of dimensions.

    Example::

        >>> torch.quasirandom.SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201
    seed: int | None
    scramble: bool
    dimension: int

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not isinstance(dimension, int) or not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"SobolEngine: dimension must be in [1, {self.MAXDIM}], got {dimension}")
        self.seed, self.scramble, self.dimension = seed, bool(scramble), dimension
        self.sobolstate = facula.from_numpy(_directions(dimension, self.MAXBIT))
        self.shift = facula.zeros(dimension, dtype=facula.int64)
        if self.scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = facula.Generator()
            generator.manual_seed(self.seed)
        bits = facula.randint(2, (self.dimension, self.MAXBIT), generator=generator)
        self.shift: Tensor = (bits << facula.arange(self.MAXBIT)).sum(1)
        lower = facula.randint(2, (self.dimension, self.MAXBIT, self.MAXBIT), generator=generator).tril().numpy()
        self.sobolstate: Tensor = facula.from_numpy(_scrambled(self.sobolstate.numpy(), lower, self.MAXBIT))

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: facula.dtype | None = None) -> Tensor:
        """Return the next `n` points, one in each row.

        Args:
            n: how many.
            out: a tensor to write them into, which takes their shape.
            dtype: of the points. Default: the default dtype.
        """
        if not isinstance(n, int) or n < 0:
            raise ValueError(f"SobolEngine.draw: n must be a number of points, got {n}")
        dtype = facula.get_default_dtype() if dtype is None else dtype
        steps = self._steps(n)
        points = (facula.from_numpy(steps) / 2**self.MAXBIT).to(dtype) if n else facula.empty(0, self.dimension, dtype=dtype)
        if n and self.num_generated == 0:
            points = facula.cat([self._first_point.to(dtype), points[:-1]])
        self.num_generated += n
        if out is None:
            return points
        return out.resize_(points.shape).copy_(points)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: facula.dtype | None = None) -> Tensor:
        """Return the next 2**m points, one in each row, so that all that were drawn are a power of 2, which is what balances
        them.

        Args:
            m: the power.
            out: a tensor to write them into, which takes their shape.
            dtype: that of the points; None for the default dtype.

        Errors: ValueError where the number of all points drawn would not be a power of 2.

        >>> torch.quasirandom.SobolEngine(1).draw_base2(2)
        tensor([[0.0000],
                [0.5000],
                [0.7500],
                [0.2500]])
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "draw_base2: points balance only when their total is a power of two, got "
                f"{self.num_generated} drawn before and 2**{m} more, which is n={self.num_generated}+2**{m}={total}; "
                "draw() takes any number"
            )
        return self.draw(n, out=out, dtype=dtype)

    def fast_forward(self, n: int) -> Self:
        """Leave out points; give the engine.

        Args:
            n: how many, not negative.

        Errors: ValueError for another n.

        >>> torch.quasirandom.SobolEngine(1).fast_forward(2).draw(2)
        tensor([[0.7500],
                [0.2500]])
        """
        if not isinstance(n, int) or n < 0:
            raise ValueError(f"SobolEngine.fast_forward: n must be a number of points, got {n}")
        self._steps(n)
        self.num_generated += n
        return self

    def reset(self) -> Self:
        """Begin again with the first point; give the engine.

        >>> engine = torch.quasirandom.SobolEngine(1)
        >>> first = engine.draw(2)
        >>> torch.equal(engine.reset().draw(2), first)
        True
        """
        self.quasi = self.shift.clone()
        self.num_generated: int = 0
        return self

    def _steps(self, n):
        """Return the states after each of the next `n` points that are not the first; the last stays."""
        first = 1 if self.num_generated == 0 else 0
        count = n - first
        state, directions = self.quasi.numpy(), self.sobolstate.numpy()
        found = numpy.empty((n, self.dimension), numpy.int64)
        number = self.num_generated + first - 1
        if number + count >= 1 << self.MAXBIT:
            raise ValueError(f"SobolEngine: there are 2**{self.MAXBIT} points, got {self.num_generated} and {n} more")
        # Points are numbered by Gray codes, of which neighbors differ in one bit: each point is the one before, changed
        # by one direction.
        for i in range(max(count, 0)):
            bit = (~(number + i) & (number + i + 1)).bit_length() - 1  # the lowest that is not set
            state = state ^ directions[:, bit]
            found[i] = state
        self.quasi: Tensor = facula.from_numpy(state.copy())
        return found

    def __repr__(self) -> str:
        text = f"{type(self).__name__}(dimension={self.dimension}"
        if self.scramble:
            text += ", scramble=True"
        return f"{text}{'' if self.seed is None else f', seed={self.seed}'})"


def _directions(dimension, bits):
    """Return the numbers by which points change, for each dimension and bit."""
    found = numpy.empty((dimension, bits), numpy.int64)
    for row, (polynomial, initial) in enumerate(table(dimension)):
        degree = polynomial.bit_length() - 1
        numbers = [1] * bits if degree == 0 else initial[:bits]
        for j in range(len(numbers), bits):
            value = numbers[j - degree] ^ (numbers[j - degree] << degree)
            for k in range(1, degree):
                if polynomial >> (degree - k) & 1:
                    value ^= numbers[j - k] << k
            numbers.append(value)
        found[row] = [number << (bits - 1 - j) for j, number in enumerate(numbers)]
    return found


def _scrambled(directions, lower, bits):
    """Return the directions whose bits, from the highest, are sums of those above by a random matrix with ones on its
    diagonal."""
    lower = lower.copy()
    lower[:, numpy.arange(bits), numpy.arange(bits)] = 1
    high_first = directions[:, :, None] >> numpy.arange(bits - 1, -1, -1) & 1
    mixed = numpy.einsum("dij,dcj->dci", lower, high_first) & 1
    return (mixed << numpy.arange(bits - 1, -1, -1)).sum(2)
