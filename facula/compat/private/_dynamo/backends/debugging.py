"""`torch._dynamo.backends.debugging`: PyTorch's private name of `facula.compiler._backends.debugging`."""

import sys

from facula.compiler._backends import debugging

sys.modules[__name__] = debugging
