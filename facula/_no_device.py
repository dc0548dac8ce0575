"""What the modules of device kinds that Facula does not support answer: not here."""


def is_available():
    """False."""
    return False


def is_built():
    """False."""
    return False


def device_count():
    """0."""
    return 0


def empty_cache():
    """Nothing is cached."""


def manual_seed(seed):
    """Nothing to seed."""


def manual_seed_all(seed):
    """Nothing to seed."""


def refuse(module, name):
    """A function for `module.name` that says which device kind is missing."""

    def needs_device(*args, **kwargs):
        raise NotImplementedError(f"{module}.{name}: Facula does not support this kind of device")

    needs_device.__name__ = name
    return needs_device
