#include "budget/held_cells.h"

#include <unordered_set>

#include "budget/choose.h"
#include "budget/record.h"

namespace facula::budget {
namespace {

/// Storages that the call reads which this thread is in.
std::unordered_set<const void*> read_now() {
  std::unordered_set<const void*> storages;
  if (const OpCall* call = present_call()) {
    for (const Argument& argument : call->arguments)
      argument.each_tensor([&](const Tensor& t) { storages.insert(t.storage()); });
  }
  return storages;
}

}  // namespace

std::vector<HeldMemory> held_in_cells(Device device) {
  const std::unordered_set<const void*> needed = read_now();
  std::unordered_set<const Cell*> seen;
  std::vector<HeldMemory> found;
  const auto add = [&](const Cell& cell) {
    if (!cell.storage || cell.device != device || !seen.insert(&cell).second) return;
    const bool can_go = is_alone(cell) && can_come_back(cell);
    if (can_go) return;
    const HeldKind kind = needed.contains(cell.storage) ? HeldKind::NeededNow
                          : is_alone(cell)              ? HeldKind::Saved
                                                        : HeldKind::Program;
    const Step& step = *cell.step;
    found.push_back({cell.storage, kind, cell.bytes, cell.result.sizes, cell.result.dtype, {step.op->id, step.place}});
  };
  const Locked locked;
  for (const Cell* cell = cells().first; cell; cell = cell->after) add(*cell);
  for (const Step* step = cells().first_step; step; step = step->after)
    for (const Cell* cell : step->made)
      if (cell) add(*cell);
  return found;
}

}  // namespace facula::budget
