"""Provide `facula._tensor.fake` under PyTorch's private name, `torch._subclasses.fake_tensor`."""

import sys

from facula._tensor import fake

sys.modules[__name__] = fake
