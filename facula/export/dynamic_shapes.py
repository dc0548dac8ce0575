"""Describe which sizes of the inputs may vary."""

from __future__ import annotations

import enum
import inspect
from typing import TYPE_CHECKING, Any

import facula
from facula.utils import _pytree

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AdditionalInputs", "Constraint", "Dim", "dims", "ShapesCollection"]


class _DimHintType(enum.Enum):
    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


class _DimHint:
    """Represent Dim.AUTO, Dim.STATIC or Dim.DYNAMIC, perhaps with a range: Dim.DYNAMIC(min=2)."""

    type: Any
    min: int | None
    max: int | None

    def __init__(self, type: Any, min: int | None = None, max: int | None = None) -> None:
        self.type, self.min, self.max = type, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> Any:
        return _DimHint(self.type, min, max)

    def __repr__(self) -> str:
        return f"DimHint({self.type.name})"


class Dim:
    """Name a size that varies; the same Dim in two places is the same size.

    Args:
        name: a Python identifier.
        min, max: between which it stays, both included.

    Adding whole numbers and multiplying by positive ones gives sizes that depend on it: `2 * batch + 1`.
    `Dim.AUTO` lets `export` say whether a size varies, `Dim.DYNAMIC` says that it does, `Dim.STATIC` that it does not.

    Errors: ValueError for a name that is no identifier, and where `max` is not above `min`.

    >>> Dim = torch.export.Dim
    >>> batch = Dim("batch", min=1, max=64)
    >>> batch, 2 * batch + 1
    (Dim('batch', min=1, max=64), 2*batch + 1)
    >>> program = torch.export.export(nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=({0: batch},))
    >>> program.module()(torch.ones(5, 3)).shape
    torch.Size([5, 3])
    """

    AUTO = _DimHint(_DimHintType.AUTO)
    STATIC = _DimHint(_DimHintType.STATIC)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    __name__: str
    min: int
    max: int | None

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"Dim: a name is an identifier, got {name!r}")
        low, high = 0 if min is None else min, max
        if high is not None and high <= low:
            raise ValueError(f"Dim: cannot be created with inconsistent min={low}, max={high}")
        self.__name__, self.min, self.max = name, low, high

    def __add__(self, other: int) -> Any:
        return _Derived(self, 1, _whole("+", other))

    def __sub__(self, other: int) -> Any:
        return _Derived(self, 1, -_whole("-", other))

    def __mul__(self, other: int) -> Any:
        return _Derived(self, _factor(other), 0)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


def _whole(symbol, value):
    if type(value) is not int:
        raise NotImplementedError(f"Dim: only integers can stand beside {symbol}, got {value!r}")
    return value


def _factor(value):
    if _whole("*", value) <= 0:
        raise NotImplementedError(f"Dim: a factor must be positive, got {value}")
    return value


class _Derived:
    """Represent a size that depends on another: ``factor * root + offset``, made by arithmetic with a Dim.

    Args:
        root: the Dim.
        factor: a positive integer.
        offset: an integer.

    >>> 2 * torch.export.Dim("batch") + 1
    2*batch + 1
    """

    root: Any
    factor: float
    offset: int

    def __init__(self, root: Any, factor: float, offset: int) -> None:
        self.root, self.factor, self.offset = root, factor, offset
        self.__name__ = f"{factor}*{root.__name__}" * (factor != 1) or root.__name__
        if offset:
            self.__name__ += f" + {offset}" if offset > 0 else f" - {-offset}"

    def __add__(self, other: int) -> Any:
        return _Derived(self.root, self.factor, self.offset + _whole("+", other))

    def __sub__(self, other: int) -> Any:
        return self + -_whole("-", other)

    def __mul__(self, other: int) -> Any:
        return _Derived(self.root, self.factor * _factor(other), self.offset * other)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: Any, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return a tuple with a Dim for each name, with the same range.

    Args:
        names: the names.
        min, max: between which they stay, both included.

    >>> torch.export.dims("batch", "length", min=1)
    (Dim('batch', min=1, max=None), Dim('length', min=1, max=None))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


