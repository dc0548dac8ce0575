"""`torch._logging._internal`: PyTorch's private name of `facula.compiler._logs`."""

import sys

from facula.compiler import _logs

sys.modules[__name__] = _logs
