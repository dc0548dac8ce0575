"""Pooling functions of nn.functional, over inputs (N, C, spatial...) or (C, spatial...)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

from .._explained import explained
from .._tuples import _list_with_default, _pair, _single, _triple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

_ARGUMENTS = {
    "kernel_size": "of the window, a number or one for each dimension.",
    "stride": "the step of the window.",
    "return_indices": "whether to return also where the maxima were.",
    "output_size": "the sizes of the output, a number or one for each dimension; None for that of the input.",
    "padding": "elements added at both ends of each dimension.",
    "ceil_mode": "whether sizes are rounded up.",
    "dilation": "the step between the elements of a window.",
    "output_ratio": "output sizes over input sizes, in (0, 1).",
}
_UNPOOLED = "the sizes of the output, within a stride of what None stands for: (size - 1) * stride + kernel_size - 2 * padding."

_nn = _C.nn_functional

if TYPE_CHECKING:
    from facula._C import adaptive_avg_pool1d as adaptive_avg_pool1d
    from facula._C import avg_pool1d as avg_pool1d
    from facula._C.nn_functional import avg_pool2d as avg_pool2d
    from facula._C.nn_functional import avg_pool3d as avg_pool3d
else:
    avg_pool1d = _C.avg_pool1d
    avg_pool2d = _C.nn_functional.avg_pool2d
    avg_pool3d = _C.nn_functional.avg_pool3d
    adaptive_avg_pool1d = _C.adaptive_avg_pool1d


@explained(_ARGUMENTS)
def max_pool1d_with_indices(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                            padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(maxima, positions of the maxima in the flattened window axis)."""
    return facula.max_pool1d_with_indices(input, kernel_size, _or_empty(stride), padding, dilation, ceil_mode)


@explained(_ARGUMENTS)
def max_pool2d_with_indices(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                            padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(maxima, positions of the maxima in each flattened H x W plane)."""
    return _nn.max_pool2d_with_indices(input, kernel_size, _or_empty(stride), padding, dilation, ceil_mode)


@explained(_ARGUMENTS)
def max_pool3d_with_indices(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                            padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(maxima, positions of the maxima in each flattened D x H x W volume)."""
    return _nn.max_pool3d_with_indices(input, kernel_size, _or_empty(stride), padding, dilation, ceil_mode)


def _or_empty(stride):
    """The core takes an empty list where the stride is that of the window."""
    return [] if stride is None else stride


@explained(_ARGUMENTS)
def max_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """Maximum over windows of a (N, C, L) input; with ``return_indices`` also where the maxima were."""
    if return_indices:
        return max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return facula.max_pool1d(input, kernel_size, _or_empty(stride), padding, dilation, ceil_mode)


@explained(_ARGUMENTS)
def max_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """Maximum over windows of a (N, C, H, W) input; with ``return_indices`` also where the maxima were."""
    if return_indices:
        return max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return facula.max_pool2d(input, kernel_size, _or_empty(stride), padding, dilation, ceil_mode)


@explained(_ARGUMENTS)
def max_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """Maximum over windows of a (N, C, D, H, W) input; with ``return_indices`` also where the maxima were."""
    if return_indices:
        return max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return facula.max_pool3d(input, kernel_size, _or_empty(stride), padding, dilation, ceil_mode)


@explained(_ARGUMENTS)
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: int | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(maxima, positions) with windows chosen so that the output has ``output_size`` elements."""
    return facula.adaptive_max_pool1d(input, output_size)


@explained(_ARGUMENTS)
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: int | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(maxima, positions) with windows chosen so that the output is ``output_size`` (None: as the input)."""
    return _nn.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))


@explained(_ARGUMENTS)
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: int | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(maxima, positions) with windows chosen so that the output is ``output_size`` (None: as the input)."""
    return _nn.adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))


@explained(_ARGUMENTS)
def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Tensor | Any:
    """Maximum pooling to a given output length."""
    result = adaptive_max_pool1d_with_indices(input, output_size)
    return result if return_indices else result[0]


@explained(_ARGUMENTS)
def adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Tensor | Any:
    """Maximum pooling to a given output size (H, W); None keeps the input's."""
    result = adaptive_max_pool2d_with_indices(input, output_size)
    return result if return_indices else result[0]


@explained(_ARGUMENTS)
def adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Tensor | Any:
    """Maximum pooling to a given output size (D, H, W); None keeps the input's."""
    result = adaptive_max_pool3d_with_indices(input, output_size)
    return result if return_indices else result[0]


@explained(_ARGUMENTS)
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """Average pooling to a given output size (H, W); None keeps the input's."""
    return _nn.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


@explained(_ARGUMENTS)
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """Average pooling to a given output size (D, H, W); None keeps the input's."""
    return _nn.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


