"""Draw a summary: calls as boxes from top to bottom, in frames of the modules that made them."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._summary import Summary

MOST = 120  # boxes; where there are more calls, the innermost are left out
_WIDTH, _BOX, _GAP, _PAD, _TITLE = 380, 40, 18, 12, 24
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24}.small{font-size:11px;fill:#57606a}"
    ".box{fill:#fff;stroke:#57606a}.frame{fill:#0969da;fill-opacity:.05;stroke:#0969da;stroke-opacity:.35}"
    ".line{stroke:#57606a;stroke-width:1.2;fill:none}"
)


def _short(number):
    """Return a count in three digits."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return str(number)


def _cut(text, width, letter=7.3):
    """Return a text that fits into so many pixels, as XML."""
    letters = max(int(width / letter), 4)
    text = re.sub(r"[^\x20-\x7e\xa0-\ud7ff]", "?", text)
    return html.escape(text if len(text) <= letters else text[: letters - 1] + "…")


def _deep_enough(calls):
    """Return the number of levels of calls that are drawn."""
    depth, level, boxes = 0, list(calls), 0
    while level:
        boxes += len(level)
        if depth and boxes > MOST:
            return depth
        depth += 1
        level = [inner for call in level for inner in call.inside]
    return depth


class _Drawing:
    def __init__(self, held):
        self.held = held  # the parameters of a layer, by its name
        self.parts: list[str] = []
        self.last: tuple[float, float] | None = None  # where the line to the next box begins

    def text(self, x, y, text, width, small=False):
        kind = ' class="small"' if small else ""
        self.parts.append(f'<text x="{x}" y="{y}"{kind}>{_cut(text, width, 6.7 if small else 7.3)}</text>')

    def heading(self, call):
        name = call.name.rpartition(".")[2]
        return f"{name} ({call.kind})" if name else call.kind

    def box(self, call, x, y, width):
        """Draw a call without those inside; return where it ends."""
        self.line_to(x + width - 40, y)
        self.parts.append(f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{_BOX}" rx="5"/>')
        self.text(x + 10, y + 16, self.heading(call), width - 20)
        facts = [call.output]
        if parameters := self.held.get(call.name):
            facts.append(f"{_short(parameters)} parameters")
        if call.multiply_adds:
            facts.append(f"{_short(call.multiply_adds)} multiply-adds")
        self.text(x + 10, y + 32, " · ".join(facts), width - 10, small=True)
        self.last = (x + width - 40, y + _BOX)
        return y + _BOX

    def line_to(self, x, y):
        if self.last is not None:
            begin = self.last
            self.parts.append(f'<path class="line" d="M{begin[0]} {begin[1]}L{x} {y}" marker-end="url(#tip)"/>')

    def calls(self, calls, depth, x, y, width):
        """Draw calls one below the other; return where the last ends."""
        for i, call in enumerate(calls):
            y += _GAP if i else 0
            if depth <= 1 or not call.inside:
                y = self.box(call, x, y, width)
                continue
            at = len(self.parts)
            end = self.calls(call.inside, depth - 1, x + _PAD, y + _TITLE + _PAD / 2, width - 2 * _PAD) + _PAD
            self.parts.insert(at, f'<rect class="frame" x="{x}" y="{y}" width="{width}" height="{end - y}" rx="7"/>')
            self.text(x + 10, y + 17, f"{self.heading(call)} · {call.output}", width - 20, small=True)
            y = end
        return y


def drawing(summary: Summary) -> str:
    """Return the text of the SVG file."""
    depth = _deep_enough(summary.calls)
    picture = _Drawing({layer.name: layer.parameters for layer in summary.layers})
    width = _WIDTH + 2 * _PAD * (min(depth, 8) - 1)
    end = picture.calls(summary.calls, depth, _PAD, _PAD, max(width, _WIDTH))
    total = f"{summary.parameters:,} parameters, {summary.multiply_adds:,} multiply-adds"
    picture.text(_PAD, end + 20, total, width)
    size = f'width="{width + 2 * _PAD}" height="{end + 32}" viewBox="0 0 {width + 2 * _PAD} {end + 32}"'
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style><defs>{tip}</defs>'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, ground, *picture.parts, "</svg>", ""])
