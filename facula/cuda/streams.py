"""Streams and events: queues of work on a device, and places in them.

Work of one stream runs in order; streams wait for each other only where `wait_event` or `wait_stream` says so. The
current stream of a thread is where its ops go: the default stream (0), or what `with stream(s)` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C
from facula.functions import streams as _any

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from facula.types import Device

__all__ = ["Stream", "ExternalStream", "Event", "StreamContext", "stream", "current_stream", "default_stream", "set_stream"]


def _index(device, name):
    from facula import cuda

    return cuda._index(device, name)


class Stream(_any.Stream):
    """A queue of work on a device, one of 32 of its priority (lower numbers are more urgent)."""

    def __init__(self, device: Device = None, priority: int = 0, *, stream_id: Any = None, device_index: int | None = None,
                 device_type: str | None = None, stream_ptr: Any = None) -> None:  # fmt: skip
        if device_type not in (None, self.device_type):
            raise ValueError(f"torch.cuda.Stream: device_type {self.device_type}, which is CUDA's, got {device_type}")
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
        """Work queued from now on waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Work queued from now on waits for what is queued on another stream."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Puts an event behind what is queued, a new one where none is given; returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> Any:
        """Whether all work is done."""
        return _C._cuda_query_stream(self.device_index, self.cuda_stream)

    def synchronize(self) -> None:
        """Waits for all work."""
        _C._cuda_synchronize_stream(self.device_index, self.cuda_stream)

    def is_capturing(self) -> bool:
        """Whether a graph is captured from it."""
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
    """A stream that another library made, by its handle; that library keeps it alive."""

    def __init__(self, stream_ptr: Any, device: Device = None) -> None:
        super().__init__(device, stream_ptr=stream_ptr)


def get_stream_from_external(data_ptr: Any, device: Device = None) -> ExternalStream:
    """An ExternalStream."""
    return ExternalStream(data_ptr, device)


class Event(_any.Event):
    """A place in a stream: made when it is first recorded.

    enable_timing: elapsed_time() can be asked. blocking: synchronize() sleeps instead of spinning. interprocess: another
    process can wait for it (ipc_handle(), or through a Queue of torch.multiprocessing); it then measures no time.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 external: bool = False) -> None:  # fmt: skip
        if external:
            raise NotImplementedError(f"torch.cuda.Event: events that are not recorded by graphs, got {external=}")
        if interprocess and enable_timing:
            raise ValueError("torch.cuda.Event: an event between processes measures no time, got enable_timing=True")
        self._event = _C._cuda_new_event((1 if blocking else 0) | (0 if enable_timing else 2) | (4 if interprocess else 0))
        self._interprocess = interprocess
        self.device = None

    def ipc_handle(self) -> Any:
        """64 bytes by which another process opens the event (from_ipc_handle)."""
        if not self._interprocess:
            raise RuntimeError("torch.cuda.Event.ipc_handle: an event made with interprocess=True, got another")
        if self.device is None:
            self.device = _C.device("cuda", _C._cuda_current_device())
        return _C._cuda_event_handle(self._event, self.device.index)

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: Any) -> Self:
        """The event of another process."""
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
        """Puts the event behind what is queued on the stream (the current one)."""
        stream = current_stream() if stream is None else stream
        self.device: Any = stream.device
        _C._cuda_record_event(self._event, stream.device_index, stream.cuda_stream)

    def wait(self, stream: Any = None) -> None:
        """Work queued on the stream (the current one) from now on waits for the event."""
        stream = current_stream() if stream is None else stream
        _C._cuda_block_on_event(self._event, stream.device_index, stream.cuda_stream)

    def query(self) -> Any:
        """Whether everything before the event is done."""
        return _C._cuda_query_event(self._event)

    def synchronize(self) -> None:
        """Waits until then."""
        _C._cuda_synchronize_event(self._event)

    def elapsed_time(self, end_event: Any) -> Any:
        """Milliseconds from this event to another; both are reached."""
        return _C._cuda_elapsed(self._event, end_event._event)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {'uninitialized' if self.device is None else f'on {self.device}'}>"


def current_stream(device: Device = None) -> Stream:
    """The stream that this thread's work on the device (the current one) goes to."""
    index = _index(device, "current_stream")
    return Stream(index, stream_ptr=_C._cuda_current_stream(index))


def default_stream(device: Device = None) -> Stream:
    """The device's default stream."""
    return Stream(_index(device, "default_stream"), stream_ptr=0)


def set_stream(stream: Any) -> None:
    """Makes the stream, and its device, the current one; None changes nothing. `with stream(s)` is preferred."""
    if stream is not None:
        _C._cuda_set_device(stream.device_index)
        _C._cuda_set_stream(stream.device_index, stream.cuda_stream)


class StreamContext:
    """Context: work goes to the stream, on its device; None changes nothing."""

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
    """Context: work goes to `stream`; None changes nothing."""
    return StreamContext(stream)


def __getattr__(name: str) -> Any:
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.streams", name)
