"""Provide `functorch.compile`: functions and modules whose passes are given to compilers, as graphs of ATen targets."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from facula import nn
from facula.compiler._backends.common import AotAutograd
from facula.compiler._backends.stretches import being_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.fx.graph_module import GraphModule

__all__ = [
    "aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module", "get_aot_graph_name",
    "get_graph_being_compiled", "make_boxed_compiler", "make_boxed_func", "memory_efficient_fusion", "nop", "print_compile",
]  # fmt: skip


def aot_function(fn: Callable[..., Any], fw_compiler: Callable[..., Any], bw_compiler: Callable[..., Any] | None = None,
                 partition_fn: Any = None, decompositions: Any = None, num_params_buffers: int = 0,
                 keep_inference_input_mutations: bool = False, inference_compiler: Callable[..., Any] | None = None, *,
                 dynamic: bool = False, enable_log: bool = True, disable_functionalization: bool = False) -> Any:  # fmt: skip
    """Return a function that does what another one does, whose passes are given to compilers.

    Args:
        fn: the function.
        fw_compiler, bw_compiler, inference_compiler: are given a graph and example inputs, and give what runs it.
        partition_fn, decompositions, keep_inference_input_mutations: those of `aot_autograd`.
        num_params_buffers, enable_log, disable_functionalization: what PyTorch's tracer is told; without effect.
        dynamic: whether sizes vary.

    >>> from facula._functorch.aot_autograd import aot_function, print_compile
    >>> double = aot_function(lambda x: 2 * x, print_compile)
    >>> double(torch.ones(2))
    def forward(self, arg0_1):
        mul = torch.ops.aten.mul.Tensor(arg0_1, 2);  arg0_1 = None
        return (mul,)
    tensor([2., 2.])
    """
    from facula.compiler import compile

    backend = AotAutograd(
        fw_compiler=fw_compiler, bw_compiler=bw_compiler, inference_compiler=inference_compiler, partition_fn=partition_fn,
        decompositions=decompositions, keep_inference_input_mutations=keep_inference_input_mutations,
    )  # fmt: skip
    return compile(fn, backend=backend, dynamic=dynamic)


def aot_module(mod: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """Return a module that does what another one does, whose passes are given to compilers. It has the same parameters.

    Args:
        mod: the module.
        args, kwargs: what `aot_function` takes after the function.
    """
    if not isinstance(mod, nn.Module):
        raise TypeError(f"aot_module: a module is compiled, got {type(mod).__name__}")
    return aot_function(mod, *args, **kwargs)


compiled_function, compiled_module = aot_function, aot_module


def aot_module_simplified(mod: GraphModule, args: Sequence[Any], fw_compiler: Callable[..., Any],
                          bw_compiler: Callable[..., Any] | None = None, partition_fn: Any = None, decompositions: Any = None,
                          keep_inference_input_mutations: bool = False,
                          inference_compiler: Callable[..., Any] | None = None) -> Any:  # fmt: skip
    """Return what a backend gives for a graph of which compilers make something: for backends of `torch.compile`.

    Args:
        mod: the graph.
        args: the example inputs.
        fw_compiler, bw_compiler, partition_fn, decompositions, keep_inference_input_mutations, inference_compiler: those of
            `aot_autograd`.
    """
    how = AotAutograd(
        fw_compiler=fw_compiler, bw_compiler=bw_compiler, inference_compiler=inference_compiler, partition_fn=partition_fn,
        decompositions=decompositions, keep_inference_input_mutations=keep_inference_input_mutations,
    )  # fmt: skip
    return how(mod, args)


def make_boxed_func(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a list, of one of as many arguments; whoever calls it sees that (`_boxed_call`).

    Args:
        f: the function.

    >>> from facula._functorch.aot_autograd import make_boxed_func
    >>> make_boxed_func(lambda x, y: x + y)([1, 2])
    3
    """

    @functools.wraps(f)
    def boxed(args):
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiler that gives functions of lists.

    Args:
        compiler: one whose functions take tensors one by one.
    """

    @functools.wraps(compiler)
    def boxed(graph, examples):
        return make_boxed_func(compiler(graph, examples))

    return boxed


@make_boxed_compiler
def nop(fx_g: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
    """Return a compiler that gives the graph as it is.

    Args:
        fx_g: the graph.
        _: the example inputs.
    """
    return fx_g.forward


@make_boxed_compiler
def print_compile(fx_g: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
    """Return a compiler that prints the code of the graph, and gives it as it is.

    Args:
        fx_g: the graph.
        _: the example inputs.
    """
    print(fx_g.code.strip())
    return fx_g.forward


def memory_efficient_fusion(fn: Any, **kwargs: Any) -> Any:
    """Return the function or module, compiled by Facula itself.

    Args:
        fn: a function or a module.
        kwargs: what PyTorch's compiler is told; without effect.
    """
    from facula.compiler import compile

    return compile(fn)


def get_graph_being_compiled() -> str:
    """Return what a compiler of `aot_autograd` is given at this moment: "forward", "backward" or "inference", and a number."""
    return get_aot_graph_name()


def get_aot_graph_name() -> str:
    """Return the same as `get_graph_being_compiled`."""
    stretches = being_compiled()
    if stretches is None:
        raise RuntimeError("get_aot_graph_name: a compiler asks it while it is given a graph, got a call from elsewhere")
    kind = "backward" if stretches.backward is None else "forward" if stretches.trains else "inference"
    return f"model__{stretches.graphs}_{kind}_{stretches.graphs}"