@explained(_ARGUMENTS, output_size="sizes of the output, a number or one for each dimension; or")
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: int | Sequence[int],
                                       output_size: int | Sequence[int] | None = None,
                                       output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                                       _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(maxima, positions) over windows at pseudo-random places; see `fractional_max_pool2d`."""
    output_size, samples = _fractional_setup(
        "fractional_max_pool2d", 2, input, output_size, output_ratio, _random_samples
    )
    return _nn.fractional_max_pool2d(input, _pair(kernel_size), output_size, samples)


@explained(_ARGUMENTS, output_size="sizes of the output, a number or one for each dimension; or")
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: int | Sequence[int],
                                       output_size: int | Sequence[int] | None = None,
                                       output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                                       _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(maxima, positions) over windows at pseudo-random places; see `fractional_max_pool3d`."""
    output_size, samples = _fractional_setup(
        "fractional_max_pool3d", 3, input, output_size, output_ratio, _random_samples
    )
    return _nn.fractional_max_pool3d(input, _triple(kernel_size), output_size, samples)


def _fractional_setup(name: str, n: int, input, output_size, output_ratio, samples):
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name}: needs output_size or output_ratio, got neither")
    if output_size is None:
        ratios = (output_ratio,) * n if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
        if len(ratios) > n:
            raise ValueError(f"{name}: output_ratio must be a number or {n} of them, got {output_ratio!r}")
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-n:], ratios)]
    elif isinstance(output_size, int):
        output_size = [output_size] * n
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        samples = facula.rand(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
    return output_size, samples


def fractional_max_pool2d(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
                          output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                          _random_samples: Tensor | None = None) -> Tensor | Any:  # fmt: skip
    """Maximum over windows at pseudo-random places.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: size of the windows.
        output_size: output H and W; or
        output_ratio: output size over input size, in (0, 1).
        return_indices: also return where the maxima were.
    """
    result = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return result if return_indices else result[0]


@explained(_ARGUMENTS, output_size="sizes of the output, a number or one for each dimension; or")
def fractional_max_pool3d(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
                          output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                          _random_samples: Tensor | None = None) -> Tensor | Any:  # fmt: skip
    """As `fractional_max_pool2d`, for (N, C, D, H, W) or (C, D, H, W)."""
    result = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return result if return_indices else result[0]


def _unpool_output_size(name: str, input, kernel_size, stride, padding, output_size) -> list[int]:
    """Check the wanted size against the default one; a size may differ by less than one stride either way."""
    n = len(kernel_size)
    sizes = input.shape[-n:]
    default = [(sizes[d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        return default
    wanted = list(output_size)
    if len(wanted) == n + 2:
        wanted = wanted[2:]
    if len(wanted) != n:
        raise ValueError(f"{name}: output_size must have {n} or {n + 2} entries, got {tuple(output_size)}")
    for d in range(n):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < wanted[d] < high:
            raise ValueError(
                f"{name}: output_size[{d}] must be between {low} and {high} (both excluded), got "
                f"{tuple(output_size)}"
            )
    return wanted


@explained(_ARGUMENTS, output_size=_UNPOOLED)
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, output_size: Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Undo `max_pool1d`: put the values where ``indices`` says, zeros elsewhere."""
    kernel = _single(kernel_size)
    stride = _single(stride) if stride is not None else kernel
    padding = _single(padding)
    size = _unpool_output_size("max_unpool1d", input, kernel, stride, padding, output_size)
    return _nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


@explained(_ARGUMENTS, output_size=_UNPOOLED)
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, output_size: Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Undo `max_pool2d`: put the values where ``indices`` says, zeros elsewhere."""
    kernel = _pair(kernel_size)
    stride = _pair(stride) if stride is not None else kernel
    padding = _pair(padding)
    size = _unpool_output_size("max_unpool2d", input, kernel, stride, padding, output_size)
    return _nn.max_unpool2d(input, indices, size)


@explained(_ARGUMENTS, output_size=_UNPOOLED)
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, output_size: Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Undo `max_pool3d`: put the values where ``indices`` says, zeros elsewhere."""
    kernel = _triple(kernel_size)
    stride = _triple(stride) if stride is not None else kernel
    padding = _triple(padding)
    size = _unpool_output_size("max_unpool3d", input, kernel, stride, padding, output_size)
    return _nn.max_unpool3d(input, indices, size, stride, padding)


def _lp_pool(pool, n: int, input, norm_type, kernel_size, stride, ceil_mode):
    """``(sum over the window of x ** norm_type) ** (1 / norm_type)``; a negative sum gives a NaN-free
    zero.
    """
    window = 1
    for size in (kernel_size,) * n if isinstance(kernel_size, int) else kernel_size:
        window *= size
    mean = pool(input.pow(norm_type), kernel_size, _or_empty(stride), 0, ceil_mode)
    return (mean.sign() * mean.abs().relu()).mul(window).pow(1.0 / norm_type)


@explained(_ARGUMENTS)
def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Any:  # fmt: skip
    """Power-average pooling of (N, C, L): the ``norm_type``-norm of each window."""
    return _lp_pool(avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


@explained(_ARGUMENTS)
def lp_pool2d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """Power-average pooling of (N, C, H, W): the ``norm_type``-norm of each window."""
    return _lp_pool(avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


@explained(_ARGUMENTS)
def lp_pool3d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Any:  # fmt: skip
    """Power-average pooling of (N, C, D, H, W): the ``norm_type``-norm of each window."""
    return _lp_pool(avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)
