"""`facula.amp.grad_scaler` for CUDA, deprecated."""

from facula.amp import _shims

GradScaler = _shims.grad_scaler_of("cuda", __name__)
