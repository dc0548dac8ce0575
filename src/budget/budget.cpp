#include "budget/budget.h"

#include <array>
#include <sstream>

#include "budget/change.h"
#include "budget/choose.h"
#include "budget/held_cells.h"
#include "budget/moved.h"
#include "budget/record.h"
#include "budget/repeat.h"
#include "budget/report.h"
#include "core/backend.h"
#include "core/budget_bound.h"
#include "core/budget_refusal.h"
#include "core/host.h"
#include "core/short_memory.h"
#include "observe/memory_cause.h"

namespace facula::budget {
namespace {

struct Bounds {
  std::mutex lock;
  std::array<std::atomic<size_t>, kMostDevices + 1> bytes{};     // the CPU's, and those of CUDA devices
  std::array<std::atomic<size_t>, kMostDevices + 1> short_at{};  // the highest under which memory was short
  int on = 0;
};
Bounds& bounds() {
  static Bounds* instance = new Bounds;
  return *instance;
}
size_t place_of(Device device) {
  const int place = device.is_cpu() ? 0 : 1 + std::max<int>(device.index, 0);
  FACULA_CHECK(place <= kMostDevices, ErrorKind::Runtime, "memory_budget: at most ", kMostDevices,
               " devices can have one, got ", device);
  return static_cast<size_t>(place);
}
std::atomic<size_t>& bound_of(Device device) { return bounds().bytes[place_of(device)]; }

void note_short_bound(Device device, size_t bound) {
  std::atomic<size_t>& highest = bounds().short_at[place_of(device)];
  size_t known = highest.load();
  while (known < bound && !highest.compare_exchange_weak(known, bound)) {
  }
  memory_is_short.store(true, std::memory_order_relaxed);
}
/// With the lock held.
void look_whether_short() {
  bool is_short = false;
  for (size_t i = 0; i < bounds().bytes.size(); ++i) {
    const size_t bound = bounds().bytes[i].load();
    is_short = is_short || (bound > 0 && bound <= bounds().short_at[i].load());
  }
  memory_is_short.store(is_short, std::memory_order_relaxed);
}

thread_local constinit int recording_anyway __attribute__((tls_model("initial-exec"))) = 0;
thread_local constinit bool making_room = false;

/// What the allocator has given out.
size_t held_on(Device device) {
  const auto held = budget_bounds[static_cast<size_t>(device.type)].held;
  return held ? held(device) : 0;
}

/// Lets go of bytes, and waits for those that are written to a file. Where they stay others go.
size_t let_go(Device device, size_t wanted) {
  size_t gone = 0;
  for (bool again = true; again && gone < wanted;) {
    {
      Locked locked;
      gone += wait_for_moves(device, locked);
      if (gone < wanted) gone += let_go(device, wanted - gone, locked);
    }
    if (gone >= wanted) break;
    const Finished moves = finish_moves(device);
    gone += moves.gone;
    again = moves.stayed;
  }
  return gone;
}

/// A sixty-fourth more than is needed goes at once, so that the next requests find room.
size_t make_room(Device device, size_t bytes) {
  if (making_room || Locked::is_held()) return 0;
  making_room = true;
  note_short_bound(device, bound_of(device).load());
  size_t gone = let_go_of_waiting ? let_go_of_waiting(device) : 0;
  if (gone < bytes) {
    const MemoryCauseScope letting_go(MemoryCause::LetGo);  // until the dead are released
    const size_t held = held_on(device), bound = bound_of(device).load();
    note_short(device);
    size_t can_go = 0;
    {
      const Locked locked;
      can_go = bytes_that_can_go(device);
    }
    gone += let_go(device, bytes - gone + bound / 64);
    report_of(device).note_room(held, std::max(can_go, gone), bytes + bound - std::min(held, bound), bound);
  }
  making_room = false;
  return gone;
}

std::string why(Device device, size_t bytes) {
  size_t can_go = 0;
  {
    const Locked locked;
    can_go = bytes_that_can_go(device);
  }
  return why_full(device, bytes, held_on(device), can_go, held_in_cells(device));
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    install_cells();
    install_recording();
    install_changes();
    budget_hooks.make_room = make_room;
    budget_hooks.present_op = [] {
      const uint16_t again = op_that_runs_again();
      const OpCall* call = present_call();
      return again ? public_name_of(again) : call ? public_name_of(call->op) : std::string();
    };
    budget_hooks.why_full = why;
  });
}

}  // namespace

std::atomic<bool> cuda_has_budget{false};

void set_budget(Device device, size_t bytes) {
  install();
  if (device.is_cuda()) cuda_has_budget.store(true);
  const auto set = has_backend(device.type) ? budget_bounds[static_cast<size_t>(device.type)].set : nullptr;
  FACULA_CHECK(set, ErrorKind::NotImplemented, "memory_budget: the allocator of ", device, " cannot keep one");
  const std::lock_guard guard(bounds().lock);
  set(device, bytes);
  const size_t before = bound_of(device).exchange(bytes);
  bounds().on += static_cast<int>(bytes > 0) - static_cast<int>(before > 0);
  look_whether_short();
  set_watch_everywhere(kWatchBudget, bounds().on > 0);
}
size_t budget_of(Device device) { return bound_of(device).load(); }
void each_budget(const std::function<void(Device)>& f) {
  for (int i = 0; i <= kMostDevices; ++i) {
    if (bounds().bytes[static_cast<size_t>(i)].load() > 0)
      f(i == 0 ? kCPU : Device{DeviceType::CUDA, static_cast<int8_t>(i - 1)});
  }
}

void warn_of_dear_step(Device device) {
  static std::array<std::atomic<size_t>, kMostDevices + 1> warned{};  // the bound that it was said of
  const LastStep step = report_of(device).last_step();
  const size_t bound = budget_of(device);
  if (bound == 0 || step.again_ns * 2 < step.ns || step.ns == 0 || !host.warn) return;
  auto& said = warned[static_cast<size_t>(&bound_of(device) - bounds().bytes.data())];
  if (said.exchange(bound) == bound) return;
  std::ostringstream text;
  text << "memory_budget: ops that ran again took " << step.again_ns / 1000000 << " of the " << step.ns / 1000000
       << " ms of the last step, within " << size_text(bound) << " of " << device << "; a budget of "
       << size_text(bound + step.most_gone / 2) << " would let go of about half as much";
  host.warn(text.str().c_str());
}

RecordsAnyway::RecordsAnyway() { ++recording_anyway; }
RecordsAnyway::~RecordsAnyway() { --recording_anyway; }
bool records() { return GradMode::enabled() || recording_anyway > 0; }

void note_memory(Device device) {
  static std::array<std::atomic<size_t>, kMostDevices + 1> noted{};
  constexpr size_t kMuch = size_t{1} << 20;
  if ((!device.is_cpu() && !device.is_cuda()) || budget_of(device) == 0) return;
  std::atomic<size_t>& last = noted[number_of(device)];
  const size_t held = held_on(device), before = last.load(std::memory_order_relaxed);
  if (std::max(held, before) - std::min(held, before) < kMuch) return;
  last.store(held, std::memory_order_relaxed);
  SavedBytes saved;
  {
    const Locked locked;
    saved = cells().saved[number_of(device)];
  }
  report_of(device).note_sample(held, saved.here, saved.gone);
}

}  // namespace facula::budget
