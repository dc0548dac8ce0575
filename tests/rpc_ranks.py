"""Programs of workers that call each other, for the tests of remote calls."""

from distributed_ranks import run_ranks

# what workers call is found by its name in their __main__
HEAD = """
import threading
import numpy as np
import facula.distributed.rpc as rpc
import facula.distributed.autograd as dist_autograd
from facula.distributed.rpc import RRef
options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=60, num_worker_threads=8)
ME = f"worker{RANK}"
NEXT = f"worker{(RANK + 1) % SIZE}"
class Counter:
    def __init__(self, start=0): self.value = start
    def add(self, n): self.value += n; return self.value
    def fail(self): raise KeyError("no such key")
    def __call__(self, n): return self.value + n
def same(x): return x
def nap(seconds, value=None): time.sleep(seconds); return value
def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)
def references(): return {k: int(v) for k, v in rpc._rref_context_get_debug_info().items()}
"""
MEET = "rpc.init_rpc(ME, rpc_backend_options=options)\n"
INIT = HEAD + MEET
END = "rpc.shutdown()\nprint('ok')\n"


def run(code, size=2, **options):
    """Ranks with what is defined above a line "---" before they meet."""
    definitions, _, body = code.rpartition("---\n")
    assert run_ranks(HEAD + definitions + MEET + body + END, size, **options) == ["ok\n"] * size
