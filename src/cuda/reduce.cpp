// Folds, extrema with their positions among them: divides the dimensions into those that stay and those that go, and
// chooses who folds what.
#include "ops/reduce.h"

#include <bit>
#include <utility>

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/reduce_args.h"
#include "cuda/tickets.h"

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

/// Puts the dimensions that go in the order of memory: the fold then does so, too.
FoldDims sorted(const FoldDims& dims) {
  FoldDims in_order{};
  bool taken[kMostFoldDims] = {};
  for (int n = 0; n < dims.dims; ++n) {
    int next = -1;
    for (int d = 0; d < dims.dims; ++d)
      if (!taken[d] && (next < 0 || dims.strides[d] < dims.strides[next])) next = d;
    taken[next] = true;
    add_dim(in_order, dims.shape[next], dims.strides[next]);
  }
  return in_order;
}

/// `goes(d)` says whether a dimension is reduced.
template <class F>
FoldGrid grid_of(const Tensor& out, const Tensor& in, F goes) {
  FoldGrid g{};
  g.results = out.numel();
  g.count = 1;
  for (int64_t d = in.dim() - 1; d >= 0; --d) {
    if (goes(d)) g.count *= in.size(d);
    add_dim(goes(d) ? g.reduced : g.retained, in.size(d), in.stride(d));
  }
  g.reduced = sorted(g.reduced);
  g.in = in.data();
  g.out = out.data();
  g.divisor = 1;
  g.parts = 1;
  return g;
}

// ---- who folds what

constexpr int kThreads = 256, kVectorBytes = 16;

/// How a kernel is chosen, beside dtypes.
struct Share {
  bool columns;
  int warps;   // of rows: of each
  int bytes;   // of an access to neighbors; 0: elements that are none
  int places;  // FoldPlaces
};

int64_t quotient_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// The largest accesses of neighbors, to multiples of their size, for vectors that begin where the dimensions say.
int access_bytes(const void* data, int64_t item, std::initializer_list<std::pair<const FoldDims*, int>> dims) {
  auto all = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data));
  for (const auto& [those, first] : dims)
    for (int d = first; d < those->dims; ++d) all |= static_cast<uint64_t>(those->strides[d] * item);
  const auto most = static_cast<int>(std::min<uint64_t>(all & (~all + 1), kVectorBytes));
  if (most == 0 || most == kVectorBytes) return kVectorBytes;
  return static_cast<int>(std::max<int64_t>(most >= 4 ? 4 : 1, item));  // not an instance for every size
}

/// How the elements of a result lie whose innermost dimension has `line` units; `all` are those of them all.
int places_of(FoldGrid& g, int64_t line, int64_t all) {
  constexpr int64_t kMost = INT32_MAX;
  if (g.reduced.dims <= 1 || all == 0) return kOneLine;
  if (g.reduced.dims > 2 || all > kMost) return kAnyPlaces;
  g.line = fast_division(static_cast<unsigned>(line));
  return kManyLines;
}

/// Divides what each of `groups` of results has into parts, so that the device is busy. They are multiples of `turn`
/// units, twice that at least.
void divide(FoldGrid& g, int64_t groups, int64_t turn, int device) {
  constexpr int64_t kMostParts = 1024;
  const Properties& p = properties(device);
  const int64_t room = int64_t{p.multiprocessors} * (p.threads_per_multiprocessor / kThreads) / groups;
  const int64_t wanted =
      groups > kTickets ? 1 : std::clamp<int64_t>(std::min<int64_t>(room, g.units / (2 * turn)), 1, kMostParts);
  g.part = std::max<int64_t>(quotient_up(quotient_up(g.units, wanted), turn), 1) * turn;
  g.parts = static_cast<int>(std::max<int64_t>(quotient_up(g.units, g.part), 1));
}

/// A thread, a warp or a block for every result, or several blocks.
Share share_rows(FoldGrid& g, int64_t item, int device) {
  constexpr int64_t kTurn = 4 * kThreads;  // vectors that a block requests at once
  Share share{false, g.count <= 8 ? 0 : g.count <= 1024 ? 1 : 8, 0, kOneLine};
  int64_t wide = fold_wide(static_cast<int>(item));
  const int64_t length = g.reduced.dims ? g.reduced.shape[0] : 1;
  const bool neighbors = g.reduced.dims && g.reduced.strides[0] == 1 && (g.reduced.dims == 1 || length % wide == 0);
  if (neighbors) share.bytes = access_bytes(g.in, item, {{&g.retained, 0}, {&g.reduced, 1}});
  else wide = 1;
  const auto share_units = [&] {
    g.units = g.count / wide;
    g.rest = static_cast<int>(g.count % wide);
    g.part = std::max<int64_t>(g.units, 1);
    if (share.warps == 8) divide(g, g.results, kTurn, device);
  };
  share_units();
  share.places = places_of(g, length / wide, g.units);
  if (g.part > INT32_MAX) share.places = kAnyPlaces;
  if (share.places == kAnyPlaces) {
    share.bytes = 0;
    wide = 1;
    share_units();
  }
  return share;
}

