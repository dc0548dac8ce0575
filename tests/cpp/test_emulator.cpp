// The emulated CUDA device must find what a kernel or its launch does wrong. Each case plants a bug, and runs it in a
// process of its own, since a found one spoils the device; beside most of them is the same without the bug.
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "child.h"
#include "cuda/compile.h"
#include "cuda/driver.h"
#include "cuda/kernel.h"

using namespace facula::cuda;

namespace {

void start() {
  CHECK(is_available());
  CUcontext context;
  CHECK(driver().cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(driver().cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

CUfunction kernel(const std::string& body) {
  const std::string source =
      "#include \"block.cuh\"\nnamespace facula::cuda {\n__global__ void k(float* out, int n) {\n" + body + "\n}\n}\n";
  const CompiledKernel made = compile({source, "facula::cuda::k"}, 90);
  CUmodule module;
  CUfunction function;
  CHECK(driver().cuModuleLoadData(&module, made.image.data()) == CUDA_SUCCESS);
  CHECK(driver().cuModuleGetFunction(&function, module, made.name.c_str()) == CUDA_SUCCESS);
  return function;
}

struct Memory {
  CUdeviceptr at = 0;
  explicit Memory(size_t bytes) { CHECK(driver().cuMemAlloc_v2(&at, bytes) == CUDA_SUCCESS); }
};

CUresult launch(CUfunction function, const Memory& out, unsigned threads, unsigned blocks = 1, unsigned shared = 0,
                CUstream stream = nullptr, unsigned blocks_y = 1) {
  CUdeviceptr first = out.at;
  int count = static_cast<int>(threads * blocks);
  void* arguments[] = {&first, &count, nullptr};
  return driver().cuLaunchKernel(function, blocks, blocks_y, 1, threads, 1, 1, shared, stream, arguments, nullptr);
}

std::vector<float> read_floats(const Memory& from, size_t count, CUstream stream = nullptr) {
  std::vector<float> values(count);
  CHECK(driver().cuMemcpyDtoHAsync_v2(values.data(), from.at, count * sizeof(float), stream) == CUDA_SUCCESS);
  CHECK(driver().cuStreamSynchronize(stream) == CUDA_SUCCESS);
  return values;
}

/// Runs a body in one block of 64 threads, which does what the emulator reports.
Outcome broken(const std::string& body, unsigned threads = 64) {
  return in_child({}, [&] {
    start();
    Memory out(4096);
    const CUresult result = launch(kernel(body), out, threads);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_LAUNCH_FAILED);  // the kernel may have run by now
    CHECK(driver().cuStreamSynchronize(nullptr) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(driver().cuStreamSynchronize(nullptr) == CUDA_ERROR_LAUNCH_FAILED);  // from now on
  });
}

// ---- cases

/// Every thread takes what its left neighbor wrote; the order of threads must not matter.
void test_missing_barrier() {
  const auto neighbors = [](const char* order, const char* barrier, bool is_right) {
    return in_child({order}, [=] {
      start();
      Memory out(64 * sizeof(float));
      const std::string body = std::string("FACULA_SHARED(float, room, 64); int t = threadIdx.x; room[t] = t;") +
                               barrier + "out[t] = room[(t + 63) % 64];";
      CHECK(launch(kernel(body), out, 64) == CUDA_SUCCESS);
      const std::vector<float> got = read_floats(out, 64);
      bool right = true;
      for (int t = 0; t < 64; ++t) right = right && got[static_cast<size_t>(t)] == static_cast<float>((t + 63) % 64);
      CHECK(right == is_right);
    });
  };
  for (const char* order :
       {"FACULA_EMULATED_ORDER=forward", "FACULA_EMULATED_ORDER=reverse", "FACULA_EMULATED_ORDER=random"}) {
    expect_good(order, neighbors(order, "__syncthreads();", true));
    expect_good(order, neighbors(order, "", false));
  }
}

void test_divergent_barriers() {
  expect_report("two barriers", broken("if (threadIdx.x < 32) {\n__syncthreads();\n} else {\n__syncthreads();\n}"),
                "two different __syncthreads()");
}

void test_deadlocks() {
  const char* half =
      "int v = 0; if (threadIdx.x % 32 < 16) v = __shfl_sync(kAllLanes, 1, 0); else __syncthreads(); out[0] = v;";
  expect_report("half a warp shuffles", broken(half), "deadlock");
  expect_report("not in the mask", broken("out[threadIdx.x] = __shfl_sync(0xffffu, 1, 0);"),
                "a mask that it is not in");
  expect_report("trap", broken("if (threadIdx.x == 3) __trap();"), "__trap()");
}

void test_unset_shared_memory() {
  expect_good("unset shared memory", in_child({}, [] {
                start();
                Memory out(64 * sizeof(float));
                const char* body =
                    "FACULA_SHARED(float, room, 64); FACULA_DYNAMIC_SHARED(float, more);"
                    "out[threadIdx.x] = threadIdx.x < 32 ? room[threadIdx.x] : more[threadIdx.x];";
                CHECK(launch(kernel(body), out, 64, 1, 256) == CUDA_SUCCESS);
                for (const float value : read_floats(out, 64)) CHECK(std::isnan(value));
              }));
}

void test_too_much_shared_memory() {
  expect_report("static", broken("FACULA_SHARED(float, room, 13000); out[0] = room[0];"), "more than 48 KB");
  expect_good("dynamic", in_child({}, [] {
                start();
                Memory out(4096);
                const CUfunction f = kernel("FACULA_DYNAMIC_SHARED(float, room); out[0] = room[n - 1];");
                constexpr auto kMore = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                CHECK(launch(f, out, 64, 1, 48 << 10) == CUDA_SUCCESS);
                CHECK(launch(f, out, 64, 1, (48 << 10) + 1) == CUDA_ERROR_INVALID_VALUE);
                CHECK(driver().cuFuncSetAttribute(f, kMore, 228 << 10) == CUDA_ERROR_INVALID_VALUE);
                CHECK(driver().cuFuncSetAttribute(f, kMore, 100 << 10) == CUDA_SUCCESS);
                CHECK(launch(f, out, 64, 1, 100 << 10) == CUDA_SUCCESS);
                CHECK(launch(f, out, 64, 1, (100 << 10) + 1) == CUDA_ERROR_INVALID_VALUE);
                CHECK(driver().cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
              }));
}

void test_launch_sizes() {
  expect_good(
      "launch sizes", in_child({}, [] {
        start();
        Memory out(4096);
        const CUfunction f = kernel("out[0] = n;");
        CHECK(launch(f, out, 1024) == CUDA_SUCCESS);
        CHECK(launch(f, out, 1025) == CUDA_ERROR_INVALID_VALUE);
        CHECK(launch(f, out, 0) == CUDA_ERROR_INVALID_VALUE);
        CHECK(launch(f, out, 1, 0) == CUDA_ERROR_INVALID_VALUE);
        CHECK(launch(f, out, 1, 1, 0, nullptr, 65536) == CUDA_ERROR_INVALID_VALUE);
        CHECK(launch(nullptr, out, 1) == CUDA_ERROR_INVALID_HANDLE);
        CUdeviceptr first = out.at;
        int count = 0;
        void* one[] = {&first, nullptr};
        void* three[] = {&first, &count, &count, nullptr};
        for (void** wrong : {one, three})
          CHECK(driver().cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, wrong, nullptr) == CUDA_ERROR_INVALID_VALUE);
        std::vector<char> host(8192);
        CHECK(driver().cuMemcpyDtoHAsync_v2(host.data(), out.at, 4097, nullptr) == CUDA_ERROR_INVALID_VALUE);
        CHECK(driver().cuMemcpyHtoDAsync_v2(out.at + 4096, host.data(), 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
        CHECK(driver().cuMemFree_v2(out.at + 512) == CUDA_ERROR_INVALID_VALUE);
      }));
}

/// One stream reads what another writes.
Outcome two_streams(bool waits, bool finds_it) {
  return in_child({"FACULA_EMULATED_MODE=lazy"}, [=] {
    start();
    Memory memory(64 * sizeof(float));
    CUstream writer, reader;
    CUevent event;
    CHECK(driver().cuStreamCreateWithPriority(&writer, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    CHECK(driver().cuStreamCreateWithPriority(&reader, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    CHECK(driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    CHECK(launch(kernel("out[threadIdx.x] = 5;"), memory, 64, 1, 0, writer) == CUDA_SUCCESS);
    CHECK(driver().cuEventRecord(event, writer) == CUDA_SUCCESS);
    if (waits) CHECK(driver().cuStreamWaitEvent(reader, event, 0) == CUDA_SUCCESS);
    CHECK((read_floats(memory, 64, reader)[7] == 5) != finds_it);
  });
}

void test_missing_waits() {
  expect_good("with the wait", two_streams(true, false));
  expect_good("without the wait", two_streams(false, true));
}

void test_host_access() {
  for (const char* mode : {"FACULA_EMULATED_MODE=eager", "FACULA_EMULATED_MODE=lazy"}) {
    const auto touch = [mode](bool writes) {
      return in_child({mode}, [writes] {
        start();
        Memory memory(64);
        CHECK(driver().cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
        auto* at = reinterpret_cast<volatile char*>(memory.at);
        if (writes) *at = 1;
        else static_cast<void>(*at);
      });
    };
    CHECK(touch(false).was_killed());
    CHECK(touch(true).was_killed());
  }
}

void test_patterns_of_memory() {
  expect_good("patterns", in_child({"FACULA_EMULATED_MODE=async"}, [] {
                start();
                Memory memory(64);
                const auto* bytes = reinterpret_cast<const volatile unsigned char*>(memory.at);
                CHECK(bytes[0] == 0xcb && bytes[63] == 0xcb);
                CHECK(driver().cuMemFree_v2(memory.at) == CUDA_SUCCESS);
                CHECK(bytes[0] == 0xdd && bytes[63] == 0xdd);
                CHECK(driver().cuMemFree_v2(memory.at) == CUDA_ERROR_INVALID_VALUE);
              }));
}

/// What lies behind a block, and in a released one.
void test_guarded_memory() {
  const auto touches = [](const char* mode, const char* body, bool released) {
    return in_child({"FACULA_EMULATED_GUARD=1", mode}, [=] {
      start();
      Memory first(1000), out(64 * sizeof(float));
      const CUfunction f = kernel(body);
      if (released) CHECK(driver().cuMemFree_v2(out.at) == CUDA_SUCCESS);
      CHECK(launch(f, out, 64) == CUDA_SUCCESS);
      CHECK(driver().cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
      if (!released) CHECK(driver().cuMemFree_v2(out.at) == CUDA_SUCCESS);
      CHECK(driver().cuMemFree_v2(first.at) == CUDA_SUCCESS);
      CHECK(driver().cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
    });
  };
  const char* fill = "out[threadIdx.x] = n;";
  for (const char* mode : {"FACULA_EMULATED_MODE=async", "FACULA_EMULATED_MODE=lazy"}) {
    expect_good("inside", touches(mode, fill, false));
    for (const Outcome& outcome : {touches(mode, "out[threadIdx.x + 1] = n;", false),
                                   touches(mode, "out[0] = out[64 + 64 * 1024 * (n - 64)];", false),
                                   touches(mode, "out[0] = out[-1000 - n];", false), touches(mode, fill, true)}) {
      CHECK(outcome.was_killed());
      CHECK(outcome.met_sanitizer() ||
            outcome.text.find("kernel facula::cuda::k accesses memory that is not allocated") != std::string::npos);
    }
  }
  const Outcome behind = in_child({"FACULA_EMULATED_GUARD=1"}, [] {
    start();
    Memory out(63 * sizeof(float));  // as many as a guarded block is longer than it should be
    CHECK(launch(kernel("out[threadIdx.x] = n;"), out, 64) == CUDA_SUCCESS);
    CHECK(driver().cuMemFree_v2(out.at) == CUDA_SUCCESS);
    CHECK(driver().cuStreamSynchronize(nullptr) == CUDA_ERROR_LAUNCH_FAILED);
  });
  expect_report("behind", behind, "written behind the end of a block of 252 bytes");
}

/// Two streams that write the same memory: what is left depends on the order in which they are done.
void test_race_of_writers() {
  const auto left = [](const char* order, float expected) {
    expect_good(order, in_child({"FACULA_EMULATED_MODE=lazy", order}, [=] {
                  start();
                  Memory memory(64 * sizeof(float));
                  for (const char* body : {"out[threadIdx.x] = 1;", "out[threadIdx.x] = 2;"}) {
                    CUstream stream;
                    CHECK(driver().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
                    CHECK(launch(kernel(body), memory, 64, 1, 0, stream) == CUDA_SUCCESS);
                  }
                  CHECK(driver().cuCtxSynchronize() == CUDA_SUCCESS);
                  CHECK(read_floats(memory, 64)[9] == expected);
                }));
  };
  left("FACULA_EMULATED_ORDER=forward", 2);
  left("FACULA_EMULATED_ORDER=reverse", 1);
}

/// Two streams and an event whose record on one of them is waited for, and which is then recorded on the other.
void test_event_recorded_again() {
  expect_good(
      "event", in_child({"FACULA_EMULATED_MODE=lazy"}, [] {
        start();
        CUstream a, b, c;
        for (CUstream* s : {&a, &b, &c}) CHECK(driver().cuStreamCreateWithPriority(s, 1, 0) == CUDA_SUCCESS);
        CUevent event;
        CHECK(driver().cuEventCreate(&event, 0) == CUDA_SUCCESS);
        int step = 0, seen = 0;
        std::pair<int*, int*> places{&step, &seen};
        CHECK(driver().cuLaunchHostFunc(a, [](void* to) { *static_cast<int*>(to) = 1; }, &step) == CUDA_SUCCESS);
        CHECK(driver().cuEventRecord(event, a) == CUDA_SUCCESS);
        CHECK(driver().cuStreamWaitEvent(c, event, 0) == CUDA_SUCCESS);
        CHECK(driver().cuEventRecord(event, b) == CUDA_SUCCESS);
        CHECK(driver().cuStreamSynchronize(b) == CUDA_SUCCESS);
        const auto look = [](void* p) {
          const auto& [from, to] = *static_cast<std::pair<int*, int*>*>(p);
          *to = *from;
        };
        CHECK(driver().cuLaunchHostFunc(c, look, &places) == CUDA_SUCCESS);
        CHECK(driver().cuStreamSynchronize(c) == CUDA_SUCCESS && seen == 1);
      }));
}

template <class Handle>
Handle no_handle() {
  return reinterpret_cast<Handle>(uintptr_t{12345});
}

void test_invalid_handles() {
  expect_good(
      "handles", in_child({}, [] {
        start();
        const auto& d = driver();
        CUstream stream;
        CUevent event;
        CHECK(d.cuStreamCreateWithPriority(&stream, 1, 0) == CUDA_SUCCESS);
        CHECK(d.cuEventCreate(&event, 0) == CUDA_SUCCESS);
        CHECK(d.cuEventRecord(event, stream) == CUDA_SUCCESS);
        CHECK(d.cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
        CHECK(d.cuEventSynchronize(event) == CUDA_SUCCESS);
        Memory memory(64);
        CUgraph graph = nullptr;
        CUgraphExec executable = nullptr;
        CUstreamCaptureStatus status;
        CUfunction function;
        size_t nodes = 0;
        const auto fill = kernel("if (threadIdx.x < n) out[threadIdx.x] = 1;");
        for (CUstream s : {no_handle<CUstream>(), stream})
          for (const CUresult result : {
                   d.cuStreamSynchronize(s),
                   d.cuStreamQuery(s),
                   d.cuStreamDestroy_v2(s),
                   d.cuEventRecord(event, s),
                   d.cuStreamWaitEvent(s, event, 0),
                   d.cuMemsetD8Async(memory.at, 0, 1, s),
                   d.cuMemcpyHtoDAsync_v2(memory.at, &nodes, 8, s),
                   d.cuMemcpyDtoHAsync_v2(&nodes, memory.at, 8, s),
                   d.cuMemcpyDtoDAsync_v2(memory.at, memory.at, 8, s),
                   launch(fill, memory, 1, 1, 0, s),
                   d.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL),
                   d.cuStreamEndCapture(s, &graph),
                   d.cuStreamIsCapturing(s, &status),
                   d.cuLaunchHostFunc(
                       s, [](void*) {}, nullptr),
               })
            CHECK(result == CUDA_ERROR_INVALID_HANDLE);
        CHECK(d.cuEventDestroy_v2(event) == CUDA_SUCCESS);
        float time = 0;
        for (CUevent e : {no_handle<CUevent>(), event})
          for (const CUresult result :
               {d.cuEventRecord(e, nullptr), d.cuStreamWaitEvent(nullptr, e, 0), d.cuEventQuery(e),
                d.cuEventSynchronize(e), d.cuEventDestroy_v2(e), d.cuEventElapsedTime(&time, e, e)})
            CHECK(result == CUDA_ERROR_INVALID_HANDLE);
        for (const CUresult result :
             {launch(no_handle<CUfunction>(), memory, 1), d.cuModuleUnload(no_handle<CUmodule>()),
              d.cuModuleGetFunction(&function, no_handle<CUmodule>(), "k"),
              d.cuFuncSetAttribute(no_handle<CUfunction>(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1),
              d.cuGraphInstantiateWithFlags(&executable, no_handle<CUgraph>(), 0),
              d.cuGraphLaunch(no_handle<CUgraphExec>(), nullptr), d.cuGraphDestroy(no_handle<CUgraph>()),
              d.cuGraphGetNodes(no_handle<CUgraph>(), nullptr, &nodes), d.cuGraphExecDestroy(no_handle<CUgraphExec>())})
          CHECK(result == CUDA_ERROR_INVALID_HANDLE);
        CHECK(d.cuCtxSetCurrent(no_handle<CUcontext>()) == CUDA_ERROR_INVALID_CONTEXT);
      }));
}

/// Two threads that wait for two streams, which wait for each other.
void test_threads_wait_for_streams_that_wait() {
  expect_good("streams that wait", in_child({"FACULA_EMULATED_MODE=lazy"}, [] {
                start();
                const auto& d = driver();
                CUstream streams[2];
                CUevent events[2];
                for (CUstream& stream : streams) CHECK(d.cuStreamCreateWithPriority(&stream, 1, 0) == CUDA_SUCCESS);
                for (CUevent& event : events) CHECK(d.cuEventCreate(&event, 0) == CUDA_SUCCESS);
                for (int round = 0; round < 100; ++round) {
                  for (int i = 0; i < 40; ++i) {
                    CHECK(d.cuEventRecord(events[i % 2], streams[i % 2]) == CUDA_SUCCESS);
                    CHECK(d.cuStreamWaitEvent(streams[1 - i % 2], events[i % 2], 0) == CUDA_SUCCESS);
                  }
                  std::thread other([&] { CHECK(d.cuStreamSynchronize(streams[1]) == CUDA_SUCCESS); });
                  CHECK(d.cuStreamSynchronize(streams[0]) == CUDA_SUCCESS);
                  other.join();
                }
              }));
}

template <class F>
bool throws(F f) {
  try {
    f();
  } catch (const facula::Error&) {
    return true;
  }
  return false;
}

/// What does not fit into the key of a kernel would be another kernel's.
void test_template_arguments() {
  CHECK(packed({1, 2}) != packed({0, 1, 2}) && packed({127, true}) == packed({127, 1}));
  CHECK(packed({0, 0, 0, 0, 0, 0, 0}) != packed({0, 0, 0, 0, 0, 0}));
  CHECK(throws([] { packed({0, 0, 0, 0, 0, 0, 0, 0}); }));
  for (const int number : {-1, 128, 256, 1000}) CHECK(throws([&] { packed({number}); }));
}

}  // namespace

int main() {
  setenv("FACULA_CUDA", "emulated", 1);
  test_missing_barrier();
  test_divergent_barriers();
  test_deadlocks();
  test_unset_shared_memory();
  test_too_much_shared_memory();
  test_launch_sizes();
  test_missing_waits();
  test_host_access();
  test_patterns_of_memory();
  test_guarded_memory();
  test_race_of_writers();
  test_event_recorded_again();
  test_invalid_handles();
  test_threads_wait_for_streams_that_wait();
  test_template_arguments();
  std::puts("ok");
}
