"""Stores: what processes find each other by. Bytes that come from strangers, wrong addresses and ports in use included."""

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

import facula.distributed as dist

SECOND = timedelta(seconds=1)
SOON = timedelta(milliseconds=50)


def tcp():
    return dist.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=10))


class Own(dist.Store):
    """A program's own class: what PyTorch asks of one, and no more."""

    def __init__(self):
        self.values = {}

    def set(self, key, value):
        self.values[key] = value.encode() if isinstance(value, str) else value

    def get(self, key):
        return self.values[key]

    def add(self, key, amount):
        self.set(key, str(int(self.values.get(key, b"0")) + amount))
        return int(self.values[key])

    def check(self, keys):
        return all(key in self.values for key in keys)

    def wait(self, keys, timeout=None):
        if not self.check(keys):
            raise RuntimeError("not there")

    def compare_set(self, key, expected, desired):
        return dist.HashStore().compare_set(key, expected, desired)

    def delete_key(self, key):
        return self.values.pop(key, None) is not None

    def num_keys(self):
        return len(self.values)


@pytest.fixture(params=["hash", "tcp", "file", "prefix"])
def store(request, tmp_path):
    made = {"hash": dist.HashStore, "tcp": tcp, "file": lambda: dist.FileStore(tmp_path / "store"), "prefix": lambda: dist.PrefixStore("p", tcp())}
    return made[request.param]()


def test_values(store):
    store.set("a", "1")
    store.set("b", b"\0\xff")
    assert store.get("a") == b"1" and store.multi_get(["b", "a"]) == [b"\0\xff", b"1"]
    assert store.add("n", 2) == 2 and store.add("n", -5) == -3 and store.get("n") == b"-3"
    store.append("a", "23")
    store.append("new", "x")
    assert store.multi_get(["a", "new"]) == [b"123", b"x"]
    store.multi_set(["k", "l"], ["v", b"w"])
    assert store.check(["k", "l"]) and not store.check(["k", "none"]) and store.check([])
    assert store.delete_key("k") and not store.delete_key("k") and not store.check(["k"])
    assert store.has_extended_api()


def test_compare_set_is_pytorchs(store):
    assert store.compare_set("b", "", "x") == b"x"
    assert store.compare_set("c", "y", "x") == b"y" and not store.check(["c"])
    assert store.compare_set("b", "x", "z") == b"z"
    assert store.compare_set("b", "q", "r") == b"z"


def test_queues(store):
    with pytest.raises(dist.QueueEmptyError, match="'q'"):
        store.queue_pop("q", block=False)
    store.queue_push("q", "1")
    store.queue_push("q", b"2")
    assert store.queue_len("q") == 2 and store.check(["q"])
    assert store.queue_pop("q") == b"1" and store.queue_pop("q", False) == b"2" and store.queue_len("q") == 0
    store.set_timeout(SOON)
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: '.*q'"):
        store.queue_pop("q")


def test_waiting(store):
    store.set_timeout(SOON)
    assert store.timeout == SOON
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms.*'.*none'"):
        store.get("none")
    store.set("there", "")
    with pytest.raises(dist.DistStoreError, match="no process set '.*gone'"):
        store.wait(["there", "gone"], timedelta(milliseconds=1))
    other = store.clone()
    for key, call in {
        "late": lambda: store.get("late"),
        "later": lambda: store.wait(["there", "later"], timedelta(seconds=20)),
        "queue": lambda: store.queue_pop("queue"),
    }.items():
        store.set_timeout(timedelta(seconds=20))
        push = other.queue_push if key == "queue" else other.set
        threading.Timer(0.05, push, (key, "v")).start()
        assert call() in (b"v", None)


def test_barrier(store):
    arrived = []

    def arrive(mine):
        mine.barrier("b", 3, timedelta(seconds=20))
        arrived.append(1)

    threads = [threading.Thread(target=arrive, args=(store.clone(),)) for _ in range(2)]
    for t in threads:
        t.start()
    time.sleep(0.05)
    assert not arrived
    arrive(store)
    for t in threads:
        t.join(20)
    assert len(arrived) == 3
    with pytest.raises(dist.DistStoreError, match=r"1 of 2 came"):
        store.barrier("c", 2, SOON)


