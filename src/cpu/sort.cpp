// Sorting on the CPU. An element becomes an unsigned key whose order is the wanted one; key and position in
// one integer make every comparison unique, so that any sort is stable. Long rows are sorted by digits, short
// ones by comparison. Wider vectors change nothing, so this is compiled once and not for every level.
#include "ops/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <span>

#include "core/parallel.h"
#include "cpu/select.h"
#include "cpu/sort_lanes.h"

namespace facula::cpu {
namespace {

using Wide = unsigned __int128;
constexpr int64_t kRadixFrom = 512;  // elements

template <class T>
constexpr bool is_narrow_float = !std::is_arithmetic_v<T>;  // half, bfloat16 and float8: read as float
template <class T>
constexpr bool has_order = !requires(T v) { v.real(); } && !requires(T v) { v.re; };

// Keys of up to 32 bits share an integer of 64 with the position; longer ones one of 128.
template <class T>
using Packed = std::conditional_t<sizeof(T) == 8, Wide, uint64_t>;
template <class T>
using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Negative numbers are inverted, the others get the top bit; -0 equals 0, NaN comes last.
template <class T>
Key<T> key_of(T value) {
  if constexpr (is_narrow_float<T>) {
    return key_of(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    using K = Key<T>;
    constexpr K top = K{1} << (sizeof(K) * 8 - 1);
    K bits = std::bit_cast<K>(value + T(0));
    K key = bits ^ ((bits & top) ? ~K{0} : top);
    return value == value ? key : ~K{0};
  } else if constexpr (std::is_signed_v<T>) {
    // of narrow integers only the low digits vary
    using U = std::make_unsigned_t<T>;
    return static_cast<U>(static_cast<U>(value) ^ (U{1} << (sizeof(U) * 8 - 1)));
  } else {
    return static_cast<Key<T>>(value);
  }
}

template <class P>
constexpr int kPositionBits = sizeof(P) * 4;
template <class P>
int64_t position_of(P packed) {
  return static_cast<int64_t>(packed & ((P{1} << kPositionBits<P>)-1));
}

template <class T>
Packed<T> packed(T value, int64_t position, bool descending) {
  using P = Packed<T>;
  Key<T> key = key_of(value);
  if (descending) key = ~key;
  return (static_cast<P>(key) << kPositionBits<P>) | static_cast<P>(position);
}

template <class T>
void pack_row(const T* in, int64_t n, bool descending, Packed<T>* out) {
  if (descending) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = packed(in[i], i, true);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = packed(in[i], i, false);
  }
}

// Sorts by the key, the bits from `low` on, digit by digit from the lowest; digits that all elements share are skipped.
// The result is in `data`.
template <int low, class P>
void radix_sort(P* data, P* scratch, int64_t n) {
  constexpr int key_bits = sizeof(P) * 8 - low, digit_bits = key_bits <= 32 ? 11 : 8;
  constexpr int passes = (key_bits + digit_bits - 1) / digit_bits, buckets = 1 << digit_bits;
  auto counts = std::make_unique<int64_t[]>(static_cast<size_t>(passes) * buckets);
  for (int64_t i = 0; i < n; ++i) {
    auto key = static_cast<uint64_t>(data[i] >> low);
    for (int p = 0; p < passes; ++p) ++counts[p * buckets + ((key >> (p * digit_bits)) & (buckets - 1))];
  }
  P *from = data, *to = scratch;
  for (int p = 0; p < passes; ++p) {
    int64_t* count = counts.get() + p * buckets;
    auto digit = [&](P v) { return static_cast<uint64_t>(v >> (low + p * digit_bits)) & (buckets - 1); };
    if (count[digit(from[0])] == n) continue;
    for (int64_t start = 0, b = 0; b < buckets; ++b) start += std::exchange(count[b], start);
    for (int64_t i = 0; i < n; ++i) to[count[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  if (from != data) std::memcpy(data, from, static_cast<size_t>(n) * sizeof(P));
}

// One copy of these for all dtypes.
template <class P>
[[gnu::noinline]] void sort_packed(P* data, P* scratch, int64_t n) {
  if (n >= kRadixFrom && scratch) radix_sort<kPositionBits<P>>(data, scratch, n);
  else std::sort(data, data + n);
}
template <class P>
[[gnu::noinline]] void partition_packed(P* data, int64_t k, int64_t n) {
  std::nth_element(data, data + k, data + n);
}

template <class T>
void unpack_row(const Packed<T>* order, const T* in, int64_t n, T* values, int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = position_of(order[i]);
    indices[i] = at;
    values[i] = in[at];
  }
}

// Memory that one thread uses for all its rows.
template <class T>
struct Scratch {
  explicit Scratch(int64_t n)
      : order(new Packed<T>[n]), spare(n >= kRadixFrom ? new Packed<T>[n] : nullptr), copy(new T[n]) {}
  std::unique_ptr<Packed<T>[]> order, spare;
  std::unique_ptr<T[]> copy;
};

template <class T>
void sort_row(T* values, int64_t* indices, int64_t n, bool descending, Scratch<T>& s) {
  std::memcpy(static_cast<void*>(s.copy.get()), values, static_cast<size_t>(n) * sizeof(T));
  pack_row(s.copy.get(), n, descending, s.order.get());
  sort_packed(s.order.get(), s.spare.get(), n);
  unpack_row(s.order.get(), s.copy.get(), n, values, indices);
}

// ---- Several short rows at a time

// With signs, as the instructions of all levels compare them: the highest bit of what is packed is turned.
constexpr uint64_t kSign = uint64_t{1} << 63;

template <class T>
void short_keys(const T* in, int64_t n, bool descending, int64_t* row) {
  if constexpr (std::is_same_v<T, float>) {
    keys_of_floats(in, n, descending, row);
  } else {
    uint64_t packed[kShort];
    pack_row(in, n, descending, packed);
    for (int64_t i = 0; i < n; ++i) row[i] = static_cast<int64_t>(packed[i] ^ kSign);
  }
}

/// The `k` first elements in the wanted order of each of up to kRowsTogether rows of up to kShort elements, whose keys
/// share an integer of 64 bits with the position.
template <class T>
void sort_short_rows(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, int64_t k, bool descending) {
  ShortRows keys;
  const int64_t width = n <= 8 ? 8 : n <= 16 ? 16 : kShort;
  for (int64_t r = 0; r < kRowsTogether; ++r) {
    int64_t* row = keys.row[r];
    const int64_t held = r < rows ? n : 0;
    if (held) short_keys(in + r * n, n, descending, row);
    for (int64_t i = held; i < width; ++i) row[i] = INT64_MAX;  // what is not there comes last
  }
  sort_rows_together(keys, width, k);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = position_of<uint64_t>(static_cast<uint64_t>(keys.row[r][i]));
      values[r * k + i] = in[r * n + at];
      if (indices) indices[r * k + i] = at;
    }
  }
}

/// Does all of it where rows are short and several. `values` may be `in` where all elements are wanted.
template <class T>
bool sort_if_short(const T* in, T* values, int64_t* indices, int64_t rows, int64_t n, int64_t k, bool descending) {
  if constexpr (sizeof(T) == 8) {
    return false;
  } else {
    if (rows < 2 || n < 2 || n > kShort) return false;
    T copy[kRowsTogether * kShort];
    for (int64_t r = 0; r < rows; r += kRowsTogether) {
      const int64_t count = std::min(kRowsTogether, rows - r);
      const T* from = in + r * n;
      if (in == values) {
        std::memcpy(static_cast<void*>(copy), from, static_cast<size_t>(count * n) * sizeof(T));
        from = copy;
      }
      sort_short_rows(from, values + r * k, indices ? indices + r * k : nullptr, count, n, k, descending);
    }
    return true;
  }
}

// Values alone, where their positions are not requested: integers have keys from which the value follows.
template <class T>
void sort_values(T* values, int64_t n, bool descending) {
  using K = Key<T>;
  const K inverted = descending ? ~K{0} : K{0};
  std::unique_ptr<K[]> keys(new K[n]), spare(new K[n]);
  for (int64_t i = 0; i < n; ++i) keys[i] = key_of(values[i]) ^ inverted;
  if (n >= kRadixFrom) radix_sort<0>(keys.get(), spare.get(), n);
  else std::sort(keys.get(), keys.get() + n);
  const K zero = key_of(T(0));  // the keys of signed integers are the values with another top bit
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<T>((keys[i] ^ inverted) ^ zero);
}

// Calls f for the element type; complex numbers, which have no order, were refused before.
template <class F>
void visit_ordered(DType dtype, F&& f) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (has_order<T>) f(tag);
  });
}

