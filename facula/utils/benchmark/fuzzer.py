"""Make random inputs: sizes, strides and contents that follow from parameters with distributions."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

import facula

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from facula import Tensor

__all__ = ["Fuzzer", "FuzzedParameter", "ParameterAlias", "FuzzedTensor"]

#: how many draws that break a rule are tried for one input
_ATTEMPTS = 1000


class ParameterAlias:
    """Refer to the value of another parameter among the values of a distribution.

    Args:
        alias_to: the name of that parameter.

    >>> torch.utils.benchmark.ParameterAlias("rows")
    ParameterAlias[alias_to: rows]
    """

    def __init__(self, alias_to: Any) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


def _loguniform(state, minval, maxval):
    value = int(2 ** state.uniform(math.log2(minval), math.log2(maxval)))
    return min(max(value, minval), maxval)


def _uniform(state, minval, maxval):
    if isinstance(minval, int):
        return int(state.randint(minval, maxval + 1))
    return state.uniform(minval, maxval)


class FuzzedParameter:
    """Draw a number, or another value, anew for each input.

    Args:
        name: what tensors and constraints call it.
        minval, maxval: the least and the largest value, for the two named distributions.
        distribution: "uniform", "loguniform", or a dict from values to their probabilities.
        strict: if True, a value stays while draws are repeated because a rule was broken.

    Errors: ValueError for distributions that do not exist, bounds that do not fit them, probabilities whose sum is not 1.

    >>> import numpy
    >>> torch.utils.benchmark.FuzzedParameter("rows", 1, 8, "uniform").sample(numpy.random.RandomState(0)) in range(1, 9)
    True
    """

    _DRAWN = {"loguniform": _loguniform, "uniform": _uniform}
    strict: bool

    def __init__(self, name: str, minval: float | None = None, maxval: float | None = None, distribution: Any = None,
                 strict: bool = False) -> None:  # fmt: skip
        self._name, self._minval, self._maxval, self.strict = name, minval, maxval, strict
        self._distribution = self._check_distribution(distribution)

    @property
    def name(self) -> str:
        """What tensors and constraints call it."""
        return self._name

    def _check_distribution(self, distribution):
        low, high = self._minval, self._maxval
        if isinstance(distribution, dict):
            if low is not None or high is not None:
                raise ValueError(f"FuzzedParameter: a distribution of values has no bounds, got {low} and {high}")
            if not distribution or min(distribution.values()) < 0 or abs(sum(distribution.values()) - 1) > 1e-6:
                raise ValueError(f"FuzzedParameter: probabilities must not be negative and add up to 1, got {distribution}")
        elif distribution not in self._DRAWN:
            raise ValueError(f"FuzzedParameter: distribution must be uniform, loguniform or a dict, got {distribution!r}")
        elif low is None or high is None or low > high or (distribution == "loguniform" and low <= 0):
            raise ValueError(f"FuzzedParameter: the {distribution} distribution needs bounds, got {low} and {high}")
        return distribution

    def sample(self, state: Any) -> Any:
        """Return a value, drawn with the generator `state` (a numpy RandomState)."""
        if not isinstance(self._distribution, dict):
            return self._DRAWN[self._distribution](state, self._minval, self._maxval)
        values, odds = list(self._distribution), np.array(list(self._distribution.values()), dtype=float)
        return values[int(state.choice(len(values), p=odds / odds.sum()))]


class FuzzedTensor:
    """Make a tensor whose size and layout in memory follow from parameters.

    Args:
        name: what it is called.
        size: for each dimension a number or the name of a parameter.
        steps: likewise, how far apart in memory the elements of a dimension are: the tensor is `base[::step]` of a larger one.
        probability_contiguous: how often the dimensions lie in memory in their order.
        min_elements, max_elements: inputs of other sizes are drawn again.
        max_allocation_bytes: likewise, for the larger tensor of `steps`.
        dim_parameter: the name of a parameter that says how many dimensions there are; missing ones have size 1.
        roll_parameter: taken and, as in PyTorch, without effect.
        dtype: of the elements; random numbers from [0, 1) for floating point ones, integers from [0, 127) otherwise.
        cuda: whether it is on the GPU.
        tensor_constructor: called with `size`, `dtype` and the parameters, in place of that.

    >>> tensor = torch.utils.benchmark.FuzzedTensor("x", size=("rows", 3), max_elements=10)
    >>> tensor.satisfies_constraints({"rows": 3}), tensor.satisfies_constraints({"rows": 4})
    (True, False)
    """

    def __init__(
        self,
        name: str,
        size: Sequence[int | str],
        steps: Any = None,
        probability_contiguous: float = 0.5,
        min_elements: Any = None,
        max_elements: Any = None,
        max_allocation_bytes: Any = None,
        dim_parameter: Any = None,
        roll_parameter: Any = None,
        dtype: facula.dtype = facula.float32,
        cuda: bool = False,
        tensor_constructor: Any = None,
    ) -> None:
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter, self._dtype, self._cuda = dim_parameter, dtype, cuda
        self._tensor_constructor = tensor_constructor

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Sequence[int], dtype: facula.dtype, **kwargs: Any) -> Tensor:
        """Return random elements, see `dtype` of the class; a constructor of one's own has the same arguments.

        Args:
            size: the shape.
            dtype: of the elements.
            kwargs: the parameters by their names; not used.

        >>> torch.utils.benchmark.FuzzedTensor.default_tensor_constructor((2, 3), torch.int64).shape
        torch.Size([2, 3])
        """
        if dtype.is_floating_point or dtype.is_complex:
            return facula.rand(size=size, dtype=dtype, device="cpu")
        return facula.randint(0, 2 if dtype is facula.bool else 127, size=size, device="cpu").to(dtype)

    def _get_size_and_steps(self, params):
        dim = int(params[self._dim_parameter]) if self._dim_parameter is not None else len(self._size)

        def resolved(values):
            numbers = []
            for value in list(values)[:dim]:
                value = params.get(value, value)
                if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
                    raise ValueError(f"FuzzedTensor: sizes and steps of {self._name!r} are numbers or names, got {value!r}")
                numbers.append(int(value))
            return tuple(numbers) + (1,) * (dim - len(numbers))

        size, steps = resolved(self._size), resolved(self._steps or ())
        return size, steps, tuple(length * step for length, step in zip(size, steps))

    def satisfies_constraints(self, params: Any) -> bool:
        """Return whether the number of elements and the bytes for these parameters are within the bounds.

        `params` are the values of the parameters by their names.
        """
        size, _, allocated = self._get_size_and_steps(params)
        bounds = (
            (math.prod(size), self._min_elements, self._max_elements),
            (math.prod(allocated) * self._dtype.itemsize, None, self._max_allocation_bytes),
        )
        return all((low is None or low <= value) and (high is None or value <= high) for value, low, high in bounds)

    def _make_tensor(self, params, state):
        size, steps, allocated = self._get_size_and_steps(params)
        make = self._tensor_constructor or self.default_tensor_constructor
        raw = make(size=allocated, dtype=self._dtype, **params)
        raw = raw.cuda() if self._cuda else raw
        dim = len(size)
        order = np.arange(dim)
        if state.rand() > self._probability_contiguous:
            while dim > 1 and np.all(order == np.arange(dim)):
                order = state.permutation(dim)
            # The shape stays, and the dimensions lie in another order in memory.
            raw = raw.permute(order.tolist()).contiguous().permute(np.argsort(order).tolist())
        tensor = raw[tuple(slice(0, length * step, step) for length, step in zip(size, steps))]
        properties = {
            "numel": tensor.numel(), "order": order, "steps": steps, "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }  # fmt: skip
        return tensor, properties


class Fuzzer:
    """Make sets of random tensors for measurements; the same seed gives the same sets.

    Args:
        parameters: `FuzzedParameter`s, or lists of them.
        tensors: `FuzzedTensor`s, or lists of them.
        constraints: functions of the dict of parameters that say whether a draw counts.
        seed: of the draws; default: one that is new each time.

    Errors: ValueError for parameters or tensors of one name, for aliases that lead nowhere, and where no draw in 1,000 counts.

    Example:
        >>> from facula.utils import benchmark
        >>> sizes = [benchmark.FuzzedParameter(name, 1, 8, "uniform") for name in ("rows", "columns")]
        >>> fuzzer = benchmark.Fuzzer(sizes, [benchmark.FuzzedTensor("x", size=("rows", "columns"))], seed=0)
        >>> [tensors["x"].dim() for tensors, properties, parameters in fuzzer.take(3)]
        [2, 2, 2]
    """

    def __init__(self, parameters: Iterable[FuzzedParameter | Iterable[FuzzedParameter]],
                 tensors: Iterable[FuzzedTensor | Iterable[FuzzedTensor]], constraints: Any = None,
                 seed: int | None = None) -> None:  # fmt: skip
        self._parameters = self._unpack(parameters, FuzzedParameter)
        self._tensors = self._unpack(tensors, FuzzedTensor)
        self._constraints = constraints or ()
        names = [p.name for p in (*self._parameters, *self._tensors)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"Fuzzer: names of parameters and tensors must differ, got {twice} more than once")
        self._seed = int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64)) if seed is None else seed
        self._rejections = self._attempts = 0

    @staticmethod
    def _unpack(values, kind):
        found = list(itertools.chain.from_iterable([each] if isinstance(each, kind) else each for each in values))
        for each in found:
            if not isinstance(each, kind):
                raise TypeError(f"Fuzzer: {kind.__name__}s are needed, got {type(each).__name__}")
        return found

    def take(self, n: int) -> Iterator[Any]:
        """Draw `n` times: (tensors by name, their properties by name, parameters by name) each time."""
        state = np.random.RandomState(self._seed)
        facula.manual_seed(state.randint(0, 2**63, dtype=np.int64).item())
        for _ in range(n):
            params = self._generate(state)
            made = {tensor.name: tensor._make_tensor(params, state) for tensor in self._tensors}
            yield {k: v[0] for k, v in made.items()}, {k: v[1] for k, v in made.items()}, params

    @property
    def rejection_rate(self) -> float:
        """Which part of the draws did not count."""
        return self._rejections / self._attempts if self._attempts else 0.0

    def _generate(self, state):
        kept = {}
        for _ in range(_ATTEMPTS):
            drawn = {p.name: kept[p.name] if p.name in kept else p.sample(state) for p in self._parameters}
            kept = {p.name: drawn[p.name] for p in self._parameters if p.strict}
            params = self._resolve_aliases(drawn)
            self._attempts += 1
            if all(rule(params) for rule in self._constraints) and all(
                tensor.satisfies_constraints(params) for tensor in self._tensors
            ):
                return params
            self._rejections += 1
        raise ValueError(f"Fuzzer: no parameters that keep all rules were found, got {_ATTEMPTS} draws that do not")

    @staticmethod
    def _resolve_aliases(params):
        resolved = dict(params)
        for name, value in params.items():
            seen = {name}
            while isinstance(value, ParameterAlias):
                if value.alias_to in seen or value.alias_to not in params:
                    raise ValueError(f"Fuzzer: an alias must lead to a parameter with a value, got {value!r} of {name!r}")
                seen.add(value.alias_to)
                value = params[value.alias_to]
            resolved[name] = value
        return resolved
