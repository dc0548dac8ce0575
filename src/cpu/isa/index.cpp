// Gathering and scattering through indices on the CPU.
//
// The dense operand, the index and the target share one shape, collapsed and ordered so that the innermost
// dimension is the dense operand's. A row along it either has one index for all (a block, copied whole) or
// one index per element.
#include "ops/index.h"

#include <cstring>

#include "core/checked.h"
#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/combine.h"
#include "cpu/isa/row_copy.h"
#include "cpu/processor.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// The checked place of an index: negative ones count from `wrap`, which is 0 where they are not allowed.
struct Bounds {
  int64_t size, wrap;
  const IndexMap* map;

  int64_t operator()(int64_t k) const {
    int64_t at = k + ((k >> 63) & wrap);
    if (__builtin_expect(static_cast<uint64_t>(at) >= static_cast<uint64_t>(size), 0)) fail(k);
    return at;
  }
  [[noreturn, gnu::noinline]] void fail(int64_t k) const {
    throw_error(map->error, map->op, ": index out of range: expected ", wrap ? -size : 0, " <= index < ", size,
                ", got ", k);
  }
};

// The two innermost dimensions; steps are in bytes.
struct Block {
  int64_t count, rows;
  char* dense;
  const char* index;
  char* target;
  int64_t dense_step, index_step, target_step;  // from one element of a row to the next
  int64_t dense_row, index_row, target_row;     // from one row to the next
  int64_t unit;                                 // bytes of target per unit of index

  int64_t index_at(int64_t i) const { return *reinterpret_cast<const int64_t*>(index + i * index_step); }
  /// Calls f(row) for every row.
  template <class F>
  void each_row(F&& f) const {
    Block row = *this;
    for (int64_t r = 0; r < rows; ++r) {
      f(row);
      row.dense += dense_row, row.index += index_row, row.target += target_row;
    }
  }
  /// Whether one list of indices, side by side, stands for all rows.
  bool shares_indices() const { return index_step == 8 && index_row == 0 && rows > 1; }
};

constexpr int64_t kPlaces = 512;  // indices that are checked together, and then used for all rows

// The places of up to kPlaces indices in a row of the target, in elements.
void find_places(const Block& b, const Bounds& bounds, int64_t item, int64_t from, int64_t n, int64_t* places) {
  const int64_t unit = b.unit / item, step = b.target_step / item;
  for (int64_t i = 0; i < n; ++i) places[i] = bounds(b.index_at(from + i)) * unit + (from + i) * step;
}

// Calls work(row, from, n, places) for pieces of all rows that share their indices.
template <class F>
void with_shared_places(const Block& b, const Bounds& bounds, int64_t item, F work) {
  int64_t places[kPlaces];
  for (int64_t from = 0; from < b.count; from += kPlaces) {
    const int64_t n = std::min(kPlaces, b.count - from);
    find_places(b, bounds, item, from, n, places);
    b.each_row([&](const Block& row) { work(row, from, n, places); });
  }
}

template <class T>
void gather_rows(const Block& b, const Bounds& bounds) {
  constexpr int64_t item = sizeof(T);
  const int64_t count = b.count, dense_step = b.dense_step, target_step = b.target_step;
  if (dense_step == item && target_step == item) {
    const RowCopy copy{count * item};
    return b.each_row([&](const Block& r) { copy(r.dense, r.target + bounds(r.index_at(0)) * r.unit); });
  }
  b.each_row([&](const Block& r) {
    const char* from = r.target + bounds(r.index_at(0)) * r.unit;
    for (int64_t i = 0; i < count; ++i)
      *reinterpret_cast<T*>(r.dense + i * dense_step) = *reinterpret_cast<const T*>(from + i * target_step);
  });
}

