"""`torch._higher_order_ops.associative_scan`: PyTorch's private name of `facula.functions.associative_scan`."""

import sys

from facula.functions import associative_scan

sys.modules[__name__] = associative_scan
