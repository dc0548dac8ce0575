"""Classes whose file is not the module that they belong to."""

from __future__ import annotations


def belong_to(module: str, *classes: type) -> None:
    """Says that the classes are of `module`: files of whole modules name them by it, as PyTorch's files do."""
    for cls in classes:
        cls.__module__ = module
