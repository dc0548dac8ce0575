"""`torch._functorch.aot_autograd`: PyTorch's private name of `facula.compiler._aot`."""

import sys

from facula.compiler import _aot

sys.modules[__name__] = _aot
