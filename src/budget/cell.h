// Defines cells: bytes that autograd saved, together with the steps that computed them, so that a memory budget can
// evict them.
//
//   - A *cell* stands for the bytes of a storage between two writes. It knows the *step* that computed them: the call
//     that made the storage, or one that wrote to it in place. Steps know the cells or tensors that they read, and
//     nodes know cells (SavedCell). What a cell or step knows is older than itself, so there are no circles, and all of
//     it is freed with the graph.
//   - The bytes are *here*, in the cell's storage, or *gone*; a copy may lie elsewhere (moved.h). The storage owns the
//     cell. The cell owns the storage while saved values need the bytes. A reference count of one then means that
//     nobody else has the storage, and it may be evicted.
//   - No tensor of the program is ever without bytes: a storage that is evicted has no tensors.
//   - A write in place that is a step gives the storage another cell, and the cell before it is *overwritten*. Its
//     bytes are computed again for steps that read them. Whoever saved them is notified of the write, as without a
//     budget.
//   - A write that is no step ends a cell: the version of its storage is not the one that the cell knows. Steps that
//     read it before stay true.
//
// One lock guards what cells and steps know of each other. It is held for loads and stores only: no op runs, and
// nothing is released, under it (Locked).
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "core/budget_hooks.h"
#include "core/draws.h"
#include "core/findings.h"
#include "core/recipe.h"
#include "program/boxed.h"

namespace facula::budget {

struct Cell;
struct Step;
class Moved;
class SavedCell;
class Times;
void retain(Cell* cell);
void release(Cell* cell);
void retain(Step* step);
void release(Step* step);

/// Which elements of a storage a tensor shows, and as what.
struct Geometry {
  Geometry() = default;
  explicit Geometry(const Tensor& tensor);
  /// A tensor without history.
  Tensor on(const Ref<Storage>& storage) const;

  Dims sizes, strides;
  int64_t offset = 0;  // bytes
  DType dtype = DType::Float32;
  uint32_t flags = 0;  // of kKeptFlags
};

/// A tensor that a step reads.
struct Input {
  Ref<Cell> cell;  // null: no cell has it, `held` does
  Geometry geometry;
  Tensor held;           // as it was; others may hold it, too, and say so before they write to it (kReadAgain)
  bool scratch = false;  // the step writes to it: a copy is given each time
};

/// One call of an op.
struct Step {
  /// Where an input belongs: the argument, and for a list the place in it.
  struct Place {
    uint32_t argument;
    int32_t element;  // -1: the argument itself
  };
  RefCount refs;
  const BoxedOp* op = nullptr;
  std::vector<Value> arguments;  // as the table has them, without tensors
  std::vector<Place> places;     // of the inputs
  std::vector<Input> inputs;
  DrawStates drawn;
  Findings found;
  std::vector<Cell*> made;         // by number of the result; null: it has none, or it died
  uint64_t ns = 0;                 // that a run takes (time_of)
  Times* times = nullptr;          // what calls like it were seen to take; null: nobody looked
  uint64_t modeled_ns = 0;         // what is expected of its sizes (modeled.h)
  uint32_t percent = 100;          // of the time of a call that a run takes (together.h), where none was measured
  uint32_t place = 0;              // where the program was (budget/places.h)
  bool writes = false;             // to its first input, in place
  bool repeatable = true;          // so are then the steps of all cells that it reads: these may go, too
  uint64_t seen = 0, reached = 0;  // the last walks that came by
  Step *before = nullptr, *after = nullptr;
};

/// What becomes of a storage that was overwritten: errors name its version and who wrote to it last.
struct Fate {
  const Storage* storage = nullptr;  // null: it died, or is no cell's any more
  uint32_t version = 0;
  uint16_t writer = 0;
  Ref<Storage> held;  // where it is no cell's any more, and may be written to still
};

struct Cell {
  RefCount refs;
  Device device;
  size_t bytes = 0;
  Storage* storage = nullptr;  // null: the bytes are gone
  uint32_t saved = 0;          // values of nodes that want the bytes: then `storage` is owned
  uint32_t version = 0;        // of the storage
  uint16_t writer = 0;         // the op that wrote last
  bool ended = false;          // the storage was changed by no step
  bool overwritten = false;    // by the step of another cell, which has the storage
  uint64_t last_use = 0;       // time_of_use()
  Geometry result;             // as the step gave it
  Ref<Step> step;
  uint32_t which = 0;          // result of the step; of a write in place 0
  std::shared_ptr<Fate> fate;  // of cells of a storage that was overwritten
  std::vector<Step*> readers;
  std::shared_ptr<Moved> moved;              // where the bytes lie, too, or null (moved.h)
  Cell *before = nullptr, *after = nullptr;  // of those with saved values

