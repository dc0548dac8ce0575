// Reductions ("folds") of strided tensors. Whatever the layout, a fold becomes one of two shapes: rows, where the
// elements that lie closest together are reduced, and columns, where they belong to different results. Partial results
// are merged pairwise over blocks of fixed size, so that rounding errors grow with the logarithm of the length and the
// result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/lanes.h"
#include "ops/reduce.h"

namespace facula::cpu::FACULA_ISA {

/// Elements folded by one pass of vector accumulators: at most 128 floats enter one of them, however short they are.
constexpr int64_t kFoldBlock = std::min(4096, 128 * kVectorBytes);
constexpr int64_t kFoldChunk = 1 << 16;  // elements one thread takes at a time; part of the result's definition
constexpr int64_t kColumnTile = 256;     // neighbouring results folded together
constexpr int64_t kColumnRows = 128;     // rows folded into a tile before tiles are merged pairwise

struct FoldPlan {
  const char* in = nullptr;
  DType dtype = DType::Float32;  // of memory
  DType compute = DType::Float32;
  bool columns = false;
  int64_t inner = 1, inner_stride = 0;  // the innermost dimension: reduced (rows) or kept (columns); stride in bytes
  int64_t inner_out = 0;                // columns: elements between neighbouring results
  Dims kept, kept_in, kept_out;         // outer kept dimensions, innermost first; strides in bytes and in elements
  Dims reduced, reduced_in;             // outer reduced dimensions, innermost first
  int64_t kept_count = 1, reduced_count = 1;

  bool direct() const { return dtype == compute && inner_stride == item_size(dtype); }
};

FoldPlan plan_fold(const Tensor& out, const Tensor& in, DType compute);

inline int64_t strided_offset(int64_t index, const Dims& sizes, const Dims& strides) {
  if (sizes.size() <= 1) return sizes.empty() ? 0 : index * strides[0];
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    offset += index % sizes[d] * strides[d];
    index /= sizes[d];
  }
  return offset;
}

/// `n` elements from `at` on, as contiguous values of the compute dtype: in place, or packed and converted into
/// `buffer`.
const void* load_elements(const FoldPlan& plan, const char* at, int64_t n, void* buffer, void* packed);

/// Folds as many contiguous values as four vectors take at a time, into one vector; `done` receives their number.
template <class Op, class T>
auto fold_vectors(const Op& op, const T* p, int64_t n, T center, int64_t& done) {
  using V = typename VectorOf<T>::type;
  constexpr int lanes = VectorOf<T>::lanes;
  V start = V{} + op.identity(), middle = V{} + center;
  V a = start, b = start, c = start, d = start;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = op.step(a, load_vector(p + i), middle);
    b = op.step(b, load_vector(p + i + lanes), middle);
    c = op.step(c, load_vector(p + i + 2 * lanes), middle);
    d = op.step(d, load_vector(p + i + 3 * lanes), middle);
  }
  done = i;
  return static_cast<V>(op.merge(static_cast<V>(op.merge(a, b)), static_cast<V>(op.merge(c, d))));
}

/// Folds up to kFoldBlock contiguous values.
template <class Op>
typename Op::Acc fold_block(const Op& op, const typename Op::Value* p, int64_t n, typename Op::Value center) {
  using Acc = typename Op::Acc;
  Acc total = op.identity();
  int64_t i = 0;
  if constexpr (Op::vectorised) {
    if (n >= 4 * VectorOf<Acc>::lanes) {
      auto pair = merge_lanes<2>(fold_vectors(op, p, n, center, i), [&](auto a, auto b) { return op.merge(a, b); });
      total = op.merge(Acc(pair[0]), Acc(pair[1]));
    }
  } else if constexpr (requires { typename Op::Parts; }) {  // complex numbers, folded as their parts side by side
    using Real = typename Acc::value_type;
    typename Op::Parts parts;
    auto pair = merge_lanes<2>(fold_vectors(parts, reinterpret_cast<const Real*>(p), 2 * n, Real(0), i),
                               [&](auto a, auto b) { return parts.merge(a, b); });
    total = Acc(pair[0], pair[1]);
    i /= 2;
  }
  for (; i < n; ++i) total = op.step(total, p[i], center);
  return total;
}

/// Buffers of one thread, for elements that must be packed or converted.
template <class Op>
struct FoldScratch {
  alignas(64) typename Op::Value values[kFoldBlock];
  alignas(64) char packed[kFoldBlock * 16];
};

/// Folds `n` elements of the innermost dimension.
template <class Op>
typename Op::Acc fold_run(const Op& op, const FoldPlan& plan, const char* at, int64_t n, typename Op::Value center,
                          FoldScratch<Op>* scratch) {
  using Value = typename Op::Value;
  if (n <= kFoldBlock) {
    const void* p = plan.direct() ? at : load_elements(plan, at, n, scratch->values, scratch->packed);
    return fold_block(op, static_cast<const Value*>(p), n, center);
  }
  int64_t half = (n / 2 + kFoldBlock - 1) / kFoldBlock * kFoldBlock;
  return op.merge(fold_run(op, plan, at, half, center, scratch),
                  fold_run(op, plan, at + half * plan.inner_stride, n - half, center, scratch));
}

