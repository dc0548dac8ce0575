"""Mistakes that are planted are found on the emulated device: beside each of them is the same without the mistake.

In programs: waits that are missing, memory that is used too early, too late, unset or behind its end, accesses of the host. In kernels: missing
and divergent barriers, missing fences, indices out of range, copies that are not waited for, wrong fragments of products, rows in the same banks.
(tests/cpp/test_emulator.cpp does the same for calls of the driver.)
"""

import json
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cuda_kernels
import pytest
from cuda_environment import environment
from op_samples import all_ops

HERE = Path(__file__).resolve().parent
MISSING = {*(HERE / "cuda_missing.txt").read_text().split(), "tensor_split_tensor_indices_or_sections"}

#: how a kernel is made and launched that is none of Facula's
BEGIN = """
import ctypes, struct, sys, tempfile
import facula
from facula import cuda

def driver():
    with open("/proc/self/maps") as maps:
        return ctypes.CDLL(next(line.split()[-1] for line in maps if "facula_emulated_cuda" in line))

def kernel(body, before=""):
    path = (tempfile.mkdtemp() + "/k.so").encode()  # also in the source, so that no cache has it
    begin = before + '#include "mma.cuh"\\nnamespace facula::cuda {\\n__global__ void k(float* out, int n) {\\n'
    source = begin + body + "\\n}\\n}\\n// " + path.decode()
    cuda.synchronize()
    facula._C._cuda_keep_together([(source, "facula::cuda::k")], 90, path.decode())
    image = b"FACULAEP" + struct.pack("<Qii", len(path), 90, 0) + path
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver().cuModuleLoadData(ctypes.byref(module), image) == 0
    assert driver().cuModuleGetFunction(ctypes.byref(function), module, b"facula::cuda::k") == 0

    def launch(address, n, threads=64, blocks=1):
        pointer, count = ctypes.c_void_p(address), ctypes.c_int(n)
        arguments = (ctypes.c_void_p * 3)(ctypes.addressof(pointer), ctypes.addressof(count), None)
        stream = ctypes.c_void_p(cuda.current_stream().cuda_stream)
        assert driver().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, None) == 0
    return launch

# (3 r + k) times (k + 2 c + 1), of 16 x 16 and 16 x 8 numbers; words of the left side come in the order %s
MULTIPLY = '''
  FACULA_SHARED(BFloat16, left, 256);
  FACULA_SHARED(BFloat16, right, 128);
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) left[8 * swizzled<2>(i / 16, i %% 16 / 8) + i %% 8] = BFloat16(i / 16 * 3 + i %% 16);
  for (int i = lane; i < 128; i += 32) right[i] = BFloat16(i / 8 + i %% 8 * 2 + 1);
  __syncthreads();
  UInt32 w[4], b[4];
  load_matrices(w, left + 8 * swizzled<2>(lane %% 16, lane / 16));
  load_transposed(b, right + 8 * (lane %% 16));
  float d[4] = {};
  const UInt32 a[4] = %s;
  mma<BFloat16>(d, a, b[0], b[1]);
  for (int q = 0; q < 4; ++q) out[(lane / 4 + q / 2 * 8) * 8 + lane %% 4 * 2 + q %% 2] = d[q];
'''

mistake = sys.argv[1] == "mistake"
x = facula.zeros(64, device="cuda")
"""

