// Products of matrices in memory.
#pragma once

#include "product.cuh"

namespace facula::cuda {

template <class T, class A, class I>
class StridedProduct {
 public:
  using Args = MatricesArgs;

  struct Line {
    const T* data;
    Int64 step;
    FACULA_FN A at(I k) const { return convert<A>(data[k * step]); }
  };
  struct Side {
    const T* data;
    Int64 line_step, step;
    FACULA_FN bool along() const { return step == 1; }
    FACULA_FN Line line(Int64 n) const { return {data + n * line_step, step}; }
  };

  FACULA_FN StridedProduct(const Args& args, Int64 batch) : p(args), b(batch) {}
  FACULA_FN Int64 rows() const { return p.tiles.rows; }
  FACULA_FN Int64 columns() const { return p.tiles.columns; }
  FACULA_FN Int64 inner() const { return p.tiles.inner; }
  FACULA_FN Side left() const { return {static_cast<const T*>(p.a) + b * p.a_batch, p.a_row, p.a_column}; }
  FACULA_FN Side right() const { return {static_cast<const T*>(p.b) + b * p.b_batch, p.b_column, p.b_row}; }
  FACULA_FN void store(Int64 row, Int64 column, A sum) const {
    T* to = static_cast<T*>(p.out) + b * p.out_batch + row * p.out_row + column;
    if (p.has_alpha) sum = sum * *reinterpret_cast<const A*>(p.alpha);
    if (p.has_beta) sum = sum + *reinterpret_cast<const A*>(p.beta) * convert<A>(*to);
    if (p.bias) sum = sum + convert<A>(static_cast<const T*>(p.bias)[column]);
    *to = convert<T>(sum);
  }

 private:
  const Args& p;
  Int64 b;
};

/// Each row of the results becomes `line`.
template <class T>
__global__ __launch_bounds__(256) void fill_rows(void* out, const void* line, Int64 batch, Int64 rows, Int64 columns,
                                                 Int64 out_batch, Int64 out_row) {
  for (Int64 i = thread_number(); i < batch * rows * columns; i += thread_count())
    static_cast<T*>(out)[i / columns / rows * out_batch + i / columns % rows * out_row + i % columns] =
        static_cast<const T*>(line)[i % columns];
}

}  // namespace facula::cuda
