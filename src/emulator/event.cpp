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

// Another process cannot wake this one: it looks, until whoever recorded the event is gone.
void poll(const SharedEvent& shared, uint64_t number) {
  for (int i = 0; !shared.is_reached(number); ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (i % 100 == 99 && kill(shared.process, 0) != 0) return;
  }
}

/// The next record of an event that other processes know. Its slot may still be waited for.
uint64_t next_number(SharedEvent& shared) {
  shared.process = getpid();
  const uint64_t number = ++shared.recorded;
  if (number > SharedEvent::kSlots) poll(shared, number - SharedEvent::kSlots);
  return number;
}

/// The record that a wait made now is for; null where there is none.
std::shared_ptr<Record> last_record(Event& event) {
  std::lock_guard<std::mutex> guard(event.mutex);
  if (!event.shared) return event.last;
  auto record = std::make_shared<Record>();  // perhaps of another process
  record->number = event.shared->recorded;
  return record;
}

void wait_for(Event& event, const Record& record) {
  if (event.shared) return poll(*event.shared, record.number);
  std::unique_lock<std::mutex> lock(event.mutex);
  if (settings().mode != Mode::Lazy) return event.changed.wait(lock, [&] { return record.done; });
  while (!record.done) {  // the other stream's work runs here
    const StreamPointer stream = record.stream.lock();
    lock.unlock();
    if (!stream || !stream->step()) return;
    lock.lock();
  }
}

}  // namespace

Event::~Event() {
  if (shared) munmap(shared, sizeof *shared);
  if (file >= 0) close(file);
}

CUresult record(const std::shared_ptr<Event>& event, const StreamPointer& stream) {
  if (captured_record(*event, *stream)) return sticky_error;
  auto made = std::make_shared<Record>();
  made->stream = stream;
  if (event->shared) made->number = next_number(*event->shared);
  {
    std::lock_guard<std::mutex> guard(event->mutex);
    event->last = made;
    event->capture = nullptr;
  }
  const auto reach = [event, made](BlockRunner&) {
    std::lock_guard<std::mutex> guard(event->mutex);
    if (event->shared) event->shared->reached[made->number % SharedEvent::kSlots] = made->number;
    made->done = true;
    made->time = seconds_now();
    event->changed.notify_all();
  };
  stream->push(reach, "event");
  if (event->shared && settings().mode == Mode::Lazy) stream->synchronize();  // the one that waits cannot request it
  return sticky_error;
}

bool is_reached(Event& event) {
  const auto record = last_record(event);
  std::lock_guard<std::mutex> guard(event.mutex);
  return !record || (event.shared ? event.shared->is_reached(record->number) : record->done);
}

void wait_for(Event& event) {
  if (const auto record = last_record(event)) wait_for(event, *record);
}

CUresult make_wait(Stream& stream, const std::shared_ptr<Event>& event) {
  CUresult result = CUDA_SUCCESS;
  if (captured_wait(*event, stream, &result)) return result;
  if (const auto record = last_record(*event))
    stream.push([event, record](BlockRunner&) { wait_for(*event, *record); }, "wait");
  return sticky_error;
}

}  // namespace facula::emulator

using namespace facula::emulator;

