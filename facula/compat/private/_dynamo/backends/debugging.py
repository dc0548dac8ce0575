"""Provide `facula.compiler._backends.debugging` under PyTorch's private name, `torch._dynamo.backends.debugging`."""

import sys

from facula.compiler._backends import debugging

sys.modules[__name__] = debugging
