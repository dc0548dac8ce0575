"""Provide the logs of compiled functions: `TORCH_LOGS=graph_breaks,recompiles,output_code`, or
`set_logs(graph_breaks=True)`.
"""

from __future__ import annotations

from . import _internal
from ._internal import LazyString, getArtifactLogger, set_logs, trace_structured, warning_once

__all__ = ["LazyString", "getArtifactLogger", "set_logs", "trace_structured", "warning_once"]
