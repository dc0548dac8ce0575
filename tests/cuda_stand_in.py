"""What programs of tests on the emulated CUDA device ask its stand-in for libraries."""

import ctypes

import facula

stand_in = ctypes.CDLL(facula.cuda.libraries()["driver"])
stand_in.facula_emulated_requests.restype = ctypes.c_char_p


def request_lines():
    """The requests that the libraries got since the last time, each a line: its name, then name=value."""
    facula.cuda.synchronize()
    return stand_in.facula_emulated_requests().decode().splitlines()
