// Gathering and scattering through indices on the CPU.
//
// The dense operand, the index and the target share one shape, collapsed and ordered so that the innermost
// dimension is the dense operand's. A row along it either has one index for all (a block, copied whole) or
// one index per element.
#include "ops/index.h"

#include <cstdlib>
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/combine.h"

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

// Steps are in bytes.
struct Row {
  int64_t count;
  char* dense;
  const char* index;
  char* target;
  int64_t dense_step, index_step, target_step;
  int64_t unit;  // bytes of target per unit of index
};

int64_t index_at(const Row& r, int64_t i) { return *reinterpret_cast<const int64_t*>(r.index + i * r.index_step); }

// Blocks of indices that are checked together, so that reading them becomes vector code. Calls work(from, n, places)
// with the places in the target, in elements.
template <class T, class Place, class F>
void by_checked_blocks(const Row& r, const Bounds& bounds, F work) {
  constexpr int64_t kBlock = 64, item = sizeof(T);
  const auto* index = reinterpret_cast<const int64_t*>(r.index);
  const int64_t unit = r.unit / item, step = r.target_step / item, wrap = bounds.wrap;
  const uint64_t size = static_cast<uint64_t>(bounds.size);
  Place places[kBlock];
  for (int64_t from = 0; from < r.count; from += kBlock) {
    const int64_t n = std::min(kBlock, r.count - from);
    uint64_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; ++i) {
      int64_t k = index[from + i], at = k + ((k >> 63) & wrap);
      bad |= static_cast<uint64_t>(at) >= size;
      places[i] = static_cast<Place>(at * unit + (from + i) * step);
    }
    if (bad) {
      for (int64_t i = 0; i < n; ++i) bounds(index[from + i]);
    }
    work(from, n, places);
  }
}

template <class T, class Place>
void gather_checked(const Row& r, const Bounds& bounds) {
  T* out = reinterpret_cast<T*>(r.dense);
  const T* base = reinterpret_cast<const T*>(r.target);
  by_checked_blocks<T, Place>(r, bounds, [=](int64_t from, int64_t n, const Place* places) {
    FACULA_SIMD
    for (int64_t i = 0; i < n; ++i) out[from + i] = base[places[i]];
  });
}

template <class T>
void gather_row(const Row& r, const Bounds& bounds) {
  constexpr int64_t item = sizeof(T);
  if (r.index_step == 0) {
    const char* from = r.target + bounds(index_at(r, 0)) * r.unit;
    if (r.dense_step == item && r.target_step == item) {
      std::memcpy(r.dense, from, static_cast<size_t>(r.count * item));
      return;
    }
    for (int64_t i = 0; i < r.count; ++i)
      *reinterpret_cast<T*>(r.dense + i * r.dense_step) = *reinterpret_cast<const T*>(from + i * r.target_step);
    return;
  }
  if (r.dense_step == item && r.index_step == 8) {
    // vectors of elements and of their places have one width
    const int64_t extent = (bounds.size * std::abs(r.unit) + r.count * std::abs(r.target_step)) / item;
    if (item == 4 && extent <= INT32_MAX) return gather_checked<T, int32_t>(r, bounds);
    return gather_checked<T, int64_t>(r, bounds);
  }
  for (int64_t i = 0; i < r.count; ++i) {
    const char* from = r.target + bounds(index_at(r, i)) * r.unit + i * r.target_step;
    *reinterpret_cast<T*>(r.dense + i * r.dense_step) = *reinterpret_cast<const T*>(from);
  }
}

template <Combine C, class T>
void scatter_row(const Row& r, const Bounds& bounds) {
  constexpr int64_t item = sizeof(T);
  auto store = [](char* to, const char* from) {
    T& place = *reinterpret_cast<T*>(to);
    place = combine<C>(place, *reinterpret_cast<const T*>(from));
  };
  if (r.index_step == 0) {
    char* to = r.target + bounds(index_at(r, 0)) * r.unit;
    if (r.dense_step == item && r.target_step == item) {
      if (C == Combine::Assign) {
        std::memmove(to, r.dense, static_cast<size_t>(r.count * item));
        return;
      }
      T* out = reinterpret_cast<T*>(to);
      const T* in = reinterpret_cast<const T*>(r.dense);
      FACULA_SIMD
      for (int64_t i = 0; i < r.count; ++i) out[i] = combine<C>(out[i], in[i]);
      return;
    }
    for (int64_t i = 0; i < r.count; ++i) store(to + i * r.target_step, r.dense + i * r.dense_step);
    return;
  }
  if (r.index_step == 8) {
    char *base = r.target, *in = r.dense;
    const int64_t in_step = r.dense_step;
    return by_checked_blocks<T, int64_t>(r, bounds, [=](int64_t from, int64_t n, const int64_t* places) {
      for (int64_t i = 0; i < n; ++i) store(base + places[i] * item, in + (from + i) * in_step);
    });
  }
  for (int64_t i = 0; i < r.count; ++i)
    store(r.target + bounds(index_at(r, i)) * r.unit + i * r.target_step, r.dense + i * r.dense_step);
}

