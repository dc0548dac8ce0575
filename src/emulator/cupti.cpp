// CUPTI for the emulated device: calls that queue work, kernels, copies and fills become records, which lie in the
// buffers of its user. Records come only with a flush, or with a full buffer; its clock is not the host's
// monotonic one; and buffers are small. FACULA_EMULATED_CUPTI says what goes wrong: `denied`, `held` (by another
// profiler), or `lossy` (there is no room for every fourth record). facula_emulated_cupti() shows tests what is open.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/abi_cupti.h"
#include "emulator/library.h"

#define DECLARE(name, ...) FACULA_EMULATED CUptiResult name(__VA_ARGS__);
FACULA_PROFILER_FUNCTIONS(DECLARE)
#undef DECLARE

using namespace facula::emulator;

namespace {

constexpr size_t kAlignment = 8, kSmallestBuffer = 16384, kRecordsOfBuffer = 50;

/// As long as those of CUDA 13.0: who reads them must not count on their length.
struct KernelBytes : KernelRecord {
  char more[216 - sizeof(KernelRecord)];
};
static_assert(sizeof(KernelBytes) == 216);

size_t bytes_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(KernelBytes);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(MemcpyRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(MemcpyPtoPRecord);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(MemsetRecord);
    case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(APIRecord);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(ExternalCorrelationRecord);
    default: return 0;
  }
}

struct Buffer {
  uint8_t* data = nullptr;
  size_t bytes = 0, used = 0, records = 0;
};
struct Profiler {
  std::mutex mutex;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<CUpti_ActivityKind> kinds;
  bool subscribed = false;
  Buffer buffer;
  size_t dropped = 0, written = 0;
  uint32_t calls = 0;
  std::map<const Stream*, uint32_t> streams;
  std::set<std::string> names;  // that records point at
  int64_t open_numbers = 0;     // pushed and not popped, of all threads
};
Profiler& profiler() {
  static Profiler& only = *new Profiler;
  return only;
}
std::atomic<bool> anything{false};  // is recorded: nothing is locked otherwise
thread_local std::vector<uint64_t> numbers;
thread_local Buffer delivered;  // that this thread's callback is to read

bool goes_wrong(std::string_view how) {
  const char* text = std::getenv("FACULA_EMULATED_CUPTI");
  return text && text == how;
}
int wrong(const char* call, const char* why, int status) { return refused(call, why, status); }
#define FACULA_WRONG(why, status) static_cast<CUptiResult>(wrong(__func__, why, status))

uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

void deliver(Profiler& p, const Buffer& buffer) {
  if (!buffer.data) return;
  delivered = buffer;
  p.complete(nullptr, 0, buffer.data, buffer.bytes, buffer.used);
  delivered = {};
}

/// Null where there is none to be had. With the lock: callbacks that want it as well are seen to hang.
uint8_t* room_for(Profiler& p, size_t bytes) {
  if (!p.buffer.data) {
    Buffer fresh;
    size_t most = 0;
    p.request(&fresh.data, &fresh.bytes, &most);
    if (!fresh.data) return nullptr;
    if (reinterpret_cast<uintptr_t>(fresh.data) % kAlignment != 0 || fresh.bytes < kSmallestBuffer) {
      wrong("CUPTI", "a buffer for records is not aligned to 8 bytes, or has less than 16384", 0);
      return nullptr;
    }
    p.buffer = fresh;
  }
  uint8_t* at = p.buffer.data + p.buffer.used;
  p.buffer.used += bytes;
  ++p.buffer.records;
  return at;
}

template <class Record>
void write(const Record& record) {
  Profiler& p = profiler();
  Buffer full;
  {
    std::lock_guard<std::mutex> guard(p.mutex);
    if (!p.kinds.count(record.kind)) return;
    uint8_t* at = ++p.written % 4 == 0 && goes_wrong("lossy") ? nullptr : room_for(p, sizeof record);
    if (at) std::memcpy(at, &record, sizeof record);
    else ++p.dropped;
    if (p.buffer.records == kRecordsOfBuffer) full = std::exchange(p.buffer, {});
  }
  deliver(p, full);
}

uint32_t number_of(const Stream& stream) {
  constexpr uint32_t kFirst = 7;
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  return p.streams.try_emplace(&stream, kFirst + static_cast<uint32_t>(p.streams.size())).first->second;
}

