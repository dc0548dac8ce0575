"""`torch._dynamo.decorators`: PyTorch's private name of `facula.compiler._decorators`."""

import sys

from facula.compiler import _decorators

sys.modules[__name__] = _decorators