// Blocks of indices that are checked together, so that reading them becomes vector code, as gathering does: with
// AVX-512 only, which multiplies 64 bits, and where gathers are worth it.
template <class T, class Place>
void gather_checked(const Block& r, const Bounds& bounds) {
  constexpr int64_t kChecked = 64, item = sizeof(T);
  const auto* index = reinterpret_cast<const int64_t*>(r.index);
  T* out = reinterpret_cast<T*>(r.dense);
  const T* base = reinterpret_cast<const T*>(r.target);
  const int64_t unit = r.unit / item, step = r.target_step / item, wrap = bounds.wrap;
  const uint64_t size = static_cast<uint64_t>(bounds.size);
  Place places[kChecked];
  for (int64_t from = 0; from < r.count; from += kChecked) {
    const int64_t n = std::min(kChecked, r.count - from);
    uint64_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; ++i) {
      int64_t k = index[from + i], at = k + ((k >> 63) & wrap);
      bad |= static_cast<uint64_t>(at) >= size;
      places[i] = static_cast<Place>(wrapping_add(wrapping_mul(at, unit), (from + i) * step));  // no place if bad
    }
    if (bad) {
      for (int64_t i = 0; i < n; ++i) bounds(index[from + i]);
    }
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) out[from + i] = base[places[i]];
  }
}

/// Calls use(i, place) with the place, in elements of the target, of every index of a row.
template <class T, class F>
void each_place(const Block& b, const Bounds& given, F use) {
  const Bounds bounds = given;  // a copy, which stores cannot change
  const int64_t count = b.count, unit = b.unit / static_cast<int64_t>(sizeof(T)),
                step = b.target_step / static_cast<int64_t>(sizeof(T)), index_step = b.index_step;
  const char* index = b.index;
  auto at = [&](int64_t i, int64_t stride) {
    const int64_t k = *reinterpret_cast<const int64_t*>(index + i * stride);
    return __builtin_expect(static_cast<uint64_t>(k) < static_cast<uint64_t>(bounds.size), 1) ? k : bounds(k);
  };
  if (unit == 1 && step == 0 && index_step == 8) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < count; ++i) use(i, at(i, 8));
    return;
  }
  for (int64_t i = 0; i < count; ++i) use(i, at(i, index_step) * unit + i * step);
}

// One by one: gathers of vectors take as long on some processors and twice as long on others.
template <class T>
void gather_row(const Block& r, const Bounds& bounds) {
  constexpr int64_t item = sizeof(T);
  const T* base = reinterpret_cast<const T*>(r.target);
  if (r.dense_step == item) {
    if constexpr (kVectorBytes == 64) {
      if (gathers_well && r.index_step == 8) {
        // vectors of elements and of their places have one width
        const int64_t extent = (bounds.size * std::abs(r.unit) + r.count * std::abs(r.target_step)) / item;
        if (item == 4 && extent <= INT32_MAX) return gather_checked<T, int32_t>(r, bounds);
        return gather_checked<T, int64_t>(r, bounds);
      }
    }
    T* out = reinterpret_cast<T*>(r.dense);
    return each_place<T>(r, bounds, [=](int64_t i, int64_t place) { out[i] = base[place]; });
  }
  char* out = r.dense;
  const int64_t out_step = r.dense_step;
  each_place<T>(r, bounds, [=](int64_t i, int64_t place) { *reinterpret_cast<T*>(out + i * out_step) = base[place]; });
}

template <class T>
void gather_block(const Block& b, const Bounds& bounds) {
  if (b.index_step == 0) return gather_rows<T>(b, bounds);
  if ((kVectorBytes == 64 && gathers_well) || !b.shares_indices() || b.dense_step != sizeof(T))
    return b.each_row([&](const Block& r) { gather_row<T>(r, bounds); });
  with_shared_places(b, bounds, sizeof(T), [](const Block& r, int64_t from, int64_t n, const int64_t* places) {
    T* out = reinterpret_cast<T*>(r.dense) + from;
    const T* base = reinterpret_cast<const T*>(r.target);
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; ++i) {
      int64_t place = places[i];
      asm("" : "+r"(place));  // stays scalar: gathers take longer here than loads one by one
      out[i] = base[place];
    }
  });
}

template <Combine C, class T>
[[gnu::always_inline]] inline void combine_at(char* to, const char* from) {
  T& place = *reinterpret_cast<T*>(to);
  place = combine<C>(place, *reinterpret_cast<const T*>(from));
}
template <Combine C, class T>
void combine_one(char* to, const char* from) {
  combine_at<C, T>(to, from);
}

