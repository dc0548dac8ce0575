"""Provide `facula.compiler._logs` under PyTorch's private name, `torch._logging._internal`."""

import sys

from facula.compiler import _logs

sys.modules[__name__] = _logs
