"""Reads what facula.onnx writes, and computes with it in NumPy: enough of ONNX for the tests, written from its specification."""

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
        6: lambda: list(np.frombuffer(f[7][0], "<f4")),
        7: lambda: integers(f[8][0]) if 8 in f else [],
    }[kind]()
    return f[1][0].decode(), value


class Model:
    """inputs and outputs {name: (dtype, sizes)}, nodes (op, inputs, outputs, attributes), initializers {name: array}."""

    def __init__(self, data):
        top = grouped(data)
        self.ir_version = top[1][0]
        self.opset = next(grouped(o)[2][0] for o in top[8] if not grouped(o).get(1, [b""])[0])
        graph = grouped(top[7][0])
        self.initializers = dict(map(tensor, graph.get(5, [])))
        self.inputs, self.outputs = (dict(map(self._info, graph.get(n, []))) for n in (11, 12))
        self.nodes = [self._node(n) for n in graph.get(1, [])]

    @staticmethod
    def _info(data):
        f = grouped(data)
        kind = grouped(grouped(f[2][0])[1][0])
        sizes = [grouped(d) for d in grouped(kind[2][0]).get(1, [])] if 2 in kind else None
        return f[1][0].decode(), (DTYPES[kind[1][0]], [d[1][0] if 1 in d else d[2][0].decode() for d in sizes])

    @staticmethod
    def _node(data):
        f = grouped(data)
        words = lambda n: [w.decode() for w in f.get(n, [])]
        return f[4][0].decode(), words(1), words(2), dict(map(attribute, f.get(5, [])))

    def ops(self):
        return [n[0] for n in self.nodes]

    def run(self, **inputs):
        assert set(inputs) == set(self.inputs)
        values = {**self.initializers, **inputs, "": None}
        for op, names, outputs, attributes in self.nodes:
            result = OPS[op](*(values[n] for n in names), **attributes)
            results = result if isinstance(result, tuple) else (result,)
            values.update(zip(outputs, results))
        return [values[name] for name in self.outputs]


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


def _batch_norm(x, scale, bias, mean, var, epsilon=1e-5):
    line = lambda v: v.reshape([-1] + [1] * (x.ndim - 2))
    return (x - line(mean)) / np.sqrt(line(var) + epsilon) * line(scale) + line(bias)


def _slice(x, starts, ends, axes=None, steps=None):
    index = [slice(None)] * x.ndim
    for i, axis in enumerate(axes.tolist() if axes is not None else range(len(starts))):
        index[axis] = slice(int(starts[i]), int(ends[i]), int(steps[i]) if steps is not None else 1)
    return x[tuple(index)]


def _scatter_elements(x, index, updates, axis=0):
    out = x.copy()
    np.put_along_axis(out, index, updates, axis)
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


_CASTS = {number: np.dtype(name) for number, name in DTYPES.items()}

OPS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "MatMul": np.matmul, "Relu": lambda x: np.maximum(x, 0),
    "Exp": np.exp, "Sqrt": np.sqrt, "Tanh": np.tanh, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Neg": np.negative,
    "Softmax": _softmax, "Reshape": _reshape, "Transpose": lambda x, perm: x.transpose(perm), "Gemm": _gemm, "Conv": _conv,
    "BatchNormalization": _batch_norm, "Slice": _slice, "ScatterElements": _scatter_elements, "Expand": lambda x, s: x * np.ones(s, x.dtype),
    "Concat": lambda *xs, axis: np.concatenate(xs, axis), "Gather": lambda x, i, axis=0: np.take(x, i, axis),
    "Shape": lambda x, start=0, end=None: np.asarray(x.shape[start:end], "i8"), "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)), "ReduceMean": _reduce(np.mean), "ReduceSum": _reduce(np.sum),
    "Cast": lambda x, to: x.astype(_CASTS[to]), "Identity": lambda x: x, "Where": np.where, "Equal": np.equal, "Less": np.less,
    "Range": lambda a, b, c: np.arange(a, b, c), "Clip": lambda x, a=None, b=None: np.clip(x, a, b), "Abs": np.abs, "Greater": np.greater,
    "TopK": _top_k, "LessOrEqual": np.less_equal,
}  # fmt: skip
