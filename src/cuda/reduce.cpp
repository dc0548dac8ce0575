// Folds: divides the dimensions into those that stay and those that go, and chooses how many threads make one result.
#include "ops/reduce.h"

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/reduce_args.h"

namespace facula::cuda {
namespace {

/// Adds dimension `d` of the tensor, joined with the one before where they lie evenly.
void add_dim(FoldDims& to, int64_t size, int64_t stride) {
  if (size == 1) return;
  if (to.dims && to.strides[to.dims - 1] * to.shape[to.dims - 1] == stride) {
    to.shape[to.dims - 1] *= size;
    return;
  }
  FACULA_CHECK(to.dims < kMostFoldDims, ErrorKind::NotImplemented, current_op(), ": on CUDA, at most ", kMostFoldDims,
               " dimensions that do not lie evenly, got more");
  to.shape[to.dims] = size;
  to.strides[to.dims++] = stride;
}

FoldGrid grid_of(const Tensor& out, const Tensor& in, const FoldArgs& args) {
  FoldGrid g{};
  g.results = out.numel();
  g.count = 1;
  for (int64_t d = in.dim() - 1; d >= 0; --d) {
    if (out.size(d) != in.size(d)) g.count *= in.size(d);
    add_dim(out.size(d) == in.size(d) ? g.kept : g.reduced, in.size(d), in.stride(d));
  }
  g.in = in.data();
  g.center = args.center ? args.center->data() : nullptr;
  g.out = out.data();
  g.divisor = args.divisor;
  g.power = args.power;
  g.finish = static_cast<int>(args.finish);
  return g;
}

/// Threads for each result: where results lie next to each other in memory, one each; else enough to read side by
/// side.
int group_size(const FoldGrid& g) {
  const bool columns = g.kept.dims && g.kept.strides[0] == 1 && g.kept.shape[0] >= 32;
  if (columns || g.count <= 8) return 1;
  return g.count <= 512 ? 32 : 256;
}

/// Into how many parts each result's elements are divided: so many that the device is busy, but each long enough.
int64_t parts_of(const FoldGrid& g, int group, int device) {
  constexpr int64_t kShortest = 64;
  const Properties& p = properties(device);
  const int64_t room = int64_t{p.multiprocessors} * p.threads_per_multiprocessor / group;
  return std::clamp<int64_t>(std::min<int64_t>(room / std::max<int64_t>(g.results, 1), g.count / (kShortest * group)),
                             1, 1024);
}

// The folds of kernels/reduce.cuh.
constexpr char kSumFold[] = "SumFold";
constexpr char kNanSumFold[] = "NanSumFold";
constexpr char kProdFold[] = "ProdFold";
constexpr char kMaxFold[] = "MaxFold";
constexpr char kMinFold[] = "MinFold";
constexpr char kAnyFold[] = "AnyFold";
constexpr char kAllFold[] = "AllFold";
constexpr char kCountFold[] = "CountFold";
constexpr char kXorFold[] = "XorFold";
constexpr char kAbsSumFold[] = "AbsSumFold";
constexpr char kSquareSumFold[] = "SquareSumFold";
constexpr char kPowerSumFold[] = "PowerSumFold";
constexpr char kAbsMaxFold[] = "AbsMaxFold";
constexpr char kAbsMinFold[] = "AbsMinFold";
constexpr char kCenteredSquaresFold[] = "CenteredSquaresFold";

template <const char* name>
void fold_cuda(const Tensor& out, const Tensor& in, const FoldArgs& args) {
  static const std::string instance = std::string("fold<facula::cuda::") + name;
  static const DeviceKernel kernel{"reduce.cuh", instance.c_str()};
  static const std::string merging = std::string("fold<facula::cuda::Plain<facula::cuda::") + name + ">";
  static const DeviceKernel merge{"reduce.cuh", merging.c_str()};
  if (out.numel() == 0) return;
  const int device = out.device().index;
  FoldGrid g = grid_of(out, in, args);
  const int group = group_size(g);
  const int64_t parts = parts_of(g, group, device);
  g.part = std::max<int64_t>((g.count + parts - 1) / parts, 1);
  const int64_t made = std::max<int64_t>((g.count + g.part - 1) / g.part, 1);
  const auto blocks = [&](int threads) { return grid_for(device, g.results * made * threads); };
  if (made == 1) return kernel(device, {in.dtype(), args.compute, out.dtype(), group / 32}, blocks(group), g);
  const Tensor results = facula::empty({made, g.results}, out.dtype(), out.device());
  g.out = results.data();
  kernel(device, {in.dtype(), args.compute, out.dtype(), group / 32}, blocks(group), g);
  FoldGrid second = g;
  second.in = results.data();
  second.out = out.data();
  second.center = nullptr;
  second.count = second.part = made;
  second.kept = second.reduced = {};
  add_dim(second.kept, g.results, 1);
  add_dim(second.reduced, made, g.results);
  merge(device, {out.dtype(), out.dtype(), out.dtype(), 0}, grid_for(device, g.results), second);
}

void sum_flat(DType dtype, int64_t n, const void* in, void* out) {
  const int device = active_index();
  const Device where{DeviceType::CUDA, static_cast<int8_t>(device)};
  const auto view = [&](const void* data, Dims sizes) {
    Storage* storage = borrow_storage(
        const_cast<void*>(data), static_cast<size_t>(item_size(dtype) * (sizes.empty() ? 1 : sizes[0])), where,
        [](Storage*) {}, nullptr);
    Tensor t = tensor_on_storage(storage, dtype, 0, sizes, sizes.empty() ? Dims{} : Dims{1}, "sum");
    facula::release(storage);
    return t;
  };
  FoldArgs args;
  args.compute = dtype;
  sum_fold(where, view(out, {1}), view(in, {n}), args);
}

}  // namespace

void register_reduce() {
  constexpr auto cuda = DeviceType::CUDA;
  sum_fold.set(cuda, fold_cuda<kSumFold>);
  nansum_fold.set(cuda, fold_cuda<kNanSumFold>);
  prod_fold.set(cuda, fold_cuda<kProdFold>);
  max_fold.set(cuda, fold_cuda<kMaxFold>);
  min_fold.set(cuda, fold_cuda<kMinFold>);
  any_fold.set(cuda, fold_cuda<kAnyFold>);
  all_fold.set(cuda, fold_cuda<kAllFold>);
  count_nonzero_fold.set(cuda, fold_cuda<kCountFold>);
  xor_fold.set(cuda, fold_cuda<kXorFold>);
  abs_sum_fold.set(cuda, fold_cuda<kAbsSumFold>);
  square_sum_fold.set(cuda, fold_cuda<kSquareSumFold>);
  power_sum_fold.set(cuda, fold_cuda<kPowerSumFold>);
  abs_max_fold.set(cuda, fold_cuda<kAbsMaxFold>);
  abs_min_fold.set(cuda, fold_cuda<kAbsMinFold>);
  centered_squares_fold.set(cuda, fold_cuda<kCenteredSquaresFold>);
  sum_flat_kernel.set(cuda, sum_flat);
}

}  // namespace facula::cuda
