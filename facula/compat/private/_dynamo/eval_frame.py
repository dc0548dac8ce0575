"""Provide `facula.compiler._eval_frame` under PyTorch's private name, `torch._dynamo.eval_frame`."""

import sys

from facula.compiler import _eval_frame

sys.modules[__name__] = _eval_frame
