"""Define streams and events: queues of work on a device, and points in them.

Work of one stream runs in order; streams wait for each other only where `wait_event` or `wait_stream` says so. The
current stream of a thread is where its ops go: the default stream (0), or what `with stream(s)` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C
from facula._shared.on_demand import _on_demand
from facula.functions import streams as _any

from ._device import _index

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from facula.types import Device

__all__ = ["Stream", "ExternalStream", "Event", "StreamContext", "stream", "current_stream", "default_stream", "set_stream"]


class Stream(_any.Stream):
    """Represent a queue of work on a device, one of 32 of its priority.

    Args:
        device: its number or name; None: the current one.
        priority: lower numbers are more urgent.
        stream_id, device_index, device_type: what a stream says of itself, to name one that there is.
        stream_ptr: the driver's handle of a stream that there is.

    Errors: NotImplementedError without a device; ValueError for a device type that is not CUDA's.

    >>> if torch.cuda.is_available():
    ...     x, side = torch.ones(2, device="cuda"), torch.cuda.Stream()
    ...     side.wait_stream(torch.cuda.current_stream())
    ...     with side:
    ...         y = x + 1
    ...     event = side.record_event()
    ...     torch.cuda.current_stream().wait_event(event)
    ...     side.synchronize()
    ...     assert side.query() and not side.is_capturing()
    """

    def __init__(self, device: Device = None, priority: int = 0, *, stream_id: Any = None, device_index: int | None = None,
                 device_type: str | None = None, stream_ptr: Any = None) -> None:  # fmt: skip
        if device_type not in (None, self.device_type):
            raise ValueError(f"cuda.Stream: device_type {self.device_type}, which is CUDA's, got {device_type}")
        self.device_index: Any = _index(device if device_index is None else device_index, "Stream")
        self.priority = priority
        given = stream_ptr if stream_ptr is not None else stream_id
        self.cuda_stream: Any = _C._cuda_new_stream(self.device_index, priority) if given is None else given

    @property
    def device(self) -> Any:
        """The stream's device."""
        return _C.device("cuda", self.device_index)

    @property
    def stream_id(self) -> Any:
        """A number for the stream, unique on its device; 0 is the default stream."""
        return self.cuda_stream

    device_type = 1

    @property
    def native_handle(self) -> Any:
        """The driver's handle, which is what `cuda_stream` says, too."""
        return self.cuda_stream

    def wait_event(self, event: Any) -> None:
        """Work queued from now on waits for the event.

        Args:
            event: an Event.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.Stream().wait_event(torch.cuda.current_stream().record_event())
        """
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Work queued from now on waits for what is queued on another stream.

        Args:
            stream: the other.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.Stream().wait_stream(torch.cuda.current_stream())
        """
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Put an event behind what is queued, and give it.

        Args:
            event: an Event; None: a new one.

        Returns: the event.

        >>> if torch.cuda.is_available():
        ...     event = torch.cuda.current_stream().record_event()
        """
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> Any:
        """Return whether all work is done.

        >>> if torch.cuda.is_available():
        ...     stream = torch.cuda.current_stream()
        ...     stream.synchronize()
        ...     assert stream.query()
        """
        return _C._cuda_query_stream(self.device_index, self.cuda_stream)

    def synchronize(self) -> None:
        """Wait for all work of the stream.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.current_stream().synchronize()
        """
        _C._cuda_synchronize_stream(self.device_index, self.cuda_stream)

    def is_capturing(self) -> bool:
        """Return whether a graph is captured from the stream.

        >>> if torch.cuda.is_available():
        ...     assert not torch.cuda.current_stream().is_capturing()
        """
        return _C._cuda_stream_captures(self.device_index, self.cuda_stream)

    @property
    def _as_parameter_(self):
        import ctypes

        return ctypes.c_void_p(self.cuda_stream)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device_index, self.cuda_stream) == (other.device_index, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.device_index, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __enter__(self) -> Self:
        self._context = StreamContext(self)
        self._context.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._context.__exit__(*exception)


class ExternalStream(Stream):
    """Represent a stream that another library made, by its handle; that library keeps it alive.

    Args:
        stream_ptr: the driver's handle.
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     other = torch.cuda.Stream()
    ...     assert torch.cuda.ExternalStream(other.cuda_stream) == other
    """

    def __init__(self, stream_ptr: Any, device: Device = None) -> None:
        super().__init__(device, stream_ptr=stream_ptr)


def get_stream_from_external(data_ptr: Any, device: Device = None) -> ExternalStream:
    """Return an ExternalStream: a stream that another library made.

    Args:
        data_ptr: the driver's handle.
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     other = torch.cuda.Stream()
    ...     assert torch.cuda.get_stream_from_external(other.cuda_stream) == other
    """
    return ExternalStream(data_ptr, device)


class Event(_any.Event):
    """Represent a point in a stream; it is created when it is first recorded.

    Args:
        enable_timing: whether elapsed_time() can be called.
        blocking: whether synchronize() sleeps instead of spinning.
        interprocess: whether another process can wait for it (ipc_handle(), or through a Queue of torch.multiprocessing);
            it then measures no time.
        external: must be False.

    Errors: ValueError for interprocess with enable_timing; NotImplementedError for external. Without a device it can be made,
    and not recorded.

    >>> if torch.cuda.is_available():
    ...     begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    ...     begin.record()
    ...     y = torch.ones(1000, device="cuda") + 1
    ...     end.record()
    ...     end.synchronize()
    ...     assert end.query() and begin.elapsed_time(end) >= 0
    ...     end.wait()
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 external: bool = False) -> None:  # fmt: skip
        if external:
            raise NotImplementedError(f"cuda.Event: events that are not recorded by graphs, got {external=}")
        if interprocess and enable_timing:
            raise ValueError("cuda.Event: an event between processes measures no time, got enable_timing=True")
        self._event = _C._cuda_new_event((1 if blocking else 0) | (0 if enable_timing else 2) | (4 if interprocess else 0))
        self._interprocess = interprocess
        self.device = None

    def ipc_handle(self) -> Any:
        """Return 64 bytes by which another process opens the event (from_ipc_handle).

        Errors: RuntimeError unless it was made with interprocess=True.

        >>> if torch.cuda.is_available() and not torch.cuda.is_emulated():
        ...     assert len(torch.cuda.Event(interprocess=True).ipc_handle()) == 64
        """
        if not self._interprocess:
            raise RuntimeError("cuda.Event.ipc_handle: an event made with interprocess=True, got another")
        if self.device is None:
            self.device = _C.device("cuda", _C._cuda_current_device())
        return _C._cuda_event_handle(self._event, self.device.index)

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: Any) -> Self:
        """Return the event of another process.

        Args:
            device: its number or name.
            handle: what ipc_handle() gave there.

        >>> def wait_for(handle):  # in another process
        ...     torch.cuda.Event.from_ipc_handle("cuda", handle).synchronize()
        """
        event = cls.__new__(cls)
        event.device = _C.device("cuda", _index(device, "Event.from_ipc_handle"))
        event._event = _C._cuda_open_event(event.device.index, handle)
        event._interprocess = True
        return event

    @property
    def event_id(self) -> Any:
        """The driver's handle, 0 before the event is first recorded."""
        return _C._cuda_event_id(self._event)

    cuda_event = event_id

    def record(self, stream: Any = None) -> None:
        """Put the event behind what is queued on a stream.

        Args:
            stream: the Stream; None: the current one.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.Event().record()
        """
        stream = current_stream() if stream is None else stream
        self.device: Any = stream.device
        _C._cuda_record_event(self._event, stream.device_index, stream.cuda_stream)

    def wait(self, stream: Any = None) -> None:
        """Work queued on a stream from now on waits for the event.

        Args:
            stream: the Stream; None: the current one.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.current_stream().record_event().wait(torch.cuda.Stream())
        """
        stream = current_stream() if stream is None else stream
        _C._cuda_block_on_event(self._event, stream.device_index, stream.cuda_stream)

    def query(self) -> Any:
        """Return whether everything before the event is done.

        >>> if torch.cuda.is_available():
        ...     event = torch.cuda.current_stream().record_event()
        ...     event.synchronize()
        ...     assert event.query()
        """
        return _C._cuda_query_event(self._event)

    def synchronize(self) -> None:
        """Wait until everything before the event is done.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.current_stream().record_event().synchronize()
        """
        _C._cuda_synchronize_event(self._event)

    def elapsed_time(self, end_event: Any) -> Any:
        """Return the milliseconds from this event to another; both are reached.

        Args:
            end_event: the other, made with enable_timing=True as this one.

        >>> if torch.cuda.is_available():
        ...     begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        ...     begin.record()
        ...     end.record()
        ...     end.synchronize()
        ...     assert begin.elapsed_time(end) >= 0
        """
        return _C._cuda_elapsed(self._event, end_event._event)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {'uninitialized' if self.device is None else f'on {self.device}'}>"


def current_stream(device: Device = None) -> Stream:
    """Return the stream that this thread's work on a device goes to.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     with torch.cuda.stream(torch.cuda.Stream()) as context:
    ...         assert torch.cuda.current_stream() != torch.cuda.default_stream()
    """
    index = _index(device, "current_stream")
    return Stream(index, stream_ptr=_C._cuda_current_stream(index))


def default_stream(device: Device = None) -> Stream:
    """Return the device's default stream.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.default_stream().cuda_stream == 0
    """
    return Stream(_index(device, "default_stream"), stream_ptr=0)


def set_stream(stream: Any) -> None:
    """Make the stream, and its device, the current one. `with stream(s)` is preferred, which takes it back.

    Args:
        stream: the Stream; None changes nothing.

    >>> torch.cuda.set_stream(None)
    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_stream(torch.cuda.default_stream())
    """
    if stream is not None:
        _C._cuda_set_device(stream.device_index)
        _C._cuda_set_stream(stream.device_index, stream.cuda_stream)


class StreamContext:
    """Direct work to a stream, on its device, in a block; `stream` returns this object.

    Args:
        stream: the Stream; None changes nothing.

    >>> with torch.cuda.StreamContext(None):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device = _C._cuda_current_device()
        self._before = _C._cuda_current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            _C._cuda_set_stream(self.stream.device_index, self._before)
            _C._cuda_set_device(self._device)


def stream(stream: Any) -> StreamContext:
    """Return a context: work goes to a stream, on its device.

    Args:
        stream: the Stream; None changes nothing.

    >>> with torch.cuda.stream(None):
    ...     torch.ones(1)
    tensor([1.])
    >>> if torch.cuda.is_available():
    ...     with torch.cuda.stream(torch.cuda.Stream()):
    ...         y = torch.ones(1, device="cuda")
    """
    return StreamContext(stream)

__getattr__ = _on_demand(__name__)
