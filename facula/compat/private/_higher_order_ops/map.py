"""`map` (facula/functions/control_flow.py)."""

from facula.functions.control_flow import map

__all__ = ["map"]
