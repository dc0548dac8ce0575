// Positions and elements selected by truth values, on the CPU. Everything is contiguous; blocks are counted
// first so that each thread knows where its selection goes.
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "ops/index.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kBlock = 1 << 14;

template <class T>
bool is_nonzero(const T& value) {
  if constexpr (requires { value.real(); }) return value.real() != 0 || value.imag() != 0;
  else if constexpr (requires { value.re; })
    return static_cast<float>(value.re) != 0 || static_cast<float>(value.im) != 0;
  else if constexpr (!std::is_arithmetic_v<T>) return static_cast<float>(value) != 0;
  else return value != T(0);
}

template <class T>
int64_t count_run(const T* in, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += is_nonzero(in[i]);
  return count;
}

// Where the selection of each block starts; the last entry is the total.
std::vector<int64_t> block_starts(const Tensor& in) {
  int64_t n = in.numel(), blocks = (n + kBlock - 1) / kBlock;
  std::vector<int64_t> starts(static_cast<size_t>(blocks + 1), 0);
  visit_dtype(in.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(0, blocks, 4, [&](int64_t from, int64_t to) {
      for (int64_t b = from; b < to; ++b)
        starts[b + 1] = count_run(in.data<T>() + b * kBlock, std::min(kBlock, n - b * kBlock));
    });
  });
  for (int64_t b = 0; b < blocks; ++b) starts[b + 1] += starts[b];
  return starts;
}

// Calls f(first element, past the last, place of the first selected one, past the last place) for every
// block.
template <class F>
void for_each_block(int64_t n, const std::vector<int64_t>& starts, F&& f) {
  parallel_for(0, static_cast<int64_t>(starts.size()) - 1, 4, [&](int64_t from, int64_t to) {
    for (int64_t b = from; b < to; ++b) {
      if (starts[b] != starts[b + 1]) f(b * kBlock, std::min(n, (b + 1) * kBlock), starts[b], starts[b + 1]);
    }
  });
}

int64_t count_nonzero(const Tensor& in) {
  LockRelease release(in.numel() > kGrain);
  return block_starts(in).back();
}

// Rows of out for the selected elements of [from, to), from `row` up to `rows`.
template <class T>
void positions(const Tensor& out, const Tensor& in, int64_t from, int64_t to, int64_t row, int64_t rows) {
  int64_t ndim = in.dim(), row_step = out.stride(0), column_step = ndim ? out.stride(1) : 0;
  int64_t* o = out.data<int64_t>();
  const T* values = in.data<T>();
  Dims at(static_cast<size_t>(ndim));
  for (int64_t d = ndim, flat = from; d-- > 0; flat /= in.size(d)) at[d] = flat % in.size(d);
  int64_t inner = ndim ? in.size(ndim - 1) : 1;
  for (int64_t i = from; i < to && row < rows;) {
    int64_t first = ndim ? at[ndim - 1] : 0, run = std::min(to - i, inner - first), start = row;
    int64_t* column = o + (ndim - 1) * column_step;
    for (int64_t j = 0; j < run && row < rows; ++j) {
      if (ndim) column[row * row_step] = first + j;  // written in any case and kept when chosen: no branch to predict
      row += is_nonzero(values[i + j]);
    }
    for (int64_t d = 0; d + 1 < ndim; ++d) {
      for (int64_t r = start; r < row; ++r) o[r * row_step + d * column_step] = at[d];
    }
    i += run;
    if (ndim) at[ndim - 1] = 0;
    for (int64_t d = ndim - 2; d >= 0; --d) {
      if (++at[d] < in.size(d)) break;
      at[d] = 0;
    }
  }
}

void nonzero_cpu(const Tensor& out, const Tensor& in) {
  LockRelease release(in.numel() > kGrain);
  std::vector<int64_t> starts = block_starts(in);
  visit_dtype(in.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_block(in.numel(), starts, [&](int64_t from, int64_t to, int64_t place, int64_t last) {
      positions<T>(out, in, from, to, place, std::min(last, out.size(0)));
    });
  });
}

template <class F>
void visit_size(int64_t item, F&& f) {
  struct Bytes16 {
    uint64_t low, high;
  };
  switch (item) {
    case 1: return f(TypeTag<uint8_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    case 8: return f(TypeTag<uint64_t>{});
    default: return f(TypeTag<Bytes16>{});
  }
}

void masked_select_cpu(const Tensor& out, const Tensor& in, const Tensor& mask) {
  LockRelease release(in.numel() > kGrain);
  const bool* chosen = mask.data<bool>();
  visit_size(in.item_size(), [&]<class T>(TypeTag<T>) {
    for_each_block(in.numel(), block_starts(mask), [&](int64_t from, int64_t to, int64_t place, int64_t last) {
      const T* source = in.data<T>();
      T* target = out.data<T>() + place;
      const T* end = out.data<T>() + last;
      for (int64_t i = from; i < to && target < end; ++i) {
        *target = source[i];  // written in any case and kept when chosen: no branch to predict
        target += chosen[i];
      }
    });
  });
}

void masked_scatter_cpu(const Tensor& out, const Tensor& mask, const Tensor& source) {
  LockRelease release(out.numel() > kGrain);
  const bool* chosen = mask.data<bool>();
  visit_size(out.item_size(), [&]<class T>(TypeTag<T>) {
    for_each_block(out.numel(), block_starts(mask), [&](int64_t from, int64_t to, int64_t place, int64_t) {
      const T* next = source.data<T>() + place;
      T* target = out.data<T>();
      for (int64_t i = from; i < to; ++i)
        if (chosen[i]) target[i] = *next++;
    });
  });
}

}  // namespace

void register_masked() {
  count_nonzero_kernel.set(DeviceType::CPU, count_nonzero);
  nonzero_kernel.set(DeviceType::CPU, nonzero_cpu);
  masked_select_kernel.set(DeviceType::CPU, masked_select_cpu);
  masked_scatter_kernel.set(DeviceType::CPU, masked_scatter_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
