"""Encode messages as bytes: values are pickled, and the bytes of their tensors and arrays follow without being copied.

A frame is a header, the lengths of its buffers, a little pickle for the transport (`about`), a big one for the program
(`body`), and the buffers. Tensors are numbers in the big pickle: `Tensors` of the frame say what they are.
"""

from __future__ import annotations

import io
import pickle
import struct
import threading

import facula
from facula import _C

HEADER = struct.Struct("<4sBxxxIQQQ")  # mark, kind, number of buffers, number of the call, lengths of about and body
MARK = b"fcl1"
_JOINED = 1 << 14  # frames up to this size are sent as one piece

_thread = threading.local()


class Frame:
    """Hold one message."""

    __slots__ = ("about", "body", "buffers", "call", "kind", "tensors")

    def __init__(self, kind, call, about=None, body=b"", buffers=(), tensors=None):
        self.kind, self.call, self.about, self.body, self.buffers = kind, call, about, body, buffers
        self.tensors = tensors  # in place of `buffers`, when the message stays in this process

    def pieces(self):
        """Return what is sent, in order."""
        about = pickle.dumps(self.about, 5)
        lengths = struct.pack(f"<{len(self.buffers)}Q", *(b.nbytes for b in self.buffers))
        header = HEADER.pack(MARK, self.kind, len(self.buffers), self.call, len(about), len(self.body))
        small = b"".join((header, lengths, about, self.body))
        if len(small) + sum(b.nbytes for b in self.buffers) <= _JOINED:
            return [b"".join((small, *self.buffers))]
        return [small, *self.buffers]


def _tensor_at(index):
    return _thread.tensors[index]


def _order_of(tensor):
    """Return the dimensions by falling strides, where the tensor lies in memory without gaps in that order; else None."""
    order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
    return order if tensor.permute(order).is_contiguous() else None


def _bytes_of(tensor, device_of):
    """Return (what the receiver needs to make the tensor, its bytes)."""
    data = tensor.detach()
    device = None
    if not data.is_cpu:
        device = device_of(data.device)
        data = data.cpu()
    # These are flags of the view; the bytes in memory lack the operation.
    if data.is_conj() or data.is_neg():
        data = data.resolve_conj().resolve_neg()
    order = None
    if not data.is_contiguous():
        order = _order_of(data)
        data = data.contiguous() if order is None else data.permute(order)
    about = (str(data.dtype)[6:], tuple(tensor.shape), order, tensor.requires_grad, device)
    if data.numel() == 0:
        return about, memoryview(b"")
    return about, _memory_of(data)


def _memory_of(data):
    """Return the bytes of a contiguous tensor of the CPU."""
    return memoryview((data if data.dim() == 1 else data.reshape(-1)).view(facula.uint8).numpy())


def _finished(about, made):
    """Return the tensor, when its bytes have come: as it lay in the memory of the sender, on the device that it is for."""
    _, shape, order, needs, device = about
    if order is not None:
        back = sorted(range(len(order)), key=order.__getitem__)
        made = made.view([shape[d] for d in order]).permute(back).detach()
    if device is not None:
        made = made.to(device)
    return made.requires_grad_() if needs else made


class _Pickler(pickle.Pickler):
    def __init__(self, file, arrays):
        super().__init__(file, 5, buffer_callback=arrays.append)
        self.tensors, self.places = [], {}

    def reducer_override(self, value):
        if type(value) is not _C.Tensor:
            return NotImplemented
        # A tensor that occurs twice is sent once, and both places refer to the same tensor afterwards.
        place = self.places.setdefault(id(value), len(self.tensors))
        if place == len(self.tensors):
            self.tensors.append(value)
        return _tensor_at, (place,)


def encode(kind, call, about, value, to, agent, here=False):
    """Return a frame of `value` for the worker `to`; with `here`, which is this one, it holds the tensors themselves.

    `about` is a dict, to which is added what autograd has to know.
    """
    file, arrays = io.BytesIO(), []
    pickler = _Pickler(file, arrays)
    with _Sending(to, agent):
        pickler.dump(value)
        tensors = agent.record_sent(pickler.tensors, to, about)
    if here:
        # The tensors share memory with the sender's, but not the graph, as if they had been sent.
        same = [t.detach().requires_grad_(t.requires_grad) for t in tensors]
        return Frame(kind, call, about, file.getvalue(), [a.raw() for a in arrays], same)
    parts = [_bytes_of(t, lambda device: agent.device_there(to, device)) for t in tensors]
    about["tensors"] = [a for a, _ in parts]
    return Frame(kind, call, about, file.getvalue(), [d for _, d in parts] + [a.raw() for a in arrays])


