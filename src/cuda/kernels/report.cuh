// How kernels say what is wrong with a value: the first one of a device since the host last looked is stored.
#pragma once

#include "report.h"
#include "types.cuh"

namespace facula::cuda {

/// Whether this thread may write the record, which the host reads after it has waited.
FACULA_RARE bool takes(const Reporter& r) {
  if (r.record->found != kNothingWrong || atomicExch(&r.record->taken, 1u)) return false;
  r.record->op = r.op;
  r.record->expected = r.expected;
  r.record->kind = r.kind;
  r.record->place = r.place;
  return true;
}
FACULA_RARE void report(const Reporter& r, ErrorFound found) {
  __threadfence_system();  // the host reads it
  *const_cast<volatile unsigned*>(&r.record->found) = found;
}
FACULA_RARE void report_index(const Reporter& r, Int64 index, Int64 size) {
  if (!takes(r)) return;
  r.record->index = index;
  r.record->size = size;
  report(r, kIndexOutside);
}
FACULA_RARE void report_value(const Reporter& r, double value) {
  if (!takes(r)) return;
  r.record->value = value;
  report(r, kValueWrong);
}

/// The place of an index, which may count from the end where `wraps`; -1 after a report.
FACULA_FN Int64 checked_index(const Reporter& r, Int64 index, Int64 size, bool wraps) {
  const Int64 at = index < 0 && wraps ? index + size : index;
  if (at >= 0 && at < size) return at;
  report_index(r, index, size);
  return -1;
}

}  // namespace facula::cuda
