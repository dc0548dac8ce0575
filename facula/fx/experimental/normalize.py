"""Convert calls to one form: arguments by name, functions as operators."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import facula
from facula import nn
from facula.fx.interpreter import Transformer
from facula.fx.operator_schemas import normalize_function, normalize_module
from facula.fx.proxy import Proxy

if TYPE_CHECKING:
    from facula.fx.node import Node, Target
    from facula.nn.modules.module import Module

__all__ = ["NormalizeArgs", "NormalizeOperators", "AnnotateTypesWithSchema"]


class NormalizeArgs(Transformer):
    """Rewrite a module so that its calls pass all arguments by name.

    Args:
        module: the GraphModule.
        normalize_to_only_use_kwargs: if True, also those that are given by position.

    >>> from facula.fx.experimental.normalize import NormalizeArgs
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.add(x, 1))
    >>> node = list(NormalizeArgs(gm).transform().graph.nodes)[1]
    >>> node.args, node.kwargs
    ((), {'input': x, 'other': 1, 'alpha': 1})
    """

    def __init__(self, module: Module, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Any, Any] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """Return the proxy of a node.

        Args:
            n: the node.
        """
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "call_function":
            found = normalize_function(n.target, args, kwargs, None, None, self.normalize_to_only_use_kwargs)
        elif n.op == "call_module":
            found = normalize_module(self.module, n.target, args, kwargs, self.normalize_to_only_use_kwargs)
        else:
            found = None
        if found is not None:
            args, kwargs = found
        out = getattr(self, n.op)(n.target, tuple(args), dict(kwargs))
        if isinstance(out, Proxy) and n.op != "output":
            self.node_map[out] = n
            out.node.meta = n.meta
            out.node.type = n.type
        return out


_SAME = {
    facula.add: operator.add, facula.mul: operator.mul, facula.sub: operator.sub, facula.div: operator.truediv,
    facula.true_divide: operator.truediv, facula.eq: operator.eq, facula.ne: operator.ne, facula.lt: operator.lt,
    facula.le: operator.le, facula.gt: operator.gt, facula.ge: operator.ge, facula.floor_divide: operator.floordiv,
    facula.remainder: operator.mod,
}  # fmt: skip


class AnnotateTypesWithSchema(Transformer):
    """Rewrite a module so that its nodes have types where the calls are known to return tensors.

    Args:
        module: the GraphModule.
        annotate_functionals: if True, calls of `nn.functional` get types.
        annotate_modules: if True, calls of Facula's modules do.
        annotate_get_attrs: if True, reads of attributes do.

    >>> from facula.fx.experimental.normalize import AnnotateTypesWithSchema
    >>> gm = facula.fx.symbolic_trace(lambda x: F.relu(x))
    >>> list(AnnotateTypesWithSchema(gm).transform().graph.nodes)[1].type.__name__
    'Tensor'
    """

    annotate_functionals: bool
    annotate_modules: bool

    def __init__(self, module: Module, annotate_functionals: bool = True, annotate_modules: bool = True,
                 annotate_get_attrs: bool = True) -> None:  # fmt: skip
        super().__init__(module)
        self.annotate_functionals, self.annotate_modules = annotate_functionals, annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a call of a function in the new graph.

        Args:
            target, args, kwargs: as of Interpreter.call_function.
        """
        out = super().call_function(target, args, kwargs)
        if self.annotate_functionals and getattr(nn.functional, getattr(target, "__name__", ""), None) is target:
            out.node.type = out.node.type or facula.Tensor
        return out

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a call of a submodule in the new graph.

        Args:
            target, args, kwargs: as of Interpreter.call_module.
        """
        out = super().call_module(target, args, kwargs)
        kind = type(self.fetch_attr(target))
        if self.annotate_modules and getattr(nn, kind.__name__, None) is kind:
            annotated = getattr(kind.forward, "__annotations__", {}).get("return")
            out.node.type = out.node.type or (annotated if isinstance(annotated, type) else None)
        return out

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a node of the new graph that reads an attribute.

        Args:
            target, args, kwargs: as of Interpreter.get_attr.
        """
        out = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs and isinstance(out, Proxy):
            out.node.type = out.node.type or type(self.fetch_attr(target))
        return out


class NormalizeOperators(AnnotateTypesWithSchema):
    """Rewrite a module so that `torch.add(x, y)` becomes `x + y`, and so on.

    Args:
        module, annotate_functionals, annotate_modules, annotate_get_attrs: as of AnnotateTypesWithSchema.

    >>> from facula.fx.experimental.normalize import NormalizeOperators
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.add(x, 1))
    >>> list(NormalizeOperators(gm).transform().graph.nodes)[1].target
    <built-in function add>
    """

    binary_magic_method_remap: Any = _SAME

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a call of a function in the new graph.

        Args:
            target, args, kwargs: as of Interpreter.call_function.
        """
        if target in self.binary_magic_method_remap and len(args) == 2 and not kwargs:
            target = self.binary_magic_method_remap[target]
        return super().call_function(target, args, kwargs)
