"""Define hooks that show what communication costs."""

from .default_hooks import noop_hook

__all__ = ["noop_hook"]
