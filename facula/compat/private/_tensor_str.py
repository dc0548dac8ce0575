"""`torch._tensor_str`: PyTorch's private name of `facula._tensor.printing`."""

import sys

from facula._tensor import printing

sys.modules[__name__] = printing
