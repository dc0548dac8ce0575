// Elements that autograd copies by itself, where no op says so: what an op has made is put in place, or what was there
// is kept for a derivative. Who records everything that a thread does asks to be told.
#pragma once

#include "core/mode.h"
#include "core/tensor.h"

namespace facula {

class CopyWatcher {
 public:
  virtual ~CopyWatcher() = default;
  virtual void elements_copied(const Tensor& to, const Tensor& from) = 0;
};

/// Who is told of copies of this thread from now on, as long as it observes ops, too; null: nobody. Returns who was
/// told before.
CopyWatcher* watch_copies(CopyWatcher* watcher);
void tell_copied_now(const Tensor& to, const Tensor& from);
inline void tell_copied(const Tensor& to, const Tensor& from) {
  if (__builtin_expect((watching() & (kWatchThread | kWatchBudget)) != 0, 0)) tell_copied_now(to, from);
}

}  // namespace facula
