"""Draw programs: as text in the DOT language, and as SVG with a layout that is computed here.

The layout has a row for each step from the inputs (a node lies below all that it takes), and every line goes down. Parameters
are named in the boxes of the ops that take them.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from facula.export._costs import _values_in

_COLORS = {"user": "#dbeafe", "op": "#f4f4f5", "result": "#dcfce7"}
_ROW, _GAP, _LETTER, _HEIGHT = 74, 24, 6.6, 40


class _Box:
    def __init__(self, kind, lines):
        self.kind, self.lines, self.row, self.x = kind, lines, 0, 0.0
        self.width = max(len(line) for line in lines) * _LETTER + 18


class Drawing:
    """Hold the boxes of a program and the lines between them.

    Args:
        program: a `_C._Program`.
    """

    def __init__(self, program):
        self.boxes, self.lines = [], []  # lines: (box, box, what goes along it)
        maker, held = {}, {}
        values = program.values
        for kind, number, path, _, _, _ in program.inputs:
            if kind == "user":
                maker[number] = self._box("user", [path, _shape(values[number])])
            else:
                held[number] = path
        for key, aten, arguments, results, *_ in program.nodes:
            made = [v for one in results for v in one]
            taken = list(_values_in(arguments))
            names = sorted({held[v] for v in taken if v in held})
            more = [", ".join(names[:2]) + (", ..." if len(names) > 2 else "")] if names else []
            box = self._box("op", [(aten or key).removesuffix(".default"), *more, *[_shape(values[v]) for v in made[:1]]])
            for v in dict.fromkeys(taken):
                if v in maker:
                    self.lines.append((maker[v], box, values[v][0]))
            maker.update(dict.fromkeys(made, box))
        for i, number in enumerate(_values_in(program.outputs)):
            box = self._box("result", [f"result {i}", _shape(values[number])])
            if number in maker:
                self.lines.append((maker[number], box, values[number][0]))

    def _box(self, kind, lines):
        self.boxes.append(_Box(kind, lines))
        return len(self.boxes) - 1

    def dot(self):
        """Return the text for Graphviz."""
        text = ["digraph program {", 'node [shape=box, style=filled, fontname="Helvetica"];']
        for i, box in enumerate(self.boxes):
            label = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in box.lines)
            text.append(f'n{i} [label="{label}", fillcolor="{_COLORS[box.kind]}"];')
        text += [f"n{a} -> n{b};" for a, b, _ in self.lines]
        return "\n".join([*text, "}", ""])

    def svg(self):
        """Return the picture."""
        rows = self._rows()
        width = max((sum(b.width + _GAP for b in row) for row in rows), default=0) + _GAP
        height = len(rows) * _ROW + 20
        text = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="11">'
        ]
        for row in rows:
            x = (width - sum(b.width + _GAP for b in row)) / 2 + _GAP / 2
            for box in row:
                box.x = x
                x += box.width + _GAP
        for a, b, _ in self.lines:
            text.append(self._line(self.boxes[a], self.boxes[b]))
        text += [line for box in self.boxes for line in self._shown(box)]
        return "\n".join([*text, "</svg>", ""])

    def _rows(self):
        """Return the boxes by row; within a row under the middle of what they take."""
        takes = {}
        for a, b, _ in self.lines:
            takes.setdefault(b, []).append(a)
        for i, box in enumerate(self.boxes):  # what a box takes comes before it
            box.row = max((self.boxes[a].row + 1 for a in takes.get(i, ())), default=0)
        rows = [[] for _ in range(max((b.row for b in self.boxes), default=-1) + 1)]
        place = {}
        for r in range(len(rows)):
            here = [i for i, box in enumerate(self.boxes) if box.row == r]
            here.sort(key=lambda i: sum(place[a] for a in takes.get(i, ())) / max(len(takes.get(i, ())), 1))
            for at, i in enumerate(here):
                place[i] = (at + 0.5) / len(here)
            rows[r] = [self.boxes[i] for i in here]
        return rows

    @staticmethod
    def _line(a, b):
        x, y = a.x + a.width / 2, 10 + a.row * _ROW + _HEIGHT + 6
        u, v = b.x + b.width / 2, 10 + b.row * _ROW
        middle = (y + v) / 2
        return f'<path d="M{x:.0f} {y} C{x:.0f} {middle:.0f} {u:.0f} {middle:.0f} {u:.0f} {v}" fill="none" stroke="#71717a"/>'

    @staticmethod
    def _shown(box):
        y = 10 + box.row * _ROW
        size = f'width="{box.width:.0f}" height="{_HEIGHT + 6}" rx="4"'
        yield f'<rect x="{box.x:.0f}" y="{y}" {size} fill="{_COLORS[box.kind]}" stroke="#a1a1aa"/>'
        for i, line in enumerate(box.lines[:3]):
            weight = ' font-weight="bold"' if i == 0 else ""
            place = f'x="{box.x + box.width / 2:.0f}" y="{y + 14 + 13 * i}" text-anchor="middle"'
            yield f"<text {place}{weight}>{escape(line)}</text>"


def _shape(value):
    _, kind, meta = value
    return kind if meta is None else f"{str(meta[0]).removeprefix('torch.')}[{', '.join(map(str, meta[1]))}]"
