// Interpolation as one sparse matrix per dimension, applied one dimension after the other; its gradient
// applies the transposed matrices. Also the shapes and checks of grid sampling.
#include "ops/resample.h"

#include <array>
#include <cmath>

#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/out.h"
#include "ops/pool.h"
#include "raw_elementwise.h"
#include "raw_resample.h"

namespace facula {

namespace ops {
namespace {

/// TapNumbers in the making, in the memory of the tensor that they become.
template <class T>
class TapNumbers {
 public:
  size_t size() const { return size_; }
  T& operator[](size_t i) { return begin_[i]; }
  T operator[](size_t i) const { return begin_[i]; }
  void reserve(size_t room) {
    if (room <= room_) return;
    const Tensor wider = facula::empty({static_cast<int64_t>(room)}, dtype_of<T>());
    std::copy_n(begin_, size_, wider.data<T>());
    memory_ = wider;
    begin_ = wider.data<T>();
    room_ = room;
  }
  void resize(size_t size, T value = 0) {
    reserve(size);
    for (size_t i = size_; i < size; ++i) begin_[i] = value;
    size_ = size;
  }
  void push_back(T value) {
    if (__builtin_expect(size_ == room_, 0)) reserve(std::max<size_t>(2 * room_, 16));
    begin_[size_++] = value;
  }
  Tensor on(Device device) const {
    const int64_t count = static_cast<int64_t>(size_);
    if (!memory_.defined()) return facula::empty({0}, dtype_of<T>(), device);
    const Tensor made = size_ == room_ ? memory_ : make_view(memory_, {count}, {1}, 0, false);
    if (device.is_cpu()) return made;
    Tensor moved = facula::empty({count}, dtype_of<T>(), device);
    copy_elements(moved, made);
    return moved;
  }

 private:
  Tensor memory_;
  T* begin_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

// FilterTaps in the making, on the host.
struct TapTable {
  int64_t in = 0;
  bool copies = false;               // every output is one input
  TapNumbers<int64_t> first, index;  // `first` begins with a zero
  TapNumbers<double> weight;

  int64_t out() const { return static_cast<int64_t>(first.size()) - 1; }
  void finish() {
    copies = index.size() == first.size() - 1;
    for (size_t o = 0; copies && o < weight.size(); ++o) copies = weight[o] == 1 && first[o + 1] - first[o] == 1;
  }
  TapTable transposed() const;
  FilterTaps on(Device device) const {
    return {in, out(), copies, first.on(device), index.on(device), weight.on(device)};
  }
};

TapTable TapTable::transposed() const {
  TapTable t;
  t.in = out();
  t.first.resize(static_cast<size_t>(in) + 1);
  for (size_t k = 0; k < index.size(); ++k) ++t.first[static_cast<size_t>(index[k]) + 1];
  for (size_t i = 1; i < t.first.size(); ++i) t.first[i] += t.first[i - 1];
  TapNumbers<int64_t> next;
  next.resize(static_cast<size_t>(in));
  for (size_t i = 0; i < next.size(); ++i) next[i] = t.first[i];
  t.index.resize(index.size());
  t.weight.resize(index.size());
  for (int64_t o = 0; o < out(); ++o) {
    for (int64_t k = first[o]; k < first[o + 1]; ++k) {
      size_t at = static_cast<size_t>(next[index[k]]++);
      t.index[at] = o;
      t.weight[at] = weight[k];
    }
  }
  t.finish();
  return t;
}

// Positions and weights are computed in T, the precision of the data, as they decide which neighbors are
// taken.
template <class T>
struct TapsBuilder {
  int64_t in, out;
  bool align_corners;
  T scale;  // inputs per output
  TapTable taps;

  TapsBuilder(int64_t in_size, int64_t out_size, bool corners, double factor, size_t taps_each)
      : in(in_size), out(out_size), align_corners(corners) {
    const auto outputs = static_cast<size_t>(out);
    taps.in = in;
    taps.first.reserve(outputs + 1);
    taps.first.push_back(0);
    taps.index.reserve(taps_each * outputs);
    taps.weight.reserve(taps_each * outputs);
    if (align_corners) scale = out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : T(0);
    else scale = factor > 0 ? static_cast<T>(1.0 / factor) : static_cast<T>(in) / static_cast<T>(out);
  }

