// Declares kernels that count: histograms, and the distinct elements of tensors. Tensors are contiguous.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// out[x] += weight (1 when undefined), for x of an int64 vector; out has the weights' dtype, int64 without.
inline Kernel<void(const Tensor& out, const Tensor& self, const Tensor& weights)> bincount_kernel{"bincount"};
/// out[b] += 1 for x in the b-th of equal intervals of [low, high]; self and out are float32 or float64.
inline Kernel<void(const Tensor& out, const Tensor& self, double low, double high)> histc_kernel{"histc"};
/// Adds the counts of integers from 0 on to `counts`: 1 + the largest, or -1 where one has no place there; then the
/// counts have no meaning.
inline Kernel<int64_t(const Tensor& counts, const Tensor& self)> count_few_kernel{"bincount"};
/// Adds weights (of self's dtype) of the rows of self (points, coordinates) to the box between edges that holds them.
inline Kernel<void(const Tensor& out, const Tensor& self, TensorList edges, const Tensor& weight)> histogramdd_kernel{
    "histogramdd"};
/// The distinct slices of a matrix (slices, elements), by value or, with `runs`, runs of equal neighbors: how many
/// there are; fills `inverse` where that is defined, and the beginnings of `first` (the first slice of each) and
/// `counts`, which have room for all.
inline Kernel<int64_t(const Tensor& self, bool runs, const Tensor& inverse, const Tensor& first, const Tensor& counts)>
    distinct_kernel{"unique"};
/// The first of every run of equal elements of a vector, at the beginning of `out`, which may be the vector: how many.
inline Kernel<int64_t(const Tensor& out, const Tensor& values)> distinct_values_kernel{"unique"};
/// out[i] = (self[i] occurs in `among`) != invert, for tensors of one dtype.
inline Kernel<void(const Tensor& out, const Tensor& self, const Tensor& among, bool invert)> isin_kernel{"isin"};

}  // namespace facula
