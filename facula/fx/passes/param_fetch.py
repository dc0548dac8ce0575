"""Read the attributes of modules that backends need to lower them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.fx._compatibility import compatibility
from facula.fx.graph_module import GraphModule

if TYPE_CHECKING:
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]

_CONV = ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
_NORM = ["weight", "bias", "running_mean", "running_var", "eps"]
#: class -> (version, attributes)
module_fetch_book: dict[Any, Any] = {
    facula.nn.modules.linear.Linear: (1, ["weight", "bias"]),
    facula.nn.modules.conv.Conv2d: (1, _CONV),
    facula.nn.modules.batchnorm.BatchNorm2d: (2, _NORM),
    facula.nn.modules.pooling.AdaptiveAvgPool2d: (1, []),
    facula.nn.modules.pooling.MaxPool2d: (1, ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]),
    facula.nn.modules.activation.ReLU: (1, ["inplace"]),
}


@compatibility(is_backward_compatible=False)
def default_matching(name: str, target_version: Any) -> str:
    """Return the name of an attribute in the current version of its class.

    Args:
        name: the name.
        target_version: the version that is wanted.

    >>> from facula.fx.passes.param_fetch import default_matching
    >>> default_matching("weight", 1)
    'weight'
    """
    del target_version
    return name


@compatibility(is_backward_compatible=False)
def extract_attrs_for_lowering(mod: Module) -> dict[str, Any]:
    """Return {name: value} of what a module is made of; RuntimeError for classes that are not known.

    Args:
        mod: the module.

    >>> from facula.fx.passes.param_fetch import extract_attrs_for_lowering
    >>> extract_attrs_for_lowering(nn.ReLU())
    {'name': 'facula.nn.modules.activation.ReLU', 'inplace': False}
    """
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"extract_attrs_for_lowering: a module that is known is expected, got {facula.typename(mod)}")
    _, names = module_fetch_book[type(mod)]
    return {"name": facula.typename(mod), **{name: getattr(mod, name) for name in names}}


@compatibility(is_backward_compatible=False)
def lift_lowering_attrs_to_nodes(fx_module: Module) -> None:
    """Note that in the nodes that call modules (`attrs_for_lowering`).

    Args:
        fx_module: the GraphModule.

    >>> from facula.fx.passes.param_fetch import lift_lowering_attrs_to_nodes
    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    >>> lift_lowering_attrs_to_nodes(gm)
    >>> list(gm.graph.nodes)[1].attrs_for_lowering["inplace"]
    False
    """
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        inner = fx_module.get_submodule(node.target)
        if isinstance(inner, GraphModule):
            lift_lowering_attrs_to_nodes(inner)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(inner)
