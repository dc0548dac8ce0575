"""`facula.amp.autocast_mode` for CUDA, deprecated."""

import facula
from facula.amp import _shims

__all__ = ["autocast", "custom_fwd", "custom_bwd"]

autocast = _shims.autocast_of("cuda", facula.float16, __name__)
custom_fwd, custom_bwd = _shims.cuda_custom_fwd, _shims.cuda_custom_bwd
