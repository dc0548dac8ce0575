#include "budget/choose.h"

#include <unordered_map>

#include "budget/report.h"
#include "core/budget_bound.h"

namespace facula::budget {
namespace {

/// Adds up the time of steps, each once.
class Walk {
 public:
  explicit Walk(uint64_t number) : number_(number) {}
  /// Steps that must run before the cell has its bytes, with its own; false where one of them cannot be repeated.
  bool before(const Cell& cell) {
    std::vector<const Cell*> open{&cell};
    while (!open.empty()) {
      Step& step = *open.back()->step;
      open.pop_back();
      if (!add(step)) continue;
      if (!step.repeatable) return false;
      for (const Input& input : step.inputs)
        if (input.cell && !input.cell->is_here()) open.push_back(input.cell.get());
    }
    return true;
  }
  /// Steps of cells that are gone and read the cell, and of what lies between.
  void after(const Cell& cell) {
    std::vector<Step*> open;
    each_dependant(cell, [&](const Cell* gone) {
      if (gone) open.push_back(gone->step.get());
      return false;
    });
    while (!open.empty()) {
      Step& step = *open.back();
      open.pop_back();
      if (!add(step)) continue;
      for (const Input& input : step.inputs) {
        if (!input.cell || input.cell->is_here()) continue;
        if (Step* between = input.cell->step.get(); between->reached == number_) open.push_back(between);
      }
    }
  }
  /// Whether a cell that is gone depends on what the step makes.
  bool is_needed(const Step& step) {
    bool needed = false;
    for (const Cell* made : step.made) {
      if (!made || needed) continue;
      if (made->is_gone()) return true;
      if (!made->is_here()) each_dependant(*made, [&](const Cell* gone) { return needed = gone != nullptr; });
    }
    return needed;
  }
  uint64_t ns() const { return ns_; }

 private:
  /// Goes through the steps that read the cell, and those that read what they make, as far as that is not here. Calls f
  /// for each once, with a cell that it makes and that is gone, or null; ends where f returns true.
  template <class F>
  void each_dependant(const Cell& cell, F&& f) {
    std::vector<const Cell*> open{&cell};
    while (!open.empty()) {
      const Cell& next = *open.back();
      open.pop_back();
      for (Step* reader : next.readers) {
        if (std::exchange(reader->reached, number_) == number_) continue;
        const Cell* gone = nullptr;
        for (const Cell* made : reader->made) {
          if (made && made->is_gone()) gone = made;
          if (made && !made->is_here()) open.push_back(made);
        }
        if (f(gone)) return;
      }
    }
  }

  bool add(Step& step) {
    if (step.seen == number_) return false;
    step.seen = number_;
    ns_ += step.ns;
    return true;
  }
  uint64_t number_, ns_ = 0;
};

struct Price {
  bool can_go = false;
  double value = 0;
};

Price price_of(const Cell& cell, uint64_t now) {
  Walk walk(++cells().walks);
  if (!is_alone(cell) || !walk.before(cell)) return {};
  walk.after(cell);
  const auto stale = static_cast<double>(now - std::min(now, cell.last_use) + 1);
  return {true, static_cast<double>(walk.ns()) / static_cast<double>(cell.bytes) / stale};
}

void note(const Cell& cell) {
  const Step& step = *cell.step;
  report_of(cell.device)
      .note_let_go({step.op->id, step.place}, cell.result.sizes, cell.result.dtype, cell.bytes, Cause::Request);
}

Cell* cheapest(Device device) {
  const uint64_t now = clock_ns();
  const auto used_elsewhere = budget_bounds[static_cast<size_t>(device.type)].used_elsewhere;
  Cell* best = nullptr;
  std::pair<bool, double> least;  // those that other streams use, too, go last: they are not free at once
  for (Cell* cell = cells().first; cell; cell = cell->after) {
    if (!cell->storage || cell->device != device) continue;
    const Price price = price_of(*cell, now);
    if (!price.can_go) continue;
    const std::pair value(used_elsewhere && used_elsewhere(device, cell->storage->data), price.value);
    if (best && value >= least) continue;
    best = cell;
    least = value;
  }
  return best;
}

// ---- what only steps hold: memory that no op of theirs has made, such as a mask that was made without gradients

/// Nobody knows what has made it: it is told as what the step reads.
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
    bool known = false, needed = false;
    for (const Input& input : step->inputs) {
      if (!input.held.defined() || input.held.device() != device) continue;
      if (!std::exchange(known, true)) needed = is_needed(*step);
      Use& use = uses[input.held.storage()];
      ++use.holds;
      use.needed = use.needed || needed;
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
      step->repeatable = false;
      for (Input& input : step->inputs)
        if (input.held.defined() && input.held.storage() == storage)
          locked.dead.tensors.push_back(std::exchange(input.held, Tensor()));
    }
  }
  return gone;
}

}  // namespace

bool is_needed(const Step& step) { return Walk(++cells().walks).is_needed(step); }

size_t let_go(Device device, size_t wanted, Locked& locked) {
  size_t gone = 0;
  while (gone < wanted) {
    Cell* cell = cheapest(device);
    if (!cell) break;
    note(*cell);
    gone += cell->bytes;
    take_away(*cell, locked);
  }
  if (gone < wanted) gone += let_go_of_inputs(device, wanted - gone, locked);
  return gone;
}

bool can_be_made_again(const Cell& cell) {
  Walk walk(++cells().walks);
  return walk.before(cell);
}

size_t bytes_that_can_go(Device device) {
  size_t bytes = 0;
  for (const Cell* cell = cells().first; cell; cell = cell->after) {
    if (!cell->storage || cell->device != device || !is_alone(*cell)) continue;
    if (can_be_made_again(*cell)) bytes += cell->bytes;
  }
  return bytes;
}

}  // namespace facula::budget
