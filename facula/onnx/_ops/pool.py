"""Translate pooling."""

import math

import numpy as np

from ._table import op
from .conv import _batched, _many


def _maximum(g, input, kernel_size, stride, padding, dilation, ceil_mode, dims, indices=False):
    kernel = _many(kernel_size, dims)
    plane = input.shape[-dims:]
    if ceil_mode and all(isinstance(s, int) for s in plane):
        steps = _many(stride, dims) if stride not in (None, [], ()) else kernel
        settings = list(zip(plane, kernel, steps, _many(padding, dims), _many(dilation, dims)))
        made = [_windows(*s) for s in settings]
        if made != [-(-(n + 2 * p - d * (k - 1) - 1) // step) + 1 for n, k, step, p, d in settings]:
            return _maximum_within(g, input, settings, made, dims, indices)
    attributes = {
        "kernel_shape": kernel, "strides": _many(stride, dims) if stride not in (None, [], ()) else kernel,
        "pads": _many(padding, dims) * 2, "dilations": _many(dilation, dims), "ceil_mode": int(ceil_mode),
    }  # fmt: skip
    if not indices:
        return _batched(g, input, dims, lambda x: g.MaxPool(x, **attributes))
    x = input if input.rank == dims + 2 else g.unsqueeze(input, 0)
    values, at = g.MaxPool(x, outputs=2, **attributes)
    at.dtype = "int64"
    plane = input.shape[-dims:]
    if not all(isinstance(s, int) for s in plane):
        raise NotImplementedError("onnx.export: max_pool with indices of planes whose size varies has no translation to ONNX")
    at = g.Mod(at, math.prod(plane))  # ONNX counts from the beginning of the tensor
    return (values, at) if input.rank == dims + 2 else (g.squeeze(values, 0), g.squeeze(at, 0))


def _windows(size, kernel, step, pad, dilation=1):
    """Return how many windows there are with ceil_mode: one may end outside, but has to begin inside."""
    count = -(-(size + 2 * pad - dilation * (kernel - 1) - 1) // step) + 1
    return count - ((count - 1) * step >= size + pad)


def _maximum_within(g, input, settings, made, dims, indices):
    """Lay the elements out, window by window, where ONNX would count windows that begin outside."""
    if indices:
        raise NotImplementedError("onnx.export: max_pool with indices and ceil_mode whose last windows begin outside")
    for axis, ((size, kernel, step, pad, dilation), count) in enumerate(zip(settings, made), -dims):
        places = np.arange(count)[:, None] * step + np.arange(kernel) * dilation - pad
        # Places outside are replaced by one of the same window that is inside, which does not change the maximum.
        first = np.where((places >= 0) & (places < size), places, -1).max(1, keepdims=True)
        places = np.where((places >= 0) & (places < size), places, first)
        taken = g.take(input, places, axis)
        input = g.reduce("Max", taken, taken.rank + axis)
    return input


def _average(g, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor, dims):
    kernel = _many(kernel_size, dims)
    stride = _many(stride, dims) if stride not in (None, [], ()) else kernel
    attributes = {
        "kernel_shape": kernel, "strides": stride, "pads": _many(padding, dims) * 2, "ceil_mode": int(ceil_mode),
        "count_include_pad": int(count_include_pad or divisor is not None),
    }  # fmt: skip
    if ceil_mode and all(isinstance(s, int) for s in input.shape[-dims:]):
        return _average_ceil(g, input, kernel, stride, _many(padding, dims), count_include_pad, divisor, dims)
    result = _batched(g, input, dims, lambda x: g.AveragePool(x, **attributes))
    return result if divisor is None else result * (math.prod(kernel) / divisor)


def _average_ceil(g, input, kernel, stride, padding, count_include_pad, divisor, dims):
    """Average with windows that begin inside and end outside: ONNX and PyTorch count the elements of those differently."""
    after, counts = [], np.ones([1] * dims)
    for axis, (size, k, step, pad) in enumerate(zip(input.shape[-dims:], kernel, stride, padding)):
        windows = _windows(size, k, step, pad)
        starts = np.arange(windows) * step - pad
        ends = np.minimum(starts + k, size + pad)
        after.append(max(int(starts[-1]) + k - size, 0))
        long = ends - starts if count_include_pad else np.minimum(ends, size) - np.maximum(starts, 0)
        counts = counts * long.reshape([-1 if a == axis else 1 for a in range(dims)])
    lead = [0] * (input.rank - dims)
    padded = g.Pad(input, [*lead, *padding, *lead, *after], g.constant(0, input.dtype))
    padded.shape = (*input.shape[:-dims], *[None] * dims)
    result = _batched(g, padded, dims, lambda x: g.AveragePool(x, kernel_shape=kernel, strides=stride))
    wanted = np.full(counts.shape, divisor) if divisor is not None else counts
    return result * g.constant(math.prod(kernel) / wanted, input.dtype)


def _cells(size, cells):
    """Return the beginnings and ends of the cells of adaptive pooling."""
    return [(i * size // cells, -(-(i + 1) * size // cells)) for i in range(cells)]


def _planes(g, input, output_size, dims):
    wanted = _many(output_size, dims) if not isinstance(output_size, (list, tuple)) else list(output_size)
    return [size if w is None else w for size, w in zip(input.shape[-dims:], wanted)]


def _static(input, dims, what):
    if not all(isinstance(s, int) for s in input.shape[-dims:]):
        raise NotImplementedError(f"onnx.export: {what} of planes whose size varies, to several cells, has no translation")
    return input.shape[-dims:]


def _adaptive_average(g, input, output_size, dims):
    wanted = _planes(g, input, output_size, dims)
    axes = list(range(-dims, 0))
    if all(w == 1 for w in wanted):
        return g.reduce("Mean", input, axes, True)
    sizes = _static(input, dims, "adaptive_avg_pool")
    if all(s % w == 0 for s, w in zip(sizes, wanted)):
        kernel = [s // w for s, w in zip(sizes, wanted)]
        return _average(g, input, kernel, kernel, 0, False, True, None, dims)
    for axis, size, cells in zip(axes, sizes, wanted):  # one dimension after another, as products
        weights = np.zeros((size, cells))
        for i, (start, end) in enumerate(_cells(size, cells)):
            weights[start:end, i] = 1 / (end - start)
        input = g.transpose(g.MatMul(g.transpose(input, axis, -1), g.constant(weights, input.dtype)), axis, -1)
    return input


def _adaptive_maximum(g, input, output_size, dims):
    wanted = _planes(g, input, output_size, dims)
    axes = list(range(-dims, 0))
    if all(w == 1 for w in wanted):
        values = g.reduce("Max", input, axes, True)
    else:
        values = input
        for axis, size, cells in zip(axes, _static(input, dims, "adaptive_max_pool"), wanted):
            longest = max(end - start for start, end in _cells(size, cells))
            places = np.array([np.minimum(np.arange(start, start + longest), end - 1) for start, end in _cells(size, cells)])
            taken = g.take(values, places, axis)
            values = g.reduce("Max", taken, taken.rank + axis)
    return (values, _adaptive_places(g, input, wanted, dims)) if g.results else values


def _adaptive_places(g, input, wanted, dims):
    """Return where in its plane the largest element of each cell lies."""
    sizes = _static(input, dims, "adaptive_max_pool with indices")
    lines = []
    for size, cells in zip(sizes, wanted):
        longest = max(end - start for start, end in _cells(size, cells))
        lines.append(np.array([np.minimum(np.arange(start, start + longest), end - 1) for start, end in _cells(size, cells)]))
    table = np.zeros([1] * (2 * dims), dtype=np.int64)
    for axis, (line, size) in enumerate(zip(lines, sizes)):
        shape = [1] * (2 * dims)
        shape[axis], shape[dims + axis] = line.shape
        table = table * size + line.reshape(shape)
    table = table.reshape(*wanted, -1)
    lead = g.shape_of(input)[:-dims]
    elements = g.take(g.reshape(input, [*lead, math.prod(sizes)]), table, -1)
    best = g.ArgMax(elements, axis=-1, keepdims=1)
    places = g.expand(g.constant(table), [*lead, *table.shape])
    return g.reshape(g.GatherElements(places, best, axis=-1), [*lead, *wanted])


def _of(dims):
    @op(f"max_pool{dims}d")
    def max_pool(g, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        return _maximum(g, input, kernel_size, stride, padding, dilation, ceil_mode, dims)

    @op(f"max_pool{dims}d_with_indices")
    def max_pool_with_indices(g, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        return _maximum(g, input, kernel_size, stride, padding, dilation, ceil_mode, dims, True)

    @op(f"avg_pool{dims}d")
    def avg_pool(g, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        return _average(g, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dims)

    @op(f"adaptive_avg_pool{dims}d _adaptive_avg_pool{dims}d")
    def adaptive_avg_pool(g, input, output_size):
        return _adaptive_average(g, input, output_size, dims)

    @op(f"adaptive_max_pool{dims}d")
    def adaptive_max_pool(g, input, output_size):
        return _adaptive_maximum(g, input, output_size, dims)


for _dims in (1, 2, 3):
    _of(_dims)


def _unpool(g, input, indices, sizes, dims):
    lead = g.shape_of(input)[:-dims]
    flat = lambda v: g.reshape(v, [*lead, -1])
    zeros = g.expand(g.constant(0, input.dtype), [*lead, math.prod(sizes)])
    return g.reshape(g.ScatterElements(zeros, flat(indices), flat(input), axis=-1), [*lead, *sizes])


@op("max_unpool2d")
def max_unpool2d(g, self, indices, output_size):
    return _unpool(g, self, indices, list(output_size), 2)


@op("max_unpool3d")
def max_unpool3d(g, self, indices, output_size, stride, padding):
    return _unpool(g, self, indices, list(output_size), 3)


def _fractional(g, input, kernel, sizes, samples, dims):
    """Return windows at places that the samples shift, other ones for each plane."""
    plane = _static(input, dims, "fractional_max_pool")
    lead = g.shape_of(input)[:-dims]
    kernel, sizes = _many(kernel, dims), _many(sizes, dims)
    total = g.constant(0)
    for d in range(dims):
        sample = g.unsqueeze(g.take(samples, dims - 1 - d if dims == 2 else d, 2), 2)  # [batch, planes, 1]
        many, room = sizes[d], plane[d] - kernel[d]
        steps = np.arange(many, dtype=np.float32)
        alpha = float(np.float32(room) / np.float32(max(many - 1, 1)))
        whole = lambda v: g.cast(v, "int64")  # towards zero
        begin = whole((sample + g.constant(steps, samples.dtype)) * alpha) - whole(sample * alpha)
        begin = g.where(g.constant(steps == many - 1), room, begin)
        places = g.unsqueeze(begin, 3) + g.constant(np.arange(kernel[d]))  # [batch, planes, windows, elements]
        shape = [*g.shape_of(places)[:2], *[1] * (2 * dims)]
        shape[2 + d], shape[2 + dims + d] = many, kernel[d]
        total = total * plane[d] + g.reshape(places, shape)
    count, cells = math.prod(sizes), math.prod(kernel)
    flat = g.reshape(input, [*lead, math.prod(plane)])
    flat = g.unsqueeze(flat, 0) if len(lead) == 1 else flat
    at = g.reshape(total, [*g.shape_of(flat)[:2], count * cells])
    elements = g.GatherElements(flat, at, axis=2)
    windows = lambda v: g.reshape(v, [*lead, *sizes, cells])
    elements, at = windows(elements), windows(at)
    best = g.ArgMax(elements, axis=-1, keepdims=1)
    return [g.reshape(g.GatherElements(v, best, axis=-1), [*lead, *sizes]) for v in (elements, at)]


@op("fractional_max_pool2d")
def fractional_max_pool2d(g, self, kernel_size, output_size, random_samples):
    return _fractional(g, self, kernel_size, output_size, random_samples, 2)


@op("fractional_max_pool3d")
def fractional_max_pool3d(g, self, kernel_size, output_size, random_samples):
    return _fractional(g, self, kernel_size, output_size, random_samples, 3)
