"""Connect a DataLoader to one of its workers: pickles are sent, with the data of tensors beside them.

A message is a header, the sizes of its buffers, the pickle, and then the buffers: inside the stream where
they are small, else in one anonymous file (memfd) whose descriptor travels with the header. So a batch costs
at most one descriptor, nothing lies in /dev/shm, and the receiver's tensors lie on the mapped file, or on pieces
of shared memory into which small messages are received, since programs expect batches of workers to be in shared memory.
"""

import array
import collections
import contextlib
import copyreg
import errno
import io
import mmap
import os
import pickle
import socket
import struct
import sys
from multiprocessing.reduction import ForkingPickler

import facula
from facula import _C
from facula._serialization import tensors as _core

_HEADER = struct.Struct("<4Q")  # pickle bytes, number of buffers, bytes of all buffers, 1 if in a file
# A cache line, and enough for the vector loads of all kernels.
_ALIGNMENT = 64
_INLINE_LIMIT = 128 * 1024  # above this a mapped file is faster than two copies through the socket
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(array.array("i").itemsize)
_HAS_MEMFD = hasattr(os, "memfd_create")


class Channel:
    """Send and receive at one end of a connection. `Channel.pair()` makes both ends; the socket can be passed to a new
    process.
    """

    def __init__(self, connection):
        self.socket = connection
        self._pieces = _SharedPieces()

    @classmethod
    def pair(cls):
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(here), cls(there)

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.socket.close()

    def hang_up(self):
        """End the connection for every process that holds a copy of this end, then close it."""
        with contextlib.suppress(OSError):
            # close() alone would not end the connection, because forked workers hold copies of this descriptor.
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def send(self, obj):
        """Send `obj`; blocks while the other end's queue is full."""
        self.send_packed(pack(obj))

    def send_packed(self, packed):
        """Send what `pack` made, which may be done in another thread."""
        pickled, buffers = packed
        offsets, total = _layout(buffers)
        # The receiver maps the file itself, so that large batches are never copied through the socket.
        in_file = total > _INLINE_LIMIT and _HAS_MEMFD
        sizes = struct.pack(f"<{2 * len(buffers)}Q", *(n for pair in offsets for n in pair))
        head = _HEADER.pack(len(pickled), len(buffers), total, in_file) + sizes
        if in_file:
            descriptor = _write_file(buffers, offsets, total)
            try:
                self._send_all(head + pickled, descriptor)
            finally:
                os.close(descriptor)
        else:
            self._send_all(head + pickled + _joined(buffers, offsets, total))

    def receive(self):
        """Return the next object. Raises EOFError when the other end is closed."""
        head, descriptor = self._receive_header()
        pickle_size, count, total, in_file = _HEADER.unpack(head)
        numbers = struct.unpack(f"<{2 * count}Q", self._receive_exactly(16 * count))
        pickled = self._receive_exactly(pickle_size)
        if in_file:
            if descriptor is None:  # the kernel drops what does not fit into the table of descriptors
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            memory = _map_file(descriptor, total)
        else:
            memory = self._receive_into(self._pieces.take(total))
        view = memoryview(memory)
        buffers = [view[start : start + size] for start, size in zip(numbers[::2], numbers[1::2])]
        return pickle.loads(pickled, buffers=buffers)

    # -- bytes ------------------------------------------------------------------------------------

    def _send_all(self, data, descriptor=None):
        view = memoryview(data)
        if descriptor is not None:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            # The descriptor travels with the first bytes; sendmsg may send only some of them, and sendall sends the
            # rest.
            view = view[self.socket.sendmsg([view], rights) :]
        self.socket.sendall(view)

    def _receive_header(self):
        data, ancillary, _, _ = self.socket.recvmsg(_HEADER.size, _DESCRIPTOR_SPACE, socket.MSG_CMSG_CLOEXEC)
        descriptor = None
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptor = array.array("i", content[:4])[0]
        if not data:
            raise EOFError
        if len(data) < _HEADER.size:
            data += self._receive_exactly(_HEADER.size - len(data))
        return data, descriptor

    def _receive_exactly(self, size):
        return self._receive_into(bytearray(size))

    def _receive_into(self, data):
        view = memoryview(data)
        while view:
            received = self.socket.recv_into(view)
            if not received:
                raise EOFError
            view = view[received:]
        return data



