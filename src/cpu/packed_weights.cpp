// Policy of packed weights
//
// Kernels read weights in an order of their own: panels of a product's columns, windows turned into rows, tiles
// transformed, oneDNN's blocks. Putting them in order takes as long as the products of some hundred rows, so an answer
// to a single question pays for it more than it gets. A copy in order is cached, and used as long as it is true:
//
// 1. A copy belongs to a storage's identity (core/storage.h): a number that no other storage ever has, whatever address
//    it gets. The identity ends, and the copies with it, when the storage is let go, its bytes move, or somebody gets
//    hold of them who can write without being counted: `.data`, a NumPy array, DLPack, a buffer, data_ptr(). As long as
//    any of these lives the storage has no identity and nothing is cached; after data_ptr() never again. Memory
//    borrowed from others (from_numpy, from_dlpack, memory maps, shared memory) has none either.
// 2. A copy is of one version. Writes are counted in the storage's version when they end, also by an exception
//    (core/write.h), and the version is read before packing: what is written meanwhile makes the copy old. Inference
//    tensors do not show their versions to programs, but their storages count all the same.
// 3. What is seen for the first time at a version is only noted, and packed when it is seen again. Training, which
//    changes weights every step, so keeps nothing and pays a look-up.
// 4. Results do not depend on it to the last bit: with a copy the same kernel computes in the same order.
// 5. All copies together stay below a bound, an eighth of the machine's memory if no other is set. Where there is no
//    room, copies that were not used during the last rounds of all others make room; else the new one is not cached
//    (in a model too large for the bound a part is always in order, instead of each copy displacing the next one).
//    A request that memory cannot serve, and empty_cache(), drop all copies.
// 6. A copy in use stays while it is used: it is a tensor.
#include "cpu/packed_weights.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/os_memory.h"
#include "cpu/allocator.h"

namespace facula::cpu {
namespace {

constexpr int64_t kLine = 64;
constexpr size_t kMostLayouts = 16;  // of one storage
constexpr uint64_t kRounds = 4;      // of all copies being used, after which one that was not is idle

struct Copy {
  int64_t offset;  // of the first element, in bytes
  std::vector<int64_t> words;
  uint32_t version;
  uint64_t used;
  Tensor packed;  // undefined: seen, not cached
  int64_t bytes() const { return packed.defined() ? packed.numel() : 0; }
};

/// Tensors that are let go after the lock: releasing a storage may come back here.
using Dropped = std::vector<Tensor>;

class Shelf {
 public:
  /// The copy of this version; whether it is to be packed. Notes what is seen.
  Tensor find(uint32_t identity, uint32_t version, const PackedKey& key, bool* wanted) {
    Dropped dropped;
    std::lock_guard guard(lock_);
    if (limit_ == 0) return Tensor();
    Copy* seen = find_locked(identity, key);
    ++time_;
    if (!seen) {
      note_locked(copies_[identity], {offset_of(key), {key.words.begin(), key.words.end()}, version, time_, Tensor()},
                  dropped);
      return Tensor();
    }
    seen->used = time_;
    if (seen->version != version) {
      drop_locked(*seen, dropped);
      seen->version = version;
      return Tensor();
    }
    *wanted = !seen->packed.defined();
    hits_ += !*wanted;
    return seen->packed;
  }

  bool has_room(int64_t bytes) {
    Dropped dropped;
    std::lock_guard guard(lock_);
    if (bytes > limit_) return false;
    if (bytes_ + bytes > limit_) drop_idle_locked(bytes_ + bytes - limit_, dropped);
    return bytes_ + bytes <= limit_;
  }

  /// Only where the identity still holds and nobody else was faster.
  void keep(uint32_t identity, uint32_t version, const PackedKey& key, const Tensor& packed) {
    std::lock_guard guard(lock_);
    if (key.storage->identity.load() != identity || bytes_ + packed.numel() > limit_) return;
    Copy* seen = find_locked(identity, key);
    if (!seen || seen->version != version || seen->packed.defined()) return;
    seen->packed = packed;
    bytes_ += seen->bytes();
    ++cached_;
  }

  void forget(uint32_t identity) {
    Dropped dropped;
    std::lock_guard guard(lock_);
    auto found = copies_.find(identity);
    if (found == copies_.end()) return;
    for (Copy& copy : found->second) drop_locked(copy, dropped);
    copies_.erase(found);
  }