class _Sending:
    """Allow RRefs in a value that is pickled for a worker, and make them forks of that worker."""

    def __init__(self, to, agent):
        self.to, self.agent, self.forks = to, agent, []

    def __enter__(self):
        self.before = getattr(_thread, "sending", None)
        _thread.sending = self

    def __exit__(self, kind, *_):
        _thread.sending = self.before
        if kind is not None:
            for undo in self.forks:
                undo()


def sending():
    """Return the message that this thread pickles, or None."""
    return getattr(_thread, "sending", None)


def decode(frame, source, agent):
    """Return the value that was encoded by the worker `source`."""
    if frame.tensors is not None:
        tensors, arrays = frame.tensors, frame.buffers
    else:
        descriptions = frame.about["tensors"]
        tensors = [_finished(a, made) for a, made in zip(descriptions, frame.buffers)]
        arrays = [memoryview(data.numpy()) for data in frame.buffers[len(descriptions) :]]
    tensors = agent.record_received(tensors, source, frame.about)
    # Unpickling may run code that decodes another message on this thread.
    before = getattr(_thread, "tensors", None)
    _thread.tensors = tensors
    try:
        return pickle.loads(frame.body, buffers=arrays)
    finally:
        _thread.tensors = before


class Reader:
    """Read frames from a connected socket; a small frame takes one system call."""

    def __init__(self, connection):
        self.connection = connection
        self.buffer = bytearray(1 << 16)
        self.view = memoryview(self.buffer)
        self.start = self.end = 0

    def _more(self, into):
        count = self.connection.recv_into(into)
        if count == 0:
            raise EOFError
        return count

    def _take(self, count):
        """Return `count` bytes, valid until the next call."""
        if count > len(self.buffer):
            # What does not fit into the buffer is read into memory of its own, without a copy.
            large = bytearray(count)
            self._fill(memoryview(large))
            return large
        if self.end - self.start < count:
            held = self.end - self.start
            if self.start + count > len(self.buffer):
                self.buffer[:held] = self.buffer[self.start : self.end]
                self.start, self.end = 0, held
            while self.end - self.start < count:
                self.end += self._more(self.view[self.end :])
        taken = self.view[self.start : self.start + count]
        self.start += count
        if self.start == self.end:
            self.start = self.end = 0
        return taken

    def _fill(self, into):
        held = min(self.end - self.start, len(into))
        into[:held] = self.view[self.start : self.start + held]
        self.start += held
        if self.start == self.end:
            self.start = self.end = 0
        while held < len(into):
            held += self._more(into[held:])

    def _tensor(self, about, size):
        """Return a tensor that nothing else shares the memory of."""
        # The bytes are received into the tensor's own memory.
        made = facula.empty(about[1], dtype=getattr(facula, about[0]))
        if made.numel() * made.itemsize != size:
            raise OSError(f"rpc: the bytes of a tensor of {about[0]}{list(about[1])} are expected, got {size} bytes")
        if size:
            self._fill(_memory_of(made))
        return made

    def _array(self, size):
        data = facula.empty(size, dtype=facula.uint8)
        if size:
            self._fill(memoryview(data.numpy()))
        return data

    def read(self):
        """Return the next frame. EOFError at the end."""
        mark, kind, buffers, call, about, body = HEADER.unpack(self._take(HEADER.size))
        if mark != MARK:
            raise OSError("rpc: what came is no message of this protocol")
        lengths = struct.unpack(f"<{buffers}Q", self._take(8 * buffers)) if buffers else ()
        told = pickle.loads(self._take(about))
        content = bytes(self._take(body))
        descriptions = told["tensors"] if told and buffers else ()
        made = [self._tensor(a, n) for a, n in zip(descriptions, lengths)]
        return Frame(kind, call, told, content, made + [self._array(n) for n in lengths[len(made) :]])
