#include "profiler/profiler_observer.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "autograd/node.h"
#include "core/host.h"

namespace facula::profiler {
namespace {

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

std::string thread_title() {
  char text[32] = "";
  pthread_getname_np(pthread_self(), text, sizeof text);
  return text;
}

// A thread's list while it is written.
struct OpenLane : Lane {
  std::vector<int32_t> open;                          // events that have begun and not ended, outermost first
  int32_t last_op = -1;                               // the op that ended last
  int64_t pending = -1;                               // a node that was made before its op began
  std::unordered_map<std::string, uint32_t> numbers;  // of names

  uint32_t number_of(std::string_view text) {
    auto [found, fresh] = numbers.try_emplace(std::string(text), static_cast<uint32_t>(names.size()));
    if (fresh) names.emplace_back(text);
    return found->second;
  }
  Event& begin(EventKind kind) {
    const auto index = static_cast<int32_t>(events.size());
    Event& event = events.emplace_back();
    event.kind = kind;
    event.parent = open.empty() ? -1 : open.back();
    open.push_back(index);
    return event;
  }
  /// The event that ends; null for one that began before the recording.
  Event* end() {
    if (open.empty()) return nullptr;
    Event& event = events[static_cast<size_t>(open.back())];
    event.end = now();
    open.pop_back();
    return &event;
  }
};

std::atomic<uint64_t> recordings{0};  // a thread's list belongs to one of them

class ProfilerObserver final : public Observer {
 public:
  explicit ProfilerObserver(const Options& options) : options_(options), number_(++recordings) {
    follows_memory = options.memory;
  }

  void op_begins(const OpCall& call) override {
    OpenLane& lane = mine();
    Event& event = lane.begin(call.form == OpForm::Composite ? EventKind::Composite : EventKind::Op);
    event.op = call.op;
    event.form = call.form;
    event.sequence = std::exchange(lane.pending, -1);
    if (options_.stacks && host.capture_stack) event.stack = host.capture_stack();
    if (options_.shapes) {
      event.details = static_cast<int64_t>(lane.details.size());
      note_arguments(lane.details, call.arguments);
    }
    event.begin = now();
  }
  void op_ends(const OpCall& call, bool failed) override {
    OpenLane& lane = mine();
    const int32_t index = lane.open.empty() ? -1 : lane.open.back();
    Event* event = lane.end();
    if (!event) return;
    event->failed = failed;
    lane.last_op = index;
    if (options_.shapes && event->details >= 0) note_results(lane, *event, call.results);
  }
  void node_begins(const Node& node) override {
    OpenLane& lane = mine();
    Event& event = lane.begin(EventKind::Node);
    event.name = lane.number_of(node.name());
    event.sequence = static_cast<int64_t>(node.sequence());
    event.begin = now();
  }
  void node_ends(const Node&) override { mine().end(); }
  void node_made(const Node& node) override {
    OpenLane& lane = mine();
    Event* event = lane.last_op < 0 ? nullptr : &lane.events[static_cast<size_t>(lane.last_op)];
    if (event && event->sequence < 0) event->sequence = static_cast<int64_t>(node.sequence());
    else lane.pending = static_cast<int64_t>(node.sequence());
  }
  void range_begins(std::string_view name) override { begin_named(EventKind::Range, name); }
  void range_ends() override { mine().end(); }
  void kernel_begins(const char* name) override { begin_named(EventKind::Kernel, name); }
  void kernel_ends() override { mine().end(); }
  void work_begins() override { begin_named(EventKind::Work, "piece of an op"); }
  void work_ends() override { mine().end(); }
  void memory_changes(const MemoryEvent& change) override {
    OpenLane& lane = mine();
    const bool is_cpu = change.storage->device.is_cpu();
    const auto count = [&](Event& event) { (is_cpu ? event.bytes : event.device_bytes) += change.bytes; };
    if (!lane.open.empty()) count(lane.events[static_cast<size_t>(lane.open.back())]);
    Event& event = lane.begin(EventKind::Memory);
    lane.open.pop_back();
    count(event);
    event.address = reinterpret_cast<int64_t>(change.storage);
    event.begin = event.end = now();
    if (options_.stacks && host.capture_stack) event.stack = host.capture_stack();
  }

