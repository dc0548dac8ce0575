// Divides products among blocks, for all that are made by kernels/product.cuh.
#pragma once

#include <string>

#include "core/tensor.h"
#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/product_args.h"

namespace facula::cuda {

/// The types that a product is computed with: in memory, and of sums. Integers wrap.
struct ProductTypes {
  DType memory, sums;
};
ProductTypes product_types(DType dtype);

enum class ProductWay : uint8_t { Tiles, Results };
struct ProductPlan {
  ProductWay way;
  int size;  // results of a thread in each direction of a tile, or warps of a result (0: one thread)
  Grid grid;
};
/// Fills in the parts of `tiles`; `partial` keeps the memory of their sums.
ProductPlan plan_product(ProductTiles& tiles, DType sums, int device, Tensor& partial);

/// How a product goes to the tensor cores.
struct TensorPlan {
  int size, precision;  // template arguments: of tiles, and of TensorProducts
  Grid grid;
};
/// Whether they can do it, and not worse than other kernels.
bool fits_tensor_cores(const ProductTiles& tiles, DType dtype, int device);
/// As plan_product(). `rounds`: whether float32 may be rounded to TF32.
TensorPlan plan_tensor_product(ProductTiles& tiles, DType dtype, bool rounds, int device, Tensor& partial);

/// The kernels of one class of products, which the file defines.
class ProductKernels {
 public:
  ProductKernels(const char* file, const std::string& product)
      : by_tiles_name_(name("product_by_tiles", product)),
        by_results_name_(name("product_by_results", product)),
        of_parts_name_(name("product_of_parts", product)),
        by_tiles_(file, by_tiles_name_.c_str()),
        by_results_(file, by_results_name_.c_str()),
        of_parts_(file, of_parts_name_.c_str()) {}
  ProductKernels(const ProductKernels&) = delete;

  template <class Args>
  void operator()(int device, DType dtype, DType positions, Args args) const {
    const ProductTypes types = product_types(dtype);
    Tensor partial;
    const ProductPlan plan = plan_product(args.tiles, types.sums, device, partial);
    const DeviceKernel& kernel = plan.way == ProductWay::Tiles ? by_tiles_ : by_results_;
    kernel(device, {types.memory, types.sums, positions, plan.size}, plan.grid, args);
    add_parts(device, dtype, positions, args);
  }
  /// Adds up the parts of divided sums, where they were divided.
  template <class Args>
  void add_parts(int device, DType dtype, DType positions, const Args& args) const {
    if (args.tiles.parts <= 1) return;
    const ProductTypes types = product_types(dtype);
    of_parts_(device, {types.memory, types.sums, positions},
              grid_for(device, args.tiles.batch * args.tiles.rows * args.tiles.columns), args);
  }

 private:
  static std::string name(const char* kernel, const std::string& product) {
    return std::string(kernel) + "<facula::cuda::" + product;
  }
  std::string by_tiles_name_, by_results_name_, of_parts_name_;
  DeviceKernel by_tiles_, by_results_, of_parts_;
};

}  // namespace facula::cuda
