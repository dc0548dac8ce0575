"""`torch._dynamo.backends.common`: PyTorch's private name of `facula.compiler._backends.common`."""

import sys

from facula.compiler._backends import common

sys.modules[__name__] = common
