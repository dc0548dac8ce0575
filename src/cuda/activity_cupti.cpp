#include <cxxabi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "cuda/abi_cupti.h"
#include "cuda/activity.h"
#include "cuda/device.h"
#include "cuda/library.h"

namespace facula::cuda {
namespace {

struct Profiler {
#define X(name, ...) CUptiResult (*name)(__VA_ARGS__) = nullptr;
  FACULA_PROFILER_FUNCTIONS(X)
#undef X
};
const Loaded<Profiler>& loaded() {
  static const Loaded<Profiler> all = [] {
    Loaded<Profiler> l;
    const OpenedLibrary& library = opened(Library::Profiler);
#define X(name, ...) FACULA_FIND(l, library, name)
    FACULA_PROFILER_FUNCTIONS(X)
#undef X
    return l;
  }();
  return all;
}
const Profiler& cupti() { return loaded().table; }

/// Calls that must work for CUPTI to be used at all.
class Attempt {
 public:
  explicit Attempt(std::string& why) : why_(why) {}
  bool operator()(CUptiResult result, const char* call) {
    if (result == CUPTI_SUCCESS) return true;
    const char* text = nullptr;
    if (cupti().cuptiGetResultString(result, &text) != CUPTI_SUCCESS || !text) text = "an error that has no name";
    why_ = std::string(call) + " gives " + text + " (" + std::to_string(result) + ")";
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) why_ += ": another profiler holds it";
    if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) why_ += ": profiling is not permitted to this user";
    return false;
  }

 private:
  std::string& why_;
};
#define FACULA_CUPTI_TRY(attempt, name, ...) (attempt)(cupti().name(__VA_ARGS__), #name)

constexpr CUpti_ExternalCorrelationKind kNumbers = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
// Calls are recorded because numbers come with their records.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
};

// ---- records, as CUPTI's thread brings them

constexpr size_t kBufferBytes = size_t{1} << 20, kMostBuffers = 64, kAlignment = 8;

std::string text_of(const char* name) {
  int status = -1;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = status == 0 ? plain : name;
  std::free(plain);
  return text;
}

const char* memory_name(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE: return "Pageable";
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED: return "Pinned";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE: return "Device";
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY: return "Array";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED: return "Managed";
    default: return "Unknown";
  }
}
const char* copy_name(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return "HtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "PtoP";
    default: return "";
  }
}
std::string copy_text(int kind, int from, int to) {
  return std::string("Memcpy ") + copy_name(kind) + " (" + memory_name(from) + " -> " + memory_name(to) + ")";
}

struct Call {
  CUpti_CallbackDomain domain;
  uint32_t function;
  QueueingCall call;
  bool used = false;  // something that it queued is recorded
};
const char* name_of_call(const Call& c) {
  const char* name = nullptr;
  return cupti().cuptiGetCallbackName(c.domain, c.function, &name) == CUPTI_SUCCESS && name ? name : "call";
}

/// What came so far. Times are CUPTI's until the recording ends.
class Records {
 public:
  std::vector<Activity> done;
  std::vector<Call> calls;
  std::unordered_map<uint32_t, uint64_t> numbers;  // of calls: what was pushed around them
  uint64_t lost = 0;

  void add(Records&& more) {
    done.insert(done.end(), std::make_move_iterator(more.done.begin()), std::make_move_iterator(more.done.end()));
    calls.insert(calls.end(), more.calls.begin(), more.calls.end());
    numbers.merge(more.numbers);
    lost += more.lost;
  }
  void add(const CUpti_Activity* record) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return add_kernel(*as<KernelRecord>(record));
      case CUPTI_ACTIVITY_KIND_MEMCPY: return add_copy(*as<MemcpyRecord>(record));
      case CUPTI_ACTIVITY_KIND_MEMCPY2: return add_copy(*as<MemcpyPtoPRecord>(record));
      case CUPTI_ACTIVITY_KIND_MEMSET: return add_fill(*as<MemsetRecord>(record));
      case CUPTI_ACTIVITY_KIND_DRIVER: return add_call(*as<APIRecord>(record), CUPTI_CB_DOMAIN_DRIVER_API);
      case CUPTI_ACTIVITY_KIND_RUNTIME: return add_call(*as<APIRecord>(record), CUPTI_CB_DOMAIN_RUNTIME_API);
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& r = *as<ExternalCorrelationRecord>(record);
        if (r.externalKind == kNumbers) numbers[r.correlationId] = r.externalId;
        return;
      }
    }
  }

 private:
  template <class Record>
  static const Record* as(const CUpti_Activity* record) {
    return reinterpret_cast<const Record*>(record);
  }
  /// Null where it was not done when the record was brought.
  template <class Record>
  Activity* add_work(const Record& r, ActivityKind kind) {
    if (r.start == 0 || r.end == 0) {
      ++lost;
      return nullptr;
    }
    Activity& a = done.emplace_back();
    a.kind = kind;
    a.device = static_cast<int>(r.deviceId);
    a.stream = r.streamId;
    a.begin = static_cast<int64_t>(r.start);
    a.end = static_cast<int64_t>(r.end);
    a.call = r.correlationId;
    a.graph_node = r.graphNodeId;
    return &a;
  }
  void add_kernel(const KernelRecord& r) {
    Activity* a = add_work(r, ActivityKind::Kernel);
    if (!a) return;
    const int sizes[] = {r.gridX, r.gridY, r.gridZ, r.blockX, r.blockY, r.blockZ};
    for (int d = 0; d < 3; ++d) a->grid[d] = sizes[d], a->block[d] = sizes[3 + d];
    a->registers = r.registersPerThread;
    a->shared_bytes = r.staticSharedMemory + r.dynamicSharedMemory;
    a->name = r.name ? r.name : "";
  }
  template <class Record>
  void add_copy(const Record& r) {
    Activity* a = add_work(r, ActivityKind::Copy);
    if (!a) return;
    a->name = copy_text(r.copyKind, r.srcKind, r.dstKind);
    a->bytes = r.bytes;
  }
  void add_fill(const MemsetRecord& r) {
    Activity* a = add_work(r, ActivityKind::Fill);
    if (!a) return;
    a->name = std::string("Memset (") + memory_name(r.memoryKind) + ")";
    a->bytes = r.bytes;
  }
  void add_call(const APIRecord& r, CUpti_CallbackDomain domain) {
    const auto begin = static_cast<int64_t>(r.start), end = static_cast<int64_t>(r.end);
    calls.push_back({domain, r.cbid, {r.correlationId, int64_t{r.threadId}, begin, end, nullptr}, false});
  }
};

