"""Connect workers: decide who may open a connection, and send frames over it.

Both sides show that they have the key of the job, by the hash of what the other has just made up, before anything else is
read. The key is in the store by which workers meet, which FACULA_STORE_TOKEN protects, and that token is part of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import struct
import threading

from .._errors import DistNetworkError
from . import _wire

_HELLO = struct.Struct("<8sII32s")  # mark, ranks of who opens and who listens, what was made up
_MARK = b"fcl-rpc1"
_LOOK_UP = 100  # milliseconds after which one who sends asks whether the call is still waited for
_MOST_PIECES = 512  # below the system's limit for one call


def key_of(store, rank):
    """Return the key of the job: everybody who can read the store has it."""
    if rank == 0:
        store.set("key", secrets.token_hex(32))
    token = os.environ.get("FACULA_STORE_TOKEN", "")
    # The token of the environment is mixed in, so that reading the store is not enough where a token is set.
    return hashlib.sha256(store.get("key") + b"/" + token.encode()).digest()


def address_towards(host):
    """Return the address of this machine from which `host` is reached: workers listen on no other."""
    kind, _, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect(place)  # sends nothing
        return probe.getsockname()[0]


def _exactly(connection, count):
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("it closed the connection")
        data += part
    return bytes(data)


def _proof(key, side, hello, challenge):
    return hmac.new(key, side + hello + challenge, "sha256").digest()


def _prepared(connection):
    connection.settimeout(None)
    if connection.family != getattr(socket, "AF_UNIX", None):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a machine that is gone says nothing
        for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    # A blocking send returns after this time, so that the sender can check whether its call was abandoned.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, _LOOK_UP * 1000))
    return connection


def open_to(host, port, key, rank, to, timeout):
    """Return a connection to the worker `to`; DistNetworkError when there is none, or it does not have the key."""
    try:
        connection = socket.create_connection((host, port), timeout)
        hello = _HELLO.pack(_MARK, rank, to, secrets.token_bytes(32))
        connection.sendall(hello)
        challenge = _exactly(connection, 32)
        theirs = _exactly(connection, 32)
        # Each side proves that it has the key with the other's random bytes. The words "listens" and "opens" make the
        # two proofs differ, so that neither can be sent back as the other.
        if not hmac.compare_digest(theirs, _proof(key, b"listens", hello, challenge)):
            raise ConnectionError("it does not have the key of this job")
        connection.sendall(_proof(key, b"opens", hello, challenge))
        if _exactly(connection, 1) != b"+":
            raise ConnectionError("it refused the key of this process")
    except OSError as error:
        raise DistNetworkError(f"init_rpc: no connection to rank {to} at {host}:{port}: {error}") from None
    return _prepared(connection)


def _greeted(connection, key, rank, timeout):
    """Return the rank of who opened the connection, if it has the key."""
    connection.settimeout(timeout)
    hello = _exactly(connection, _HELLO.size)
    mark, other, me, _ = _HELLO.unpack(hello)
    if mark != _MARK or me != rank:
        raise ConnectionError("a stranger")
    challenge = secrets.token_bytes(32)
    connection.sendall(challenge + _proof(key, b"listens", hello, challenge))
    if not hmac.compare_digest(_exactly(connection, 32), _proof(key, b"opens", hello, challenge)):
        raise ConnectionError("it does not have the key")
    connection.sendall(b"+")
    return other


class Listener:
    """Accept connections of other workers. Strangers are disconnected without an answer, and cannot make others wait."""

    def __init__(self, address, key, rank, arrived):
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.create_server((address, 0), family=kind, backlog=128)
        self.address, self.port = self.socket.getsockname()[:2]
        self._key, self._rank, self._arrived = key, rank, arrived
        threading.Thread(target=self._accept, name="rpc listens", daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            # Each greeting has its own thread, because a stranger may connect and send nothing.
            threading.Thread(target=self._greet, args=(connection,), name="rpc greets", daemon=True).start()

    def _greet(self, connection):
        try:
            other = _greeted(connection, self._key, self._rank, 10)
        except (OSError, struct.error):
            connection.close()
            return
        self._arrived(other, _prepared(connection))

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.socket.close()


class Connection:
    """Send frames to one worker and receive its frames. One thread reads at a time; several may send."""

    def __init__(self, connected, peer):
        self.socket, self.peer = connected, peer
        self._lock = threading.Lock()
        self._reader = _wire.Reader(connected)

    def send(self, frame, abandoned=None):
        """Send a frame. When abandoned() says that nobody waits any longer, one that has not begun is not sent, and the rest
        of one that has is sent by another thread. False for one that is not sent."""
        pieces = [memoryview(p).cast("B") for p in frame.pieces()]
        if not self._lock.acquire(blocking=abandoned is None):
            while not self._lock.acquire(timeout=_LOOK_UP / 1000):
                if abandoned():
                    return False
        rest = None
        try:
            rest = self._send_pieces(pieces, abandoned)
        finally:
            # With a rest, the lock passes to the thread that sends it: a frame must not be interrupted by another.
            if not rest:
                self._lock.release()
        if rest:
            rest = [memoryview(bytes(p)) for p in rest]  # the program may go on to use its tensors
            threading.Thread(target=self._send_rest, args=(rest,), name="rpc sends", daemon=True).start()
        return True

    def _send_rest(self, pieces):
        try:
            with contextlib.suppress(OSError):  # who reads sees the end, too
                self._send_pieces(pieces, None)
        finally:
            self._lock.release()

    def _send_pieces(self, pieces, abandoned):
        """Send; return the rest, when it is abandoned before the end."""
        at = 0
        while at < len(pieces):
            try:
                sent = self.socket.sendmsg(pieces[at : at + _MOST_PIECES])
            except BlockingIOError:
                if abandoned is not None and abandoned():
                    return pieces[at:]
                continue
            while at < len(pieces) and sent >= len(pieces[at]):
                sent -= len(pieces[at])
                at += 1
            if sent:
                pieces[at] = pieces[at][sent:]
        return None

    def read(self):
        return self._reader.read()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes who reads
        self.socket.close()
