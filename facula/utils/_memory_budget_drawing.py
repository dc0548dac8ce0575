"""Draw a memory budget: memory over one step in bands, with marks where bytes were evicted and where ops ran again."""

from __future__ import annotations

import html
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from facula._shared.quantities import size_text, time_text

if TYPE_CHECKING:
    from typing import Any

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP = 880, 280, 76, 20, 66  # of the plot, and around it
_ROW, _MOST_ROWS, _COLUMNS = 20, 12, 880
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1b1f24}.small{font-size:11px;fill:#57606a}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.grid{stroke:#d0d7de;stroke-width:1}.bound{stroke:#cf222e;stroke-width:1.5}"
    ".plain{stroke:#57606a;stroke-width:1.2;stroke-dasharray:4 3;fill:none}.gone{fill:#cf222e}.again{fill:#0969da}"
)
_BANDS = (
    ("base", "#8c959f"),
    ("gradients", "#d4a72c"),
    ("saved and here", "#54aeff"),
    ("the rest", "#c297ff"),
)


class Step(NamedTuple):
    """Hold the data of a picture; times are in nanoseconds, memory in bytes."""

    begin: int
    end: int
    backward: tuple[int, int] | None  # the pass that the step ends with
    samples: list[tuple[int, int, int, int, int]]  # time, held, saved, gone, gradients; one may be before the begin
    events: list[Any]  # (time, op, place, shape, dtype, bytes, cause, ns)
    limit: int


def _ticks(most, steps, count=5):
    """Round numbers from 0 to `most`; `steps` are the sizes that are round."""
    step = next((size for size in steps if most / size <= count), steps[-1])
    return [step * i for i in range(int(most / step) + 1)]


def _times(seconds):
    return _ticks(seconds, [m * 10.0**e for e in range(-6, 6) for m in (1, 2, 5)], 8)


def _sizes(most):
    return _ticks(most, [m * 2**e for e in range(0, 50, 10) for m in (1, 2, 5, 10, 20, 50, 100, 200, 500)])


def bands_of(step: Step) -> list[tuple[int, tuple[int, int, int, int], int]]:
    """Return (time, bytes of each band, bytes that would be held without a budget) of each sample.

    The base is the least that is held in the step. Gradients are those that backward passes made; those of the pass before
    count until memory is least, which is when they have gone.
    """
    base = min(held for _, held, *_ in step.samples)
    least = next(i for i, sample in enumerate(step.samples) if sample[1] == base)
    rows = []
    for i, (time, held, saved, gone, gradients) in enumerate(step.samples):
        left = held - base
        saved = min(saved, left)
        stale = i > least and (step.backward is None or time < step.backward[0])
        kept = 0 if stale else min(gradients, left - saved)
        rows.append((max(time, step.begin), (base, kept, saved, left - saved - kept), held + gone))
    return rows


