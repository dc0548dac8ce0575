"""`torch._utils`: PyTorch's private name of `facula._serialization.rebuild`."""

import sys

from facula._serialization import rebuild

sys.modules[__name__] = rebuild
