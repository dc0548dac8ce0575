// What the normalizations of rows and of channels fold.
#pragma once

#include "block.cuh"

namespace facula::cuda {

template <class A>
struct Sums {
  A a, b;
  FACULA_FN friend Sums operator+(Sums x, Sums y) { return {x.a + y.a, x.b + y.b}; }
};

/// Mean and biased variance; merged as Chan, Golub and LeVeque have it ("Updating Formulae and a Pairwise Algorithm",
/// 1979).
template <class A>
struct Moments {
  A count, mean, squares;
};
struct MergeMoments {
  template <class S>
  FACULA_FN static S identity() {
    return S{};
  }
  template <class S>
  FACULA_FN static S merge(S x, S y) {
    if (x.count == 0) return y;
    if (y.count == 0) return x;
    const auto all = x.count + y.count, share = y.count / all, apart = y.mean - x.mean;
    return {all, x.mean + apart * share, x.squares + y.squares + apart * apart * x.count * share};
  }
};

}  // namespace facula::cuda
