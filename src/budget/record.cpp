#include "budget/record.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "budget/budget.h"
#include "budget/modeled.h"
#include "budget/moved.h"
#include "budget/report.h"
#include "budget/times.h"
#include "budget/together.h"
#include "core/kernel.h"
#include "observe/observer.h"
#include "program/inner.h"

namespace facula::budget {
namespace {

std::atomic<size_t> smallest{size_t{64} << 10};
constexpr uint32_t kEndsPerLook = 4;  // calls, for a sample of memory
/// What a call writes besides its results is saved as it was before, if it is not more than this.
constexpr size_t kMostScratch = size_t{1} << 20;

/// What a row of the table says for every call.
struct Row {
  const BoxedOp* op = nullptr;
  bool known = false;                          // whether there is such a row
  bool writes_others = false;                  // arguments that are not results
  bool finds_out = false;                      // what makes running it again cheaper
  mutable std::atomic<bool> is_timed = false;  // once it has made memory of a cell
};

const Row& row_of(uint16_t id, OpForm form) {
  static auto* rows = new std::array<std::atomic<const Row*>, (1 << 16) * 2>{};
  auto& known = (*rows)[id * 2u + (form == OpForm::InPlace)];
  if (const Row* row = known.load(std::memory_order_acquire)) return *row;
  auto* row = new Row;  // one per op; of two threads that look at once, one keeps a copy
  row->op = find_boxed(id, form);
  row->known = row->op != nullptr;
  row->finds_out = finds_out(id);
  for (size_t i = form == OpForm::InPlace; row->op && i < row->op->arguments.size(); ++i)
    row->writes_others = row->writes_others || row->op->arguments[i].written;
  known.store(row, std::memory_order_release);
  return *row;
}

constexpr uint32_t kNotRecorded = kBatched | kDual | kPythonDispatch | kSparse | kDeferred;

/// The call that this thread is in.
struct Running {
  int depth = 0;
  uint32_t ended = 0;  // calls
  const OpCall* call = nullptr;
  bool recorded = false;
  bool repeatable = true;
  const Row* row = nullptr;
  Ref<Cell> target;                // of a call that writes in place
  Storage* storage = nullptr;      // of the target
  Times* times = nullptr;          // null: not worth a look at the clock
  std::optional<Stopwatch> watch;  // none: the time is known
  DrawStates drawn;
  std::optional<NotedDraws> noting;
  Findings found;
  std::optional<NotedFindings> finding;
  std::vector<std::pair<uint32_t, Tensor>> before;  // what arguments that are written held
};
thread_local constinit Running* own_running __attribute__((tls_model("initial-exec"))) = nullptr;

/// Made at the first call of the thread, so that others reach it without asking whether it is there.
[[gnu::noinline]] Running& make_running() {
  static thread_local Running running;
  return *(own_running = &running);
}
inline Running& running() { return __builtin_expect(own_running != nullptr, 1) ? *own_running : make_running(); }

/// A copy with the same strides; undefined where the tensor is not dense.
Tensor copy_of(const Tensor& tensor) {
  if (!tensor.is_dense()) return Tensor();
  const Tensor held = hold(tensor);
  Tensor copy = empty_strided(held.sizes(), held.strides(), held.dtype(), held.device());
  copy_elements(copy, held);
  copy.impl()->flags |= tensor.flags() & (kConjugate | kPrivateLayout);
  return copy;
}

size_t bytes_of_elements(const Tensor& t) { return static_cast<size_t>(t.numel() * t.item_size()); }

Times& times_of(const OpCall& call) {
  static std::mutex lock;
  static auto* known = new std::unordered_map<uint64_t, Times>;
  uint64_t key = (uint64_t{call.op} << 2 | static_cast<uint64_t>(call.form)) * 0x9e3779b97f4a7c15u;
  const auto add = [&](uint64_t value) { key = (key ^ value) * 0xbf58476d1ce4e5b9u; };
  const auto add_list = [&](IntList values) {
    for (int64_t value : values) add(static_cast<uint64_t>(value));
    key ^= key >> 29;
  };
  for (const Argument& argument : call.arguments) {
    if (argument.kind() == Argument::Kind::IntList) add_list(argument.as<IntList>());
    argument.each_tensor([&](const Tensor& t) {
      add(static_cast<uint64_t>(t.dtype()) << 16 | number_of(t.device()));
      add_list(t.sizes());
    });
  }
  const std::lock_guard guard(lock);
  return (*known)[key];
}

// ---- the inputs of a step

class Reading {
 public:
  Reading(Step& step, size_t result_bytes) : step_(step), result_bytes_(result_bytes) {}
  /// Without the lock; false where the step could not be repeated.
  bool read(const OpCall& call, const Running& now) {
    step_.arguments.resize(call.arguments.size());
    for (uint32_t i = 0; i < call.arguments.size(); ++i) {
      const Argument& argument = call.arguments[i];
      if (argument.kind() == Argument::Kind::TensorList) {
        const TensorList& list = argument.as<TensorList>();
        step_.arguments[i] = std::vector<Tensor>(list.size());
        for (size_t k = 0; k < list.size(); ++k)
          if (list[k].defined() && !add(list[k], i, static_cast<int32_t>(k))) return false;
        continue;
      }
      const auto saved =
          std::find_if(now.before.begin(), now.before.end(), [&](const auto& b) { return b.first == i; });
      const bool tensor = argument.kind() == Argument::Kind::Tensor ||
                          (argument.kind() == Argument::Kind::Operand && argument.as<Operand>().is_tensor());
      if (saved != now.before.end()) {
        Input& input = begin(i, -1);
        input.held = saved->second;
        input.scratch = true;
      } else if (!tensor) {
        step_.arguments[i] = value_of(argument);
      } else {
        bool added = true;
        argument.each_tensor([&](const Tensor& t) { added = add(t, i, -1); });
        if (!added) return false;
      }
    }
    return true;
  }

