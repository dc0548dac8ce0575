#include "budget/choose.h"

#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "budget/modeled.h"
#include "budget/moved.h"
#include "budget/report.h"
#include "core/budget_bound.h"

namespace facula::budget {
namespace {

/// Adds up the time of steps, and of reading what lies elsewhere, each once.
class Walk {
 public:
  explicit Walk(uint64_t number) : number_(number) {}
  /// Steps that must run before the cell has its bytes, with its own.
  void before(const Cell& cell) {
    std::vector<const Cell*> open{&cell};
    while (!open.empty()) {
      const Cell& next = *open.back();
      open.pop_back();
      if (next.can_be_read()) {
        if (read_.insert(&next).second) ns_ += next.moved->read_ns();
        continue;
      }
      Step& step = *next.step;
      if (!add(step)) continue;
      for (const Input& input : step.inputs)
        if (input.cell && !input.cell->is_here()) open.push_back(input.cell.get());
    }
  }
  /// Steps of cells that are gone and read the cell, and of what lies between.
  void after(const Cell& cell) {
    std::vector<Step*> open;
    each_dependant(cell, false, [&](Step&, const Cell* gone) {
      if (gone) open.push_back(gone->step.get());
      return false;
    });
    while (!open.empty()) {
      Step& step = *open.back();
      open.pop_back();
      if (!add(step)) continue;
      for (const Input& input : step.inputs) {
        if (!input.cell || !input.cell->needs_steps()) continue;
        if (Step* between = input.cell->step.get(); between->reached == number_) open.push_back(between);
      }
    }
  }
  /// Calls f(step, gone) for the step and all that depend on what it makes, until f returns true.
  template <class F>
  void from(Step& step, F&& f) {
    bool ends = false;
    const auto visit = [&](Step& reached, const Cell* gone) { return ends = f(reached, gone); };
    const Cell* gone = nullptr;
    for (const Cell* made : step.made)
      if (made && made->is_gone() && made->needs_steps()) gone = made;
    visit(step, gone);
    for (const Cell* made : step.made)
      if (made && !ends) each_dependant(*made, true, visit);
  }
  uint64_t ns() const { return ns_; }

 private:
  /// Goes through the steps that read the cell, and those that read what they make; unless `all`, as far as that is not
  /// here. Calls f for each once, with a cell that it makes and that is gone, or null; ends where f returns true.
  template <class F>
  void each_dependant(const Cell& cell, bool all, F&& f) {
    std::vector<const Cell*> open{&cell};
    while (!open.empty()) {
      const Cell& next = *open.back();
      open.pop_back();
      for (Step* reader : next.readers) {
        if (std::exchange(reader->reached, number_) == number_) continue;
        const Cell* gone = nullptr;
        for (const Cell* made : reader->made) {
          if (made && made->is_gone() && made->needs_steps()) gone = made;
          if (made && (all || made->needs_steps())) open.push_back(made);
        }
        if (f(*reader, gone)) return;
      }
    }
  }

