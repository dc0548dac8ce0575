"""Register translations of a program's own ops, by the older exporter's function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: `domain::name` -> function(graph, *arguments)
registered: dict[str, tuple[Callable[..., Any], int]] = {}


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Register a function as the translation of an op, for all exports to come.

    Args:
        symbolic_name: the op, "domain::name".
        symbolic_fn: function(g, *arguments): makes nodes by `g.op("domain::Name", x, alpha_f=0.5)` and returns what
            the op returns.
        opset_version: from which opset on it holds.

    Errors: RuntimeError for a name without a domain.

    >>> torch.onnx.register_custom_op_symbolic("aten::relu", lambda g, x: g.op("mine::Relu", x), 17)
    >>> [(op, domain) for op, _, _, _, domain, _ in torch.onnx.export(nn.ReLU(), (torch.ones(2),)).graph.nodes]
    [('Relu', 'mine')]
    >>> torch.onnx.unregister_custom_op_symbolic("aten::relu", 17)
    """
    if "::" not in symbolic_name:
        raise RuntimeError(f'onnx.register_custom_op_symbolic: a name is "domain::name", got {symbolic_name!r}')
    registered[symbolic_name] = (symbolic_fn, opset_version)


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Take back what `register_custom_op_symbolic` did; without effect for a name that is not registered.

    Args:
        symbolic_name: the op, "domain::name".
        opset_version: accepted; a name has one translation.

    >>> torch.onnx.unregister_custom_op_symbolic("mine::op", 17)
    """
    registered.pop(symbolic_name, None)


def find(symbolic_name: str, opset: int) -> Callable[..., Any] | None:
    function, since = registered.get(symbolic_name, (None, 0))
    return function if function is not None and since <= opset else None
