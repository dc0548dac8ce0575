"""Provide `facula.compiler._partitioners` under PyTorch's private name, `torch._functorch.partitioners`."""

import sys

from facula.compiler import _partitioners

sys.modules[__name__] = _partitioners
