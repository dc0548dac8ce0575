#include "budget/cell.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>

#include "autograd/saved.h"
#include "budget/modeled.h"
#include "budget/repeat.h"
#include "budget/times.h"
#include "core/kernel.h"
#include "core/storage_bytes.h"
#include "core/tensor_changes.h"

namespace facula::budget {
namespace {

/// What a tensor says beside its geometry that kernels look at.
constexpr uint32_t kKeptFlags = kConjugate | kPrivateLayout | kInference;

// Cells and steps that nobody holds. They are taken apart one after the other, however long the chain.
struct Unheld {
  std::vector<Cell*> cells;
  std::vector<Step*> steps;
  bool working = false;
};
thread_local Unheld unheld;

template <class T>
void unlink(T*& first, T& item) {
  if (item.before) item.before->after = item.after;
  else if (first == &item) first = item.after;
  if (item.after) item.after->before = item.before;
  item.before = item.after = nullptr;
}
template <class T>
void link(T*& first, T& item) {
  item.after = std::exchange(first, &item);
  if (item.after) item.after->before = &item;
}

void end_cell(Cell* cell) {
  const std::unique_ptr<Cell> owned(cell);
  Locked locked;
  if (cell->step) cell->step->made[cell->which] = nullptr;
}

void end_step(Step* step) {
  const std::unique_ptr<Step> owned(step);
  Locked locked;
  unlink(cells().first_step, *step);
  for (const Input& input : step->inputs)
    if (input.cell) std::erase(input.cell->readers, step);
}

void end_unheld() {
  if (std::exchange(unheld.working, true)) return;
  while (!unheld.cells.empty() || !unheld.steps.empty()) {
    if (!unheld.cells.empty()) {
      Cell* cell = unheld.cells.back();
      unheld.cells.pop_back();
      end_cell(cell);
    } else {
      Step* step = unheld.steps.back();
      unheld.steps.pop_back();
      end_step(step);
    }
  }
  unheld.working = false;
}

/// The storage is the cell's no longer. With the lock held; the share that it had in the cell goes to the dead.
Cell* part(Storage* storage, Locked& locked) {
  auto* cell = static_cast<Cell*>(std::exchange(storage->context, nullptr));
  __atomic_store_n(&storage->release_data, &release_allocated, __ATOMIC_RELAXED);
  if (!cell) return nullptr;
  locked.dead.cells.push_back(Ref<Cell>::adopt(cell));
  if (cell->fate && cell->fate->storage == storage)
    *cell->fate = {nullptr, storage->current_version(), storage->last_writer(), {}};
  return cell;
}

void storage_ends(Storage* storage) {
  Locked locked;
  Cell* cell = part(storage, locked);
  if (cell && cell->storage == storage) cell->storage = nullptr;
}

/// Returns true if an error will state what became of the storage.
bool is_wanted(const Fate& fate) {
  for (const Cell* cell = cells().first; cell; cell = cell->after)
    if (cell->overwritten && cell->fate.get() == &fate) return true;
  return false;
}

void storage_leaves(Storage* storage) {
  Locked locked;
  Cell* cell = is_in_cell(storage) ? part(storage, locked) : nullptr;
  if (!cell || cell->storage != storage) return;
  if (cell->fate && is_wanted(*cell->fate)) *cell->fate = {storage, 0, 0, Ref<Storage>::share(storage)};
  cell->ended = true;
  if (!cell->saved) cell->storage = nullptr;
}

SavedBytes& saved_on(const Cell& cell) { return cells().saved[number_of(cell.device)]; }

/// Counts one saved value less, and releases the storage after the last one.
void leave(Cell& cell, Locked& locked) {
  if (--cell.saved > 0) return;
  unlink(cells().first, cell);
  if (!cell.storage) {
    if (!cell.overwritten) saved_on(cell).gone -= cell.bytes;
    return;
  }
  saved_on(cell).here -= cell.bytes;
  locked.dead.storages.push_back(Ref<Storage>::adopt(cell.storage));
  if (cell.ended) cell.storage = nullptr;
}

}  // namespace

/// Stands in a node for a saved tensor: it holds the tensor's cell, or the tensor itself once that has other memory or
/// no history any more, as the node would see it without a budget.
class SavedCell final : public PackedTensor {
 public:
  SavedCell(Ref<Cell> cell, const Tensor& tensor) : cell_(std::move(cell)), geometry_(tensor) {}
  SavedCell(const SavedCell&) = delete;
  ~SavedCell() override {
    Locked locked;
    if (impl_) unlink(cells().first_saved, *this);
    if (cell_) leave(*cell_, locked);
  }
  Tensor unpack() override {
    Ref<Cell> cell;
    {
      const Locked locked;
      if (itself_.defined()) return itself_;
      cell = cell_;
    }
    return geometry_.on(bytes_of(cell));
  }
  void watch(TensorImpl* impl) {
    std::atomic_ref(impl->flags).fetch_or(kSavedInCell, std::memory_order_relaxed);
    const Locked locked;
    impl_ = impl;
    link(cells().first_saved, *this);
  }
  /// Returns true if it stands for the tensor at this address, with this memory. The caller holds the lock.
  bool stands_for(const TensorImpl* impl) const {
    const Storage* written = cell_->fate ? cell_->fate->storage : nullptr;
    return impl_ == impl && (impl->storage == cell_->storage || impl->storage == written);
  }
  /// Holds the tensor itself from now on. The caller holds the lock.
  void become(const Tensor& tensor, Locked& locked) {
    itself_ = tensor;
    unlink(cells().first_saved, *this);
    impl_ = nullptr;
    leave(*cell_, locked);
    locked.dead.cells.push_back(std::move(cell_));
  }