/// Folds the rows [from, to) of the outer reduced dimensions.
template <class Op>
typename Op::Acc fold_rows(const Op& op, const FoldPlan& plan, const char* base, int64_t from, int64_t to,
                           typename Op::Value center, FoldScratch<Op>* scratch) {
  if (to - from > 16) {
    int64_t middle = from + (to - from) / 2;
    return op.merge(fold_rows(op, plan, base, from, middle, center, scratch),
                    fold_rows(op, plan, base, middle, to, center, scratch));
  }
  typename Op::Acc total = op.identity();
  for (int64_t r = from; r < to; ++r) {
    const char* row = base + strided_offset(r, plan.reduced, plan.reduced_in);
    total = op.merge(total, fold_run(op, plan, row, plan.inner, center, scratch));
  }
  return total;
}

template <class Op>
typename Op::Acc merge_partials(const Op& op, const typename Op::Acc* p, int64_t n, int64_t step) {
  if (n == 1) return *p;
  return op.merge(merge_partials(op, p, n / 2, step), merge_partials(op, p + n / 2 * step, n - n / 2, step));
}

template <class Op, class Store>
void fold_as_rows(const Op& op, const FoldPlan& plan, const typename Op::Value* centers, Store store) {
  using Acc = typename Op::Acc;
  bool split_inner = plan.reduced_count == 1;
  int64_t length = split_inner ? plan.inner : plan.reduced_count;
  int64_t chunk = split_inner ? kFoldChunk : std::max<int64_t>(1, kFoldChunk / plan.inner);
  int64_t chunks = std::max<int64_t>(1, (length + chunk - 1) / chunk);
  bool needs_scratch = !plan.direct();
  std::vector<Acc> partials(chunks > 1 ? static_cast<size_t>(plan.kept_count * chunks) : 0, op.identity());
  int64_t work = std::max<int64_t>(1, std::min(length, chunk) * (split_inner ? 1 : plan.inner));
  parallel_for(0, plan.kept_count * chunks, std::max<int64_t>(1, kGrain / work), [&](int64_t from, int64_t to) {
    std::unique_ptr<FoldScratch<Op>> scratch(needs_scratch ? new FoldScratch<Op> : nullptr);
    for (int64_t task = from; task < to; ++task) {
      int64_t k = task / chunks, c = task % chunks;
      const char* base = plan.in + strided_offset(k, plan.kept, plan.kept_in);
      int64_t place = strided_offset(k, plan.kept, plan.kept_out);
      typename Op::Value center = centers ? centers[place] : typename Op::Value();
      int64_t first = c * chunk, last = std::min(length, first + chunk);
      Acc value = split_inner
                      ? fold_run(op, plan, base + first * plan.inner_stride, last - first, center, scratch.get())
                      : fold_rows(op, plan, base, first, last, center, scratch.get());
      if (chunks == 1) store(place, value);
      else partials[static_cast<size_t>(task)] = value;
    }
  });
  if (chunks == 1) return;
  for (int64_t k = 0; k < plan.kept_count; ++k)
    store(strided_offset(k, plan.kept, plan.kept_out), merge_partials(op, partials.data() + k * chunks, chunks, 1));
}

template <class Op>
struct ColumnScratch {
  alignas(64) typename Op::Value values[kColumnTile];
  alignas(64) char packed[kColumnTile * 16];
};

/// How many rows are folded side by side: narrow rows that follow each other in memory are read as wider ones.
inline int64_t rows_side_by_side(const FoldPlan& plan, int64_t width) {
  bool adjacent = plan.direct() && width == plan.inner && plan.reduced.size() == 1 &&
                  plan.reduced_in[0] == width * plan.inner_stride;
  return adjacent && width <= 32 ? 64 / width : 1;
}

/// acc[w] = step(acc[w], x[w], center[w]) over one row.
template <class Op>
void fold_row_into(const Op& op, typename Op::Acc* acc, const typename Op::Value* x, const typename Op::Value* center,
                   int64_t width) {
  using Value = typename Op::Value;
  if (center) {
    FACULA_SIMD
    for (int64_t w = 0; w < width; ++w) acc[w] = op.step(acc[w], x[w], center[w]);
  } else {
    FACULA_SIMD
    for (int64_t w = 0; w < width; ++w) acc[w] = op.step(acc[w], x[w], Value());
  }
}

