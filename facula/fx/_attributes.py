"""Attributes of modules by their paths."""

from __future__ import annotations

import facula


def _copy_attr(from_module, to_module, target):
    """Puts an attribute of a module in the same place of another, with the modules on the way."""
    *prefix, field = target.split(".")
    for part in prefix:
        source = getattr(from_module, part)
        if not hasattr(to_module, part):
            setattr(to_module, part, facula.nn.Module())
        from_module, to_module = source, getattr(to_module, part)
        if source is to_module:
            return
    value = getattr(from_module, field)
    if isinstance(value, facula.Tensor) and not isinstance(value, facula.nn.Parameter):
        persistent = field not in getattr(from_module, "_non_persistent_buffers_set", ())
        if hasattr(to_module, field) and field not in to_module._buffers:
            delattr(to_module, field)
        to_module.register_buffer(field, value, persistent=persistent)
    else:
        setattr(to_module, field, value)


def _assign_attr(from_obj, to_module, target):
    """Puts an object in a place of a module, making the modules on the way."""
    *prefix, field = target.split(".")
    for part in prefix:
        if getattr(to_module, part, None) is None:
            setattr(to_module, part, facula.nn.Module())
        to_module = getattr(to_module, part)
    if isinstance(from_obj, facula.Tensor) and not isinstance(from_obj, facula.nn.Parameter):
        to_module.register_buffer(field, from_obj)
    else:
        setattr(to_module, field, from_obj)


def _get_attr(model, attr_name):
    for part in attr_name.split("."):
        model = getattr(model, part)
    return model


def _has_attr(model, attr_name):
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


def _del_attr(model, attr_name):
    *prefix, field = attr_name.split(".")
    delattr(_get_attr(model, ".".join(prefix)) if prefix else model, field)
