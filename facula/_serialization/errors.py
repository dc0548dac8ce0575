"""Raise the error of a stream that is malformed or that requires what a load does not do."""

import pickle


class UnpicklingError(pickle.UnpicklingError):
    """Report a checkpoint whose pickle is malformed or requires something that a safe load does not do."""


def need(condition, what):
    """Raise UnpicklingError with `what` unless `condition`."""
    if not condition:
        raise UnpicklingError(f"load: {what}")
