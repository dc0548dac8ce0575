"""Compute window functions of `M` points.

All take the keyword arguments `sym` (True: symmetric, for filter design; False: periodic, one period of a window that
is one point longer, for spectral analysis), `dtype` (float32 or float64), `layout`, `device` and `requires_grad`.
Errors: ValueError for a negative `M`, another dtype or layout, or a parameter out of its range.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import _C

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import facula
    from facula import Tensor
    from facula.types import Device

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


def _options(name, M, dtype, layout, device, requires_grad):
    """Return the keyword arguments for the factory that makes the window, checked."""
    if M < 0:
        raise ValueError(f"{name}: requires non-negative window length, got M={M}")
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name}: dtype must be float32 or float64, got {dtype}")
    if layout is not None and layout is not _C.strided:
        raise ValueError(f"{name}: layout must be strided, got {layout}")
    return {"dtype": dtype, "device": device, "requires_grad": requires_grad}


def _edge(name, M, dtype, layout, device, requires_grad, most=1):
    """Return the window of no or one point, the same for all kinds; None for one of more than `most`."""
    options = _options(name, M, dtype, layout, device, requires_grad)
    return _C.ones((M,), **options) if M <= most else None


def _points(M, sym, first, last, options):
    """Return `M` equidistant points from `first` to `last`; a periodic window never reaches `last`.

    Where a gradient is wanted, they are the leaves that the window is computed from.
    """
    if not sym:
        last = first + (last - first) * (M - 1) / M
    return _C.linspace(first, last, M, **options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, dtype: facula.dtype | None = None,
                   layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Return a weighted sum of cosines, ``sum over k of (-1)**k * a[k] * cos(2 pi k n / (M - 1))`` for n from 0 to M - 1.

    Args:
        M: the number of points, not negative.
        a: the weights, at least one.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, no weights, another dtype or another layout; TypeError for weights that are no
    sequence.

    >>> torch.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    options = _options("general_cosine", M, dtype, layout, device, requires_grad)
    if M == 0:
        return _C.empty((0,), **options)
    if not hasattr(a, "__iter__"):
        raise TypeError(f"general_cosine: a must be a list of numbers, got {type(a).__name__}")
    a = list(a)
    if not a:
        raise ValueError("general_cosine: a must hold at least one weight, got none")
    if M == 1:
        return _C.ones((1,), **options)
    angle = _points(M, sym, 0.0, 2 * math.pi, options)
    window = float(a[0]) * _C.cos(angle * 0)
    for k, weight in enumerate(a[1:], start=1):
        window = window + (-1) ** k * weight * _C.cos(angle * k)
    return window


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: facula.dtype | None = None,
                    layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Return the window ``alpha - (1 - alpha) * cos(2 pi n / (M - 1))`` for n from 0 to M - 1.

    Args:
        M: the number of points, not negative.
        alpha: the mean of the window.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, another dtype or another layout.

    >>> torch.signal.windows.general_hamming(5, alpha=0.5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return general_cosine(
        M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hamming(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
            device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Return the Hamming window, ``0.54 - 0.46 * cos(2 pi n / (M - 1))`` for n from 0 to M - 1.

    Args:
        M: the number of points, not negative.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, another dtype or another layout.

    >>> torch.signal.windows.hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
         device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Return the Hann (raised cosine) window, ``0.5 - 0.5 * cos(2 pi n / (M - 1))`` for n from 0 to M - 1.

    Args:
        M: the number of points, not negative.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, another dtype or another layout.

    >>> torch.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    >>> torch.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
             device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Return the Blackman window, ``0.42 - 0.5 * cos(2 pi n / (M - 1)) + 0.08 * cos(4 pi n / (M - 1))`` for n from 0 to M - 1.

    Args:
        M: the number of points, not negative.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, another dtype or another layout.

    >>> torch.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def nuttall(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
            device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Return Nuttall's minimum four-term Blackman-Harris window, general_cosine with the weights 0.3635819, 0.4891775,
    0.1365995, 0.0106411.

    Args:
        M: the number of points, not negative.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, another dtype or another layout.

    >>> torch.signal.windows.nuttall(5)[1:4]
    tensor([0.2270, 1.0000, 0.2270])
    """
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def bartlett(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
             device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the Bartlett (triangular) window, ``1 - abs(2 n / (M - 1) - 1)`` for n from 0 to M - 1, with zeros at both ends.

    Args:
        M: the number of points, not negative.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, another dtype or another layout.

    >>> torch.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    edge = _edge("bartlett", M, dtype, layout, device, requires_grad)
    if edge is not None:
        return edge
    options = _options("bartlett", M, dtype, layout, device, requires_grad)
    return 1 - _C.abs(_points(M, sym, -1.0, 1.0, options))


def cosine(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
           device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return half a period of the sine, ``sin(pi (n + 0.5) / M)`` for n from 0 to M - 1.

    Args:
        M: the number of points, not negative.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, another dtype or another layout.

    >>> torch.signal.windows.cosine(4)
    tensor([0.3827, 0.9239, 0.9239, 0.3827])
    """
    edge = _edge("cosine", M, dtype, layout, device, requires_grad, 0)
    if edge is not None:
        return edge
    options = _options("cosine", M, dtype, layout, device, requires_grad)
    step = math.pi / (M if sym or M == 1 else M + 1)
    return _C.sin(_C.linspace(0.5 * step, (M - 0.5) * step, M, **options))


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: facula.dtype | None = None,
                layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``exp(-abs(n - center) / tau)`` for n from 0 to M - 1.

    Args:
        M: the number of points, not negative.
        center: where the peak is; None for (M - 1) / 2, or M / 2 where sym is False. Only where sym is False.
        tau: over how many points the window falls to 1 / e, positive.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, a tau that is not positive, a center of a symmetric window, another dtype or
    another layout.

    >>> torch.signal.windows.exponential(5)
    tensor([0.1353, 0.3679, 1.0000, 0.3679, 0.1353])
    """
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got {tau}")
    if sym and center is not None:
        raise ValueError(f"exponential: center of a symmetric window must be None, got {center}")
    edge = _edge("exponential", M, dtype, layout, device, requires_grad, 0)
    if edge is not None:
        return edge
    options = _options("exponential", M, dtype, layout, device, requires_grad)
    if center is None:
        center = (M - 1 if sym or M == 1 else M) / 2
    position = _C.linspace(-center / tau, (M - 1 - center) / tau, M, **options)
    return _C.exp(-_C.abs(position))


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: facula.dtype | None = None,
             layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the bell curve ``exp(-(n - center)**2 / (2 * std**2))`` for n from 0 to M - 1, center in the middle.

    Args:
        M: the number of points, not negative.
        std: the standard deviation in points, positive.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, a std that is not positive, another dtype or another layout.

    >>> torch.signal.windows.gaussian(5)
    tensor([0.1353, 0.6065, 1.0000, 0.6065, 0.1353])
    """
    if std <= 0:
        raise ValueError(f"gaussian: std must be positive, got {std}")
    edge = _edge("gaussian", M, dtype, layout, device, requires_grad, 0)
    if edge is not None:
        return edge
    options = _options("gaussian", M, dtype, layout, device, requires_grad)
    center, scale = (M - 1 if sym or M == 1 else M) / 2, 1 / (std * math.sqrt(2))
    position = _C.linspace(-center * scale, (M - 1 - center) * scale, M, **options)
    return _C.exp(-(position * position))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: facula.dtype | None = None,
           layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the Kaiser window, ``I0(beta * sqrt(1 - x**2)) / I0(beta)`` for M values of x from -1 to 1, with the modified
    Bessel function I0.

    Args:
        M: the number of points, not negative.
        beta: the shape, not negative; larger ones give a narrower window.
        sym: True for a symmetric window, for filter design; False for one period of a window that is one point longer,
            for
            spectral analysis.
        dtype: float32 or float64; None for the default dtype.
        layout: torch.strided, the only one.
        device: the device of the result; None for the default one.
        requires_grad: whether autograd records what is done with the window.

    Errors: ValueError for a negative M, a negative beta, another dtype or another layout.

    >>> torch.signal.windows.kaiser(5, beta=1.0)
    tensor([0.7898, 0.9450, 1.0000, 0.9450, 0.7898])
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta must not be negative, got {beta}")
    edge = _edge("kaiser", M, dtype, layout, device, requires_grad)
    if edge is not None:
        return edge
    options = _options("kaiser", M, dtype, layout, device, requires_grad)
    if not requires_grad:
        return _C.kaiser_window(M, not sym, beta, dtype=options["dtype"], device=device)
    inside = (1 - _points(M, sym, -1.0, 1.0, options) ** 2).clamp(min=0)
    return _C.i0(beta * _C.sqrt(inside)) / _C.i0(_C.tensor(float(beta), dtype=options["dtype"], device=device))
