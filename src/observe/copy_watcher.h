// Reports elements that autograd copies by itself, where no op says so: the result of an op is put in place, or an old
// value is saved for a derivative. A recorder of everything that a thread does watches these copies.
#pragma once

#include "core/mode.h"
#include "core/tensor.h"

namespace facula {

class CopyWatcher {
 public:
  virtual ~CopyWatcher() = default;
  virtual void elements_copied(const Tensor& to, const Tensor& from) = 0;
};

/// Sets the watcher that is notified of copies of this thread from now on, as long as it observes ops, too; null: none.
/// Returns the watcher before.
CopyWatcher* watch_copies(CopyWatcher* watcher);
void notify_copied_now(const Tensor& to, const Tensor& from);
inline void notify_copied(const Tensor& to, const Tensor& from) {
  if (__builtin_expect((watching() & (kWatchThread | kWatchBudget)) != 0, 0)) notify_copied_now(to, from);
}

}  // namespace facula
