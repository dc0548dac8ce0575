"""Provide `cond` (facula/functions/control_flow.py) under PyTorch's private name."""

from facula.functions.control_flow import HIGHER_ORDER, cond

__all__ = ["cond", "cond_op"]
cond_op = HIGHER_ORDER["cond"]
