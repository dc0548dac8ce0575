#include "budget/repeat.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "budget/budget.h"
#include "budget/modeled.h"
#include "budget/moved.h"
#include "budget/report.h"
#include "budget/times.h"
#include "budget/together.h"
#include "budget/why_full.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/storage_bytes.h"
#include "observe/memory_cause.h"
#include "observe/observer.h"

namespace facula::budget {
namespace {

std::recursive_mutex repeating;

/// The one thread that repeats. Who waits lets the interpreter go on.
class Alone {
 public:
  Alone() {
    if (repeating.try_lock()) return;
    const LockRelease others_go_on(true);
    repeating.lock();
  }
  ~Alone() { repeating.unlock(); }
  Alone(const Alone&) = delete;
};

/// An op as its kernel saw it the first time: below autocast, vmap and autograd. Observers are notified, but nobody who
/// stands in for ops or puts them off.
class AsBefore {
 public:
  AsBefore() : watch_(watching()), modes_(std::exchange(thread_state.modes, 0u)) {
    thread_state.watch.store(watch_ & (kWatchObservers | kWatchMemory), std::memory_order_relaxed);
  }
  ~AsBefore() {
    thread_state.modes = modes_;
    thread_state.watch.fetch_or(watch_, std::memory_order_relaxed);
  }
  AsBefore(const AsBefore&) = delete;

 private:
  GradMode no_grad_{false};
  MemoryCauseScope making_again_{MemoryCause::MadeAgain};
  uint32_t watch_, modes_;
};

thread_local constinit uint16_t runs_again = 0;  // the op that this thread runs again

/// Those who watch see a range around the op, and errors know it.
class RepeatNote {
 public:
  explicit RepeatNote(uint16_t op) : notifies_(watching() & kWatchObservers), before_(std::exchange(runs_again, op)) {
    if (notifies_) notify_range_begins("budget: " + public_name_of(op));
  }
  ~RepeatNote() {
    if (notifies_) notify_range_ends();
    runs_again = before_;
  }
  RepeatNote(const RepeatNote&) = delete;

 private:
  bool notifies_;
  uint16_t before_;
};

/// A cell that is needed.
struct Item {
  Ref<Cell> cell;
  Ref<Storage> bytes;  // null: not made yet, or dropped
  uint32_t uses = 0;   // items that have yet to read it
  std::vector<uint32_t> reads;
  uint32_t next = 0;             // of `reads`, while they are listed
  bool waits = false;            // it is made together with the one item that reads it
  std::shared_ptr<Moved> moved;  // it is read from there, and not made
};

class Repetition {
 public:
  explicit Repetition(const Ref<Cell>& cell) {
    const Locked locked;
    list(cell);
  }
  Ref<Storage> run() {
    find_together();
    for (const uint32_t i : order_) {
      if (items_[i].waits) continue;
      if (!items_[i].bytes) items_[i].moved ? read(items_[i]) : make(i);
      drop_reads(i);
      if (host.check_interrupt && !Uninterrupted::depth && !in_parallel_region()) host.check_interrupt();
    }
    return items_[0].bytes;
  }

 private:
  /// The number of an item, which is made when it is first needed. With the lock held.
  uint32_t item(const Ref<Cell>& cell) {
    const auto [found, added] = known_.try_emplace(cell.get(), static_cast<uint32_t>(items_.size()));
    if (!added) return found->second;
    Item& made = items_.emplace_back();
    made.cell = cell;
    if (cell->is_here() && cell_of(cell->storage) == cell.get()) {
      made.bytes = Ref<Storage>::share(cell->storage);
      cell->last_use = time_of_use();
    } else if (cell->moved && (cell->moved->is_there() || !cell->step->repeatable)) {
      made.moved = cell->moved;  // where it is not there, reading says why
    }
    return found->second;
  }

