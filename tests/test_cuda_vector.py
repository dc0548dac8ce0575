"""Elements of 16 and 8 bits on CUDA devices: what they become, by vectors and one by one, and by which instructions."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_environment import environment

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))
compiler = importlib.import_module("benchmarks.cuda.static.compiler")

PROGRAM = """
import numpy as np, facula
name = {name!r}
dtype = getattr(facula, name)
unsigned = np.uint8 if 'float8' in name else np.uint16
patterns = np.arange(np.iinfo(unsigned).max + 1).astype(unsigned)
as_whole = facula.int8 if unsigned is np.uint8 else facula.int16

def same(made, expected):
    '''The same bits; NaN is NaN, whatever bits it has.'''
    assert made.dtype == expected.dtype
    nan = expected.float().isnan().numpy()
    np.testing.assert_array_equal(made.float().isnan().numpy(), nan)
    whole = facula.int32 if made.dtype == facula.float32 else as_whole
    made, expected = (t.view(whole).numpy()[~nan] for t in (made, expected))
    np.testing.assert_array_equal(made, expected)

# every number of the dtype; without the first one, none lies at a multiple of a vector
x = facula.from_numpy(patterns.view(np.int8 if unsigned is np.uint8 else np.int16)).view(dtype)
on_device = x.cuda()
same(on_device.float().cpu(), x.float())
same(on_device[1:].float().cpu(), x[1:].float())
same(on_device.flip(0).float().cpu(), x.flip(0).float())

# floats: each of the numbers, halfway to the next one, and on both sides of those; some of all exponents
numbers = x.float().numpy()
numbers = np.unique(numbers[np.isfinite(numbers)])
halfway = ((numbers[1:].astype(np.float64) + numbers[:-1]) / 2).astype(np.float32)
largest = numbers[-1]
step = largest - numbers[-2]
beyond = largest + step * np.array([0.25, 0.5, 0.75, 1, 2], np.float32)
near = np.concatenate([numbers, halfway, beyond, -beyond, np.float32([0, -0.0, 1e-45, -1e-45, 3e38, -3e38])])
with np.errstate(over='ignore', under='ignore'):
    near = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))])
some = np.random.default_rng(0).integers(0, 2**32, 20_001, dtype=np.uint64).astype(np.uint32).view(np.float32)
odd = np.array([0x7F800000, 0xFF800000, 0x7F800001, 0x7FFFFFFF, 0xFFC00000], np.uint32).view(np.float32)
floats = facula.from_numpy(np.concatenate([near, some, odd]))
on_device = floats.cuda()
same(on_device.to(dtype).cpu(), floats.to(dtype))
same(on_device[1:].to(dtype).cpu(), floats[1:].to(dtype))
same(on_device.flip(0).to(dtype).cpu(), floats.flip(0).to(dtype))
for n in (0, 1, 7, 33):
    same(on_device[:n].to(dtype).cpu(), floats[:n].to(dtype))
if name == 'float16':
    pairs = facula.complex(floats, floats.flip(0))
    made, expected = (facula.view_as_real(p.to(facula.complex32).cpu()) for p in (pairs.cuda(), pairs))
    same(made, expected)
print('right')
"""


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
)
def test_conversions_are_those_of_the_host(name):
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(name=name)], env=environment(), capture_output=True, text=True)
    assert done.stdout.split() == ["right"], done.stderr


SOURCE = """
#include "vector.cuh"
namespace facula::cuda {
template <class T>
__global__ void there_and_back(T* x) {
  Vector<float, 8> wide = widen_all(load_vector<8>(x));
  for (int j = 0; j < 8; ++j) wide.at[j] *= 3.0f;
  store_vector(x, narrow_all<T>(wide));
}
}
"""
COMPILE = """
import sys
from facula import _C
name = 'facula::cuda::there_and_back<facula::cuda::' + sys.argv[1] + '>'
_, code, _ = _C._cuda_compile_together([({source!r}, name)], int(sys.argv[2]), '-Xptxas=-v')
open(sys.argv[3], 'wb').write(code)
"""


def instructions(name, capability, folder):
    """The machine code of the kernel above."""
    try:
        tool, libraries = compiler.disassembler(), compiler.compiler_folder()
    except compiler.Missing as missing:
        pytest.skip(str(missing))
    image = folder / "code.cubin"
    command = [sys.executable, "-c", COMPILE.format(source=SOURCE), name, str(capability), str(image)]
    subprocess.run(command, env=environment(FACULA_CUDA="", FACULA_CUDA_LIBRARIES=libraries), check=True)
    text = subprocess.run([tool, "-c", str(image)], capture_output=True, text=True, check=True).stdout
    return [line.split("*/")[1].split(";")[0].split() for line in text.splitlines() if line.strip().startswith("/*")]


@pytest.mark.parametrize(
    "name, capability, expected",
    [
        ("Float16", 75, {"F2F.F16.F32": 8, "HADD2.F32": 8}),
        ("Float16", 80, {"F2FP.PACK_AB": 4, "HADD2.F32": 8}),
        ("Float16", 90, {"F2FP.F16.F32.PACK_AB": 4, "HADD2.F32": 8}),
        ("BFloat16", 80, {"F2FP.BF16.PACK_AB": 4}),
        ("BFloat16", 90, {"F2FP.BF16.F32.PACK_AB": 4}),
        ("Float8E4M3FN", 90, {"F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C": 4, "F2FP.F16.E4M3.UNPACK_B": 4}),
        ("Float8E5M2", 90, {"F2FP.SATFINITE.E5M2.F32.PACK_AB_MERGE_C": 4, "HADD2.F32": 8}),
    ],
)  # fmt: skip
def test_the_device_converts_by_its_instructions(name, capability, expected, tmp_path):
    names = [word for words in instructions(name, capability, tmp_path) for word in words]
    assert {each: names.count(each) for each in expected} == expected


def test_bfloat16_stays_in_whole_numbers_where_there_is_no_instruction(tmp_path):
    names = {words[0] for words in instructions("BFloat16", 75, tmp_path)}
    assert not any(name.startswith("F2F") for name in names) and "FMUL" in names
