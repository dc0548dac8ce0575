// How tensors look on a stream: as libtorch shows them, so that programs print the same text.
#include <cmath>
#include <iomanip>

#include "torch/detail/operators.h"

namespace torch {
namespace {

/// What a stream was set to; put back at the end.
class StreamState {
 public:
  explicit StreamState(std::ostream& out) : out_(out), saved_(nullptr) { saved_.copyfmt(out); }
  ~StreamState() { out_.copyfmt(saved_); }
  StreamState(const StreamState&) = delete;

 private:
  std::ostream& out_;
  std::ios saved_;
};

/// One style for all numbers of a matrix: their width, a factor that stands in front, and the stream's mode.
struct Style {
  double factor = 1;
  int width = 11;
};

struct Range {
  bool whole = true;      // all finite numbers are integers
  int low = 1, high = 1;  // digits before the point of the smallest and of the largest magnitude
};

int digits_of(double magnitude) { return magnitude == 0 ? 1 : static_cast<int>(std::floor(std::log10(magnitude))) + 1; }

Range range_of(const double* values, int64_t count) {
  Range range;
  double least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) continue;
    range.whole = range.whole && values[i] == std::ceil(values[i]);
    least = std::min(least, std::fabs(values[i]));
    most = std::max(most, std::fabs(values[i]));
  }
  if (most >= 0) range.low = digits_of(least), range.high = digits_of(most);
  return range;
}

Style set_style(std::ostream& out, const Tensor& values) {
  constexpr int kDecimals = 4, kLongest = 9, kSpread = 4, kLargest = 5, kWide = 99;
  if (values.numel() == 0) return {1, 0};
  const Range range = range_of(static_cast<const double*>(values.core().data()), values.numel());
  if (range.whole) {
    if (range.high <= kLongest) {
      out << std::defaultfloat;
      return {1, range.high + 1};
    }
    out << std::scientific << std::setprecision(kDecimals);
    return {1, 11};
  }
  if (range.high - range.low > kSpread) {
    out << std::scientific << std::setprecision(kDecimals);
    return {1, std::abs(range.high) > kWide || std::abs(range.low) > kWide ? 12 : 11};
  }
  out << std::fixed << std::setprecision(kDecimals);
  if (range.high > kLargest || range.high < 0) return {std::pow(10.0, range.high - 1), 7};
  return {1, range.high == 0 ? 7 : range.high + 6};
}

void print_factor(std::ostream& out, double factor) {
  const auto mode = out.flags();
  out << std::defaultfloat << factor << " *\n";
  out.flags(mode);
}

void print_matrix(std::ostream& out, const Tensor& m, int64_t line_size, int indent) {
  const Style style = set_style(out, m);
  const std::string space(static_cast<size_t>(indent), ' ');
  const int64_t columns = m.size(1), rows = m.size(0), at_once = (line_size - indent) / (style.width + 1);
  const auto* values = static_cast<const double*>(m.core().data());
  out << space;
  for (int64_t first = 0; first < columns; first += at_once) {
    const int64_t end = std::min(first + at_once, columns);
    if (at_once < columns) out << (first ? "\n" : "") << "Columns " << first + 1 << " to " << end << space;
    if (style.factor != 1) {
      print_factor(out, style.factor);
      out << space;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = first; c < end; ++c)
        out << std::setw(style.width) << values[r * columns + c] / style.factor << (c + 1 < end ? " " : "\n");
      if (r + 1 < rows) out << space << (style.factor != 1 ? " " : "");
    }
  }
}

void print_matrices(std::ostream& out, const Tensor& t, int64_t line_size) {
  const auto leading = static_cast<size_t>(t.dim() - 2);
  std::vector<int64_t> at(leading, 0);
  for (bool begun = false;; begun = true) {
    Tensor matrix = t;
    out << (begun ? "\n(" : "(");
    for (const int64_t i : at) {
      matrix = matrix.select(0, i);
      out << i + 1 << ',';
    }
    out << ".,.) = \n";
    print_matrix(out, matrix, line_size, 1);
    size_t d = 0;
    while (d < leading && ++at[d] == t.size(static_cast<int64_t>(d))) at[d++] = 0;
    if (d == leading) return;
  }
}

void print_line_of_numbers(std::ostream& out, const Tensor& t) {
  const Style style = set_style(out, t);
  if (style.factor != 1) print_factor(out, style.factor);
  const auto* values = static_cast<const double*>(t.core().data());
  for (int64_t i = 0; i < t.numel(); ++i) out << std::setw(style.width) << values[i] / style.factor << '\n';
}

void print_values(std::ostream& out, const Tensor& t, int64_t line_size) {
  if (t.is_complex()) {
    out << "real part\n";
    print_values(out, torch::real(t), line_size);
    out << "imaginary part\n";
    print_values(out, torch::imag(t), line_size);
    return;
  }
  facula::GradMode off(false);
  const Tensor values = t.detach().to(Device(kCPU), kDouble).contiguous();
  if (values.dim() == 0) out << std::defaultfloat << *static_cast<const double*>(values.core().data()) << '\n';
  else if (values.numel() == 0) return;
  else if (values.dim() == 1) print_line_of_numbers(out, values);
  else if (values.dim() == 2) print_matrix(out, values, line_size, 0);
  else print_matrices(out, values, line_size);
}

}  // namespace

std::ostream& print(std::ostream& out, const Tensor& tensor, int64_t line_size) {
  const StreamState state(out);
  if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
  if (!tensor.is_meta()) print_values(out, tensor, line_size);
  out << "[ " << tensor.toString() << '{';
  for (int64_t d = 0; d < tensor.dim(); ++d) out << (d ? "," : "") << tensor.size(d);
  return out << "} ]";
}

void Tensor::print() const {
  const std::string text = detail::text_of('[', toString(), ' ', defined() ? sizes() : IntArrayRef(), "]\n");
  std::fputs(text.c_str(), stderr);
}

}  // namespace torch