// Elements that are seldom combined share one loop, which calls a function for each.
template <class T>
constexpr bool is_often_combined =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
    std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> || std::is_same_v<T, std::complex<float>>;

template <Combine C, class T>
void combine_one(char* to, const char* from) {
  T& place = *reinterpret_cast<T*>(to);
  place = combine<C>(place, *reinterpret_cast<const T*>(from));
}

void scatter_each(const Row& r, const Bounds& bounds, void (*one)(char* to, const char* from)) {
  for (int64_t i = 0; i < r.count; ++i)
    one(r.target + bounds(index_at(r, i)) * r.unit + i * r.target_step, r.dense + i * r.dense_step);
}

template <Combine C, class T>
void scatter(const Row& r, const Bounds& bounds) {
  if constexpr (is_often_combined<T>) scatter_row<C, T>(r, bounds);
  else scatter_each(r, bounds, combine_one<C, T>);
}

using RowFn = void (*)(const Row&, const Bounds&);

RowFn gather_for(int64_t item) {
  return visit_size(item, []<class T>(TypeTag<T>) -> RowFn { return gather_row<T>; });
}

RowFn assign_for(int64_t item) {
  return visit_size(item, []<class T>(TypeTag<T>) -> RowFn { return scatter_row<Combine::Assign, T>; });
}

RowFn scatter_for(DType dtype, Combine how) {
  if (how == Combine::Assign) return assign_for(item_size(dtype));
  return visit_dtype(dtype, [&]<class T>(TypeTag<T>) -> RowFn {
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
  std::vector<Dims> strides{Dims(dense.strides()), Dims(map.strides), Dims(map.index.strides())};
  Dims order = dimension_order(dense.sizes(), strides);
  std::swap(strides[1], strides[2]);
  for (int64_t& s : strides[0]) s *= dense.item_size();
  for (int64_t& s : strides[1]) s *= 8;
  for (int64_t& s : strides[2]) s *= map.target.item_size();
  collapse(plan, dense.sizes(), strides, order);
  return plan;
}

void run_rows(const Plan& plan, RowFn row, int64_t unit, const Bounds& bounds) {
  size_t n = plan.shape.size();
  Dims at(n);
  Row r{plan.shape[0],       plan.out.data,         plan.in[0].data,       plan.in[1].data,
        plan.out.strides[0], plan.in[0].strides[0], plan.in[1].strides[0], unit};
  while (true) {
    row(r, bounds);
    size_t d = 1;
    for (; d < n; ++d) {
      r.dense += plan.out.strides[d];
      r.index += plan.in[0].strides[d];
      r.target += plan.in[1].strides[d];
      if (++at[d] < plan.shape[d]) break;
      r.dense -= plan.out.strides[d] * plan.shape[d];
      r.index -= plan.in[0].strides[d] * plan.shape[d];
      r.target -= plan.in[1].strides[d] * plan.shape[d];
      at[d] = 0;
    }
    if (d == n) return;
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

void run(const Plan& plan, const IndexMap& map, RowFn row, bool writes) {
  LockRelease release(plan.numel > kGrain);
  Bounds bounds{map.size, map.wraps ? map.size : 0, &map};
  int64_t unit = map.step * map.target.item_size();
  int d = shared_dim(plan, writes);
  if (plan.numel <= kGrain || d < 0) {
    run_rows(plan, row, unit, bounds);
    return;
  }
  int64_t grain = std::max<int64_t>(1, kGrain / (plan.numel / plan.shape[d]));
  parallel_for(0, plan.shape[d], grain, [&](int64_t from, int64_t to) {
    Plan part = plan;
    part.shape[d] = to - from;
    part.out.data += from * plan.out.strides[d];
    for (int k = 0; k < 2; ++k) part.in[k].data += from * plan.in[k].strides[d];
    run_rows(part, row, unit, bounds);
  });
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
