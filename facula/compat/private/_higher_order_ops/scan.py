"""Provide `scan` (facula/functions/control_flow.py) under PyTorch's private name."""

from facula.functions.control_flow import scan

__all__ = ["scan"]
