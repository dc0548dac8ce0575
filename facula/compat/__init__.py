"""Run PyTorch programs unchanged, with Facula under the name `torch`.

    python -m facula train.py --epochs 3        a program
    python -m facula -m package arguments       a package

`install()` does the same inside a running interpreter. What a program merely imports exists, supported or
not; what is not supported raises NotImplementedError with its name when it is used. See aliases.py for how
the names map, placeholders.py for what is not there, run.py for how a program and its children are started. The folder
`private` is on the path of the package `facula`: its files are PyTorch's private modules that packages import.
"""

from __future__ import annotations

import sys

__all__ = ["install", "is_installed"]


def install() -> None:
    """Make `import torch` give Facula in this process from now on.

    Raises:
        RuntimeError: PyTorch, or something else called torch, is loaded already.
    """
    if is_installed():
        return
    from facula.compat.aliases import TorchFinder

    loaded = sys.modules.get("torch")
    if loaded is not None:
        where = getattr(loaded, "__file__", "unknown place")
        raise RuntimeError(f"compat.install: the name torch already belongs to a module from {where}")
    sys.meta_path.insert(0, TorchFinder())


def is_installed() -> bool:
    """Return whether `import torch` gives Facula in this process."""
    aliases = sys.modules.get("facula.compat.aliases")  # which placeholders do without
    return aliases is not None and any(isinstance(finder, aliases.TorchFinder) for finder in sys.meta_path)
