"""Provide `hub.load_state_dict_from_url` under its old name."""

from __future__ import annotations

from facula._shared.on_demand import _on_demand
from facula.hub import load_state_dict_from_url as load_url  # noqa: F401

__getattr__ = _on_demand(__name__, tqdm="facula.hub")