def test_wrong_values(store):
    store.set("text", "abc")
    with pytest.raises(dist.DistStoreError, match="^add: .*'abc'"):
        store.add("text", 1)
    store.add("large", 2**63 - 1)
    with pytest.raises(dist.DistStoreError, match="64 bits"):
        store.add("large", 1)
    for call in (lambda: store.set("a", 3), lambda: store.set(None, "a"), lambda: store.check([1]), lambda: store.wait("a", 3.0), lambda: store.set_timeout(1)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        store.multi_set(["a", "b"], ["c"])
    assert store.get("text") == b"abc"  # and still works


def test_keys(store):
    before = store.num_keys()
    store.set("a", "")
    store.queue_push("q", "")
    assert store.num_keys() == before + 2
    assert {key.rpartition("/")[2] for key in store.list_keys()} >= {"a", "q"}


def test_prefixes():
    below = dist.HashStore()
    inner = dist.PrefixStore("in", dist.PrefixStore("out", below))
    inner.set("k", "v")
    assert below.get("out/in/k") == b"v" and inner.underlying_store.get("in/k") == b"v"
    assert inner._underlying_non_prefix_store is below


def test_a_class_of_ones_own():
    below = Own()
    store = dist.PrefixStore("p", below)
    store.set("k", "v")
    store.append("k", "w")
    assert store.get("k") == below.get("p/k") == b"vw" and store.add("n", 3) == 3 and store.num_keys() == 2
    assert store.check(["k"]) and store.delete_key("k") and not store.check(["k"])
    with pytest.raises(dist.DistStoreError, match="not there"):
        store.wait(["k"])
    store.set_timeout(SOON)
    with pytest.raises(dist.DistStoreError):
        store.barrier("b", 2, SOON)
    with pytest.raises(TypeError, match="expected a Store, got dict"):
        dist.PrefixStore("p", {})


def test_several_processes_of_a_tcp_store():
    code = """
import sys, facula.distributed as dist
from datetime import timedelta
store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), 3, False, timedelta(seconds=30))
store.set("child", str(store.add("n", 1)))
assert store.get("answer") == b"42"
"""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    children = [subprocess.Popen([sys.executable, "-c", code, str(port)]) for _ in range(2)]
    store = dist.TCPStore("127.0.0.1", port, 3, True, timedelta(seconds=60), master_listen_fd=listener.detach())
    assert store.port == port and store.num_keys() >= 1
    store.set("answer", "42")
    assert [c.wait(60) for c in children] == [0, 0] and store.get("n") == b"2"


def test_a_file_store_between_processes(tmp_path):
    path = tmp_path / "store"
    code = "import sys, facula.distributed as d; s = d.FileStore(sys.argv[1], 3)\nfor _ in range(20): s.add('n', 1)\ns.wait(['go'])"
    children = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    store = dist.FileStore(path, 3)
    store.set("go", "1")
    assert [c.wait(60) for c in children] == [0, 0]
    assert store.add("n", 0) == 40 and path.exists()
    del store
    assert not path.exists()  # the last one removes it


def test_a_file_that_is_damaged(tmp_path):
    path = tmp_path / "store"
    store = dist.FileStore(path)
    store.set("a", "1")
    whole = path.read_bytes()
    store.set("b", "2")
    path.write_bytes(path.read_bytes()[:-3])  # a process died while it wrote
    again = dist.FileStore(path)
    assert again.get("a") == b"1" and not again.check(["b"]) and path.read_bytes() == whole
    path.write_bytes(b"something else, long enough")
    with pytest.raises(dist.DistStoreError, match="no file of a store"):
        dist.FileStore(path)
    with pytest.raises(dist.DistStoreError, match="cannot open"):
        dist.FileStore(tmp_path / "none" / "store")


def answer_once(listener, data):
    def serve():
        with listener.accept()[0] as connection:
            connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()


def test_addresses_and_ports():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(dist.DistNetworkError, match=rf"already in use: port {port} .*process {os.getpid()}"):
            dist.TCPStore("127.0.0.1", port, 1, True, SECOND)
        answer_once(other, b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(dist.DistNetworkError, match="is no store of Facula"):
            dist.TCPStore("127.0.0.1", port, 1, False, timedelta(seconds=5))
    with pytest.raises(dist.DistNetworkError, match=f"nobody listens on port {port}"):
        dist.TCPStore("127.0.0.1", port, 2, False, SOON)
    with pytest.raises(dist.DistNetworkError, match="'nowhere.invalid' is not known"):
        dist.TCPStore("nowhere.invalid", port, 2, False, SOON)
    with pytest.raises(dist.DistNetworkError, match="no address of this machine"):
        dist.TCPStore("192.0.2.1", 0, 1, True, SOON)
    with pytest.raises(dist.DistStoreError, match="1 of 3 processes came"):
        dist.TCPStore("127.0.0.1", 0, 3, True, SOON)
    with pytest.raises(ValueError, match="0 to 65535"):
        dist.TCPStore("127.0.0.1", 70000, 1, True, SOON)
    with pytest.raises(ValueError, match="descriptor"):
        dist.TCPStore("127.0.0.1", 0, 1, True, SOON, master_listen_fd=0)


def test_one_server_for_several_stores_of_a_process():
    first = tcp()
    with pytest.raises(dist.DistNetworkError):
        dist.TCPStore("127.0.0.1", first.port, 1, True, SECOND)
    second = dist.TCPStore("127.0.0.1", first.port, None, True, SECOND, multi_tenant=True)
    second.set("a", "1")
    assert first.get("a") == b"1"


def test_tokens(monkeypatch):
    monkeypatch.setenv("FACULA_STORE_TOKEN", "right")
    store = tcp()
    for wrong in ("", "wrong", "righ", "rightright", "x" * 256):  # codespell:ignore
        monkeypatch.setenv("FACULA_STORE_TOKEN", wrong)
        with pytest.raises(dist.DistNetworkError, match="token"):
            dist.TCPStore("127.0.0.1", store.port, None, False, SECOND)
    monkeypatch.setenv("FACULA_STORE_TOKEN", "x" * 257)
    with pytest.raises(ValueError, match="256"):
        dist.TCPStore("127.0.0.1", store.port, None, False, SECOND)
    monkeypatch.setenv("FACULA_STORE_TOKEN", "right")
    assert dist.TCPStore("127.0.0.1", store.port, None, False, SECOND).num_keys() == 1


MAGIC = 0x53414346


def hello(version=1):
    return struct.pack("<III", MAGIC, version, 0)


def talk(port, data):
    """What the server answers to bytes, until it closes or has nothing more to say."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := s.recv(4096):
                answer += piece
        except ConnectionError:
            pass
        return answer


def test_versions():
    store = tcp()
    assert b"another version" in talk(store.port, hello(version=2))
    with socket.create_server(("127.0.0.1", 0)) as newer:
        answer_once(newer, struct.pack("<II", MAGIC, 7))
        with pytest.raises(dist.DistNetworkError, match="speaks version 7, this process version 1"):
            dist.TCPStore("127.0.0.1", newer.getsockname()[1], None, False, timedelta(seconds=5))


def test_bytes_of_strangers():
    store = tcp()
    rng = random.Random(0)
    good = struct.pack("<dBqII", 0.0, 7, 0, 0, 0)  # how many keys there are
    assert len(talk(store.port, hello() + struct.pack("<I", len(good)) + good)) > 20
    for _ in range(300):
        kind = rng.randrange(4)
        if kind == 0:
            data = rng.randbytes(rng.randrange(200))
        elif kind == 1:  # lengths that are not true
            data = hello() + struct.pack("<I", rng.choice([0, 1, 7, 9, 2**31, 2**32 - 1])) + rng.randbytes(40)
        elif kind == 2:
            body = struct.pack("<dBqI", rng.choice([0.0, float("nan"), float("inf"), -1.0]), rng.randrange(20), -(2**63), rng.choice([0, 1, 2**32 - 1])) + rng.randbytes(8)
            data = hello() + struct.pack("<I", len(body)) + body
        else:
            body = bytearray(good)
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
            data = hello() + struct.pack("<I", len(body)) + bytes(body)
        talk(store.port, data)
    store.set("a", "1")
    assert store.get("a") == b"1"


def test_a_server_that_ends():
    code = "import facula.distributed as d, sys; s = d.TCPStore('127.0.0.1', 0, 1, True); print(s.port, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        store = dist.TCPStore("127.0.0.1", int(child.stdout.readline()), None, False, SECOND)
        store.set("a", "1")
        threading.Timer(0.1, child.kill).start()
        with pytest.raises(dist.DistNetworkError, match="closed|lost"):
            store.get("none")
    with pytest.raises(dist.DistNetworkError, match="nobody listens"):
        store.get("a")


def test_waits_can_be_interrupted():
    code = """
import facula.distributed as d, sys
store = getattr(d, sys.argv[1])(*eval(sys.argv[2]))
print("ready", flush=True)
try:
    store.get("none")
except KeyboardInterrupt:
    sys.exit(7)
"""
    for kind, arguments in ("HashStore", "()"), ("TCPStore", "('127.0.0.1', 0, 1, True)"):
        with subprocess.Popen([sys.executable, "-c", code, kind, arguments], stdout=subprocess.PIPE, text=True) as child:
            child.stdout.readline()
            time.sleep(0.1)
            child.send_signal(signal.SIGINT)
            assert child.wait(20) == 7


def test_a_forked_child_keeps_no_connection():
    """A process that ends is seen, also when children of it live on."""
    code = """
import os, sys, time, facula.distributed as d
s = d.TCPStore("127.0.0.1", 0, 1, True)
print(s.port, flush=True)
if os.fork() == 0:
    print("forked", flush=True)
    time.sleep(30)
    os._exit(0)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        try:
            store = dist.TCPStore("127.0.0.1", int(child.stdout.readline()), None, False, SECOND)
            assert child.stdout.readline() == "forked\n"
            child.kill()
            with pytest.raises(dist.DistNetworkError):
                store.get("none")
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def test_a_file_that_was_there_before(tmp_path):
    """Whoever made the file removes it: a program's temporary file is emptied, a store's own goes away."""
    path = tmp_path / "given"
    path.touch()
    for _ in range(2):  # and the same file serves again
        stores = [dist.FileStore(path, 2) for _ in range(2)]
        stores[0].set("a", "1")
        assert stores[1].get("a") == b"1" and stores[0].num_keys() == 1
        assert stores[1].add("n", 2) == 2
        del stores
        assert path.exists() and path.stat().st_size == 0
    stores = [dist.FileStore(tmp_path / "own", 2) for _ in range(2)]
    stores[1].set("a", "1")
    assert stores[0].num_keys() == 1 and stores[0].get("a") == b"1"
    del stores
    assert not (tmp_path / "own").exists()


FULL = """
import resource, socket
from datetime import timedelta
import facula.distributed as dist
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
store = dist.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=10))
print(store.port, flush=True)
input()
print(store.get("key"), flush=True)
"""


@pytest.fixture
def full_store():
    """The port of a store whose process may have 64 descriptors, and what ends it."""
    server = subprocess.Popen([sys.executable, "-c", FULL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
    with server:
        yield int(server.stdout.readline()), server
        server.kill()


def connected(port, count):
    return [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]


def test_strangers_do_not_keep_clients_out(full_store):
    port, server = full_store
    strangers = connected(port, 100)
    client = dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=5))
    client.set("key", "value")
    server.stdin.write("\n")
    server.stdin.flush()
    assert server.stdout.readline() == "b'value'\n"
    for stranger in strangers:
        stranger.close()


def test_a_store_without_descriptors_waits_for_one(full_store):
    port, server = full_store
    hello = struct.pack("<III", 0x53414346, 1, 0)
    clients = connected(port, 100)
    for client in clients:
        client.sendall(hello)

    def used():
        with open(f"/proc/{server.pid}/stat") as stat:
            return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))

    before, begun = used(), time.monotonic()
    while time.monotonic() < begun + 1:
        time.sleep(0.05)
    assert used() - before < 0.3 * os.sysconf("SC_CLK_TCK")  # it took a whole core
    for client in clients:
        client.close()
    dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=5)).set("key", "value")
