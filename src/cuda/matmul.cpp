// Matrix products, and how products of all kinds are divided.
#include "ops/matmul.h"

#include <algorithm>
#include <cstring>

#include "core/number.h"
#include "cuda/blas.h"
#include "cuda/flags.h"
#include "cuda/product.h"

namespace facula::cuda {

ProductTypes product_types(DType dtype) {
  if (!is_bits(dtype)) return {dtype, compute_dtype(dtype)};
  switch (item_size(dtype)) {
    case 1: return {DType::UInt8, DType::UInt32};
    case 2: return {DType::UInt16, DType::UInt32};
    case 4: return {DType::UInt32, DType::UInt32};
    default: return {DType::UInt64, DType::UInt64};
  }
}

namespace {

int64_t blocks_of(const ProductTiles& t, int each) {
  const int64_t lines = 16 * each;
  return (t.rows + lines - 1) / lines * ((t.columns + lines - 1) / lines) * t.batch;
}

/// The largest tiles of which there are enough for the device, and whose sums fit into the registers.
int tile_size(const ProductTiles& t, DType sums, int device) {
  const int wanted = properties(device).multiprocessors;
  if (item_size(sums) <= 4 && blocks_of(t, 8) >= wanted) return 8;
  return blocks_of(t, 4) * 2 >= wanted ? 4 : 2;
}

/// Threads of a result: as many as keep the device busy and have enough to do.
int group_of(const ProductTiles& t, int device) {
  const Properties& p = properties(device);
  const int64_t room = int64_t{p.multiprocessors} * p.threads_per_multiprocessor,
                results = t.batch * t.rows * t.columns;
  if (t.inner < 32) return 1;
  return t.inner >= 1024 && results * 256 <= 4 * room ? 256 : 32;
}

/// Gives each block a part of the inner dimension where there are few: a multiple of what a tile reads at once.
void divide_inner(ProductTiles& t, int64_t blocks, DType sums, int device, Tensor& partial) {
  constexpr int64_t kShortest = 256, kMostBytes = int64_t{64} << 20, kStep = 32;
  const int64_t results = t.batch * t.rows * t.columns, wanted = int64_t{properties(device).multiprocessors} * 2;
  const int64_t parts =
      std::min<int64_t>({wanted / blocks, t.inner / kShortest, kMostBytes / (results * item_size(sums))});
  if (parts <= 1) return;
  t.part = ((t.inner + parts - 1) / parts + kStep - 1) / kStep * kStep;
  t.parts = (t.inner + t.part - 1) / t.part;
  partial = facula::empty({t.parts, results}, sums, Device{DeviceType::CUDA, static_cast<int8_t>(device)});
  t.partial = partial.data();
}

}  // namespace

constexpr int64_t kFew = 4, kMostBlocks = INT32_MAX;

ProductPlan plan_product(ProductTiles& t, DType sums, int device, Tensor& partial) {
  t.parts = 1;
  t.part = std::max<int64_t>(t.inner, 1);
  if (std::min(t.rows, t.columns) <= kFew) {
    const int group = group_of(t, device);
    return {ProductWay::Results, group / 32, grid_for(device, t.batch * t.rows * t.columns * group)};
  }
  const int each = tile_size(t, sums, device);
  const int64_t blocks = blocks_of(t, each);
  divide_inner(t, blocks, sums, device, partial);
  return {ProductWay::Tiles, each, {256, std::min<int64_t>(blocks * t.parts, kMostBlocks)}};
}

namespace {

void write_factor(const Scalar& value, DType dtype, DType sums, char* to) {
  if (is_bits(dtype)) {
    const auto bits = static_cast<uint64_t>(value.to_int());
    std::memcpy(to, &bits, static_cast<size_t>(item_size(sums)));
    return;
  }
  const Tensor number = scalar_tensor(value, sums);
  std::memcpy(to, number.data(), static_cast<size_t>(item_size(sums)));
}

/// How a side lies for the tensor cores, whose copies are of 16 bytes.
enum class Lie : uint8_t { Along, Across, Unfit };  // along a line; across lines

Lie lie_of(const MatrixOperand& o, int64_t batch, int64_t line_step, int64_t inner, int64_t step, int64_t bytes) {
  const auto is_even = [bytes](int64_t elements) { return elements * bytes % 16 == 0; };
  if (reinterpret_cast<uintptr_t>(o.data) % 16 != 0 || (batch > 1 && !is_even(o.batch))) return Lie::Unfit;
  if ((step == 1 || inner == 1) && is_even(line_step)) return Lie::Along;
  return line_step == 1 && (is_even(step) || inner == 1) ? Lie::Across : Lie::Unfit;
}

/// Queues the product by the tensor cores; false where they cannot do it.
bool product_by_tensor_cores(const MatrixProduct& p, MatricesArgs& args, const ProductKernels& kernels) {
  static const DeviceKernel kernel{"matmul_tensor.cuh", "product_by_tensor_cores"};
  constexpr int64_t kMostSize = INT32_MAX / 2;
  constexpr int kFirstMajor = 8;  // of devices whose instructions the kernel has
  const int device = active_index();
  ProductTiles& t = args.tiles;
  if (p.dtype != DType::BFloat16 && p.dtype != DType::Float16 && p.dtype != DType::Float32) return false;
  if (properties(device).major < kFirstMajor || std::min(t.rows, t.columns) <= kFew ||
      std::max({t.rows, t.columns, t.inner}) > kMostSize)
    return false;
  const int64_t bytes = item_size(p.dtype);
  const Lie left = lie_of(p.a, p.batch, p.a.row, p.inner, p.a.column, bytes),
            right = lie_of(p.b, p.batch, p.b.column, p.inner, p.b.row, bytes);
  if (left == Lie::Unfit || right == Lie::Unfit) return false;
  const int size = blocks_of(t, 8) >= properties(device).multiprocessors ? 8 : 4;
  const int64_t blocks = blocks_of(t, size);
  Tensor partial;
  t.part = std::max<int64_t>(t.inner, 1);
  divide_inner(t, blocks, DType::Float32, device, partial);
  if (blocks * t.parts > kMostBlocks) return false;
  using Tensors = TensorProducts;
  const int precision = p.dtype != DType::Float32   ? Tensors::kAsIs
                        : flags()[Flag::MatmulTf32] ? Tensors::kTf32
                                                    : Tensors::kWhole;
  kernel(device, {p.dtype, precision, left == Lie::Along, right == Lie::Along, size},
         {Tensors::threads(size), blocks * t.parts, 1, 1, Tensors::bytes(size)}, args);
  kernels.add_parts(device, p.dtype, DType::Int64, args);
  return true;
}

void matrix_product_cuda(const MatrixProduct& p) {
  static const ProductKernels kernels("matmul.cuh", "Matrices");
  if (p.batch == 0 || p.rows == 0 || p.columns == 0 || product_by_library(p)) return;
  MatricesArgs args{};
  args.tiles = {p.batch, p.rows, p.columns, p.inner, 1, 1, nullptr};
  args.a = p.a.data;
  args.b = p.b.data;
  args.bias = p.bias;
  args.out = p.out;
  args.a_batch = p.a.batch, args.a_row = p.a.row, args.a_column = p.a.column;
  args.b_batch = p.b.batch, args.b_row = p.b.row, args.b_column = p.b.column;
  args.out_batch = p.out_batch, args.out_row = p.out_row;
  args.has_alpha = !p.alpha.equals(1);
  args.has_beta = !p.beta.equals(0);
  const DType sums = product_types(p.dtype).sums;
  if (args.has_alpha) write_factor(p.alpha, p.dtype, sums, args.alpha);
  if (args.has_beta) write_factor(p.beta, p.dtype, sums, args.beta);
  if (!product_by_tensor_cores(p, args, kernels)) kernels(active_index(), p.dtype, DType::Int64, args);
}

}  // namespace

void register_matmul() { matrix_product_kernel.set(DeviceType::CUDA, matrix_product_cuda); }

}  // namespace facula::cuda
