"""Provide `facula.compiler._settings` under PyTorch's private name, `torch._dynamo.config`."""

import sys

from facula.compiler import _settings

sys.modules[__name__] = _settings
