"""Print the signature, ops, sizes and costs of an exported program, and draw it: `python -m facula.export program.pt2`.

python -m facula.export model.pt2
python -m facula.export model.pt2 --text            # every node
python -m facula.export model.pt2 --svg model.svg   # a picture; --dot for Graphviz
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from facula import export
from facula._shared.text_table import table
from facula.export._costs import Costs
from facula.export._draw import Drawing, _shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula.export.exported_program import ExportedProgram


def _scaled(number, unit):
    """Return 1234567 as "1.23 M"."""
    for word in ("", "k", "M", "G", "T"):
        if number < 1000 or word == "T":
            return f"{number:.3g} {word}{unit}".rstrip()
        number /= 1000


def summary(exported: ExportedProgram, most: float = 20) -> str:
    """Return the text that the command prints.

    Args:
        exported: an ExportedProgram.
        most: how many ops are listed.
    """
    program = exported.program
    costs, values = Costs(program), program.values
    held = {"parameter": [0, 0, 0], "buffer": [0, 0, 0], "constant": [0, 0, 0]}
    lines = ["inputs"]
    for kind, number, path, _, tensor, constant in program.inputs:
        if kind == "user":
            shown = "" if constant is None else f" = {constant!r}"
            lines.append(f"  {path}: {_shape(values[number])}{shown}")
        else:
            for i, n in enumerate((1, tensor.numel(), tensor.numel() * tensor.itemsize)):
                held[kind][i] += n
    lines.append("results")
    for kind, value in program.outputs:
        lines.append(f"  {values[value][0]}: {_shape(values[value])}" if kind == "value" else f"  {value!r}")
    if program.symbols:
        lines.append("sizes that vary")
        for name, least, largest, sample in program.symbols:
            lines.append(f"  {name} from {least} to {'any' if largest is None else largest}, recorded with {sample}")
        lines += [f"  where {condition}" for condition, _ in program.guards]
    lines.append("holds")
    for kind, (count, elements, size) in held.items():
        if count:
            lines.append(f"  {count} {kind}s: {_scaled(elements, '')} elements, {_scaled(size, 'B')}")
    total, ops = costs.total(), costs.by_op()
    needs = f"{_scaled(total.operations, '')} operations a run, at most {_scaled(costs.peak(), 'B')} of values at once"
    lines.append(f"ops: {total.count} nodes of {len(ops)} kinds, {needs}")
    rows = [
        [name.removesuffix(".default"), str(c.count), _scaled(c.operations, ""), _scaled(c.read, "B"), _scaled(c.written, "B")]
        for name, c in list(ops.items())[:most]
    ]
    lines += ["", *table(["op", "nodes", "operations", "reads", "writes"], rows)]
    if len(ops) > most:
        lines.append(f"... and {len(ops) - most} kinds more")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m facula.export", description=__doc__.splitlines()[0])
    parser.add_argument("program", help="a file that export.save wrote, of Facula or PyTorch")
    parser.add_argument("--text", action="store_true", help="print every node")
    parser.add_argument("--dot", metavar="FILE", help="write a drawing in the DOT language")
    parser.add_argument("--svg", metavar="FILE", help="write a picture")
    parser.add_argument("--most", type=int, default=20, help="how many kinds of ops to list")
    options = parser.parse_args(arguments)
    try:
        exported = export.load(options.program)
    except (OSError, RuntimeError) as error:
        print(f"{options.program}: {error}", file=sys.stderr)
        return 1
    print(exported.program.text() if options.text else summary(exported, options.most))
    drawing = Drawing(exported.program)
    for path, make in ((options.dot, drawing.dot), (options.svg, drawing.svg)):
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
