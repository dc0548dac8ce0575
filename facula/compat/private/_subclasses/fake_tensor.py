"""`torch._subclasses.fake_tensor`: PyTorch's private name of `facula._tensor.fake`."""

import sys

from facula._tensor import fake

sys.modules[__name__] = fake
