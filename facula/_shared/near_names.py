"""Make the error for a name that a module does not have, with a suggestion of the name that was meant."""

from __future__ import annotations

import functools
import sys

from facula import _C


@functools.lru_cache(maxsize=1024)  # programs ask for the same names, such as those of another version, again and again
def _meant(module, name):
    """Return the name of `module` that is nearest to `name`, or None."""
    found = sys.modules.get(module)
    if found is None or name.startswith("_"):
        return None
    return _C._near_name(name, [known for known in dir(found) if not known.startswith("_")])


def no_attribute(module: str, name: str) -> AttributeError:
    """Return the AttributeError that says that `module`, by PyTorch's name or ours, has no `name`.

    The interpreter makes suggestions in tracebacks only, and none for a module of more than 750 names. So the text has them;
    with `name` set and `obj` not, the interpreter does not repeat them.
    """
    module = "facula" + module.removeprefix("torch") if module.split(".")[0] == "torch" else module
    text = f"module {module!r} has no attribute {name!r}"
    meant = _meant(module, name)
    return AttributeError(text) if meant is None else AttributeError(f"{text}. Did you mean: {meant!r}?", name=name)