  /// Lists the cell after all that it is made from. With the lock held.
  void list(const Ref<Cell>& cell) {
    std::vector<uint32_t> open{item(cell)};
    items_[0].uses = 1;
    if (items_[0].bytes) return;
    find_sources(0);
    while (!open.empty()) {
      Item& top = items_[open.back()];
      if (top.next < top.reads.size()) {
        const uint32_t source = top.reads[top.next++];
        if (!items_[source].bytes && items_[source].reads.empty() && !is_listed(source)) {
          open.push_back(source);
          find_sources(source);
        }
      } else {
        order_.push_back(open.back());
        listed_.resize(items_.size());
        listed_[open.back()] = true;
        open.pop_back();
      }
    }
  }
  /// What is written to comes first, and once.
  void find_sources(uint32_t i) {
    if (items_[i].moved) return;
    const Step& step = *items_[i].cell->step;
    std::vector<uint32_t> reads;
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      if (!step.inputs[k].cell || (k > 0 && step.writes && step.inputs[k].cell == step.inputs[0].cell)) continue;
      const uint32_t read = item(step.inputs[k].cell);
      ++items_[read].uses;
      reads.push_back(read);
    }
    items_[i].reads = std::move(reads);
  }
  /// Finds items that are made together: each writes to the result of the one before, which nobody else reads.
  void find_together() {
    for (const uint32_t i : order_) {
      const Item& item = items_[i];
      if (item.bytes || item.moved || !item.cell->step->writes) continue;
      Item& before = items_[item.reads[0]];
      if (before.bytes || before.moved || before.uses != 1 || !can_follow(*item.cell->step, *before.cell)) continue;
      before.waits =
          begins_together(*before.cell->step) || (before.cell->step->writes && items_[before.reads[0]].waits);
    }
  }
  bool is_listed(uint32_t i) const { return i < listed_.size() && listed_[i]; }
  void drop(uint32_t i) {
    Item& item = items_[i];
    if (--item.uses == 0) item.bytes = nullptr;
  }
  void drop_reads(uint32_t i) {
    for (const uint32_t read : items_[i].reads) {
      if (items_[read].waits) drop_reads(read);
      drop(read);
    }
  }

  Tensor given(const Input& input) {
    if (input.cell) return input.geometry.on(items_[known_.at(input.cell.get())].bytes);
    const Tensor held = [&] {
      const Locked locked;
      return input.held;
    }();
    if (!input.scratch) return held;
    Tensor copy = empty_strided(held.sizes(), held.strides(), held.dtype(), held.device());
    copy_elements(copy, held);
    copy.impl()->flags |= held.flags() & (kConjugate | kPrivateLayout);
    return copy;
  }

  void make(uint32_t i) {
    std::vector<Ref<Cell>> cells{items_[i].cell};  // with those that are made together with it, the last one first
    for (uint32_t k = i; items_[k].cell->step->writes && items_[items_[k].reads[0]].waits;)
      cells.push_back(items_[k = items_[k].reads[0]].cell);
    const Ref<Step> step = cells.back()->step;
    std::optional<Stopwatch> watch;
    if (cells[0]->device.is_cpu() || (step->times && step->times->are_wanted())) watch.emplace(cells[0]->device);
    {
      const RepeatNote note(step->op->id);
      const AsBefore bare;
      const RepeatedDraws draws(step->drawn);
      if (begins_together(*step)) call_together(items_[i], cells);
      else if (step->writes) write(items_[i], *step);
      else call(items_[i], *step);
    }
    note(cells, watch ? watch->end(step->percent == 100 ? step->times : nullptr) : 0);
    give(items_[i]);
  }
  /// Tells how long it took, 0 where that is not known yet: what was made together has parts as they were expected.
  static void note(const std::vector<Ref<Cell>>& cells, uint64_t took) {
    uint64_t expected = 0;
    std::vector<uint64_t> parts;
    const Locked locked;
    for (const Ref<Cell>& cell : cells) expected += parts.emplace_back(std::max<uint64_t>(time_of(*cell->step), 1));
    for (size_t k = 0; k < cells.size(); ++k) {
      Step& step = *cells[k]->step;
      const uint64_t part = took ? std::max<uint64_t>(took * parts[k] / expected, 1) : parts[k];
      if (took && step.times && step.percent < 100) step.times->note_shorter(part);
      if (took && !step.times) step.ns = std::min(step.ns, part);
      report_of(cells[k]->device).note_again({step.op->id, step.place}, cells[k]->bytes, part);
    }
  }