Constraint = _Derived


class ShapesCollection:
    """Collect which sizes of which tensors vary, by the tensors themselves: ``shapes[x] = {0: Dim("b")}``.

    >>> shapes, x = torch.export.ShapesCollection(), torch.ones(2, 3)
    >>> shapes[x] = {0: torch.export.Dim("batch")}
    >>> len(shapes), shapes.dynamic_shapes(nn.ReLU(), (x,))
    (1, {'input': {0: Dim('batch', min=0, max=None)}})
    """

    def __init__(self):
        self._shapes = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, facula.Tensor):
            raise TypeError(f"ShapesCollection: expected a tensor, got {type(t).__name__}")
        self._shapes[id(t)] = shape

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: Any, kwargs: Any = None) -> dict[str, dict[str, None] | list[dict[Any, Any]]]:
        """Return the same as a structure like that of the arguments: {name of the argument: what was said of it, or None}.

        Args:
            m: the module, or a function.
            args, kwargs: the arguments.
        """
        return _pytree.tree_map(lambda leaf: self._shapes.get(id(leaf)), _bound(m, args, kwargs or {}))


class AdditionalInputs:
    """Hold further examples; sizes that differ between them vary.

    >>> more = torch.export.AdditionalInputs()
    >>> more.add((torch.ones(4, 3),))
    >>> more.dynamic_shapes(nn.ReLU(), (torch.ones(2, 3),))
    {'input': {0: DimHint(DYNAMIC)}}
    >>> program = torch.export.export(nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=more)
    >>> program.module()(torch.ones(7, 3)).shape
    torch.Size([7, 3])
    """

    def __init__(self):
        self._examples = []

    def add(self, args: Any, kwargs: Any = None) -> None:
        """Add one more example.

        Args:
            args, kwargs: the arguments of a call.
        """
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes(self, m: Any, args: Any, kwargs: Any = None) -> Any:
        """Return the sizes that differ between the examples as Dim.DYNAMIC: {name of the argument: {dimension: Dim.DYNAMIC} or
        None}.

        Args:
            m: the module, or a function.
            args, kwargs: the first example.
        """
        trees = [_bound(m, *example) for example in [(args, kwargs or {}), *self._examples]]

        def compare(*leaves):
            if not isinstance(leaves[0], facula.Tensor):
                return None
            return {d: Dim.DYNAMIC for d, n in enumerate(zip(*(t.shape for t in leaves))) if len(set(n)) > 1} or None

        return _pytree.tree_map(compare, *trees)


def _bound(function, args, kwargs):
    """Return the arguments by the names that the function gives them."""
    forward = function.forward if isinstance(function, facula.nn.Module) else function
    signature = forward if isinstance(forward, inspect.Signature) else inspect.signature(forward)
    return dict(signature.bind(*args, **kwargs).arguments)


