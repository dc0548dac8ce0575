#include "cpu/householder.h"

#include "cpu/isa/reflectors.h"

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

template <class T>
void form(int64_t rows, int64_t columns, int64_t count, T* a, const T* tau) {
  Columns<T> work(rows, columns, a);
  std::vector<T> v(static_cast<size_t>(work.step));
  for (int64_t c = count; c < columns; ++c) {
    std::fill_n(work.column(c), rows, T(0));
    work.column(c)[c] = 1;
  }
  for (int64_t j = count; j-- > 0;) {
    T* column = work.column(j);
    std::copy_n(column + j + 1, rows - j - 1, v.data() + j + 1);
    v[static_cast<size_t>(j)] = 1;
    reflect_from(work, j, j + 1, v.data(), tau[j]);
    std::fill_n(column, j, T(0));
    for (int64_t i = j; i < rows; ++i) column[i] = (i == j ? T(1) : T(0)) - tau[j] * v[static_cast<size_t>(i)];
  }
  work.copy_to(a);
}

}  // namespace

void register_householder() {
  householder<float> = {factor<float>, form<float>};
  householder<double> = {factor<double>, form<double>};
}

}  // namespace facula::cpu::FACULA_ISA
