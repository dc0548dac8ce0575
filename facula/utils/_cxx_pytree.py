"""PyTorch's second pytrees, of compiled code there: here the same as the first."""

from ._pytree import *  # noqa: F403
from ._pytree import (  # noqa: F401
    __all__,
    _broadcast_to_and_flatten,
    _private_register_pytree_node,
    treespec_dict,
    treespec_leaf,
    treespec_tuple,
)
