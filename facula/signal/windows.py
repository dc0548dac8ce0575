"""Window functions of `M` points.

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
    """The keyword arguments for the factory that makes the window, checked."""
    if M < 0:
        raise ValueError(f"{name}: M must not be negative, got {M}")
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name}: dtype must be float32 or float64, got {dtype}")
    if layout is not None and layout is not _C.strided:
        raise ValueError(f"{name}: layout must be strided, got {layout}")
    return {"dtype": dtype, "device": device, "requires_grad": requires_grad}


def _edge(name, M, dtype, layout, device, requires_grad):
    """The window of no or one point, which is the same for all kinds; None for a longer one."""
    options = _options(name, M, dtype, layout, device, requires_grad)
    return _C.ones((M,), **options) if M <= 1 else None


def _points(M, sym, first, last, options):
    """`M` equidistant points from `first` to `last`; a periodic window never reaches `last`."""
    if not sym:
        last = first + (last - first) * (M - 1) / M
    return _C.linspace(first, last, M, dtype=options["dtype"], device=options["device"])


def _finish(window, requires_grad):
    return window.requires_grad_() if requires_grad else window


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, dtype: facula.dtype | None = None,
                   layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """The weighted sum of cosines sum((-1)**k * a[k] * cos(2 * pi * k * n / (M - 1)))."""
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
    window = _C.full((M,), float(a[0]), dtype=options["dtype"], device=device)
    for k, weight in enumerate(a[1:], start=1):
        window = window + (-1) ** k * weight * _C.cos(angle * k)
    return _finish(window, requires_grad)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: facula.dtype | None = None,
                    layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """alpha - (1 - alpha) * cos(2 * pi * n / (M - 1))."""
    return general_cosine(
        M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hamming(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
            device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """The Hamming window, general_hamming with alpha 0.54."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
         device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """The Hann (raised cosine) window, general_hamming with alpha 0.5."""
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
             device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """The Blackman window of three terms, 0.42, 0.5 and 0.08."""
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def nuttall(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
            device: Device = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Nuttall's minimum four-term Blackman-Harris window."""
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def bartlett(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
             device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The Bartlett (triangular) window with zeros at both ends."""
    edge = _edge("bartlett", M, dtype, layout, device, requires_grad)
    if edge is not None:
        return edge
    options = _options("bartlett", M, dtype, layout, device, requires_grad)
    return _finish(1 - _C.abs(_points(M, sym, -1.0, 1.0, options)), requires_grad)


def cosine(M: int, *, sym: bool = True, dtype: facula.dtype | None = None, layout: facula.layout = _C.strided,
           device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Half a period of the sine, sampled at the middles of M equal parts."""
    edge = _edge("cosine", M, dtype, layout, device, requires_grad)
    if edge is not None:
        return edge
    options = _options("cosine", M, dtype, layout, device, requires_grad)
    step = math.pi / (M if sym else M + 1)
    angle = _C.linspace(0.5 * step, (M - 0.5) * step, M, dtype=options["dtype"], device=device)
    return _finish(_C.sin(angle), requires_grad)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: facula.dtype | None = None,
                layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau).

    center is (M - 1) / 2, or M / 2 when periodic, and can only be given when not symmetric.
    """
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got {tau}")
    if sym and center is not None:
        raise ValueError(f"exponential: center of a symmetric window must be None, got {center}")
    edge = _edge("exponential", M, dtype, layout, device, requires_grad)
    if edge is not None:
        return edge
    options = _options("exponential", M, dtype, layout, device, requires_grad)
    if center is None:
        center = (M - 1 if sym else M) / 2
    position = _C.linspace(-center / tau, (M - 1 - center) / tau, M, dtype=options["dtype"], device=device)
    return _finish(_C.exp(-_C.abs(position)), requires_grad)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: facula.dtype | None = None,
             layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The bell curve exp(-(n - centre)**2 / (2 * std**2))."""
    if std <= 0:
        raise ValueError(f"gaussian: std must be positive, got {std}")
    edge = _edge("gaussian", M, dtype, layout, device, requires_grad)
    if edge is not None:
        return edge
    options = _options("gaussian", M, dtype, layout, device, requires_grad)
    centre, scale = (M - 1 if sym else M) / 2, 1 / (std * math.sqrt(2))
    position = _C.linspace(-centre * scale, (M - 1 - centre) * scale, M, dtype=options["dtype"], device=device)
    return _finish(_C.exp(-(position * position)), requires_grad)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: facula.dtype | None = None,
           layout: facula.layout = _C.strided, device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """I0(beta * sqrt(1 - x**2)) / I0(beta) for x from -1 to 1, with the modified Bessel function I0."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must not be negative, got {beta}")
    edge = _edge("kaiser", M, dtype, layout, device, requires_grad)
    if edge is not None:
        return edge
    options = _options("kaiser", M, dtype, layout, device, requires_grad)
    window = _C.kaiser_window(M, not sym, beta, dtype=options["dtype"], device=device)
    return _finish(window, requires_grad)
