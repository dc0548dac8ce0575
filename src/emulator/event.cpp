// Events of the emulated device, also those that other processes know.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "emulator/stream.h"

#define API extern "C" __attribute__((visibility("default")))
#define DECLARE(name, ...) API CUresult name(__VA_ARGS__);
FACULA_DRIVER_FUNCTIONS(DECLARE)
#undef DECLARE

namespace facula::emulator {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint64_t recorded(const Event& e) { return e.shared ? e.shared->recorded.load() : e.recorded; }
uint64_t reached(const Event& e) { return e.shared ? e.shared->reached.load() : e.reached; }

// Another process cannot wake this one: it looks, until whoever recorded the event is gone.
void poll(const SharedEvent& shared, uint64_t number) {
  for (int i = 0; shared.reached < number; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (i % 100 == 99 && kill(shared.process, 0) != 0) return;
  }
}

}  // namespace

Event::~Event() {
  if (shared) munmap(shared, sizeof *shared);
  if (file >= 0) close(file);
}

CUresult record(const std::shared_ptr<Event>& event, Stream& stream) {
  if (captured_record(*event, stream)) return sticky_error;
  uint64_t number;
  {
    std::lock_guard<std::mutex> guard(event->mutex);
    if (event->shared) event->shared->process = getpid();
    number = event->shared ? ++event->shared->recorded : ++event->recorded;
    event->stream = &stream;
    event->capture = nullptr;
  }
  const auto reach = [event, number](BlockRunner&) {
    std::lock_guard<std::mutex> guard(event->mutex);
    if (event->shared) event->shared->reached = std::max(event->shared->reached.load(), number);
    event->reached = std::max(event->reached, number);
    event->time = seconds_now();
    event->changed.notify_all();
  };
  stream.push(reach, "event");
  if (event->shared && settings().mode == Mode::Lazy) stream.synchronize();  // the one that waits cannot ask for it
  return sticky_error;
}

bool is_reached(Event& event) {
  std::lock_guard<std::mutex> guard(event.mutex);
  return reached(event) >= recorded(event);
}

void wait_for(Event& event, uint64_t number) {
  if (event.shared) return poll(*event.shared, number);
  std::unique_lock<std::mutex> lock(event.mutex);
  if (settings().mode != Mode::Lazy) return event.changed.wait(lock, [&] { return event.reached >= number; });
  while (event.reached < number) {  // the other stream's work runs here
    Stream* stream = event.stream;
    lock.unlock();
    if (!stream->step()) return;
    lock.lock();
  }
}

void wait_for(Event& event) {
  uint64_t number;
  {
    std::lock_guard<std::mutex> guard(event.mutex);
    number = recorded(event);
  }
  wait_for(event, number);
}

CUresult make_wait(Stream& stream, const std::shared_ptr<Event>& event) {
  CUresult result = CUDA_SUCCESS;
  if (captured_wait(*event, stream, &result)) return result;
  uint64_t number;
  {
    std::lock_guard<std::mutex> guard(event->mutex);
    number = recorded(*event);
  }
  stream.push([event, number](BlockRunner&) { wait_for(*event, number); }, "wait");
  return sticky_error;
}

}  // namespace facula::emulator

using namespace facula::emulator;

namespace {

using EventHandle = std::shared_ptr<Event>;
EventHandle& event_of(CUevent event) { return *reinterpret_cast<EventHandle*>(event); }
CUevent handle_of(EventHandle event) { return reinterpret_cast<CUevent>(new EventHandle(std::move(event))); }

/// What an event's handle holds.
struct SharedHandle {
  char mark[8];
  int process, file;
};
constexpr char kEventMark[8] = "FEEVENT", kMemoryMark[8] = "FEMEMOR";

CUresult map_shared(Event& event) {
  void* at = mmap(nullptr, sizeof(SharedEvent), PROT_READ | PROT_WRITE, MAP_SHARED, event.file, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  event.shared = static_cast<SharedEvent*>(at);
  return CUDA_SUCCESS;
}

}  // namespace

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return make_wait(stream_here(stream), event_of(event));
}
API CUresult cuEventCreate(CUevent* event, unsigned flags) {
  auto made = std::make_shared<Event>();
  if (flags & CU_EVENT_INTERPROCESS) {
    if (!(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    made->file = memfd_create("facula_event", MFD_CLOEXEC);
    if (made->file < 0 || ftruncate(made->file, sizeof(SharedEvent)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    if (const CUresult result = map_shared(*made); result != CUDA_SUCCESS) return result;
    made->shared->process = getpid();
  }
  *event = handle_of(std::move(made));
  return CUDA_SUCCESS;
}
API CUresult cuEventDestroy_v2(CUevent event) {
  delete &event_of(event);
  return CUDA_SUCCESS;
}
API CUresult cuEventRecord(CUevent event, CUstream stream) { return record(event_of(event), stream_here(stream)); }
API CUresult cuEventQuery(CUevent event) {
  if (event_of(event)->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  return is_reached(*event_of(event)) ? sticky_error.load() : CUDA_ERROR_NOT_READY;
}
API CUresult cuEventSynchronize(CUevent event) {
  if (event_of(event)->capture) return CUDA_ERROR_CAPTURED_EVENT;
  wait_for(*event_of(event));
  return sticky_error;
}
API CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  for (const CUevent event : {from, to}) {
    if (event_of(event)->capture) return CUDA_ERROR_CAPTURED_EVENT;
    if (!event_of(event)->recorded) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = cuEventQuery(event); result != CUDA_SUCCESS) return result;
  }
  *milliseconds = static_cast<float>((event_of(to)->time - event_of(from)->time) * 1e3);
  return CUDA_SUCCESS;
}

// ---- other processes: a handle names the process and its open file

API CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  const Event& e = *event_of(event);
  if (!e.shared) return CUDA_ERROR_INVALID_VALUE;
  SharedHandle made{{}, getpid(), e.file};
  std::memcpy(made.mark, kEventMark, sizeof made.mark);
  *handle = {};
  std::memcpy(handle->reserved, &made, sizeof made);
  return CUDA_SUCCESS;
}
API CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  SharedHandle given;
  std::memcpy(&given, handle.reserved, sizeof given);
  if (std::memcmp(given.mark, kEventMark, sizeof given.mark) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::string path = "/proc/" + std::to_string(given.process) + "/fd/" + std::to_string(given.file);
  auto made = std::make_shared<Event>();
  made->file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (made->file < 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = map_shared(*made); result != CUDA_SUCCESS) return result;
  *event = handle_of(std::move(made));
  return CUDA_SUCCESS;
}

namespace {
struct MemoryHandle {
  char mark[8];
  SharedMemory memory;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));
}  // namespace

API CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr memory) {
  MemoryHandle made{};
  if (!find_allocation(memory, &made.memory)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(made.mark, kMemoryMark, sizeof made.mark);
  *handle = {};
  std::memcpy(handle->reserved, &made, sizeof made);
  return CUDA_SUCCESS;
}
API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* memory, CUipcMemHandle handle, unsigned) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  MemoryHandle given;
  std::memcpy(&given, handle.reserved, sizeof given);
  if (std::memcmp(given.mark, kMemoryMark, sizeof given.mark) != 0) return CUDA_ERROR_INVALID_VALUE;
  return import_memory(memory, given.memory);
}
API CUresult cuIpcCloseMemHandle(CUdeviceptr memory) { return close_import(memory); }
