"""Provide `facula.compiler._aot` under PyTorch's private name, `torch._functorch.aot_autograd`."""

import sys

from facula.compiler import _aot

sys.modules[__name__] = _aot
