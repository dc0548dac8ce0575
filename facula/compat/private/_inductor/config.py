"""`torch._inductor.config`: PyTorch's private name of `facula.compiler._options`."""

import sys

from facula.compiler import _options

sys.modules[__name__] = _options
