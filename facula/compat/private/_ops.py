"""Provide `facula._operators.namespaces` under PyTorch's private name, `torch._ops`."""

import sys

from facula._operators import namespaces

sys.modules[__name__] = namespaces
