"""As `facula.cuda.amp`."""

from facula.cuda.amp import GradScaler  # noqa: F401