/// The buffers that CUPTI writes records into, and what was in them. They are used again, and there are only so many:
/// CUPTI counts what it then has no room for.
struct Collector {
  std::mutex mutex;
  std::vector<uint8_t*> free;
  size_t made = 0;
  bool collects = false;
  Records records;

  uint8_t* take() {
    std::lock_guard guard(mutex);
    if (!free.empty()) {
      uint8_t* buffer = free.back();
      free.pop_back();
      return buffer;
    }
    if (made == kMostBuffers) return nullptr;
    auto* buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
    made += buffer != nullptr;
    return buffer;
  }
  /// CUPTI is not called with the lock, which its threads want.
  void read(uint8_t* buffer, size_t bytes) {
    Records read;
    CUpti_Activity* record = nullptr;
    while (bytes && cupti().cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) read.add(record);
    size_t dropped = 0;
    if (cupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS) read.lost += dropped;
    std::lock_guard guard(mutex);
    if (collects) records.add(std::move(read));
    free.push_back(buffer);
  }
  void begin() {
    std::lock_guard guard(mutex);
    records = {};
    collects = true;
  }
  Records finish() {
    std::lock_guard guard(mutex);
    collects = false;
    made -= free.size();
    for (uint8_t* buffer : free) std::free(buffer);
    free.clear();
    return std::exchange(records, {});
  }
};
Collector& collector() {
  static Collector& only = *new Collector;  // CUPTI's thread may outlive main
  return only;
}

void give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = collector().take();
  *bytes = *buffer ? kBufferBytes : 0;
  *most_records = 0;
}
void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  if (buffer) collector().read(buffer, valid_bytes);
}

// ---- CUPTI's clock, in ours

struct Meeting {
  int64_t ours = 0, theirs = 0;
};
/// The closest of some looks at both.
Meeting meet() {
  Meeting best;
  int64_t shortest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 16; ++i) {
    uint64_t theirs = 0;
    const int64_t before = activity_clock();
    cupti().cuptiGetTimestamp(&theirs);
    const int64_t after = activity_clock();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {before + shortest / 2, static_cast<int64_t>(theirs)};
  }
  return best;
}
/// A line through two meetings: clocks drift, and one of them may be put right meanwhile.
class Clock {
 public:
  Clock(const Meeting& first, const Meeting& last) : first_(first) {
    const int64_t theirs = last.theirs - first.theirs;
    if (theirs > 0) drift_ = static_cast<double>(last.ours - first.ours - theirs) / static_cast<double>(theirs);
  }
  int64_t ours(int64_t theirs) const {
    const int64_t since = theirs - first_.theirs;
    return first_.ours + since + static_cast<int64_t>(drift_ * static_cast<double>(since));
  }

 private:
  Meeting first_;
  double drift_ = 0;
};

// ---- one recording