  void add(int64_t index, T weight) {
    taps.index.push_back(index);
    taps.weight.push_back(static_cast<double>(weight));
  }
  void finish_output() { taps.first.push_back(static_cast<int64_t>(taps.index.size())); }
  T position(int64_t o) const {
    return align_corners ? scale * static_cast<T>(o) : scale * (static_cast<T>(o) + T(0.5)) - T(0.5);
  }

  /// A position as a whole number from 0 to `most`, whatever a scale has made of it: infinite, or not a number.
  static int64_t whole(T x, int64_t most) {
    return x > T(0) ? std::min(static_cast<int64_t>(std::min(x, static_cast<T>(most))), most) : 0;
  }
  void nearest() {
    for (int64_t o = 0; o < out; ++o, finish_output()) {
      add(whole(static_cast<float>(static_cast<T>(o) * scale), in - 1), T(1));
    }
  }
  void nearest_exact() {
    for (int64_t o = 0; o < out; ++o, finish_output()) {
      add(whole(static_cast<float>(std::max(position(o), T(0)) + T(0.5)), in - 1), T(1));
    }
  }
  void linear() {
    for (int64_t o = 0; o < out; ++o, finish_output()) {
      T x = in == out ? static_cast<T>(o) : std::max(position(o), T(0));
      int64_t i = whole(x, in - 1);
      T t = std::clamp(x - static_cast<T>(i), T(0), T(1));
      add(i, T(1) - t);
      add(std::min(i + 1, in - 1), t);
    }
  }
  void cubic() {
    for (int64_t o = 0; o < out; ++o, finish_output()) {
      T x = position(o);
      int64_t i = x >= T(0) ? whole(x, in - 1) : -1;  // no position is before half an element
      T t = std::clamp(x - static_cast<T>(i), T(0), T(1));
      for (int64_t k = -1; k <= 2; ++k)
        add(std::clamp<int64_t>(i + k, 0, in - 1), cubic_filter(t - static_cast<T>(k), T(-0.75)));
    }
  }
  /// `radius`: where the filter ends when the output is not smaller than the input.
  template <class Filter>
  void filtered(T radius, Filter filter) {
    T support = scale >= 1 ? radius * scale : radius, inverse = scale >= 1 ? T(1) / scale : T(1);
    for (int64_t o = 0; o < out; ++o, finish_output()) {
      T center = scale * (static_cast<T>(o) + T(0.5));
      int64_t from = whole(center - support + T(0.5), in), to = whole(center + support + T(0.5), in);
      T total = 0;
      for (int64_t i = from; i < to; ++i) total += filter((static_cast<T>(i) - center + T(0.5)) * inverse);
      for (int64_t i = from; i < to; ++i) {
        T weight = filter((static_cast<T>(i) - center + T(0.5)) * inverse);
        add(i, total != 0 ? weight / total : weight);
      }
    }
  }

  static T cubic_filter(T x, T a) {
    x = std::abs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
  }
  static T triangle(T x) { return std::max(T(1) - std::abs(x), T(0)); }
  static T lanczos(T x) {
    if (std::abs(x) >= 3) return 0;
    return sinc(x) * sinc(x / 3);
  }
  static T sinc(T x) { return x == 0 ? T(1) : std::sin(x * T(M_PI)) / (x * T(M_PI)); }
};

template <class T>
TapTable make_taps(std::string_view mode, int64_t in, int64_t out, bool align_corners, double scale, bool antialias) {
  using Builder = TapsBuilder<T>;
  const size_t mostly = antialias || mode == "linear" ? 2 : mode == "cubic" ? 4 : 1;  // taps of an output
  Builder b(in, out, align_corners, scale, mostly);
  if (antialias) {
    if (mode == "linear") b.filtered(1, Builder::triangle);
    else if (mode == "cubic") b.filtered(2, [](T x) { return Builder::cubic_filter(x, T(-0.5)); });
    else b.filtered(3, Builder::lanczos);
  } else {
    if (mode == "nearest") b.nearest();
    else if (mode == "nearest-exact") b.nearest_exact();
    else if (mode == "linear") b.linear();
    else b.cubic();
  }
  b.taps.finish();
  return std::move(b.taps);
}

MemoryFormat format_of(const Tensor& t) { return t.suggest_memory_format(); }

// One dimension (from 2 on) of `t` resized; into `result`, when that is given and of its dtype.
Tensor apply(const Tensor& t, int64_t dim, MemoryFormat format, const FilterTaps& taps, const Tensor& result) {
  Dims sizes(t.sizes());
  sizes[static_cast<size_t>(dim)] = taps.out;
  Tensor out = result.defined() && result.dtype() == t.dtype()
                   ? result
                   : empty_in(format, sizes, t.dtype(), t.device(), "interpolate");
  bool last = format != MemoryFormat::Contiguous;
  int64_t outer = last ? t.size(0) : t.size(0) * t.size(1), inner = last ? t.size(1) : 1;
  for (int64_t d = 2; d < dim; ++d) outer *= t.size(d);
  for (int64_t d = dim + 1; d < t.dim(); ++d) inner *= t.size(d);
  if (out.numel()) resample_kernel(t.device(), out, t, outer, inner, taps);
  return out;
}

bool identical(const TapTable& taps) {
  if (!taps.copies || taps.in != taps.out()) return false;
  for (int64_t o = 0; o < taps.out(); ++o)
    if (taps.index[o] != o) return false;
  return true;
}

/// The taps of every dimension; neighbors that are resized alike share theirs.
struct TapsOfDims {
  std::array<TapTable, 3> tables;
  std::array<FilterTaps, 3> on_device;  // of each table, once it is needed
  size_t count = 0, table_of[3] = {};

