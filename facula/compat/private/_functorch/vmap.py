"""Provide `facula.func._batching` under PyTorch's private name, `torch._functorch.vmap`."""

import sys

from facula.func import _batching

sys.modules[__name__] = _batching
