"""Plain tables of text."""

from __future__ import annotations


def simple_table(rows, headers):
    """Columns under headers and a rule; numbers to the right."""
    cells = [[str(value) for value in row] for row in rows]
    numeric = [bool(rows) and all(type(row[at]) in (int, float) for row in rows) for at in range(len(headers))]
    widths = [max([len(header), *(len(row[at]) for row in cells)]) for at, header in enumerate(headers)]
    # a column of headers only is two wider, as tables of this kind are
    widths = [max(width, len(header) + 2) if rows else width for width, header in zip(widths, headers)]
    place = lambda row: "  ".join(
        text.rjust(width) if right else text.ljust(width) for text, width, right in zip(row, widths, numeric)
    ).rstrip()
    return "\n".join([place(headers), "  ".join("-" * width for width in widths), *map(place, cells)])
