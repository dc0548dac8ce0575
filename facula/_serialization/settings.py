"""Hold the process-wide settings of saves and loads: checksums, byte order, memory maps, and classes that a load may use."""

from __future__ import annotations

import enum
import mmap
import threading
from typing import TYPE_CHECKING

from . import allowed

if TYPE_CHECKING:
    from typing import Any

MAP_SHARED = getattr(mmap, "MAP_SHARED", None)
MAP_PRIVATE = getattr(mmap, "MAP_PRIVATE", None)


class LoadEndianness(enum.Enum):
    """Name the byte order assumed for checkpoints that record none: NATIVE (that of this machine), LITTLE or BIG.

    >>> torch.serialization.LoadEndianness.LITTLE.name
    'LITTLE'
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3



class _Settings:
    """Hold the defaults of the process."""

    compute_crc32 = True
    endianness = None
    mmap_flags = MAP_PRIVATE
    mmap_default = False


class _Modes(threading.local):
    """Hold what a with block changes for its own thread."""

    skip_data = False


_settings = _Settings()
_modes = _Modes()


def get_default_load_endianness() -> Any:
    """Return the LoadEndianness for files that record none; None means little.

    >>> torch.serialization.get_default_load_endianness() is None
    True
    """
    return _settings.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order for files that record none, a LoadEndianness or None; `endianness` is for the whole process.

    Errors: TypeError for anything else.

    >>> torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.BIG)
    >>> torch.serialization.get_default_load_endianness().name
    'BIG'
    >>> torch.serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: expected LoadEndianness or None, got {endianness!r}")
    _settings.endianness = endianness


def get_crc32_options() -> Any:
    """Return whether `save` computes checksums of records; True by default.

    >>> torch.serialization.get_crc32_options()
    True
    """
    return _settings.compute_crc32


def set_crc32_options(compute_crc32: Any) -> None:
    """Set by `compute_crc32`, True or False, whether `save` computes checksums; without them a load cannot see damage to
    tensor data.

    >>> torch.serialization.set_crc32_options(False)
    >>> torch.serialization.get_crc32_options()
    False
    >>> torch.serialization.set_crc32_options(True)
    """
    _settings.compute_crc32 = bool(compute_crc32)


def get_default_mmap_options() -> Any:
    """Return MAP_PRIVATE or MAP_SHARED of the module `mmap`: how load(mmap=True) maps files; by default private.

    >>> import mmap
    >>> torch.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return _settings.mmap_flags


class set_default_mmap_options:
    """Set how load(mmap=True) maps files, permanently or as a context manager.

    Args:
        flags: `mmap.MAP_PRIVATE` keeps changes to tensors in this process, `mmap.MAP_SHARED` writes them to the file.

    Errors: ValueError for other flags.

    >>> import mmap
    >>> with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     torch.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    def __init__(self, flags: Any) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(f"set_default_mmap_options: expected MAP_PRIVATE or MAP_SHARED, got {flags!r}")
        self._before, _settings.mmap_flags = _settings.mmap_flags, flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _settings.mmap_flags = self._before


class skip_data:
    """Skip the data of tensors in a block: save only reserves room for it, and load leaves tensors uninitialized.

    Args:
        materialize_fake_tensors: accepted for compatibility; fake tensors are refused by save in any case.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save(torch.ones(3), file)
    >>> with torch.serialization.skip_data():
    ...     torch.load(io.BytesIO(file.getvalue())).shape
    torch.Size([3])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors: bool = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before, _modes.skip_data = _modes.skip_data, True

    def __exit__(self, *_: object) -> None:
        _modes.skip_data = self._before


def add_safe_globals(safe_globals: Any) -> None:
    """Allow every later load to restore instances of these classes and to use these functions.

    Args:
        safe_globals: a list of classes or functions, or of pairs (object, "module.name") where the file has another name.

    >>> class Settings:
    ...     pass
    >>> torch.serialization.add_safe_globals([Settings])
    >>> torch.serialization.get_safe_globals() == [Settings]
    True
    >>> torch.serialization.clear_safe_globals()
    """
    allowed.register(safe_globals)


def clear_safe_globals() -> None:
    """Forget what add_safe_globals allowed.

    >>> torch.serialization.clear_safe_globals()
    >>> torch.serialization.get_safe_globals()
    []
    """
    allowed.unregister_all()


def get_safe_globals() -> Any:
    """Return what add_safe_globals allowed, and safe_globals within its block, as a list.

    >>> with torch.serialization.safe_globals([complex]):
    ...     torch.serialization.get_safe_globals()
    [<class 'complex'>]
    """
    return allowed.registered()


def safe_globals(safe_globals: Any) -> Any:
    """Return a context manager: inside its block every load may restore instances of these classes and use these functions.

    Args:
        safe_globals: a list of classes or functions, or of pairs (object, "module.name").

    >>> with torch.serialization.safe_globals([complex]):
    ...     len(torch.serialization.get_safe_globals())
    1
    """
    return allowed.registered_for_a_while(safe_globals)
