"""Drawings on the API's pages that consist of cells: windows of convolutions and pooling, padding, interpolation and
grids."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from matplotlib.patches import FancyArrowPatch, Rectangle
from pictures import BLUE, COLORS, GREEN, INK, ORANGE, add, plt

import facula
from facula import nn

F = nn.functional


def panels(count: int, width: float = 6.6, height: float = 2.4) -> list:
    """Return axes beside each other, without frames."""
    _, found = plt.subplots(1, count, figsize=(width, height), squeeze=False)
    for axes in found[0]:
        axes.set_aspect("equal")
        axes.axis("off")
    return list(found[0])


def cells(
    axes,
    rows: int,
    columns: int,
    x: float = 0,
    y: float = 0,
    color: str = "none",
    alpha: float = 0.35,
    line: float = 0.8,
    dashed: bool = False,
    text: Callable[[int, int], str] | None = None,
    chosen: Iterable[tuple[int, int]] | None = None,
) -> None:
    """Draw a grid of cells downwards from (x, y); the chosen ones, or all, have a color."""
    marked = None if chosen is None else set(chosen)
    for row in range(rows):
        for column in range(columns):
            place = (x + column, -y - row - 1)
            filled = color != "none" and (marked is None or (row, column) in marked)
            if filled:
                axes.add_patch(Rectangle(place, 1, 1, facecolor=color, alpha=alpha, edgecolor="none"))
            style = {"linestyle": (0, (2, 2))} if dashed else {}
            axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=INK, linewidth=line, **style))
            if text is not None:
                axes.text(place[0] + 0.5, place[1] + 0.48, text(row, column), ha="center", va="center", fontsize=8)


def frame(axes, x: float, y: float, width: float, height: float, color: str = ORANGE) -> None:
    axes.add_patch(Rectangle((x, -y - height), width, height, fill=False, edgecolor=color, linewidth=2))


def arrow(axes, start: tuple[float, float], end: tuple[float, float], color: str = INK) -> None:
    axes.add_patch(
        FancyArrowPatch(
            (start[0], -start[1]),
            (end[0], -end[1]),
            arrowstyle="-|>",
            mutation_scale=8,
            color=color,
            shrinkA=0,
            shrinkB=0,
            linewidth=1,
        )
    )


def fit(axes, right: float, bottom: float, left: float = 0, top: float = 0) -> None:
    axes.set_xlim(left - 0.2, right + 0.2)
    axes.set_ylim(-bottom - 0.2, -top + 0.2)


# ---- Convolutions


def convolution(axes, title: str, size: int, kernel: int = 3, stride: int = 1, padding: int = 0, dilation: int = 1) -> None:
    """Draw an input, a window of the convolution, and the output with the element that comes from it."""
    whole, reach = size + 2 * padding, dilation * (kernel - 1) + 1
    out = (whole - reach) // stride + 1
    cells(axes, whole, whole, dashed=True, line=0.5) if padding else None
    cells(axes, size, size, padding, padding, BLUE)
    for at, color in ((0, ORANGE), (1, GREEN)):
        step = at * stride
        chosen = [(dilation * i, step + dilation * j) for i in range(kernel) for j in range(kernel)]
        cells(axes, whole, whole, color=color, alpha=0.45, line=0, chosen=chosen) if at == 0 or dilation > 1 else None
        frame(axes, step, 0, reach, reach, color)
    start = whole + 1.6
    middle = (whole - out) / 2
    cells(axes, out, out, start, middle, INK, 0.12)
    cells(axes, 1, 1, start, middle, ORANGE, 0.6)
    cells(axes, 1, 1, start + 1, middle, GREEN, 0.6)
    arrow(axes, (whole + 0.3, whole / 2), (start - 0.3, whole / 2))
    axes.set_title(title)
    fit(axes, start + out, whole)


def four_windows(draw, height: float, sizes: tuple[int, ...]) -> None:
    """Draw a plain window, one with stride, one with padding and one with dilation, over inputs of these sizes."""
    cases = ("kernel_size 3", {}), ("stride 2", {"stride": 2}), ("padding 1", {"padding": 1}), ("dilation 2", {"dilation": 2})
    for axes, size, (title, how) in zip(panels(4, 8.6, height), sizes, cases, strict=True):
        draw(axes, title, size, **how)


def convolutions() -> None:
    four_windows(convolution, 2.0, (5, 5, 5, 7))


add(
    "nn.Conv2d nn.functional.conv2d conv2d nn.Conv3d nn.functional.conv3d conv3d",
    "Inputs, their first two windows and the elements of the output that come from them: a window of 3 by 3; with stride 2 the "
    "windows are two elements apart; with padding 1 the output keeps the size; with dilation 2 there are gaps in the window",
    convolutions,
)


def line_of(
    axes, title: str, size: int, kernel: int = 3, stride: int = 1, padding: int = 0, dilation: int = 1, across: bool = False
) -> None:
    """Draw a convolution over one dimension as lines from windows to elements; across it is the transposed one."""
    whole, reach = size + 2 * padding, dilation * (kernel - 1) + 1
    out = (whole - reach) // stride + 1
    shift = (whole - (out - 1) * stride - 1) / 2
    top, bottom = (3, 0) if across else (0, 3)
    cells(axes, 1, whole, 0, top, line=0.5, dashed=True)
    cells(axes, 1, size, padding, top, BLUE)
    for element in range(out):
        color = COLORS[element % len(COLORS)]
        place = shift + element * stride
        cells(axes, 1, 1, place, bottom, color, 0.6)
        for i in range(kernel):
            x = element * stride + i * dilation + 0.5
            ends = ([x, place + 0.5], [-top - (0 if across else 1), -bottom - (1 if across else 0)])
            axes.plot(*ends, color=color, linewidth=1)
    axes.set_title(title)
    fit(axes, whole, 4)


def convolutions_of_lines() -> None:
    four_windows(line_of, 1.7, (6, 7, 6, 8))


add(
    "nn.Conv1d nn.functional.conv1d conv1d",
    "Elements of the output, below, and the elements of the input, above, from which each comes: three neighbors; with stride "
    "2 every second window; with padding 1 also windows that reach over the ends; with dilation 2 every second element",
    convolutions_of_lines,
)


def transposed_lines() -> None:
    first, second, third = panels(3, 7.6, 1.7)
    line_of(first, "kernel_size 3", 7, across=True)
    line_of(second, "stride 2", 7, stride=2, across=True)
    line_of(third, "stride 2, padding 1", 5, stride=2, padding=1, across=True)


add(
    " ".join(f"nn.ConvTranspose{n}d nn.functional.conv_transpose{n}d conv_transpose{n}d" for n in (1, 2, 3)),
    "Elements of the input, above, and the elements of the output, below, to which each is added: three neighbors; with "
    "stride 2 they are two elements apart, so the output is larger; padding 1 cuts one element off at each end",
    transposed_lines,
)

# ---- Pooling


NUMBERS = facula.tensor([[1.0, 3, 2, 0], [4, 6, 1, 2], [7, 2, 5, 1], [0, 3, 4, 8]])


def table(axes, values: facula.Tensor, x: float, y: float, colors: Callable[[int, int], str]) -> None:
    rows, columns = values.shape
    for row in range(rows):
        for column in range(columns):
            text = f"{values[row, column].item():.4g}"
            cells(axes, 1, 1, x + column, y + row, colors(row, column), 0.35, text=lambda r, c, text=text: text)


def pooled(result: facula.Tensor) -> Callable[[], None]:
    def draw() -> None:
        (axes,) = panels(1, 3.6, 1.9)
        table(axes, NUMBERS, 0, 0, lambda r, c: COLORS[r // 2 * 2 + c // 2])
        table(axes, result, 6, 1, lambda r, c: COLORS[r * 2 + c])
        arrow(axes, (4.3, 2), (5.7, 2))
        fit(axes, 8, 4)

    return draw


def pools(name: str, function: str) -> str:
    return " ".join(f"nn.{name}{n}d nn.functional.{function}{n}d" for n in (1, 2, 3))


_said = "4 by 4 numbers in four windows of 2 by 2, and the four {}"
add(pools("MaxPool", "max_pool"), _said.format("maxima"), pooled(F.max_pool2d(NUMBERS[None], 2)[0]))
add(pools("AvgPool", "avg_pool"), _said.format("means"), pooled(F.avg_pool2d(NUMBERS[None], 2)[0]))
add(pools("LPPool", "lp_pool"), _said.format("roots of the sums of squares"), pooled(F.lp_pool2d(NUMBERS[None], 2.0, 2)[0]))


def unpooled() -> None:
    (axes,) = panels(1, 3.6, 1.9)
    values, places = F.max_pool2d(NUMBERS[None], 2, return_indices=True)
    back = F.max_unpool2d(values, places, 2)[0]
    table(axes, values[0], 0, 1, lambda r, c: COLORS[r * 2 + c])
    table(axes, back, 4, 0, lambda r, c: COLORS[r // 2 * 2 + c // 2] if back[r, c] else "none")
    arrow(axes, (2.3, 2), (3.7, 2))
    fit(axes, 8, 4)


add(pools("MaxUnpool", "max_unpool"), "Four maxima go back to where they were among 4 by 4 numbers; the others are 0", unpooled)


def adaptive() -> None:
    (axes,) = panels(1, 4.4, 1.6)
    size, out = 7, 3
    cells(axes, 1, size, color=BLUE, alpha=0.15)
    for at in range(out):
        begin, end = at * size // out, -(-(at + 1) * size // out)
        place = (at + 0.5) * size / out - 0.5
        cells(axes, 1, 1, place, 3, COLORS[at], 0.6)
        frame(axes, begin, 0.08 * at, end - begin, 1, COLORS[at])
        axes.plot([begin, place, place + 1, end], [-1, -3, -3, -1], color=COLORS[at], linewidth=1)
    fit(axes, size, 4)


add(
    pools("AdaptiveAvgPool", "adaptive_avg_pool") + " " + pools("AdaptiveMaxPool", "adaptive_max_pool"),
    "Seven elements and an output of three: the windows have three elements and overlap by one, so that they cover all",
    adaptive,
)


def unfolded() -> None:
    (axes,) = panels(1, 5.4, 2.2)
    cells(axes, 3, 3, 0, 0.5, text=lambda r, c: str(r * 3 + c))
    for at, (r, c) in enumerate((r, c) for r in range(2) for c in range(2)):
        inset = 0.05 + 0.05 * at
        frame(axes, c + inset, r + 0.5 + inset, 2 - 2 * inset, 2 - 2 * inset, COLORS[at])
        for i, (y, x) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
            text = str((r + y) * 3 + c + x)
            cells(axes, 1, 1, 5 + 1.3 * at, i, COLORS[at], text=lambda a, b, text=text: text)
    arrow(axes, (3.3, 2), (4.7, 2))
    fit(axes, 10, 4)


add(
    "nn.Unfold nn.functional.unfold",
    "Nine elements; each of the four windows of 2 by 2 becomes a column of the result",
    unfolded,
)
add(
    "nn.Fold nn.functional.fold",
    "Nine elements and four columns, one for each window of 2 by 2: Fold adds each column to its "
    "window, the way back from the columns to the elements",
    unfolded,
)


def shuffled(groups: bool) -> Callable[[], None]:
    def draw() -> None:
        (axes,) = panels(1, 4.6, 1.8)
        for at in range(4):
            cells(axes, 2, 2, 0.5 * at, 0.5 * (3 - at), COLORS[at], 0.75)
        for at in range(4):
            chosen = [(2 * r + at // 2, 2 * c + at % 2) for r in range(2) for c in range(2)]
            cells(axes, 4, 4, 6, 0, COLORS[at], 0.75, chosen=chosen)
        arrow(axes, (5.6, 1.8), (4.2, 1.8)) if groups else arrow(axes, (4.2, 1.8), (5.6, 1.8))
        fit(axes, 10, 4)

    return draw


add(
    "nn.PixelShuffle nn.functional.pixel_shuffle pixel_shuffle",
    "Four channels of 2 by 2 become one of 4 by 4: each square of four pixels has one of each channel",
    shuffled(False),
)
add(
    "nn.PixelUnshuffle nn.functional.pixel_unshuffle pixel_unshuffle",
    "One channel of 4 by 4 becomes four of 2 by 2: each takes one pixel of every square of four",
    shuffled(True),
)


def channels() -> None:
    (axes,) = panels(1, 4.4, 1.4)
    order = F.channel_shuffle(facula.arange(6.0).view(1, 6, 1, 1), 2).flatten().int().tolist()
    for at in range(6):
        cells(axes, 1, 1, at, 0, COLORS[at // 3], 0.5, text=lambda r, c, at=at: str(at))
        cells(axes, 1, 1, at, 3, COLORS[order[at] // 3], 0.5, text=lambda r, c, at=at: str(order[at]))
        axes.plot([order[at] + 0.5, at + 0.5], [-1, -3], color=COLORS[order[at] // 3], linewidth=1)
    fit(axes, 6, 4)


add(
    "nn.ChannelShuffle nn.functional.channel_shuffle channel_shuffle",
    "Six channels in two groups: after the shuffle channels of both groups alternate",
    channels,
)

# ---- Padding, interpolation, grids


def numbers(axes, mode: str) -> None:
    """Draw 1 2 3 4 with three more at each end."""
    y = F.pad(facula.arange(1.0, 5.0).view(1, 1, 4), (3, 3), mode).flatten().int().tolist()
    added = [(0, c) for c in range(10) if not 3 <= c < 7]
    cells(axes, 1, 10, color=ORANGE, alpha=0.25, chosen=added, text=lambda r, c: str(y[c]))
    cells(axes, 1, 4, 3, 0, BLUE)


def padded(mode: str) -> Callable[[], None]:
    def draw() -> None:
        (axes,) = panels(1, 5.2, 0.8)
        numbers(axes, mode)
        fit(axes, 10, 1)

    return draw


def all_padded() -> None:
    modes = ("constant", "reflect", "replicate", "circular")
    _, found = plt.subplots(4, 1, figsize=(5.2, 3.2))
    for axes, mode in zip(found, modes):
        axes.set_aspect("equal")
        axes.axis("off")
        numbers(axes, mode)
        axes.text(-0.4, -0.5, mode, ha="right", va="center")
        fit(axes, 10, 1, left=-3.5)


_said = "The numbers 1 2 3 4 with three more at each end"
add(
    "nn.functional.pad",
    f"{_said}: zeros in mode constant, 4 3 2 and 3 2 1 in reflect, the first and last one in replicate, "
    "2 3 4 and 1 2 3 in circular",
    all_padded,
)
for _class, _mode, _what in (
    ("ZeroPad", "constant", "zeros"), ("ConstantPad", "constant", "a constant, here 0"),
    ("ReflectionPad", "reflect", "4 3 2 before and 3 2 1 behind, mirrored at the ends"),
    ("ReplicationPad", "replicate", "the first and the last one again"),
    ("CircularPad", "circular", "2 3 4 before and 1 2 3 behind, as in a ring"),
):  # fmt: skip
    _names = " ".join(f"nn.{_class}{n}d" for n in (1, 2, 3))
    add(_names, f"{_said}: {_what}", padded(_mode))


def interpolated() -> None:
    _, (axes, *images) = plt.subplots(1, 5, figsize=(8.6, 1.9), width_ratios=(2.2, 1, 1, 1, 1))
    values = facula.tensor([1.0, 3.0, 2.0, 2.5, 0.5])
    places = (facula.arange(100) + 0.5) / 20 - 0.5
    for mode, color in (("nearest", ORANGE), ("linear", GREEN)):
        line = F.interpolate(values[None, None], 100, mode=mode).flatten()
        axes.plot(places.tolist(), line.tolist(), color=color, label=mode, linewidth=1.3)
    cubic = F.interpolate(values[None, None, None], (1, 100), mode="bicubic").flatten()
    axes.plot(places.tolist(), cubic.tolist(), color=BLUE, label="cubic", linewidth=1.3)
    axes.plot(range(5), values.tolist(), "o", color=INK, markersize=4)
    axes.set_ylim(0, 4.6)
    axes.legend(ncols=3, fontsize=7, loc="upper center", columnspacing=0.8, handlelength=1.2)
    square = NUMBERS[None, None]
    for made, mode in zip(images, ("nearest", "bilinear", "bicubic", "area")):
        smaller = F.interpolate(square, 2, mode="area") if mode == "area" else F.interpolate(square, 32, mode=mode)
        made.imshow(smaller[0, 0].numpy(), vmin=0, vmax=8, cmap="viridis", interpolation="nearest")
        made.set_title("area, to 2 by 2" if mode == "area" else mode)
        made.axis("off")


add(
    "nn.functional.interpolate nn.functional.upsample nn.Upsample nn.UpsamplingNearest2d nn.UpsamplingBilinear2d",
    "Five samples and what lies between: steps by nearest, lines by linear, a smooth curve that can overshoot by cubic; then a "
    "picture of 4 by 4 enlarged by nearest, bilinear and bicubic, and made smaller by area",
    interpolated,
)


def aligned() -> None:
    (axes,) = panels(1, 5.2, 2.4)
    for row, corners in enumerate((False, True)):
        y = 3.6 * row
        axes.text(-0.5, -y - 1.2, f"align_corners={corners}", ha="right", va="center")
        cells(axes, 1, 4, 0, y, BLUE)
        for at in range(4):
            axes.plot([at + 0.5], [-y - 0.5], "o", color=BLUE, markersize=5)
        for at in range(8):
            place = 0.5 + at * 3 / 7 if corners else (at + 0.5) / 2
            axes.plot([place, place], [-y - 1.1, -y - 1.5], color=ORANGE, linewidth=1)
            axes.plot([place], [-y - 1.8], "o", color=ORANGE, markersize=4)
    fit(axes, 4, 5.8, left=-4.2)


add(
    "nn.functional.interpolate nn.Upsample",
    "Where eight samples are taken between four pixels: without align_corners at the middles of eight halves, with it from the "
    "middle of the first pixel to that of the last",
    aligned,
)


def sampled() -> None:
    first, *others = panels(4, 8.2, 2.2)
    square = NUMBERS[None, None]
    turn = facula.tensor([[[1.1, -0.6, 0.2], [0.6, 1.1, 0.0]]])
    grid = F.affine_grid(turn, [1, 1, 9, 9], align_corners=False)
    first.imshow(square[0, 0].numpy(), vmin=0, vmax=8, cmap="viridis", extent=(-1, 1, 1, -1))
    first.plot(grid[0, ..., 0].flatten().tolist(), grid[0, ..., 1].flatten().tolist(), ".", color=ORANGE, markersize=3)
    first.set(xlim=(-2.1, 2.1), ylim=(2.1, -2.1), title="input and grid")
    for axes, mode in zip(others, ("zeros", "border", "reflection")):
        fine = F.affine_grid(turn, [1, 1, 48, 48], align_corners=False)
        found = F.grid_sample(square, fine, padding_mode=mode, align_corners=False)
        axes.imshow(found[0, 0].numpy(), vmin=0, vmax=8, cmap="viridis")
        axes.set_title(mode)


add(
    "nn.functional.grid_sample nn.functional.affine_grid grid_sampler",
    "A picture of 4 by 4 on the square from -1 to 1, a turned grid of points of which some are outside, and what grid_sample "
    "reads there: zeros outside, the border's colors, or the picture's reflection",
    sampled,
)