int64_t rows_per_thread(int64_t n) { return std::max<int64_t>(1, kGrain / 8 / std::max<int64_t>(n, 1)); }

void sort_cpu(const Tensor& values, const Tensor& indices, bool descending) {
  int64_t rows = values.size(0), n = values.size(1);
  LockRelease release(rows * n > 4096);
  visit_ordered(values.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(0, rows, rows_per_thread(n), [&](int64_t from, int64_t to) {
      T* rows_from = values.data<T>() + from * n;
      if (sort_if_short<T>(rows_from, rows_from, indices.defined() ? indices.data<int64_t>() + from * n : nullptr,
                           to - from, n, n, descending))
        return;
      if constexpr (std::is_integral_v<T>) {
        for (int64_t r = from; r < to && !indices.defined(); ++r) sort_values(values.data<T>() + r * n, n, descending);
        if (!indices.defined()) return;
      }
      Scratch<T> scratch(n);
      std::vector<int64_t> unused(static_cast<size_t>(indices.defined() ? 0 : n));
      for (int64_t r = from; r < to; ++r) {
        int64_t* places = indices.defined() ? indices.data<int64_t>() + r * n : unused.data();
        sort_row(values.data<T>() + r * n, places, n, descending, scratch);
      }
    });
  });
}

// Calls take(p) for the packed elements of a row that are within `bound`, which `take` may lower, in the wanted order.
template <class T, class F>
void each_within(const T* in, int64_t n, bool descending, const Packed<T>& bound, F take) {
  constexpr int64_t kTogether = 16;
  const Key<T> inverted = descending ? ~Key<T>{0} : Key<T>{0};
  const auto take_within = [&](int64_t at) {
    const Packed<T> p = packed(in[at], at, descending);
    if (p <= bound) take(p);
  };
  int64_t block = 0;
  for (; block + kTogether <= n; block += kTogether) {
    const auto key = static_cast<Key<T>>(bound >> kPositionBits<Packed<T>>);
    Key<T> beyond = 1;  // 0 where one of them may be within
#pragma omp simd reduction(& : beyond)
    for (int64_t k = 0; k < kTogether; ++k) beyond &= static_cast<Key<T>>((key_of(in[block + k]) ^ inverted) > key);
    for (int64_t k = 0; !beyond && k < kTogether; ++k) take_within(block + k);
  }
  for (; block < n; ++block) take_within(block);
}

