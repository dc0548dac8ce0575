"""Provide `map` (facula/functions/control_flow.py) under PyTorch's private name."""

from facula.functions.control_flow import map

__all__ = ["map"]
