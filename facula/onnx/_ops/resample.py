"""Translate interpolation and sampling."""

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
    # PyTorch's cubic filters have the parameter -0.5 with antialiasing and -0.75 without.
    extra = {"cubic_coeff_a": -0.5 if antialias else -0.75} if mode == "cubic" else {}
    if antialias:
        if g.opset < 18:
            raise NotImplementedError(f"onnx.export: interpolate with antialias needs opset 18, got {g.opset}")
        extra["antialias"] = 1
        # Pixels outside the image get no weight, and the other weights are scaled up, as in PyTorch.
        extra["exclude_outside"] = 1
    return g.Resize(input, None, factors, sizes, mode=mode, coordinate_transformation_mode=where, **extra)


def _given(rest):
    """Return scales: one list of numbers, or a number for each dimension."""
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

# ONNX renamed the modes in opset 20.
_MODES = {0: "bilinear", 1: "nearest", 2: "bicubic"}
_NEW_MODES = {0: "linear", 1: "nearest", 2: "cubic"}
_PADDING = {0: "zeros", 1: "border", 2: "reflection"}


@op("grid_sampler grid_sampler_2d grid_sampler_3d")
def grid_sampler(g, input, grid, interpolation_mode, padding_mode, align_corners):
    if input.rank != 4 and g.opset < 20:
        return _volume(g, input, grid, interpolation_mode, padding_mode, align_corners)
    mode = (_NEW_MODES if g.opset >= 20 else _MODES)[interpolation_mode]
    return g.GridSample(input, grid, mode=mode, padding_mode=_PADDING[padding_mode], align_corners=int(bool(align_corners)))


def _volume(g, input, grid, mode, padding, align_corners):
    """Sample volumes at places of a grid, corner by corner: before opset 20 ONNX samples planes only."""
    sizes = input.shape[2:]
    if not all(isinstance(s, int) for s in sizes) or 0 in sizes:
        raise NotImplementedError("onnx.export: grid_sample of volumes whose size varies is there from opset 20 on")
    places = []
    for i, size in enumerate(reversed(sizes)):  # x, y, z
        place = g.take(grid, i, -1)
        # From [-1, 1] to pixels: its ends are the centers of the outer pixels with align_corners, else their edges.
        place = (place + 1.0) * ((size - 1) / 2) if align_corners else ((place + 1.0) * float(size) - 1.0) * 0.5
        places.append(_within(g, place, size, padding, align_corners))
    if mode == 1:
        return _corner(g, input, [g.Round(p) for p in places], None)
    total = None
    low = [g.Floor(p) for p in places]
    part = [p - c for p, c in zip(places, low)]
    for corner in range(8):
        steps = [corner >> i & 1 for i in range(3)]
        weight = None
        for p, step in zip(part, steps):
            one = p if step else 1.0 - p
            weight = one if weight is None else weight * one
        made = _corner(g, input, [c + float(s) for c, s in zip(low, steps)], weight)
        total = made if total is None else total + made
    return total


def _within(g, place, size, padding, align_corners):
    """Return the places beyond the ends: as they are (0), at the end (1), reflected (2)."""
    # The span is zero here, and a remainder of a division by zero is NaN.
    if padding == 2 and size == 1 and align_corners:
        return place * 0.0
    if padding == 2:
        low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
        # Reflection repeats after twice the span: the first half goes up, the second one comes back.
        away = g.Mod(g.Abs(place - low), 2 * span, fmod=1)
        place = g.Min(away, 2 * span - away) + low
    return g.clip(place, 0, size - 1) if padding else place


def _corner(g, input, corner, weight):
    """Return the elements at whole places, zeros where there are none, times a weight."""
    n, c = g.shape_of(input)[:2]
    inside, at = None, None
    for place, size in reversed([*zip(corner, reversed(input.shape[2:]))]):  # z, y, x
        there = g.And(g.GreaterOrEqual(place, 0.0), g.LessOrEqual(place, float(size - 1)))
        inside = there if inside is None else g.And(inside, there)
        index = g.cast(g.clip(place, 0, size - 1), "int64")
        at = index if at is None else at * size + index
    flat = g.reshape(input, [n, c, int(np.prod(input.shape[2:]))])
    line = g.reshape(at, [n, 1, -1])
    line.shape = (line.shape[0], 1, None)
    channels = g.Tile(line, g.sizes([1, c, 1]))  # the same places for every channel
    found = g.GatherElements(flat, channels, axis=2)
    # The indices were clipped, so a place outside has read some element: the factor 0 removes it.
    factor = g.cast(inside, input.dtype) if weight is None else g.where(inside, weight, 0.0)
    made = g.reshape(found, [n, c, *g.shape_of(at)[1:]])
    return made * g.unsqueeze(factor, 1)


@op("affine_grid_generator")
def affine_grid_generator(g, theta, size, align_corners):
    if g.opset >= 20:
        return g.AffineGrid(theta, g.sizes(size), align_corners=int(bool(align_corners)))
    if not all(isinstance(s, int) for s in size):
        raise NotImplementedError(f"onnx.export: affine_grid of sizes that vary needs opset 20, got {g.opset}")
    return _grid(g, theta, size, align_corners)


def _grid(g, theta, size, align_corners):
    planes = size[2:]
    # Without align_corners -1 and 1 are the edges of the outer pixels, half a pixel beyond their centers.
    lines = [np.linspace(-1, 1, s) * (1 if align_corners else (s - 1) / s) for s in planes]
    points = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(planes)], axis=-1)
    flat = g.constant(points.reshape(1, -1, len(planes) + 1), theta.dtype)
    return g.reshape(g.MatMul(flat, g.transpose(theta, 1, 2)), [size[0], *planes, len(planes)])
