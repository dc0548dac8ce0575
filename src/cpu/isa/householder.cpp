#include "cpu/householder.h"

#include "cpu/isa/reflectors.h"
#include "cpu/own_triangle.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
void factor(int64_t rows, int64_t columns, T* a, T* tau) {
  Columns<T> work(rows, columns, a);
  std::vector<T> v(static_cast<size_t>(work.step));
  for (int64_t j = 0; j < std::min(rows, columns); ++j) {
    if (j) v[static_cast<size_t>(j - 1)] = 0;
    tau[j] = make_reflector(rows - j, work.column(j) + j, v.data() + j);
    reflect_from(work, j, j + 1, v.data(), tau[j]);
  }
  work.copy_to(a);
}

/// The columns of both sides as one matrix, whose reflectors are those of the first. The inverse of R, which is made
/// for that alone, bounds the condition number by the root of the sum of squares.
template <class T>
bool least_squares(int64_t rows, int64_t columns, const T* a, int64_t systems, T* b, double rcond) {
  Columns<T> work(rows, columns + systems);
  for (int64_t c = 0; c < columns; ++c) std::copy_n(a + c * rows, rows, work.column(c));
  for (int64_t c = 0; c < systems; ++c) std::copy_n(b + c * rows, rows, work.column(columns + c));
  std::vector<T> v(static_cast<size_t>(work.step));
  for (int64_t j = 0; j < columns; ++j) {
    if (j) v[static_cast<size_t>(j - 1)] = 0;
    const T tau = make_reflector(rows - j, work.column(j) + j, v.data() + j);
    reflect_from(work, j, j + 1, v.data(), tau);
  }
  const auto size = static_cast<size_t>(columns * columns);
  std::vector<T> triangle(size), inverse(size), right(static_cast<size_t>(columns * systems));
  double squares = 0, inverse_squares = 0;
  for (int64_t c = 0; c < columns; ++c) {
    std::copy_n(work.column(c), c + 1, triangle.data() + c * columns);
    inverse[static_cast<size_t>(c * columns + c)] = 1;
  }
  if (!own_triangle<T>.solve(triangle.data(), columns, columns, inverse.data(), true, true, false)) return false;
  for (size_t i = 0; i < size; ++i) {
    squares += static_cast<double>(triangle[i]) * static_cast<double>(triangle[i]);
    inverse_squares += static_cast<double>(inverse[i]) * static_cast<double>(inverse[i]);
  }
  const double condition = std::sqrt(squares) * std::sqrt(inverse_squares);
  if (!(condition * rcond < 0.5) || squares < 1e-200 || inverse_squares < 1e-200) return false;  // NaN is not below
  for (int64_t c = 0; c < systems; ++c) std::copy_n(work.column(columns + c), columns, right.data() + c * columns);
  if (!own_triangle<T>.solve(triangle.data(), columns, systems, right.data(), true, true, false)) return false;
  for (int64_t c = 0; c < systems; ++c) {
    std::copy_n(right.data() + c * columns, columns, b + c * rows);
    std::copy_n(work.column(columns + c) + columns, rows - columns, b + c * rows + columns);
  }
  return true;
}

template <class T>
void form(int64_t rows, int64_t columns, int64_t count, T* a, const T* tau) {
  Columns<T> work(rows, columns, a);
  form_product(work, count, tau);
  work.copy_to(a);
}

}  // namespace

void register_householder() {
  householder<float> = {factor<float>, form<float>, least_squares<float>};
  householder<double> = {factor<double>, form<double>, least_squares<double>};
}

}  // namespace facula::cpu::FACULA_ISA
