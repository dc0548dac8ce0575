"""Format tables of text for people to read."""

from __future__ import annotations


def table(columns, rows, left: int = 1) -> list[str]:
    """Return the lines with the names of the columns, a rule, and the rows; all but the first `left` columns end at the
    right."""
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]

    def line(cells):
        pairs = zip(cells, widths, strict=True)
        return "  ".join(cell.ljust(width) if i < left else cell.rjust(width) for i, (cell, width) in enumerate(pairs)).rstrip()

    return [line(columns), "  ".join("-" * width for width in widths), *map(line, rows)]
