"""Special functions. The ops are stated in ops/special.yaml and ops/elementwise.yaml."""

from . import _C

globals().update({name: value for name, value in vars(_C.special).items() if not name.startswith("__")})
__all__ = sorted(name for name in vars(_C.special) if not name.startswith("_"))