// Rows that go to one place each.
template <Combine C, class T>
void scatter_rows(const Block& b, const Bounds& bounds) {
  constexpr int64_t item = sizeof(T);
  const int64_t count = b.count, dense_step = b.dense_step, target_step = b.target_step;
  const bool dense = dense_step == item && target_step == item;
  b.each_row([&](const Block& r) {
    char *to = r.target + bounds(r.index_at(0)) * r.unit, *from = r.dense;
    if (C == Combine::Assign && dense_step == 0 && target_step == item) {
      std::fill_n(reinterpret_cast<T*>(to), count, *reinterpret_cast<const T*>(from));
    } else if (dense && C == Combine::Assign) {
      std::memmove(to, from, static_cast<size_t>(count * item));
    } else if (dense) {
      T* out = reinterpret_cast<T*>(to);
      const T* in = reinterpret_cast<const T*>(from);
      FACULA_SIMD
      for (int64_t i = 0; i < count; ++i) out[i] = combine<C>(out[i], in[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) combine_at<C, T>(to + i * target_step, from + i * dense_step);
    }
  });
}

template <Combine C, class T>
void scatter_block(const Block& b, const Bounds& bounds) {
  constexpr int64_t item = sizeof(T);
  if (b.index_step == 0) return scatter_rows<C, T>(b, bounds);
  if (b.shares_indices()) {
    return with_shared_places(b, bounds, item, [](const Block& r, int64_t from, int64_t n, const int64_t* places) {
      char *to = r.target, *in = r.dense + from * r.dense_step;
      const int64_t step = r.dense_step;
      for (int64_t i = 0; i < n; ++i) combine_at<C, T>(to + places[i] * item, in + i * step);
    });
  }
  b.each_row([&](const Block& r) {
    char *to = r.target, *in = r.dense;
    const int64_t in_step = r.dense_step;
    each_place<T>(r, bounds, [=](int64_t i, int64_t place) { combine_at<C, T>(to + place * item, in + i * in_step); });
  });
}

// Elements that are seldom combined share one loop, which calls a function for each.
template <class T>
constexpr bool is_often_combined =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
    std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> || std::is_same_v<T, std::complex<float>>;

void scatter_each(const Block& b, const Bounds& bounds, void (*one)(char* to, const char* from)) {
  b.each_row([&](const Block& r) {
    for (int64_t i = 0; i < r.count; ++i)
      one(r.target + bounds(r.index_at(i)) * r.unit + i * r.target_step, r.dense + i * r.dense_step);
  });
}

template <Combine C, class T>
void scatter(const Block& b, const Bounds& bounds) {
  if constexpr (is_often_combined<T>) scatter_block<C, T>(b, bounds);
  else scatter_each(b, bounds, combine_one<C, T>);
}

using BlockFn = void (*)(const Block&, const Bounds&);

BlockFn gather_for(int64_t item) {
  return visit_size(item, []<class T>(TypeTag<T>) -> BlockFn { return gather_block<T>; });
}

BlockFn assign_for(int64_t item) {
  return visit_size(item, []<class T>(TypeTag<T>) -> BlockFn { return scatter_block<Combine::Assign, T>; });
}

BlockFn scatter_for(DType dtype, Combine how) {
  if (how == Combine::Assign) return assign_for(item_size(dtype));
  return visit_dtype(dtype, [&]<class T>(TypeTag<T>) -> BlockFn {
    switch (how) {
      case Combine::Add: return scatter<Combine::Add, T>;
      case Combine::Multiply: return scatter<Combine::Multiply, T>;
      case Combine::Max: return scatter<Combine::Max, T>;
      default: return scatter<Combine::Min, T>;
    }
  });
}

// Operands by name: out is the dense one, in[0] the index, in[1] the target.
Plan index_plan(const Tensor& dense, const IndexMap& map) {
  Plan plan;
  plan.inputs = 2;
  plan.numel = dense.numel();
  plan.out.data = dense.data<char>();
  plan.in[0].data = map.index.data<char>();
  plan.in[1].data = map.target.data<char>();
  if (dense.dim() == 2 && dense.size(0) > 1 && dense.size(1) > 1 && dense.is_contiguous()) {  // as it is
    for (size_t d : {1, 0}) {
      plan.shape.push_back(dense.sizes()[d]);
      plan.out.strides.push_back(dense.strides()[d] * dense.item_size());
      plan.in[0].strides.push_back(wrapping_mul(map.index.strides()[d], 8));
      plan.in[1].strides.push_back(wrapping_mul(map.strides[d], map.target.item_size()));
    }
    return plan;
  }
  std::array<Dims, 3> strides{Dims(dense.strides()), Dims(map.strides), Dims(map.index.strides())};
  const Dims order = dimension_order(dense.sizes(), {strides.data(), strides.size()});
  std::swap(strides[1], strides[2]);
  for (int64_t& s : strides[0]) s = wrapping_mul(s, dense.item_size());
  for (int64_t& s : strides[1]) s = wrapping_mul(s, 8);
  for (int64_t& s : strides[2]) s = wrapping_mul(s, map.target.item_size());
  collapse(plan, dense.sizes(), {strides.data(), strides.size()}, order);
  return plan;
}

void run_blocks(const Plan& plan, BlockFn block, int64_t unit, const Bounds& bounds) {
  const size_t n = plan.shape.size();
  Dims at(n);
  const PlanOperand &dense = plan.out, &index = plan.in[0], &target = plan.in[1];
  Block b{.count = plan.shape[0],
          .rows = 1,
          .dense = dense.data,
          .index = index.data,
          .target = target.data,
          .dense_step = dense.strides[0],
          .index_step = index.strides[0],
          .target_step = target.strides[0],
          .dense_row = 0,
          .index_row = 0,
          .target_row = 0,
          .unit = unit};
  if (n > 1) {
    b.rows = plan.shape[1];
    b.dense_row = dense.strides[1], b.index_row = index.strides[1], b.target_row = target.strides[1];
  }
  while (true) {
    block(b, bounds);
    size_t d = 2;
    for (; d < n; ++d) {
      b.dense += dense.strides[d];
      b.index += index.strides[d];
      b.target += target.strides[d];
      if (++at[d] < plan.shape[d]) break;
      b.dense -= dense.strides[d] * plan.shape[d];
      b.index -= index.strides[d] * plan.shape[d];
      b.target -= target.strides[d] * plan.shape[d];
      at[d] = 0;
    }
    if (d >= n) return;
  }
}

// The dimension that threads share: for writing one along which the target moves, so that no two write the
// same place.
int shared_dim(const Plan& plan, bool writes) {
  int best = -1;
  for (int d = 0; d < static_cast<int>(plan.shape.size()); ++d) {
    if (writes && plan.in[1].strides[d] == 0) continue;
    if (best < 0 || plan.shape[d] >= plan.shape[best]) best = d;
  }
  return best;
}

void run(const Plan& plan, const IndexMap& map, BlockFn block, bool writes) {
  LockRelease release(plan.numel > kGrain);
  Bounds bounds{map.size, map.wraps ? map.size : 0, &map};
  int64_t unit = wrapping_mul(map.step, map.target.item_size());  // no place is named by what does not fit
  int d = shared_dim(plan, writes);
  // Threads that write share every row of the target, which then travels from one processor's cache to the other's.
  const int64_t piece = writes ? 4 * kGrain : kGrain;
  if (plan.numel <= piece) {
    run_blocks(plan, block, unit, bounds);
    return;
  }
  const bool in_order = d < 0;  // everything may go to one place: by one thread, which can be stopped
  if (in_order) d = shared_dim(plan, false);
  int64_t grain = std::max<int64_t>(1, (in_order ? kGrain : piece) / (plan.numel / plan.shape[d]));
  auto run_part = [&](int64_t from, int64_t to) {
    Plan part = plan;
    part.shape[d] = to - from;
    part.out.data += from * plan.out.strides[d];
    for (int k = 0; k < 2; ++k) part.in[k].data += from * plan.in[k].strides[d];
    run_blocks(part, block, unit, bounds);
  };
  if (in_order) sliced_for(0, plan.shape[d], grain, run_part);
  else parallel_for(0, plan.shape[d], grain, run_part);
}

void gather_cpu(const Tensor& out, const IndexMap& map) {
  if (out.numel()) run(index_plan(out, map), map, gather_for(out.item_size()), false);
}

void scatter_cpu(const IndexMap& map, const Tensor& source, Combine how) {
  if (source.numel()) run(index_plan(source, map), map, scatter_for(source.dtype(), how), true);
}

}  // namespace

void register_index() {
  gather_kernel.set(DeviceType::CPU, gather_cpu);
  scatter_kernel.set(DeviceType::CPU, scatter_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
