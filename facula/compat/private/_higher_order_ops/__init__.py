"""Provide control flow on values under the names that PyTorch's programs use."""

from facula._higher_order_ops.cond import cond
from facula._higher_order_ops.map import map
from facula._higher_order_ops.scan import scan
from facula._higher_order_ops.while_loop import while_loop
from facula.functions.associative_scan import associative_scan

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
