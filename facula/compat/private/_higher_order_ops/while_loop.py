"""Provide `while_loop` (facula/functions/control_flow.py) under PyTorch's private name."""

from facula.functions.control_flow import while_loop

__all__ = ["while_loop"]