  void read(Item& item) {
    const Cell& cell = *item.cell;
    const uint64_t began = clock_ns();
    {
      const AsBefore bare;
      item.bytes = read_back(cell, *item.moved);
      fetch_next(cell);
    }
    report_of(cell.device).note_moved({cell.step->op->id, cell.step->place}, cell.bytes, true, clock_ns() - began);
    give(item);
  }

  std::vector<Value> arguments(const Step& step, const Tensor* own) {
    std::vector<Value> given_to = step.arguments;
    std::vector<std::pair<uint32_t, std::vector<Tensor>>> lists;
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      const auto [argument, element] = step.places[k];
      Tensor tensor = own && k == 0                                       ? *own
                      : own && step.inputs[k].cell == step.inputs[0].cell ? step.inputs[k].geometry.on(storage_of(*own))
                                                                          : given(step.inputs[k]);
      if (element < 0) {
        given_to[argument] = std::move(tensor);
        continue;
      }
      if (lists.empty() || lists.back().first != argument)
        lists.emplace_back(argument, std::vector<Tensor>(step.arguments[argument].tensors()));
      lists.back().second[static_cast<size_t>(element)] = std::move(tensor);
    }
    for (auto& [argument, list] : lists) given_to[argument] = std::move(list);
    return given_to;
  }
  static Ref<Storage> storage_of(const Tensor& t) { return Ref<Storage>::share(t.storage()); }
  static std::vector<Value> run_op(const Step& step, const std::vector<Value>& given) {
    std::vector<const Value*> pointers;
    for (const Value& value : given) pointers.push_back(&value);
    std::vector<Value> made(std::max<size_t>(step.op->results.size(), 1));
    step.op->call(pointers.data(), made.data());
    return made;
  }

  void call(Item& item, const Step& step) {
    std::vector<Tensor> made;  // by number, as the step counts results
    for (const Value& value : run_op(step, arguments(step, nullptr))) {
      if (value.kind() == Value::Kind::Tensors) made.insert(made.end(), value.tensors().begin(), value.tensors().end());
      else made.push_back(value.is_tensor() ? value.tensor() : Tensor());
    }
    take_results(step, made, 0);
    FACULA_CHECK(item.bytes, ErrorKind::Runtime, "memory budget: ", step.op->key(), " gave no result again");
  }
  /// The same for the last of `cells`, whose op has found out what makes it cheaper, and for those that follow.
  void call_together(Item& item, const std::vector<Ref<Cell>>& cells) {
    const Step& step = *cells.back()->step;
    std::vector<Follower> followers;
    for (size_t k = cells.size() - 1; k-- > 0;) {
      const Step& next = *cells[k]->step;
      followers.push_back({&next, next.inputs.size() > 1 ? given(next.inputs[1]) : Tensor()});
    }
    std::vector<Tensor> made = run_together(arguments(step, nullptr), step, followers);
    if (followers.empty()) {
      take_results(step, made, 0);
      FACULA_CHECK(item.bytes, ErrorKind::Runtime, "memory budget: ", step.op->key(), " gave no result again");
      return;
    }
    take_results(step, made, 1);
    check_alike(*cells.back(), made[0], step);
    item.bytes = storage_of(made[0]);
  }
  void take_results(const Step& step, const std::vector<Tensor>& made, size_t first) {
    for (size_t which = first; which < step.made.size(); ++which) {
      Ref<Cell> cell;
      {
        const Locked locked;
        Cell* made_first = step.made[which];  // by somebody, who may be letting go of it
        if (made_first && (known_.contains(made_first) || made_first->saved > 0)) cell = Ref<Cell>::share(made_first);
      }
      if (cell) take(cell, made[which], step);
    }
  }
  /// The result of a step. It is the same bytes in the same order, or an error.
  void take(const Ref<Cell>& cell, const Tensor& t, const Step& step) {
    const auto found = known_.find(cell.get());
    const bool wanted = found != known_.end() && !items_[found->second].bytes && items_[found->second].uses > 0;
    const bool saved = cell->is_gone();
    if (!wanted && !saved) return;
    check_alike(*cell, t, step);
    const auto bytes = Ref<Storage>::share(t.storage());
    if (wanted) items_[found->second].bytes = bytes;
    if (saved) adopt(*cell, bytes);
  }

