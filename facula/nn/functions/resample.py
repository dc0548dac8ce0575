"""Define the functions of nn.functional that resize and sample."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._C import adaptive_avg_pool1d
from facula.autograd.function import Function

from .pool_adaptive import adaptive_avg_pool2d, adaptive_avg_pool3d

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor

__all__ = [
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "affine_grid", "grid_sample", "interpolate",
    "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

_nn = _C.nn_functional

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


# (mode, input dimensions) -> kernel of (input, sizes, scales); linear kinds also take align_corners.
_PLAIN_KERNELS = {
    ("nearest", 3): "upsample_nearest1d",
    ("nearest", 4): "upsample_nearest2d",
    ("nearest", 5): "upsample_nearest3d",
    ("nearest-exact", 3): "_upsample_nearest_exact1d",
    ("nearest-exact", 4): "_upsample_nearest_exact2d",
    ("nearest-exact", 5): "_upsample_nearest_exact3d",
}
_CORNER_KERNELS = {
    ("linear", 3): "upsample_linear1d",
    ("bilinear", 4): "upsample_bilinear2d",
    ("trilinear", 5): "upsample_trilinear3d",
    ("bicubic", 4): "upsample_bicubic2d",
}
_ANTIALIASED_KERNELS = {
    ("bilinear", 4): "_upsample_bilinear2d_aa",
    ("bicubic", 4): "_upsample_bicubic2d_aa",
    ("lanczos", 4): "_upsample_lanczos2d_aa",
}
_AREA_KERNELS = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


def _per_dimension(name: str, value, n: int) -> list:
    """Return ``value`` repeated for every spatial dimension, or checked to be one per dimension."""
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise ValueError(
            f"interpolate: {name} must have one entry per spatial dimension ({n}), got {tuple(value)}"
        )
    return list(value)


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial dimensions.

    Args:
        input: the values, (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: the new sizes, a number or one for each spatial dimension; or
        scale_factor: the factor of each.
        mode: 'nearest', 'nearest-exact', 'linear' (3-D input), 'bilinear' (4-D), 'bicubic' (4-D), 'trilinear' (5-D), 'area' or
            'lanczos' (4-D, with antialias).
        align_corners: if True, let the centers of the corner elements of input and output coincide, rather than their outer
            edges; for the linear modes and 'bicubic'. Default: False.
        recompute_scale_factor: if True, compute the factor anew from the rounded output size.
        antialias: if True, filter images before they shrink, in the modes 'bilinear', 'bicubic' and 'lanczos'.

    Returns: (N, C, L_out), (N, C, H_out, W_out) or (N, C, D_out, H_out, W_out), with size, or with ``floor(scale_factor * L)``
    for a dimension of size L.

    Errors: ValueError for both or neither of size and scale_factor, or options that a mode does not have; TypeError for a size
    that is not an integer; NotImplementedError for a mode that does not exist or does not fit the dimensions.

    >>> x = torch.tensor([[[1.0, 3.0]]])
    >>> F.interpolate(x, size=4)
    tensor([[[1., 1., 3., 3.]]])
    >>> F.interpolate(x, scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    dim = input.dim()
    if size is None and align_corners is None and isinstance(scale_factor, (int, float)) and not recompute_scale_factor:
        kernel = _PLAIN_KERNELS.get((mode, dim))
        if kernel is not None and not antialias:  # the commonest call, in which nothing can be wrong
            return getattr(_nn, kernel)(input, None, [scale_factor] * (dim - 2))
    corners_matter = mode not in ("nearest", "area", "nearest-exact")
    if align_corners is not None and not corners_matter:
        raise ValueError(f"interpolate: mode {mode!r} has no align_corners, got {align_corners}")
    spatial = dim - 2
    sizes = scales = None
    if (size is None) == (scale_factor is None):
        raise ValueError(f"interpolate: give either size or scale_factor, got {size} and {scale_factor}")
    if size is not None:
        sizes = _per_dimension("size", size, spatial)
        for s in sizes:
            if not isinstance(s, int) and not hasattr(s, "__index__"):
                raise TypeError(f"interpolate: size must be integers, got {sizes}")
        if recompute_scale_factor:
            raise ValueError(f"interpolate: recompute_scale_factor has no meaning with size, got size {size}")
    else:
        scales = _per_dimension("scale_factor", scale_factor, spatial)
        if recompute_scale_factor or mode == "area":
            sizes = [int(input.size(i + 2) * scale) for i, scale in enumerate(scales)]
            scales = None
    if antialias and (mode, dim) not in _ANTIALIASED_KERNELS:
        raise ValueError(
            "interpolate: antialias needs a 4-D input and mode 'bilinear', 'bicubic' or 'lanczos', "
            f"got {dim} dimensions and {mode!r}"
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError(
            "interpolate: mode 'lanczos' needs antialias=True and align_corners=False, got otherwise"
        )
    if mode == "area" and dim in _AREA_KERNELS:
        return _AREA_KERNELS[dim](input, sizes)
    kernel = _PLAIN_KERNELS.get((mode, dim))
    if kernel is not None:
        return getattr(_nn, kernel)(input, sizes, scales)
    kernel = (_ANTIALIASED_KERNELS if antialias else _CORNER_KERNELS).get((mode, dim))
    if kernel is not None:
        return getattr(_nn, kernel)(input, sizes, bool(align_corners), scales)
    there = [known for known, dims in (_PLAIN_KERNELS | _CORNER_KERNELS | _ANTIALIASED_KERNELS) if dims == dim]
    modes = _C._one_of(mode, [*there, "area"])
    raise NotImplementedError(f"interpolate: for an input of {dim} dimensions mode must be {modes}")


def upsample(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
             mode: str = "nearest", align_corners: bool | None = None) -> Tensor:  # fmt: skip
    """Call `interpolate`, of which this is a deprecated name; it warns.

    Args:
        input: the values, (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: the sizes of the output, a number or one for each dimension; or
        scale_factor: the factor by which each dimension grows.
        mode: 'nearest', 'linear', 'bilinear', 'bicubic', 'trilinear' or 'area'.
        align_corners: if True, let the centers of the corner elements coincide.

    Returns: what `interpolate` returns.

    Errors: those of `interpolate`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample(torch.tensor([[[1.0, 3.0]]]), size=4)
    tensor([[[1., 1., 3., 3.]]])
    """
    warnings.warn("upsample: deprecated, use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None,
                     scale_factor: float | Sequence[float] | None = None) -> Tensor:  # fmt: skip
    """Return ``interpolate(input, size, scale_factor, mode='nearest')``; deprecated, it warns.

    Args:
        input: the values, (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: the sizes of the output, a number or one for each dimension; or
        scale_factor: the factor by which each dimension grows.

    Errors: those of `interpolate`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample_nearest(torch.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    warnings.warn("upsample_nearest: deprecated, use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None,
                      scale_factor: float | Sequence[float] | None = None) -> Tensor:  # fmt: skip
    """Return ``interpolate(input, size, scale_factor, mode='bilinear', align_corners=True)``; deprecated, it warns.

    Args:
        input: the values, (N, C, H, W).
        size: the sizes of the output, a number or one for each dimension; or
        scale_factor: the factor by which each dimension grows.

    Errors: those of `interpolate`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample_bilinear(torch.tensor([[[[1.0, 3.0]]]]), size=(1, 3))
    tensor([[[[1., 2., 3.]]]])
    """
    warnings.warn("upsample_bilinear: deprecated, use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _default_corners(name: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(f"{name}: align_corners defaults to False; give it explicitly, got None", stacklevel=3)
        return False
    return align_corners


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample the input at the positions of a grid.

    Args:
        input: the values, (N, C, H, W) or (N, C, D, H, W).
        grid: (N, H_out, W_out, 2) or (N, D_out, H_out, W_out, 3): positions x, y(, z), from -1 to 1 over the input.
        mode: 'bilinear' (of volumes trilinear), 'nearest' or, for images, 'bicubic'.
        padding_mode: the values outside the input: 'zeros', the 'border', or its 'reflection'.
        align_corners: if True, -1 and 1 are the centers of the outer pixels, not their outer edges; None means False and warns.

    Returns: (N, C, H_out, W_out) or (N, C, D_out, H_out, W_out).

    Errors: ValueError for another mode or padding_mode; RuntimeError for shapes that do not fit.

    >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> F.grid_sample(image, torch.tensor([[[[0.0, 0.0], [-1.0, 1.0]]]]), align_corners=True)
    tensor([[[[2.5000, 3.0000]]]])
    """
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(f"grid_sample: mode must be {_C._one_of(mode, ('bilinear', 'nearest', 'bicubic'))}")
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            f"grid_sample: padding_mode must be {_C._one_of(padding_mode, ('zeros', 'border', 'reflection'))}"
        )
    return _C.grid_sampler(
        input,
        grid,
        GRID_SAMPLE_INTERPOLATION_MODES[mode],
        GRID_SAMPLE_PADDING_MODES[padding_mode],
        _default_corners("grid_sample", align_corners),
    )


def affine_grid(theta: Tensor, size: int | Sequence[int] | None, align_corners: bool | None = None) -> Tensor:
    """Return the grid, for `grid_sample`, of a batch of affine maps: ``theta @ (x, y(, z), 1)`` of every position of the
    output.

    Args:
        theta: the maps, (N, 2, 3) for images or (N, 3, 4) for volumes.
        size: the shape of the wanted output, (N, C, H, W) or (N, C, D, H, W).
        align_corners: if True, -1 and 1 are the centers of the outer pixels, not their outer edges; None means False and warns.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3).

    Errors: ValueError for a theta that is not floating-point or of another shape, or sizes that are not positive;
    NotImplementedError for a size of other than 4 or 5 entries.

    >>> mirror = torch.tensor([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> F.affine_grid(mirror, (1, 1, 1, 2), align_corners=False)
    tensor([[[[ 0.5000,  0.0000],
              [-0.5000,  0.0000]]]])
    """
    align_corners = _default_corners("affine_grid", align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid: theta must be floating-point, got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(f"affine_grid: size must have 4 or 5 entries, got {tuple(size)}")
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"affine_grid: theta must be (N, {n}, {n + 1}) for size {tuple(size)}, got {tuple(theta.shape)}"
        )
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "affine_grid: align_corners=True with a dimension of size 1 samples its center, got "
            f"{tuple(size)}",
            stacklevel=2,
        )
    elif min(size) <= 0:
        raise ValueError(f"affine_grid: size must be positive, got {tuple(size)}")
    if theta.requires_grad and facula.is_grad_enabled() and not _C._recording():
        return _AffineGrid.apply(theta, tuple(size), align_corners)
    return _grid(theta, size, align_corners)


def _grid(theta, size, align_corners: bool):
    places = _places(theta, size, align_corners)
    return places.bmm(theta.transpose(1, 2)).reshape(size[0], *size[2:], len(size) - 2)


class _AffineGrid(Function):
    """Multiply all places by the maps. It saves nothing, so that backward can run again."""

    @staticmethod
    def forward(theta, size, align_corners):
        return _grid(theta, size, align_corners)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.like, ctx.size, ctx.align_corners = inputs[0].new_empty(0), *inputs[1:]

    @staticmethod
    def backward(ctx, grad):
        places = _places(ctx.like, ctx.size, ctx.align_corners)
        return places.transpose(1, 2).bmm(grad.reshape(*places.shape[:2], -1)).transpose(1, 2), None, None

    @staticmethod
    def jvp(ctx, tangent, *_):
        return _grid(tangent, ctx.size, ctx.align_corners)

    @staticmethod
    def vmap(info, in_dims, theta, size, align_corners):
        flat = theta.movedim(in_dims[0], 0).flatten(0, 1)
        grid = _AffineGrid.apply(flat, (flat.shape[0], *size[1:]), align_corners)
        return grid.unflatten(0, (info.batch_size, size[0])), 0


def _places(theta, size, align_corners: bool):
    """Return the places of all points, with a 1 behind the coordinates: (N, points, n + 1)."""
    axes = [_grid_axis(theta, steps, align_corners) for steps in size[2:]]
    mesh = facula.meshgrid(*axes, indexing="ij")
    # Last axis: x, y(, z), 1. x belongs to the last spatial dimension.
    places = facula.stack([*reversed(mesh), facula.ones_like(mesh[0])], dim=-1)
    return places.reshape(1, -1, len(size) - 1).expand(size[0], -1, -1)


def _grid_axis(theta, steps: int, align_corners: bool):
    """Return the positions of ``steps`` pixel centers in [-1, 1]."""
    if steps <= 1:
        return _C.zeros(steps, dtype=theta.dtype, device=theta.device)
    axis = facula.linspace(-1, 1, steps, dtype=theta.dtype, device=theta.device)
    return axis if align_corners else axis * (steps - 1) / steps
