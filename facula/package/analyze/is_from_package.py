"""Whether something came out of a package."""

from types import ModuleType

from .._mangling import is_mangled


def is_from_package(obj):
    """Whether a module is one of an imported package's, or an object an instance of a class of one."""
    return is_mangled(obj.__name__) if type(obj) is ModuleType else is_mangled(type(obj).__module__)