  static void check_alike(const Cell& cell, const Tensor& t, const Step& step) {
    const Geometry now(t);
    const bool alike = t.storage()->nbytes == cell.bytes && now.strides == cell.result.strides &&
                       now.sizes == cell.result.sizes && can_be_in_cell(t.storage());
    FACULA_CHECK(alike, ErrorKind::Runtime, "memory budget: ", step.op->key(),
                 " gave another result than at its call, got shape ", t.sizes(), " and strides ", t.strides());
  }

  void write(Item& item, const Step& step) {
    const uint32_t from = item.reads[0];
    Item& before = items_[from];
    const bool last = before.uses == 1;
    Ref<Storage> bytes = last ? before.bytes : storage_of(copy_of_bytes(before.bytes.get()));
    {
      const Tensor own = step.inputs[0].geometry.on(bytes);
      run_op(step, arguments(step, &own));
    }
    item.bytes = std::move(bytes);
  }

  /// A saved value gets its bytes back.
  void give(Item& item) {
    if (item.cell->is_gone()) adopt(*item.cell, item.bytes);
  }
  static void adopt(Cell& cell, const Ref<Storage>& bytes) {
    const Locked locked;
    if (!cell.is_gone() || bytes->release_data != release_allocated) return;
    bytes->version.store(cell.version, std::memory_order_relaxed);
    bytes->writer.store(cell.writer, std::memory_order_relaxed);
    put(cell, bytes.get());
    cell.last_use = time_of_use();
  }

  std::vector<Item> items_;
  std::unordered_map<const Cell*, uint32_t> known_;
  std::vector<uint32_t> order_;
  std::vector<bool> listed_;
};

/// A storage in the place of one that was overwritten: it has its version and writer, and no bytes.
Ref<Storage> overwritten_bytes(const Cell& cell) {
  const Tensor none = empty({0}, DType::UInt8, cell.device);
  const Locked locked;
  const Fate& fate = *cell.fate;
  none.storage()->version.store(fate.storage ? fate.storage->current_version() : fate.version);
  none.storage()->writer.store(fate.storage ? fate.storage->last_writer() : fate.writer);
  return Ref<Storage>::share(none.storage());
}

/// The storage where the bytes are here, also those that were changed since: who saved them looks at the version.
Ref<Storage> present_bytes(Cell& cell) {
  const Locked locked;
  if (!cell.storage) return {};
  cell.last_use = time_of_use();
  return Ref<Storage>::share(cell.storage);
}

}  // namespace

uint16_t op_that_runs_again() { return runs_again; }

Ref<Storage> bytes_of(const Ref<Cell>& cell) {
  if (Ref<Storage> here = present_bytes(*cell)) return here;
  if (cell->overwritten) return overwritten_bytes(*cell);
  const Alone alone;
  if (Ref<Storage> here = present_bytes(*cell)) return here;  // another thread was faster
  return Repetition(cell).run();
}

}  // namespace facula::budget
