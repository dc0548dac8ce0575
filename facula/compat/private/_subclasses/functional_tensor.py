"""Define the class of tensors that a tracer of PyTorch wraps to remove writes from a program. None is made here
(`func.functionalize`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def mb_unwrap_functional_tensor(tensor: Any) -> Any:
    """Return the tensor, which is none of PyTorch's functional ones."""
    return tensor
