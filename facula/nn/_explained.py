"""Docstrings of functions and layers that share arguments: each argument is explained once."""

from __future__ import annotations


def explained(texts: dict[str, str], **others: str):
    """Adds the section "Args:" to the docstring of a function or class: what `others`, else `texts`, says of each argument.

    An argument that neither names is left out; tests/test_docs.py asks that every one of nn.functional's is explained.
    """

    def decorate(function):
        code = (function.__init__ if isinstance(function, type) else function).__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        lines = [f"        {name}: {others.get(name) or texts[name]}\n" for name in names if name in others or name in texts]
        function.__doc__ = f"{function.__doc__.rstrip()}\n\n    Args:\n{''.join(lines)}    "
        return function

    return decorate
