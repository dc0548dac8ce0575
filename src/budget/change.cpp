#include "budget/change.h"

#include <algorithm>

#include "budget/choose.h"
#include "budget/repeat.h"
#include "core/kernel.h"

namespace facula::budget {
namespace {

constexpr size_t kLittle = size_t{1} << 20;

/// Calls f(input) for what steps hold of a storage. With the lock held.
template <class F>
void each_input(const Storage* storage, F&& f) {
  for (Step* step = cells().first_step; step; step = step->after)
    for (Input& input : step->inputs)
      if (input.held.defined() && !input.scratch && input.held.storage() == storage) f(*step, input);
}

void stop_watching(Storage* storage) { storage->asks.fetch_and(static_cast<uint8_t>(~kReadAgain)); }

/// Whether a copy has to be made; where not, all is done.
bool needs_copy(Storage* storage) {
  Locked locked;
  bool read = false, needed = false;
  each_input(storage, [&](Step& step, Input&) {
    read = true;
    needed = needed || is_needed(step);
  });
  if (read && (needed || storage->nbytes <= kLittle)) return true;
  each_input(storage, [&](Step& step, Input& input) {
    never_repeat(step);
    locked.dead.tensors.push_back(std::exchange(input.held, Tensor()));
  });
  stop_watching(storage);
  return false;
}

void will_change(Storage* storage) {
  if (!needs_copy(storage)) return;
  const Unwatched unseen;
  const Tensor copy = copy_of_bytes(storage);
  const auto bytes = Ref<Storage>::share(copy.storage());
  Locked locked;
  each_input(storage, [&](Step&, Input& input) {
    locked.dead.tensors.push_back(std::exchange(input.held, Geometry(input.held).on(bytes)));
  });
  stop_watching(storage);
}

/// No cell goes while one lives.
class NothingGoes {
 public:
  NothingGoes() { change(1); }
  ~NothingGoes() { change(-1); }
  NothingGoes(const NothingGoes&) = delete;

 private:
  static void change(int by) {
    const Locked locked;
    cells().holds += by;
  }
};

void settings_change() {
  const NothingGoes meanwhile;
  for (;;) {
    Ref<Cell> gone;
    {
      const Locked locked;
      for (Cell* cell = cells().first; cell && !gone; cell = cell->after)
        if (cell->is_gone() && cell->needs_steps()) gone = Ref<Cell>::share(cell);
      for (Step* step = gone ? nullptr : cells().first_step; step; step = step->after) step->repeatable = false;
    }
    if (!gone) return;
    bytes_of(gone);
  }
}

}  // namespace

void install_changes() {
  budget_hooks.will_change = will_change;
  budget_hooks.settings_change = settings_change;
}

}  // namespace facula::budget
