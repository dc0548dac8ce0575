"""Provide the pytrees under the name of PyTorch's second implementation, which is compiled code there; here both are
the same.
"""

from ._pytree import *  # noqa: F403
from ._pytree import (  # noqa: F401
    __all__,
    _broadcast_to_and_flatten,
    _private_register_pytree_node,
    treespec_dict,
    treespec_leaf,
    treespec_tuple,
)
