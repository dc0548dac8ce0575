"""`cond` (facula/functions/control_flow.py)."""

from facula.functions.control_flow import cond

__all__ = ["cond"]
