"""Provide modes and options of the default backend."""

from facula._shared.on_demand import _on_demand
from facula.compiler._modes import MODES, cudagraph_mark_step_begin, list_mode_options, list_options

from . import config

__all__ = ["cudagraph_mark_step_begin", "list_mode_options", "list_options"]

__getattr__ = _on_demand(__name__)
