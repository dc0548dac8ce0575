"""What families share whose parameter is either `probs` or `logits`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

if TYPE_CHECKING:
    from facula import Size


class ProbsOrLogits:
    """One of the two is given, the other follows when asked for."""

    _is_binary = True
    _kept = ("_given",)

    def _take(self, probs, logits):
        """Notes which one is given and returns it."""
        if (probs is None) == (logits is None):
            raise ValueError(
                f"{type(self).__name__}: expected either probs or logits, got {'neither' if probs is None else 'both'}"
            )
        self._given = "logits" if probs is None else "probs"
        return logits if probs is None else probs

    def _set_binary(self, probs, logits, **others):
        """Broadcasts the one that is given, and others, to one shape; returns it."""
        given = self._take(probs, logits)
        *values, value = broadcast_all(*others.values(), given)
        self.__dict__.update(zip(others, values, strict=True))
        self.__dict__[self._given] = value
        return value.size()

    def _set_categories(self, probs, logits):
        """Normalises the one that is given over the last dimension; returns its shape."""
        value = self._take(probs, logits)
        if value.dim() < 1:
            raise ValueError(f"{type(self).__name__}: {self._given} must have at least one dimension, got none")
        if self._given == "probs":
            self.probs = value / value.sum(-1, keepdim=True)
        else:
            self.logits = value - value.logsumexp(dim=-1, keepdim=True)
        return value.size()

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, self._is_binary)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, self._is_binary)

    @property
    def _param(self):
        return self.__dict__[self._given]

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._param.size()
