"""Provide control flow on values."""

from facula._higher_order_ops import cond, map

__all__ = ["cond", "map"]
