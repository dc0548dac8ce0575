"""Provide `facula._serialization.rebuild` under PyTorch's private name, `torch._utils`."""

import sys

from facula._serialization import rebuild

sys.modules[__name__] = rebuild
