"""What several families have in common beside their machinery in distribution.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .transformed_distribution import TransformedDistribution

if TYPE_CHECKING:
    from typing import Any

    from facula import Size, Tensor


class SymmetricAroundLoc:
    """Families whose density is highest at `loc` and symmetric around it."""

    @property
    def mean(self) -> Tensor:
        """The parameter `loc`."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The parameter `loc`."""
        return self.loc


class OverCategories:
    """Families whose parameters are those of a `Categorical`."""

    @property
    def probs(self) -> Tensor:
        """Probabilities of the categories."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Log-probabilities of the categories."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameters."""
        return self._categorical.param_shape


class Relaxed(TransformedDistribution):
    """A relaxed family of discrete values: its parameters are those of the base that is transformed."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        """Positive; the smaller, the nearer are samples to discrete values."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds of one, or log-probabilities of the categories."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probability of one, or probabilities of the categories."""
        return self.base_dist.probs
