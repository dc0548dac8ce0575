"""Translate convolutions and related ops."""

import numpy as np

from ._table import op


def _many(value, dims):
    value = [value] if isinstance(value, int) else list(value)
    return value * dims if len(value) == 1 else value


def _batched(g, input, dims, compute):
    """Return `compute` of a batch, also where the input has none."""
    if input.rank == dims + 2:
        return compute(input)
    return g.squeeze(compute(g.unsqueeze(input, 0)), 0)


def _same_pads(kernel, dilation):
    total = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return [t // 2 for t in total] + [t - t // 2 for t in total]


def _convolve(g, input, weight, bias, stride, padding, dilation, groups, dims):
    kernel = list(weight.shape[2:])
    stride, dilation = _many(stride, dims), _many(dilation, dims)
    if isinstance(padding, str):
        pads = _same_pads(kernel, dilation) if padding == "same" else [0] * (2 * dims)
    else:
        pads = _many(padding, dims) * 2
    attributes = {"kernel_shape": kernel, "strides": stride, "pads": pads, "dilations": dilation, "group": groups}
    return _batched(g, input, dims, lambda x: g.Conv(x, weight, bias, **attributes))


def _plain(dims):
    @op(f"conv{dims}d")
    def conv(g, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return _convolve(g, input, weight, bias, stride, padding, dilation, groups, dims)

    @op(f"conv_transpose{dims}d")
    def conv_transpose(g, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return _transposed(g, input, weight, bias, stride, padding, output_padding, groups, dilation, dims)


def _transposed(g, input, weight, bias, stride, padding, output_padding, groups, dilation, dims):
    strides, padding, more = (_many(v, dims) for v in (stride, padding, output_padding))
    attributes = {
        "kernel_shape": list(weight.shape[2:]), "strides": strides, "dilations": _many(dilation, dims), "group": groups,
    }  # fmt: skip
    if all(m < s for m, s in zip(more, strides)):
        attributes.update(pads=padding * 2, output_padding=more)
        return _batched(g, input, dims, lambda x: g.ConvTranspose(x, weight, bias, **attributes))
    attributes["pads"] = [*padding, *(max(p - m, 0) for p, m in zip(padding, more))]  # runtimes refuse so much of it
    beyond = [max(m - p, 0) for p, m in zip(padding, more)]

    def compute(x):
        made = g.ConvTranspose(x, weight, None, **attributes)
        made = g.Pad(made, [0] * (dims + 2) + [0, 0, *beyond], g.constant(0, x.dtype)) if any(beyond) else made
        return made if bias is None else made + g.reshape(bias, [-1] + [1] * dims)

    return _batched(g, input, dims, compute)


for _dims in (1, 2, 3):
    _plain(_dims)


@op("convolution _convolution")
def convolution(g, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *_):
    dims = weight.rank - 2
    if transposed:
        return _transposed(g, input, weight, bias, stride, padding, output_padding, groups, dilation, dims)
    return _convolve(g, input, weight, bias, stride, padding, dilation, groups, dims)


@op("conv_tbc")
def conv_tbc(g, input, weight, bias, pad=0):
    result = g.Conv(g.permute(input, [1, 2, 0]), g.permute(weight, [2, 1, 0]), bias, pads=[pad, pad])
    return g.Transpose(result, perm=[2, 0, 1])


def _places(length, kernel, dilation, padding, stride):
    """Return where the elements of each window lie in a padded line: [kernel, windows]."""
    windows = (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    return np.arange(kernel)[:, None] * dilation + np.arange(windows) * stride


@op("im2col")
def im2col(g, self, kernel_size, dilation, padding, stride):
    kernel, dilation, padding, stride = (_many(v, 2) for v in (kernel_size, dilation, padding, stride))
    c, h, w = self.shape[-3:]
    if not isinstance(h, int) or not isinstance(w, int):
        raise NotImplementedError("onnx.export: unfold of images whose size varies has no translation to ONNX")
    rows = _places(h, kernel[0], dilation[0], padding[0], stride[0])
    columns = _places(w, kernel[1], dilation[1], padding[1], stride[1])

    def compute(x):
        n = g.size(x, 0)
        x = g.Pad(x, [0, 0, *padding, 0, 0, *padding], g.constant(0, x.dtype))
        x.shape = (None, c, h + 2 * padding[0], w + 2 * padding[1])
        x = g.take(g.take(x, rows, 2), columns, 4)  # N, C, kernel rows, rows, kernel columns, columns
        x = g.permute(x, [0, 1, 2, 4, 3, 5])
        return g.reshape(x, [n, c * kernel[0] * kernel[1], rows.shape[1] * columns.shape[1]])

    return _batched(g, self, 2, compute)


@op("col2im")
def col2im(g, self, output_size, kernel_size, dilation, padding, stride):
    kernel, dilation, padding, stride = (_many(v, 2) for v in (kernel_size, dilation, padding, stride))
    if g.opset < 18:
        raise NotImplementedError(f"onnx.export: fold needs opset 18, got {g.opset}")
    make = lambda x: g.Col2Im(x, list(output_size), kernel, dilations=dilation, pads=padding * 2, strides=stride)
    return make(self) if self.rank == 3 else g.squeeze(make(g.unsqueeze(self, 0)), 0)
