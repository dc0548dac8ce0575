"""Helpers around tensors and modules: data loading, checkpointing, hooks, pytrees."""


def set_module(obj, mod):
    """Makes `obj` say that it comes from module `mod`."""
    if not isinstance(mod, str):
        raise TypeError(f"set_module: expected a module name, got {mod!r}")
    obj.__module__ = mod
