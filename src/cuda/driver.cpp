#include "cuda/driver.h"

#include <pthread.h>

#include "cuda/device.h"
#include "cuda/library.h"

namespace facula::cuda {

std::atomic<const Driver*> detail::known_driver{nullptr};
bool is_forked_child = false;

namespace {

template <class... P>
CUresult refuse(P...) {
  return CUDA_ERROR_NOT_INITIALIZED;
}
/// What a forked child has for a driver.
constexpr Driver kNoDriver = [] {
  Driver d;
#define X(name, ...) d.name = refuse;
  FACULA_DRIVER_FUNCTIONS(X)
#undef X
  return d;
}();

void leave_to_parent() {
  is_forked_child = true;
  detail::known_driver.store(&kNoDriver);
}

Loaded<Driver> load_driver() {
  Loaded<Driver> l;
  const OpenedLibrary& library = opened(Library::Driver);
#define X(name, ...) FACULA_FIND(l, library, name)
  FACULA_DRIVER_FUNCTIONS(X)
#undef X
  if (!l.error.empty()) return l;
  int count = 0;
  pthread_atfork(nullptr, nullptr, leave_to_parent);
  if (const CUresult result = l.table.cuInit(0); result != CUDA_SUCCESS) {
    l.error = "cuInit gives error " + std::to_string(result);
  } else if (l.table.cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
    l.error = "the driver finds no device";
  }
  return l;
}

const Loaded<Driver>& loaded_driver() {
  static const Loaded<Driver> l = load_driver();
  return l;
}

Loaded<Compiler> load_compiler() {
  Loaded<Compiler> l;
  const OpenedLibrary& library = opened(Library::Compiler);
#define X(name, ...) FACULA_FIND(l, library, name)
  FACULA_COMPILER_FUNCTIONS(X)
#undef X
  return l;
}

const char* text_of(CUresult (*get)(CUresult, const char**), CUresult result) {
  const char* text = nullptr;
  return get(result, &text) == CUDA_SUCCESS && text ? text : "unknown";
}

constexpr const char* kWhileCapturing =
    ". While a graph is captured, ops are only listed: nothing may wait for the device (item(), copies to the host, "
    "shapes "
    "that depend on values), and streams join and leave the capture by events";

}  // namespace

const std::string& why_unavailable() { return loaded_driver().error; }
const Driver& detail::open_driver() {
  const Driver& table = loaded_driver().table;
  known_driver.store(&table, std::memory_order_release);
  return table;
}

void refuse_in_child(const char* op) {
  throw_error(
      ErrorKind::Runtime, op,
      ": CUDA cannot be used in a forked process whose parent has begun to use it; processes that use it are to "
      "be started with multiprocessing's method 'spawn' (multiprocessing.set_start_method(\"spawn\")), got one "
      "that was forked");
}

const Compiler& compiler() {
  static const Loaded<Compiler> l = load_compiler();
  FACULA_CHECK(l.error.empty(), ErrorKind::Runtime, current_op(), ": a CUDA kernel has to be compiled, but ", l.error);
  return l.table;
}

void report(CUresult result, const char* call) {
  check_not_forked(current_op());
  const Driver& d = driver();
  const bool captures =
      result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  throw DriverError(result, std::string(current_op()) + ": CUDA error: " + text_of(d.cuGetErrorString, result) +
                                (captures ? kWhileCapturing : "") + ", got " + text_of(d.cuGetErrorName, result) +
                                " from " + call);
}

}  // namespace facula::cuda
