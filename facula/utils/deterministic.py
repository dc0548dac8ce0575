"""Set whether the memory of new tensors is filled while deterministic algorithms are on."""

import sys
import types

from facula import _C


class _Deterministic(types.ModuleType):
    _fill = True

    @property
    def fill_uninitialized_memory(self):
        """Return whether torch.empty and its like, and elements that resize_ adds, hold NaN, the greatest integer or True.

        Only while torch.use_deterministic_algorithms(True) holds, so that a program that reads memory before it has
        written it does the same in every run. True at first; RuntimeError for what is not a bool.
        """
        return self._fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        if not isinstance(mode, bool):
            raise RuntimeError(f"fill_uninitialized_memory: expected a bool, got {type(mode).__name__}")
        _C._set_fill_new_memory(mode)
        self._fill = mode


sys.modules[__name__].__class__ = _Deterministic
