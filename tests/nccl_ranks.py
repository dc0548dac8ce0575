"""What programs of the tests of NCCL begin with, and where they run."""

from cuda_environment import environment
from distributed_ranks import run_ranks

NAMES = ("FACULA_CUDA", "FACULA_CACHE_DIR", "PYTHONPATH")
BEGIN = """
import numpy as np
from facula import cuda
def close(made, expected, *what):
    made, expected = np.asarray(made.cpu().tolist()), np.asarray(expected)
    assert made.shape == expected.shape and np.allclose(made, expected), (what, made, expected)
def start(backend="nccl", seconds=60, **more):
    dist.init_process_group(backend, timeout=timedelta(seconds=seconds), **more)
def requests():
    import ctypes
    with open("/proc/self/maps") as maps:
        library = ctypes.CDLL(next(line.split()[-1] for line in maps if "facula_emulated_cuda" in line))
    library.facula_emulated_requests.restype = ctypes.c_char_p
    return library.facula_emulated_requests().decode().splitlines()
"""


def variables(**more):
    every = environment()
    return {name: every[name] for name in NAMES if name in every} | more


def ranks_end(code, size=2, **more):
    return run_ranks(BEGIN + code, size, **variables(**more))
