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

constexpr int64_t kFew = 4, kMostBlocks = INT32_MAX;

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

bool fits_tensor_cores(const ProductTiles& t, DType dtype, int device) {
  constexpr int64_t kMostSize = INT32_MAX / 2;
  constexpr int kFirstMajor = 8;  // of devices whose instructions the kernels have
  return (dtype == DType::BFloat16 || dtype == DType::Float16 || dtype == DType::Float32) &&
         properties(device).major >= kFirstMajor && std::min(t.rows, t.columns) > kFew &&
         std::max({t.rows, t.columns, t.inner}) <= kMostSize && blocks_of(t, 4) <= kMostBlocks;
}

TensorPlan plan_tensor_product(ProductTiles& t, DType dtype, bool rounds, int device, Tensor& partial) {
  using Tensors = TensorProducts;
  const int size = blocks_of(t, 8) >= properties(device).multiprocessors ? 8 : 4;
  const int64_t blocks = blocks_of(t, size);
  t.parts = 1;
  t.part = std::max<int64_t>(t.inner, 1);
  divide_inner(t, blocks, DType::Float32, device, partial);
  const int precision = dtype != DType::Float32 ? Tensors::kAsIs : rounds ? Tensors::kTf32 : Tensors::kWhole;
  return {size, precision, {Tensors::threads(size), blocks * t.parts, 1, 1, Tensors::bytes(size)}};
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

/// One side of a product for the tensor cores: rows of a or columns of b, in `args`.
struct TensorSide {
  const void*& data;
  long long &batch, &line, &step;
  int64_t lines, inner, count;

  /// Whether elements of a line lie next to each other, rather than the lines.
  bool is_along() const { return step == 1 || inner == 1; }
  int64_t rows() const { return is_along() ? lines : inner; }  // in memory
  int64_t columns() const { return is_along() ? inner : lines; }
  long long& row_step() const { return is_along() ? line : step; }

  /// Whether rows in memory begin at multiples of what is copied at once.
  bool is_aligned(int64_t bytes) const {
    const auto fits = [bytes](int64_t elements) { return elements * bytes % kUnit == 0; };
    return reinterpret_cast<uintptr_t>(data) % kUnit == 0 && fits(row_step()) && (count == 1 || fits(batch));
  }
  /// Copies it to where they do; what it returns keeps that.
  Tensor align(DType dtype, int device) const {
    static const DeviceKernel kernel{"matmul_tensor.cuh", "copy_rows"};
    constexpr unsigned kThreads = 256;
    const int64_t unit = kUnit / item_size(dtype), wide = (columns() + unit - 1) / unit * unit,
                  matrices = batch == 0 ? 1 : count;
    const Tensor copy =
        facula::empty({matrices, rows(), wide}, dtype, Device{DeviceType::CUDA, static_cast<int8_t>(device)});
    kernel(device, {bits_of(item_size(dtype))}, grid_for(device, matrices * rows() * kThreads, kThreads), copy.data(),
           data, static_cast<long long>(matrices), static_cast<long long>(rows()), static_cast<long long>(columns()),
           batch, row_step(), static_cast<long long>(wide));
    data = copy.data();
    if (batch != 0) batch = rows() * wide;
    row_step() = wide;
    return copy;
  }

 private:
  static constexpr int64_t kUnit = 16;
};

/// Whether copies of matrices whose rows are not aligned cost less than what the tensor cores save.
bool is_worth_copies(const ProductTiles& t) {
  constexpr int64_t kLeast = 128;
  return std::min({t.rows, t.columns, t.inner}) >= kLeast;
}

/// Queues the product by the tensor cores; false where they cannot do it.
bool product_by_tensor_cores(DType dtype, MatricesArgs& args, const ProductKernels& kernels) {
  static const DeviceKernel kernel{"matmul_tensor.cuh", "product_by_tensor_cores"};
  const int device = active_index();
  ProductTiles& t = args.tiles;
  if (!fits_tensor_cores(t, dtype, device)) return false;
  const TensorSide left{args.a, args.a_batch, args.a_row, args.a_column, t.rows, t.inner, t.batch},
      right{args.b, args.b_batch, args.b_column, args.b_row, t.columns, t.inner, t.batch};
  Tensor copies[2], partial;
  for (const TensorSide* side : {&left, &right}) {
    if (side->is_aligned(item_size(dtype))) continue;
    if (!is_worth_copies(t)) return false;
    copies[side == &right] = side->align(dtype, device);
  }
  const TensorPlan plan = plan_tensor_product(t, dtype, flags()[Flag::MatmulTf32] != 0, device, partial);
  kernel(device, {dtype, plan.precision, left.is_along(), right.is_along(), plan.size}, plan.grid, args);
  kernels.add_parts(device, dtype, DType::Int64, args);
  return true;
}

void matrix_product_cuda(const MatrixProduct& p) {
  static const ProductKernels kernels("matmul.cuh", "StridedProduct");
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
  if (!product_by_tensor_cores(p.dtype, args, kernels)) kernels(active_index(), p.dtype, DType::Int64, args);
}

}  // namespace

void register_matmul() { matrix_product_kernel.set(DeviceType::CUDA, matrix_product_cuda); }

}  // namespace facula::cuda
