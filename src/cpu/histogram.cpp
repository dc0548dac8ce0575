// Counting on the CPU.
#include "ops/histogram.h"

#include <cmath>
#include <numeric>

#include "core/asking.h"
#include "cpu/serial.h"
#include "ops/sort.h"

namespace facula::cpu {
namespace {

// Calls f with the C++ type of a real dtype; narrow floats are compared as they are stored.
template <class F>
void visit_real(DType dtype, const char* op, F&& f) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (requires(T t) { static_cast<float>(t) < static_cast<float>(t); }) f(tag);
    else throw_error(ErrorKind::NotImplemented, op, ": not implemented for dtype ", dtype);
  });
}

// The type in which values are compared.
template <class T>
using Compared = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <class T>
void bincount_typed(const Tensor& out, const Tensor& self, const Tensor& weights) {
  T* count = out.data<T>();
  const int64_t* x = self.data<int64_t>();
  const T* w = weights.defined() ? weights.data<T>() : nullptr;
  one_by_one(self.numel(), 1, [&](int64_t i) { count[x[i]] += w ? w[i] : T(1); });
}

// Elements outside of the table end the count: no pass over them looks for the largest before.
int64_t count_few_cpu(const Tensor& counts, const Tensor& self) {
  int64_t* count = counts.data<int64_t>();
  const int64_t *x = self.data<int64_t>(), n = self.numel();
  const auto kinds = static_cast<uint64_t>(counts.numel());
  const LockRelease release(n > kGrain);
  bool beyond = false;
  sliced_for(0, n, kGrain, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to && !beyond; ++i) {
      if (static_cast<uint64_t>(x[i]) < kinds) ++count[x[i]];
      else beyond = true;
    }
  });
  if (beyond) return -1;
  int64_t length = counts.numel();
  while (length > 0 && count[length - 1] == 0) --length;
  return length;
}

void bincount_cpu(const Tensor& out, const Tensor& self, const Tensor& weights) {
  if (out.dtype() == DType::Int64) return bincount_typed<int64_t>(out, self, weights);
  if (out.dtype() == DType::Float32) return bincount_typed<float>(out, self, weights);
  bincount_typed<double>(out, self, weights);
}

template <class T>
void histc_typed(const Tensor& out, const Tensor& self, T low, T high) {
  T* count = out.data<T>();
  const T* x = self.data<T>();
  int64_t bins = out.numel();
  one_by_one(self.numel(), 2, [&](int64_t i) {
    if (!(x[i] >= low && x[i] <= high)) return;
    const T bin = (x[i] - low) * static_cast<T>(bins) / (high - low);  // no number where the range is no number
    count[bin < static_cast<T>(bins - 1) ? static_cast<int64_t>(bin) : bins - 1] += 1;
  });
}

void histc_cpu(const Tensor& out, const Tensor& self, double low, double high) {
  if (self.dtype() == DType::Float32) histc_typed<float>(out, self, static_cast<float>(low), static_cast<float>(high));
  else histc_typed<double>(out, self, low, high);
}

template <class T>
void histogramdd_typed(const Tensor& out, const Tensor& self, TensorList edges, const Tensor& weight) {
  const T* points = self.data<T>();
  const int64_t coordinates = self.size(1);
  one_by_one(self.size(0), 8 * coordinates, [&](int64_t i) {
    const T* point = points + i * coordinates;
    int64_t place = 0;
    for (int64_t d = 0; d < coordinates && place >= 0; ++d) {
      const T* first = edges[d].template data<T>();
      const T* last = first + edges[d].numel();
      if (!(point[d] >= *first && point[d] <= last[-1])) {
        place = -1;
        break;
      }
      int64_t bin = std::upper_bound(first, last, point[d]) - first - 1;
      place = place * out.size(d) + std::min(bin, out.size(d) - 1);  // the last box holds its upper edge
    }
    if (place >= 0 && out.numel() > 0) out.data<T>()[place] += weight.data<T>()[i];
  });
}

