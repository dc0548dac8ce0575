"""Translations that programs register for their own ops, by the older exporter's function."""

#: `domain::name` -> function(graph, *arguments)
registered = {}


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Registers `symbolic_fn(g, *arguments)` as the translation of the op `symbolic_name` (`"domain::name"`).

    The function makes nodes by `g.op("domain::Name", x, alpha_f=0.5)` and returns what the op returns. `opset_version` is from
    which opset on it holds.

    Raises:
        RuntimeError: the name has no domain.
    """
    if "::" not in symbolic_name:
        raise RuntimeError(f'onnx.register_custom_op_symbolic: a name is "domain::name", got {symbolic_name!r}')
    registered[symbolic_name] = (symbolic_fn, opset_version)


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Takes back what `register_custom_op_symbolic` did."""
    registered.pop(symbolic_name, None)


def find(symbolic_name, opset):
    function, since = registered.get(symbolic_name, (None, 0))
    return function if function is not None and since <= opset else None
