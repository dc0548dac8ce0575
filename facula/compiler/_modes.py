"""List the modes and settings of PyTorch's inductor, which have no effect here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

from . import _options

if TYPE_CHECKING:
    from typing import Any

__all__ = ["cudagraph_mark_step_begin", "list_mode_options", "list_options"]

_tuned = {"max_autotune": True, "coordinate_descent_tuning": True}
#: mode -> the settings that it stands for
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {
        "fallback_by_default": True, "selective_decompose": True, "reorder_for_peak_memory": False,
        "reorder_for_compute_comm_overlap": False, "triton.reorder_for_reducing_graph_partitions": False,
        "use_pre_grad_passes": False, "use_joint_graph_passes": False, "use_post_grad_passes": False, "use_dce": False,
        "allow_buffer_reuse": False,
    },
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": _tuned,
    "max-autotune": {**_tuned, "triton.cudagraphs": True},
}  # fmt: skip


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """Return the settings that modes stand for.

    Args:
        mode: one of the modes; None for all, by name.
        dynamic: whether sizes vary; without effect.

    Errors: RuntimeError for what is no mode.
    """
    if mode is None:
        return {name: dict(options) for name, options in MODES.items()}
    if mode not in MODES:
        raise RuntimeError(f"list_mode_options: a mode must be {_C._one_of(mode, MODES)}")
    return dict(MODES[mode])


def list_options() -> list[str]:
    """Return the names of all settings."""
    return list(_options.get_config_copy())


def cudagraph_mark_step_begin() -> None:
    """Mark the begin of a step for graphs of CUDA that a compiler recorded; there are none, so it does nothing."""

