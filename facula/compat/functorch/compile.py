"""Provide PyTorch's `functorch.compile`: compilers for the graphs of functions and of their backward passes."""

from facula._functorch import config
from facula.compiler._aot import (
    aot_function,
    aot_module,
    aot_module_simplified,
    compiled_function,
    compiled_module,
    get_aot_graph_name,
    get_graph_being_compiled,
    make_boxed_compiler,
    make_boxed_func,
    memory_efficient_fusion,
    nop,
    print_compile,
)
from facula.compiler._partitioners import default_partition, min_cut_rematerialization_partition

__all__ = [
    "aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module", "config",
    "default_partition", "get_aot_graph_name", "get_graph_being_compiled", "make_boxed_compiler", "make_boxed_func",
    "memory_efficient_fusion", "min_cut_rematerialization_partition", "nop", "print_compile",
]  # fmt: skip
