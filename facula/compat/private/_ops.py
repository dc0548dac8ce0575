"""`torch._ops`: PyTorch's private name of `facula._operators.namespaces`."""

import sys

from facula._operators import namespaces

sys.modules[__name__] = namespaces
