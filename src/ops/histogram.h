// Kernels that count: histograms, and the distinct elements of tensors. Tensors are contiguous.
#pragma once

#include "ops/kernel_table.h"

namespace facula {

/// out[x] += weight (1 when undefined), for x of an int64 vector; out has the weights' dtype, int64 without.
inline Kernel<void(const Tensor& out, const Tensor& self, const Tensor& weights)> bincount_kernel{"bincount"};
/// out[b] += 1 for x in the b-th of equal intervals of [low, high]; self and out are float32 or float64.
inline Kernel<void(const Tensor& out, const Tensor& self, double low, double high)> histc_kernel{"histc"};
/// Adds weights (of self's dtype) of the rows of self (points, coordinates) to the box between edges that holds them.
inline Kernel<void(const Tensor& out, const Tensor& self, TensorList edges, const Tensor& weight)> histogramdd_kernel{
    "histogramdd"};
/// The distinct elements of a vector: fills `inverse`, and gives the positions of the first of each, and their counts.
/// `sorted`: by value; else runs of equal neighbours. Rows: `self` is (slices, elements) and slices are compared.
inline Kernel<void(const Tensor& self, bool runs, const Tensor& inverse, std::vector<int64_t>& first,
                   std::vector<int64_t>& counts)>
    distinct_kernel{"unique"};
/// out[i] = (self[i] occurs in `among`) != invert, for tensors of one dtype.
inline Kernel<void(const Tensor& out, const Tensor& self, const Tensor& among, bool invert)> isin_kernel{"isin"};

}  // namespace facula
