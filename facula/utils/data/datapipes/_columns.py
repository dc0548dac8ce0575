"""Apply functions to some columns of a sample."""

from __future__ import annotations

import importlib.util
import inspect
import warnings


def picked(sample, columns):
    """Return the arguments for a function: the sample, or its columns."""
    if columns is None:
        return (sample,)
    return tuple(sample[c] for c in columns) if isinstance(columns, (list, tuple)) else (sample[columns],)


def check_columns(function, columns):
    """Raise ValueError for a function that cannot be called with the values of so many columns, where its signature tells."""
    count = len(columns) if isinstance(columns, (list, tuple)) else 1
    try:
        parameters = inspect.signature(function.forward if hasattr(function, "forward") else function).parameters.values()
    except (TypeError, ValueError):
        return
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in by_place if p.default is p.empty]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    takes_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    name = getattr(function, "__name__", type(function).__name__)
    if by_name:
        names = ", ".join(by_name)
        raise ValueError(f"{name}: expected a function of positional arguments, got one that needs {names} by name")
    if count < len(needed) or count > len(by_place) and not takes_more:
        at_most = "or more" if takes_more else f"to {len(by_place)}" if len(by_place) > len(needed) else ""
        raise ValueError(f"{name}: takes {len(needed)} {at_most}".rstrip() + f" arguments, got input_col={columns!r}")


def applied(function, sample, columns, output):
    """Return the sample with the function's result in the place of a column, or as another; without columns the result."""
    result = function(*picked(sample, columns))
    if columns is None:
        return result
    several = isinstance(columns, (list, tuple))
    changed = dict(sample) if isinstance(sample, dict) else list(sample)
    if output is None:
        output = columns[0] if several else columns
        if several and not isinstance(changed, dict):
            changed[output] = result
            return type(sample)(value for i, value in enumerate(changed) if i not in columns[1:])
        for extra in columns[1:] if several else ():
            del changed[extra]
    if output == -1:
        changed.append(result)
    else:
        changed[output] = result
    return type(sample)(changed)


def warn_of_unpicklable(function):
    """Warn of a function that workers cannot be sent: a lambda, or one within another."""
    for part in (function, getattr(function, "func", None)):
        name = getattr(part, "__qualname__", "")
        kind = "Lambda" if name.endswith("<lambda>") else "Local" if "<locals>" in name and inspect.isfunction(part) else None
        if kind and importlib.util.find_spec("dill") is None:
            warnings.warn(
                f"{kind} function is not supported by pickle (a function of a module is, and a functools.partial of one), "
                f"got {name}",
                UserWarning,
                stacklevel=4,
            )
