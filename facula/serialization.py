"""Save and load checkpoints: PyTorch's .pt files, written and read without running any of their code.

`load` interprets the pickle of a file itself and calls nothing that the file names, whatever `weights_only` is. Plain
data (numbers, text, containers, tensors, numpy arrays, paths, dates, ...) is always restored; with `weights_only=False`
also instances of classes that the program has, see `facula/_serialization/classes.py`. `save` refuses objects that
`load` could not restore, and replaces its target only once the new file is complete.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import shutil
import stat
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING

import facula
from facula._serialization import allowed, foreign, legacy, refusals, source
from facula._serialization.checkpoint import Checkpoint, CheckpointWriter
from facula._serialization.errors import UnpicklingError  # noqa: F401  (where callers look for it)
from facula._serialization.file_reader import PyTorchFileReader as PyTorchFileReader
from facula._serialization.locations import (  # noqa: F401  (public names)
    default_restore_location,
    location_tag,
    register_package,
    restorer,
    validate_cuda_device,
)
from facula._serialization.replacing import replacing
from facula._serialization.settings import (  # noqa: F401  (public names)
    MAP_PRIVATE,
    MAP_SHARED,
    LoadEndianness,
    _modes,
    _settings,
    add_safe_globals,
    clear_safe_globals,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    get_safe_globals,
    safe_globals,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from facula._serialization.zip_reader import ZipReader, looks_like_zip
from facula.types import FileLike as FileLike

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


__all__ = [
    "SourceChangeWarning",
    "mkdtemp",
    "register_package",
    "check_module_version_greater_or_equal",
    "validate_cuda_device",
    "location_tag",
    "default_restore_location",
    "normalize_storage_type",
    "storage_to_tensor_type",
    "save",
    "load",
    "StorageType",
    "LoadEndianness",
    "get_crc32_options",
    "set_crc32_options",
    "get_default_load_endianness",
    "set_default_load_endianness",
    "get_default_mmap_options",
    "set_default_mmap_options",
    "clear_safe_globals",
    "get_safe_globals",
    "add_safe_globals",
    "safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "skip_data",
]

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = legacy.MAGIC_NUMBER
PROTOCOL_VERSION = legacy.PROTOCOL_VERSION
#: What `f` and `map_location` may be, for annotations.
FILE_LIKE = FileLike
MAP_LOCATION = object
StorageType = allowed.StorageKind


class SourceChangeWarning(Warning):
    """Warn of changed source code. Facula stores no source code in checkpoints; the class exists for programs that
    filter the warning.
    """


# -- saving -------------------------------------------------------------------------------------------


def save(
    obj: Any,
    f: FileLike,
    pickle_module: ModuleType = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save `obj` to a file that `load`, here or in PyTorch, reads back.

    Args:
        obj: tensors, state dicts, and containers of plain data; whole modules too (see `load`).
        f: a path (replaced atomically) or a binary file object with `write`.
        pickle_module: must be the standard pickle; others run code at load.
        pickle_protocol: 2 to 5.
    Raises:
        pickle.PicklingError: `obj` holds what no load could restore; the message says where, and what to do.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "epoch": 3}, file)
    >>> torch.load(io.BytesIO(file.getvalue()))
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    if pickle_module is not pickle and getattr(pickle_module, "__name__", "") not in (
        "pickle",
        "torch.serialization",
    ):
        raise NotImplementedError(
            f"save: pickle_module={pickle_module!r}; Facula writes pickles itself and uses none"
        )
    scope = allowed.Scope(whole_objects=True)
    with _open_for_writing(f) as file:
        if _use_new_zipfile_serialization:
            writer = CheckpointWriter(
                file, _archive_name(f), scope, checksums=_settings.compute_crc32, skip_data=_modes.skip_data
            )
            writer.write(obj, pickle_protocol, record_byteorder=not _disable_byteorder_record)
        else:
            legacy.write(obj, file, scope, pickle_protocol, location_tag)


def _archive_name(f):
    if not _is_path(f):
        return "archive"
    return os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"


def _is_path(f):
    return isinstance(f, (str, os.PathLike))


@contextlib.contextmanager
def _open_for_writing(f):
    if not _is_path(f):
        if not hasattr(f, "write"):
            raise AttributeError(f"save: f must be a path or have write(), got {type(f).__name__}")
        yield f
        if hasattr(f, "flush"):
            f.flush()
        return
    target = os.path.realpath(os.fspath(f))
    if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        with open(target, "wb") as file:  # a device or a pipe cannot be replaced
            yield file
        return
    with _replacing(target) as file:
        yield file


@contextlib.contextmanager
def _replacing(target):
    """Do `replacing`, its errors in words of save."""
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"save: parent directory {folder} does not exist")
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(replacing(target))
        except OSError as error:
            raise type(error)(error.errno, f"save: cannot write in {folder}: {error.strerror}") from None
        yield file


# -- loading ------------------------------------------------------------------------------------------


def load(f: FileLike, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None, **pickle_load_args: Any) -> Any:  # fmt: skip
    """Load what `save`, here or in PyTorch, wrote.

    Args:
        f: a path, or a binary file object with read, readline, tell and seek.
        map_location: where tensors go: a device or its name, a dict from saved to wanted location,
            a function (storage, location) -> storage or None, or None for where they were.
        pickle_module: not used: Facula runs no unpickler. Accepted when it is the standard one.
        weights_only: True restores plain data alone. False also restores instances of classes that the
            program itself has (nn.Module subclasses and its own), attribute by attribute. The file's code
            never runs either way. None means True, or what a `pickle_module` was given for. The variable
            TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 turns None into False, TORCH_FORCE_WEIGHTS_ONLY_LOAD=1 turns
            whatever is given into True.
        mmap: map the file instead of reading it: constant time, pages come in as they are used; changes
            stay private to the process. Needs a path to a zip checkpoint. Nobody may shorten the file while its
            tensors live: the system ends a process that touches pages which are gone.
        **pickle_load_args: `encoding` (default "utf-8") for text written by Python 2; "bytes" leaves it bytes.
    Raises:
        pickle.UnpicklingError: the file names what is not restored (all names are listed) or is malformed.
        RuntimeError: the container is damaged, or needs a device that is not here.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save(torch.arange(3), file)
    >>> torch.load(io.BytesIO(file.getvalue()), map_location="cpu")
    tensor([0, 1, 2])
    """
    weights_only = _only_weights(weights_only, pickle_module)
    if weights_only and getattr(pickle_module, "__name__", "pickle") != "pickle":
        raise RuntimeError(f"load: weights_only=True takes no pickle_module, got {pickle_module!r}")
    encoding = pickle_load_args.pop("encoding", "utf-8")
    if set(pickle_load_args) - {"errors", "fix_imports"}:
        raise TypeError(f"load: unexpected arguments {sorted(pickle_load_args)}")
    scope = allowed.Scope(whole_objects=not weights_only)
    mmap = _settings.mmap_default if mmap is None else mmap
    if mmap and not _is_path(f):
        raise ValueError("load: mmap=True needs a path, got " + type(f).__name__)
    try:
        with _open_for_reading(f, mmap) as opened:
            return _load(opened, scope, map_location, bool(mmap), encoding)
    except RuntimeError as error:
        if not str(error).startswith("allocate:"):
            raise
        # a few bytes of a file can describe a tensor of any size
        raise type(error)(f"load: {error}") from None


def _only_weights(weights_only, pickle_module):
    """Return what the argument and the two variables come to; the caller's False yields, the caller's True never."""
    force, unforce = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    forced, unforced = _environment_flag(force), _environment_flag(unforce)
    if forced and unforced:
        raise RuntimeError(f"load: only one of `{force}` or `{unforce}` should be set, but both were set.")
    if forced:
        return True
    if weights_only is not None:
        return bool(weights_only)
    if unforced:
        warnings.warn(f"load: weights_only=False, because {unforce} is set", UserWarning, stacklevel=3)
        return False
    return pickle_module is None


def _environment_flag(name):
    return os.environ.get(name, "").lower() in ("1", "y", "yes", "true")


def _load(opened, scope, map_location, mapped, encoding):
    head = bytes(opened.bytes.read(0, min(len(opened.bytes), 512)))
    if looks_like_zip(head):
        records = ZipReader(opened.bytes)
        if "constants.pkl" in records and scope.whole_objects:
            return _load_program(opened, map_location)
        checkpoint = Checkpoint(
            records, default_order=_byte_order(), skip_data=_modes.skip_data
        )
        obj = checkpoint.load(scope, restorer(map_location), mapped, encoding)
        opened.bytes.check_whole()
        opened.at_end()
        return obj
    foreign.refuse(head)
    if mapped:
        raise RuntimeError("load: mmap=True needs a checkpoint in the zip format, got another file")
    _refuse_tar(head)
    obj, end = legacy.read(opened.bytes, scope, restorer(map_location), encoding)
    opened.advance(end)
    return obj


def _load_program(opened, map_location):
    warnings.warn("load: this is a TorchScript archive; jit.load loads it, and so does this call", UserWarning, stacklevel=4)
    return facula.jit.load(io.BytesIO(bytes(opened.bytes.read(0, len(opened.bytes)))), map_location)


def _refuse_tar(head):
    if head[257:262] == b"ustar":
        raise RuntimeError(
            "load: this is a tar checkpoint from before 2017, which is not supported; "
            "load and save it again with an old PyTorch"
        )


class _Opened:
    """Hold the bytes of a file (see `source.py`), and leave the caller's file object at the position where PyTorch would."""

    def __init__(self, data, file=None, start=0):
        self.bytes, self._file, self._start = data, file, start

    def advance(self, count):
        if self._file is not None:
            self._file.seek(self._start + count)

    def at_end(self):
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)


