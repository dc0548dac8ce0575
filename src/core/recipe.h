// Defines deferred tensors, whose bytes do not exist yet. The storage of such a tensor has a size, a device, a version
// and holders like any other. In place of bytes it has a recipe, which can compute them, and `data` is kNowhere, an
// address that no process maps. A read of memory there without materialize_bytes() faults at once and never gives a
// wrong number.
//   - Strides, sizes, offsets and flags of the tensors are true. They carry kDeferred, and their addresses are kNowhere
//     plus an offset. The storage lists its tensors (Waiting), so that all of them are updated at the moment in which
//     it gets its bytes.
//   - Code that needs bytes calls materialize_bytes(), which runs the recipe once, on one thread; others wait for it.
//   - Memory that a recipe will read must not change before. The recipe requests this by read_late(), and whoever
//     writes then runs it first (Storage::asks, run_readers()). Memory that others can write uncounted is not read late
//     (can_be_read_late()).
//   - A recipe lives as long as a storage that waits for it. Storages notify it when they die without bytes.
//   - Bytes may be released again (let_go()) while only saved values of nodes hold the storage. SavedHold counts those,
//     and hands out the tensor under the lock under which this is decided, so nobody ever meets a tensor whose bytes
//     vanish. Such a storage is *reclaimable*: its recipe stays, its tensors stay listed and carry kMayWait, and it
//     asks before it is written (kMadeAgain). A write to it, exposing or changing it, or a write to what its recipe
//     reads makes it an ordinary storage.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "core/may_wait.h"
#include "core/tensor.h"

namespace facula {

/// What makes the bytes of one or more storages. Results are known by their number, in the order of defer().
class Recipe {
 public:
  Recipe() = default;
  Recipe(const Recipe&) = delete;
  virtual ~Recipe() = default;

  /// Computes result `which` and put()s it; may do so for others on the way. Called on one thread at a time, without
  /// locks. What it throws goes to the caller that needs the bytes; it is called again when they are needed again.
  virtual void make(size_t which) = 0;
  /// Whether it will read bytes of `storage`: a look at what it remembers, nothing else (locks are held).
  virtual bool reads(const Storage* storage) const = 0;
  /// Result `which` died without bytes. The recipe may be running.
  virtual void dropped(size_t /*which*/) noexcept {}

  /// Results so far.
  size_t count() const;
  /// Makes every result that somebody holds.
  void make_wanted();
  /// Whether somebody holds result `which` and it has no bytes yet.
  bool is_wanted(size_t which) const;
  /// Calls f() as make() is called: alone on this recipe. Not from within make().
  void run_alone(const std::function<void()>& f);
  /// Gives result `which` the bytes of `from`, which nobody else may hold and which has as many. Nothing happens where
  /// it is not wanted any more. The caller holds a reference to the recipe.
  void put(size_t which, const Tensor& from) { give_bytes(which, from, false); }
  /// The same; gives a tensor on the result's storage if a saved value of a node holds it, else none.
  Tensor put_and_share(size_t which, const Tensor& from);
  /// As put(), and the bytes may be let go again.
  void put_reclaimable(size_t which, const Tensor& from) { give_bytes(which, from, true); }
  /// Takes the bytes of a reclaimable result back if only saved values hold it: then it waits again. Returns how many.
  size_t let_go(size_t which);
  /// Whether the result has bytes that may be let go.
  bool is_reclaimable(size_t which) const;
  /// Makes all reclaimable results plain ones.
  void keep_for_good();
  /// Whether a result waits, and nobody but saved values of nodes holds it.
  bool only_saved(size_t which) const;
  /// Whether a result waits or is reclaimable.
  bool is_of_use() const;
  /// Makes result `which`, if it is wanted.
  void make_result(size_t which);

  /// The thread that runs it, of the process `fork`; core/deferred.cpp keeps these.
  struct Run {
    std::thread::id thread;
    uint32_t fork = 0;
    bool on = false;
  };

 private:
  friend struct Deferral;
  friend void retain(Recipe* recipe) { recipe->refs_.increment(); }
  friend void release(Recipe* recipe) {
    if (recipe->refs_.decrement()) delete recipe;
  }
  void give_bytes(size_t which, const Tensor& from, bool keep, Ref<Storage>* shared = nullptr);

  RefCount refs_;
  std::vector<Storage*> results_;      // null: it died, or has its bytes
  std::vector<Storage*> reclaimable_;  // the same for results whose bytes may be let go
  size_t waiting_ = 0;                 // of both, those that are not null
  Run run_;
  Recipe *before_ = nullptr, *after_ = nullptr;  // in the list of those with results that wait or are reclaimable
};

/// A tensor whose bytes the recipe will make, its next result. Strides must be dense. The recipe may be shared with the
/// results before; the caller keeps its own reference.
Tensor defer(const Ref<Recipe>& recipe, IntList sizes, IntList strides, DType dtype, Device device = kCPU);
/// The recipe that will make the bytes of `t`, as its result `which`; null where it has them.
Ref<Recipe> recipe_of(const Tensor& t, size_t& which);
/// Whether a recipe may read the storage later: nobody else, no other process either, can write to it uncounted.
bool can_be_read_late(const Storage* storage);
/// From now on whoever writes to the storage runs the recipes that read it. Called when the recipe has its results.
inline void read_late(Storage* storage) { storage->asks.fetch_or(kReadLate, std::memory_order_release); }
/// Runs what reads the storage late, but for `except`.
void run_readers(Storage* storage, const Recipe* except = nullptr);
/// Runs everything that waits. Within a recipe, which others may be waiting for, nothing happens.
void run_waiting();
/// The same before a setting changes that ops look at when they run, and also of cells (core/budget_hooks.h).
void settings_will_change();
/// Gives the storage its bytes, and runs what reads them late: for who changes the storage itself.
void materialize_storage(Storage* storage);
/// Makes a reclaimable storage a plain one.
void make_permanent(Storage* storage);

/// A tensor that a node saves, counted as such. Others may hold it as well.
class SavedHold {
 public:
  explicit SavedHold(const Tensor& tensor);
  ~SavedHold();
  SavedHold(const SavedHold&) = delete;
  /// Whoever has the tensor keeps its bytes in place.
  Tensor get() const;

 private:
  Tensor tensor_;
  Storage* const storage_;
  bool counted_ = false;
};

}  // namespace facula