class _SharedPieces:
    """Allocate shared memory for small messages as parts of blocks, because a process may have only so many mappings
    and new pages cost time.

    A block is used again when no part of it is in use. The object holds a few blocks; others live as long as their parts.
    """

    _BLOCK, _KEPT = 2 * _INLINE_LIMIT, 8

    def __init__(self):
        self._blocks = collections.deque(maxlen=self._KEPT)
        self._free = memoryview(b"")  # the rest of the last block

    def take(self, size):
        """Return `size` bytes, not more than a message within the stream has."""
        if size > len(self._free):
            # Drop the view of the old block first: it would count as a user of the block in _block().
            self._free = None
            self._free = memoryview(self._block())
        piece, self._free = self._free[:size], self._free[-(-size // _ALIGNMENT) * _ALIGNMENT :]
        return piece

    def _block(self):
        for _ in range(len(self._blocks)):
            self._blocks.rotate(-1)
            # A block can be used again once no tensor of an earlier batch refers to it.
            if sys.getrefcount(self._blocks[-1]) <= _NOBODY:
                return self._blocks[-1]
        self._blocks.append(mmap.mmap(-1, self._BLOCK))
        return self._blocks[-1]


_held_by_a_deque = collections.deque([bytearray()])
_NOBODY = sys.getrefcount(_held_by_a_deque[-1])  # what is counted where nobody but a deque holds an object


class _BatchPickler(ForkingPickler):
    """Pickle a batch, and put the memory of tensors and NumPy arrays into `buffers`."""

    def __init__(self, file, buffers):
        # ForkingPickler's own constructor does not pass buffer_callback on
        pickle.Pickler.__init__(self, file, 5, buffer_callback=buffers.append)
        self.dispatch_table = collections.ChainMap(self._extra_reducers, copyreg.dispatch_table)
        self._by_storage = {}  # so that tensors over one storage send it once

    def reducer_override(self, obj):
        if type(obj) is not facula.Tensor or obj.device.type != "cpu" or obj.layout is not facula.strided:
            return NotImplemented
        if obj.requires_grad or obj.is_conj() or obj.is_neg() or getattr(obj, "__dict__", None):
            return NotImplemented
        if obj.numel() == 0:
            return _rebuild_empty, (tuple(obj.size()), tuple(obj.stride()), obj.dtype)
        return self._reduce_tensor(obj)

    def _reduce_tensor(self, tensor):
        storage = tensor.untyped_storage()
        # A clone copies once more but sends at most half of the bytes.
        if storage.nbytes() > 2 * tensor.numel() * tensor.itemsize:
            tensor = tensor.clone()  # a small view of something large: send what is seen
            storage = tensor.untyped_storage()
        key = _core.storage_key(storage)
        if key not in self._by_storage:
            self._by_storage[key] = pickle.PickleBuffer(_core.storage_view(storage)), storage
        geometry = (tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride()))
        return _rebuild, (self._by_storage[key][0], tensor.dtype, *geometry)


def ran_out(error):
    """Return True if an OSError says that the process, or the machine, has no more file descriptors."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def describe_ran_out(who):
    """Return the text of the error where `who` has no more file descriptors: what they went to, and the remedy."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept = "" if _WITHOUT_DESCRIPTOR else f"every batch above {_INLINE_LIMIT // 1024} KiB that is kept holds one, and "
    return (
        f"DataLoader: too many open files: {who} may open {soft} (up to {hard}), and all are in use; {kept}every worker holds "
        f"one. Raise the limit (`ulimit -n {hard}`, or resource.setrlimit(resource.RLIMIT_NOFILE, ({hard}, {hard}))), keep "
        "clones of batches in place of batches, or use fewer workers"
    )


def pack(obj):
    """Return (pickle, buffers) of `obj`."""
    file, buffers = io.BytesIO(), []
    _BatchPickler(file, buffers).dump(obj)
    return file.getvalue(), [buffer.raw() for buffer in buffers]


def _rebuild(buffer, dtype, offset, size, stride):
    return _C._tensor_from_storage(_C._storage_from_shared_buffer(buffer), dtype, offset, size, stride)


def _rebuild_empty(size, stride, dtype):
    return facula.empty_strided(size, stride, dtype=dtype)


def _layout(buffers):
    """Return ([(offset, size)], total size) with every buffer on an aligned offset; equal memory gets one place."""
    offsets, places, end = [], {}, 0
    for buffer in buffers:
        memory = id(buffer.obj), buffer.nbytes
        start = places.get(memory)
        if start is None:
            start = places[memory] = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = start + buffer.nbytes
        offsets.append((start, buffer.nbytes))
    return offsets, end


def _joined(buffers, offsets, total):
    data = bytearray(total)
    for buffer, (start, size) in zip(buffers, offsets):
        data[start : start + size] = buffer
    return data


def _write_file(buffers, offsets, total):
    descriptor = os.memfd_create("facula-batch", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, total)
    written = set()
    for buffer, (start, _) in zip(buffers, offsets):
        # Tensors over the same memory have the same place in the layout, which is written once.
        if start not in written:
            written.add(start)
            _write_at(descriptor, memoryview(buffer), start)
    return descriptor


def _write_at(descriptor, view, start):
    while view.nbytes:
        done = os.pwrite(descriptor, view, start)
        view, start = view[done:], start + done


#: Python before 3.13 keeps a descriptor for as long as memory is mapped.
_WITHOUT_DESCRIPTOR = {"trackfd": False} if sys.version_info >= (3, 13) else {}


def _map_file(descriptor, total):
    try:
        # All pages are read anyway, and mapping them in one call is cheaper than a page fault for each.
        populate = getattr(mmap, "MAP_POPULATE", 0)
        return mmap.mmap(descriptor, total, flags=mmap.MAP_SHARED | populate, **_WITHOUT_DESCRIPTOR)
    finally:
        os.close(descriptor)
