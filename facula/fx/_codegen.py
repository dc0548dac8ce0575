"""From a graph to the text of a function, and its globals."""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from facula.fx._writer import (  # noqa: F401
    _custom_builtins,
    _CustomBuiltin,
    _format_target,
    _is_from_torch,
    _parse_stack_trace,
    _ParsedStackTrace,
    _Writer,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from facula.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor


def _register_custom_builtin(name, import_str, obj):
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)


def _is_magic(name):
    return name.startswith("__") and name.endswith("__")


def _snake_case(text):
    """transformerEncoder, TransformerEncoder -> transformer_encoder"""
    found = []
    for at, letter in enumerate(text):
        if letter.isupper():
            if at and text[at - 1].islower():
                found.append("_")
            letter = letter.lower()
        found.append(letter)
    return "".join(found)


class _Namespace:
    """Names that are taken, with what they stand for."""

    _ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
    _NUMBERED = re.compile(r"(.+)_(\d+)\Z")

    def __init__(self):
        self._obj_to_name = {}
        self._used_names = set()
        self._base_count = {}

    def create_name(self, candidate, obj):
        """A name like `candidate` that nothing has yet; the same again for the same `obj`, which may be None."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        name = candidate if candidate.isidentifier() and candidate.isascii() else self._legal(candidate)
        numbered = self._NUMBERED.match(name)
        base, number = (numbered.group(1), int(numbered.group(2))) if numbered else (name, None)
        if name in self._used_names or number is None and base in self._base_count:
            number = self._base_count.get(base, 0)
        if number is None:
            number = self._base_count.get(base, 0)
        while name in self._used_names or self._is_illegal_name(name, obj):
            number += 1
            name = f"{base}_{number}"
        self._used_names.add(name)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = name
        return name

    def _legal(self, candidate):
        name = self._ILLEGAL.sub("_", candidate) or "_unnamed"
        return f"_{name}" if name[0].isdigit() else name

    def associate_name_with_obj(self, name, obj):
        """Says what a name stands for that is taken already."""
        known = self._obj_to_name.setdefault(obj, name)
        if known != name:
            raise AssertionError(f"Object is already associated with a name: {known}, new: {name}")

    def _is_illegal_name(self, name, obj):
        if name in keyword.kwlist:
            return True
        if name in vars(builtins):
            return obj is not vars(builtins)[name]
        if name in _custom_builtins:
            return obj is not _custom_builtins[name].obj
        return False

    def _rename_object(self, obj, name):
        self._obj_to_name[obj] = name
        self._used_names.add(name)


@dataclass
class PythonCode:
    """The text of a function and what it needs to run: what `Graph.python_code` gives.

    Args:
        src: the text, one `def forward(self, ...)`.
        globals: the objects that the text names, by those names.

    >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(x) + 1)
    >>> made = gm.graph.python_code("self")
    >>> print(made.src.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    >>> made.globals["torch"] is facula
    True
    """

    src: str
    globals: dict[Any, Any]
    _lineno_map: dict | None = None
    _prologue_start: int = 0


class _PyTreeInfo(NamedTuple):
    """How arguments are taken apart for a graph, and its results put together."""

    orig_args: list[Any]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class CodeGen:
    """How a graph becomes a function: subclasses change how arguments come in and results go out.

    Subclasses replace `gen_fn_def`, `generate_output`, `process_inputs`, `process_outputs` or `additional_globals`, and are
    set by `Graph.set_codegen`.

    >>> class Named(facula.fx.CodeGen):
    ...     def generate_output(self, output_args):
    ...         return f"return {{'out': {output_args!r}}}"
    >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
    >>> gm.graph.set_codegen(Named())
    >>> code = gm.recompile()
    >>> gm(1)
    {'out': 2}
    """

    def __init__(self, *_: Any) -> None:
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: Sequence[str], maybe_return_annotation: str) -> str:
        """The line of `def`.

        Args:
            free_vars: the parameters, as text.
            maybe_return_annotation: " -> type" or nothing.

        >>> facula.fx.CodeGen().gen_fn_def(["x", "y = 2"], "")
        'def forward(self, x, y = 2):'
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """The statement that ends the function.

        Args:
            output_args: what the graph gives, with texts for nodes: their `repr` is what the statement says.

        >>> facula.fx.CodeGen().generate_output((1, 2))
        'return (1, 2)'
        """
        return f"return {output_args!r}"

    def _call_generate_output(self, node, value):
        if type(self).generate_output is CodeGen.generate_output:
            return f"return {value(node.args[0])}"
        return self.generate_output(_Shown.of(node.args[0], value))

    def process_inputs(self, *args: Any) -> tuple[Any, ...]:
        """Arguments as the placeholders get them, for an Interpreter: here unchanged.

        Args:
            args: the arguments of the call.

        >>> facula.fx.CodeGen().process_inputs(1, 2)
        (1, 2)
        """
        return args

    def process_outputs(self, outputs: Any) -> dict[str, Tensor | list[Any]] | tuple[Tensor, Tensor]:
        """Results as the caller gets them, for an Interpreter: here unchanged.

        Args:
            outputs: what the output node gives.

        >>> facula.fx.CodeGen().process_outputs((1, 2))
        (1, 2)
        """
        return outputs

    def additional_globals(self) -> list[Any]:
        """A list of (name, value): globals that the text needs beside those of its nodes.

        >>> facula.fx.CodeGen().additional_globals()
        []
        """
        return []

    def _gen_python_code(
        self, nodes, root_module, namespace, *, verbose=False, include_stride=False, include_device=False, colored=False,
        expanded_def=False, record_func=False, additional_meta=None, include_meta=False, **_,
    ):  # fmt: skip
        writer = _Writer(
            self, nodes, root_module, namespace, verbose=verbose, include_stride=include_stride,
            include_device=include_device, include_meta=include_meta,
        )  # fmt: skip
        for name, value in self.additional_globals():
            writer.globals.add(name, value)
        line_of_node, counts = {}, []
        for index, node in enumerate(writer.nodes):
            writer.node(node)
            writer.release(node)
            counts.append((index, len(writer.body)))
        if not writer.body:
            writer.body.append("pass\n")
        body = self._body_transformer(writer.body) if self._body_transformer is not None else writer.body
        wraps = ""
        if writer.wrapped:
            from facula.fx._symbolic_trace import wrap

            name = writer.globals.add("wrap", wrap)
            wraps = "\n".join(f'{name}("{function}")' for function in writer.wrapped)
        prologue = self.gen_fn_def(writer.free_vars, writer.annotation)
        text = "\n".join(f"    {line}" for line in "".join(body).lstrip("\n").split("\n"))
        source = f"\n{wraps}\n\n{prologue}\n{text}"
        return PythonCode(source, writer.globals.found, _lineno_map=line_of_node)


class _Shown:
    """Stands in an output for text that is ready."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text

    @classmethod
    def of(cls, arg, value):
        """The items of a list or tuple, ready; or the whole."""
        if type(arg) in (list, tuple) or isinstance(arg, list):
            kind = tuple if isinstance(arg, tuple) else list
            return kind(cls(value(item)) for item in arg)
        return cls(value(arg))


def _positional_count(spec):
    """How many positional arguments there are in the spec of (args, kwargs); None for another spec."""
    if spec.type is not tuple or spec.num_children != 2:
        return None
    args, kwargs = spec.children_specs
    return args.num_children if args.type is tuple and kwargs.type is dict else None


class _PyTreeCodeGen(CodeGen):
    """Takes nested arguments apart, and puts nested results together."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        return pytree.tree_leaves(inputs)

    def process_outputs(self, out):
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        leaves = list(out) if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation)
        args = list(self.pytree_info.orig_args)
        has_self = args[:1] == ["self"]
        given = args[1:] if has_self else args
        text = super().gen_fn_def(list(args), maybe_return_annotation)
        if free_vars:
            without_types = [var.split(":")[0].split("=")[0].strip() for var in free_vars if var != "self"]
            flat = f"[{', '.join(given)}]"
            positional = _positional_count(self.pytree_info.in_spec)
            if positional is not None:  # the spec is of (args, kwargs)
                keywords = ", ".join(f"{name!r}: {name}" for name in given[positional:])
                flat = f"(({''.join(f'{name}, ' for name in given[:positional])}), {{{keywords}}})"
            text += f"\n    {', '.join(without_types)}, = fx_pytree.tree_flatten_spec({flat}, self._in_spec)"
        return text

    def generate_output(self, output_args):
        if self.pytree_info is not None and self.pytree_info.out_spec is not None:
            if not isinstance(output_args, (list, tuple)):
                output_args = [output_args]
            shown = f"[{', '.join(map(repr, output_args))}]"
            return f"return pytree.tree_unflatten({shown}, self._out_spec)"
        return super().generate_output(output_args)
