"""Rearrange axes by patterns."""

from facula.func import rearrange

__all__ = ["rearrange"]