void histogramdd_cpu(const Tensor& out, const Tensor& self, TensorList edges, const Tensor& weight) {
  if (self.dtype() == DType::Float32) histogramdd_typed<float>(out, self, edges, weight);
  else histogramdd_typed<double>(out, self, edges, weight);
}

// Order of the slices of a matrix by their elements, NaN last.
template <class T>
struct Slices {
  const T* data;
  int64_t width;
  LongWork compared;

  bool less(int64_t a, int64_t b) {
    int64_t k = 0;
    bool found = false;
    for (; k < width; ++k) {
      Compared<T> x = data[a * width + k], y = data[b * width + k];
      if (x == y) continue;
      found = x < y || (x == x && y != y);
      if (found || y < x || (y == y && x != x)) break;
    }
    compared.did(k + 1);
    return found;
  }
  bool equal(int64_t a, int64_t b) {
    int64_t k = 0;
    while (k < width && Compared<T>(data[a * width + k]) == Compared<T>(data[b * width + k])) ++k;
    compared.did(k + 1);
    return k == width;
  }
};

// The groups of the elements of a vector in their order or, unless only runs count, sorted: `order` gives their
// positions. How many there are.
template <class T>
int64_t distinct_values(const T* sorted, const int64_t* order, int64_t n, int64_t* inverse, int64_t* first,
                        int64_t* counts) {
  int64_t groups = 0;
  one_by_one(n, 2, [&](int64_t i) {
    const bool starts = i == 0 || !(Compared<T>(sorted[i - 1]) == Compared<T>(sorted[i]));
    if (starts) {
      first[groups] = order ? order[i] : i;
      counts[groups++] = 0;
    }
    ++counts[groups - 1];
    if (inverse) inverse[order ? order[i] : i] = groups - 1;
  });
  return groups;
}

// Elements that differ from the one before, moved together; `out` may be `in`.
template <class T>
int64_t without_repeats(T* out, const T* in, int64_t n) {
  T last = out[0] = in[0];
  int64_t kept = 1;
  const LockRelease release(n > kGrain);
  sliced_for(1, n, kGrain, [&](int64_t from, int64_t to) {
    T* writes = out;  // in registers
    int64_t end = kept;
    T before = last;
    for (int64_t i = from; i < to; ++i) {  // of equal ones the first stays: what comes after it is written behind it
      const T next = in[i];
      writes[end] = next;
      end += !(Compared<T>(before) == Compared<T>(next));
      before = next;
    }
    kept = end;
    last = before;
  });
  return kept;
}

int64_t distinct_values_cpu(const Tensor& out, const Tensor& values) {
  int64_t kept = 0;
  visit_real(values.dtype(), "unique",
             [&]<class T>(TypeTag<T>) { kept = without_repeats(out.data<T>(), values.data<T>(), values.numel()); });
  return kept;
}

/// Sorts positions of slices, of any dtype: one copy of the sort serves all.
struct SliceOrder {
  void* slices;
  bool (*less)(void* slices, int64_t a, int64_t b);

  [[gnu::noinline]] void sort(std::vector<int64_t>& order) const {
    std::stable_sort(order.begin(), order.end(), [this](int64_t a, int64_t b) { return less(slices, a, b); });
  }
};

template <class T>
int64_t distinct_slices(Slices<T> slices, int64_t n, bool runs, int64_t* inverse, int64_t* first, int64_t* counts) {
  const LockRelease release(n * slices.width > kGrain);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto less = [](void* all, int64_t a, int64_t b) { return static_cast<Slices<T>*>(all)->less(a, b); };
  if (!runs) SliceOrder{&slices, less}.sort(order);
  int64_t groups = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !slices.equal(order[i - 1], order[i])) {
      first[groups] = order[i];
      counts[groups++] = 0;
    }
    if (inverse) inverse[order[i]] = groups - 1;
    ++counts[groups - 1];
  }
  return groups;
}

