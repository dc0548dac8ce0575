"""Send tensors and storages to other processes: as a descriptor of the shared memory that holds them, or on CUDA as the
driver's handle of it (src/cuda/ipc.h).

Needed from the core (besides `_C._tensor_from_storage`):
  _C._storage_share(storage) -> fd    moves a CPU storage into memfd memory, in place: every tensor over it
                                      follows; gives the descriptor, which the storage owns. Repeatable.
  _C._storage_from_fd(fd, nbytes)     an UntypedStorage over that memory, counted as shared; keeps its own
                                      duplicate of `fd`.
"""

from __future__ import annotations

import weakref
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._serialization import rebuild
from facula.cuda import streams
from facula.storage import LEGACY_STORAGES, TypedStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Event, Tensor
    from facula.types import Device


class StorageWeakRef:
    """Refer to a storage without keeping it alive; references to one storage are equal.

    Args:
        storage: typed or untyped.

    >>> x = torch.ones(2)
    >>> kept = torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())
    >>> kept == torch.multiprocessing.reductions.StorageWeakRef(x[1:].untyped_storage()), kept.expired()
    (True, False)
    >>> del x
    >>> kept.expired()
    True
    """

    __slots__ = ("_reference", "cdata")

    def __init__(self, storage: Any) -> None:
        untyped = storage.untyped() if isinstance(storage, TypedStorage) else storage
        self._reference = weakref.ref(untyped)
        self.cdata: int = untyped._cdata

    def expired(self) -> bool:
        """Return whether the storage is gone.

        >>> torch.multiprocessing.reductions.StorageWeakRef(torch.UntypedStorage(1)).expired()
        True
        """
        return self._reference() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


def reduce_storage(storage: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the pickled form of an untyped storage: a function, and its arguments with a descriptor of the shared memory and
    its size.

    On the CPU the bytes move to shared memory; on CUDA the driver's handle of them travels. NotImplementedError for other
    devices.

    >>> function, arguments = torch.multiprocessing.reductions.reduce_storage(torch.UntypedStorage(0))
    >>> function(*arguments).nbytes()
    0
    """
    nbytes = storage.nbytes()
    if storage.device.type == "meta":
        return _empty_storage, (nbytes, "meta")
    if storage.device.type == "cuda":
        return _reduce_cuda_storage(storage)
    if storage.device.type != "cpu":
        raise NotImplementedError(
            f"multiprocessing: sharing memory of device {storage.device} between processes"
        )
    if nbytes == 0:  # a mapping cannot be empty
        return _empty_storage, (0, "cpu")
    # The descriptor is duplicated for the receiver, since the storage closes its own when it is freed.
    return _rebuild_storage, (reduction.DupFd(_C._storage_share(storage)), nbytes)


def _reduce_cuda_storage(storage):
    """Return the driver's handle of the allocation, and a counter: the memory is kept until every receiver has let go."""
    if storage.nbytes() == 0:
        return _empty_storage, (0, f"cuda:{storage.device.index}")
    *facts, files, counter_file, counter = _C._cuda_ipc_share(storage)
    files = [reduction.DupFd(file) for file in files]  # of expandable segments: a file for each granule
    return _rebuild_cuda_storage, (facts, files, reduction.DupFd(counter_file), counter)


def reduce_event(event: Event) -> Any:
    """Return the pickled form of a CUDA event made with interprocess=True: a function and its arguments.

    >>> if torch.cuda.is_available():
    ...     event = torch.cuda.Event(interprocess=True)
    ...     function, arguments = torch.multiprocessing.reductions.reduce_event(event)
    """
    return rebuild_event, (event.device, event.ipc_handle())


def rebuild_event(device: Device, handle: Any) -> Any:
    """Return the event of another process.

    Args:
        device: the CUDA device.
        handle: what `ipc_handle` of the event gave there.

    >>> if torch.cuda.is_available():
    ...     event = torch.cuda.Event(interprocess=True)
    ...     function, (device, handle) = torch.multiprocessing.reductions.reduce_event(event)
    """
    return facula.cuda.Event.from_ipc_handle(device, handle)


def reduce_typed_storage(storage: Any) -> Any:
    """Return the pickled form of the TypedStorage `storage`: a function, and its arguments, the untyped storage and the dtype.

    >>> function, arguments = torch.multiprocessing.reductions.reduce_typed_storage(torch.FloatStorage([1.0, 2.0]))
    >>> function(*arguments).tolist()
    [1.0, 2.0]
    """
    return _rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def reduce_tensor(tensor: Tensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the pickled form of a tensor that shares its memory with the receiver: a function and its arguments.

    Raises:
        RuntimeError: the tensor is the result of a differentiable operation; its history stays behind.

    >>> x = torch.ones(2)
    >>> function, arguments = torch.multiprocessing.reductions.reduce_tensor(x)
    >>> function(*arguments).data_ptr() == x.data_ptr()
    True
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            f"multiprocessing: a tensor computed by an operation cannot keep requires_grad elsewhere; "
            f"send tensor.detach() (shape {tuple(tensor.shape)})"
        )
    if tensor.layout is not facula.strided or tensor.device.type == "meta":
        return rebuild.reduce_tensor(tensor)
    geometry = (tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride()))
    kind = type(tensor)
    attributes = rebuild._get_obj_state(tensor)
    return _rebuild_tensor, (
        kind,
        tensor.untyped_storage(),
        tensor.dtype,
        *geometry,
        tensor.requires_grad,
        attributes,
    )


def _rebuild_storage(duplicate, nbytes):
    descriptor = duplicate.detach()
    try:
        return _C._storage_from_fd(descriptor, nbytes)
    finally:
        import os

        os.close(descriptor)


def _rebuild_cuda_storage(facts, files, duplicate, counter):
    import os

    descriptors = []
    try:
        for each in (*files, duplicate):
            descriptors.append(each.detach())
        *opened, counter_file = descriptors
        return _C._cuda_ipc_open(*facts, opened, counter_file, counter)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _empty_storage(nbytes, device):
    return facula.UntypedStorage(nbytes, device=device)


def _rebuild_typed_storage(untyped, dtype):
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


def _rebuild_tensor(kind, storage, dtype, offset, size, stride, requires_grad, attributes):
    tensor = _C._tensor_from_storage(storage, dtype, offset, size, stride)
    if issubclass(kind, facula.nn.Parameter):
        tensor = facula.nn.Parameter(tensor, requires_grad)
    elif kind is not facula.Tensor:
        tensor = tensor.as_subclass(kind)
    if requires_grad and not tensor.requires_grad:
        tensor.requires_grad_(True)
    return rebuild.set_attributes(tensor, attributes) if attributes else tensor


def init_reductions() -> None:
    """Register the reductions with the standard module's pickler; importing facula.multiprocessing does it.

    >>> torch.multiprocessing.reductions.init_reductions()
    """
    ForkingPickler.register(facula.UntypedStorage, reduce_storage)
    for kind in (TypedStorage, *LEGACY_STORAGES.values()):
        ForkingPickler.register(kind, reduce_typed_storage)
    ForkingPickler.register(streams.Event, reduce_event)
    for kind in (facula.Tensor, facula.nn.Parameter):
        ForkingPickler.register(kind, reduce_tensor)
