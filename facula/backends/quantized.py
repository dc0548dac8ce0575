"""Choose the engine of quantized kernels. There is one set of kernels under the names of PyTorch's engines, which
differ in how prepared networks are configured.
"""

from __future__ import annotations

import sys
import types

from facula import _C

supported_engines: list[str] = ["qnnpack", "onednn", "x86", "fbgemm"]


class _Engines(types.ModuleType):
    _engine = "x86"

    @property
    def engine(self):
        """The name of the engine: "x86" unless the program sets another. The kernels are the same for all."""
        return self._engine

    @engine.setter
    def engine(self, value):
        if value not in supported_engines:
            raise RuntimeError(f"quantized.engine: the engine must be {_C._one_of(value, supported_engines)}")
        self._engine = value


sys.modules[__name__].__class__ = _Engines
