"""Provide `facula.compiler._errors` under PyTorch's private name, `torch._dynamo.exc`."""

import sys

from facula.compiler import _errors

sys.modules[__name__] = _errors