LAZY = {"FACULA_EMULATED_MODE": "lazy"}
REVERSE = {**LAZY, "FACULA_EMULATED_ORDER": "reverse"}
GUARD = {"FACULA_EMULATED_GUARD": "1", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
POISON = {"FACULA_CUDA_POISON": "1"}
FENCES = {"FACULA_EMULATED_FENCES": "1", "FACULA_EMULATED_ORDER": "random"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For kernels that nobody needs again."""
    return tmp_path_factory.mktemp("kernels")


def run(program, mistake, more):
    command = [sys.executable, "-c", BEGIN + textwrap.dedent(program), "mistake" if mistake else "right"]
    return subprocess.run(command, env={**environment(), "FACULA_CUDA": "emulated", **more}, capture_output=True, text=True)


def run_both(program, folder, more):
    """Without the mistake, and with it; at the same time."""
    with ThreadPoolExecutor(2) as pool:
        return pool.map(lambda mistake: run(program, mistake, {"FACULA_CACHE_DIR": str(folder), **more}), (False, True))


def is_right(done):
    return done.returncode == 0 and done.stdout.split() == ["right"]


#: what: (environment, program); it prints "right" where the values are
WRONG_VALUES = {
    "a stream does not wait for another": (LAZY, """
        s = cuda.Stream()
        x.fill_(3)
        if not mistake:
            s.wait_stream(cuda.current_stream())
        with cuda.stream(s):
            y = x * 2
        s.synchronize()
        print("right" if y.sum().item() == 384 else "wrong")
    """),
    "a stream does not wait for another, with random delays": ({"FACULA_EMULATED_JITTER": "20000"}, """
        s = cuda.Stream()
        sums = []
        for i in range(1, 9):
            x.fill_(i)
            if not mistake:
                s.wait_stream(cuda.current_stream())
            with cuda.stream(s):
                sums.append(x.sum())
            if not mistake:
                cuda.current_stream().wait_stream(s)
        cuda.synchronize()
        print("right" if [v.item() for v in sums] == [64 * i for i in range(1, 9)] else "wrong")
    """),
    "two streams write the same memory": (REVERSE, """
        first, second = cuda.Stream(), cuda.Stream()
        cuda.synchronize()
        with cuda.stream(first):
            x.fill_(1)
        if not mistake:
            second.wait_stream(first)
        with cuda.stream(second):
            x.fill_(2)
        cuda.synchronize()
        print("right" if x.sum().item() == 128 else "wrong")
    """),
    "memory is used again while another stream reads it": (REVERSE, """
        s = cuda.Stream()
        y = x + 1
        s.wait_stream(cuda.current_stream())
        with cuda.stream(s):
            z = y * 2
        if not mistake:
            y.record_stream(s)
        del y
        w = facula.full((64,), -5.0, device="cuda")
        s.synchronize()
        print("right" if z.sum().item() == 128 else "wrong")
    """),
    "memory is released while another stream reads it": ({**REVERSE, **POISON}, """
        s = cuda.Stream()
        y = x + 1
        s.wait_stream(cuda.current_stream())
        with cuda.stream(s):
            z = y * 2
        if not mistake:
            y.record_stream(s)
        del y
        s.synchronize()
        print("right" if z.sum().item() == 128 else "wrong")
    """),
    "released memory is read": (POISON, """
        y = x + 1
        read = kernel("out[threadIdx.x] = out[threadIdx.x] == 1 ? 2 : 3;")
        address = y.data_ptr()
        if mistake:
            del y
        read(address, 64)
        z = facula.empty(64, device="cuda") if mistake else y
        cuda.synchronize()
        print("right" if z.data_ptr() == address and z.sum().item() == 128 else "wrong")
    """),
    "unset memory is read": (POISON, """
        y = facula.empty(64, device="cuda") if mistake else facula.zeros(64, device="cuda")
        print("right" if (y * 0).sum().item() == 0 else "wrong")
    """),
    "the host writes what is still copied": (LAZY, """
        host = facula.ones(64).pin_memory()
        x.copy_(host, non_blocking=True)
        if not mistake:
            cuda.synchronize()
        host.fill_(7)
        print("right" if x.sum().item() == 64 else "wrong")
    """),
    "the host reads what is not there yet": (LAZY, """
        x.fill_(2)
        host = facula.zeros(64).pin_memory()
        host.copy_(x, non_blocking=True)
        if not mistake:
            cuda.synchronize()
        print("right" if host.sum().item() == 128 else "wrong")
    """),
    "a barrier is missing": ({"FACULA_EMULATED_ORDER": "reverse"}, """
        barrier = "" if mistake else "__syncthreads();"
        turn = kernel("FACULA_SHARED(float, room, 64); int t = threadIdx.x; room[t] = t;" + barrier + "out[t] = room[(t + 63) % 64];")
        turn(x.data_ptr(), 64)
        print("right" if x.tolist() == [(t + 63) % 64 for t in range(64)] else "wrong")
    """),
    "shared memory is unset": ({}, """
        mine = "" if mistake else "room[threadIdx.x] = 1;"
        read = kernel("FACULA_SHARED(float, room, 64);" + mine + "out[threadIdx.x] = room[threadIdx.x];")
        read(x.data_ptr(), 64)
        print("right" if x.sum().item() == 64 else "wrong")
    """),
    "copies are not waited for": ({}, """
        left = "1" if mistake else "0"
        turn = kernel("FACULA_SHARED(float, room, 64); const int t = threadIdx.x;"
                      "if (t < 16) copy_async_part(room + 4 * t, out + 4 * t, t < 15 ? 16 : 8);"
                      "copies_commit(); copies_wait<" + left + ">(); __syncthreads(); out[t] = room[(t + 1) % 64];")
        x += facula.arange(1, 65, device="cuda")
        turn(x.data_ptr(), 64)
        print("right" if x.tolist() == [*range(2, 63), 0, 0, 1] else "wrong")
    """),
    "a group of copies is waited for too late": ({}, """
        left = "2" if mistake else "1"
        sums = kernel("FACULA_SHARED(float, room, 768); const int t = threadIdx.x; float sum = 0;"
                      "const auto fetch = [&](int k) { copy_async(room + 4 * (t + k % 3 * 64), out + 4 * k, k < 7); copies_commit(); };"
                      "fetch(0); fetch(1); for (int k = 0; k < 8; ++k) { copies_wait<" + left + ">(); fetch(k + 2);"
                      "sum += room[4 * (t + k % 3 * 64)]; } __syncthreads(); out[t] = sum;")
        x += facula.arange(64, device="cuda")
        sums(x.data_ptr(), 64)
        print("right" if x.tolist() == [84.0] * 64 else "wrong")
    """),
    "a product is given the wrong fragments": ({}, """
        a = "{w[0], w[2], w[1], w[3]}" if mistake else "{w[0], w[1], w[2], w[3]}"
        multiply = kernel(MULTIPLY % a)
        y = facula.zeros(16, 8, device="cuda")
        multiply(y.data_ptr(), 8, 32)
        r, k, c = facula.arange(16.), facula.arange(16.), facula.arange(8.)
        wanted = (r[:, None] * 3 + k) @ (k[:, None] + 2 * c + 1)
        print("right" if y.cpu().equal(wanted) else "wrong")
    """),
    "rows of a matrix share banks": ({}, """
        row = "r * 64 + 8 * c" if mistake else "8 * swizzled<8>(r, c)"
        load = kernel("FACULA_SHARED(BFloat16, room, 1024); const int r = threadIdx.x % 16, c = threadIdx.x / 16;"
                      "UInt32 w[4]; load_matrices(w, room + (" + row + ")); out[threadIdx.x] = w[0];")
        load(x.data_ptr(), 8, 32)
        cuda.synchronize()
        print("right" if driver().facula_emulated_bank_conflicts() == 0 else "wrong")
    """),
    "a block does not give what it wrote to the others": (FENCES, """
        fence = "" if mistake else "__threadfence();"
        count = kernel("if (threadIdx.x) return; out[blockIdx.x] = 1;" + fence + "if (atomicAdd((int*)(out + 63), 1) + 1 < gridDim.x) return;"
                       "__threadfence(); for (int b = 0; b < gridDim.x; ++b) out[62] += out[b];")
        count(x.data_ptr(), 64, blocks=9)
        print("right" if x[62].item() == 9 else "wrong")
    """),
    "a block does not look at what the others gave it": (FENCES, """
        fence = "" if mistake else "__threadfence();"
        count = kernel("if (threadIdx.x) return; out[blockIdx.x] = 1; __threadfence(); if (atomicAdd((int*)(out + 63), 1) + 1 < gridDim.x) return;"
                       + fence + "for (int b = 0; b < gridDim.x; ++b) out[62] += out[b];")
        count(x.data_ptr(), 64, blocks=9)
        print("right" if x[62].item() == 9 else "wrong")
    """),
    "the last block finishes without the fences of is_last_block": (FENCES, """
        count = kernel("if (threadIdx.x < 3) out[blockIdx.x * 3 + threadIdx.x] = 1; if (!is_last_block((UInt32*)(out + 63), 9)) return;"
                       "float sum = threadIdx.x < 27 ? out[threadIdx.x] : 0; sum = fold_warp<Add>(sum); if (threadIdx.x == 0) out[62] = sum;",
                       before="#define __threadfence() (void)0\\n" if mistake else "")
        for _ in range(3):  # the ticket is as it was
            x[:62] = 0
            count(x.data_ptr(), 64, blocks=9)
        print("right" if x[62].item() == 27 and x[63].item() == 0 else "wrong")
    """),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_VALUES)
def test_values_are_wrong(what, folder):
    more, program = WRONG_VALUES[what]
    right, wrong = run_both(program, folder, more)
    assert is_right(right), right.stderr[-2000:]
    assert wrong.returncode == 0 and wrong.stdout.split() == ["wrong"], wrong.stderr[-2000:]


OUT_OF_RANGE = """
    body = "for (int i = threadIdx.x; i < n; i += 64) out[i] = i;"
    kernel(body)(x.data_ptr(), 65 if mistake else 64)
    print("right" if x.tolist() == list(range(64)) else "wrong")
"""
NOT_ALLOCATED = "kernel facula::cuda::k accesses memory that is not allocated"
#: what: (environment, program, what the process says); it must not end well
REPORTS = {
    "a kernel writes behind the end": (GUARD, OUT_OF_RANGE, NOT_ALLOCATED),
    "a kernel writes behind the end, in lazy mode": ({**GUARD, **LAZY}, OUT_OF_RANGE, NOT_ALLOCATED),
    "a kernel reads far behind the end": (GUARD, """
        kernel("out[threadIdx.x] = threadIdx.x == 5 ? out[1 << n] : 1;")(x.data_ptr(), 20 if mistake else 0)
        print("right" if x.sum().item() == 64 else "wrong")
    """, NOT_ALLOCATED),
    "a kernel uses released memory": (GUARD, """
        y = facula.zeros(64, device="cuda")
        address, fill = y.data_ptr(), kernel("out[threadIdx.x] = n;")
        if mistake:
            del y
        fill(address, 3)
        cuda.synchronize()
        print("right" if y.sum().item() == 192 else "wrong")
    """, NOT_ALLOCATED),
    "a kernel writes a little behind the end": (GUARD, """
        y = facula.zeros(63, device="cuda")
        kernel("if (threadIdx.x < n) out[threadIdx.x] = n;")(y.data_ptr(), 64 if mistake else 63)
        cuda.synchronize()
        total = y.sum()
        del y
        print("right" if total.item() == 63 * 63 else "wrong")
    """, "written behind the end of a block of 252 bytes"),
    "the host reads device memory": (LAZY, """
        x.fill_(1)
        cuda.synchronize()
        ctypes.string_at(x.data_ptr() if mistake else facula.ones(64).data_ptr(), 4)
        print("right")
    """, "the host accesses device memory"),
    "only some threads reach a barrier": ({}, """
        test = "threadIdx.x < 32" if mistake else "true"
        kernel("if (" + test + ") {\\n__syncthreads();\\n} else {\\n__syncthreads();\\n}")(x.data_ptr(), 64)
        cuda.synchronize()
        print("right")
    """, "two different __syncthreads()"),
    "a copy begins at no multiple of 16 bytes": ({}, """
        by = "1" if mistake else "4"
        kernel("FACULA_SHARED(float, room, 260); copy_async(room + " + by + " * threadIdx.x, out, true);")(x.data_ptr(), 64)
        cuda.synchronize()
        print("right")
    """, "begin at no multiple of 16"),
    "a matrix is not in shared memory": ({}, """
        row = "out" if mistake else "room"
        kernel("FACULA_SHARED(float, room, 32); UInt32 w[4]; load_matrices(w, " + row + ");")(x.data_ptr(), 64)
        cuda.synchronize()
        print("right")
    """, "not in shared memory"),
    "a warp waits for lanes that never come": ({}, """
        test = "threadIdx.x % 2" if mistake else "true"
        kernel("if (" + test + ") out[threadIdx.x] = __shfl_sync(kAllLanes, 1, 0); else __syncthreads();")(x.data_ptr(), 64)
        cuda.synchronize()
        print("right")
    """, "deadlock"),
}  # fmt: skip


@pytest.mark.parametrize("what", REPORTS)
def test_reports(what, folder):
    more, program, report = REPORTS[what]
    right, wrong = run_both(program, folder, more)
    assert is_right(right), right.stderr[-2000:]
    assert wrong.returncode != 0 and report in wrong.stderr, wrong.stderr[-2000:]


# ---- programs without mistakes find nothing

MODES = {
    "guarded": GUARD, "guarded-lazy": {**GUARD, **LAZY}, "poisoned": POISON, "poisoned-reverse": {**POISON, **REVERSE},
    "poisoned-jitter": {**POISON, "FACULA_EMULATED_JITTER": "500"}, "fences": FENCES, "uncached-eager": {**GUARD, "FACULA_EMULATED_MODE": "eager"},
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_training_has_no_mistakes(mode):
    program = """
    from facula import nn
    from facula.nn import functional as F
    def train(device):
        facula.manual_seed(3)
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)).to(device)
        optimizer = facula.optim.Adam(model.parameters(), lr=0.01)
        data = facula.randn(3, 8, 2, 8, 8)
        losses = []
        for batch in data:
            inputs = batch.pin_memory().to(device, non_blocking=True) if device == "cuda" else batch
            loss = F.cross_entropy(model(inputs), facula.arange(8, device=device) % 5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return facula.stack(losses).cpu()
    on_cpu, on_device = train("cpu"), train("cuda")
    print("right" if facula.allclose(on_cpu, on_device, rtol=1e-3, atol=1e-4) else (on_cpu, on_device))
    """
    done = run(program, False, MODES[mode])
    assert is_right(done), done.stdout + done.stderr[-2000:]
    assert not done.stderr, done.stderr


ALLOCATOR = """
import random
chance = random.Random(5)
streams = [cuda.default_stream(), *(cuda.Stream() for _ in range(3))]
live, seen = [], []
for step in range(400):
    if len(live) < 30 and chance.random() < 0.6:
        stream, value = chance.choice(streams), step + 1
        with cuda.stream(stream):
            live.append((facula.full((int(2 ** chance.uniform(0, 16)),), value, dtype=facula.int32, device="cuda"), stream, value))
    elif live:
        tensor, stream, value = live.pop(chance.randrange(len(live)))
        reader = chance.choice(streams)
        reader.wait_stream(stream)
        with cuda.stream(reader):
            seen.append((tensor.double().sum(), value * tensor.numel()))
        if reader != stream:
            tensor.record_stream(reader)
        del tensor
    if chance.random() < 0.02:
        cuda.empty_cache()
for stream in streams[1:]:
    cuda.default_stream().wait_stream(stream)
wrong = [(total.item(), expected) for total, expected in seen if total.item() != expected]
del x
seen.clear(), live.clear(), cuda.synchronize(), cuda.empty_cache()
print("right" if not wrong and cuda.memory_allocated() == cuda.memory_reserved() == 0 else (wrong, cuda.memory_allocated()))
"""


@pytest.mark.parametrize("mode", MODES)
def test_blocks_are_nobody_elses(mode):
    """Random tensors on random streams, read by others just before they are released."""
    done = run(ALLOCATOR, False, MODES[mode])
    assert is_right(done), done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("mode", ("poisoned", "poisoned-reverse"))
def test_blocks_that_are_somebody_elses_are_found(mode):
    recorded = "        if reader != stream:\n            tensor.record_stream(reader)\n"
    assert recorded in ALLOCATOR
    done = run(ALLOCATOR.replace(recorded, ""), True, MODES[mode])
    assert done.returncode == 0 and done.stdout.startswith("([("), done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("topic", ("histogram", "pool", "softmax", "sort"))
def test_ops_use_their_own_memory_only(topic):
    """The samples of ops between guarded ends, with poison, in another order. (All topics were, by hand: it takes a while.)"""
    ids = [op.id for op in all_ops() if op.topic == topic and (op.samples is not None or op.elementwise) and op.id not in MISSING]
    more = {**GUARD, **POISON, "FACULA_EMULATED_ORDER": "reverse", "FACULA_CUDA": "emulated", "FACULA_TEST_DEVICE": "cuda"}
    done = cuda_kernels.run([sys.executable, str(HERE / "device_worker.py"), *ids], **more)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-2000:]
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [report["id"] for report in reports] == ids and len(ids) > 1
    assert not done.stderr and not any(report["errors"] for report in reports), done.stderr[-2000:] + str(reports)[:2000]
