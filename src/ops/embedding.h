// Declares kernels of embeddings.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// For each bag and column the row of `weight` (a matrix) with the largest value among the bag's `rows` (int64; that of
/// equals which comes first); `bag_of` says which bag each belongs to, rows equal to `padding` do not count. `out`
/// (bags, columns) is zero. Throws where an index lies outside.
inline Kernel<void(const Tensor& out, const Tensor& weight, const Tensor& rows, const Tensor& bag_of, int64_t padding)>
    bag_argmax_kernel{"embedding_bag"};
/// The sum of the `weight` rows (whose columns are contiguous) of every bag in `out` (bags, columns), each times its
/// factor where there are any; `bag_of` is in order, rows equal to `padding` do not count. Floating-point dtypes;
/// throws where an index lies outside.
inline Kernel<void(const Tensor& out, const Tensor& weight, const Tensor& rows, const Tensor& bag_of,
                   const Tensor& factors, int64_t padding)>
    bag_sum_kernel{"embedding_bag"};
/// The bag of each of `bag_of`'s positions, from the places where bags begin, and in `sizes` how many of a bag's
/// `indices` (all int64, contiguous) are not `padding`. Throws unless `offsets` begin with 0, do not decrease and end
/// within the indices, and indices lie in [0, rows).
inline Kernel<void(const Tensor& bag_of, const Tensor& sizes, const Tensor& indices, const Tensor& offsets,
                   int64_t rows, int64_t padding)>
    bag_members_kernel{"embedding_bag"};

}  // namespace facula
