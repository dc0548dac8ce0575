"""The switch that treats tensors of subclasses as plain ones; apart from `overrides`, so that it loads at once."""

from . import _C


class DisableTorchFunctionSubclass:
    """Within it, tensors of subclasses are treated as plain ones; modes stay on."""

    def __enter__(self):
        _C._change_override_disabled(1)
        return self

    def __exit__(self, *exception):
        _C._change_override_disabled(-1)