struct Done {
  const Stream* stream;
  uint32_t call;
  uint64_t graph_node, start, end;
};
template <class Record>
Record record_of(CUpti_ActivityKind kind, const Done& done) {
  Record r{};
  r.kind = kind;
  r.start = done.start;
  r.end = done.end;
  r.deviceId = static_cast<uint32_t>(done.stream->device());
  r.contextId = r.deviceId + 1;
  r.streamId = number_of(*done.stream);
  r.correlationId = done.call;
  r.graphNodeId = done.graph_node;
  return r;
}
void write_kernel(const What& what, const Done& done) {
  constexpr uint16_t kRegisters = 32;
  auto r = record_of<KernelBytes>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, done);
  r.registersPerThread = kRegisters;
  r.gridX = static_cast<int>(what.grid.x), r.gridY = static_cast<int>(what.grid.y);
  r.gridZ = static_cast<int>(what.grid.z), r.blockX = static_cast<int>(what.block.x);
  r.blockY = static_cast<int>(what.block.y), r.blockZ = static_cast<int>(what.block.z);
  r.dynamicSharedMemory = static_cast<int>(what.shared_bytes);
  {
    std::lock_guard<std::mutex> guard(profiler().mutex);
    r.name = profiler().names.insert(what.name).first->c_str();
  }
  write(r);
}
template <class Record>
void write_copy(CUpti_ActivityKind kind, const What& what, const Done& done) {
  auto r = record_of<Record>(kind, done);
  r.copyKind = static_cast<uint8_t>(what.copy);
  r.srcKind = static_cast<uint8_t>(what.from);
  r.dstKind = static_cast<uint8_t>(what.to);
  r.bytes = what.bytes;
  write(r);
}
void write_done(const What& what, const Done& done) {
  if (what.kind == What::Kind::Kernel) return write_kernel(what, done);
  if (what.kind == What::Kind::Copy && what.copy == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP)
    return write_copy<MemcpyPtoPRecord>(CUPTI_ACTIVITY_KIND_MEMCPY2, what, done);
  if (what.kind == What::Kind::Copy) return write_copy<MemcpyRecord>(CUPTI_ACTIVITY_KIND_MEMCPY, what, done);
  auto r = record_of<MemsetRecord>(CUPTI_ACTIVITY_KIND_MEMSET, done);
  r.bytes = what.bytes;
  r.memoryKind = static_cast<uint16_t>(what.to);
  write(r);
}

