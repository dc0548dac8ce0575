"""Provide `facula.func._make_functional` under PyTorch's private name, `torch._functorch.make_functional`."""

import sys

from facula.func import _make_functional

sys.modules[__name__] = _make_functional
