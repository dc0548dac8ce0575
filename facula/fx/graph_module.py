"""Define GraphModule, a module that runs a graph by the code that is generated for it.

Long because PyTorch has the class, its attributes and its source in one file of this name.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import textwrap
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import facula
from facula.fx._codegen import CodeGen, _custom_builtins, _is_from_torch, _PyTreeCodeGen  # noqa: F401
from facula.fx._compatibility import compatibility
from facula.fx._source import (  # noqa: F401  (programs find them here)
    _EvalCacheLoader,
    _exec_with_source,
    _format_import_block,
    _format_import_statement,
    _forward_from_src,
    _loader,
    _method_from_src,
    _run_imports,
    _torch_is_facula,
)  # fmt: skip
from facula.fx.graph import Graph
from facula.fx.immutable_collections import immutable_dict

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from facula.fx._codegen import PythonCode
    from facula.fx.node import Target
    from facula.nn.modules.module import Module

__all__ = ["reduce_graph_module", "reduce_package_graph_module", "GraphModule"]


# ---- Attributes of modules by their paths


def _copy_attr(from_module, to_module, target):
    """Put an attribute of a module in the same place of another, with the modules on the way."""
    *prefix, field = target.split(".")
    for part in prefix:
        source = getattr(from_module, part)
        if not hasattr(to_module, part):
            setattr(to_module, part, facula.nn.Module())
        from_module, to_module = source, getattr(to_module, part)
        if source is to_module:
            return
    value = getattr(from_module, field)
    if isinstance(value, facula.Tensor) and not isinstance(value, facula.nn.Parameter):
        persistent = field not in getattr(from_module, "_non_persistent_buffers_set", ())
        if hasattr(to_module, field) and field not in to_module._buffers:
            delattr(to_module, field)
        to_module.register_buffer(field, value, persistent=persistent)
    else:
        setattr(to_module, field, value)


def _assign_attr(from_obj, to_module, target):
    """Put an object in a place of a module, making the modules on the way."""
    *prefix, field = target.split(".")
    for part in prefix:
        if getattr(to_module, part, None) is None:
            setattr(to_module, part, facula.nn.Module())
        to_module = getattr(to_module, part)
    if isinstance(from_obj, facula.Tensor) and not isinstance(from_obj, facula.nn.Parameter):
        to_module.register_buffer(field, from_obj)
    else:
        setattr(to_module, field, from_obj)


def _get_attr(model, attr_name):
    for part in attr_name.split("."):
        model = getattr(model, part)
    return model


def _has_attr(model, attr_name):
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


def _del_attr(model, attr_name):
    *prefix, field = attr_name.split(".")
    delattr(_get_attr(model, ".".join(prefix)) if prefix else model, field)


class _WrappedCall:
    """Run the module, and add to the text of an error its place in the generated code."""

    def __init__(self, cls, cls_call):
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _generate_error_message(frame):
        line, text = frame.lineno, _loader.eval_cache.get(frame.filename, "")
        lines = text.splitlines()
        before, here = lines[max(0, line - 2) : line], lines[line : line + 2]
        head = f"GraphModule: the error came from line {line} of its generated forward:"
        return "\n".join([head, *before, "", "~" * 39 + " <--- HERE", *here])

    def __call__(self, obj, *args, **kwargs):
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)
        except Exception as error:
            if error.__traceback__ is None:
                raise
            frames = traceback.extract_tb(error.__traceback__)
            if frames and frames[-1].filename.startswith("<eval_with_key>"):
                print(self._generate_error_message(frames[-1]), file=sys.stderr)
            raise


_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
FX_GRAPH_MODULE_FILE_PREFIX = "fx_generated_"
_PyTree = immutable_dict
_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")  # which copies and files lack


# ---- pickles


@compatibility(is_backward_compatible=True)
def reduce_graph_module(body: dict[str, bool | dict[str, Any] | set[Any] | None], import_block: str) -> GraphModule:
    """Return a GraphModule from its attributes and the imports of its code: what a pickle calls.

    Args:
        body: the module's `__dict__`, with its text as "_code".
        import_block: the statements that bring what the text names.

    >>> function, arguments = facula.fx.symbolic_trace(lambda x: x + 1).__reduce__()
    >>> function(*arguments)(1)
    2
    """
    code = body.get("_code") or body["code"]
    function = _forward_from_src(code, _run_imports(import_block))
    return _deserialize_graph_module(function, body)


def reduce_package_graph_module(importer: Any, body: Any, generated_module_name: Any) -> GraphModule:
    """Return a GraphModule from its attributes and the module of a package that has its code: what archives of `package` call.

    Args:
        importer: has `import_module`, such as a PackageImporter.
        body: the module's `__dict__`.
        generated_module_name: the module whose `forward` is the code.

    >>> import types
    >>> class Importer:
    ...     def import_module(self, name):
    ...         return types.SimpleNamespace(forward=lambda self, x: x + 1)
    >>> body = facula.fx.symbolic_trace(lambda x: x + 1).__reduce__()[1][0]
    >>> facula.fx.graph_module.reduce_package_graph_module(Importer(), body, "code")(1)
    2
    """
    return _deserialize_graph_module(importer.import_module(generated_module_name).forward, body)


class _CodeOnlyModule(facula.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


def _deserialize_graph_module(forward, body, graph_module_cls=None):
    """Trace the stored code, so that the graph is there again."""
    tracer_cls = body.get("_tracer_cls") or facula.fx.Tracer
    body.pop("_graphmodule_cls_name", None)
    extras, codegen = body.pop("_tracer_extras", None), body.pop("_fx_codegen", None)
    _CodeOnlyModule.forward = forward
    com = _CodeOnlyModule(body)

    class KeepModules(tracer_cls):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    tracer = KeepModules(**(extras or {}))
    graph = tracer.trace(com)
    graph._tracer_cls = tracer_cls
    if codegen is not None:
        graph.set_codegen(codegen)
    gm = (graph_module_cls or GraphModule)(com, graph)
    for key, value in body.items():
        if not hasattr(gm, key):
            setattr(gm, key, value)
    gm.meta = body.get("meta", gm.meta)
    return gm


@compatibility(is_backward_compatible=True)
class GraphModule(facula.nn.Module):
    """Run a graph as a module, which has `graph`, `code`, and a `forward` that is this code.

    Args:
        root: a module whose attributes and submodules the graph names, or a dict of them by path.
        graph: the graph.
        class_name: the name of the class, for people.

    A subclass may take others: `args` and `kwargs` of the class are those of its `__init__`. Pickling and copying keep the
    graph: a pickle holds the text, which is traced when it is read.

    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    >>> for node in gm.graph.nodes:
    ...     if node.target == "1":
    ...         node.target = "act"
    >>> gm.add_submodule("act", nn.Tanh()), gm.delete_submodule("1")
    (True, True)
    >>> code = gm.recompile()
    >>> gm.delete_all_unused_submodules()
    >>> [name for name, _ in gm.named_children()]
    ['0', 'act']
    >>> print(gm.code.strip())
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1);  input_1 = None
        _1 = self.act(_0);  _0 = None
        return _1
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        for base in cls.__mro__:
            if "forward" in vars(base) and "GraphModuleImpl" not in base.__qualname__:
                break
        original = next(c for c in cls.__mro__ if c.__qualname__ != "GraphModule.__new__.<locals>.GraphModuleImpl")

        class GraphModuleImpl(original):
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, facula.nn.Module):
            if hasattr(root, "training"):
                self.training: bool = root.training
            self._take_from_module(root, graph)
        elif isinstance(root, dict):
            self._take_from_dict(root, graph)
        else:
            raise RuntimeError(f"GraphModule: root must be a module or a dict, got {type(root)}")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[Any, Any] = {}
        self.shape_env: Any = None
        self._replace_hooks, self._create_node_hooks, self._erase_node_hooks, self._deepcopy_hooks = [], [], [], []

    def _take_from_module(self, root, graph):
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
        del hooks
        for key, value in root.__dict__.get("meta", {}).items() if isinstance(root, GraphModule) else ():
            self.__dict__.setdefault("meta", {})[key] = value
        for target in _references(graph):
            _copy_attr(root, self, target)

    def _take_from_dict(self, root, graph):
        wanted = []
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError(f"GraphModule: {node} needs {node.target!r}, which the dictionary root lacks")
                wanted.append(node.target)
        for target in sorted(dict.fromkeys(wanted), key=lambda t: t.count(".")):
            _assign_attr(root[target], self, target)

    __jit_unused_properties__: list[str] = ["graph"]

    @property
    def graph(self) -> Graph:
        """The graph. Set it, or call `recompile` after changing it."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"GraphModule.graph: a Graph is expected, got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`."""
        if "_code" not in self.__dict__:
            raise RuntimeError(f"{type(self).__name__}.code: expected a graph that was set or recompile() before, got neither")
        return self._code

    def recompile(self) -> PythonCode:
        """Write `code` and `forward` anew from the graph. To be called after the graph was changed.

        Returns:
            The PythonCode.
        """
        if isinstance(self._graph._codegen, _PyTreeCodeGen) and self._graph._codegen.pytree_info is not None:
            self._in_spec = self._graph._codegen.pytree_info.in_spec
            self._out_spec = self._graph._codegen.pytree_info.out_spec
        python_code = self._graph.python_code(root_module="self")
        self._code = python_code.src
        cls = type(self)
        cls.forward = _forward_from_src(self._code, python_code.globals, getattr(self._graph, "_co_fields", None))
        cls_call = cls.__dict__.get("__call__")
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, cls_call)
        wrapped = cls._wrapped_call

        def call_wrapped(self, *args, **kwargs):
            return wrapped(self, *args, **kwargs)

        cls.__call__ = call_wrapped
        return python_code

    # ---- copies and files

    def __reduce_ex__(self, protocol: Any) -> Any:
        if type(self).__reduce__ is not GraphModule.__reduce__:
            return super().__reduce_ex__(protocol)
        return self.__reduce__()

    def __reduce__(self) -> Any:
        body, python_code = self._body()
        return reduce_graph_module, (body, _format_import_block(python_code.globals))

    def __reduce_package__(self, exporter: Any) -> Any:
        """Reduce for a package: the code becomes a module of it, whose imports are packed, too."""
        body, code = self._body()
        name = f"fx-generated._{exporter.get_unique_id()}"
        exporter.save_source_string(name, f"{_format_import_block(code.globals, exporter.importer)}\n{body.pop('_code')}")
        return reduce_package_graph_module, (body, name)

    def _body(self):
        """Return the attributes that a pickle has, and the code."""
        body = self.__dict__.copy()
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):  # the program is traced again, on the leaves
            body["_fx_codegen"] = codegen
            self._graph.set_codegen(CodeGen())
        python_code = self._graph.python_code(root_module="self")
        self._graph.set_codegen(codegen)
        body["_code"] = python_code.src
        del body["_graph"]
        body["_graphmodule_cls_name"] = type(self).__name__
        for hooks in _HOOKS:
            body.pop(hooks, None)
        return body, python_code

    def _deepcopy_init(self):
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        fake = facula.nn.Module()
        fake.__dict__ = copy.deepcopy({k: v for k, v in self.__dict__.items() if k not in ("_graph", *_HOOKS)}, memo)
        self._deepcopy_init()(new, fake, copy.deepcopy(self._graph, memo), type(self).__name__)
        extra = (
            "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_forward_hooks",
            "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs",
        )  # fmt: skip
        for key in extra:
            if key in fake.__dict__:
                new.__dict__[key] = fake.__dict__[key]
        new.meta = fake.__dict__.get("meta", {})  # what refers to this module refers to its copy there
        if _USER_PRESERVED_ATTRIBUTES_KEY in new.meta:
            for name, value in new.meta[_USER_PRESERVED_ATTRIBUTES_KEY].items():
                setattr(new, name, value)
        for hook in self._deepcopy_hooks:
            hook(new)
        return new

    def __copy__(self) -> GraphModule:
        new = GraphModule(self, self.graph)
        new.meta = getattr(self, "meta", {})
        return new

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Write a package with the code as a module of its own, and its parameters beside it.

        Args:
            folder: the directory.
            module_name: the name of the class.

        >>> import os, tempfile
        >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     gm.to_folder(folder)
        ...     sorted(os.listdir(folder))
        ['__init__.py', 'module.py', 'state_dict.pt']
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        facula.save(self.state_dict(), folder / "state_dict.pt")
        python_code = self._graph.python_code(root_module="self")
        lines = [
            _format_import_block(python_code.globals), "", "from torch.nn import *", f"class {module_name}(torch.nn.Module):",
            "    def __init__(self):", "        super().__init__()", *self._setup_lines(folder),
            f"        self.load_state_dict(torch.load(r'{folder / 'state_dict.pt'}'))", "",
        ]  # fmt: skip
        (folder / "module.py").write_text("\n".join(["import torch", *lines]) + textwrap.indent(self.code, "    ") + "\n")
        (folder / "__init__.py").write_text("from .module import *")

    def _setup_lines(self, folder):
        """Return the statements that make the attributes of such a module."""
        blobs, lines = [], []
        plain = {"Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"}
        for name, module in self.named_children():
            if type(module).__name__ in plain and type(module).__module__.startswith("facula.nn"):
                text = repr(module)
            else:
                file = folder / f"{name}.pt"
                facula.save(module, file)
                blobs.append(name)
                text = f"torch.load(r'{file}', weights_only=False)"
            note = f"  # {type(module).__name__}()" if name in blobs else ""
            lines.append(f"        setattr(self, '{name}', {text}){note}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                lines.append(f"        self.register_buffer('{name}', torch.empty({list(buffer.shape)}, dtype={buffer.dtype}))")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                shape, dtype = list(parameter.shape), parameter.dtype
                lines.append(f"        setattr(self, '{name}', torch.nn.Parameter(torch.empty({shape}, dtype={dtype})))")
        if blobs:
            warnings.warn(
                f"to_folder: the reprs of these modules are no program that makes them, so they are pickled: {blobs}"
            )
        return lines

    # ---- submodules

    def add_submodule(self, target: Target, m: Module) -> bool:
        """Put a module in a place, making empty modules on the way.

        Args:
            target: the path.
            m: the module.

        Returns:
            Whether that was possible.
        """
        *prefix, field = target.split(".")
        module = self
        for part in prefix:
            child = getattr(module, part, None)
            if child is None:
                child = facula.nn.Module()
                setattr(module, part, child)
            if not isinstance(child, facula.nn.Module):
                return False
            module = child
        module.add_module(field, m)
        return True

    def delete_submodule(self, target: Target) -> bool:
        """Take a submodule out.

        Args:
            target: its path.

        Returns:
            Whether there was one.
        """
        *prefix, field = target.split(".")
        module = self
        for part in prefix:
            module = getattr(module, part, None)
            if not isinstance(module, facula.nn.Module):
                return False
        if not isinstance(getattr(module, field, None), facula.nn.Module):
            return False
        delattr(module, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the submodules that no node names."""
        used = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
            if node.op == "call_module":
                with contextlib.suppress(AttributeError):
                    used.update(f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules())
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- text

    def __str__(self) -> str:
        text = super().__str__()
        hint = "# print_readable() shows more: shapes, dtypes and source lines"
        return "\n".join([text, self._code, hint])

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
                       colored: bool = False, *, fast_sympy_print: bool = False, expanded_def: bool = False,
                       additional_meta: Any = None) -> str:  # fmt: skip
        """Return the code of this module and of the GraphModules in it, with the lines where nodes come from.

        Args:
            print_output: if True, print it.
            include_stride, include_device: what is said of tensors.
            colored, fast_sympy_print, expanded_def, additional_meta: accepted; they change nothing here.

        Returns:
            The text.

        >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
        >>> print(gm.print_readable(print_output=False).rstrip())
        class <lambda>(torch.nn.Module):
            def forward(self, x):
                # No stacktrace found for following nodes
                add = x + 1;  x = None
                return add
        """
        code = self._graph.python_code(
            root_module="self", verbose=True, include_stride=include_stride, include_device=include_device, include_meta=True
        ).src
        lines = textwrap.indent(code.lstrip("\n").rstrip() + "\n", "    ")
        text = f"class {self._get_name()}(torch.nn.Module):\n{lines}"
        inner = [child.print_readable(False, include_stride, include_device) for child in self.children() if
                 isinstance(child, GraphModule)]  # fmt: skip
        text = "\n".join([text, *(textwrap.indent(part, "    ") for part in inner)])
        if print_output:
            print(text)
        return text

    # ---- hooks on changes of the graph

    @contextlib.contextmanager
    def _set_replace_hook(self, f):
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f):
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f):
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f):
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f):
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f):
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f):
        self._erase_node_hooks.remove(f)

    def _replicate_for_data_parallel(self):
        new = self.__copy__()
        new._is_replica = True
        return new


def _references(graph):
    """Return what a graph names in its module."""
    return dict.fromkeys(node.target for node in graph.nodes if node.op in ("get_attr", "call_module"))