@contextlib.contextmanager
def _open_for_reading(f, mapped):
    if _is_path(f):
        shared = mapped and _settings.mmap_flags == MAP_SHARED
        with open(f, "r+b" if shared else "rb", buffering=0) as file:
            yield _Opened(source.of_file(file, shared))
        return
    for name in ("read", "seek", "tell"):
        if not hasattr(f, name):
            raise AttributeError(
                f"load: f must be a path or a binary file object that can seek; {type(f).__name__} "
                f"has no {name}(). Read it into io.BytesIO first"
            )
    start = f.tell()
    if type(f) in (io.BufferedReader, io.FileIO):
        yield _Opened(source.of_file(f), f, start)
        return
    data = f.read()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError("load: f must be opened in binary mode, got a file of text")
    yield _Opened(source.MemorySource(data), f, start)


def _byte_order():
    order = _settings.endianness
    if order in (None, LoadEndianness.LITTLE):
        return "little"
    return "big" if order is LoadEndianness.BIG else sys.byteorder


def _get_layout(name):
    return allowed._layout(name)


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """Return the names in a checkpoint, as "module.name", that load(weights_only=True) does not restore, as a list.

    Args:
        f: a path, or a binary file object that can seek. Nothing in the file is run or restored.

    Errors: ValueError for a file that is not in the zip format.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save(nn.ReLU(), file)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue()))
    ['torch.nn.modules.activation.ReLU']
    """
    with _open_for_reading(f, False) as opened:
        if not looks_like_zip(opened.bytes.read(0, min(len(opened.bytes), 4))):
            raise ValueError("get_unsafe_globals_in_checkpoint: expected a checkpoint in the zip format, got another file")
        data = ZipReader(opened.bytes).read("data.pkl")
        return refusals.forbidden_names(data, allowed.Scope(whole_objects=False))


