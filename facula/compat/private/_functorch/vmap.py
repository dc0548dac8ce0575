"""`torch._functorch.vmap`: PyTorch's private name of `facula.func._batching`."""

import sys

from facula.func import _batching

sys.modules[__name__] = _batching