  const TapTable& of(size_t d) const { return tables[table_of[d]]; }
  const FilterTaps& on(Device device, size_t d) {
    FilterTaps& taps = on_device[table_of[d]];
    if (!taps.index.defined()) taps = of(d).on(device);
    return taps;
  }
};

// Resizes to `size`; with `transpose` the other way round.
Tensor resize(const Tensor& self, IntList size, std::string_view mode, bool align_corners, FloatList scales,
              bool antialias, bool transpose) {
  const char* op = "interpolate";
  FACULA_CHECK(is_floating(self.dtype()) || self.dtype() == DType::UInt8, ErrorKind::NotImplemented, op,
               ": not implemented for dtype ", self.dtype());
  size_t spatial = size.size();
  FACULA_CHECK(spatial <= 3, ErrorKind::Runtime, op, ": planes have at most three dimensions, got size ", size);
  FACULA_CHECK(self.dim() == static_cast<int64_t>(spatial) + 2, ErrorKind::Runtime, op, ": input must have ",
               spatial + 2, " dimensions, got shape ", self.sizes());
  FACULA_CHECK(scales.size() == spatial, ErrorKind::Runtime, op, ": expected one scale for each of ", spatial,
               " dimensions, got ", scales.size());
  MemoryFormat format = format_of(self);
  Dims sizes{self.size(0), self.size(1)};
  for (int64_t s : size) sizes.push_back(s);
  for (size_t d = 1; d < sizes.size(); ++d) {
    FACULA_CHECK(sizes[d] > 0 && self.sizes()[d] > 0, ErrorKind::Runtime, op,
                 ": sizes of input and output must be positive (but for the batch), got input shape ", self.sizes(),
                 " and output size ", size);
  }
  Tensor result = empty_in(format, sizes, self.dtype(), self.device(), op);
  if (result.is_meta() || result.numel() == 0) return result;

  // Elements that share a place may be more than memory holds; taps are counted up only for what it does hold.
  for (size_t d = 0; d < sizes.size(); ++d)
    if (self.strides()[d] == 0 && self.sizes()[d] > 1)
      return resize(as_contiguous(self, format, self.dtype()), size, mode, align_corners, scales, antialias, transpose);

  TapsOfDims taps;
  bool copies = true;
  for (size_t d = 0; d < spatial; ++d) {
    if (d > 0 && size[d] == size[d - 1] && self.sizes()[2 + d] == self.sizes()[1 + d] && scales[d] == scales[d - 1]) {
      taps.table_of[d] = taps.table_of[d - 1];
      continue;
    }
    int64_t in = transpose ? size[d] : self.sizes()[2 + d], out = transpose ? self.sizes()[2 + d] : size[d];
    bool wide = self.dtype() == DType::Float64;
    TapTable t = wide ? make_taps<double>(mode, in, out, align_corners, scales[d], antialias)
                      : make_taps<float>(mode, in, out, align_corners, scales[d], antialias);
    taps.table_of[d] = taps.count;
    taps.tables[taps.count++] = transpose ? t.transposed() : std::move(t);
    copies &= taps.of(d).copies;
  }
  DType dtype = copies ? self.dtype() : self.dtype() == DType::UInt8 ? DType::Float32 : compute_dtype(self.dtype());
  std::array<size_t, 3> steps;  // the transpose goes through the dimensions in the opposite order
  size_t count = 0;
  for (size_t k = 0; k < spatial; ++k) {
    size_t d = transpose ? k : spatial - 1 - k;
    if (!identical(taps.of(d))) steps[count++] = d;
  }
  if (count == 0) {
    copy_elements(result, self);
    return result;
  }
  Tensor t = as_contiguous(self, format, dtype);
  for (size_t k = 0; k < count; ++k) {
    const size_t d = steps[k];
    t = apply(t, static_cast<int64_t>(2 + d), format, taps.on(t.device(), d), k + 1 == count ? result : Tensor());
  }
  if (self.dtype() == DType::UInt8 && !copies) {
    round_into(t, Into::Part, t);
    _clamp_into(t, Into::Part, t, Scalar(0.0), Scalar(255.0));
  }
  if (!t.is_same(result)) copy_elements(result, t);
  return result;
}

}  // namespace

Tensor resample(const Tensor& self, IntList output_size, std::string_view mode, bool align_corners, FloatList scales,
                bool antialias) {
  return resize(self, output_size, mode, align_corners, scales, antialias, false);
}

Tensor resample_transpose(const Tensor& self, IntList size, std::string_view mode, bool align_corners, FloatList scales,
                          bool antialias) {
  return resize(self, size, mode, align_corners, scales, antialias, true);
}

// grid sampling

namespace {

void check_grid(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode) {
  const char* op = "grid_sampler";
  FACULA_CHECK(input.device() == grid.device(), ErrorKind::Runtime, op,
               ": input and grid must be on the same device, got ", input.device(), " and ", grid.device());
  FACULA_CHECK(input.dim() == 4 || input.dim() == 5, ErrorKind::Runtime, op,
               ": input must be (N, C, H, W) or (N, C, D, H, W), got shape ", input.sizes());
  FACULA_CHECK(grid.dim() == input.dim(), ErrorKind::Runtime, op, ": grid must have ", input.dim(),
               " dimensions as input has, got shape ", grid.sizes());
  FACULA_CHECK(grid.size(0) == input.size(0), ErrorKind::Runtime, op,
               ": grid and input must have one batch size, got shapes ", grid.sizes(), " and ", input.sizes());
  FACULA_CHECK(grid.size(-1) == input.dim() - 2, ErrorKind::Runtime, op, ": the last size of grid must be ",
               input.dim() - 2, ", got shape ", grid.sizes());
  for (int64_t size : spatial_part(input))
    FACULA_CHECK(size > 0, ErrorKind::Runtime, op, ": input must not be empty in its spatial dimensions, got shape ",
                 input.sizes());
  FACULA_CHECK(interpolation_mode >= 0 && interpolation_mode <= 2, ErrorKind::Runtime, op,
               ": interpolation_mode must be 0, 1 or 2, got ", interpolation_mode);
  FACULA_CHECK(padding_mode >= 0 && padding_mode <= 2, ErrorKind::Runtime, op, ": padding_mode must be 0, 1 or 2, got ",
               padding_mode);
  FACULA_CHECK(interpolation_mode != 2 || input.dim() == 4, ErrorKind::Runtime, op,
               ": cubic interpolation is for images (N, C, H, W), got input shape ", input.sizes());
  FACULA_CHECK(input.dtype() == grid.dtype(), ErrorKind::Runtime, op, ": input and grid must have one dtype, got ",
               input.dtype(), " and ", grid.dtype());
  FACULA_CHECK(is_floating(input.dtype()), ErrorKind::NotImplemented, op, ": not implemented for dtype ",
               input.dtype());
}

// Gradients come with what the forward pass had: the result's shape is (N, C) of the input and the sizes of the grid.
void check_grid_gradient(const Tensor& self, IntList input, const Tensor& grid, int64_t interpolation_mode,
                         int64_t padding_mode) {
  const size_t rank = input.size();
  bool fits = is_floating(self.dtype()) && grid.dtype() == self.dtype() && (rank == 4 || rank == 5) &&
              self.sizes().size() == rank && grid.sizes().size() == rank && grid.size(0) == input[0] &&
              grid.size(-1) == static_cast<int64_t>(rank) - 2 && self.size(0) == input[0] && self.size(1) == input[1] &&
              interpolation_mode >= 0 && interpolation_mode <= (rank == 4 ? 2 : 1) && padding_mode >= 0 &&
              padding_mode <= 2;
  for (size_t d = 2; fits && d < rank; ++d) fits = input[d] > 0 && self.sizes()[d] == grid.sizes()[d - 1];
  FACULA_CHECK(fits, ErrorKind::Runtime, "grid_sampler: a gradient that fits input ", input, " and grid ", grid.sizes(),
               " of ", grid.dtype(), ", got shape ", self.sizes(), " of ", self.dtype(), ", interpolation_mode ",
               interpolation_mode, " and padding_mode ", padding_mode);
}

GridSampling sampling(int64_t interpolation_mode, int64_t padding_mode, bool align_corners) {
  return {static_cast<int>(interpolation_mode), static_cast<int>(padding_mode), align_corners};
}

Tensor widened(const Tensor& t) { return as_contiguous(t, MemoryFormat::Contiguous, compute_dtype(t.dtype())); }

// The order in which an image of many channels is sampled at many positions: channels side by side are read, and
// written, as vectors, which soon pays for turning the image. Not where every position reads one element.
MemoryFormat sampled_format(const Tensor& image, IntList sizes, const Tensor& grid, int64_t interpolation_mode) {
  constexpr int64_t kManyChannels = 8, kReads = 4;
  Checked elements = sizes[1];
  int64_t points = 1;
  for (size_t d = 2; d < sizes.size(); ++d) elements *= sizes[d], points *= grid.size(static_cast<int64_t>(d) - 1);
  const int64_t whole = elements.value_or(INT64_MAX);
  const MemoryFormat given = image.defined() ? format_of(image) : MemoryFormat::Contiguous;
  const bool pays =
      interpolation_mode != 1 && sizes[1] >= kManyChannels && kReads * points >= whole / sizes[1] && whole <= INT32_MAX;
  if (given != MemoryFormat::Contiguous || !pays) return given;
  return sizes.size() == 5 ? MemoryFormat::ChannelsLast3d : MemoryFormat::ChannelsLast;
}

Tensor narrowed(const Tensor& t, DType dtype) { return as_contiguous(t, MemoryFormat::Contiguous, dtype); }

}  // namespace

Tensor grid_sampler(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                    bool align_corners) {
  check_grid(input, grid, interpolation_mode, padding_mode);
  Dims sizes{input.size(0), input.size(1)};
  for (int64_t s : grid.sizes().slice(1, grid.sizes().size() - 2)) sizes.push_back(s);
  DType dtype = compute_dtype(input.dtype());
  if (input.is_meta()) return facula::empty(sizes, input.dtype(), input.device());
  Tensor result = facula::empty(sizes, dtype, input.device());
  MemoryFormat format = sampled_format(input, input.sizes(), grid, interpolation_mode);
  if (result.numel()) {
    grid_sampler_kernel(input.device(), result, as_contiguous(input, format, dtype), widened(grid),
                        sampling(interpolation_mode, padding_mode, align_corners));
  }
  return narrowed(result, input.dtype());
}

Tensor grid_sampler_input_gradient(const Tensor& self, const Tensor& grid, IntList input_size,
                                   int64_t interpolation_mode, int64_t padding_mode, bool align_corners) {
  check_grid_gradient(self, input_size, grid, interpolation_mode, padding_mode);
  if (self.is_meta()) return facula::empty(input_size, self.dtype(), self.device());
  const MemoryFormat format = sampled_format(Tensor(), input_size, grid, interpolation_mode);
  Tensor result = empty_in(format, input_size, compute_dtype(self.dtype()), self.device(), "grid_sampler");
  fill_kernel(result.device(), result, Scalar(0));
  if (self.numel())
    grid_sampler_input_kernel(self.device(), result, widened(self), widened(grid),
                              sampling(interpolation_mode, padding_mode, align_corners));
  return narrowed(result, self.dtype());
}

Tensor grid_sampler_grid_gradient(const Tensor& self, const Tensor& input, const Tensor& grid,
                                  int64_t interpolation_mode, int64_t padding_mode, bool align_corners) {
  check_grid_gradient(self, input.sizes(), grid, interpolation_mode, padding_mode);
  if (self.is_meta()) return facula::empty(grid.sizes(), grid.dtype(), grid.device());
  DType dtype = compute_dtype(self.dtype());
  Tensor result = facula::empty(grid.sizes(), dtype, self.device());
  fill_kernel(result.device(), result, Scalar(0));
  if (self.numel()) {
    grid_sampler_grid_kernel(
        self.device(), result, widened(self),
        as_contiguous(input, sampled_format(input, input.sizes(), grid, interpolation_mode), dtype), widened(grid),
        sampling(interpolation_mode, padding_mode, align_corners));
  }
  return narrowed(result, grid.dtype());
}

}  // namespace ops
}  // namespace facula
