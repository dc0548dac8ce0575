"""Whether something came out of a package."""

from types import ModuleType

from .._mangling import is_mangled

__all__ = ["is_from_package"]


def is_from_package(obj):
    """Whether `obj`, a module, is one of an imported package's, or another object an instance of a class of one.

    >>> torch.package.is_from_package(nn), torch.package.is_from_package(nn.Linear(1, 1))
    (False, False)
    """
    return is_mangled(obj.__name__) if type(obj) is ModuleType else is_mangled(type(obj).__module__)
