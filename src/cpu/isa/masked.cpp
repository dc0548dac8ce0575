// Positions and elements selected by truth values, on the CPU. Everything is contiguous; blocks are counted
// first so that each thread knows where its selection goes.
#include <algorithm>
#include <bit>
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/lanes.h"
#include "ops/index.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kBlock = 1 << 14;

// The bits in which an element differs from zero, of complex numbers in the first eight bytes: all but the signs of
// floats, which may be those of -0.
uint64_t bits_of_value(DType dtype) {
  switch (dtype) {
    case DType::Float8E4M3FN:
    case DType::Float8E5M2: return 0x7f;  // the other float8 types have no -0
    case DType::Float16:
    case DType::BFloat16: return 0x7fff;
    case DType::Complex32: return 0x7fff7fff;
    case DType::Float32: return 0x7fffffff;
    case DType::Complex64: return 0x7fffffff7fffffff;
    case DType::Float64:
    case DType::Complex128: return ~uint64_t{0} >> 1;
    default: return ~uint64_t{0};
  }
}

template <class T>
bool is_nonzero(T element, uint64_t bits) {
  return (element & static_cast<T>(bits)) != 0;
}
bool is_nonzero(Bytes16 element, uint64_t bits) { return ((element.low | element.high) & bits) != 0; }

#ifdef __AVX512BW__
/// A bit for each of up to 64 bytes, set where it has any of the bits.
uint64_t which_of_64(const void* in, int64_t n, uint64_t bits) {
  const __m512i some = _mm512_maskz_loadu_epi8(~uint64_t{0} >> (64 - n), in);
  return _mm512_test_epi8_mask(some, _mm512_set1_epi8(static_cast<char>(bits)));
}
#endif

template <class T>
int64_t count_run(const T* in, int64_t n, uint64_t bits) {
  int64_t count = 0;
#ifdef __AVX512BW__
  if constexpr (sizeof(T) == 1) {
    for (int64_t i = 0; i < n; i += 64) count += std::popcount(which_of_64(in + i, std::min<int64_t>(64, n - i), bits));
    return count;
  }
#endif
  for (int64_t i = 0; i < n; ++i) count += is_nonzero(in[i], bits);
  return count;
}