# -- small helpers that programs import -----------------------------------------------------------------


@contextlib.contextmanager
def mkdtemp():
    """Return a context manager: the path of a temporary directory that goes away with the block.

    >>> import os
    >>> with torch.serialization.mkdtemp() as path:
    ...     os.path.isdir(path)
    True
    >>> os.path.exists(path)
    False
    """
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def check_module_version_greater_or_equal(module: Any, req_version_tuple: Any, error_if_malformed: bool = True) -> bool:
    """Return whether `module.__version__` is at least the given version.

    Args:
        module: an imported module.
        req_version_tuple: the version as a tuple of ints; as many parts of the module's are compared.
        error_if_malformed: whether a version that is not made of ints raises RuntimeError; otherwise it counts as new enough.

    >>> import types
    >>> module = types.SimpleNamespace(__name__="example", __version__="1.10.0")
    >>> torch.serialization.check_module_version_greater_or_equal(module, (1, 9))
    True
    """
    try:
        found = tuple(int(part) for part in module.__version__.split(".")[: len(req_version_tuple)])
    except Exception as error:
        version = getattr(module, "__version__", None)
        message = f"check_module_version_greater_or_equal: {module.__name__} has version {version!r}"
        if error_if_malformed:
            raise RuntimeError(message) from error
        return True
    return found >= tuple(req_version_tuple)


def _is_zipfile(f):
    """Return whether the file object begins, where it stands, like a zip file that torch.save writes."""
    start = f.tell()
    found = f.read(4)
    f.seek(start)
    return found == b"PK\x03\x04"


def normalize_storage_type(storage_type: Any) -> Any:
    """Return the storage class of the top level that has the name of the class `storage_type`.

    >>> torch.serialization.normalize_storage_type(torch.FloatStorage) is torch.FloatStorage
    True
    """
    return getattr(facula, storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """Return the legacy tensor class for a typed storage, whose class names its dtype.

    >>> torch.serialization.storage_to_tensor_type(torch.FloatStorage()) is torch.FloatTensor
    True
    """
    return getattr(facula, type(storage).__name__.replace("Storage", "Tensor"))