 private:
  Input& begin(uint32_t argument, int32_t element) {
    step_.places.push_back({argument, element});
    return step_.inputs.emplace_back();
  }
  bool add(const Tensor& t, uint32_t argument, int32_t element) {
    Input& input = begin(argument, element);
    Storage* storage = t.storage();
    {
      Locked locked;
      if (Cell* cell = cell_of(storage)) {
        input.cell = Ref<Cell>::share(cell);
        cell->last_use = time_of_use();
      }
    }
    if (input.cell) input.geometry = Geometry(t);
    else input.held = saved(t);
    return input.cell || input.held.defined();
  }
  /// The tensor as the step will find it: its memory, whose writers ask before, or a copy where nobody counts writes.
  Tensor saved(const Tensor& t) {
    Storage* storage = t.storage();
    if (storage->exposures.load() == 0 && can_be_read_late(storage)) {
      if (!(storage->asks.load() & kReadAgain)) storage->asks.fetch_or(kReadAgain);
      return alias(t);
    }
    copied_ += bytes_of_elements(t);
    if (copied_ * 2 > result_bytes_) return Tensor();  // a step that holds as much as it can make again
    Tensor copy = copy_of(t);
    if (copy.defined()) report_of(t.device()).note_copied(t.sizes(), t.dtype(), bytes_of_elements(t), step_.place);
    return copy;
  }

