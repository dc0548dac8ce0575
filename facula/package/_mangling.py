"""Rename imported modules: `<torch_package_3>.models` is the module `models` of the fourth importer of the process."""

import itertools
import re

_numbers = itertools.count()
_MANGLED = re.compile(r"<torch_package_\d+>")


class PackageMangler:
    """Rename the modules of one importer."""

    def __init__(self):
        self._parent = f"<torch_package_{next(_numbers)}>"

    def mangle(self, name):
        """Return `name` as that of a module of this importer."""
        return f"{self._parent}.{name}"

    def demangle(self, mangled):
        """Return the name without what this importer puts in front."""
        return mangled.removeprefix(f"{self._parent}.")

    def parent_name(self):
        """Return what is in front."""
        return self._parent


def is_mangled(name):
    """Return whether the name is that of an imported package's module."""
    return bool(_MANGLED.match(name))


def get_mangle_prefix(name):
    """Return what is in front of a module's own name; the name itself where nothing is."""
    return name.partition(".")[0] if is_mangled(name) else name


def demangle(name):
    """Return a module's own name."""
    if not is_mangled(name):
        return name
    return name.partition(".")[2]