namespace {

using EventPointer = std::shared_ptr<Event>;
auto& events = *new Handles<CUevent, Event>;

bool is_captured(Event& event) {
  std::lock_guard<std::mutex> guard(event.mutex);
  return event.capture != nullptr;
}
/// The time of the last record; false where there is none.
bool time_of(Event& event, double* time) {
  std::lock_guard<std::mutex> guard(event.mutex);
  if (event.last) *time = event.last->time;
  return event.last != nullptr;
}

/// What an event's handle holds.
struct SharedHandle {
  char magic[8];
  int process, file;
};
constexpr char kEventMagic[8] = "FEEVENT", kMemoryMagic[8] = "FEMEMOR";

CUresult map_shared(Event& event) {
  void* at = mmap(nullptr, sizeof(SharedEvent), PROT_READ | PROT_WRITE, MAP_SHARED, event.file, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  event.shared = static_cast<SharedEvent*>(at);
  return CUDA_SUCCESS;
}

}  // namespace

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  const StreamPointer s = stream_here(stream);
  const EventPointer e = events.find(event);
  return s && e ? make_wait(*s, e) : CUDA_ERROR_INVALID_HANDLE;
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
  *event = events.add(std::move(made));
  return CUDA_SUCCESS;
}
API CUresult cuEventDestroy_v2(CUevent event) {
  return events.remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
API CUresult cuEventRecord(CUevent event, CUstream stream) {
  const StreamPointer s = stream_here(stream);
  const EventPointer e = events.find(event);
  return s && e ? record(e, s) : CUDA_ERROR_INVALID_HANDLE;
}
API CUresult cuEventQuery(CUevent event) {
  const EventPointer e = events.find(event);
  if (!e) return CUDA_ERROR_INVALID_HANDLE;
  if (is_captured(*e)) return CUDA_ERROR_CAPTURED_EVENT;
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  return is_reached(*e) ? sticky_error.load() : CUDA_ERROR_NOT_READY;
}
API CUresult cuEventSynchronize(CUevent event) {
  const EventPointer e = events.find(event);
  if (!e) return CUDA_ERROR_INVALID_HANDLE;
  if (is_captured(*e)) return CUDA_ERROR_CAPTURED_EVENT;
  wait_for(*e);
  return sticky_error;
}
API CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  double times[2] = {};
  for (const int i : {0, 1}) {
    const EventPointer e = events.find(i ? to : from);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (is_captured(*e)) return CUDA_ERROR_CAPTURED_EVENT;
    if (const CUresult result = cuEventQuery(i ? to : from); result != CUDA_SUCCESS) return result;
    if (!time_of(*e, &times[i])) return CUDA_ERROR_INVALID_HANDLE;
  }
  *milliseconds = static_cast<float>((times[1] - times[0]) * 1e3);
  return CUDA_SUCCESS;
}

// ---- other processes: a handle names the process and its open file

API CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  const EventPointer e = events.find(event);
  if (!e) return CUDA_ERROR_INVALID_HANDLE;
  if (!e->shared) return CUDA_ERROR_INVALID_VALUE;
  SharedHandle made{{}, getpid(), e->file};
  std::memcpy(made.magic, kEventMagic, sizeof made.magic);
  *handle = {};
  std::memcpy(handle->reserved, &made, sizeof made);
  return CUDA_SUCCESS;
}
API CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  SharedHandle given;
  std::memcpy(&given, handle.reserved, sizeof given);
  if (std::memcmp(given.magic, kEventMagic, sizeof given.magic) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::string path = "/proc/" + std::to_string(given.process) + "/fd/" + std::to_string(given.file);
  auto made = std::make_shared<Event>();
  made->file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (made->file < 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = map_shared(*made); result != CUDA_SUCCESS) return result;
  *event = events.add(std::move(made));
  return CUDA_SUCCESS;
}

namespace {
struct MemoryHandle {
  char magic[8];
  SharedMemory memory;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));
}  // namespace

API CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr memory) {
  MemoryHandle made{};
  if (!find_allocation(memory, &made.memory)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(made.magic, kMemoryMagic, sizeof made.magic);
  *handle = {};
  std::memcpy(handle->reserved, &made, sizeof made);
  return CUDA_SUCCESS;
}
API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* memory, CUipcMemHandle handle, unsigned) {
  if (const CUresult refused = refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
  MemoryHandle given;
  std::memcpy(&given, handle.reserved, sizeof given);
  if (std::memcmp(given.magic, kMemoryMagic, sizeof given.magic) != 0) return CUDA_ERROR_INVALID_VALUE;
  return import_memory(memory, given.memory);
}
API CUresult cuIpcCloseMemHandle(CUdeviceptr memory) { return close_import(memory); }
