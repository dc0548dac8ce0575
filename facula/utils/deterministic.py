"""Whether memory of new tensors is filled when algorithms have to be deterministic: it is not, and cannot be."""

import sys
import types


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """False. Setting it to True raises NotImplementedError: `empty` gives memory as it is."""
        return False

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        if not isinstance(mode, bool):
            raise TypeError(f"fill_uninitialized_memory: expected a bool, got {type(mode).__name__}")
        if mode:
            raise NotImplementedError("fill_uninitialized_memory: memory of new tensors is not filled (use zeros), got True")


sys.modules[__name__].__class__ = _Deterministic
