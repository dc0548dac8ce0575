// Caches for all threads what libraries make for calls of one form (plans, layouts, or that they have none).
//
//   - A key is a struct of 64-bit members only, which is hashed and compared by its words.
//   - A thread first looks into a table of the plans that it used last, and then into the map that all threads share.
//     The mutex of the map is held for looking and inserting. A plan is made under its own mutex, so that others can be
//     found meanwhile.
//   - Plans receive streams, pointers and workspaces, and libraries do not promise that two threads may use one at
//     once. Its mutex is held while it is used, which is while work is queued, and hardly ever waited for.
//   - If there are more than `most` plans, those that were not used for longest are dropped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/stream.h"

namespace facula::cuda {

struct KeyHash {
  template <class Key>
  size_t operator()(const Key& key) const {
    constexpr size_t kWords = sizeof(Key) / sizeof(uint64_t);
    static_assert(sizeof(Key) % sizeof(uint64_t) == 0);
    uint64_t words[kWords], sum = 0;
    std::memcpy(words, &key, sizeof key);
    for (size_t i = 0; i < kWords; ++i) sum += (words[i] + i) * (0x9e3779b97f4a7c15 + 2 * i);
    return sum ^ sum >> 32;
  }
};
struct SameKey {
  template <class Key>
  bool operator()(const Key& a, const Key& b) const {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
};

template <class Key, class Plan>
class PlanCache {
 public:
  /// Sizes that never come again do not fill the memory.
  static constexpr size_t kUsualMost = 1024;

  explicit PlanCache(size_t most = kUsualMost) : most_(most) {}
  PlanCache(const PlanCache&) = delete;

  /// Calls use(plan) with the plan of the key, which make() gives where none is cached. What make() throws is thrown,
  /// and nothing is cached.
  template <class Make, class Use>
  auto with(const Key& key, Make&& make, Use&& use) {
    Recents& mine = recents();
    const Inside inside(mine);
    for (;;) {
      std::shared_ptr<Entry> shared;  // of a call inside of another's use, which may need the slot for longer
      Entry& entry = entry_of(key, mine, shared);
      std::lock_guard lock(entry.mutex);
      if (entry.dropped.load(std::memory_order_relaxed)) continue;
      if (__builtin_expect(!entry.plan, 0)) fill(entry, make);
      if (__builtin_expect(most_.load(std::memory_order_relaxed) != 0, 1)) return use(*entry.plan);
      const auto only = std::move(entry.plan);
      drop_from_map(entry);
      return use(*only);
    }
  }

  size_t size() const {
    std::shared_lock lock(mutex_);
    return entries_.size();
  }
  size_t most() const { return most_; }
  void set_most(size_t most) {
    most_ = most;
    shrink(most);
  }
  void clear() { shrink(0); }

 private:
  struct Entry {
    explicit Entry(const Key& p) : key(p) {}
    const Key key;
    std::mutex mutex;  // of the plan
    std::unique_ptr<Plan> plan;
    std::atomic<bool> dropped{false};  // from the map: nobody uses it any more
    std::atomic<uint64_t> used{0};     // the higher the later
  };
  struct Recent {
    const PlanCache* cache = nullptr;
    std::shared_ptr<Entry> entry;
  };
  static constexpr size_t kRecent = 64;
  struct Recents {
    Recent slots[kRecent];
    int depth = 0;  // how many uses this thread is in
  };
  struct Inside {
    explicit Inside(Recents& r) : recents(r) { ++recents.depth; }
    ~Inside() { --recents.depth; }
    Inside(const Inside&) = delete;
    Recents& recents;
  };

  /// Found by one look at the thread's variables; not an array there, since there is little room.
  static Recents& recents() {
    static thread_local constinit Recents* mine = nullptr;
    struct Owner {
      ~Owner() { delete std::exchange(mine, nullptr); }
    };
    if (__builtin_expect(!mine, 0)) {
      static thread_local Owner owner;
      static_cast<void>(owner);
      mine = new Recents;
    }
    return *mine;
  }

  Entry& entry_of(const Key& key, Recents& mine, std::shared_ptr<Entry>& shared) {
    if (__builtin_expect(mine.depth > 1, 0)) {
      shared = shared_entry(key);
      return *shared;
    }
    Recent& slot = mine.slots[KeyHash()(key) % kRecent];
    const bool known =
        slot.cache == this && SameKey()(slot.entry->key, key) && !slot.entry->dropped.load(std::memory_order_relaxed);
    if (__builtin_expect(!known, 0)) slot = {this, shared_entry(key)};
    // Two threads may count one use: which plan is the oldest is then no less true.
    const uint64_t now = clock_.load(std::memory_order_relaxed) + 1;
    clock_.store(now, std::memory_order_relaxed);
    slot.entry->used.store(now, std::memory_order_relaxed);
    return *slot.entry;
  }

  std::shared_ptr<Entry> shared_entry(const Key& key) {
    {
      std::shared_lock lock(mutex_);
      if (const auto found = entries_.find(key); found != entries_.end()) return found->second;
    }
    std::shared_ptr<Entry> entry;
    bool is_full;
    {
      std::unique_lock lock(mutex_);
      auto& place = entries_[key];
      if (!place) {
        place = std::make_shared<Entry>(key);
        place->used = clock_.load();
      }
      entry = place;
      is_full = entries_.size() > most_ && most_;
    }
    if (is_full) shrink(most_);
    return entry;
  }

  /// Calls of a library that makes a plan may be such as a capture forbids.
  template <class Make>
  void fill(Entry& entry, Make& make) {
    try {
      const RelaxedCapture relaxed;
      entry.plan.reset(new Plan(make()));
    } catch (...) {
      drop_from_map(entry);
      throw;
    }
  }

  void drop_from_map(Entry& entry) {
    entry.dropped = true;
    std::unique_lock lock(mutex_);
    const auto found = entries_.find(entry.key);
    if (found != entries_.end() && found->second.get() == &entry) entries_.erase(found);
  }

  /// Plans go at once, though other threads still know their entries. The map's mutex is not held while a plan's is
  /// waited for.
  void shrink(size_t count) {
    std::vector<std::shared_ptr<Entry>> gone;
    {
      std::unique_lock lock(mutex_);
      while (entries_.size() > count) {
        auto oldest = entries_.begin();
        for (auto each = entries_.begin(); each != entries_.end(); ++each)
          if (each->second->used < oldest->second->used) oldest = each;
        gone.push_back(std::move(oldest->second));
        entries_.erase(oldest);
      }
    }
    for (const auto& entry : gone) {
      std::lock_guard lock(entry->mutex);
      entry->dropped = true;
      entry->plan.reset();
    }
  }

  std::atomic<size_t> most_;
  std::atomic<uint64_t> clock_{1};
  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<Entry>, KeyHash, SameKey> entries_;
};

}  // namespace facula::cuda
