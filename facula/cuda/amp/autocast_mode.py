"""As `facula.cuda.amp`."""

from facula.cuda.amp import autocast, custom_bwd, custom_fwd  # noqa: F401
