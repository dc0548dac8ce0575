"""`torch._dynamo.eval_frame`: PyTorch's private name of `facula.compiler._eval_frame`."""

import sys

from facula.compiler import _eval_frame

sys.modules[__name__] = _eval_frame
