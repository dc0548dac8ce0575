"""Map ATen ops to the functions that translate them. Keys are `name` or `name.overload`; the key with the overload has
precedence.
"""

TABLE = {}


def op(*names):
    """Decorate a translation with `@op("add sub.Tensor")`: the function takes the graph and the op's arguments, and returns the
    op's results."""

    def note(function):
        for name in " ".join(names).split():
            if name in TABLE:
                raise AssertionError(f"onnx: one translation of an op is expected, got two of {name}")
            TABLE[name] = function
        return function

    return note


def lifted(function):
    """Make a translation for ops along a dimension: a tensor without dimensions goes through as a line of one element."""

    def translate(g, self, *args, **kwargs):
        if self.rank:
            return function(g, self, *args, **kwargs)
        result = function(g, g.reshape(self, [1]), *args, **kwargs)
        return tuple(g.reshape(r, []) for r in result) if isinstance(result, tuple) else g.reshape(result, [])

    return translate


def find(name, overload):
    """Return the translation of an op; one that writes (`add_`) is that of the op without the underscore."""
    keys = [f"{name}.{overload}", name]
    if name.endswith("_") and not name.startswith("__"):
        keys += [f"{name[:-1]}.{overload}", name[:-1]]
    return next((TABLE[key] for key in keys if key in TABLE), None)
