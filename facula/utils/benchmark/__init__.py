"""Timing of statements: Timer measures, Measurement holds the times, Compare prints them as a table."""

from .compare import Compare
from .measurement import Measurement, TaskSpec, ordered_unique, select_unit, set_torch_threads, trim_sigfig, unit_to_english
from .timer import Language, Timer, timer

__all__ = [
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]
