"""Drawings of what norms share and of masks of attention on the API's pages."""

from __future__ import annotations

from collections.abc import Callable

from pictures import BLUE, COLORS, add
from windows import cells, fit, panels


def normed(which: str) -> Callable[[], None]:
    groups: dict[str, Callable[[int, int], int]] = {
        "BatchNorm": lambda n, c: c, "LayerNorm": lambda n, c: n, "InstanceNorm": lambda n, c: n * 8 + c * 2,
        "GroupNorm": lambda n, c: n * 3 + c // 2,
    }  # fmt: skip

    def draw() -> None:
        for axes, (name, group) in zip(panels(4, 7.0, 1.7), groups.items()):
            for n in range(3):
                for c in range(4):
                    cells(axes, 1, 1, c, n, COLORS[group(n, c) % 5], 0.6)
            axes.set_title(name, fontweight="bold" if name == which else "normal")
            axes.text(2, -3.6, "channels", ha="center", fontsize=8)
            axes.text(-0.5, -1.5, "samples", ha="center", va="center", rotation=90, fontsize=8)
            fit(axes, 4, 3.9, left=-0.7)

    return draw


_said = (
    "Three samples of four channels; what shares mean and variance has one color: in BatchNorm a channel of all samples, in "
    "LayerNorm all of a sample, in InstanceNorm one channel of one sample, in GroupNorm two channels of a sample"
)
for _kind, _names in {
    "BatchNorm": "nn.BatchNorm1d nn.BatchNorm2d nn.BatchNorm3d nn.functional.batch_norm nn.SyncBatchNorm",
    "LayerNorm": "nn.LayerNorm nn.functional.layer_norm",
    "InstanceNorm": "nn.InstanceNorm1d nn.InstanceNorm2d nn.InstanceNorm3d nn.functional.instance_norm",
    "GroupNorm": "nn.GroupNorm nn.functional.group_norm",
}.items():
    add(_names, _said, normed(_kind))


def mask(axes, title: str, allowed: Callable[[int, int], bool], size: int = 8) -> None:
    chosen = [(q, k) for q in range(size) for k in range(size) if allowed(q, k)]
    cells(axes, size, size, color=BLUE, alpha=0.7, line=0.4, chosen=chosen)
    axes.set_title(title)
    axes.text(size / 2, -size - 0.9, "keys", ha="center", fontsize=8)
    axes.text(-0.8, -size / 2, "queries", ha="center", va="center", rotation=90, fontsize=8)
    fit(axes, size, size + 1.2, left=-1.2)


def masks() -> None:
    first, second, third, fourth = panels(4, 8.2, 2.2)
    document = [0, 0, 0, 1, 1, 2, 2, 2]
    mask(first, "causal", lambda q, k: k <= q)
    mask(second, "window", lambda q, k: abs(q - k) <= 2)
    mask(third, "padding", lambda q, k: k < 5)
    mask(fourth, "blocks", lambda q, k: document[q] == document[k])


add(
    "nn.functional.scaled_dot_product_attention nn.MultiheadAttention nn.functional.multi_head_attention_forward "
    "nn.attention.flex_attention.flex_attention nn.attention.flex_attention.create_block_mask "
    "nn.attention.flex_attention.create_mask nn.Transformer nn.TransformerEncoderLayer nn.TransformerDecoderLayer",
    "Masks of attention, a cell for each pair of a query and a key that it may see: causal (keys up to the query), a window "
    "around the query, padding (the last keys are left out), blocks (pairs of the same document)",
    masks,
)


def causal_corners() -> None:
    first, second = panels(2, 4.6, 1.9)
    for axes, title, shift in ((first, "upper left", 0), (second, "lower right", 3)):
        chosen = [(q, k) for q in range(4) for k in range(7) if k <= q + shift]
        cells(axes, 4, 7, color=BLUE, alpha=0.7, line=0.4, chosen=chosen)
        axes.set_title(title)
        fit(axes, 7, 4)


add(
    "nn.attention.bias.CausalBias nn.attention.bias.causal_upper_left nn.attention.bias.causal_lower_right",
    "Causal masks of 4 queries and 7 keys: the triangle begins in the upper left corner, or ends in the lower right one",
    causal_corners,
)