int64_t distinct_cpu(const Tensor& self, bool runs, const Tensor& inverse, const Tensor& first, const Tensor& counts) {
  const int64_t n = self.size(0);
  int64_t *places = inverse.defined() ? inverse.data<int64_t>() : nullptr, *starts = first.data<int64_t>(),
          *sizes = counts.data<int64_t>();
  int64_t groups = 0;
  visit_real(self.dtype(), "unique", [&]<class T>(TypeTag<T>) {
    if (self.size(1) != 1) {
      groups = distinct_slices(Slices<T>{self.data<T>(), self.size(1), {}}, n, runs, places, starts, sizes);
    } else if (runs) {
      groups = distinct_values(self.data<T>(), nullptr, n, places, starts, sizes);
    } else {
      Tensor sorted = facula::empty({1, n}, self.dtype()), order = facula::empty({1, n}, DType::Int64);
      std::copy_n(self.data<T>(), n, sorted.data<T>());
      sort_kernel(kCPU, sorted, order, false);
      groups = distinct_values(sorted.data<T>(), order.data<int64_t>(), n, places, starts, sizes);
    }
  });
  return groups;
}

/// Whether a value is among some; integers that lie close together are marked in a table.
template <class T>
class Among {
 public:
  explicit Among(const Tensor& values) : values_(facula::empty({1, values.numel()}, values.dtype())) {
    sorted_ = values_.data<T>();
    std::copy_n(values.data<T>(), values.numel(), sorted_);
    sort_kernel(kCPU, values_, Tensor(), false);
    size_ = values.numel();
    while (size_ > 0 && is_nan(sorted_[size_ - 1])) --size_;  // sorted last, and equal to nothing
    if constexpr (std::is_integral_v<T>) {
      if (size_ == 0 || from_least(sorted_[size_ - 1]) >= kMarks) return;
      marks_.resize(from_least(sorted_[size_ - 1]) + 1);
      for (int64_t i = 0; i < size_; ++i) marks_[from_least(sorted_[i])] = 1;
    }
  }
  /// Writes whether each is among them, or whether it is not.
  void test(bool* out, const T* values, int64_t n, bool invert) const {
    if constexpr (std::is_integral_v<T>) {
      if (!marks_.empty()) {
        return one_by_one(n, 1, [&](int64_t i) {
          const uint64_t place = from_least(values[i]);
          out[i] = (place < marks_.size() && marks_[place]) != invert;
        });
      }
    }
    one_by_one(n, 16, [&](int64_t i) { out[i] = found(values[i]) != invert; });
  }

 private:
  static constexpr uint64_t kMarks = 1 << 15;
  static bool is_nan(Compared<T> x) { return x != x; }
  uint64_t from_least(T x) const { return static_cast<uint64_t>(x) - static_cast<uint64_t>(sorted_[0]); }
  bool found(Compared<T> x) const {
    int64_t first = 0, count = size_;
    while (count > 0) {
      const int64_t half = count / 2;
      const bool below = Compared<T>(sorted_[first + half]) < x;
      first = below ? first + half + 1 : first;
      count = below ? count - half - 1 : half;
    }
    return first < size_ && Compared<T>(sorted_[first]) == x;
  }

  Tensor values_;
  T* sorted_ = nullptr;
  int64_t size_ = 0;  // without NaN
  std::vector<uint8_t> marks_;
};

void isin_cpu(const Tensor& out, const Tensor& self, const Tensor& among, bool invert) {
  const LockRelease release(self.numel() + among.numel() > kGrain);
  visit_real(self.dtype(), "isin", [&]<class T>(TypeTag<T>) {
    Among<T>(among).test(out.data<bool>(), self.data<T>(), self.numel(), invert);
  });
}

}  // namespace

void register_histogram() {
  bincount_kernel.set(DeviceType::CPU, bincount_cpu);
  count_few_kernel.set(DeviceType::CPU, count_few_cpu);
  histc_kernel.set(DeviceType::CPU, histc_cpu);
  histogramdd_kernel.set(DeviceType::CPU, histogramdd_cpu);
  distinct_kernel.set(DeviceType::CPU, distinct_cpu);
  distinct_values_kernel.set(DeviceType::CPU, distinct_values_cpu);
  isin_kernel.set(DeviceType::CPU, isin_cpu);
}

}  // namespace facula::cpu