  bool add(Step& step) {
    if (step.seen == number_) return false;
    step.seen = number_;
    ns_ += time_of(step);
    return true;
  }
  uint64_t number_, ns_ = 0;
  std::unordered_set<const Cell*> read_;
};

struct Price {
  bool can_go = false;
  bool by_move = false;  // to where the bytes lie already, or have to be written
  double value = 0;
};

Price price_of(const Cell& cell, uint64_t now) {
  if (!is_alone(cell)) return {};
  const uint64_t moved = move_ns(cell);
  const bool again = cell.step->repeatable && !cell.can_be_read();
  if (!again && moved == kNever) return {};
  Walk walk(++cells().walks);
  if (again) walk.before(cell);
  if (again) walk.after(cell);
  const bool by_move = !again || moved < walk.ns();
  const auto ns = static_cast<double>(by_move ? moved : walk.ns());
  const auto stale = static_cast<double>(now - std::min(now, cell.last_use) + 1);
  return {true, by_move, ns / static_cast<double>(cell.bytes) / stale};
}

void note(const Cell& cell) {
  const Step& step = *cell.step;
  const Cause cause = cell.can_be_read() ? Cause::MovedAway : Cause::Request;
  report_of(cell.device)
      .note_let_go({step.op->id, step.place}, cell.result.sizes, cell.result.dtype, cell.bytes, cause);
}

/// A cell, and whether it is moved; null where none can go.
std::pair<Cell*, bool> cheapest(Device device) {
  const uint64_t now = time_of_use();
  const auto used_elsewhere = budget_bounds[static_cast<size_t>(device.type)].used_elsewhere;
  std::pair<Cell*, bool> best{};
  std::pair<bool, double> least;  // those that other streams use, too, go last: they are not free at once
  for (Cell* cell = cells().first; cell; cell = cell->after) {
    if (!cell->storage || cell->device != device) continue;
    const Price price = price_of(*cell, now);
    if (!price.can_go) continue;
    const std::pair value(used_elsewhere && used_elsewhere(device, cell->storage->data), price.value);
    if (best.first && value >= least) continue;
    best = {cell, price.by_move};
    least = value;
  }
  return best;
}

// ---- what only steps hold: memory that no op of theirs has made, such as a mask that was made without gradients. It
// goes where no saved value depends on it: what could not be made again any more would be more than what is won.

bool is_saved(Step& step) {
  bool saved = false;
  Walk(++cells().walks).from(step, [&](const Step& reached, const Cell*) {
    for (const Cell* made : reached.made) saved = saved || (made && made->saved > 0);
    return saved;
  });
  return saved;
}

/// Nobody knows what has made it: it is reported as what the step reads.
void note_input(const Step& step, const Storage& storage) {
  for (const Input& input : step.inputs) {
    if (!input.held.defined() || input.held.storage() != &storage) continue;
    report_of(storage.device)
        .note_let_go({0, step.place}, input.held.sizes(), input.held.dtype(), storage.nbytes, Cause::Request);
    return;
  }
}

size_t let_go_of_inputs(Device device, size_t wanted, Locked& locked) {
  struct Use {
    int32_t holds = 0;
    bool needed = false;
    std::vector<Step*> readers;
  };
  std::unordered_map<Storage*, Use> uses;
  for (Step* step = cells().first_step; step; step = step->after) {
    bool known = false, wanted_again = false;
    for (const Input& input : step->inputs) {
      if (!input.held.defined() || input.held.device() != device) continue;
      if (!std::exchange(known, true)) wanted_again = is_saved(*step);
      Use& use = uses[input.held.storage()];
      ++use.holds;
      use.needed = use.needed || wanted_again;
      use.readers.push_back(step);
    }
  }
  size_t gone = 0;
  for (auto& [storage, use] : uses) {
    if (gone >= wanted) break;
    if (use.needed || storage->refs.load() != use.holds) continue;
    gone += storage->nbytes;
    note_input(*use.readers.front(), *storage);
    for (Step* step : use.readers) {
      never_repeat(*step);
      for (Input& input : step->inputs)
        if (input.held.defined() && input.held.storage() == storage)
          locked.dead.tensors.push_back(std::exchange(input.held, Tensor()));
    }
  }
  return gone;
}

}  // namespace

bool is_needed(Step& step) {
  bool needed = false;
  Walk(++cells().walks).from(step, [&](Step&, const Cell* gone) { return needed = gone != nullptr; });
  return needed;
}

void never_repeat(Step& step) {
  if (!step.repeatable) return;
  Walk(++cells().walks).from(step, [](Step& reached, const Cell*) { return reached.repeatable = false; });
}

size_t let_go(Device device, size_t wanted, Locked& locked) {
  size_t gone = 0, moving = 0;
  while (gone + moving < wanted) {
    const auto [cell, by_move] = cheapest(device);
    if (!cell) break;
    if (by_move && !cell->can_be_read()) {
      moving += cell->bytes;
      begin_move(*cell);
      continue;
    }
    note(*cell);
    gone += cell->bytes;
    take_away(*cell, locked);
  }
  if (gone + moving < wanted) gone += let_go_of_inputs(device, wanted - gone - moving, locked);
  return gone;
}

Cell* dearest(Device device) {
  Cell* best = nullptr;
  double most = 0;
  for (Cell* cell = cells().first; cell; cell = cell->after) {
    if (!cell->storage || cell->device != device || !is_alone(*cell) || cell->can_be_read()) continue;
    Walk walk(++cells().walks);
    walk.before(*cell);
    const bool again = cell->step->repeatable;
    if (again && walk.ns() <= read_ns_from_host(*cell)) continue;
    const auto bytes = static_cast<double>(cell->bytes);
    const double value = again ? static_cast<double>(walk.ns()) / bytes : std::numeric_limits<double>::infinity();
    if (value <= most) continue;
    best = cell;
    most = value;
  }
  return best;
}

bool can_come_back(const Cell& cell) { return cell.step->repeatable || move_ns(cell) != kNever; }

size_t bytes_that_can_go(Device device) {
  size_t bytes = 0;
  for (const Cell* cell = cells().first; cell; cell = cell->after) {
    if (!cell->storage || cell->device != device || !is_alone(*cell)) continue;
    if (can_come_back(*cell)) bytes += cell->bytes;
  }
  return bytes;
}

}  // namespace facula::budget
