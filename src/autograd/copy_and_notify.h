// Copies elements outside of ops, and notifies recorders of everything of these copies (observe/copy_watcher.h).
#pragma once

#include "core/class_hooks.h"
#include "core/tensor.h"
#include "observe/copy_watcher.h"
#include "ops/kernel_table.h"

namespace facula {

inline void copy_and_notify(const Tensor& to, const Tensor& from) {
  if (__builtin_expect((to.flags() & kPythonDispatch) && copy_by_class, 0) && copy_by_class(to, from)) return;
  copy_elements(to, from);
  notify_copied(to, from);
}

}  // namespace facula
