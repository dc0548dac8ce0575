"""Provide `facula.compiler._decorators` under PyTorch's private name, `torch._dynamo.decorators`."""

import sys

from facula.compiler import _decorators

sys.modules[__name__] = _decorators
