// Declares sums of counts and a stable sort, of which scatters, selections and permutations are made.
#pragma once

#include "core/tensor.h"

namespace facula::cuda {

/// int64, one more element than counts: the sums of the counts before each.
Tensor offsets_of(const Tensor& counts);
/// The same in the memory of `counts`, the last of which is not one yet.
void make_offsets(const Tensor& counts);
/// The last element of an int64 vector; waits.
int64_t read_last(const Tensor& offsets);

struct Sorted {
  Tensor keys, numbers;
};
/// Sorts rows (or a vector) of keys by their lowest `bits`, with the numbers beside them: stably, both unsigned. The
/// memory given is used.
Sorted radix_sort(Sorted from, int bits);

}  // namespace facula::cuda
