"""Provide translations by the names of the older exporter of opset 11; their nodes are those of the opset that is
written.

See `_symbolics.NAMES` for which there are. They take the graph and the op's arguments: `softmax(g, x, 1, None)`.
"""

from ._export import translation as __getattr__  # noqa: F401