constexpr int64_t kInserted = 32;

// The k first packed elements of a row: few are held in order, many in a buffer of candidates, which is thinned out
// when full and ends unordered.
template <class T>
Packed<T>* select_first(const T* in, int64_t n, int64_t k, bool descending, std::vector<Packed<T>>& buffer) {
  const int64_t room = k <= kInserted ? k : std::min(n, 4 * k);
  int64_t held = 0;
  buffer.resize(static_cast<size_t>(room));
  Packed<T>* first = buffer.data();
  Packed<T> bound = ~Packed<T>{0};
  if (k == 0) return first;
  if (k <= kInserted) {
    each_within(in, n, descending, bound, [&](Packed<T> p) {
      int64_t at = held < k ? held++ : k - 1;
      for (; at > 0 && first[at - 1] > p; --at) first[at] = first[at - 1];
      first[at] = p;
      if (held == k) bound = first[k - 1];
    });
    return first;
  }
  each_within(in, n, descending, bound, [&](Packed<T> p) {
    if (held == room) {
      partition_packed(first, k - 1, held);
      bound = first[k - 1];
      held = k;
      if (p > bound) return;
    }
    first[held++] = p;
  });
  if (held > k) partition_packed(first, k - 1, held);
  return first;
}

void topk_cpu(const Tensor& values, const Tensor& indices, const Tensor& in, bool largest) {
  int64_t rows = in.size(0), n = in.size(1), k = values.size(1);
  LockRelease release(rows * n > kGrain);
  visit_ordered(in.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(0, rows, rows_per_thread(n), [&](int64_t from, int64_t to) {
      if (sort_if_short<T>(in.data<T>() + from * n, values.data<T>() + from * k, indices.data<int64_t>() + from * k,
                           to - from, n, k, largest))
        return;
      std::vector<Packed<T>> buffer;
      for (int64_t r = from; r < to; ++r) {
        const T* row = in.data<T>() + r * n;
        Packed<T>* first = select_first(row, n, k, largest, buffer);
        sort_packed<Packed<T>>(first, nullptr, k);
        unpack_row(first, row, k, values.data<T>() + r * k, indices.data<int64_t>() + r * k);
      }
    });
  });
}

