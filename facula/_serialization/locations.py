"""Name the device of a storage ("cpu", "cuda:0", "meta") and move a storage to a named device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from .texts import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_registry = []  # (priority, tagger, deserializer), lowest priority first


def register_package(priority: int, tagger: Callable[..., Any], deserializer: Callable[..., Any]) -> None:
    """Teach save and load about another kind of device.

    Args:
        priority: lower goes first; the CPU's is 10, CUDA's 20, that of "meta" 22.
        tagger: storage -> its location as text, or None when it is not of this kind.
        deserializer: (storage on the CPU, location) -> storage there, or None when not of this kind.

    >>> torch.serialization.register_package(90, lambda storage: None, lambda storage, location: None)  # of no device
    """
    _registry.append((priority, tagger, deserializer))
    _registry.sort(key=lambda row: row[0])


def location_tag(storage: Any) -> str:
    """Return where `storage` lives, as text, in the words of a checkpoint.

    Errors: RuntimeError for a kind of device nobody registered.

    >>> torch.serialization.location_tag(torch.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"save: no package is registered for storages on {storage.device}")


def default_restore_location(storage: Any, location: str) -> Any:
    """Return `storage`, just read into CPU memory, moved to `location`; itself for "cpu".

    Errors: RuntimeError for a location of a kind that nobody registered, or a GPU that is not here.

    >>> storage = torch.ones(2).untyped_storage()
    >>> torch.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    for _, _, deserializer in _registry:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"load: no package is registered for location {shown(location)}; "
        "use map_location='cpu' to load onto the CPU"
    )


def restorer(map_location):
    """Return the function (storage, location) -> storage that `map_location` asks for."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(
            storage, map_location.get(location, location)
        )
    if isinstance(map_location, (str, bytes)):
        name = map_location.decode() if isinstance(map_location, bytes) else map_location
        return lambda storage, location: default_restore_location(storage, name)
    if isinstance(map_location, facula.device):
        return lambda storage, location: default_restore_location(storage, str(map_location))
    if not callable(map_location):
        raise TypeError(
            f"load: map_location must be a str, device, dict or function, got {type(map_location).__name__}"
        )

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


def validate_cuda_device(location: Any) -> int:
    """Return the index of the "cuda" `location` of a checkpoint; RuntimeError when this machine has no such GPU.

    >>> torch.serialization.validate_cuda_device("cuda:0") if torch.cuda.is_available() else 0
    0
    """
    try:
        index = facula.device(location).index or 0
    except RuntimeError as error:
        raise RuntimeError(f"load: {error}") from None
    if not facula.cuda.is_available():
        raise RuntimeError(
            f"load: the checkpoint holds tensors of device {shown(location)}, but this machine has no GPU; "
            "map_location='cpu' loads them onto the CPU"
        )
    if index >= facula.cuda.device_count():
        raise RuntimeError(
            f"load: the checkpoint holds tensors of device {shown(location)}, but this machine has "
            f"{facula.cuda.device_count()} GPUs; map_location can name another one"
        )
    return index


def _cpu_tag(storage):
    return "cpu" if storage.device.type == "cpu" else None


def _cpu_restore(storage, location):
    return storage if location == "cpu" or str(location).startswith("cpu:") else None


def _meta_tag(storage):
    return "meta" if storage.device.type == "meta" else None


def _meta_restore(storage, location):
    return facula.UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None


def _cuda_tag(storage):
    return f"cuda:{storage.device.index or 0}" if storage.device.type == "cuda" else None


def _cuda_restore(storage, location):
    if not str(location).startswith("cuda"):
        return None
    index = validate_cuda_device(location)
    return storage.to(device=facula.device("cuda", index))


def _other_tag(storage):
    device = storage.device
    return None if device.type in ("cpu", "cuda", "meta") else str(device)


def _other_restore(storage, location):
    """Restore to devices that a backend added under a name of its own."""
    kind = str(location).partition(":")[0]
    if kind in ("cpu", "cuda", "meta"):
        return None
    try:
        device = facula.device(str(location))
    except RuntimeError:
        return None
    return storage.to(device=device)


register_package(10, _cpu_tag, _cpu_restore)
register_package(20, _cuda_tag, _cuda_restore)
register_package(22, _meta_tag, _meta_restore)
register_package(30, _other_tag, _other_restore)
