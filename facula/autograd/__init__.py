"""Differentiate ordinary Python programs automatically; the gradients are computed in C++.

`backward` and `grad` are the entry points. `Function` defines derivatives by hand, `graph` shows what was recorded,
`forward_ad` and `functional` give other kinds of derivatives, `gradcheck` compares with finite differences.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import _tensor  # noqa: F401  (installs the Python half of the methods of Tensor)
from ._run import _tensor_backward as _tensor_backward
from ._run import backward, grad
from .grad_mode import _force_original_view_tracking as _force_original_view_tracking
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled
from .grad_mode import is_multithreading_enabled as is_multithreading_enabled
from .grad_mode import is_view_replay_enabled as is_view_replay_enabled

if TYPE_CHECKING:  # loaded on first use, below
    from typing import Any

    from . import anomaly_mode, forward_ad, function, functional, graph, profiler, variable
    from .anomaly_mode import detect_anomaly, set_detect_anomaly
    from .function import Function, NestedIOFunction
    from .gradcheck import gradcheck, gradgradcheck
    from .variable import Variable

__all__ = [
    "Function", "NestedIOFunction", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "function",
    "functional", "grad", "grad_mode", "gradcheck", "gradgradcheck", "graph", "inference_mode", "no_grad", "profiler",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled", "variable",
]  # fmt: skip

_LAZY = {"anomaly_mode", "forward_ad", "function", "functional", "graph", "profiler", "profiler_util", "variable"}
_HOMES = {
    "Function": "function", "NestedIOFunction": "function", "Variable": "variable",
    "detect_anomaly": "anomaly_mode", "set_detect_anomaly": "anomaly_mode",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("gradcheck", "gradgradcheck"):
        module = importlib.import_module(f"{__name__}.gradcheck")
        # importing the submodule of that name bound it here; the function is what users mean
        globals().update(gradcheck=module.gradcheck, gradgradcheck=module.gradgradcheck)
        return globals()[name]
    if name in _HOMES:
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value
    from facula._shared.near_names import no_attribute

    raise no_attribute(__name__, name)


def kineto_available() -> bool:
    """Return whether profiles see what devices do, which Facula records itself: always.

    >>> torch.autograd.kineto_available()
    True
    """
    return True


def _profiler_enabled():
    """Return whether a profiler records the calling thread's ops."""
    from .profiler import profile

    return profile._running is not None
