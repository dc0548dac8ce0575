"""`facula.amp.autocast_mode` for the CPU, deprecated."""

import facula
from facula.amp import _shims

autocast = _shims.autocast_of("cpu", facula.bfloat16, __name__)
