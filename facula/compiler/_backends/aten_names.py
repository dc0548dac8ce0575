"""Translate ops of the core to PyTorch's names in graphs, where both divide the work alike but for the name or a shape.

A rule receives the arguments of an op of `torch.ops.facula` and returns (operator of aten, its arguments, keywords), or
None. The operator runs the same op. Results are the same, except that those of norms have the shapes of their rows
(`SHAPED`), which the graph flattens.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

__all__ = ["OTHER_BITS", "SHAPED", "named"]

#: what `__torch_dispatch__` shows as operators that add up in another order
OTHER_BITS = frozenset(["adaptive_avg_pool"])

#: ops whose results but the first are flat here
SHAPED = frozenset(["_row_norm.default"])


def _row_norm(x, weight, bias, rows, groups, channels, eps, center):
    if not center:
        return None
    if groups == 1 and rows * channels == x.numel():
        dims = next((d for d in range(x.dim()) if math.prod(x.shape[d:]) == channels), None)
        shape = None if dims is None else list(x.shape[dims:])
        fits = all(t is None or list(t.shape) == shape for t in (weight, bias))
        return ("native_layer_norm", (x, shape, weight, bias, eps), {}) if shape and fits else None
    count, whole = rows // groups, groups * channels
    if x.dim() < 2 or tuple(x.shape[:2]) != (count, whole):
        return None
    return "native_group_norm", (x, weight, bias, count, whole, x.numel() // rows // channels, groups, eps), {}


def _adaptive_avg_pool(x, size):
    kind = {2: "_adaptive_avg_pool2d", 3: "_adaptive_avg_pool3d"}.get(len(size))
    return (kind, (x, list(size)), {}) if kind else None


def _attention(query, key, value, mask, seed, dropout_p, is_causal, scale, by_library=False):
    if seed is not None or dropout_p:
        return None
    given = {} if mask is None else {"attn_mask": mask}
    return "_scaled_dot_product_flash_attention_for_cpu", (query, key, value, 0.0, is_causal), {**given, "scale": scale}


#: by the names of the core
_RULES: dict[str, Any] = {
    "_row_norm.default": _row_norm,
    "adaptive_avg_pool.default": _adaptive_avg_pool,
    "_attention.default": _attention,
    "_mse_each.default": lambda x, y: ("mse_loss", (x, y, 0), {}),
    "_smooth_l1_each.default": lambda x, y, beta: ("smooth_l1_loss", (x, y, 0, beta), {}),
    "_bce_logits_each.default": lambda x, y: ("binary_cross_entropy_with_logits", (x, y, None, None, 0), {}),
    "_threshold_backward.default": lambda g, x, threshold: ("threshold_backward", (g, x, threshold), {}),
    "_sigmoid_backward.default": lambda g, y: ("sigmoid_backward", (g, y), {}),
    "_tanh_backward.default": lambda g, y: ("tanh_backward", (g, y), {}),
    "_gelu_erf_backward.default": lambda g, x: ("gelu_backward", (g, x), {}),
    "_gelu_tanh_backward.default": lambda g, x: ("gelu_backward", (g, x), {"approximate": "tanh"}),
    "_softmax_backward.default": lambda g, y, dim: ("_softmax_backward_data", (g, y, dim, y.dtype), {}),
    "_log_softmax_backward.default": lambda g, y, dim: ("_log_softmax_backward_data", (g, y, dim, y.dtype), {}),
}


def named(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return (operator of aten, arguments, keywords) that PyTorch's graphs would have for a call; None where it has no other
    name.

    Args:
        func: an operator.
        args, kwargs: what it is given.
    """
    rule = _RULES.get(func.__name__) if func.namespace == "facula" else None
    found = rule(*args, **kwargs) if rule is not None else None
    if found is None:
        return None
    packet = getattr(facula.ops.aten, found[0], None)
    return None if packet is None else (packet.default, *found[1:])
