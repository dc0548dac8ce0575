"""Handle the text of generated functions: compile it, show it in errors, and find the imports that it needs elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import sys

import facula
from facula.fx._codegen import _custom_builtins


class _EvalCacheLoader:
    """Store the text of generated functions for tracebacks and `inspect`."""

    def __init__(self):
        self.eval_cache, self._ids = {}, itertools.count()

    def cache(self, src, globals, co_fields=None):
        """Note a text; give the name of its file."""
        key = f"<eval_with_key>.{next(self._ids)}"
        if co_fields:
            key += f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in {co_fields['co_name']}"
        self.eval_cache[key] = src
        globals_copy = globals.copy()
        globals_copy.update(__file__=key, __name__=key, __loader__=self)
        linecache.lazycache(key, globals_copy)
        return key

    def get_source(self, module_name):
        """Return the text, for linecache."""
        return self.eval_cache.get(module_name)


_loader = _EvalCacheLoader()


def _exec_with_source(src, globals, co_fields=None):
    key = _loader.cache(src, globals, co_fields)
    exec(compile(src, key, "exec", dont_inherit=True), globals)


def _forward_from_src(src, globals, co_fields=None):
    return _method_from_src("forward", src, globals, co_fields)


def _method_from_src(method_name, src, globals, co_fields=None):
    scope = globals.copy()
    _exec_with_source(src, scope, co_fields)
    function = scope[method_name]
    del scope[method_name]
    return function


def _format_import_statement(name, obj, importer=None):
    if name in _custom_builtins:
        return _custom_builtins[name].import_str
    if getattr(obj, "__name__", None) == "torch" or obj is facula:
        return f"import torch as {name}"
    if isinstance(obj, type(sys)):
        return f"import {obj.__name__} as {name}"
    attribute = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or getattr(obj, "_name", name)
    module = getattr(obj, "__module__", None)
    if module is None or "<locals>" in attribute:
        raise RuntimeError(f"fx: {obj!r} is not at the top level of a module, so that code elsewhere cannot import it")
    if importer is not None:  # the names by which a package finds it; ObjMismatchError where it has another of the name
        module, attribute = importer.get_name(obj)
    head, _, tail = attribute.partition(".")
    if not tail:
        return f"from {module} import {head} as {name}"
    return f"from {module} import {head} as _{name}_owner; {name} = _{name}_owner.{tail}"


def _format_import_block(globals, importer=None):
    return "\n".join(dict.fromkeys(_format_import_statement(name, obj, importer) for name, obj in globals.items()))


def _run_imports(text):
    """Return the names that an import block brings; `torch` is Facula here."""
    scope = {}
    for line in text.split("\n"):
        with _torch_is_facula():
            exec(line, scope)
    scope.pop("__builtins__", None)
    return scope


@contextlib.contextmanager
def _torch_is_facula():
    """Make `import torch` give Facula within, whatever else is called so."""
    names = {}
    for name, module in list(sys.modules.items()):
        if name == "facula" or name.startswith("facula."):
            names[f"torch{name[6:]}"] = module
    before = {name: module for name, module in list(sys.modules.items()) if name == "torch" or name.startswith("torch.")}
    if before.get("torch") is facula:
        yield
        return
    for name in before:
        del sys.modules[name]
    sys.modules.update(names)
    try:
        yield
    finally:
        for name in [n for n in list(sys.modules) if n == "torch" or n.startswith("torch.")]:
            del sys.modules[name]
        sys.modules.update(before)
