#include "cuda/ipc.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "cuda/allocator.h"
#include "cuda/device.h"
#include "cuda/expandable.h"

namespace facula::cuda {
namespace {

using Counter = std::atomic<int64_t>;
static_assert(Counter::is_always_lock_free);

// ---- counters: files in memory, each with many

constexpr size_t kCounters = 1024, kCounterBytes = kCounters * sizeof(Counter);

Counter* map_counters(int file) {
  void* at = mmap(nullptr, kCounterBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  FACULA_CHECK(at != MAP_FAILED, ErrorKind::Runtime, "multiprocessing: a file of counters to map, got ",
               std::strerror(errno));
  return static_cast<Counter*>(at);
}

struct CounterFile {
  int file;
  Counter* counters;
  std::vector<size_t> free;
};
struct CounterPlace {
  CounterFile* file;
  size_t index;
  Counter& get() const { return file->counters[index]; }
};

CounterFile* new_counter_file() {
  const int file = memfd_create("facula_counters", MFD_CLOEXEC);
  FACULA_CHECK(file >= 0 && ftruncate(file, kCounterBytes) == 0, ErrorKind::Runtime,
               "multiprocessing: expected memory for counters, got ", std::strerror(errno));
  auto* made = new CounterFile{file, map_counters(file), {}};
  for (size_t i = kCounters; i-- > 0;) made->free.push_back(i);
  return made;
}

// ---- what this process has sent

/// In a storage's context, in the place of what was there.
struct Sent {
  CounterPlace counter;
  uint64_t origin;
  int device;
  void* data;
  Storage* storage;  // null when it has died
  void (*release_data)(Storage*);
  void* context;
  std::vector<std::unique_ptr<Event>> events;  // receivers may still open them
  std::vector<int> files;                      // of granules, likewise
  void* files_base = nullptr;
  size_t granule = 0;
};
struct Registry {
  std::mutex mutex;
  std::vector<CounterFile*> files;
  std::map<uint64_t, Sent*> sent;
  std::vector<Sent*> limbo;
};
Registry& registry() {
  static Registry& r = *new Registry;  // storages may outlive main
  return r;
}

CounterPlace take_counter(Registry& r) {
  for (CounterFile* f : r.files) {
    if (f->free.empty()) continue;
    const size_t index = f->free.back();
    f->free.pop_back();
    return {f, index};
  }
  r.files.push_back(new_counter_file());
  return take_counter(r);
}

uint64_t new_origin() {
  static std::mt19937_64 random{std::random_device{}() ^ static_cast<uint64_t>(getpid()) << 32};
  return random() | 1;
}

void forget(Registry& r, Sent* sent) {
  for (const int file : sent->files) close(file);
  sent->counter.file->free.push_back(sent->counter.index);
  r.sent.erase(sent->origin);
  delete sent;
}

void release_sent(Storage* s) {
  Registry& r = registry();
  auto* sent = static_cast<Sent*>(s->context);
  s->context = sent->context;
  if (is_forked_child) return;  // counters are the parent's
  {
    std::lock_guard<std::mutex> lock(r.mutex);
    sent->storage = nullptr;
    if (sent->counter.get() > 0) {
      r.limbo.push_back(sent);
      return;
    }
  }
  sent->release_data(s);
  std::lock_guard<std::mutex> lock(r.mutex);
  forget(r, sent);
}

bool is_sent(const Storage* s) { return s->release_data == release_sent; }

Sent* sent_of(Storage* s) {
  if (is_sent(s)) return static_cast<Sent*>(s->context);
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  auto* sent =
      new Sent{take_counter(r), new_origin(), s->device.index, s->data, s, s->release_data, s->context, {}, {}};
  sent->counter.get() = 0;
  r.sent[sent->origin] = sent;
  reclaim = ipc_collect;
  s->release_data = release_sent;
  s->context = sent;
  s->resizable = false;
  return sent;
}

// ---- what this process has received

/// An allocation of another process, opened once.
struct Opened {
  CUdeviceptr base;
  int users;
};
struct Received {
  std::string memory;
  std::unique_ptr<ImportedGranules> granules;  // in its place
  int device;
  Counter* counters;
  size_t index;
};
std::mutex opened_mutex;
auto& opened = *new std::map<std::pair<int, std::string>, Opened>;

CUdeviceptr open_memory(const std::string& memory, int device) {
  std::lock_guard<std::mutex> lock(opened_mutex);
  Opened& o = opened[{device, memory}];
  if (o.users == 0) {
    CUipcMemHandle handle;
    std::memcpy(handle.reserved, memory.data(), sizeof handle.reserved);
    DeviceGuard guard(device);
    const CUresult result = driver().cuIpcOpenMemHandle_v2(&o.base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) {
      opened.erase({device, memory});
      OpName name("multiprocessing");
      report(result, "cuIpcOpenMemHandle_v2 (a tensor's process must keep it, and live, until it was received)");
    }
  }
  ++o.users;
  return o.base;
}

void close_memory(const std::string& memory, int device) {
  std::lock_guard<std::mutex> lock(opened_mutex);
  const auto found = opened.find({device, memory});
  if (--found->second.users > 0) return;
  DeviceGuard guard(device);
  driver().cuIpcCloseMemHandle(found->second.base);
  opened.erase(found);
}

// What this process has queued may still read it. An error cannot be thrown where a tensor dies.
void release_received(Storage* s) {
  auto* received = static_cast<Received*>(s->context);
  if (is_forked_child) return;  // the parent still holds it
  try {
    DeviceGuard guard(received->device);
    driver().cuCtxSynchronize();
    if (received->granules) received->granules.reset();
    else close_memory(received->memory, received->device);
  } catch (const Error&) {
  }
  --received->counters[received->index];
  munmap(received->counters, kCounterBytes);
  delete received;
}

void wait_for_event(const std::string& event, int device) {
  CUipcEventHandle handle;
  std::memcpy(handle.reserved, event.data(), sizeof handle.reserved);
  CUevent made = nullptr;
  DeviceGuard guard(device);
  FACULA_CUDA_CALL(cuIpcOpenEventHandle, &made, handle);
  const CUresult result = driver().cuStreamWaitEvent(cuda::handle(current_stream(device)), made, 0);
  driver().cuEventDestroy_v2(made);
  check(result, "cuStreamWaitEvent");
}

/// Its own storage, which has come back; null where it is another process's.
Storage* own_storage(const SharedStorage& shared) {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  const auto found = r.sent.find(shared.origin);
  if (found == r.sent.end()) return nullptr;
  Sent* sent = found->second;
  --sent->counter.get();
  FACULA_CHECK(sent->storage, ErrorKind::Runtime,
               "multiprocessing: a tensor that its own process still holds, got one that it has let go");
  retain(sent->storage);
  return sent->storage;
}

}  // namespace

std::string event_handle(Event& event, int device) {
  CUipcEventHandle handle;
  DeviceGuard guard(device);
  if (!event.is_made()) event.record(current_stream(device));
  FACULA_CUDA_CALL(cuIpcGetEventHandle, &handle, event.get());
  return {handle.reserved, sizeof handle.reserved};
}

namespace {

struct SentMemory {
  void* base;
  size_t granule;
  std::string handle;
};
/// Files of granules are made once for a storage.
SentMemory memory_to_send(Sent* sent) {
  if (!sent->files.empty()) return {sent->files_base, sent->granule, {}};
  Segment segment = segment_of(sent->data, sent->device);
  if (!segment.files.empty()) {
    sent->files = std::move(segment.files);
    sent->files_base = segment.base;
    sent->granule = segment.granule;
    return {segment.base, segment.granule, {}};
  }
  CUipcMemHandle handle;
  FACULA_CUDA_CALL(cuIpcGetMemHandle, &handle, reinterpret_cast<CUdeviceptr>(segment.base));
  return {segment.base, 0, {handle.reserved, sizeof handle.reserved}};
}

}  // namespace

SharedStorage share_storage(Storage* s) {
  check_not_forked("multiprocessing");
  FACULA_CHECK(s->device.is_cuda() && s->nbytes > 0, ErrorKind::Runtime,
               "multiprocessing: expected memory of a CUDA device, got ", s->nbytes, " bytes on ", s->device);
  FACULA_CHECK(
      s->release_data != release_received, ErrorKind::Runtime,
      "multiprocessing: a tensor of this process, or a clone(), since another process holds its memory, got one "
      "of another process, of ",
      s->nbytes, " bytes");
  expose_address(s);  // another process may write from here on
  ipc_collect();
  const int device = s->device.index;
  DeviceGuard guard(device);
  OpName name("multiprocessing");
  Sent* sent = sent_of(s);
  const SentMemory memory = memory_to_send(sent);
  auto event = std::make_unique<Event>(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  event->record(current_stream(device));
  SharedStorage shared{device,
                       memory.handle,
                       event_handle(*event, device),
                       static_cast<size_t>(s->data - static_cast<char*>(memory.base)),
                       s->nbytes,
                       sent->origin,
                       sent->counter.file->file,
                       sent->counter.index,
                       memory.granule,
                       sent->files};
  std::lock_guard<std::mutex> lock(registry().mutex);
  sent->events.push_back(std::move(event));
  ++sent->counter.get();
  return shared;
}

Storage* open_storage(const SharedStorage& shared) {
  check_not_forked("multiprocessing");
  if (Storage* own = own_storage(shared)) return own;
  const bool has_memory = shared.files.empty() ? shared.memory.size() == sizeof(CUipcMemHandle) : shared.granule > 0;
  FACULA_CHECK(has_memory && shared.event.size() == sizeof(CUipcEventHandle) && shared.counter_index < kCounters,
               ErrorKind::Value, "multiprocessing: a description of shared CUDA memory, got another");
  const int device = checked_index({DeviceType::CUDA, static_cast<int8_t>(shared.device)}, "multiprocessing");
  OpName name("multiprocessing");
  DeviceGuard guard(device);
  std::unique_ptr<ImportedGranules> granules;
  if (!shared.files.empty()) granules = std::make_unique<ImportedGranules>(device, shared.files, shared.granule);
  const CUdeviceptr base = granules ? granules->base() : open_memory(shared.memory, device);
  Counter* counters = nullptr;
  try {
    wait_for_event(shared.event, device);
    counters = map_counters(shared.counter_file);
  } catch (...) {
    if (!granules) close_memory(shared.memory, device);
    throw;
  }
  return borrow_storage(reinterpret_cast<void*>(base + shared.offset), shared.bytes,
                        {DeviceType::CUDA, static_cast<int8_t>(device)}, release_received,
                        new Received{shared.memory, std::move(granules), device, counters, shared.counter_index});
}

bool ipc_collect() {
  Registry& r = registry();
  std::vector<Sent*> done;
  {
    std::lock_guard<std::mutex> lock(r.mutex);
    const auto used = [](const Sent* s) { return s->counter.get() > 0; };
    const auto end = std::stable_partition(r.limbo.begin(), r.limbo.end(), used);
    done.assign(end, r.limbo.end());
    r.limbo.erase(end, r.limbo.end());
  }
  for (Sent* sent : done) {
    release(sent->data, sent->device);
    std::lock_guard<std::mutex> lock(r.mutex);
    forget(r, sent);
  }
  return !done.empty();
}

}  // namespace facula::cuda
