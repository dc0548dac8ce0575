"""The half-Cauchy distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._half import Half
from .cauchy import Cauchy

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """The absolute value of a Cauchy value around 0; mean and variance are infinite."""

    _base = Cauchy

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return facula.full_like(self.scale, facula.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance
