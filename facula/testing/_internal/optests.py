"""Check operators that programs register."""

from facula.library import opcheck

__all__ = ["opcheck"]
