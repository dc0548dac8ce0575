"""Memory of CUDA between libraries: DLPack with streams, __cuda_array_interface__, marks for NVIDIA's profilers."""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment


def run(program, **more):
    """Return what the program prints, as lines; it has `facula` (as `torch`), `cuda` and `pytest`."""
    source = "import pytest, facula as torch\nfrom facula import cuda\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], env=environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


MODES = [{"FACULA_EMULATED_MODE": mode} for mode in ("async", "lazy")] + [{"FACULA_EMULATED_JITTER": "2000"}]


@pytest.mark.parametrize("mode", MODES)
def test_a_producer_and_a_consumer_on_other_streams(mode):
    assert run(
        """
        class Producer:
            "Another library: it makes its values on a stream of its own, and orders them with the consumer's."
            def __init__(self):
                self.stream = cuda.Stream()
                with cuda.stream(self.stream):
                    self.values = torch.ones(50000, device="cuda")
                    for _ in range(10):
                        self.values = self.values + 1
            def __dlpack_device__(self):
                return self.values.__dlpack_device__()
            def __dlpack__(self, **asked):
                self.asked = asked
                with cuda.stream(self.stream):
                    return self.values.__dlpack__(**asked)

        producer = Producer()
        mine = cuda.Stream()
        with cuda.stream(mine):
            tensor = torch.from_dlpack(producer)
            total = (tensor * 2).sum()
            print(total.item(), producer.asked == {"stream": mine.cuda_stream, "max_version": (1, 1)})
        print(tensor.data_ptr() == producer.values.data_ptr(), tensor.device)
        producer = Producer()
        print(torch.from_dlpack(producer).sum().item(), producer.asked["stream"])

        # the other way: the consumer works on its stream with what the capsule holds
        consumer = cuda.Stream()
        with cuda.stream(mine):
            x = torch.zeros(50000, device="cuda")
            for _ in range(10):
                x = x + 1
            capsule = x.__dlpack__(stream=consumer.cuda_stream, max_version=(1, 0))
        with cuda.stream(consumer):
            print(torch.from_dlpack(capsule).sum().item())
        """,
        **mode,
    ) == ["1100000.0 True", "True cuda:0", "550000.0 1", "500000.0"]


