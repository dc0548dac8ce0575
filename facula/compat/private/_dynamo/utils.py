"""Provide the counters and times of compiled functions for programs and tests."""

from facula._shared.on_demand import _on_demand
from facula.compiler._counters import compile_times, counters, is_compile_supported, warn_once

__all__ = ["compile_times", "counters", "is_compile_supported", "warn_once"]

__getattr__ = _on_demand(__name__, same="facula._dynamo.testing", detect_fake_mode="facula._guards")
