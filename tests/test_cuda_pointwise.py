"""Element-wise kernels for each layout give the CPU's bits, and each layout gets its kernel."""

import re
import sys
from pathlib import Path

import cuda_kernels
import pytest
from cuda_environment import run_emulated

WORKER = Path(__file__).resolve().parent / "cuda_pointwise_worker.py"


@pytest.mark.parametrize("topic", ("vectors", "dtypes", "strides", "places", "transposes"))
def test_bits_are_those_of_the_cpu(topic):
    done = cuda_kernels.run([sys.executable, str(WORKER), topic])
    assert done.returncode == 0, done.stderr[-3000:]
    *wrong, count = done.stdout.splitlines()
    assert not wrong and int(count.split()[0]) > 20, wrong


#: a call: the kernel that it launches; the number of a strided one is 20 * dimensions + 10 if there are vectors + inputs that repeat
KERNELS = {
    "f(64, 64) + f(64, 64)": "pointwise_direct<Loop, Float32, Float32, Float32, Float32, 4>",
    "f(64, 64) > f(64, 64)": "pointwise_direct<Loop, Float32, Bool, Float32, Bool, 8>",
    "f(64, 64).bfloat16()": "pointwise_direct<Loop, Float32, Float32, Float32, BFloat16, 8>",
    "f(64, 64) + f(64)": "pointwise_strided<Loop, Float32, Float32, Float32, 50, Float32, Float32, Float32>",
    "f(64, 64) + f(64, 1)": "pointwise_strided<Loop, Float32, Float32, Float32, 52, Float32, Float32, Float32>",
    "f(64, 1) + f(64, 64)": "pointwise_strided<Loop, Float32, Float32, Float32, 51, Float32, Float32, Float32>",
    "f(64, 65) + f(64, 1)": "pointwise_strided<Loop, Float32, Float32, Float32, 40, Float32, Float32, Float32>",
    "f(65)[1:] + f(64, 64)": "pointwise_strided<Loop, Float32, Float32, Float32, 40, Float32, Float32, Float32>",
    "f(8, 8, 8, 8) + f(8, 1, 1)": "pointwise_strided<Loop, Float32, Float32, Float32, 72, Float32, Float32, Float32>",
    "f(64, 64)[:, :32] * 2": "pointwise_strided<Loop, Float32, Float32, Float32, 52, Float32, Float32, Float32>",
    "f(64, 64) + h(64, 64)": "pointwise_strided<Loop, Float32, Float32, Float32, 30, Float32, Float16, Float32>",
    "f(64, 64) + f(64, 64).t()": "pointwise_strided<Loop, Float32, Float32, Float32, 40, Float32, Float32, Float32>",
    "f(64, 64).fill_(1.5)": "pointwise_strided<Loop, UInt32, UInt32, UInt32, 31, UInt32, UInt32, UInt32>",
    "f(16, 32) + f(32)": "pointwise_any<Loop, Float32, Float32, UInt32>",
    "f(4, 4, 4, 4, 4, 4)[..., ::2] + f(4, 4, 4, 4, 4, 2).transpose(1, 3).transpose(0, 4)": "pointwise_any<Loop, Float32, Float32, UInt32>",
    "f(64, 64).t().contiguous()": "transpose<UInt32, 1, 1>",
    "f(64, 66).t().contiguous()": "transpose<UInt32, 0, 1>",
    "h(66, 64).t().contiguous()": "transpose<UInt16, 1, 0>",
    "f(8, 512).t().contiguous()": "pointwise_strided<Loop, UInt32, UInt32, UInt32, 40, UInt32, UInt32, UInt32>",
    "f(8, 64, 64).transpose(1, 2).contiguous()": "transpose<UInt32, 1, 1>",
    "b(70000, 70000)[:, 5] + b(70000)": "pointwise_any<Loop, UInt8, UInt8, UInt32>",
    "b(3, 1 << 30) + b(3, 1)": "pointwise_strided<Loop, UInt8, UInt8, UInt8, 32, UInt8, UInt8, UInt8>",
}

LIST = """
import facula as t
def f(*shape, dtype=t.float32): return t.empty(shape, dtype=dtype, device="cuda")
def h(*shape): return f(*shape, dtype=t.float16)
def b(*shape): return f(*shape, dtype=t.uint8)
"""


@pytest.mark.parametrize("call", KERNELS)
def test_layouts_have_kernels(call):
    kernels = cuda_kernels.listed([sys.executable, "-c", LIST + call])
    assert [re.sub("facula::cuda::", "", expression) for _, expression, *_ in kernels] == [KERNELS[call]]


def test_plans_of_many_elements_are_divided():
    """Offsets of parts have 31 bits; memory that is not touched is not there."""
    run_emulated("""
import facula as t
step, rows, n = 1 << 19, 4099, 4096
x = t.empty(rows * step, dtype=t.uint8, device="cuda").as_strided((rows, n), (step, 1))
x.copy_((t.arange(rows)[:, None] * 5 + t.arange(n) % 199).to(t.uint8).cuda())
y = (x + t.arange(n, dtype=t.uint8, device="cuda")).cpu()
assert (y == ((t.arange(rows)[:, None] * 5 + t.arange(n) % 199 + t.arange(n)) % 256).to(t.uint8)).all()
""")
