"""Define the graph that is written: `Graph` makes nodes (`g.Relu(x)`), and a `Value` is one of its tensors and computes
like a number.

Functions that translate an op (`_ops/`) see tensors as `Value`s, sizes as ints or, where they vary, as `Value`s of one int64
(shape (1,)), and everything else as Python has it. Constants are given as Python numbers, lists or arrays, and take the dtype
of the first tensor beside them.
"""

import numpy as np

from . import _protobuf as pb

_BOOLEAN = frozenset("Equal Less Greater LessOrEqual GreaterOrEqual And Or Not Xor IsNaN IsInf".split())
_INDICES = frozenset("Shape Size NonZero ArgMax ArgMin".split())
_SAME_SHAPE = frozenset(
    """Abs Neg Exp Log Sqrt Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Tanh Erf Sigmoid Relu Floor Ceil Round Sign
    Reciprocal Not IsNaN IsInf Cast Clip Elu Selu Celu LeakyRelu Softplus Softsign HardSigmoid HardSwish Mish Gelu Identity
    Softmax LogSoftmax CumSum Trilu BitwiseNot Dropout RandomUniformLike RandomNormalLike Bernoulli
    ThresholdedRelu Shrink ScatterElements ScatterND""".split()
)
_BROADCAST = frozenset(
    """Add Sub Mul Div Pow Mod Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor Min Max
    Where BitShift PRelu""".split()
)
FLOATING = ("float32", "float64", "float16", "bfloat16")


def numpy_dtype(dtype):
    """Return the dtype of NumPy. Floats of 16 bits and less may have none there: constants of them are made from float32 by a
    Cast."""
    return np.dtype(dtype) if dtype in pb.DTYPES and not dtype.startswith(("bfloat", "float8")) else None


class Value:
    """Represent a tensor of the graph: name, dtype (a word) and shape (sizes that are ints, names, or None; None: rank
    not known).
    """

    __slots__ = ("graph", "name", "dtype", "shape", "array", "exact")

    def __init__(self, graph, name, dtype, shape, array=None):
        self.graph, self.name, self.dtype, self.shape, self.array = graph, name, dtype, shape, array
        self.exact = None  # the tensor of Python, of parameters and folded constants

    @property
    def rank(self):
        if self.shape is None:
            raise NotImplementedError(f"onnx.export: the rank of {self.name} is needed and not known")
        return len(self.shape)

    def is_floating(self):
        return self.dtype in FLOATING

    def _binary(self, op, other, swap=False):
        return getattr(self.graph.now(), op)(*((other, self) if swap else (self, other)))

    __add__ = lambda self, other: self._binary("Add", other)
    __radd__ = __add__
    __sub__ = lambda self, other: self._binary("Sub", other)
    __rsub__ = lambda self, other: self._binary("Sub", other, True)
    __mul__ = lambda self, other: self._binary("Mul", other)
    __rmul__ = __mul__
    __truediv__ = lambda self, other: self._binary("Div", other)
    __rtruediv__ = lambda self, other: self._binary("Div", other, True)
    __pow__ = lambda self, other: self._binary("Pow", other)
    __matmul__ = lambda self, other: self._binary("MatMul", other)
    __lt__ = lambda self, other: self._binary("Less", other)
    __gt__ = lambda self, other: self._binary("Greater", other)
    __le__ = lambda self, other: self._binary("LessOrEqual", other)
    __ge__ = lambda self, other: self._binary("GreaterOrEqual", other)
    __and__ = lambda self, other: self._binary("And", other)
    __or__ = lambda self, other: self._binary("Or", other)
    __invert__ = lambda self: self.graph.now().Not(self)
    __neg__ = lambda self: self.graph.now().Neg(self)

    def __bool__(self):
        raise NotImplementedError(f"onnx.export: a value of the program decides what is exported, got {self.name}")

    def __repr__(self):
        return f"Value({self.name}: {self.dtype}{list(self.shape) if self.shape is not None else '?'})"


