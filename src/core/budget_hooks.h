// Declares the calls by which lower layers query and notify a memory budget (src/budget). Without a budget nobody makes
// them.
//   - A storage whose bytes a budget may evict is a *cell's*: `release_data` is release_in_cell, and `context` is the
//     cell. Otherwise it is like any storage with bytes of its device's allocator, and it never lacks them: a cell that
//     evicts bytes releases the storage, which nobody else holds.
//   - Memory that cells need unchanged in order to be computed again carries kReadAgain, one of Asks. Whoever changes
//     it says so before.
#pragma once

#include <string>

#include "core/tensor.h"

namespace facula {

constexpr uint32_t kInCell = 1u << 21;  // a flag of tensors: the storage may be a cell's; saved values ask it
constexpr uint8_t kReadAgain = 8;       // one of Asks: recipes of cells may read the storage again

struct BudgetHooks {
  /// Lets go of bytes on `device` that can be made again until so many have gone, or none is left. Runs no op; may be
  /// called on any thread from inside any kernel, without locks. Returns how many went: their blocks are back.
  size_t (*make_room)(Device device, size_t bytes) = nullptr;
  /// What could not go, and the smallest budget that would have done, for an error's text.
  std::string (*why_full)(Device device, size_t bytes) = nullptr;
  /// The public name of the op that this thread runs; "" where that is not known.
  std::string (*present_op)() = nullptr;
  /// A cell's storage dies, or becomes a plain one: nobody asks the cell for its bytes any more.
  void (*storage_ends)(Storage* storage) = nullptr;
  void (*storage_leaves)(Storage* storage) = nullptr;
  /// Memory with kReadAgain is about to change.
  void (*will_change)(Storage* storage) = nullptr;
  /// A setting that ops look at is about to change.
  void (*settings_change)() = nullptr;
  /// The elements of `from` were written to `to` outside of ops, and are not counted yet.
  void (*elements_copied)(const Tensor& to, const Tensor& from) = nullptr;
  /// A tensor gets another storage with its elements in the promised layout, in place of `before`.
  void (*layout_materialized)(const Tensor& before, const Tensor& after) = nullptr;
};
extern BudgetHooks budget_hooks;

/// Of a cell's storage, when it dies.
void release_in_cell(Storage* storage);
inline bool is_in_cell(const Storage* storage) {
  return __atomic_load_n(&storage->release_data, __ATOMIC_RELAXED) == release_in_cell;
}
/// Makes a cell's storage a plain one, for who takes its bytes or changes it.
void leave_cell(Storage* storage);

}  // namespace facula
