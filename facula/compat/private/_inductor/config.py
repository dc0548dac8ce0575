"""Provide `facula.compiler._options` under PyTorch's private name, `torch._inductor.config`."""

import sys

from facula.compiler import _options

sys.modules[__name__] = _options