def test_streams_and_devices_that_dlpack_knows():
    assert run(
        """
        x = torch.arange(6.0, device="cuda").reshape(2, 3)
        print(x.__dlpack_device__(), torch.ones(1).__dlpack_device__())
        for stream in (None, 1, -1):
            print(torch.equal(torch.from_dlpack(x.__dlpack__(stream=stream)), x), end=" ")
        with pytest.raises(AssertionError, match="^__dlpack__: stream 0 is ambiguous"):
            x.__dlpack__(stream=0)
        with pytest.raises(BufferError, match="got stream 2"):
            x.__dlpack__(stream=2)
        with pytest.raises(TypeError, match="stream must be an int or None, got str"):
            x.__dlpack__(stream="1")
        with pytest.raises(AssertionError, match="stream is None for a tensor on the CPU, got 1"):
            x.cpu().__dlpack__(stream=1)
        on_host = torch.from_dlpack(x.t().__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
        print(on_host.device, on_host.tolist())
        there = torch.from_dlpack(on_host.__dlpack__(dl_device=(2, 0)))
        print(there.device, there.tolist() == x.t().tolist())
        with pytest.raises(BufferError, match="copy=False, but the values have to move to cpu"):
            x.__dlpack__(dl_device=(1, 0), copy=False)
        print(torch.from_dlpack(x, device="cpu").tolist() == x.tolist(), torch.from_dlpack(x,
            copy=True).data_ptr() != x.data_ptr())
        with pytest.raises(ValueError, match="copy=False, but the values have to move to cpu"):
            torch.from_dlpack(x, device="cpu", copy=False)
        """
    ) == [
        "(2, 0) (1, 0)", "True True True cpu [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]", "cuda:0 True", "True True",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_arrays_of_other_libraries(mode):
    assert run(
        """
        class Array:
            def __init__(self, tensor, **facts):
                self.tensor = tensor
                self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **facts}

        other = cuda.Stream()
        with cuda.stream(other):
            values = torch.zeros(40000, device="cuda")
            for _ in range(10):
                values = values + 1
            array = Array(values)
        print(array.__cuda_array_interface__["stream"] == other.cuda_stream,
            array.__cuda_array_interface__["version"])
        shared = torch.as_tensor(array)  # on the default stream, which waits
        print(shared.sum().item(), shared.data_ptr() == values.data_ptr(), torch.asarray(array).dtype, shared.device)
        print(torch.tensor(array).data_ptr() != values.data_ptr(), torch.as_tensor(array, device="cpu").sum().item())
        facts = torch.ones(2, 3, device="cuda", dtype=torch.complex64).t().__cuda_array_interface__
        print(facts["typestr"], facts["shape"], facts["strides"], facts["stream"])
        transposed = torch.as_tensor(Array(torch.arange(6, device="cuda").reshape(2, 3).t()))
        print(transposed.tolist(), transposed.stride())
        print(torch.as_tensor(Array(torch.empty(0, 2, device="cuda", dtype=torch.bfloat16))).shape)
        import weakref
        gone = weakref.ref(array)
        del array
        print(gone() is not None)
        del shared
        print(gone() is None)
        """,
        **mode,
    ) == [
        "True 3", "400000.0 True torch.float32 cuda:0", "True 400000.0", "<c8 (3, 2) (8, 24) 1",
        "[[0, 3], [1, 4], [2, 5]] (1, 3)", "torch.Size([0, 2])", "True", "True",
    ]  # fmt: skip


def test_pinned_memory_says_so():
    assert run(
        """
        x = torch.arange(3.0).pin_memory()
        print(x.__dlpack_device__(), torch.ones(1).__dlpack_device__(), torch.from_dlpack(x).data_ptr() == x.data_ptr())
        """
    ) == ["(3, 0) (1, 0) True"]


def test_arrays_that_cannot_be_tensors():
    assert run(
        """
        class Array:
            def __init__(self, **facts):
                self.__cuda_array_interface__ = {**x.__cuda_array_interface__, **facts}

        x = torch.ones(4, device="cuda")
        for wrong, error, text in [
            ({"typestr": ">f4"}, TypeError, "in little endian order, got '>f4'"),
            ({"typestr": "<U3"}, TypeError, "got '<U3'"),
            ({"strides": (3,)}, ValueError, r"strides of whole elements of 4 bytes, got \\(3,\\)"),
            ({"strides": (4, 4)}, ValueError, "as many strides as sizes"),
            ({"mask": x}, NotImplementedError, "an array without a mask"),
            ({"stream": 0}, ValueError, "1 for the default stream or a handle, got 0"),
            ({"data": (16, False)}, ValueError, "an address of a CUDA device's memory, got 16"),
        ]:
            with pytest.raises(error, match=text):
                torch.as_tensor(Array(**wrong))
        with pytest.raises(RuntimeError, match="read-only"):
            torch.as_tensor(Array(data=(x.data_ptr(), True))).add_(1)
        print(hasattr(torch.ones(1), "__cuda_array_interface__"))
        with pytest.raises(RuntimeError, match="requires a gradient"):
            torch.ones(1, device="cuda", requires_grad=True).__cuda_array_interface__
        with pytest.raises(RuntimeError, match="stored as conjugates"):
            torch.ones(1, device="cuda", dtype=torch.complex64).conj().__cuda_array_interface__
        """
    ) == ["False"]


LISTENER = """
#include <cstdint>
#include <cstdio>
using Function = void (*)();
struct Callbacks { unsigned long bytes; int (*functions)(int, Function***, unsigned*); };
int depth = 0;
int push(const char* text) { std::printf("push %s\\n", text); return depth++; }
int pop() { std::printf("pop\\n"); return --depth; }
uint64_t start(const char* text) { std::printf("start %s\\n", text); return 7; }
void end(uint64_t range) { std::printf("end %d\\n", static_cast<int>(range)); }
void mark(const char* text) { std::printf("mark %s\\n", text); std::fflush(stdout); }
extern "C" int InitializeInjectionNvtx2(const void* (*table)(uint32_t)) {
  const auto* callbacks = static_cast<const Callbacks*>(table(1));
  Function** functions; unsigned count;
  if (callbacks->bytes != sizeof(Callbacks) || !callbacks->functions(1, &functions, &count) || count < 11) return 0;
  *functions[2] = reinterpret_cast<Function>(mark);
  *functions[5] = reinterpret_cast<Function>(start);
  *functions[7] = reinterpret_cast<Function>(end);
  *functions[9] = reinterpret_cast<Function>(push);
  *functions[11] = reinterpret_cast<Function>(pop);
  return 1;
}
"""


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    """A profiler's library, as NVTX opens it."""
    folder = tmp_path_factory.mktemp("listener")
    (folder / "listener.cpp").write_text(LISTENER)
    library = folder / "liblistener.so"
    subprocess.run(["c++", "-std=c++17", "-shared", "-fPIC", "-o", library, folder / "listener.cpp"], check=True)
    return str(library)


def test_nvtx_ranges_reach_a_profiler(listener):
    assert run(
        """
        from facula.cuda import nvtx
        assert nvtx.range_push("a") == 0 and nvtx.range_push("b") == 1 and nvtx.range_pop() == 1 and nvtx.range_pop() == 0
        with nvtx.range("step {}", 3):
            nvtx.range_end(nvtx.range_start("c"))
        nvtx.mark("m")
        """,
        NVTX_INJECTION64_PATH=listener,
    ) == ["push a", "push b", "pop", "pop", "push step 3", "start c", "end 7", "pop", "mark m"]


def test_emit_nvtx_marks_ops(listener):
    lines = run(
        """
        x = torch.ones(2, 3, requires_grad=True)
        with torch.autograd.profiler.emit_nvtx(record_shapes=True):
            with pytest.raises(RuntimeError, match="not reentrant"), torch.autograd.profiler.emit_nvtx():
                pass
            with torch.autograd.profiler.record_function("mine"):
                y = (x * x).sum()
            y.backward()
        x.exp()
        cuda.nvtx.mark("end")
        """,
        NVTX_INJECTION64_PATH=listener,
    )
    assert lines[:5] == ["push mine", "push aten::mul, sizes = [[2, 3], [2, 3]]", "pop",
        "push aten::sum, sizes = [[2, 3]]", "pop"]
    assert any(line.startswith("push MulBackward0, seq = ") or "MulBackward" in line for line in lines)
    assert lines[-1] == "mark end" and not any(line.startswith("push aten::exp,") for line in lines)
    assert sum(line.startswith("push") for line in lines) == lines.count("pop")


def test_nvtx_without_a_profiler():
    assert run(
        """
        from facula.cuda import nvtx
        print(nvtx.range_push("a"), nvtx.range_pop(), nvtx.range_start("b"), nvtx.range_end(0), nvtx.mark("c"))
        with nvtx.range("d"), torch.autograd.profiler.emit_nvtx():
            torch.ones(2).exp()
        """,
        NVTX_INJECTION64_PATH="",
    ) == ["-2 -2 0 None None"]