  Step& step_;
  size_t result_bytes_, copied_ = 0;
};

Ref<Step> step_of(const OpCall& call, const Running& now, size_t result_bytes, Device device) {
  auto step = Ref<Step>::adopt(new Step);
  step->op = now.row->op;
  step->times = now.times;
  step->ns = guessed_ns(device, result_bytes);
  step->repeatable = now.repeatable;
  step->place = place_here();
  const Unwatched unseen;
  if (!Reading(*step, result_bytes).read(call, now)) return {};
  return step;
}

// ---- results

struct Fresh {
  const Tensor* tensor;
  uint32_t which;
};

void find_fresh(const OpCall& call, std::vector<Fresh>& fresh) {
  const auto look = [&](const Tensor& t, uint32_t which) {
    if (!t.defined() || (t.flags() & (kSparse | kDeferred)) || t.storage()->nbytes < smallest.load()) return;
    if (t.impl()->refs.load() == 1 && can_be_in_cell(t.storage())) fresh.push_back({&t, which});
  };
  uint32_t which = 0;  // tensors of lists count as results
  for (const ResultSlot& slot : call.results) {
    if (slot.kind() == ResultSlot::Kind::TensorList) {
      for (const Tensor& t : slot.as<std::vector<Tensor>>()) look(t, which++);
    } else {
      if (slot.kind() == ResultSlot::Kind::Tensor) look(slot.as<Tensor>(), which);
      ++which;
    }
  }
}

/// A cell for the tensor that a step gives as result `which`.
Ref<Cell> new_cell(const Tensor& t, const Ref<Step>& step, uint32_t which) {
  auto cell = Ref<Cell>::adopt(new Cell);
  cell->device = t.device();
  cell->bytes = t.storage()->nbytes;
  cell->version = t.storage()->current_version();
  cell->last_use = time_of_use();
  cell->result = Geometry(t);
  cell->step = step;
  cell->which = which;
  step->made[which] = cell.get();
  return cell;
}

bool can_record(const OpCall& call, const BoxedOp& op) {
  uint32_t flags = 0;
  bool real = true;
  for (const Argument& argument : call.arguments) {
    flags |= argument.flags();
    argument.each_tensor(
        [&](const Tensor& t) { real = real && (t.is_cpu() || (t.device().is_cuda() && !op.unordered)); });
  }
  return real && !(flags & kNotRecorded) && !(thread_state.modes & kModeVmap);
}

void record_results(const OpCall& call, Running& now) {
  std::vector<Fresh> fresh;
  find_fresh(call, fresh);
  if (fresh.empty() || !can_record(call, *now.row->op)) return;
  if (!now.row->is_timed.load(std::memory_order_relaxed)) now.row->is_timed.store(true, std::memory_order_relaxed);
  size_t bytes = 0;
  for (const Fresh& f : fresh) bytes += f.tensor->storage()->nbytes;
  const Ref<Step> step = step_of(call, now, bytes, fresh[0].tensor->device());
  if (!step) return;
  step->drawn = std::move(now.drawn);
  step->found = std::move(now.found);
  expect_shorter(*step, nullptr);
  step->made.resize(fresh.back().which + 1);
  std::vector<Ref<Cell>> held;
  for (const Fresh& f : fresh) held.push_back(new_cell(*f.tensor, step, f.which));
  Locked locked;
  enlist(*step);
  for (size_t i = 0; i < fresh.size(); ++i) {
    put(*held[i], fresh[i].tensor->storage());
    fresh[i].tensor->impl()->flags |= kInCell;
  }
}

/// A storage has been written to, once, by this step alone.
void record_write_of(Cell& cell, const Tensor& written, const Ref<Step>& step, uint32_t version) {
  step->writes = true;
  expect_shorter(*step, &cell);
  step->made.resize(1);
  const Ref<Cell> after = new_cell(written, step, 0);
  after->version = version;
  Locked locked;
  enlist(*step);
  overwrite(cell, *after, locked);
}

void record_write(const OpCall& call, Running& now) {
  Cell& cell = *now.target;
  const Tensor& written = call.arguments[0].as<Tensor>();
  if (written.storage() != now.storage || !now.row->op->arguments[0].written) return;  // only the tensor changed
  // One write is counted, by the op or by who calls it, when this has been notified.
  const uint32_t counted = now.storage->current_version(), version = cell.version + 1;
  if (counted != cell.version && counted != version) return;
  {
    Locked locked;
    cell.version = counted;  // the step reads the cell as it was before
  }
  const Ref<Step> step = step_of(call, now, cell.bytes, cell.device);
  if (step && step->inputs[0].cell.get() == &cell) {
    step->drawn = std::move(now.drawn);
    return record_write_of(cell, written, step, version);
  }
  Locked locked;
  cell.ended = true;
}

// ---- the hooks

/// Bytes of the largest tensor that the call reads.
size_t largest_of(const OpCall& call) {
  size_t largest = 0;
  for (const Argument& argument : call.arguments)
    argument.each_tensor([&](const Tensor& t) { largest = std::max(largest, bytes_of_elements(t)); });
  return largest;
}

/// Returns the device of the first tensor of the call; the CPU where it has none.
Device device_of(const OpCall& call) {
  std::optional<Device> first;
  for (const Argument& argument : call.arguments) {
    argument.each_tensor([&](const Tensor& t) { first = first.value_or(t.device()); });
    if (first) return *first;
  }
  return kCPU;
}

void keep_written(const OpCall& call, Running& now) {
  const Unwatched unseen;
  for (uint32_t i = call.form == OpForm::InPlace; i < call.arguments.size(); ++i) {
    if (!now.row->op->arguments[i].written) continue;
    call.arguments[i].each_tensor([&](const Tensor& t) {
      Tensor copy = bytes_of_elements(t) <= kMostScratch ? copy_of(t) : Tensor();
      now.repeatable = now.repeatable && copy.defined() && call.arguments[i].kind() != Argument::Kind::TensorList;
      if (now.repeatable) now.before.emplace_back(i, std::move(copy));
    });
  }
}

/// A cell for memory that nobody has written yet, and that is about to be filled.
Ref<Cell> empty_cell(const Tensor& t) {
  const Storage* storage = t.storage();
  const Extent extent = byte_extent(t);
  const bool whole =
      t.is_dense() && t.byte_offset() == 0 && extent.low == 0 && extent.high == static_cast<int64_t>(storage->nbytes);
  if (!whole || storage->nbytes < smallest.load() || !can_be_in_cell(storage)) return {};
  auto step = Ref<Step>::adopt(new Step);
  step->op = find_boxed("empty_strided.default");
  step->arguments = {Value(t.sizes()), Value(t.strides()), Value(t.dtype()), Value(t.device())};
  step->arguments.resize(step->op->arguments.size());
  step->made.resize(1);
  step->ns = 1;
  return new_cell(t, step, 0);
}

/// The cell of what a call writes to in place; none where its bytes come from elsewhere.
Ref<Cell> written_cell(const OpCall& call, const Row& row) {
  const Tensor& t = call.arguments[0].as<Tensor>();
  {
    Locked locked;
    if (Cell* cell = cell_of(t.storage())) return Ref<Cell>::share(cell);
  }
  if (!row.op->fills) return {};
  Ref<Cell> cell = empty_cell(t);
  if (cell) {
    Locked locked;
    enlist(*cell->step);
    put(*cell, t.storage());
    t.impl()->flags |= kInCell;
  }
  return cell;
}

void begin(const OpCall& call, Running& now) {
  if (!records() || (call.form != OpForm::Function && call.form != OpForm::InPlace)) return;
  now.row = &row_of(call.op, call.form);
  if (!now.row->known || now.row->op->arguments.size() != call.arguments.size()) return;
  const bool looks_first = call.form == OpForm::InPlace || now.row->op->draws || now.row->writes_others;
  if (looks_first && !can_record(call, *now.row->op)) return;  // others look where there is something to record
  if (call.form == OpForm::InPlace) {
    if (call.arguments[0].kind() != Argument::Kind::Tensor) return;
    now.storage = call.arguments[0].as<Tensor>().storage();
    now.target = written_cell(call, *now.row);
    if (!now.target) return;
  }
  now.repeatable = true;
  now.recorded = true;
  if (now.row->op->draws) now.noting.emplace(now.drawn);
  if (now.row->finds_out) now.finding.emplace(now.found);
  if (now.row->writes_others) keep_written(call, now);
  if (!now.row->is_timed.load(std::memory_order_relaxed) || largest_of(call) < smallest.load()) return;
  now.times = &times_of(call);
  if (now.times->are_wanted()) now.watch.emplace(device_of(call));
}

void op_begins(const OpCall& call) {
  Running& now = running();
  if (now.depth++ > 0) return;
  now.call = &call;
  try {
    begin(call, now);
  } catch (const std::exception&) {  // no room for what is noted: the call is not recorded
    now.recorded = false;
  }
}

void op_ends(const OpCall& call, bool failed) {
  Running& now = running();
  if (--now.depth > 0) return;
  if (now.watch && !failed) now.watch->end(now.times);
  now.watch.reset();
  const bool large = now.times || !now.recorded;  // most of a backward pass is not recorded, and large
  now.call = nullptr;
  now.noting.reset();
  now.finding.reset();
  if (now.recorded && !failed) {
    try {
      if (call.form == OpForm::Function) record_results(call, now);
      else record_write(call, now);
      if (cuda_has_budget.load(std::memory_order_relaxed))
        if (const Device device = device_of(call); device.is_cuda()) move_ahead(device);
    } catch (const std::exception&) {  // as above
    }
  }
  now.recorded = false;
  now.target = nullptr;
  now.times = nullptr;
  now.drawn.clear();
  now.found.clear();
  now.before.clear();
  if (++now.ended % kEndsPerLook == 0 || large) note_memory(device_of(call));
}

// ---- what is written without ops

Ref<Step> copy_step(const char* key, const Tensor& to, const Tensor& from, std::vector<Value> rest, bool writes) {
  auto step = Ref<Step>::adopt(new Step);
  step->op = find_boxed(key);
  step->ns = guessed_ns(to.device(), bytes_of_elements(to));
  Running none;
  const Argument both[] = {to, from}, one[] = {from};
  const OpCall call{0, OpForm::Function, writes ? List<Argument>(both, 2) : List<Argument>(one, 1), {}};
  if (!Reading(*step, to.storage()->nbytes).read(call, none)) return {};
  for (Value& value : rest) step->arguments.push_back(std::move(value));
  return step;
}

void elements_copied(const Tensor& to, const Tensor& from) {
  if (!records() || running().depth > 0 || ((to.flags() | from.flags()) & kNotRecorded)) return;
  try {
    const Unwatched unseen;
    Ref<Cell> cell;
    {
      Locked locked;
      cell = Ref<Cell>::share(cell_of(to.storage()));
    }
    if (!cell) return;
    const Ref<Step> step = copy_step("copy_.default", to, from, {Value(false)}, true);
    if (step && step->inputs[0].cell.get() == cell.get()) record_write_of(*cell, to, step, cell->version + 1);
  } catch (const std::exception&) {  // as above: the cell ends with its version
  }
}

void layout_materialized(const Tensor& before, const Tensor& after) {
  if (running().depth > 0 || !can_be_in_cell(after.storage()) || after.storage()->nbytes < smallest.load()) return;
  try {
    const Unwatched unseen;
    const Ref<Step> step = copy_step("clone.default", after, before, {Value(MemoryFormat::Contiguous)}, false);
    if (!step || !step->inputs[0].cell) return;
    step->made.resize(1);
    const Ref<Cell> cell = new_cell(after, step, 0);
    cell->version = before.storage()->current_version();
    Locked locked;
    enlist(*step);
    put(*cell, after.storage());
  } catch (const std::exception&) {  // as above
  }
}

void note_pass(bool begins) {
  end_moves_ahead();
  if (begins) return each_budget([](Device device) { report_of(device).note_pass(true); });
  each_budget(note_memory);
  note_pass_ends();
}

void note_gradient(const Tensor& gradient) { report_of(gradient.device()).note_gradient(gradient.storage()->nbytes); }

}  // namespace

const OpCall* present_call() { return running().call; }

size_t set_smallest(size_t bytes) { return smallest.exchange(bytes); }

void install_recording() {
  cell_hooks = {op_begins, op_ends, note_pass, note_gradient};
  budget_hooks.elements_copied = elements_copied;
  budget_hooks.layout_materialized = layout_materialized;
}

}  // namespace facula::budget