class _Plot:
    def __init__(self, step):
        self.step = step
        self.rows = self.thinned(bands_of(step))
        self.seconds = max(step.end - step.begin, 1) / 1e9
        self.most = max(step.limit, *(max(sum(bands), plain) for _, bands, plain in self.rows), 1) * 1.05
        self.parts: list[str] = []

    def x(self, time):
        return _LEFT + _WIDTH * (time - self.step.begin) / max(self.step.end - self.step.begin, 1)

    def y(self, size):
        return _TOP + _HEIGHT * (1 - size / self.most)

    def thinned(self, rows):
        """Return the row with most bytes of each column of the picture."""
        most: dict[int, Any] = {}
        for row in rows:
            column = int((row[0] - self.step.begin) * _COLUMNS / max(self.step.end - self.step.begin, 1))
            if column not in most or sum(row[1]) >= sum(most[column][1]):
                most[column] = row
        return list(most.values())

    def text(self, x, y, text, kind=""):
        name = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{name}>{html.escape(text)}</text>')

    def box(self, x, y, width, height, color, opacity):
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect {place} fill="{color}" fill-opacity="{opacity}"/>')

    def line(self, x1, y1, x2, y2, kind):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def outline(self, value):
        """Return the corners of a line that keeps each value until the next one."""
        corners = []
        for i, row in enumerate(self.rows):
            until = self.rows[i + 1][0] if i + 1 < len(self.rows) else self.step.end
            corners += [(self.x(row[0]), self.y(value(row))), (self.x(until), self.y(value(row)))]
        return corners

    def axes(self):
        if backward := self.step.backward:
            left, right = self.x(max(backward[0], self.step.begin)), self.x(backward[1])
            self.box(left, _TOP, right - left, _HEIGHT, "#57606a", 0.07)
            self.text((left + right) / 2, _TOP + 14, "backward", "small middle")
        for size in _sizes(self.most):
            self.line(_LEFT, self.y(size), _LEFT + _WIDTH, self.y(size), "grid")
            self.text(_LEFT - 6, self.y(size) + 4, size_text(size), "small end")
        for seconds in _times(self.seconds):
            x = _LEFT + _WIDTH * seconds / self.seconds
            self.line(x, _TOP + _HEIGHT, x, _TOP + _HEIGHT + 4, "grid")
            self.text(x, _TOP + _HEIGHT + 32, time_text(seconds) if seconds else "0", "small middle")

    def bands(self):
        below = self.outline(lambda row: 0)
        for i, (name, color) in enumerate(_BANDS):
            above = self.outline(lambda row, i=i: sum(row[1][: i + 1]))
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in above + below[::-1])
            self.parts.append(f'<polygon points="{corners}" fill="{color}" fill-opacity=".8"><title>{name}</title></polygon>')
            below = above
        if any(plain > sum(bands) for _, bands, plain in self.rows):
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in self.outline(lambda row: row[2]))
            self.parts.append(f'<polyline points="{corners}" class="plain"><title>without a budget</title></polyline>')
        if self.step.limit:
            self.line(_LEFT, self.y(self.step.limit), _LEFT + _WIDTH, self.y(self.step.limit), "bound")
            self.text(_LEFT + _WIDTH, self.y(self.step.limit) - 4, f"budget {size_text(self.step.limit)}", "small end")

    def marks(self, causes, kind, y, down):
        """Return a triangle for each place of the picture where something happened, with what it was."""
        places = defaultdict(list)
        for event in self.step.events:
            if event[6] in causes:
                places[round(self.x(event[0]) / 3) * 3].append(event)
        for x, events in places.items():
            total = size_text(sum(event[5] for event in events))
            named = sorted({f"{event[1] or 'an op'} {event[2]}".rstrip() for event in events})
            what = f"{len(events)} x, {total}: " + ", ".join(named[:4]) + (", ..." if len(named) > 4 else "")
            tip = y + (6 if down else -6)
            self.parts.append(f'<path class="{kind}" d="M{x - 3} {y}h6L{x} {tip}z"><title>{html.escape(what)}</title></path>')
        return sum(map(len, places.values()))

    def legend(self, gone, again):
        x = _LEFT
        for name, color in _BANDS:
            self.box(x, 34, 11, 11, color, 0.8)
            self.text(x + 16, 44, name, "small")
            x += 30 + 6.5 * len(name)
        for down, kind, name in ((True, "gone", f"let go ({gone:,})"), (False, "again", f"run again ({again:,})")):
            y = 36 if down else 43
            self.parts.append(f'<path class="{kind}" d="M{x} {y}h8L{x + 4} {y + (8 if down else -8)}z"/>')
            self.text(x + 14, 44, name, "small")
            x += 28 + 6.5 * len(name)
        self.line(x, 40, x + 16, 40, "plain")
        self.text(x + 22, 44, "without a budget", "small")

    def time_by_op(self, y):
        """Draw bars of the time that was spent in ops run again; return where they end."""
        sums: dict[str, list[float]] = defaultdict(lambda: [0, 0])
        for _, op, place, _, _, _, cause, ns in self.step.events:
            if cause in ("again", "moved back"):
                entry = sums[f"{op or 'an op'} {place}".rstrip() + (" (moved back)" if cause == "moved back" else "")]
                entry[0] += ns / 1e9
                entry[1] += 1
        total = sum(seconds for seconds, _ in sums.values())
        title = f"run again: {time_text(total)} of {time_text(self.seconds)}" if sums else "nothing was run again"
        self.text(_LEFT, y, title)
        ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))[:_MOST_ROWS]
        longest = max((seconds for _, (seconds, _) in ordered), default=0) or 1
        for name, (seconds, count) in ordered:
            y += _ROW
            width = (_WIDTH - 480) * seconds / longest
            self.text(_LEFT + 270, y + 4, name if len(name) <= 44 else name[:43] + "…", "small end")
            self.box(_LEFT + 278, y - 6, max(width, 1), 12, "#0969da", 0.7)
            self.text(_LEFT + 284 + width, y + 4, f"{time_text(seconds)}, {count:,} x", "small")
        if len(sums) > _MOST_ROWS:
            y += _ROW
            self.text(_LEFT + 270, y + 4, f"and {len(sums) - _MOST_ROWS} others", "small end")
        return y


def drawing(step: Step) -> str:
    """Return the text of the SVG file."""
    plot = _Plot(step)
    plot.axes()
    plot.bands()
    gone = plot.marks(("request", "moved away"), "gone", _TOP - 8, True)
    again = plot.marks(("again", "moved back"), "again", _TOP + _HEIGHT + 14, False)
    plot.text(_LEFT, 20, f"Memory over one step of {time_text(plot.seconds)}")
    plot.legend(gone, again)
    height = plot.time_by_op(_TOP + _HEIGHT + 66) + 24
    width = _LEFT + _WIDTH + _RIGHT
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><title>A memory budget</title><style>{_STYLE}</style>'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, ground, *plot.parts, "</svg>", ""])
