"""What a load raises for a stream that is malformed, or that asks for what a load does not do."""

import pickle


class UnpicklingError(pickle.UnpicklingError):
    """A checkpoint's pickle is malformed, or asks for something a safe load does not do."""


def need(condition, what):
    """Raise UnpicklingError with `what` unless `condition`."""
    if not condition:
        raise UnpicklingError(f"load: {what}")
