"""Provide `facula.compiler._backends.registry` under PyTorch's private name, `torch._dynamo.backends.registry`."""

import sys

from facula.compiler._backends import registry

sys.modules[__name__] = registry
