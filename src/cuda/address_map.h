// Finds what lies at an address of the device, in a hash table. It is searched for every tensor that is made or dies,
// so it has no nodes of its own. Addresses are multiples of the allocator's unit, and not 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace facula::cuda {

template <class T>
class AddressMap {
 public:
  AddressMap() : slots_(kFirstSlots) {}

  /// Null where there is none.
  T* find(uint64_t address) const {
    for (size_t at = place(address);; at = next(at)) {
      if (slots_[at].address == address) return slots_[at].value;
      if (!slots_[at].address) return nullptr;
    }
  }

  /// Of an address that is not there yet.
  void insert(uint64_t address, T* value) {
    if (2 * ++count_ > slots_.size()) grow();
    put({address, value});
  }

  // What comes behind moves up, so that no search ends at the gap.
  void erase(uint64_t address) {
    size_t gap = place(address);
    while (slots_[gap].address != address) {
      if (!slots_[gap].address) return;
      gap = next(gap);
    }
    for (size_t at = next(gap); slots_[at].address; at = next(at)) {
      const size_t way_to_gap = (gap - place(slots_[at].address)) & (slots_.size() - 1),
                   way_here = (at - place(slots_[at].address)) & (slots_.size() - 1);
      if (way_to_gap > way_here) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = {};
    --count_;
  }

  /// In no order. The map is not to be changed meanwhile.
  template <class F>
  void each(F f) const {
    for (const Slot& slot : slots_)
      if (slot.address) f(*slot.value);
  }

 private:
  struct Slot {
    uint64_t address = 0;
    T* value = nullptr;
  };
  static constexpr size_t kFirstSlots = 1024;

  size_t next(size_t at) const { return (at + 1) & (slots_.size() - 1); }
  size_t place(uint64_t address) const { return (address >> 9) * 0x9e3779b97f4a7c15 >> 32 & (slots_.size() - 1); }
  void put(Slot slot) {
    size_t at = place(slot.address);
    while (slots_[at].address) at = next(at);
    slots_[at] = slot;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.address) put(slot);
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace facula::cuda
