"""`torch._dynamo.backends.registry`: PyTorch's private name of `facula.compiler._backends.registry`."""

import sys

from facula.compiler._backends import registry

sys.modules[__name__] = registry