/// Folds the rows [from, to) into `width` neighbouring accumulators.
template <class Op>
void fold_columns(const Op& op, const FoldPlan& plan, const char* base, int64_t from, int64_t to, int64_t width,
                  const typename Op::Value* center, typename Op::Acc* acc, ColumnScratch<Op>* scratch) {
  using Value = typename Op::Value;
  using Acc = typename Op::Acc;
  int64_t beside = rows_side_by_side(plan, width);
  if (to - from > kColumnRows * beside) {
    int64_t middle = from + (to - from) / 2;
    alignas(64) Acc other[kColumnTile];
    fold_columns(op, plan, base, from, middle, width, center, acc, scratch);
    fold_columns(op, plan, base, middle, to, width, center, other, scratch);
    FACULA_SIMD
    for (int64_t w = 0; w < width; ++w) acc[w] = op.merge(acc[w], other[w]);
    return;
  }
  std::fill_n(acc, width, op.identity());
  int64_t r = from;
  if (beside > 1) {
    alignas(64) Acc wide[64];
    alignas(64) Value centers[64];
    std::fill_n(wide, 64, op.identity());
    for (int64_t w = 0; center && w < beside * width; ++w) centers[w] = center[w % width];
    for (; r + beside <= to; r += beside)
      fold_row_into(op, wide, reinterpret_cast<const Value*>(base + r * plan.reduced_in[0]), center ? centers : nullptr,
                    beside * width);
    for (int64_t w = 0; w < beside * width; ++w) acc[w % width] = op.merge(acc[w % width], wide[w]);
  }
  for (; r < to; ++r) {
    const char* row = base + strided_offset(r, plan.reduced, plan.reduced_in);
    const void* x = plan.direct() ? row : load_elements(plan, row, width, scratch->values, scratch->packed);
    fold_row_into(op, acc, static_cast<const Value*>(x), center, width);
  }
}

template <class Op, class Store>
void fold_as_columns(const Op& op, const FoldPlan& plan, const typename Op::Value* centers, Store store) {
  using Acc = typename Op::Acc;
  using Value = typename Op::Value;
  int64_t tiles = (plan.inner + kColumnTile - 1) / kColumnTile, width = std::min(plan.inner, kColumnTile);
  int64_t chunk = std::max(kColumnRows, kFoldChunk / width);
  int64_t chunks = std::max<int64_t>(1, (plan.reduced_count + chunk - 1) / chunk);
  std::vector<Acc> partials(chunks > 1 ? static_cast<size_t>(plan.kept_count * tiles * chunks * width) : 0,
                            op.identity());
  bool needs_scratch = !plan.direct();
  auto geometry = [&](int64_t group, int64_t& first, int64_t& count) {
    first = group % tiles * kColumnTile;
    count = std::min(kColumnTile, plan.inner - first);
    return strided_offset(group / tiles, plan.kept, plan.kept_out) + first * plan.inner_out;
  };
  int64_t work = std::min(chunk, plan.reduced_count) * width;
  parallel_for(0, plan.kept_count * tiles * chunks, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)),
               [&](int64_t from, int64_t to) {
                 std::unique_ptr<ColumnScratch<Op>> scratch(needs_scratch ? new ColumnScratch<Op> : nullptr);
                 alignas(64) Acc acc[kColumnTile];
                 alignas(64) Value middle[kColumnTile];
                 for (int64_t task = from; task < to; ++task) {
                   int64_t group = task / chunks, c = task % chunks, first, count;
                   int64_t place = geometry(group, first, count);
                   for (int64_t w = 0; centers && w < count; ++w) middle[w] = centers[place + w * plan.inner_out];
                   const char* base =
                       plan.in + strided_offset(group / tiles, plan.kept, plan.kept_in) + first * plan.inner_stride;
                   int64_t begin = c * chunk, end = std::min(plan.reduced_count, begin + chunk);
                   Acc* target = chunks == 1 ? acc : partials.data() + task * width;
                   fold_columns(op, plan, base, begin, end, count, centers ? middle : nullptr, target, scratch.get());
                   for (int64_t w = 0; chunks == 1 && w < count; ++w) store(place + w * plan.inner_out, acc[w]);
                 }
               });
  if (chunks == 1) return;
  for (int64_t group = 0; group < plan.kept_count * tiles; ++group) {
    int64_t first, count, place = geometry(group, first, count);
    for (int64_t w = 0; w < count; ++w)
      store(place + w * plan.inner_out,
            merge_partials(op, partials.data() + group * chunks * width + w, chunks, width));
  }
}

/// Runs a fold; `store(place, accumulated)` receives each result with its position in the contiguous output.
template <class Op, class Store>
void run_fold(const Op& op, const Tensor& out, const Tensor& in, DType compute, const typename Op::Value* centers,
              Store store) {
  if (in.numel() == 0) {
    for (int64_t i = 0; i < out.numel(); ++i) store(i, op.identity());
    return;
  }
  FoldPlan plan = plan_fold(out, in, compute);
  LockRelease unlocked(in.numel() > 4 * kGrain);
  if (plan.columns) fold_as_columns(op, plan, centers, store);
  else fold_as_rows(op, plan, centers, store);
}

}  // namespace facula::cpu::FACULA_ISA
