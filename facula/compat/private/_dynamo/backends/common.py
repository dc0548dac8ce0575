"""Provide `facula.compiler._backends.common` under PyTorch's private name, `torch._dynamo.backends.common`."""

import sys

from facula.compiler._backends import common

sys.modules[__name__] = common
