"""Provide the profiler under the name of the module in which PyTorch has it."""

from facula.profiler import ProfilerAction, profile, schedule, supported_activities, tensorboard_trace_handler

__all__ = ["ProfilerAction", "profile", "schedule", "supported_activities", "tensorboard_trace_handler"]


def _default_schedule_fn(_):
    """Record every step."""
    return ProfilerAction.RECORD