  bool is_here() const { return storage && saved && !ended; }
  /// Whether saved values want the bytes, and they have to be made.
  bool is_gone() const { return saved && !storage && !overwritten; }
  /// Whether the bytes lie elsewhere.
  bool can_be_read() const;
  /// Whether who reads them needs the steps that make them.
  bool needs_steps() const { return !is_here() && !can_be_read(); }
};

constexpr int kMostDevices = 64;  // CUDA devices that can have a budget, beside the CPU
/// 0 for the CPU, 1 for the first CUDA device, ...
inline size_t number_of(Device device) {
  return device.is_cuda() ? 1 + static_cast<size_t>(std::clamp<int>(device.index, 0, kMostDevices - 1)) : 0;
}

/// Bytes of cells that saved values have.
struct SavedBytes {
  size_t here = 0, gone = 0;
};

/// What cells have in common.
struct Cells {
  std::mutex lock;
  Cell* first = nullptr;                           // those with saved values
  SavedCell* first_saved = nullptr;                // those that stand for a tensor that may change
  Step* first_step = nullptr;                      // all that are alive
  std::array<SavedBytes, kMostDevices + 1> saved;  // by number_of() the device
  uint64_t walks = 0;
  int holds = 0;  // while it is not 0, nothing goes
};
Cells& cells();

/// Holds the lock. What is to be released is put into `dead`, and released without it.
class Locked {
 public:
  Locked() : lock_(cells().lock) { held = true; }
  Locked(const Locked&) = delete;
  ~Locked() {
    held = false;
    lock_.unlock();
  }
  /// Whether this thread holds it: a small block that is requested then makes no room.
  static bool is_held() { return held; }

 private:
  struct Dead {
    std::vector<Ref<Storage>> storages;
    std::vector<Ref<Cell>> cells;
    std::vector<Tensor> tensors;
    std::vector<std::shared_ptr<void>> others;
  };

 public:
  Dead dead;  // destroyed after the destructor's body: without the lock

 private:
  std::unique_lock<std::mutex> lock_;
  static thread_local constinit bool held;
};

/// The cell of a storage, if it knows how the present bytes were made; null for others. With the lock held.
Cell* cell_of(const Storage* storage);
/// Gives a fresh storage of the allocator, which nobody but `cell` will know as its own, to the cell. With the lock
/// held.
void put(Cell& cell, Storage* storage);
/// The storage of `before` was written to: it belongs to `after` from now on. With the lock held.
void overwrite(Cell& before, Cell& after, Locked& locked);
/// Takes the bytes away, which is_alone(): the storage goes to the dead.
void take_away(Cell& cell, Locked& locked);
/// Whether the cell's bytes are here and nobody but saved values can see them.
bool is_alone(const Cell& cell);
/// Whether a storage can be a cell's: bytes of a device's allocator that nobody else knows.
bool can_be_in_cell(const Storage* storage);

/// Returns the nanoseconds that a run of the step takes, as far as they are known now. With the lock held.
uint64_t time_of(Step& step);

/// Adds a step that is complete to the lists. With the lock held.
void enlist(Step& step);

/// Makes the hooks below autograd work. Once.
void install_cells();

/// A copy of all bytes of a storage. Without the lock.
Tensor copy_of_bytes(Storage* storage);

/// Nanoseconds of the clock on the wall.
uint64_t clock_ns();

}  // namespace facula::budget
