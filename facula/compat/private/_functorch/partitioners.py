"""`torch._functorch.partitioners`: PyTorch's private name of `facula.compiler._partitioners`."""

import sys

from facula.compiler import _partitioners

sys.modules[__name__] = _partitioners