  std::vector<Lane> take() {
    const int64_t end = now();
    std::vector<Lane> lanes;
    for (auto& lane : lanes_) {
      for (int32_t index : lane->open) {  // still running: without results
        Event& event = lane->events[static_cast<size_t>(index)];
        event.end = end;
        event.failed = true;
      }
      lanes.push_back(std::move(static_cast<Lane&>(*lane)));
    }
    return lanes;
  }

 private:
  OpenLane& mine() {
    static thread_local OpenLane* lane = nullptr;
    static thread_local uint64_t of = 0;
    if (__builtin_expect(of != number_, 0)) {
      lane = open_lane();
      of = number_;
    }
    return *lane;
  }
  OpenLane* open_lane() {
    auto fresh = std::make_unique<OpenLane>();
    fresh->thread = syscall(SYS_gettid);
    fresh->title = thread_title();
    fresh->events.reserve(4096);
    std::lock_guard guard(lock_);
    return lanes_.emplace_back(std::move(fresh)).get();
  }
  void begin_named(EventKind kind, std::string_view name) {
    OpenLane& lane = mine();
    Event& event = lane.begin(kind);
    event.name = lane.number_of(name);
    event.begin = now();
  }

  static void note_tensor(std::vector<int64_t>& to, const Tensor& t) {
    if (!t.defined()) {
      to.insert(to.end(), {-1, 0});
      return;
    }
    to.insert(to.end(), {t.dim(), static_cast<int64_t>(t.dtype())});
    to.insert(to.end(), t.sizes().begin(), t.sizes().end());
  }
  static void note_arguments(std::vector<int64_t>& to, List<Argument> arguments) {
    const size_t count_at = to.size();
    to.push_back(0);
    int64_t count = 0;
    for (const Argument& argument : arguments) {
      if (argument.kind() == Argument::Kind::TensorList) {
        for (const Tensor& t : argument.as<TensorList>()) note_tensor(to, t), ++count;
        continue;
      }
      bool found = false;
      argument.each_tensor([&](const Tensor& t) { note_tensor(to, t), found = true; });
      if (!found) to.insert(to.end(), {-1, 0});
      ++count;
    }
    to[count_at] = count;
  }
  // Results lie behind the arguments, also when events inside have written details in between.
  static void note_results(OpenLane& lane, Event& event, List<ResultSlot> results) {
    std::vector<int64_t> moved;
    const auto from = static_cast<size_t>(event.details);
    size_t at = from + 1;
    for (int64_t i = 0; i < lane.details[from]; ++i)
      at += 2 + static_cast<size_t>(std::max<int64_t>(lane.details[at], 0));
    if (at != lane.details.size()) {
      moved.assign(lane.details.begin() + event.details, lane.details.begin() + static_cast<int64_t>(at));
      event.details = static_cast<int64_t>(lane.details.size());
      lane.details.insert(lane.details.end(), moved.begin(), moved.end());
    }
    lane.details.push_back(static_cast<int64_t>(results.size()));
    for (const ResultSlot& slot : results) {
      if (slot.kind() == ResultSlot::Kind::Tensor) note_tensor(lane.details, slot.as<Tensor>());
      else lane.details.insert(lane.details.end(), {-1, 0});
    }
  }

  const Options options_;
  const uint64_t number_;
  std::mutex lock_;
  std::vector<std::unique_ptr<OpenLane>> lanes_;
};

std::mutex observer_lock;
std::unique_ptr<ProfilerObserver> observer;

}  // namespace

void start(const Options& options) {
  std::lock_guard guard(observer_lock);
  FACULA_CHECK(!observer, ErrorKind::Runtime, "profile: expected no recording to run, got another one that does");
  observer = std::make_unique<ProfilerObserver>(options);
  add_observer(observer.get(), Watched::AllThreads);
}

std::vector<Lane> stop() {
  std::lock_guard guard(observer_lock);
  FACULA_CHECK(observer, ErrorKind::Runtime, "profile: expected a recording that runs, got none");
  remove_observer(observer.get(), Watched::AllThreads);
  auto lanes = observer->take();
  observer.reset();
  return lanes;
}

bool recording() {
  std::lock_guard guard(observer_lock);
  return observer != nullptr;
}

}  // namespace facula::profiler
