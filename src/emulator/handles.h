// Maps the driver's handles to objects. A handle is a number that never comes back: one that was never made, or was
// destroyed, is known as such, where an address could be another object's by now.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace facula::emulator {

inline std::atomic<uintptr_t> last_handle{0xface000};  // of all kinds, so that none is good for two

template <class Handle, class T>
class Handles {
 public:
  Handle add(std::shared_ptr<T> object) {
    const uintptr_t number = last_handle += 16;
    std::unique_lock lock(mutex_);
    objects_[number] = std::move(object);
    return reinterpret_cast<Handle>(number);
  }
  /// Null where there is no such handle.
  std::shared_ptr<T> find(Handle handle) {
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<T> remove(Handle handle) {
    std::unique_lock lock(mutex_);
    const auto node = objects_.extract(reinterpret_cast<uintptr_t>(handle));
    return node ? std::move(node.mapped()) : nullptr;
  }
  /// In the order in which they were made.
  template <class See>
  void each(See see) {
    std::shared_lock lock(mutex_);
    for (const auto& [number, object] : std::map(objects_.begin(), objects_.end())) see(object);
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<T>> objects_;
};

}  // namespace facula::emulator
