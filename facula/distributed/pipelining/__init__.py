"""Split a model into parts in several processes, through which small batches pass at the same time."""

from __future__ import annotations

from facula._shared.on_demand import _on_demand

from ._cut import Pipe, SplitPoint, annotate_split_spec, build_stage, pipe_split, pipeline
from .microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks
from .schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from .stage import PipelineStage

__all__ = [
    "Pipe",
    "PipelineStage",
    "SplitPoint",
    "build_stage",
    "pipe_split",
    "pipeline",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "TensorChunkSpec",
    "merge_chunks",
    "split_args_kwargs_into_chunks",
]

__getattr__ = _on_demand(__name__)