void kthvalue_cpu(const Tensor& values, const Tensor& indices, const Tensor& in, int64_t k) {
  int64_t rows = in.size(0), n = in.size(1);
  LockRelease release(rows * n > kGrain);
  visit_ordered(in.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(0, rows, rows_per_thread(n), [&](int64_t from, int64_t to) {
      for (int64_t r = from; r < to; ++r) {
        const T* row = in.data<T>() + r * n;
        const Packed<T> found = kth_smallest<Packed<T>>(n, k, [row](int64_t i) { return packed(row[i], i, false); });
        unpack_row(&found, row, 1, values.data<T>() + r, indices.data<int64_t>() + r);
      }
    });
  });
}

// The number of elements before `value`'s place; `order` gives the sequence's order when it is not sorted.
template <class T>
int64_t place_of(const T* sequence, const int64_t* order, int64_t n, T wanted, bool right) {
  using Compared = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
  const auto value = static_cast<Compared>(wanted);
  auto before = [&](int64_t i) {
    const auto element = static_cast<Compared>(sequence[order ? order[i] : i]);
    return right ? !(element > value) : !(element >= value);
  };
  // which elements are looked at decides what is found in a sequence that is not sorted: the same on every device
  int64_t start = 0;
  while (n > 0) {
    const int64_t half = n / 2;
    const bool skip = before(start + half);
    start = skip ? start + half + 1 : start;
    n = skip ? n - half - 1 : half;
  }
  return start;
}

template <class T>
void search_all(const Tensor& out, const Tensor& sequence, const Tensor& values, const Tensor& sorter, bool right) {
  int64_t m = values.size(1), n = sequence.size(1), step = sequence.size(0) == 1 ? 0 : n;
  const int64_t* order = sorter.defined() ? sorter.data<int64_t>() : nullptr;
  int32_t* narrow = out.dtype() == DType::Int32 ? out.data<int32_t>() : nullptr;
  int64_t* wide = narrow ? nullptr : out.data<int64_t>();
  const T *table = sequence.data<T>(), *wanted = values.data<T>();
  parallel_for(0, values.numel(), kGrain / 16, [=](int64_t from, int64_t to) {
    const auto search = [=](auto* places) {  // by copies: what is stored cannot change them
      for (int64_t i = from; i < to; ++i) {
        const int64_t row = step ? i / m * step : 0;
        places[i] = static_cast<std::remove_reference_t<decltype(*places)>>(
            place_of(table + row, order ? order + row : nullptr, n, wanted[i], right));
      }
    };
    if (narrow) search(narrow);
    else search(wide);
  });
}

void check_sorter(const Tensor& sorter) {
  const int64_t *order = sorter.data<int64_t>(), n = sorter.size(1);
  for (int64_t i = 0; i < sorter.numel(); ++i)
    FACULA_CHECK(order[i] >= 0 && order[i] < n, ErrorKind::Runtime,
                 "searchsorted: the sorter's entries must lie in [0, ", n, "), got ", order[i]);
}

void searchsorted_cpu(const Tensor& out, const Tensor& sequence, const Tensor& values, const Tensor& sorter,
                      bool right) {
  if (sorter.defined()) check_sorter(sorter);
  LockRelease release(values.numel() > 4096);
  visit_ordered(values.dtype(), [&]<class T>(TypeTag<T>) { search_all<T>(out, sequence, values, sorter, right); });
}

}  // namespace

void register_sort() {
  sort_kernel.set(DeviceType::CPU, sort_cpu);
  topk_kernel.set(DeviceType::CPU, topk_cpu);
  kthvalue_kernel.set(DeviceType::CPU, kthvalue_cpu);
  searchsorted_kernel.set(DeviceType::CPU, searchsorted_cpu);
}

}  // namespace facula::cpu
