"""Interpolation and sampling."""

import numpy as np

from ._table import op


def _resize(g, input, mode, size, scales, align_corners=None, exact=False, antialias=False):
    scales = [scales] if isinstance(scales, float) else list(scales) if scales is not None else []
    if size is not None:
        lead = [g.size(input, 0), g.size(input, 1)]
        sizes, factors = g.sizes([*lead, *size]), None
    else:
        sizes, factors = None, g.constant([1.0, 1.0, *(float(s) for s in scales)], "float32")
    if mode == "nearest":
        where = "half_pixel" if exact else "asymmetric"
        return g.Resize(
            input, None, factors, sizes, mode="nearest", coordinate_transformation_mode=where,
            nearest_mode="round_prefer_ceil" if exact else "floor",
        )  # fmt: skip
    where = "align_corners" if align_corners else "half_pixel"
    extra = {"cubic_coeff_a": -0.5 if antialias else -0.75} if mode == "cubic" else {}
    if antialias:
        if g.opset < 18:
            raise NotImplementedError(f"onnx.export: interpolate with antialias needs opset 18, got {g.opset}")
        extra["antialias"] = 1
        extra["exclude_outside"] = 1
    return g.Resize(input, None, factors, sizes, mode=mode, coordinate_transformation_mode=where, **extra)


def _given(rest):
    """Scales: one list of numbers, or a number for each dimension."""
    rest = [r for r in rest if r is not None]
    if rest and isinstance(rest[0], (list, tuple)):
        return list(rest[0])
    return rest or None


def _all():
    for dims in (1, 2, 3):
        for exact, prefix in ((False, ""), (True, "_")):
            name = f"{prefix}upsample_nearest{'_exact' if exact else ''}{dims}d"
            op(name)(
                lambda g, input, output_size=None, *scales, exact=exact, **named: _resize(
                    g, input, "nearest", output_size, _given(scales or named.values()), exact=exact
                )
            )
    for name, mode in (("upsample_linear1d", "linear"), ("upsample_bilinear2d", "linear"), ("upsample_trilinear3d", "linear"),
                       ("upsample_bicubic2d", "cubic")):  # fmt: skip
        op(name)(
            lambda g, input, output_size=None, align_corners=False, *scales, mode=mode, **named: _resize(
                g, input, mode, output_size, _given(scales or named.values()), align_corners
            )
        )
    for name, mode in (("_upsample_bilinear2d_aa", "linear"), ("_upsample_bicubic2d_aa", "cubic")):
        op(name)(
            lambda g, input, output_size=None, align_corners=False, *scales, mode=mode, **named: _resize(
                g, input, mode, output_size, _given(scales or named.values()), align_corners, antialias=True
            )
        )


_all()

_MODES = {0: "bilinear", 1: "nearest", 2: "bicubic"}
_NEW_MODES = {0: "linear", 1: "nearest", 2: "cubic"}
_PADDING = {0: "zeros", 1: "border", 2: "reflection"}


@op("grid_sampler grid_sampler_2d grid_sampler_3d")
def grid_sampler(g, input, grid, interpolation_mode, padding_mode, align_corners):
    if input.rank != 4 and g.opset < 20:
        raise NotImplementedError(f"onnx.export: grid_sample of volumes needs opset 20, got {g.opset}")
    mode = (_NEW_MODES if g.opset >= 20 else _MODES)[interpolation_mode]
    return g.GridSample(input, grid, mode=mode, padding_mode=_PADDING[padding_mode], align_corners=int(bool(align_corners)))


@op("affine_grid_generator")
def affine_grid_generator(g, theta, size, align_corners):
    if g.opset >= 20:
        return g.AffineGrid(theta, g.sizes(size), align_corners=int(bool(align_corners)))
    if not all(isinstance(s, int) for s in size):
        raise NotImplementedError(f"onnx.export: affine_grid of sizes that vary needs opset 20, got {g.opset}")
    return _grid(g, theta, size, align_corners)


def _grid(g, theta, size, align_corners):
    planes = size[2:]
    lines = [np.linspace(-1, 1, s) * (1 if align_corners else (s - 1) / s) for s in planes]
    points = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(planes)], axis=-1)
    flat = g.constant(points.reshape(1, -1, len(planes) + 1), theta.dtype)
    return g.reshape(g.MatMul(flat, g.transpose(theta, 1, 2)), [size[0], *planes, len(planes)])