// Where the selection of each block starts; the last entry is the total.
std::vector<int64_t> block_starts(const Tensor& in) {
  int64_t n = in.numel(), blocks = (n + kBlock - 1) / kBlock;
  std::vector<int64_t> starts(static_cast<size_t>(blocks + 1), 0);
  const uint64_t bits = bits_of_value(in.dtype());
  visit_size(in.item_size(), [&]<class T>(TypeTag<T>) {
    parallel_for(0, blocks, 4, [&](int64_t from, int64_t to) {
      for (int64_t b = from; b < to; ++b)
        starts[b + 1] = count_run(in.data<T>() + b * kBlock, std::min(kBlock, n - b * kBlock), bits);
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
  if (in.numel() <= kBlock) {
    int64_t count = 0;
    visit_size(in.item_size(),
               [&]<class T>(TypeTag<T>) { count = count_run(in.data<T>(), in.numel(), bits_of_value(in.dtype())); });
    return count;
  }
  LockRelease release(in.numel() > kGrain);
  return block_starts(in).back();
}

/// Writes first, first + 1, ... for those of `n` elements that are not zero, where at most `room` of them fit. Returns
/// how many were written.
template <class T>
int64_t places_in_run(const T* values, int64_t n, uint64_t bits, int64_t first, int64_t* out, int64_t step,
                      int64_t room) {
  int64_t found = 0, j = 0;
#ifdef __AVX512BW__
  if constexpr (sizeof(T) == 1) {
    if (step == 1) {  // eight at a time, pushed together in a register
      __m512i places = _mm512_add_epi64(_mm512_set1_epi64(first), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
      for (; j < n && found < room; j += 64) {
        const int64_t count = std::min<int64_t>(64, n - j);
        uint64_t chosen = which_of_64(values + j, count, bits);
        for (int64_t k = 0; k < count; k += 8, chosen >>= 8) {
          const auto eight = static_cast<__mmask8>(chosen);
          const int64_t more = std::min<int64_t>(std::popcount(eight), room - found);
          const __m512i pushed = _mm512_maskz_compress_epi64(eight, places);
          _mm512_mask_storeu_epi64(out + found, static_cast<__mmask8>((1u << more) - 1), pushed);
          found += more;
          places = _mm512_add_epi64(places, _mm512_set1_epi64(8));
        }
      }
      return found;
    }
  }
#endif
  for (; j < n && found < room; ++j) {
    out[found * step] = first + j;  // written in any case, and overwritten unless chosen: no branch to predict
    found += is_nonzero(values[j], bits);
  }
  return found;
}

#ifdef __AVX512BW__
/// The rows and columns of the truths of a small matrix, `count` of them, eight at a time whichever rows they are of.
void places_in_matrix(const void* truths, int64_t n, int64_t width, int64_t count, int64_t* rows, int64_t* columns) {
  const __m512d share = _mm512_set1_pd(1.0 / static_cast<double>(width)), half = _mm512_set1_pd(0.5);
  const __m512i length = _mm512_set1_epi64(width), eight = _mm512_set1_epi64(8);
  __m512i places = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  int64_t found = 0;
  for (int64_t from = 0; from < n && found < count; from += 64) {
    uint64_t chosen = which_of_64(static_cast<const char*>(truths) + from, std::min<int64_t>(64, n - from), 0xff);
    for (int k = 0; k < 8; ++k, chosen >>= 8, places = _mm512_add_epi64(places, eight)) {
      const auto some = static_cast<__mmask8>(chosen);
      const int64_t more = std::min<int64_t>(std::popcount(some), count - found);
      const auto written = static_cast<__mmask8>((1u << more) - 1);
      const __m512i at = _mm512_maskz_compress_epi64(some, places);
      // exact: the middle of a place is far enough from the edges of rows
      const __m512i row = _mm512_cvttpd_epi64(_mm512_mul_pd(_mm512_add_pd(_mm512_cvtepi64_pd(at), half), share));
      _mm512_mask_storeu_epi64(rows + found, written, row);
      _mm512_mask_storeu_epi64(columns + found, written, _mm512_sub_epi64(at, _mm512_mullo_epi64(row, length)));
      found += more;
    }
  }
}
#endif

// Rows of out for the selected elements of [from, to), from `row` up to `rows`.
template <class T>
void positions(const Tensor& out, const Tensor& in, int64_t from, int64_t to, int64_t row, int64_t rows) {
  int64_t ndim = in.dim(), row_step = out.stride(0), column_step = ndim ? out.stride(1) : 0;
  int64_t* o = out.data<int64_t>();
  const T* values = in.data<T>();
  const uint64_t bits = bits_of_value(in.dtype());
  Dims at(static_cast<size_t>(ndim));
  for (int64_t d = ndim, flat = from; d-- > 0; flat /= in.size(d)) at[d] = flat % in.size(d);
  int64_t inner = ndim ? in.size(ndim - 1) : 1;
  for (int64_t i = from; i < to && row < rows;) {
    int64_t first = ndim ? at[ndim - 1] : 0, run = std::min(to - i, inner - first), start = row;
    if (ndim) {
      int64_t* column = o + (ndim - 1) * column_step + row * row_step;
      row += places_in_run(values + i, run, bits, first, column, row_step, rows - row);
    } else {
      row += is_nonzero(values[i], bits);
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
#ifdef __AVX512BW__
  if (in.dtype() == DType::Bool && in.dim() == 2 && in.numel() <= kBlock && out.stride(0) == 1) {
    int64_t* rows = out.data<int64_t>();
    return places_in_matrix(in.data<void>(), in.numel(), in.size(1), out.size(0), rows, rows + out.stride(1));
  }
#endif
  LockRelease release(in.numel() > kGrain);
  std::vector<int64_t> starts = block_starts(in);
  visit_size(in.item_size(), [&]<class T>(TypeTag<T>) {
    for_each_block(in.numel(), starts, [&](int64_t from, int64_t to, int64_t place, int64_t last) {
      positions<T>(out, in, from, to, place, std::min(last, out.size(0)));
    });
  });
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
        *target = source[i];  // written in any case, and overwritten unless chosen: no branch to predict
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
