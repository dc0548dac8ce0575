"""Provide `facula._tensor.printing` under PyTorch's private name, `torch._tensor_str`."""

import sys

from facula._tensor import printing

sys.modules[__name__] = printing
