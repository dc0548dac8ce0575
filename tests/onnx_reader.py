"""Reads what facula.onnx writes, and computes with it in NumPy: enough of ONNX for the tests, written from its specification."""

import functools
import struct

import numpy as np

DTYPES = {1: "f4", 2: "u1", 3: "i1", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8"}


def fields(data):
    """(number, value) of a message; lengths are checked as they are read."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
            value -= (value >> 63) << 64
        elif kind == 5:
            (value,) = struct.unpack_from("<f", data, at)
            at += 4
        else:
            assert kind == 2, kind
            length = varint()
            value = bytes(data[at : at + length])
            assert len(value) == length
            at += length
        yield key >> 3, value


def grouped(data):
    found = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def integers(packed):
    return [v for _, v in fields(b"".join(b"\x08" + chunk for chunk in split_varints(packed)))]


def split_varints(packed):
    start = 0
    for i, byte in enumerate(packed):
        if byte < 128:
            yield packed[start : i + 1]
            start = i + 1


def tensor(data):
    f = grouped(data)
    sizes = integers(f.get(1, [b""])[0])
    raw = f.get(9, [b""])[0]
    return f[8][0].decode(), np.frombuffer(raw, DTYPES[f[2][0]]).reshape(sizes)


def attribute(data):
    f = grouped(data)
    kind = f[20][0]
    value = {
        1: lambda: f[2][0],
        2: lambda: f[3][0],
        3: lambda: f[4][0].decode(),
        5: lambda: Graph(f[6][0]),
        6: lambda: list(np.frombuffer(f[7][0], "<f4")),
        7: lambda: integers(f[8][0]) if 8 in f else [],
    }[kind]()
    return f[1][0].decode(), value


class Graph:
    """inputs and outputs {name: (dtype, sizes)}, nodes (op, inputs, outputs, attributes), initializers {name: array}."""

    def __init__(self, data):
        graph = grouped(data)
        self.initializers = dict(map(tensor, graph.get(5, [])))
        self.inputs, self.outputs = (dict(map(self._info, graph.get(n, []))) for n in (11, 12))
        self.nodes = [self._node(n) for n in graph.get(1, [])]

    @staticmethod
    def _info(data):
        f = grouped(data)
        kind = grouped(grouped(f[2][0])[1][0])
        sizes = [grouped(d) for d in grouped(kind[2][0]).get(1, [])] if 2 in kind else None
        return f[1][0].decode(), (DTYPES[kind[1][0]], [d[1][0] if 1 in d else d.get(2, [b""])[0].decode() for d in sizes])

    @staticmethod
    def _node(data):
        f = grouped(data)
        words = lambda n: [w.decode() for w in f.get(n, [])]
        return f[4][0].decode(), words(1), words(2), dict(map(attribute, f.get(5, [])))

    def ops(self):
        return [n[0] for n in self.nodes]

    def computed(self, values):
        """The outputs, of values by name: the inputs, and all that there is around the graph."""
        values = {**values, **self.initializers, "": None}
        for op, names, outputs, attributes in self.nodes:
            given = [values[n] for n in names]
            if op in CONTROL:
                result = CONTROL[op](values, *given, **attributes)
            else:
                result = OPS[op](*given, **attributes)
            results = result if isinstance(result, tuple) else (result,)
            values.update(zip(outputs, results))
        return [values[name] for name in self.outputs]


class Model(Graph):
    """The graph of a file."""

    def __init__(self, data):
        top = grouped(data)
        self.ir_version = top[1][0]
        self.opset = next(grouped(o)[2][0] for o in top[8] if not grouped(o).get(1, [b""])[0])
        super().__init__(top[7][0])

    def run(self, **inputs):
        assert set(inputs) == set(self.inputs)
        with np.errstate(all="ignore"):  # where both sides of a Where are computed
            return self.computed(inputs)


def _if(around, condition, then_branch, else_branch):
    return tuple((then_branch if condition else else_branch).computed(around))


def _loop(around, count, condition, *state, body):
    steps, on, state = 0, condition is None or bool(condition), list(state)
    while on and (count is None or steps < count):
        given = dict(zip(body.inputs, [np.asarray(steps), np.asarray(True), *state]))
        on, *state = body.computed({**around, **given})
        steps += 1
    return tuple(state)


def _scan(around, *given, body, num_scan_inputs):
    state, xs = list(given[: len(given) - num_scan_inputs]), given[len(given) - num_scan_inputs :]
    rows = []
    for step in zip(*xs):
        made = body.computed({**around, **dict(zip(body.inputs, [*state, *step]))})
        state = made[: len(state)]
        rows.append(made[len(state) :])
    return (*state, *map(np.stack, zip(*rows)))


CONTROL = {"If": _if, "Loop": _loop, "Scan": _scan}


def _reshape(x, shape, allowzero=0):
    return x.reshape([x.shape[i] if s == 0 and not allowzero else s for i, s in enumerate(shape.tolist())])


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _conv(x, w, b=None, kernel_shape=None, strides=None, pads=None, dilations=None, group=1):
    assert group == 1 and set(dilations) == {1}
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    h, k = ((x.shape[2 + i] - kernel_shape[i]) // strides[i] + 1 for i in (0, 1))
    out = np.zeros((x.shape[0], w.shape[0], h, k), x.dtype)
    for i in range(h):
        for j in range(k):
            part = x[:, :, i * strides[0] : i * strides[0] + kernel_shape[0], j * strides[1] : j * strides[1] + kernel_shape[1]]
            out[:, :, i, j] = np.tensordot(part, w, ([1, 2, 3], [1, 2, 3]))
    return out if b is None else out + b[None, :, None, None]


def _conv_transpose(x, w, b=None, kernel_shape=None, strides=None, pads=None, dilations=None, group=1, output_padding=None):
    """Of lines."""
    ((size, step), (kernel, gap)) = (x.shape[2], strides[0]), (kernel_shape[0], dilations[0])
    assert group == 1 and len(kernel_shape) == 1
    out = np.zeros((x.shape[0], w.shape[1], (size - 1) * step + gap * (kernel - 1) + 1), x.dtype)
    for k in range(kernel):
        out[:, :, k * gap : k * gap + (size - 1) * step + 1 : step] += np.einsum("ncs,cd->nds", x, w[:, :, k])
    out = out[:, :, pads[0] : out.shape[2] - pads[1]]
    return out if b is None else out + b[None, :, None]


def _batch_norm(x, scale, bias, mean, var, epsilon=1e-5):
    line = lambda v: v.reshape([-1] + [1] * (x.ndim - 2))
    return (x - line(mean)) / np.sqrt(line(var) + epsilon) * line(scale) + line(bias)


def _slice(x, starts, ends, axes=None, steps=None):
    index = [slice(None)] * x.ndim
    for i, axis in enumerate(axes.tolist() if axes is not None else range(len(starts))):
        index[axis] = slice(int(starts[i]), int(ends[i]), int(steps[i]) if steps is not None else 1)
    return x[tuple(index)]


_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter_elements(x, index, updates, axis=0, reduction=None):
    out = x.copy()
    places = [np.broadcast_to(line, index.shape) for line in np.ogrid[tuple(map(slice, index.shape))]]
    places[axis] = index
    if reduction:
        _REDUCTIONS[reduction].at(out, tuple(places), updates)
    else:
        out[tuple(places)] = updates
    return out


def _reduce(function):
    def compute(x, axes=None, keepdims=1):
        return np.asarray(function(x, axis=tuple(np.asarray(axes).tolist()) if axes is not None else None, keepdims=bool(keepdims)))

    return compute


def _gemm(a, b, c=None, transB=0, alpha=1.0, beta=1.0):
    out = alpha * (a @ (b.T if transB else b))
    return out if c is None else out + beta * c


def _top_k(x, k, axis=-1, largest=1, sorted=1):
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    order = np.take(order, np.arange(int(k[0])), axis)
    return np.take_along_axis(x, order, axis), order


def _arg(function):
    def compute(x, axis=0, keepdims=1, select_last_index=0):
        found = function(np.flip(x, axis) if select_last_index else x, axis, keepdims=bool(keepdims))
        return x.shape[axis] - 1 - found if select_last_index else found

    return compute


def _unique(x, axis=None, sorted=1):
    return np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)


def _pad(x, pads, value=None, mode="constant"):
    half = len(pads) // 2
    more = {"constant_values": value if value is not None else 0} if mode == "constant" else {}
    return np.pad(x, list(zip(pads[:half], pads[half:])), mode, **more)


def _mod(a, b, fmod=0):
    return np.fmod(a, b) if fmod else np.mod(a, b)


def _divided(a, b):
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


def _trilu(x, k=0, upper=1):
    return np.triu(x, int(k)) if upper else np.tril(x, int(k))


def _one_hot(x, depth, values, axis=-1):
    return np.where(x[..., None] == np.arange(depth), values[1], values[0])


def _dft(x, length=None, axis=-2, inverse=0, onesided=0, **old):
    values = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    found = (np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft)(values, axis=int(axis))
    return np.stack([found.real, found.imag], -1).astype(x.dtype)


_NUMBERS = np.random.default_rng(0)


def _uniform(x, low=0.0, high=1.0):
    return _NUMBERS.uniform(low, high, x.shape).astype(x.dtype)


def _normal(x, mean=0.0, scale=1.0):
    return _NUMBERS.normal(mean, scale, x.shape).astype(x.dtype)


_CASTS = {number: np.dtype(name) for number, name in DTYPES.items()}

OPS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divided, "MatMul": np.matmul, "Relu": lambda x: np.maximum(x, 0),
    "Exp": np.exp, "Sqrt": np.sqrt, "Tanh": np.tanh, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Neg": np.negative,
    "Softmax": _softmax, "Reshape": _reshape, "Transpose": lambda x, perm: x.transpose(perm), "Gemm": _gemm, "Conv": _conv,
    "BatchNormalization": _batch_norm, "Slice": _slice, "ScatterElements": _scatter_elements, "Expand": lambda x, s: x * np.ones(s, x.dtype),
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "Split": lambda x, axis=0, num_outputs=None: tuple(np.array_split(x, num_outputs, axis)),
    "Gather": lambda x, i, axis=0: np.take(x, i, axis),
    "Shape": lambda x, start=0, end=None: np.asarray(x.shape[start:end], "i8"), "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)), "ReduceMean": _reduce(np.mean), "ReduceSum": _reduce(np.sum),
    "Cast": lambda x, to: x.astype(_CASTS[to]), "Identity": lambda x: x, "Where": np.where, "Equal": np.equal, "Less": np.less,
    "Range": lambda a, b, c: np.arange(a, b, c), "Clip": lambda x, a=None, b=None: np.clip(x, a, b), "Abs": np.abs, "Greater": np.greater,
    "TopK": _top_k, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or,
    "Not": np.logical_not, "IsNaN": np.isnan, "Log": np.log, "Pow": lambda a, b: np.power(a, b.astype(a.dtype)), "Sign": np.sign,
    "Floor": np.floor, "Ceil": np.ceil, "Round": np.round, "Reciprocal": lambda x: 1 / x, "Sin": np.sin, "Cos": np.cos, "Atan": np.arctan,
    "Max": lambda *xs: functools.reduce(np.maximum, xs), "Min": lambda *xs: functools.reduce(np.minimum, xs), "Mod": _mod,
    "ArgMax": _arg(np.argmax), "ArgMin": _arg(np.argmin), "ReduceMax": _reduce(np.max), "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod), "GatherElements": lambda x, i, axis=0: np.take_along_axis(x, i, axis), "Trilu": _trilu,
    "NonZero": lambda x: np.stack(np.nonzero(x)), "Compress": lambda x, c, axis: np.compress(c, x, axis), "Unique": _unique,
    "CumSum": lambda x, axis, exclusive=0: np.cumsum(x, axis) - x * exclusive, "Pad": _pad, "Size": lambda x: np.asarray(x.size), "Xor": np.logical_xor, "DFT": _dft,
    "Det": np.linalg.det, "OneHot": _one_hot, "RandomUniformLike": _uniform,
    "RandomNormalLike": _normal, "Tan": np.tan, "Tile": np.tile, "Sinh": np.sinh, "Cosh": np.cosh,
    "ReduceL2": _reduce(lambda x, **where: np.sqrt(np.sum(x * x, **where))), "IsInf": np.isinf, "Einsum": lambda *xs, equation: np.einsum(equation, *xs),
    "ConvTranspose": _conv_transpose,
}  # fmt: skip
