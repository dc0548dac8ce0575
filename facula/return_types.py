"""The named tuples that ops with several results give: `facula.return_types.max`, ..."""

from facula import _C


def __getattr__(name):
    kinds = getattr(_C, "return_types", None)
    if kinds is None or not hasattr(kinds, name):
        raise AttributeError(
            f"module 'facula.return_types' has no attribute {name!r} (a type exists from its op's first call on)"
        )
    return getattr(kinds, name)
