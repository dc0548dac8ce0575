"""Decide what to do with the modules that an exporter finds."""

from __future__ import annotations

import enum
import sys

from .glob_group import GlobGroup


class Action(enum.Enum):
    """Name what becomes of a module."""

    INTERN = "its source is put into the package"
    EXTERN = "whoever imports the package has it"
    MOCK = "something that refuses to be used stands for it"
    DENY = "the package must not need it"
    SKIP = "every package has it"


#: modules of the standard library that are not let in unasked
KEPT_OUT = frozenset({"sys", "io"})


def is_let_in_unasked(module_name):
    """Return whether whoever imports a package has the module for sure: the library itself, and most of Python's."""
    top = module_name.partition(".")[0]
    return top in ("torch", "facula") or (top in sys.stdlib_module_names and top not in KEPT_OUT)


class Pattern:
    """Hold one call of intern, extern, mock or deny."""

    def __init__(self, action, include, exclude, allow_empty):
        self.group = GlobGroup(include, exclude=exclude)
        self.action, self.allow_empty, self.was_matched = action, allow_empty, False

    def matches(self, module_name):
        """Return whether it is about the module; remember that it was about one."""
        found = self.group.matches(module_name)
        self.was_matched |= found
        return found
