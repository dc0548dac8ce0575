"""`facula.amp.grad_scaler` for the CPU, deprecated."""

from facula.amp import _shims

GradScaler = _shims.grad_scaler_of("cpu", __name__)
