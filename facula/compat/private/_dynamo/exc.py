"""`torch._dynamo.exc`: PyTorch's private name of `facula.compiler._errors`."""

import sys

from facula.compiler import _errors

sys.modules[__name__] = _errors
