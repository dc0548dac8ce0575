"""Provide DLPack as functions."""

from facula import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
