"""The core's ops under the names that nn uses; an op that a build lacks says so by name when it is called."""

from __future__ import annotations

import facula
from facula import _C


def _find(home, name: str):
    try:
        return getattr(home, name)
    except AttributeError:
        pass

    def missing(*args, **kwargs):
        raise NotImplementedError(f"{name}: this build of the core has no such op, got a call")

    missing.__name__ = name
    return missing


def op(name: str):
    """``facula.<name>``."""
    return _find(facula, name)


def functional_op(name: str):
    """``facula._C.nn_functional.<name>``."""
    return _find(_C.nn_functional, name)
