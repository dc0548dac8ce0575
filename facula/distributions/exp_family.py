"""Define the base class of exponential families."""

from __future__ import annotations

import facula
from facula import Tensor

from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Represent densities of the form ``h(x) exp(sum of t_i(x) eta_i - F(eta))`` with natural parameters eta.

    A subclass gives ``_natural_params``, a tuple of tensors, ``_log_normalizer``, which computes F from them, and
    ``_mean_carrier_measure``, the expectation of log h(x). Entropy and divergence follow from the derivative of F.

    Args:
        batch_shape: the shape of the batch of distributions.
        event_shape: the shape of one value.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Errors: ValueError for a parameter that does not meet its constraint.

    >>> from torch import distributions
    >>> isinstance(distributions.Normal(0.0, 1.0), distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self):
        raise self._missing("_natural_params")

    def _log_normalizer(self, *natural_params):
        raise self._missing("_log_normalizer")

    @property
    def _mean_carrier_measure(self):
        raise self._missing("_mean_carrier_measure")

    def entropy(self) -> Tensor:
        # F(eta) - eta * grad F(eta) - E[log h]: Nielsen and Nock, "Entropies and cross-entropies of exponential
        # families" (2010)
        eta = [p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params]
        with facula.enable_grad():
            log_normalizer = self._log_normalizer(*eta)
            slopes = facula.autograd.grad(log_normalizer.sum(), eta, create_graph=True)
        result = log_normalizer - self._mean_carrier_measure
        for p, slope in zip(eta, slopes, strict=True):
            result = result - (p * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