  SavedCell *before = nullptr, *after = nullptr;  // of those that stand for a tensor that may change

 private:
  Ref<Cell> cell_;
  Geometry geometry_;
  const TensorImpl* impl_ = nullptr;  // of that tensor, which may be no more
  Tensor itself_;
};

namespace {

void tensor_changes(const Tensor& tensor) {
  Locked locked;
  for (SavedCell* next = cells().first_saved; next;) {
    SavedCell* saved = std::exchange(next, next->after);
    if (saved->stands_for(tensor.impl())) saved->become(tensor, locked);
  }
}

std::unique_ptr<PackedTensor> save(const Tensor& tensor) {
  Ref<Cell> cell;
  {
    Locked locked;
    Cell* found = cell_of(tensor.storage());
    if (!found) return nullptr;
    cell = Ref<Cell>::share(found);
    cell->last_use = time_of_use();
    if (cell->saved++ == 0) {
      facula::retain(cell->storage);
      saved_on(*cell).here += cell->bytes;
      link(cells().first, *cell);
    }
  }
  return std::make_unique<SavedCell>(std::move(cell), tensor);
}

}  // namespace

thread_local constinit bool Locked::held = false;

void retain(Cell* cell) { cell->refs.increment(); }
void release(Cell* cell) {
  if (!cell->refs.decrement()) return;
  unheld.cells.push_back(cell);
  end_unheld();
}
void retain(Step* step) { step->refs.increment(); }
void release(Step* step) {
  if (!step->refs.decrement()) return;
  unheld.steps.push_back(step);
  end_unheld();
}

Cells& cells() {
  static Cells* instance = [] {
    pthread_atfork([] { cells().lock.lock(); }, [] { cells().lock.unlock(); }, [] { cells().lock.unlock(); });
    return new Cells;
  }();
  return *instance;
}

Geometry::Geometry(const Tensor& tensor)
    : sizes(tensor.sizes()),
      strides(tensor.strides()),
      offset(tensor.byte_offset()),
      dtype(tensor.dtype()),
      flags(tensor.flags() & kKeptFlags) {}

Tensor Geometry::on(const Ref<Storage>& storage) const {
  TensorImpl* impl = new_impl();
  impl->storage = Ref<Storage>(storage).detach();
  impl->data = impl->storage->data + offset;
  impl->dtype = dtype;
  impl->ndim = 0;
  impl->flags = flags | kInCell;
  Tensor tensor = Tensor::adopt(impl);
  set_sizes(impl, sizes, strides);
  return tensor;
}

Cell* cell_of(const Storage* storage) {
  if (!is_in_cell(storage)) return nullptr;
  auto* cell = static_cast<Cell*>(storage->context);
  if (!cell || cell->storage != storage || cell->ended) return nullptr;
  cell->ended = storage->current_version() != cell->version;
  return cell->ended ? nullptr : cell;
}

void put(Cell& cell, Storage* storage) {
  cell.storage = storage;
  if (cell.fate) *cell.fate = {storage, 0, 0, {}};
  retain(&cell);
  storage->context = &cell;
  __atomic_store_n(&storage->release_data, &release_in_cell, __ATOMIC_RELAXED);
  if (!cell.saved) return;
  facula::retain(storage);
  saved_on(cell).here += cell.bytes;
  saved_on(cell).gone -= cell.bytes;
}

void overwrite(Cell& before, Cell& after, Locked& locked) {
  Storage* storage = std::exchange(before.storage, nullptr);
  before.overwritten = true;
  if (!before.fate) before.fate = std::make_shared<Fate>(Fate{storage, 0, 0, {}});
  after.fate = before.fate;
  after.storage = storage;
  retain(&after);
  locked.dead.cells.push_back(Ref<Cell>::adopt(static_cast<Cell*>(std::exchange(storage->context, &after))));
  if (!before.saved) return;
  saved_on(before).here -= before.bytes;
  locked.dead.storages.push_back(Ref<Storage>::adopt(storage));
}

void take_away(Cell& cell, Locked& locked) {
  Storage* storage = std::exchange(cell.storage, nullptr);
  cell.writer = storage->last_writer();
  part(storage, locked);
  saved_on(cell).here -= cell.bytes;
  saved_on(cell).gone += cell.bytes;
  locked.dead.storages.push_back(Ref<Storage>::adopt(storage));
}

bool is_alone(const Cell& cell) {
  const Storage* s = cell.storage;
  return cells().holds == 0 && cell.is_here() && is_in_cell(s) && s->refs.load() == 1 && s->exposures.load() == 0 &&
         s->current_version() == cell.version;
}

bool can_be_in_cell(const Storage* s) {
  return s->release_data == release_allocated && s->refs.load() == 1 && s->exposures.load() == 0 && s->resizable &&
         !s->asks_first() && s->data && (s->device.is_cpu() || s->device.is_cuda());
}

void enlist(Step& step) {
  step.modeled_ns = modeled_ns(step);
  link(cells().first_step, step);
  for (const Input& input : step.inputs) {
    if (!input.cell) continue;
    input.cell->readers.push_back(&step);
    step.repeatable = step.repeatable && input.cell->step->repeatable;
  }
}

void install_cells() {
  budget_hooks.storage_ends = storage_ends;
  budget_hooks.storage_leaves = storage_leaves;
  save_in_cell = save;
  change_hooks = {[](PackedTensor& saved, const Tensor& t) { static_cast<SavedCell&>(saved).watch(t.impl()); },
                  tensor_changes};
}

namespace {
uint64_t read_clock(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}
}  // namespace
Tensor copy_of_bytes(Storage* storage) {
  const auto count = static_cast<int64_t>(storage->nbytes);
  Tensor copy = empty({count}, DType::UInt8, storage->device);
  copy_elements(copy, tensor_on_storage(storage, DType::UInt8, 0, {count}, {1}, "memory budget"));
  return copy;
}
uint64_t clock_ns() { return read_clock(CLOCK_MONOTONIC); }
uint64_t thread_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

uint64_t time_of(Step& step) {
  if (are_modeled()) return step.modeled_ns * step.percent / 100;
  const uint64_t shorter = step.times && step.percent < 100 ? step.times->shorter_ns() : 0;
  if (shorter) step.ns = shorter;
  else if (const uint64_t seen = step.times ? step.times->ns() : 0) step.ns = seen * step.percent / 100;
  return step.ns;
}

uint64_t time_of_maker(const Tensor& tensor) {
  const Locked locked;
  Cell* cell = cell_of(tensor.storage());
  return cell ? time_of(*cell->step) : 0;
}

}  // namespace facula::budget