struct Function {
  CUpti_driver_api_trace_cbid number;
  const char* name;
};
constexpr Function functions[] = {
    {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel"},
    {CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync_v2"},
    {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2"},
    {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2"},
    {CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync, "cuMemcpyPeerAsync"},
    {CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, "cuMemsetD8Async"},
    {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, "cuGraphLaunch"},
};
uint32_t function_of(const What& what) {
  switch (what.kind) {
    case What::Kind::Kernel: return CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
    case What::Kind::Fill: return CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async;
    case What::Kind::Graph: return CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch;
    default: break;
  }
  switch (what.copy) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2;
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync;
    default: return CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2;
  }
}

}  // namespace

namespace facula::emulator {

uint32_t note_call(const What& what) {
  if (!anything || what.kind == What::Kind::Other) return 0;
  Profiler& p = profiler();
  uint32_t call;
  bool has_number;
  {
    std::lock_guard<std::mutex> guard(p.mutex);
    call = ++p.calls;
    has_number = !numbers.empty() && p.kinds.count(CUPTI_ACTIVITY_KIND_DRIVER);
  }
  if (has_number)
    write(ExternalCorrelationRecord{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2,
                                    numbers.back(), call, 0});
  const uint64_t start = now();
  write(APIRecord{CUPTI_ACTIVITY_KIND_DRIVER, function_of(what), start, now(), static_cast<uint32_t>(getpid()),
                  static_cast<uint32_t>(gettid()), call, 0});
  return call;
}

Stream::Work recorded_work(Stream::Work work, const What& what, const Stream& stream, uint32_t call,
                           uint64_t graph_node) {
  if (what.kind == What::Kind::Other || what.kind == What::Kind::Graph) return work;
  return [work = std::move(work), what, &stream, call, graph_node](BlockRunner& runner) {
    Done done{&stream, call, graph_node, now(), 0};
    work(runner);
    done.end = std::max(now(), done.start + 1);
    write_done(what, done);
  };
}

}  // namespace facula::emulator

// ---- CUPTI's functions

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = 130001;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  switch (result) {
    case CUPTI_SUCCESS: *text = "CUPTI_SUCCESS"; break;
    case CUPTI_ERROR_INVALID_PARAMETER: *text = "CUPTI_ERROR_INVALID_PARAMETER"; break;
    case CUPTI_ERROR_INVALID_OPERATION: *text = "CUPTI_ERROR_INVALID_OPERATION"; break;
    case CUPTI_ERROR_MAX_LIMIT_REACHED: *text = "CUPTI_ERROR_MAX_LIMIT_REACHED"; break;
    case CUPTI_ERROR_QUEUE_EMPTY: *text = "CUPTI_ERROR_QUEUE_EMPTY"; break;
    case CUPTI_ERROR_INVALID_KIND: *text = "CUPTI_ERROR_INVALID_KIND"; break;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"; break;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      break;
    default: return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* nanoseconds) {
  *nanoseconds = now();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void*) {
  if (!callback) return CUPTI_ERROR_INVALID_PARAMETER;
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  if (p.subscribed || goes_wrong("held")) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  p.subscribed = true;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&p);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  if (!p.subscribed || handle != reinterpret_cast<CUpti_SubscriberHandle>(&p))
    return FACULA_WRONG("not a subscriber", CUPTI_ERROR_INVALID_PARAMETER);
  p.subscribed = false;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; }
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t function, const char** name) {
  for (const Function& f : functions) {
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API || f.number != static_cast<int>(function)) continue;
    *name = f.name;
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t, uint32_t* number) {
  const StreamPointer found = stream_of(stream, static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1);
  if (!found) return CUPTI_ERROR_INVALID_PARAMETER;
  *number = number_of(*found);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  if (!requested || !completed) return CUPTI_ERROR_INVALID_PARAMETER;
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  p.request = requested;
  p.complete = completed;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  if (goes_wrong("denied")) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (!p.request) return FACULA_WRONG("no callbacks are registered", CUPTI_ERROR_INVALID_OPERATION);
  p.kinds.insert(kind);
  anything = true;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  if (!p.kinds.erase(kind)) return FACULA_WRONG("the kind was not enabled", CUPTI_ERROR_INVALID_KIND);
  anything = !p.kinds.empty();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  Profiler& p = profiler();
  Buffer buffer;
  {
    std::lock_guard<std::mutex> guard(p.mutex);
    if (!p.request) return FACULA_WRONG("no callbacks are registered", CUPTI_ERROR_INVALID_OPERATION);
    buffer = std::exchange(p.buffer, {});
  }
  deliver(p, buffer);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record) {
  if (!buffer || buffer != delivered.data || valid_bytes != delivered.used)
    return FACULA_WRONG("not the buffer that the callback was given", CUPTI_ERROR_INVALID_PARAMETER);
  std::lock_guard<std::mutex> guard(profiler().mutex);
  uint8_t* next = buffer;
  if (*record) next = reinterpret_cast<uint8_t*>(*record) + bytes_of((*record)->kind);
  if (next < buffer || next > buffer + valid_bytes)
    return FACULA_WRONG("not a record of the buffer", CUPTI_ERROR_INVALID_PARAMETER);
  if (next == buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  *dropped = std::exchange(p.dropped, 0);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t number) {
  numbers.push_back(number);
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  ++p.open_numbers;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t* last) {
  if (numbers.empty()) return FACULA_WRONG("nothing was pushed", CUPTI_ERROR_QUEUE_EMPTY);
  if (last) *last = numbers.back();
  numbers.pop_back();
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  --p.open_numbers;
  return CUPTI_SUCCESS;
}

/// "subscribers kinds numbers buffers" that are open now.
FACULA_EMULATED const char* facula_emulated_cupti() {
  static thread_local std::string text;
  Profiler& p = profiler();
  std::lock_guard<std::mutex> guard(p.mutex);
  text = std::to_string(p.subscribed) + " " + std::to_string(p.kinds.size()) + " " + std::to_string(p.open_numbers) +
         " " + std::to_string(p.buffer.data != nullptr);
  return text.c_str();
}
