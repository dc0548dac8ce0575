"""Provide operators of packages whose compiled libraries are linked against PyTorch and therefore cannot be loaded.

A package loads its library with `torch.ops.load_library`. Where `PROVIDERS` knows that library, its module here is imported in
its place and registers, with `provide`, what the library would have registered: the same names and schemas.
docs/package_operators.md describes how to add one.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import os
import re
from typing import TYPE_CHECKING

import facula
from facula import _C, library
from facula._operators import custom

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Any

#: ends of the paths of libraries, without their suffixes -> the modules with what they register
PROVIDERS = {
    "torchvision/_C": "facula.compat.packages.vision",
    "torchvision/_C_stable": "facula.compat.packages.vision",
    "torchvision/image": "facula.compat.packages.image",
    "torchvision/image_stable": "facula.compat.packages.image",
    "torchaudio/lib/_torchaudio": "facula.compat.packages.audio",
    "torchaudio/lib/libtorchaudio": "facula.compat.packages.audio",
}


def load(path: str | PathLike[str]) -> bool:
    """Load what is provided for the library at `path`; return whether there is anything.

    Raises:
        OSError: for a library whose provider needs a package that is not installed.
    """
    folder, file = os.path.split(os.fspath(path))
    ending = f"{folder.replace(os.sep, '/')}/{file.partition('.')[0]}"
    module = next((module for key, module in PROVIDERS.items() if f"/{ending}".endswith(f"/{key}")), None)
    if module is None:
        return False
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise OSError(f"load_library: what Facula provides for {path} needs a package: {error}") from error
    return True


def _checked(has, make):
    """Return `make`, which raises TypeError for a value of which `has` does not hold."""

    def made(value):
        if not has(value):
            raise TypeError
        return make(value)

    return made


#: types of schemas -> what makes an argument one, or raises TypeError; others are not looked at
_MAKERS = {
    "Tensor": _checked(lambda v: isinstance(v, facula.Tensor) or hasattr(type(v), "__torch_function__"), lambda v: v),
    "int": operator.index,
    "SymInt": operator.index,
    "float": _checked(lambda v: hasattr(v, "__float__"), float),
    "bool": lambda v: bool(operator.index(v)),
    "str": _checked(lambda v: isinstance(v, str), str),
}


def _parameters(schema):
    """Return the parameters that a schema's text names, with their types and defaults."""
    found = []
    for item in filter(None, (part.strip() for part in schema.partition("(")[2].rpartition(") ->")[0].split(","))):
        kind, _, rest = item.rpartition(" ")
        name, _, default = rest.partition("=")
        value = {"True": True, "False": False, "None": None, "": inspect.Parameter.empty}.get(default, default)
        value = int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else value
        kind = kind.partition("(")[0]  # Tensor(a!)
        found.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value, annotation=kind))
    return found


class ProvidedOperator(custom.CustomOpDef):
    """Describe an operator that Facula provides: its function, its derivative, its shapes, and its dtype under
    autocast.

    What the package registers of these is accepted and not used; a kernel for the CPU takes the operator over.

    Args:
        schema: "namespace::name(Tensor a, int b=0) -> Tensor".
        function: called with all arguments by position.
    """

    def __init__(self, schema: Any, function: Callable[..., Any]) -> None:
        super().__init__(schema.partition("(")[0])
        self._text = schema
        self._provided = function
        self._signature = inspect.Signature(_parameters(schema))
        self._makers = [(p.name, p.annotation, _MAKERS.get(p.annotation)) for p in self._signature.parameters.values()]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._kernels:
            return super().__call__(*args, **kwargs)
        if kwargs or len(args) != len(self._signature.parameters):
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise RuntimeError(f"{self._qualname}: expected {self._text}, got {len(args)} arguments: {error}") from None
            bound.apply_defaults()
            args = bound.args
        return self._provided(*map(self._made, self._makers, args))

    def _made(self, wanted, value):
        name, kind, make = wanted
        try:
            return value if make is None else make(value)
        except (TypeError, ValueError, OverflowError):
            raise RuntimeError(
                f"{self._qualname}: expected a value of type {kind!r} for argument {name!r}, got {type(value).__name__}"
            ) from None

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None, /) -> Any:
        """Take the operator over where the kernel is for the CPU; other kernels are not used."""
        kinds = (device_types,) if device_types is None or isinstance(device_types, str) else tuple(device_types)
        if any(kind in custom._CPU_KEYS for kind in kinds):
            return super().register_kernel(device_types, func)
        return (lambda kernel: kernel) if func is None else func

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Register a derivative, which is used with a kernel that takes the operator over."""
        super().register_autograd(backward, setup_context=setup_context)


def provide(schema: Any, function: Callable[..., Any]) -> None:
    """Register an operator by PyTorch's schema text; a name that the program has registered before stays as it is.

    Args:
        schema: "namespace::name(Tensor a, int b=0) -> Tensor".
        function: what runs, with all arguments by position.
    """
    name = schema.partition("(")[0]
    found = library._operators.get(name)
    if found is None or not found._kernels:
        library._operators[name] = ProvidedOperator(schema, function)


def in_input_dtype(function: Callable[..., Any]) -> Any:
    """Return `function`, whose floating-point results come back in the dtype of its first argument where autocast changed
    it."""

    def run(*args):
        if not _C._autocasts():
            return function(*args)
        result, dtype = function(*args), args[0].dtype
        back = [r.to(dtype) if r.is_floating_point() else r for r in (result if isinstance(result, tuple) else (result,))]
        return tuple(back) if isinstance(result, tuple) else back[0]

    return run
