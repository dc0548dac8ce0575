// Jacobi's methods: eigenvalues of Hermitian matrices by rotations from both sides, singular values by rotations of
// columns until all are orthogonal. A sweep turns every pair once, in rounds of pairs that share nothing: the pairs of
// a round robin tournament. Small matrices are worked on by one block each, which makes all sweeps (*_sweeps); of large
// ones the whole device turns the pairs of one round (*_round).
#pragma once

#include "linalg.cuh"

namespace facula::cuda {

/// Turns x and y into c x - conj(s) y and s x + c y, where s = re + i im.
template <class R>
struct Rotation {
  R c, shift, re, im;  // the eigenvalues of the pair move apart by `shift`, each
};
template <class T>
FACULA_FN T sine_of(const Rotation<Real<T>>& r) {
  if constexpr (is_complex_type<T>) return {r.re, r.im};
  else return r.re;
}
template <class R>
FACULA_FN bool turns(const Rotation<R>& r) {
  return r.re != 0 || r.im != 0;
}
template <class T>
FACULA_FN void turn(const Rotation<Real<T>>& r, T& x, T& y) {
  const T s = sine_of<T>(r), kept = x;
  x = kept * r.c - conjugate(s) * y;
  y = s * kept + y * r.c;
}

/// The rotation that makes [[alpha, gamma], [conj(gamma), beta]] diagonal; `size` is gamma's, not zero.
template <class T>
FACULA_FN Rotation<Real<T>> rotation_of(Real<T> alpha, Real<T> beta, T gamma, Real<T> size) {
  using R = Real<T>;
  const R tau = (beta - alpha) / (2 * size), far = kernels::abs(tau);
  const R tangent = far > 1 / kernels::Float<R>::epsilon ? 1 / (2 * far) : 1 / (far + kernels::sqrt(1 + tau * tau));
  const R signed_tangent = kernels::copysign(tangent, tau), c = 1 / kernels::sqrt(1 + tangent * tangent);
  const R s = signed_tangent * c;
  return {c, signed_tangent * size, s * (real_part(gamma) / size), s * (imaginary_part(gamma) / size)};
}

FACULA_FN Int64 pairs_of(Int64 n) { return (n + 1) / 2; }
FACULA_FN Int64 rounds_of(Int64 n) { return 2 * pairs_of(n) - 1; }

/// Pair j of a round; of an odd number one has no partner (then q is n).
struct IndexPair {
  Int64 p, q;
};
FACULA_FN IndexPair pair_of(Int64 n, Int64 round, Int64 j) {
  const Int64 last = rounds_of(n);  // it stays, the others go round
  const Int64 a = j ? (round + j) % last : last, b = j ? (round + last - j) % last : round;
  return a < b ? IndexPair{a, b} : IndexPair{b, a};
}

/// What the methods begin with: x divided by the power of two that makes its largest part less than one, and vectors
/// that are the identity; by a block. False where not all is finite.
template <class T, class Element>
FACULA_FN bool begin_sweeps(const Sweeps& s, Int64 i, Element given, Real<T>* room, Real<T>* sum) {
  using R = Real<T>;
  const Int64 n = s.n;
  T *x = static_cast<T*>(s.matrix) + i * n * n, *v = static_cast<T*>(s.vectors) + i * n * n;
  R most = 0;
  for (Int64 t = threadIdx.x; t < n * n; t += blockDim.x) most = Max::merge(most, larger_part(given(t % n, t / n)));
  most = fold_block<Max>(most, room);
  const bool finite = kernels::isfinite(most);
  int exponent = 0;
  if (finite && most > 0) kernels::frexp(most, &exponent);
  R squares = 0;
  for (Int64 t = threadIdx.x; t < n * n; t += blockDim.x) {
    T e = finite ? given(t % n, t / n) : T{};
    if constexpr (is_complex_type<T>) e = {kernels::ldexp(e.re, -exponent), kernels::ldexp(e.im, -exponent)};
    else e = kernels::ldexp(e, -exponent);
    squares += squared_size(e);
    x[t] = e;
    if (s.vectors) v[t] = number<T>(t % n == t / n ? 1 : 0);
  }
  *sum = fold_block<Add>(squares, room);
  if (threadIdx.x == 0) s.exponents[i] = exponent;
  return finite;
}

/// How many values come before value j; by a warp.
template <class R>
FACULA_FN Int64 rank_of(const R* values, Int64 n, Int64 j, bool descending) {
  const R mine = values[j];
  Int64 before = 0;
  for (Int64 k = lane_number(); k < n; k += 32)
    before += (descending ? values[k] > mine : values[k] < mine) || (values[k] == mine && k < j);
  return fold_warp<Add>(before);
}

// ---- eigenvalues

/// Hermitian matrices, of which one triangle is read. The real part of the diagonal counts.
template <class T>
__global__ __launch_bounds__(256) void begin_hermitian(const T* a, Sweeps s, bool upper) {
  using R = Real<T>;
  FACULA_SHARED(R, room, kMostWarps);
  for (Int64 i = blockIdx.x; i < s.count; i += gridDim.x) {
    const T* from = a + i * s.n * s.n;
    const auto given = [&](Int64 r, Int64 c) {
      if (r == c) return number<T>(real_part(from[r + c * s.n]));
      return (upper ? r < c : r > c) ? from[r + c * s.n] : conjugate(from[c + r * s.n]);
    };
    R sum;
    const bool finite = begin_sweeps<T>(s, i, given, room, &sum);
    if (threadIdx.x != 0) continue;
    static_cast<R*>(s.limits)[i] = kernels::Float<R>::epsilon / (2 * R(s.n)) * kernels::sqrt(sum);
    if (!finite) s.info[i] = int(s.n > 1 ? s.n - 1 : 1);
  }
}

template <class T>
FACULA_FN Rotation<Real<T>> hermitian_rotation(const T* x, Int64 n, IndexPair pair, Real<T> limit) {
  if (pair.q == n) return {1, 0, 0, 0};
  const T gamma = x[pair.p + pair.q * n];
  const Real<T> size = kernels::abs(gamma);
  if (!(size > limit)) return {1, 0, 0, 0};
  return rotation_of(real_part(x[pair.p * (n + 1)]), real_part(x[pair.q * (n + 1)]), gamma, size);
}

/// The 2 x 2 block of rows of pair j and columns of pair k, turned by both rotations.
template <class T>
FACULA_FN void turn_block(T* x, Int64 n, Int64 round, Int64 j, Int64 k, const Rotation<Real<T>>* rotations) {
  const Rotation<Real<T>> rows = rotations[j], columns = rotations[k];
  if (!turns(rows) && !turns(columns)) return;
  const IndexPair r = pair_of(n, round, j), c = pair_of(n, round, k);
  T block[2][2];
  for (int b = 0; b < 2; ++b)
    for (int a = 0; a < 2; ++a) {
      const Int64 row = a ? r.q : r.p, column = b ? c.q : c.p;
      block[a][b] = row < n && column < n ? x[row + column * n] : T{};
    }
  if (j == k) {
    block[0][0] = number<T>(real_part(block[0][0]) - rows.shift);
    block[1][1] = number<T>(real_part(block[1][1]) + rows.shift);
    block[0][1] = block[1][0] = T{};
  } else {
    for (int a = 0; a < 2; ++a) turn(columns, block[a][0], block[a][1]);
    Rotation<Real<T>> adjoint = rows;
    adjoint.im = -rows.im;
    for (int b = 0; b < 2; ++b) turn(adjoint, block[0][b], block[1][b]);
  }
  for (int b = 0; b < 2; ++b)
    for (int a = 0; a < 2; ++a) {
      const Int64 row = a ? r.q : r.p, column = b ? c.q : c.p;
      if (row < n && column < n) x[row + column * n] = block[a][b];
    }
}

/// Part t of what the rotations of a round turn: blocks of the matrix, then pairs of elements of the vectors.
template <class T>
FACULA_FN void turn_part(const Sweeps& s, Int64 i, Int64 round, Int64 t) {
  const Int64 n = s.n, pairs = pairs_of(n);
  const auto* rotations = static_cast<const Rotation<Real<T>>*>(s.rotations) + i * pairs;
  if (t < pairs * pairs)
    return turn_block(static_cast<T*>(s.matrix) + i * n * n, n, round, t % pairs, t / pairs, rotations);
  t -= pairs * pairs;
  const Int64 j = t / n, row = t - j * n;
  if (!turns(rotations[j])) return;
  const IndexPair pair = pair_of(n, round, j);
  T* v = static_cast<T*>(s.vectors) + i * n * n + row;
  turn(rotations[j], v[pair.p * n], v[pair.q * n]);
}
template <class T>
FACULA_FN Int64 parts_of(const Sweeps& s) {
  const Int64 pairs = pairs_of(s.n);
  return pairs * (pairs + (s.vectors ? s.n : 0));
}

template <class T>
FACULA_FN bool set_rotation(const Sweeps& s, Int64 i, Int64 round, Int64 j) {
  const Int64 n = s.n, pairs = pairs_of(n);
  auto* rotations = static_cast<Rotation<Real<T>>*>(s.rotations) + i * pairs;
  rotations[j] = hermitian_rotation(static_cast<const T*>(s.matrix) + i * n * n, n, pair_of(n, round, j),
                                    static_cast<const Real<T>*>(s.limits)[i]);
  return turns(rotations[j]);
}

template <class T>
__global__ __launch_bounds__(256) void hermitian_sweeps(Sweeps s, int most) {
  for (Int64 i = blockIdx.x; i < s.count; i += gridDim.x) {
    int sweep = 0;
    for (; sweep < most; ++sweep) {
      bool turned = false;
      for (Int64 round = 0; round < rounds_of(s.n); ++round) {
        for (Int64 j = threadIdx.x; j < pairs_of(s.n); j += blockDim.x) turned |= set_rotation<T>(s, i, round, j);
        __syncthreads();
        for (Int64 t = threadIdx.x; t < parts_of<T>(s); t += blockDim.x) turn_part<T>(s, i, round, t);
        __syncthreads();
      }
      if (!__syncthreads_or(turned)) break;
    }
    if (sweep == most && threadIdx.x == 0) s.info[i] = int(s.n);
  }
}

template <class T>
__global__ __launch_bounds__(256) void hermitian_rotations(Sweeps s, Int64 round) {
  const Int64 pairs = pairs_of(s.n);
  for (Int64 t = thread_number(); t < s.count * pairs; t += thread_count())
    if (set_rotation<T>(s, t / pairs, round, t % pairs)) s.turned[t / pairs] = 1;
}
template <class T>
__global__ __launch_bounds__(256) void hermitian_round(Sweeps s, Int64 round) {
  const Int64 parts = parts_of<T>(s);
  for (Int64 t = thread_number(); t < s.count * parts; t += thread_count())
    turn_part<T>(s, t / parts, round, t % parts);
}

/// The eigenvalues, ascending, and in their order the vectors.
template <class T>
__global__ __launch_bounds__(256) void end_hermitian(Sweeps s, Real<T>* w, T* vectors) {
  const Int64 n = s.n;
  for (Int64 i = blockIdx.x; i < s.count; i += gridDim.x) {
    const T *x = static_cast<const T*>(s.matrix) + i * n * n, *v = static_cast<const T*>(s.vectors) + i * n * n;
    auto* values = static_cast<Real<T>*>(s.rotations) + i * 4 * pairs_of(n);
    for (Int64 j = threadIdx.x; j < n; j += blockDim.x) values[j] = real_part(x[j * (n + 1)]);
    __syncthreads();
    for (Int64 j = warp_of_block(); j < n; j += warps_of_block()) {
      const Int64 to = rank_of(values, n, j, false);
      if (lane_number() == 0) w[i * n + to] = kernels::ldexp(values[j], s.exponents[i]);
      for (Int64 r = lane_number(); r < n && vectors; r += 32) vectors[(i * n + to) * n + r] = v[j * n + r];
    }
  }
}

// ---- singular values

/// Square matrices of any strides; with `triangle` what is below the diagonal counts as zero.
template <class T>
__global__ __launch_bounds__(256) void begin_columns(MatrixBatch a, Sweeps s, bool triangle) {
  FACULA_SHARED(Real<T>, room, kMostWarps);
  for (Int64 i = blockIdx.x; i < s.count; i += gridDim.x) {
    const T* from = matrix_of<const T>(a, i);
    const auto given = [&](Int64 r, Int64 c) { return triangle && r > c ? T{} : element(from, a, r, c); };
    Real<T> sum;
    const bool finite = begin_sweeps<T>(s, i, given, room, &sum);
    if (!finite && threadIdx.x == 0) s.info[i] = -4;  // as LAPACK says it
  }
}

/// The sum over a group of `lanes` lanes, a power of two, in each of them.
template <class T>
FACULA_FN T sum_of_group(T value, int lanes) {
  for (int by = lanes / 2; by > 0; by /= 2) value = value + shuffle_across(value, by);
  return value;
}

/// Makes the two columns of a pair orthogonal; by a group of lanes, while others of the warp have other pairs, or none.
/// Columns that are all but zero are left.
template <class T>
FACULA_FN bool turn_columns(const Sweeps& s, Int64 i, IndexPair pair, bool has_pair, int lanes) {
  using R = Real<T>;
  has_pair = has_pair && pair.q < s.n;
  const Int64 rows = has_pair ? s.n : 0, first = threadIdx.x % unsigned(lanes), p = (i * s.n + pair.p) * s.n,
              q = (i * s.n + pair.q) * s.n;
  T *x = static_cast<T*>(s.matrix) + p, *y = static_cast<T*>(s.matrix) + q, gamma{};
  R alpha = 0, beta = 0;
  for (Int64 r = first; r < rows; r += lanes) {
    alpha += squared_size(x[r]);
    beta += squared_size(y[r]);
    gamma = gamma + conjugate(x[r]) * y[r];
  }
  alpha = sum_of_group(alpha, lanes), beta = sum_of_group(beta, lanes), gamma = sum_of_group(gamma, lanes);
  const R size = kernels::abs(gamma), least = kernels::Float<R>::smallest_normal / kernels::Float<R>::epsilon;
  const R limit = kernels::Float<R>::epsilon * kernels::sqrt(R(s.n)) * kernels::sqrt(alpha) * kernels::sqrt(beta);
  if (!(size > limit) || !(alpha > least) || !(beta > least)) return false;
  const Rotation<R> rotation = rotation_of(alpha, beta, gamma, size);
  for (Int64 r = first; r < rows; r += lanes) turn(rotation, x[r], y[r]);
  if (s.vectors) {
    T *v = static_cast<T*>(s.vectors) + p, *w = static_cast<T*>(s.vectors) + q;
    for (Int64 r = first; r < rows; r += lanes) turn(rotation, v[r], w[r]);
  }
  return true;
}

template <class T>
__global__ __launch_bounds__(256) void column_sweeps(Sweeps s, int lanes, int most) {
  const Int64 pairs = pairs_of(s.n), group = threadIdx.x / unsigned(lanes), groups = blockDim.x / unsigned(lanes);
  for (Int64 i = blockIdx.x; i < s.count; i += gridDim.x) {
    int sweep = 0;
    for (; sweep < most; ++sweep) {
      bool turned = false;
      for (Int64 round = 0; round < rounds_of(s.n); ++round) {
        for (Int64 from = 0; from < pairs; from += groups) {
          const Int64 j = from + group;
          turned |= turn_columns<T>(s, i, pair_of(s.n, round, j < pairs ? j : 0), j < pairs, lanes);
        }
        __syncthreads();
      }
      if (!__syncthreads_or(turned)) break;
    }
    if (sweep == most && threadIdx.x == 0) s.info[i] = int(s.n);
  }
}

template <class T>
__global__ __launch_bounds__(256) void column_round(Sweeps s, int lanes, Int64 round) {
  const Int64 pairs = pairs_of(s.n), all = s.count * pairs, together = 32 / lanes;
  for (Int64 from = warp_number() * together; from < all; from += warp_count() * together) {
    const Int64 mine = from + lane_number() / lanes, t = mine < all ? mine : from;
    if (turn_columns<T>(s, t / pairs, pair_of(s.n, round, t % pairs), mine < all, lanes)) s.turned[t / pairs] = 1;
  }
}

/// The columns' lengths, descending, and in their order the columns, made as long as one (or zero), and the vectors.
template <class T>
__global__ __launch_bounds__(256) void end_columns(Sweeps s, Real<T>* values, T* left, T* right) {
  using R = Real<T>;
  const Int64 n = s.n;
  for (Int64 i = blockIdx.x; i < s.count; i += gridDim.x) {
    const T *x = static_cast<const T*>(s.matrix) + i * n * n, *v = static_cast<const T*>(s.vectors) + i * n * n;
    auto* lengths = static_cast<R*>(s.rotations) + i * 4 * pairs_of(n);
    for (Int64 j = warp_of_block(); j < n; j += warps_of_block()) {
      R most = 0, sum = 0;
      for (Int64 r = lane_number(); r < n; r += 32) most = Max::merge(most, larger_part(x[j * n + r]));
      most = fold_warp<Max>(most);
      for (Int64 r = lane_number(); r < n; r += 32) sum += most > 0 ? squared_size(x[j * n + r] / most) : R(0);
      sum = fold_warp<Add>(sum);
      if (lane_number() == 0) lengths[j] = most * kernels::sqrt(sum);
    }
    __syncthreads();
    for (Int64 j = warp_of_block(); j < n; j += warps_of_block()) {
      const Int64 to = rank_of(lengths, n, j, true);
      const R length = lengths[j];
      if (lane_number() == 0) values[i * n + to] = kernels::ldexp(length, s.exponents[i]);
      for (Int64 r = lane_number(); r < n && left; r += 32) {
        left[(i * n + to) * n + r] = length > 0 ? x[j * n + r] / length : T{};
        right[(i * n + to) * n + r] = v[j * n + r];
      }
    }
    __syncthreads();
  }
}

/// Diagonal matrices of n x n: the signs of the diagonal of R, one for zero.
template <class T>
__global__ __launch_bounds__(256) void diagonal_signs(const T* r, Int64 count, Int64 n, T* out) {
  for (Int64 t = thread_number(); t < count * n * n; t += thread_count()) {
    const Int64 e = t % (n * n);
    out[t] = e % n != e / n ? T{} : number<T>(real_part(r[t]) < 0 ? -1 : 1);
  }
}

}  // namespace facula::cuda
