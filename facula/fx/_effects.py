"""List the functions that have effects besides their result, whose calls stay in a graph even if no node uses them."""

from __future__ import annotations

import facula
from facula._operators.namespaces import OpOverload

_side_effectful_functions = {facula._assert, facula._assert_async}
_IMPURE_IN_TORCH = (
    "manual_seed", "seed", "set_default_dtype", "set_grad_enabled", "_foreach_add_", "_check", "_check_is_size", "_check_value",
    "_check_type",
)  # fmt: skip
_side_effectful_functions.update(getattr(facula, name) for name in _IMPURE_IN_TORCH if hasattr(facula, name))
_RANGES = ("_record_function_enter", "_record_function_enter_new", "_record_function_exit")
_side_effectful_functions.update(getattr(facula.ops.profiler, name) for name in _RANGES)
_RANDOM = frozenset((
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "poisson", "bernoulli",
    "multinomial",
))  # fmt: skip
_RANDOM_FUNCTIONS = frozenset(getattr(facula, name) for name in _RANDOM)


def _is_impure_function(node, impure_random):
    target = node.target
    try:
        if target in _side_effectful_functions:
            return True
    except TypeError:  # not hashable
        return False
    if isinstance(target, OpOverload):
        name = target.overloadpacket.__name__
        writes = (name.endswith("_") and not name.endswith("__")) or node.kwargs.get("out") is not None
        return writes or (impure_random and name in _RANDOM)
    return impure_random and target in _RANDOM_FUNCTIONS
