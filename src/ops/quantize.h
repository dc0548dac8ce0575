// Declares what a backend provides for products of 8-bit integers.
#pragma once

#include "ops/conv.h"
#include "ops/kernel_table.h"

namespace facula {

/// out = a times the transpose of b, int32: a is (m, k) of int8 or uint8, b (n, k) of int8, all contiguous.
inline Kernel<void(const Tensor& out, const Tensor& a, const Tensor& b)> int8_product_kernel{"_int8_linear"};

/// out (int32) = the convolution of x, of int8 or uint8, with w of int8, without padding; all contiguous.
inline Kernel<void(const Tensor& out, const Tensor& x, const Tensor& w, const ConvGeometry& geometry)>
    int8_convolution_kernel{"_int8_conv"};

/// A product with a weight of int8 of a layer; every tensor is contiguous, `scales` has one element or n.
struct Int8Linear {
  Tensor out, input, weight, scales, bias;

  template <class See>
  void memory(See see) const {
    for (const Tensor* t : {&out, &input, &weight, &scales, &bias}) {
      if (t->defined()) see(*t);
    }
  }
};

/// With an input of float32 that is rounded first.
struct DynamicInt8Linear : Int8Linear {
  bool reduce_range;
};
inline Kernel<void(const DynamicInt8Linear&)> dynamic_int8_linear_kernel{"_dynamic_int8_linear"};

/// out = input times the transpose of (weight * scales[:, None]), of float32 but for the weight, (n, k) of int8; all
/// contiguous.
inline Kernel<void(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& scales)>
    weight_int8_linear_kernel{"_weight_int8_linear"};

/// Of levels, rounded to levels of the same dtype, int8 or uint8.
struct StaticInt8Linear : Int8Linear {
  int32_t zero_point, output_zero_point, lowest;
  double scale;
};
inline Kernel<void(const StaticInt8Linear&)> static_int8_linear_kernel{"_static_int8_linear"};

}  // namespace facula
