"""Find the names by which TorchScript identifies classes and functions."""


def _qualified_name(obj, mangle_name=True):
    """Return "__torch__.module.Class"; without the prefix where `mangle_name` is False.

    Errors: RuntimeError for a lambda and for what is defined within a function.
    """
    if hasattr(obj, "_jit_override_qualname"):
        return obj._jit_override_qualname
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", str(obj))
    module = getattr(obj, "__module__", None) or ""
    if name == "<lambda>" or "<locals>" in name:
        raise RuntimeError(f"_qualified_name: expected what a module defines by a name, got {name!r}")
    if not mangle_name:
        return f"{module}.{name}" if module else name
    return f"__torch__.{name}" if module in ("", "__main__") else f"__torch__.{module}.{name}"