def _broadcast(shapes):
    """Return the shape of broadcast operands; where a size cannot be told it is None."""
    if any(s is None for s in shapes):
        return None
    rank = max(map(len, shapes), default=0)
    result = []
    for column in zip(*([1] * (rank - len(s)) + list(s) for s in shapes)):
        others = [size for size in column if size != 1]
        known = [size for size in others if isinstance(size, int)]
        result.append(known[0] if known else others[0] if others and len(set(others)) == 1 else None if others else 1)
    return tuple(result)


class Graph:
    """Hold nodes and constants in the order in which they were made. `Op(...)` of any ONNX op appends a node.

    A graph within a node (a branch, the body of a loop) has a parent: it sees the values of those around it, and its constants
    are theirs.
    """

    def __init__(self, opset, parent=None):
        self.opset, self.parent = opset, parent
        self.nodes, self.names = [], parent.names if parent else set()
        self.initializers = parent.initializers if parent else {}  # name -> Value with `array` or `exact`
        self.inputs, self.outputs, self.values = [], [], []
        self.dtype = self.shape = None  # of the op that is translated now
        self.results = ()
        self.scope = ""
        self.domains = parent.domains if parent else {}
        self._metadata, self._counts = None, parent._counts if parent else {}
        self._constants = parent._constants if parent else {}
        self._open = parent._open if parent else [self]  # the graphs that are being made, the innermost last

    def now(self):
        """Return the graph to which nodes are appended now."""
        return self._open[-1]

    # graphs within nodes

    def within(self, make, inputs=()):
        """Return a graph for a node of this one: `make(graph, *values)` gives its outputs; inputs are (dtype, shape)."""
        inner = Graph(self.opset, self)
        inner._metadata = self._metadata
        inner.inputs = [Value(inner, inner.fresh("inner"), dtype, shape) for dtype, shape in inputs]
        self._open.append(inner)
        try:
            for result in make(inner, *inner.inputs):
                own = result.graph is inner and result not in inner.inputs and result not in inner.outputs
                inner.outputs.append(result if own and result.array is None else inner.Identity(result))
        finally:
            self._open.pop()
        prune(inner)
        return inner

    def loop(self, count, state, body):
        """Do `state = body(graph, i, *state)` for i from 0 to `count` (a number, or a size that varies); return the last
        values."""
        kinds = [("int64", ()), ("bool", ()), *((s.dtype, s.shape) for s in state)]
        inner = self.within(lambda g, i, on, *carried: [on, *body(g, i, *carried)], kinds)
        count = self.constant(count, "int64") if isinstance(count, int) else self.scalar(count)
        return self.with_graphs("Loop", (count, None, *state), inner.outputs[1:], body=inner)

    def with_graphs(self, op, inputs, like, **attributes):
        """Return a node with graphs as attributes; its results have the dtypes and shapes of others."""
        results = self.node(op, inputs, max(len(like), 1), attributes)
        results = [results] if len(like) == 1 else list(results)
        for result, other in zip(results, like):
            result.dtype, result.shape = other.dtype, other.shape
        return results

    # names

    def fresh(self, hint):
        name, count = hint, self._counts.get(hint, 0)
        while name in self.names:
            count += 1
            name = f"{hint}_{count}"
        self._counts[hint] = count
        self.names.add(name)
        return name

    # constants

    def constant(self, value, dtype=None, shape=None):
        """Return a constant of numbers, as a tensor of `dtype` (int64 or float32 as the numbers are)."""
        array = np.asarray(value)
        if dtype is None:
            dtype = {"b": "bool", "i": "int64", "f": "float32"}.get(array.dtype.kind, str(array.dtype))
        kept = numpy_dtype(dtype)
        if kept is None:
            return self.cast(self.constant(array, "float32", shape), dtype)
        array = np.ascontiguousarray(array.astype(kept, copy=False)).reshape(shape if shape is not None else array.shape)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            made = Value(self._open[0], self.fresh("constant"), dtype, array.shape, array)
            self.initializers[made.name] = made
            self._constants[key] = made
        return self._constants[key]

    def initializer(self, name, tensor, dtype, shape):
        """Return a parameter, a buffer or a constant of the program under its own name."""
        value = Value(self._open[0], self.fresh(name), dtype, tuple(shape))
        value.exact = tensor
        self.initializers[value.name] = value
        return value

    # nodes

    def __getattr__(self, op):
        if op.startswith("_") or not op[0].isupper():
            raise AttributeError(op)

        def make(*inputs, outputs=1, domain="", **attributes):
            return self.node(op, inputs, outputs, attributes, domain)

        return make

    def _given(self, inputs):
        first = next((v for v in inputs if isinstance(v, Value)), None)
        for value in inputs:
            if value is None or isinstance(value, Value):
                yield value
            elif isinstance(value, (bool, int, float)) and first is not None:
                yield self.constant(value, first.dtype)
            else:
                yield self.constant(value)

    def node(self, op, inputs, outputs=1, attributes=None, domain=""):
        inputs = list(self._given(inputs))
        attributes = {key: value for key, value in (attributes or {}).items() if value is not None}
        dtype, shape = self._inferred(op, inputs, attributes)
        results = [Value(self, self.fresh(f"{self.scope}{op}"), dtype, shape) for _ in range(outputs)]
        if op == "TopK" and outputs > 1:
            results[1].dtype = "int64"
        while inputs and inputs[-1] is None:
            inputs.pop()
        self.append(op, [v.name if v is not None else "" for v in inputs], [v.name for v in results], attributes, domain)
        return results[0] if outputs == 1 else tuple(results)

    def append(self, op, inputs, outputs, attributes, domain=""):
        if domain:
            self.domains.setdefault(domain, 1)
        self.nodes.append([op, inputs, outputs, attributes, domain, self._metadata])

    def _inferred(self, op, inputs, attributes):
        given = [v for v in inputs if v is not None]
        dtype = given[0].dtype if given else "float32"
        if op in _BOOLEAN:
            dtype = "bool"
        elif op in _INDICES:
            dtype = "int64"
        elif op == "Cast":
            dtype = next(name for name, number in pb.DTYPES.items() if number == attributes["to"])
        elif op == "Where":
            dtype = given[1].dtype
        elif op == "OneHot":
            dtype = given[2].dtype
        shape = None
        if op in _SAME_SHAPE:
            shape = given[0].shape
        elif op in _BROADCAST:
            shape = _broadcast([v.shape for v in given])
        elif op == "Shape":
            shape = (len(given[0].shape),) if given[0].shape is not None else None
        elif op == "Transpose" and given[0].shape is not None:
            shape = tuple(given[0].shape[p] for p in attributes["perm"])
        elif op == "Unsqueeze" and given[0].shape is not None and given[1].array is not None:
            rank = given[0].rank + given[1].array.size
            at = {int(a) % rank for a in given[1].array.ravel()}
            rest = iter(given[0].shape)
            shape = tuple(1 if i in at else next(rest) for i in range(rank))
        elif op == "Squeeze" and given[0].shape is not None and len(given) > 1 and given[1].array is not None:
            at = {int(a) % given[0].rank for a in given[1].array.ravel()}
            shape = tuple(s for i, s in enumerate(given[0].shape) if i not in at)
        elif op in ("Reshape", "Expand") and given[1].shape is not None and isinstance(given[1].shape[0], int):
            shape = self._reshaped(op, given)
        elif op == "Range" or op == "NonZero":
            shape = (None,) if op == "Range" else (given[0].rank, None)
        elif op == "MatMul":
            shape = _product_shape(given[0].shape, given[1].shape)
        return dtype, shape

    @staticmethod
    def _reshaped(op, given):
        wanted = given[1].array
        if wanted is None:
            return (None,) * given[1].shape[0]
        sizes = [int(s) for s in wanted]
        if op == "Expand":
            return _broadcast([given[0].shape, tuple(sizes)])
        if -1 in sizes:
            known = given[0].shape is not None and all(isinstance(s, int) for s in given[0].shape)
            rest = int(np.prod([s for s in sizes if s != -1], dtype=np.int64))
            there = int(np.prod(given[0].shape, dtype=np.int64)) if known else 0
            sizes[sizes.index(-1)] = there // rest if known and rest else None
        return tuple(sizes)

    def op(self, name, *inputs, outputs=1, **attributes):
        """Return a node by its name, as translations for the older exporter make it: `g.op("domain::Name", x, alpha_f=0.5)`."""
        domain, _, word = name.rpartition("::")
        if (domain, word) == ("", "Constant") and set(attributes) == {"value_t"}:
            return self.constant(attributes["value_t"])
        plain = {}
        for key, value in attributes.items():
            key, _, kind = key.rpartition("_")
            plain[key] = {"f": float, "i": int, "s": str}[kind](value) if not isinstance(value, (list, tuple)) else list(value)
        return self.node(word, inputs, outputs, plain, domain)

    # what translations share

    def cast(self, value, dtype):
        if value.dtype == dtype:
            return value
        if value.array is not None and numpy_dtype(dtype) is not None:
            return self.constant(value.array, dtype)
        return self.Cast(value, to=pb.DTYPES[dtype])

    def tensor(self, value, dtype=None):
        """Return a number or a tensor as a tensor of `dtype`."""
        if not isinstance(value, Value):
            return self.constant(value, dtype)
        return self.cast(value, dtype) if dtype else value

    def size(self, value, dim):
        """Return the size of a dimension: an int, or a Value of shape (1,) where it varies."""
        size = value.shape[dim] if value.shape is not None else None
        if isinstance(size, int):
            return size
        dim = dim % value.rank if value.shape is not None else dim
        result = self.Shape(value, start=dim, end=dim + 1)
        result.shape = (1,)
        return result

    def sizes(self, items):
        """Return a list of ints and sizes that vary as one int64 tensor."""
        if isinstance(items, Value):
            return self.cast(items, "int64")
        if all(isinstance(i, int) for i in items):
            return self.constant(np.asarray(list(items), dtype=np.int64))
        parts = [self.constant([i]) if isinstance(i, int) else self.reshape(self.cast(i, "int64"), [1]) for i in items]
        result = self.Concat(*parts, axis=0)
        result.shape = (len(parts),)
        return result

    def shape_of(self, value):
        """Return all sizes of a tensor, to be given to `reshape` and `expand`."""
        return [self.size(value, d) for d in range(value.rank)]

    def numel(self, value):
        if all(isinstance(s, int) for s in value.shape):
            return int(np.prod(value.shape, dtype=np.int64))
        return self.reshape(self.Size(value), [1])

    def reshape(self, value, sizes):
        sizes = list(sizes)
        zero = 1 if any(isinstance(s, int) and s == 0 for s in sizes) else None
        if value.shape == tuple(sizes) and all(isinstance(s, int) for s in sizes):
            return value
        result = self.Reshape(value, self.sizes(sizes), allowzero=zero)
        if result.shape is None or None in result.shape:
            inferred = result.shape or (None,) * len(sizes)
            result.shape = tuple(s if isinstance(s, int) and s >= 0 else i for s, i in zip(sizes, inferred))
        return result

    def scalar(self, value):
        """Return a size that varies, or a tensor of one element, without dimensions."""
        if not isinstance(value, Value) or value.shape == ():
            return value
        return self.reshape(value, [])

    def expand(self, value, sizes):
        sizes = list(sizes)
        result = self.Expand(value, self.sizes(sizes))
        inferred = result.shape or (None,) * len(sizes)
        result.shape = tuple(s if isinstance(s, int) and s > 1 else i for s, i in zip(sizes, inferred))
        return result

    def unsqueeze(self, value, *dims):
        return self.Unsqueeze(value, self.constant(list(dims))) if dims else value

    def squeeze(self, value, *dims):
        return self.Squeeze(value, self.constant(list(dims))) if dims else value

    def transpose(self, value, a, b):
        order = list(range(value.rank))
        order[a], order[b] = order[b], order[a]
        return self.permute(value, order)

    def permute(self, value, order):
        order = [int(o) % value.rank for o in order]
        return value if order == list(range(value.rank)) else self.Transpose(value, perm=order)

    def cut(self, value, dim, start, end, step=1):
        """Return `value[start:end:step]` along `dim`."""
        dim = dim % value.rank
        one = lambda item: self.sizes([item])
        result = self.Slice(value, one(start), one(end), self.constant([dim]), one(step) if step != 1 else None)
        size = value.shape[dim]
        if all(isinstance(i, int) for i in (start, end, size)):
            size = len(range(*slice(start, end if end > -(2**62) else None, step).indices(size)))
        elif not (start == 0 and end == 2**63 - 1 and step == 1):
            size = None
        result.shape = (*value.shape[:dim], size, *value.shape[dim + 1 :])
        return result

    def take(self, value, index, dim):
        """Return `value[index]` along `dim`: an int drops the dimension, a list or a tensor of indices stays in its place."""
        dim = dim % value.rank
        index = index if isinstance(index, Value) else self.constant(np.asarray(index, dtype=np.int64))
        result = self.Gather(value, index, axis=dim)
        if index.shape is not None:
            result.shape = (*value.shape[:dim], *index.shape, *value.shape[dim + 1 :])
        return result

    def concat(self, values, dim):
        values = list(values)
        if len(values) == 1:
            return values[0]
        result = self.Concat(*values, axis=dim)
        if all(v.shape is not None for v in values):
            shape = list(values[0].shape)
            along = [v.shape[dim] for v in values]
            shape[dim] = sum(along) if all(isinstance(s, int) for s in along) else None
            result.shape = tuple(shape)
        return result

    def reduce(self, kind, value, dims=None, keepdim=False):
        """Return `Reduce<kind>`; its axes became an input in opset 18 (of sums in 13)."""
        dims = [dims] if isinstance(dims, int) else list(dims or range(value.rank))
        if not value.rank:
            dims = []
        dims = sorted(d % value.rank for d in dims)
        make = getattr(self, f"Reduce{kind}")
        if not dims:
            result = make(value, keepdims=1)
        elif kind == "Sum" or self.opset >= 18:
            result = make(value, self.constant(dims), keepdims=int(keepdim))
        else:
            result = make(value, axes=dims, keepdims=int(keepdim))
        result.shape = tuple(1 if d in dims else s for d, s in enumerate(value.shape) if keepdim or d not in dims)
        return result

    def where(self, condition, a, b):
        if not isinstance(a, Value) and isinstance(b, Value):
            a = self.constant(a, b.dtype)
        elif not isinstance(b, Value) and isinstance(a, Value):
            b = self.constant(b, a.dtype)
        return self.Where(condition, a, b)

    def clip(self, value, low=None, high=None):
        bound = lambda b: None if b is None else self.scalar(self.tensor(b, value.dtype))
        return self.Clip(value, bound(low), bound(high))

    def at(self, line):
        """Note that what follows comes from this line of the program."""
        self._metadata = line


def inner_graphs(node):
    """Return the graphs that a node has as attributes."""
    return [value for value in node[3].values() if isinstance(value, Graph)]


def prune(graph):
    """Leave the nodes that the outputs need; return the names of all values that they use."""
    needed, kept = {v.name for v in graph.outputs}, []
    for node in reversed(graph.nodes):
        if needed.intersection(node[2]):
            needed.update(node[1])
            for inner in inner_graphs(node):
                needed.update(prune(inner))
            kept.append(node)
    graph.nodes = kept[::-1]
    return needed


def rename(graph, old, new):
    """Give a value another name, wherever it is used."""
    for node in graph.nodes:
        for names in node[1:3]:
            names[:] = [new if n == old else n for n in names]
        for inner in inner_graphs(node):
            rename(inner, old, new)


def _product_shape(a, b):
    if a is None or b is None or not a or not b:
        return None
    if len(a) == 1 and len(b) == 1:
        return ()
    if len(b) == 1:
        return tuple(a[:-1])
    if len(a) == 1:
        return (*b[:-2], b[-1])
    return (*_broadcast([tuple(a[:-2]), tuple(b[:-2])]), a[-2], b[-1])
