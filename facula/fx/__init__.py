"""Represent programs as graphs that Python can change: `symbolic_trace` runs a module on proxies and returns a
GraphModule.

A Graph is a list of Nodes: inputs, calls of functions, methods and submodules, reads of attributes, and one output. A
GraphModule runs a graph as the Python code that it is written as (`gm.code`). Between the two a program can look at nodes,
replace them and add others. `Interpreter` runs a graph node by node, `replace_pattern` rewrites parts of it, `passes` has
tools that need shapes or split graphs.

>>> gm = facula.fx.symbolic_trace(lambda x, w: facula.relu(x @ w).sum())
>>> [node.op for node in gm.graph.nodes]
['placeholder', 'placeholder', 'call_function', 'call_function', 'call_method', 'output']
"""

from facula.fx import immutable_collections, traceback
from facula.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from facula.fx.graph import CodeGen, Graph
from facula.fx.graph_module import GraphModule
from facula.fx.interpreter import Interpreter, Transformer
from facula.fx.node import Node, has_side_effect, map_arg
from facula.fx.proxy import Proxy
from facula.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "PH", "Proxy", "ProxyableClassMeta", "Tracer", "Transformer",
    "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
