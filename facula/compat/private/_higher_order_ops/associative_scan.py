"""Provide `facula.functions.associative_scan` under PyTorch's private name, `torch._higher_order_ops.associative_scan`."""

import sys

from facula.functions import associative_scan

sys.modules[__name__] = associative_scan
