"""Provide the state that PyTorch's compiler has while it traces. It is empty here, where no program is traced, except
for fake tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any


def active_fake_mode() -> Any:
    """Return the innermost fake mode that is on, or None."""
    from facula._subclasses import FakeTensorMode
    from facula.utils._python_dispatch import _get_current_dispatch_mode_stack

    return next((mode for mode in reversed(_get_current_dispatch_mode_stack()) if isinstance(mode, FakeTensorMode)), None)


def detect_fake_mode(inputs: Any = None) -> Any:
    """Return the fake mode that is on, or else that of the tensors among `inputs`; None where there is neither.

    Errors: AssertionError where they are of several modes.
    """
    from facula._subclasses import FakeTensor
    from facula.utils._pytree import tree_leaves

    modes = [active_fake_mode()]
    modes += [t.fake_mode for t in tree_leaves(inputs) if isinstance(t, facula.Tensor) and isinstance(t, FakeTensor)]
    modes = [mode for mode in modes if mode is not None]
    assert all(mode is modes[0] for mode in modes), f"detect_fake_mode: one fake mode, got {len(set(map(id, modes)))}"
    return modes[0] if modes else None


class TracingContext:
    """Report the program that is being traced. No compiler ever traces one here."""

    @staticmethod
    def try_get() -> None:
        """Return None: no program is being traced."""

    @staticmethod
    def get() -> None:
        """Raise RuntimeError: no program is being traced."""
        raise RuntimeError("TracingContext.get: no program is being traced, got a call outside of one")


class CompileContext:
    """Report the compilation that runs. There is none here."""

    @staticmethod
    def try_get() -> None:
        """Return None: nothing is being compiled."""

    @staticmethod
    def current_compile_id() -> None:
        """Return None: nothing is being compiled."""
