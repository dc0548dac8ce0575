"""Translate Fourier transforms: short ones to products with a matrix, which are more precise than those of runtimes,
and others to ONNX's DFT.
"""

import numpy as np

from .._graph import Value
from ..errors import UnsupportedOperatorError
from .complex import Pair, own, pair_of, stacked


def _fitted(g, value, n, dim):
    """Return a line of n elements: cut, or zeros at its end."""
    size = value.shape[dim]
    if n is None or n == size:
        return value
    if isinstance(size, int) and n < size:
        return g.cut(value, dim, 0, n)
    if not isinstance(size, int):
        raise UnsupportedOperatorError("onnx.export: fft with a given length of a dimension that varies")
    pads = [0] * (2 * value.rank)
    pads[value.rank + dim % value.rank] = n - size
    made = g.Pad(value, g.constant(pads), g.constant(0, value.dtype))
    made.shape = tuple(n if d == dim % value.rank else s for d, s in enumerate(value.shape))
    return made


# Up to this length the two matrices of the product have at most 64 KiB each in float32.
_SHORT = 128


def _product(g, value, dim, inverse, onesided):
    """Return the transform of a short line."""
    n = value.shape[dim]
    angles = 2 * np.pi * (np.outer(np.arange(n), np.arange(n // 2 + 1 if onesided else n)) % n) / n
    real, pair = (value.real, True) if isinstance(value, Pair) else (value, False)
    scale = 1 / n if inverse else 1.0
    cosine = g.constant(np.cos(angles) * scale, real.dtype)
    sine = g.constant(np.sin(angles) * (scale if inverse else -scale), real.dtype)
    last = lambda v: g.transpose(v, dim, -1)
    x = last(real)
    if not pair:
        return Pair(last(x @ cosine), last(x @ sine))
    y = last(value.imag)
    return Pair(last(x @ cosine - y @ sine), last(x @ sine + y @ cosine))


def _transformed(g, value, dim, inverse=False, onesided=False):
    """Return the transform along a dimension, scaled as ONNX does: only the inverse, by the length."""
    if isinstance(value.shape[dim], int) and value.shape[dim] <= _SHORT:
        return _product(g, value, dim, inverse, onesided)
    rank, dim = value.rank, dim % value.rank
    last = g.unsqueeze(value, rank) if isinstance(value, Value) else stacked(g, value)
    order = [*(d for d in range(rank) if d != dim), dim, rank]
    length = g.size(value, dim)
    moved = g.permute(last, order)
    lead = [g.size(moved, d) for d in range(rank - 1)]
    flat = g.reshape(moved, [-1, length, last.shape[-1]])
    settings = {"inverse": int(inverse), "onesided": int(onesided)}
    made = g.DFT(flat, None, g.constant(1), **settings) if g.opset >= 20 else g.DFT(flat, axis=1, **settings)
    count = length // 2 + 1 if onesided and isinstance(length, int) else length if isinstance(length, int) else None
    made.shape = (None, count, 2)
    sizes = [*lead, -1 if onesided and count is None else count if count is not None else length]
    parts = [g.reshape(g.take(made, i, 2), sizes) for i in (0, 1)]
    back = [order.index(d) for d in range(rank)]
    return Pair(*(g.permute(p, back) for p in parts))


def _scaled(g, value, length, norm, inverse, done=False):
    """Return the scale of a transform; `done`: ONNX's own inverse has divided by the length."""
    power = {"backward": 1.0 if inverse else 0.0, "ortho": 0.5, "forward": 0.0 if inverse else 1.0}[norm or "backward"]
    power -= 1.0 if done else 0.0
    if not power:
        return value
    part = value if isinstance(value, Value) else value.real
    if isinstance(length, int):
        scale = float(length) ** -power
    else:
        scale = g.Pow(g.cast(g.scalar(length), part.dtype), g.constant(-power, part.dtype))
    return value * scale if isinstance(value, Value) else Pair(value.real * scale, value.imag * scale)


def _plain(g, self, n, dim, norm, inverse):
    self = pair_of(g, self) if inverse else self
    pair = isinstance(self, Pair)
    value = Pair(*(_fitted(g, p, n, dim) for p in (self.real, self.imag))) if pair else _fitted(g, self, n, dim)
    return _scaled(g, _transformed(g, value, dim, inverse), g.size(value, dim), norm, inverse, inverse)


@own("fft_fft")
def fft(g, self, n=None, dim=-1, norm=None):
    return _plain(g, _floating(g, self), n, dim, norm, False)


@own("fft_ifft")
def ifft(g, self, n=None, dim=-1, norm=None):
    return _plain(g, _floating(g, self), n, dim, norm, True)


def _floating(g, value):
    return g.cast(value, "float32") if isinstance(value, Value) and not value.is_floating() else value


@own("fft_rfft")
def rfft(g, self, n=None, dim=-1, norm=None):
    value = _fitted(g, _floating(g, self), n, dim)
    return _scaled(g, _transformed(g, value, dim, onesided=True), g.size(value, dim), norm, False)


@own("fft_ihfft")
def ihfft(g, self, n=None, dim=-1, norm=None):
    value = _fitted(g, _floating(g, self), n, dim)
    made = _scaled(g, _transformed(g, value, dim, onesided=True), g.size(value, dim), norm, True)
    return Pair(made.real, -made.imag)


def _real(g, self, n, dim, norm, inverse):
    """Return the real transform of half a spectrum: the other half are the conjugates of the first, backwards."""
    dim, self = dim % self.rank, pair_of(g, _floating(g, self))
    n = 2 * (self.shape[dim] - 1) if n is None and isinstance(self.shape[dim], int) else n
    if not isinstance(n, int):
        raise UnsupportedOperatorError("onnx.export: irfft of a length that varies has no translation to ONNX")
    half = n // 2 + 1
    real, imag = (_fitted(g, p, half, dim) for p in (self.real, self.imag))
    rest = list(range(n - half, 0, -1))
    # The spectrum of a real signal is real at frequency 0 and at half the length; other imaginary parts there are
    # ignored, as PyTorch does.
    edge = g.constant([0.0 if i == 0 or 2 * i == n else 1.0 for i in range(half)], imag.dtype)
    imag = imag * g.reshape(edge, [half] + [1] * (self.rank - 1 - dim))
    if rest:
        real, imag = (g.concat([p, g.take(p, rest, dim) * sign], dim) for p, sign in ((real, 1.0), (imag, -1.0)))
    made = _transformed(g, Pair(real, imag), dim, inverse)
    return _scaled(g, made.real, n, norm, inverse, inverse)


@own("fft_irfft")
def irfft(g, self, n=None, dim=-1, norm=None):
    return _real(g, self, n, dim, norm, True)


@own("fft_hfft")
def hfft(g, self, n=None, dim=-1, norm=None):
    return _real(g, self, n, dim, norm, False)


def _several(one, last=None):
    """Return a transform along several dimensions; the last one may be of another kind, first or last of all."""

    def transform(g, self, s=None, dim=None, norm=None):
        if dim is None:
            dim = list(range(-len(s), 0)) if s is not None else list(range(self.rank))
        dims, sizes = list(dim), list(s) if s is not None else [None] * len(dim)
        sizes = [None if n == -1 else n for n in sizes]
        if last in (rfft, None):
            self = (last or one)(g, self, sizes[-1], dims[-1], norm)
        for d, n in zip(dims[:-1], sizes):
            self = one(g, self, n, d, norm)
        return last(g, self, sizes[-1], dims[-1], norm) if last is irfft else self

    return transform


def _register():
    for word, one, last in (("fft", fft, None), ("ifft", ifft, None), ("rfft", fft, rfft), ("irfft", ifft, irfft)):
        function = _several(one, last)
        own(f"fft_{word}n")(function)
        own(f"fft_{word}2")(lambda g, self, s=None, dim=(-2, -1), norm=None, f=function: f(g, self, s, dim, norm))


_register()