  bool drop_all() {
    Dropped dropped;
    std::lock_guard guard(lock_);
    for (auto& [identity, list] : copies_)
      for (Copy& copy : list) drop_locked(copy, dropped);
    return !dropped.empty();
  }

  int64_t set_limit(int64_t bytes) {
    std::lock_guard guard(lock_);
    return std::exchange(limit_, bytes);
  }

  PackedStats stats() {
    std::lock_guard guard(lock_);
    return {bytes_, cached_, limit_, hits_};
  }

  std::mutex& lock() { return lock_; }

 private:
  static int64_t offset_of(const PackedKey& key) { return key.data - key.storage->data; }

  Copy* find_locked(uint32_t identity, const PackedKey& key) {
    auto found = copies_.find(identity);
    if (found == copies_.end()) return nullptr;
    for (Copy& copy : found->second)
      if (copy.offset == offset_of(key) && IntList(copy.words.data(), copy.words.size()) == key.words) return &copy;
    return nullptr;
  }

  void note_locked(std::vector<Copy>& list, Copy copy, Dropped& dropped) {
    if (list.size() < kMostLayouts) return list.push_back(std::move(copy));
    auto oldest = std::min_element(list.begin(), list.end(), [](auto& a, auto& b) { return a.used < b.used; });
    drop_locked(*oldest, dropped);
    *oldest = std::move(copy);
  }

  void drop_locked(Copy& copy, Dropped& dropped) {
    if (!copy.packed.defined()) return;
    bytes_ -= copy.bytes();
    --cached_;
    dropped.push_back(std::move(copy.packed));
    copy.packed = Tensor();
  }

  void drop_idle_locked(int64_t bytes, Dropped& dropped) {
    std::vector<Copy*> idle;
    for (auto& [identity, list] : copies_)
      for (Copy& copy : list)
        if (copy.packed.defined() && time_ - copy.used > kRounds * static_cast<uint64_t>(cached_))
          idle.push_back(&copy);
    std::sort(idle.begin(), idle.end(), [](const Copy* a, const Copy* b) { return a->used < b->used; });
    for (Copy* copy : idle) {
      if (bytes <= 0) return;
      bytes -= copy->bytes();
      drop_locked(*copy, dropped);
    }
  }

  std::mutex lock_;
  std::unordered_map<uint32_t, std::vector<Copy>> copies_;
  int64_t bytes_ = 0, cached_ = 0, hits_ = 0;
  int64_t limit_ = static_cast<int64_t>(os::total_memory() / 8);
  uint64_t time_ = 0;
};

Shelf& shelf() {
  static auto* const made = [] {  // lives for ever: storages may be let go while the process ends
    auto* shelf = new Shelf;
    static std::mutex* lock;
    lock = &shelf->lock();
    pthread_atfork([] { lock->lock(); }, [] { lock->unlock(); }, [] { lock->unlock(); });
    return shelf;
  }();
  return *made;
}

[[maybe_unused]] const bool installed = [] {
  on_identity_end = [](uint32_t identity) { shelf().forget(identity); };
  drop_cached_memory = drop_packed_weights;
  return true;
}();

}  // namespace

Tensor packed_weight(const PackedKey& key, const Packing& packing) {
  const Storage* s = key.storage;
  if (key.data < s->data || key.data >= s->data + s->nbytes) return Tensor();  // a temporary copy
  const uint32_t version = s->current_version();                               // before anything is read
  const uint32_t identity = identity_of(key.storage);
  if (identity == 0) return Tensor();
  bool wanted = false;
  Tensor found = shelf().find(identity, version, key, &wanted);
  if (!wanted || !shelf().has_room(packing.bytes)) return found;
  Tensor packed;
  try {
    packed = facula::empty({std::max(packing.bytes, static_cast<int64_t>(kSmallBlock) + kLine)}, DType::UInt8);
  } catch (const Error&) {
    return Tensor();  // without the memory it goes as it went before
  }
  packing.pack(packing.context, packed.data<char>());
  shelf().keep(identity, version, key, packed);
  return packed;
}

PackedStats packed_stats() { return shelf().stats(); }
int64_t set_packed_limit(int64_t bytes) {
  const int64_t before = shelf().set_limit(bytes);
  if (bytes < before) drop_packed_weights();
  return before;
}
bool drop_packed_weights() { return shelf().drop_all(); }

}  // namespace facula::cpu
