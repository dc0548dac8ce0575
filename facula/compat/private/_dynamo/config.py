"""`torch._dynamo.config`: PyTorch's private name of `facula.compiler._settings`."""

import sys

from facula.compiler import _settings

sys.modules[__name__] = _settings
