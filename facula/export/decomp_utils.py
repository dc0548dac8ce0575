"""Define the table of rules by which `ExportedProgram.run_decompositions` decomposes operators."""

from __future__ import annotations

from typing import Any

__all__ = ["CustomDecompTable"]


class CustomDecompTable(dict):
    """Map operators (``torch.ops.aten.linear.default``) to their rules: an operator without one stays; rules may be added.

    >>> table = torch.export.default_decompositions()
    >>> rule = table.pop(torch.ops.aten.linear.default)
    >>> type(table).__name__, torch.ops.aten.linear.default in table.materialize()
    ('CustomDecompTable', False)
    >>> program = torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),)).run_decompositions(table)
    >>> [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    ['aten.linear.default']
    """

    def materialize(self) -> dict[Any, Any]:
        """Return a plain dict."""
        return dict(self)

    def copy(self) -> CustomDecompTable:
        return CustomDecompTable(self)