/// Whether neighboring results are of neighboring elements, and there are enough for the threads of a block.
bool are_columns(const FoldGrid& g) {
  if (!g.retained.dims || !g.reduced.dims || g.retained.strides[0] >= g.reduced.strides[0]) return false;
  return std::min<int64_t>(g.retained.shape[0], kThreads) * g.count >= kThreads &&
         g.results / g.retained.shape[0] <= INT32_MAX;
}

/// Blocks for strips of 32 vectors, of more where there are few rows.
Share share_columns(FoldGrid& g, int64_t item, int64_t total, int device) {
  constexpr int kRows = 4;  // at least, that a thread requests at once
  const bool neighbors =
      g.retained.strides[0] == 1 && access_bytes(g.in, item, {{&g.retained, 1}, {&g.reduced, 0}}) == kVectorBytes;
  int64_t wide = column_wide(static_cast<int>(item), static_cast<int>(total));
  if (!neighbors || g.retained.shape[0] % wide) wide = 1;
  const int64_t vectors = g.retained.shape[0] / wide;
  const auto most = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, kThreads))));
  g.lanes = std::min(most, 32);
  while (g.lanes < most && g.count < kThreads / g.lanes * kRows) g.lanes *= 2;
  g.strips = static_cast<unsigned>(quotient_up(vectors, g.lanes));
  g.units = g.count;
  divide(g, g.results / g.retained.shape[0] * g.strips, kThreads / g.lanes * kRows, device);
  return {true, 0, wide > 1 ? kVectorBytes : static_cast<int>(item), places_of(g, g.reduced.shape[0], g.count)};
}

/// A fold's two kernels; `name` is what it is called in kernels/reduce.cuh.
struct FoldKernels {
  std::string of_rows, of_columns;
  DeviceKernel rows{"reduce.cuh", of_rows.c_str()}, columns{"reduce.cuh", of_columns.c_str()};
  int made_bytes, made_numbers;  // of what parts make: bytes, or else numbers of the total's dtype

  FoldKernels(const char* name, int bytes, int numbers)
      : of_rows(std::string("fold_rows<facula::cuda::") + name),
        of_columns(std::string("fold_columns<facula::cuda::") + name),
        made_bytes(bytes),
        made_numbers(numbers) {}
  FoldKernels(const FoldKernels&) = delete;

  void operator()(FoldGrid& g, const Tensor& in, DType compute, DType total, const Tensor& out) const {
    const int device = out.device().index;
    const int64_t item = item_size(in.dtype()), made_item = made_bytes ? made_bytes : made_numbers * item_size(total);
    const Share share = are_columns(g) ? share_columns(g, item, made_item, device) : share_rows(g, item, device);
    Tensor made;
    if (g.parts > 1) {
      made = facula::empty({g.parts * g.results * made_item}, DType::UInt8, out.device());
      g.made = made.data();
      g.tickets = fold_ticket(device);
    }
    if (share.columns)
      columns(device, {in.dtype(), compute, total, out.dtype(), share.bytes, share.places},
              {kThreads, g.results / g.retained.shape[0] * g.strips, g.parts}, g);
    else
      rows(device, {in.dtype(), compute, total, out.dtype(), share.warps, share.bytes, share.places},
           grid_for(device, g.results * g.parts * (share.warps ? 32 * share.warps : 1)), g);
  }
};

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
constexpr char kMomentsFold[] = "MomentsFold";

template <const char* name, int numbers = 1>
void fold_cuda(const Tensor& out, const Tensor& in, const FoldArgs& args) {
  static const FoldKernels kernels(name, 0, numbers);
  if (out.numel() == 0) return;
  FoldGrid g = grid_of(out, in, [&](int64_t d) { return out.size(d) != in.size(d); });
  g.divisor = args.divisor;
  g.power = args.power;
  g.finish = static_cast<int>(args.finish);
  kernels(g, in, args.compute, args.total.value_or(out.dtype()), out);
}

constexpr char kFirstLargest[] = "FirstBest<true>";
constexpr char kFirstSmallest[] = "FirstBest<false>";

template <const char* name>
void arg_extremum(DType compute, int64_t dim, const Tensor& in, const Tensor& values, const Tensor& positions) {
  constexpr int kBestBytes = 16;  // a value and its position
  static const FoldKernels kernels(name, kBestBytes, 0);
  if (values.numel() == 0) return;
  FoldGrid g = grid_of(values, in, [=](int64_t d) { return d == dim; });
  g.positions = reinterpret_cast<long long*>(positions.data<int64_t>());
  kernels(g, in, compute, compute, values);
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
  moments_fold.set(cuda, fold_cuda<kMomentsFold, 4>);
  argmax_kernel.set(cuda, arg_extremum<kFirstLargest>);
  argmin_kernel.set(cuda, arg_extremum<kFirstSmallest>);
  sum_flat_kernel.set(cuda, sum_flat);
}

}  // namespace facula::cuda
