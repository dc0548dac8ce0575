"""Set flags, permanently or for the length of a block."""

import contextlib


@contextlib.contextmanager
def held(module, **values):
    """Set attributes of `module` for a with block; None leaves one as it is."""
    before = {name: getattr(module, name) for name in values}
    _set(module, values)
    try:
        yield
    finally:
        _set(module, before)


def _set(module, values):
    for name, value in values.items():
        if value is not None:
            setattr(module, name, value)
