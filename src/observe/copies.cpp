#include "observe/copies.h"

#include <utility>

namespace facula {
namespace {
thread_local CopyWatcher* present = nullptr;
}

CopyWatcher* watch_copies(CopyWatcher* watcher) { return std::exchange(present, watcher); }

void tell_copied_now(const Tensor& to, const Tensor& from) {
  if (present) present->elements_copied(to, from);
}

}  // namespace facula
