"""`scan` (facula/functions/control_flow.py)."""

from facula.functions.control_flow import scan

__all__ = ["scan"]