class CuptiRecording final : public ActivityRecording {
 public:
  /// `why` is not empty where it does not work.
  explicit CuptiRecording(std::string& why) {
    Attempt attempt(why);
    if (!FACULA_CUPTI_TRY(attempt, cuptiSubscribe, &subscriber_, ignore, nullptr)) return;
    subscribed_ = true;
    FACULA_CUPTI_TRY(attempt, cuptiSetThreadIdType, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM) &&
        FACULA_CUPTI_TRY(attempt, cuptiActivityRegisterCallbacks, give_buffer, take_buffer);
    collector().begin();
    for (const CUpti_ActivityKind kind : kKinds) {
      if (!why.empty() || !FACULA_CUPTI_TRY(attempt, cuptiActivityEnable, kind)) return;
      ++enabled_;
    }
    first_ = meet();
  }
  ~CuptiRecording() override {
    release();
    collector().finish();
  }

  int64_t begin(int device, const char* kernel) override {
    uint64_t number;
    {
      std::lock_guard guard(mutex_);
      number = queued_.size();
      Activity& a = queued_.emplace_back();
      a.kernel = kernel;
      a.device = device;
      a.thread = syscall(SYS_gettid);
      a.queued = activity_clock();
    }
    if (cupti().cuptiActivityPushExternalCorrelationId(kNumbers, number) != CUPTI_SUCCESS) return -1;
    return static_cast<int64_t>(number);
  }
  void end(int64_t) noexcept override {
    uint64_t last;
    cupti().cuptiActivityPopExternalCorrelationId(kNumbers, &last);
  }

  Activities finish() override {
    cupti().cuptiActivityFlushAll(0);
    const Clock clock(first_, meet());
    const std::vector<uint32_t> defaults = default_streams();
    release();
    Records records = collector().finish();
    Activities found{std::move(records.done), {}, records.lost};
    std::unordered_map<uint32_t, Call> calls;
    for (const Call& call : records.calls) calls[call.call.number] = call;
    std::unordered_map<std::string, std::string> names;
    for (Activity& a : found.done) {
      complete(a, clock, defaults);
      if (a.kind == ActivityKind::Kernel) a.name = demangled(names, a.name);
      const auto number = records.numbers.find(a.call);
      if (number != records.numbers.end()) attribute(a, number->second);
      const auto call = calls.find(a.call);
      if (call == calls.end()) continue;
      if (a.thread == 0) a.thread = call->second.call.thread, a.queued = clock.ours(call->second.call.begin);
      call->second.used = true;
    }
    for (const auto& [number, call] : calls)
      if (call.used) found.calls.push_back(named(call, clock));
    return found;
  }

 private:
  static void ignore(void*, CUpti_CallbackDomain, uint32_t, const void*) {}

  /// From here on nothing is recorded, and nothing lost.
  void release() noexcept {
    if (!subscribed_) return;
    while (enabled_ > 0) cupti().cuptiActivityDisable(kKinds[--enabled_]);
    cupti().cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    cupti().cuptiUnsubscribe(subscriber_);
    subscribed_ = false;
  }
  static QueueingCall named(const Call& from, const Clock& clock) {
    const QueueingCall& c = from.call;
    return {c.number, c.thread, clock.ours(c.begin), clock.ours(c.end), name_of_call(from)};
  }
  static std::vector<uint32_t> default_streams() {
    std::vector<uint32_t> numbers(static_cast<size_t>(device_count()), 0);
    for (int device = 0; device < device_count(); ++device)
      cupti().cuptiGetStreamIdEx(properties(device).context, nullptr, 0, &numbers[static_cast<size_t>(device)]);
    return numbers;
  }
  static void complete(Activity& a, const Clock& clock, const std::vector<uint32_t>& defaults) {
    a.begin = clock.ours(a.begin);
    a.end = clock.ours(a.end);
    const auto device = static_cast<size_t>(a.device);
    a.stream = device < defaults.size() && a.stream == defaults[device] ? 0 : a.stream + 1;
  }
  static const std::string& demangled(std::unordered_map<std::string, std::string>& names, const std::string& name) {
    const auto [found, fresh] = names.try_emplace(name);
    if (fresh) found->second = text_of(name.c_str());
    return found->second;
  }
  void attribute(Activity& a, uint64_t number) {
    std::lock_guard guard(mutex_);
    if (number >= queued_.size()) return;
    const Activity& q = queued_[number];
    a.kernel = q.kernel;
    a.thread = q.thread;
    a.queued = q.queued;
  }

  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool subscribed_ = false;
  size_t enabled_ = 0;
  Meeting first_;
  std::mutex mutex_;
  std::deque<Activity> queued_;
};

}  // namespace

std::shared_ptr<ActivityRecording> record_by_cupti(std::string& why) {
  constexpr uint32_t kOldest = 18;  // of CUDA 12.0: older records are laid out otherwise
  why = loaded().error;
  uint32_t version = 0;
  Attempt attempt(why);
  if (!why.empty() || !FACULA_CUPTI_TRY(attempt, cuptiGetVersion, &version)) return nullptr;
  if (version < kOldest) {
    why = "its version is " + std::to_string(version) + ", and that of CUDA 12 is expected or a later one";
    return nullptr;
  }
  auto fresh = std::make_shared<CuptiRecording>(why);
  return why.empty() ? fresh : nullptr;
}

}  // namespace facula::cuda
