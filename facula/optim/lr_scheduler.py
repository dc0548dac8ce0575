"""Schedules of learning rates: objects whose `step` sets the rate of every parameter group.

Most schedules compute the next rate from the present one, so that schedules chain; `_get_closed_form_lr` gives the
rate at an epoch directly. ``last_epoch`` counts the calls of `step`, the first of which the constructor makes.
"""

from __future__ import annotations

# Counter and Optimizer: annotations of the classes look for them where the classes say that they are.
from collections import Counter as Counter

from facula.nn.modules._home import belong_to

from ._lr_base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from ._lr_base import LRScheduler
from ._lr_chains import ChainedScheduler, SequentialLR
from ._lr_cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from ._lr_cycles import CyclicLR, OneCycleLR
from ._lr_factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from ._lr_plateau import ReduceLROnPlateau
from .optimizer import Optimizer as Optimizer

__all__ = [
    "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "SequentialLR",
    "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR", "CosineAnnealingWarmRestarts",
    "OneCycleLR", "PolynomialLR", "LRScheduler",
]  # fmt: skip

_LRScheduler = LRScheduler

belong_to(
    __name__, LambdaLR, MultiplicativeLR, StepLR, MultiStepLR, ConstantLR, LinearLR, ExponentialLR, SequentialLR,
    CosineAnnealingLR, ChainedScheduler, ReduceLROnPlateau, CyclicLR, CosineAnnealingWarmRestarts, OneCycleLR, PolynomialLR,
    LRScheduler,
)  # fmt: skip