class Sizes:
    """Find the symbols of a call's inputs.

    Args:
        module, args, kwargs: the call; of a module that is called, or its signature.
        shapes: `dynamic_shapes` as `export` takes it.
        static: names of symbols that were found to be constant.
        same: names of symbols that were found to be others.
    """

    static: frozenset[Any] | frozenset[str]
    same: dict[str, Any]

    def __init__(self, module: Any, args: Any, kwargs: Any,
                 shapes: Sequence[Sequence[tuple[Any, ...]] | dict[Any, Any] | None] | ShapesCollection | dict[str, Any],
                 static: frozenset[Any] | frozenset[str] = frozenset(), same: dict[str, Any] | None = None) -> None:
        self.symbols: dict[str, tuple[Any, ...]] = {}  # name -> (least, most, sample)
        self.automatic: set[str] = set()  # may become static
        self.hinted: set[str] = set()  # may be the same as others
        self.static, self.same = static, same or {}
        self.by_leaf: list[Any] = []  # for every leaf None, or a size or the text of an expression for each dimension
        if isinstance(shapes, (ShapesCollection, AdditionalInputs)):
            shapes = shapes.dynamic_shapes(module, args, kwargs)
        bound = _bound(module, args, kwargs)
        leaves = _pytree.tree_leaves((args, kwargs))
        if shapes is None:
            self.by_leaf = [None] * len(leaves)
            return
        if isinstance(shapes, (tuple, list)):
            shapes = dict(zip(bound, shapes, strict=True))
        unknown = set(shapes) - set(bound)
        if unknown and set(bound) == {"args"} | set(bound) & {"kwargs"}:
            shapes = {"args": shapes}
        elif unknown:
            raise ValueError(f"dynamic_shapes: names an input that there is not, got {sorted(unknown)}; inputs: {list(bound)}")
        self._by_id = {}
        for name, value in bound.items():
            self._walk(value, shapes.get(name), name)
        self.by_leaf: list[Any] = [self._by_id.get(id(leaf)) if isinstance(leaf, facula.Tensor) else None for leaf in leaves]

    def _walk(self, value, shape, path):
        if shape is None:
            return
        if isinstance(value, facula.Tensor):
            self._by_id[id(value)] = [self._size(value, d, self._spec(shape, d, path), path) for d in range(value.dim())]
        elif isinstance(value, dict):
            for key, item in value.items():
                self._walk(item, shape.get(key), f"{path}[{key!r}]")
        elif isinstance(value, (list, tuple)):
            for i, (item, part) in enumerate(zip(value, shape, strict=True)):
                self._walk(item, part, f"{path}[{i}]")

    @staticmethod
    def _spec(shape, d, path):
        if isinstance(shape, dict):
            return shape.get(d)
        if isinstance(shape, (tuple, list)):
            return shape[d] if d < len(shape) else None
        raise TypeError(f"dynamic_shapes: of the tensor {path} a dict or a sequence, got {type(shape).__name__}")

    def _size(self, tensor, d, spec, path):
        n = tensor.shape[d]
        if spec is None or (isinstance(spec, _DimHint) and spec.type == _DimHintType.STATIC):
            return n
        if isinstance(spec, int):
            if spec != n:
                raise ValueError(f"dynamic_shapes: dimension {d} of {path} is {n}, and stated to be {spec}")
            return n
        if isinstance(spec, _DimHint):
            name = f"{''.join(c if c.isalnum() else '_' for c in path)}_{d}"
            name = self.same.get(name, name)
            if name in self.static:
                return n
            self.hinted.add(name)
            if spec.type == _DimHintType.AUTO:
                self.automatic.add(name)
            return self._note(name, spec.min or 0, spec.max, n, path, d)
        if isinstance(spec, _Derived):
            root, rest = divmod(n - spec.offset, spec.factor)
            if rest:
                raise ValueError(f"dynamic_shapes: dimension {d} of {path} is {n}, which is not {spec}")
            self._note(spec.root.__name__, spec.root.min, spec.root.max, root, path, d)
            return f"{spec.factor}*{spec.root.__name__} + {spec.offset}"
        if isinstance(spec, Dim):
            return self._note(spec.__name__, spec.min, spec.max, n, path, d)
        raise TypeError(
            f"dynamic_shapes: expected a Dim, an int or None for dimension {d} of {path}, got {type(spec).__name__}"
        )

    def _note(self, name, least, most, sample, path, d):
        if not least <= sample <= (sample if most is None else most):
            raise ValueError(f"dynamic_shapes: dimension {d} of {path} is {sample}, outside of [{least}, {most}]")
        known = self.symbols.setdefault(name, (least, most, sample))
        if known[2] != sample:
            raise ValueError(f"dynamic_shapes: {name} is {known[2]} in one input and {sample} in dimension {d} of {path}")
        return name
