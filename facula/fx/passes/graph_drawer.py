"""Draw graphs as text in the DOT language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.fx import _public
from facula.fx._compatibility import compatibility
from facula.fx.graph import _parse_stack_trace
from facula.fx.graph_module import GraphModule
from facula.fx.node import _format_arg, _get_qualified_name
from facula.fx.passes.shape_prop import TensorMetadata

if TYPE_CHECKING:
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_param": "Yellow2", "get_attr": "LightGrey",
    "output": "PowderBlue", "call_function": "CadetBlue3", "call_method": "Lavender",
}  # fmt: skip


def _quoted(text):
    # In DOT `\l` ends a line that is aligned left, so its backslash stays single.
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\\\\l", "\\l") + '"'


class _Dot:
    """Represent a graph in DOT."""

    def __init__(self, name, rankdir):
        self.name, self.rankdir, self.lines = name, rankdir, []

    def node(self, name, label, **style):
        """Add a node."""
        given = {"label": label, **style}
        self.lines.append(f"{_quoted(name)} [{', '.join(f'{k}={_quoted(v)}' for k, v in given.items())}];")

    def edge(self, source, target):
        """Add an arrow."""
        self.lines.append(f"{_quoted(source)} -> {_quoted(target)};")

    def to_string(self):
        """Return the text."""
        return "\n".join([f"digraph {_quoted(self.name)} {{", f"rankdir={self.rankdir};", *self.lines, "}", ""])

    __str__ = to_string

    def create_dot(self):
        """Return the text as bytes."""
        return self.to_string().encode()

    def write(self, path, **_):
        """Write the text to a file."""
        with open(path, "w") as file:
            file.write(self.to_string())

    write_raw = write_dot = write

    def get_node_list(self):
        """Return the lines that are nodes."""
        return [line for line in self.lines if " -> " not in line]


@compatibility(is_backward_compatible=False)
class FxGraphDrawer:
    """Draw a graph: produce the text from which Graphviz makes a picture, without any dependency.

    Args:
        graph_module: the GraphModule.
        name: the name of the drawing.
        ignore_getattr: if True, leave out nodes that read attributes.
        ignore_parameters_and_buffers: if True, leave out those of modules.
        skip_node_names_in_args: if True, leave arguments that are nodes out of the text of a node.
        parse_stack_trace: if True, nodes show where they come from.
        dot_graph_shape: the shape of nodes, "record" by default.
        normalize_args: if True, show arguments by the names that the function has for them.

    >>> from facula.fx.passes.graph_drawer import FxGraphDrawer
    >>> drawer = FxGraphDrawer(facula.fx.symbolic_trace(lambda x: x + 1), "plus")
    >>> drawer.get_dot_graph().to_string().splitlines()[0], list(drawer.get_all_dot_graphs())
    ('digraph "plus" {', ['plus'])
    >>> drawer.get_main_dot_graph() is drawer.get_dot_graph()
    True
    """

    normalize_args: bool
    parse_stack_trace: bool
    ignore_getattr: bool
    ignore_parameters: bool

    def __init__(self, graph_module: Module, name: str, ignore_getattr: bool = False,
                 ignore_parameters_and_buffers: bool = False, skip_node_names_in_args: bool = True,
                 parse_stack_trace: bool = False, dot_graph_shape: Any = None,
                 normalize_args: bool = False) -> None:  # fmt: skip
        self._name = name
        self.shape = dot_graph_shape or "record"
        self.normalize_args, self.parse_stack_trace = normalize_args, parse_stack_trace
        self.ignore_getattr, self.ignore_parameters = ignore_getattr, ignore_parameters_and_buffers
        self.skip_names = skip_node_names_in_args
        self._dot_graphs = {name: self._to_dot(graph_module, name)}
        for node in graph_module.graph.nodes:
            inner = graph_module.get_submodule(node.target) if node.op == "call_module" else None
            if isinstance(inner, GraphModule):
                self._dot_graphs[f"{name}_{node.target}"] = self._to_dot(inner, f"{name}_{node.target}")

    def get_dot_graph(self, submod_name: Any = None) -> Any:
        """Return the drawing, with `to_string`, `write` and `create_dot`; of a submodule that is a GraphModule, by its name.

        Args:
            submod_name: its name.
        """
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Any:
        """Return the drawing of the whole."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: Any) -> Any:
        """Return the drawing of a submodule.

        Args:
            submod_name: its name.

        >>> from facula.fx.passes.graph_drawer import FxGraphDrawer
        >>> inner = facula.fx.symbolic_trace(nn.ReLU())
        >>> graph = facula.fx.Graph()
        >>> end = graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
        >>> drawer = FxGraphDrawer(facula.fx.GraphModule({"inner": inner}, graph), "net")
        >>> list(drawer.get_all_dot_graphs())
        ['net', 'net_inner']
        >>> drawer.get_submod_dot_graph("inner").to_string().splitlines()[0]
        'digraph "net_inner" {'
        """
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> Any:
        """Return all drawings, by name."""
        return self._dot_graphs

    def _to_dot(self, gm, name):
        dot = _Dot(name, "TB")
        for node in gm.graph.nodes:
            if self.ignore_getattr and node.op == "get_attr":
                continue
            color = _COLORS.get(node.op, "White")
            shape = self.shape
            dot.node(node.name, self._label(gm, node), shape=shape, style='"filled,rounded"'.strip('"'), fillcolor=color,
                     fontcolor="#000000")  # fmt: skip
            for used in node.all_input_nodes:
                if not (self.ignore_getattr and used.op == "get_attr"):
                    dot.edge(used.name, node.name)
        return dot

    def _label(self, gm, node):
        lines = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            module = gm.get_submodule(node.target)
            lines.append(f"{_public.torch_module(type(module).__module__)}.{type(module).__qualname__}")
            for key in getattr(module, "__constants__", ()):
                lines.append(f"{key}: {getattr(module, key)}")
            lines += self._of_module(module)
        else:
            target = node.target if isinstance(node.target, str) else _get_qualified_name(node.target)
            lines.append(f"target={target}")
            for what, given in (("args", node.args), ("kwargs", node.kwargs)):
                if given:
                    lines.append(f"{what}={_format_arg(given, 8)}")
            lines.append(f"num_users={len(node.users)}")
        meta = node.meta.get("tensor_meta")
        lines += self._of_tensors(meta)
        if self.parse_stack_trace and node.stack_trace:
            found = _parse_stack_trace(node.stack_trace)
            lines.append(f"file={found.file}:{found.lineno}")
        text = "\\l".join(str(line) for line in lines) + "\\l"
        for letter in "{}<>|":
            text = text.replace(letter, f"\\{letter}") if self.shape == "record" else text
        return "{" + text + "}" if self.shape == "record" else text

    def _of_module(self, module):
        if self.ignore_parameters:
            return []
        named = (*module.named_parameters(), *module.named_buffers())
        return [f"{name}: {tensor.dtype}{list(tensor.shape)}" for name, tensor in named]

    def _of_tensors(self, meta):
        if isinstance(meta, TensorMetadata):
            return [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}", f"requires_grad={meta.requires_grad}",
                    f"stride={meta.stride}"]  # fmt: skip
        if isinstance(meta, (list, tuple)):
            return [line for part in meta for line in self._of_tensors(part)]
        return []
