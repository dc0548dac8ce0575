"""Linear algebra. The ops are stated in ops/linalg.yaml and ops/matmul.yaml."""

from .. import _C
from .._C import Tensor  # noqa: F401
from .._C import _LinAlgError as LinAlgError

__all__ = sorted([*(name for name in vars(_C.linalg) if not name.startswith("_")), "LinAlgError"])
globals().update({name: getattr(_C.linalg, name) for name in __all__ if name != "LinAlgError"})
