"""Define the modules of TorchScript archives, which `jit.load` returns."""

from __future__ import annotations

import ast
import contextlib
import io
import os
from typing import TYPE_CHECKING

import facula
from facula._serialization import source
from facula._serialization.errors import UnpicklingError
from facula._serialization.locations import restorer
from facula._serialization.zip_reader import ZipReader, looks_like_zip
from facula.export._pt2_reader import extra_files
from facula.export.exported_program import _keep

from ._torchscript import Archive, ScriptError
from ._torchscript.writer import Unwritable, pickles_of, write
from .scripted import ScriptModule, extra_bytes
from .traced import hold, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module
    from facula.types import FileLike

_RESERVED = frozenset(vars(facula.nn.Module()))
_SAVED = ("training", "_is_full_backward_hook")  # of Module's own attributes, what archives hold


class LoadedModule(ScriptModule):
    """Run a module of an archive: its parameters, buffers, attributes and methods, which are interpreted
    (`_torchscript/walker.py`).
    """

    _script_class = None  # of the class that `module_class` makes

    @classmethod
    def _empty(cls):
        made = cls.__new__(cls)
        facula.nn.Module.__init__(made)
        return made

    def _fill(self, state):
        kind = self._script_class
        for name, value in state.items():
            if name.startswith("__") or (name in _RESERVED and name not in _SAVED):
                raise UnpicklingError(f"jit.load: {kind.name} has an attribute {name}, which belongs to Module itself")
            if name in kind.parameters:
                self._parameters[name] = value if value is None else _parameter(value)
            elif name in kind.buffers:
                self.register_buffer(name, value)
            elif isinstance(value, facula.nn.Module):
                self._modules[name] = value
            elif name == "training":
                self.training: bool = bool(value)
            else:
                self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            kind = type(self)._script_class
            if name in kind.constants:
                return kind.constants[name]
            if name in kind.methods:
                return kind.bound(self, name)
            raise

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._script_class.bound(self, "forward")(*args, **kwargs)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module | None]:
        return iter(self._modules.values())

    def __getitem__(self, index: int) -> Module | None:
        return list(self._modules.values())[index] if isinstance(index, int) else self._modules[index]

    def __contains__(self, name: Any) -> bool:
        return name in self._modules

    def __reduce__(self) -> Any:
        raise NotImplementedError("pickle: a module of a TorchScript archive is not pickled; save its state_dict()")

    def __copy__(self) -> Self:
        made = type(self)._empty()
        made.__dict__.update(self.__dict__)
        return made

    def save(self, f: FileLike, _extra_files: Any = None) -> None:
        """Write an archive of TorchScript with the program that was read and the state that the module has now.

        Args:
            f: a path, or a writable binary file.
            _extra_files: {name: text or bytes} that the archive holds beside the program.

        What such archives are not written with here (tensors that are quantized, classes that make their state by a method)
        is saved as the program of the first call, as another ScriptModule is.
        """
        from facula.export import _pt2

        files = extra_bytes(_extra_files)
        try:
            pickles = pickles_of(self)
        except Unwritable:
            return super().save(f, _extra_files)
        with _pt2._open_for_writing(f) as out:
            write(self._script_class.library, pickles, out, files)
        return None

    @property
    def code(self) -> str:
        """Return the text of `forward` in the archive, as it was parsed."""
        forward = self._script_class.methods.get("forward")
        return "" if forward is None else ast.unparse(forward.node)

    @property
    def original_name(self) -> Any:
        """The name of the class in the program that was saved."""
        return self._script_class.name.rpartition(".")[2]

    def _get_name(self):
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        made = type(self)._empty()
        memo[id(self)] = made
        for name, value in vars(self).items():
            made.__dict__[name] = copy.deepcopy(value, memo)
        return made


class ProgramModule(ScriptModule):
    """Run a program of an archive that `jit.save` or `export.save` wrote, as a module.

    Args:
        data: the archive's bytes.
        map_location: where its tensors go: a device, its name, or None.
    """

    def __init__(self, data: Any, map_location: Any = None) -> None:
        super().__init__()
        program = facula.export.load(io.BytesIO(data))
        self.__dict__["_program"] = program
        for kind, _, path, persistent, tensor, _ in program.program.inputs:
            if kind in ("parameter", "buffer"):
                _keep(self, path, tensor, kind, persistent)
        if isinstance(map_location, (str, facula.device)):
            self.to(map_location)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        if not hold(self._program, state_of(self)):
            raise RuntimeError("jit: this program was recorded for parameters of other dtypes or shapes")
        return self._program._run(*args, **kwargs)

    def _exported(self):
        return self._program


def _parameter(tensor):
    wants = tensor.requires_grad
    return facula.nn.Parameter(tensor.detach(), requires_grad=wants)


def module_class(kind: str, name: str) -> Any:
    """Return the Python class of a module's class in an archive."""
    return type(name, (LoadedModule,), {"_script_class": kind, "__module__": "torch.jit._script", "__qualname__": name})


@contextlib.contextmanager
def _opened(f):
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"jit.load: the file {os.fspath(f)} does not exist")
        with open(f, "rb") as file:
            yield source.of_file(file)
    elif hasattr(f, "read"):
        yield source.MemorySource(f.read())
    else:
        raise TypeError(f"jit.load: f must be a path or a binary file, got {type(f).__name__}")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> ProgramModule | Module:
    """Load a module that `torch.jit.save` of PyTorch or of Facula wrote; nothing of the file reaches Python's compiler.

    Args:
        f: a path, or a file object opened for bytes.
        map_location: where tensors go, as for `load`.
        _extra_files: a dict; the values of its keys become the contents of the archive's extra files of these names, b"" where
            there is none.

    Returns:
        A module. Its parameters are `state_dict()`'s; its methods run op by op, and gradients flow through them.

    Errors:
        ValueError: there is no such file.
        RuntimeError: the archive is damaged, or holds what TorchScript has not.
        pickle.UnpicklingError: its data names what no archive of TorchScript holds.
        NotImplementedError: a method calls an op that Facula has not.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.trace(nn.ReLU(), torch.ones(2)), file)
    >>> torch.jit.load(io.BytesIO(file.getvalue()))(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    with _opened(f) as data:
        if not looks_like_zip(bytes(data.read(0, min(len(data), 4)))):
            raise RuntimeError("jit.load: this file is no archive of TorchScript (it is no zip file)")
        reader = ZipReader(data)
        if any(name.rpartition("/")[2] == "archive_format" for name in reader.names()):
            whole = bytes(data.read(0, len(data)))
            found = extra_files(io.BytesIO(whole), _extra_files or ())
            for name in _extra_files or ():
                _extra_files[name] = found.get(name, b"")
            return ProgramModule(whole, map_location)
        archive = Archive(reader, module_class)
        module = archive.module(restorer(map_location))
        for name in _extra_files or ():
            contents = archive.extra(name)
            _extra_files[name] = b"" if contents is None else contents
    if not isinstance(module, facula.nn.Module):
        raise ScriptError(f"jit.load: the archive holds a {type(module).__name__}, not a module")
    return module
