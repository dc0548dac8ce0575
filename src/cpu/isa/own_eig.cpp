// Eigenvalues of matrices without symmetry: reflectors leave one diagonal below the main one, and Francis' implicit QR
// method with two shifts takes that away too, but for pairs of complex eigenvalues. Vectors are then found backwards.
#include "cpu/own_eig.h"

#include <complex>
#include <limits>

#include "cpu/isa/reflectors.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
class Eigen {
 public:
  Eigen(int64_t n, const T* a, bool vectors)
      : n_(n),
        vectors_(vectors),
        h_(n, n, a),
        z_(vectors ? n : 0, vectors ? n : 0),
        scales_(static_cast<size_t>(n), 1) {}

  bool run(T* real, T* imaginary) {
    const std::optional<int> exponent = bring_near_one(h_);
    if (!exponent || !balance()) return false;
    reduce();
    real_.resize(static_cast<size_t>(n_));
    imaginary_.resize(static_cast<size_t>(n_));
    if (!iterate()) return false;
    for (int64_t i = 0; i < n_; ++i) {
      real[i] = static_cast<T>(std::scalbn(re(i), *exponent));
      imaginary[i] = static_cast<T>(std::scalbn(im(i), *exponent));
    }
    return true;
  }

  void find_vectors(T* to) {
    std::vector<T> x(static_cast<size_t>(h_.step * 2)), b(x.size());
    for (int64_t j = 0; j < n_; ++j) {
      std::fill(x.begin(), x.end(), T(0));
      std::fill(b.begin(), b.end(), T(0));
      const bool pair = im(j) != 0;
      const int64_t last = pair ? j + 1 : j;
      solve_backwards(j, last, x.data(), x.data() + h_.step, b.data(), b.data() + h_.step);
      T* real = to + j * n_;
      combine(x.data(), last + 1, real);
      if (pair) combine(x.data() + h_.step, last + 1, real + n_);
      normalise(real, pair ? real + n_ : nullptr);
      j = last;
    }
  }

 private:
  static constexpr double kEpsilon = static_cast<double>(std::numeric_limits<T>::epsilon());

  T& h(int64_t r, int64_t c) { return h_.column(c)[r]; }
  double at(int64_t r, int64_t c) const { return static_cast<double>(h_.column(c)[r]); }
  double& re(int64_t i) { return real_[static_cast<size_t>(i)]; }
  double& im(int64_t i) { return imaginary_[static_cast<size_t>(i)]; }

  /// Rows and columns of similar lengths, by powers of two: rounding errors are as large as the largest elements. False
  /// where a row or a column has nothing beside the diagonal: the library sets such exact eigenvalues apart.
  bool balance() {
    std::vector<T> sums(static_cast<size_t>(n_));
    for (bool changed = true; changed;) {
      changed = false;
      std::fill(sums.begin(), sums.end(), T(0));
      for (int64_t c = 0; c < n_; ++c)
        for (int64_t r = 0; r < n_; ++r) sums[static_cast<size_t>(r)] += r == c ? T(0) : std::abs(h(r, c));
      for (int64_t i = 0; i < n_; ++i) {
        T down = 0, across = 0;
        for (int64_t r = 0; r < n_; ++r) down += r == i ? T(0) : std::abs(h(r, i));
        across = sums[static_cast<size_t>(i)];
        if (n_ > 1 && (down == 0 || across == 0)) return false;
        if (!(down > across * T(16)) && !(across > down * T(16))) continue;
        across = 0;
        for (int64_t c = 0; c < n_; ++c) across += c == i ? T(0) : std::abs(h(i, c));
        if (!(down > 0) || !(across > 0)) continue;
        int power = 0;
        for (double x = static_cast<double>(down); x < static_cast<double>(across) / 2 && power < 100; x *= 4) ++power;
        for (double x = static_cast<double>(down); x >= static_cast<double>(across) * 2 && power > -100; x /= 4)
          --power;
        const double factor = std::ldexp(1.0, power);
        if (static_cast<double>(down) * factor + static_cast<double>(across) / factor >=
            0.95 * (static_cast<double>(down) + static_cast<double>(across)))
          continue;
        changed = true;
        scales_[static_cast<size_t>(i)] *= factor;
        for (int64_t r = 0; r < n_; ++r) h(r, i) = static_cast<T>(static_cast<double>(h(r, i)) * factor);
        for (int64_t c = 0; c < n_; ++c) h(i, c) = static_cast<T>(static_cast<double>(h(i, c)) / factor);
      }
    }
    return true;
  }

  void reduce() {
    const auto rows = static_cast<size_t>(h_.step);
    std::vector<T> v(rows), y(rows), w(rows), by(rows), tau(rows);
    const T* known = nullptr;
    for (int64_t k = 0; k < n_; ++k) {
      T* column = h_.column(k);
      if (known)
        for (int64_t i = 0; i < n_; ++i) column[i] -= y[static_cast<size_t>(i)] * by[static_cast<size_t>(k)];
      if (k + 2 >= n_) continue;
      v[static_cast<size_t>(k)] = 0;
      tau[static_cast<size_t>(k)] = make_reflector(n_ - k - 1, column + k + 1, v.data() + k + 1);
      subtract_and_multiply(h_, k + 1, 0, known, by.data(), v.data(), w.data());
      for (int64_t c = k + 1; c < n_; ++c) {
        w[static_cast<size_t>(c)] *= tau[static_cast<size_t>(k)];
        by[static_cast<size_t>(c)] = tau[static_cast<size_t>(k)] * v[static_cast<size_t>(c)];
      }
      subtract_and_add_up(h_, k + 1, 0, v.data(), w.data(), v.data(), y.data());
      known = y.data();
    }
    if (vectors_) {
      std::copy_n(h_.values, h_.step * n_, z_.values);
      form_basis(z_, tau.data());
    }
    for (int64_t c = 0; c + 2 < n_; ++c) std::fill(h_.column(c) + c + 2, h_.column(c) + n_, T(0));
    for (int64_t c = 0; c < n_; ++c)
      for (int64_t r = 0; r < n_; ++r) norm_ = std::max(norm_, std::abs(at(r, c)));
  }

  bool iterate() {
    constexpr int most = 60;
    int tries = 0;
    for (int64_t end = n_ - 1; end >= 0;) {
      int64_t begin = end;
      for (; begin > 0; --begin) {
        double size = std::abs(at(begin - 1, begin - 1)) + std::abs(at(begin, begin));
        if (size == 0) size = norm_;
        if (std::abs(at(begin, begin - 1)) <= kEpsilon / 2 * size) {
          h(begin, begin - 1) = 0;
          break;
        }
      }
      if (begin == end) {
        re(end) = at(end, end);
        im(end--) = 0;
        tries = 0;
      } else if (begin == end - 1) {
        separate(end);
        end -= 2;
        tries = 0;
      } else if (++tries == most) {
        return false;
      } else {
        step(begin, end, tries);
      }
    }
    return true;
  }

  /// The last two rows of what is left: two real eigenvalues are rotated apart, complex ones stay together.
  void separate(int64_t end) {
    const int64_t m = end - 1;
    const double x = at(end, end), y = at(m, m), w = at(end, m) * at(m, end), half = (y - x) / 2;
    const double q = half * half + w, root = std::sqrt(std::abs(q));
    if (q < 0) {
      re(m) = re(end) = x + half;
      im(m) = root;
      im(end) = -root;
      return;
    }
    const double z = half + std::copysign(root, half);
    re(m) = x + z;
    re(end) = z != 0 ? x - w / z : x + z;
    im(m) = im(end) = 0;
    if (!vectors_) return;
    const double below = at(end, m), length = std::hypot(below, z);
    const T s = static_cast<T>(length > 0 ? below / length : 0), c = static_cast<T>(length > 0 ? z / length : 1);
    for (int64_t j = m; j < n_; ++j) {
      const T first = h(m, j), second = h(end, j);
      h(m, j) = c * first + s * second;
      h(end, j) = c * second - s * first;
    }
    auto turn = [&](T* a, T* b, int64_t rows) {
      FACULA_SIMD
      for (int64_t i = 0; i < rows; ++i) {
        const T first = a[i], second = b[i];
        a[i] = c * first + s * second;
        b[i] = c * second - s * first;
      }
    };
    turn(h_.column(m), h_.column(end), end + 1);
    turn(z_.column(m), z_.column(end), n_);
    h(end, m) = 0;
  }

  void step(int64_t begin, int64_t end, int tries) {
    double x = at(end, end), y = at(end - 1, end - 1), w = at(end, end - 1) * at(end - 1, end);
    if (tries % 10 == 0) {  // shifts that are no eigenvalues, to leave a circle
      const double size = std::abs(at(end, end - 1)) + std::abs(at(end - 1, end - 2));
      x = y = at(end, end) + 0.75 * size;
      w = -0.4375 * size * size;
    }
    // the first column of the product of both shifted matrices, from where two elements below the diagonal are small
    double p = 0, q = 0, r = 0;
    int64_t k = end - 2;
    for (;; --k) {
      const double z = at(k, k), from_x = x - z, from_y = y - z;
      p = (from_x * from_y - w) / at(k + 1, k) + at(k, k + 1);
      q = at(k + 1, k + 1) - z - from_x - from_y;
      r = at(k + 2, k + 1);
      const double size = std::abs(p) + std::abs(q) + std::abs(r);
      if (size > 0) p /= size, q /= size, r /= size;
      if (k == begin) break;
      const double before = std::abs(at(k, k - 1)) * (std::abs(q) + std::abs(r));
      if (before <=
          kEpsilon / 2 * std::abs(p) * (std::abs(at(k - 1, k - 1)) + std::abs(z) + std::abs(at(k + 1, k + 1))))
        break;
    }
    const int64_t first_row = vectors_ ? 0 : begin, columns = vectors_ ? n_ : end + 1;
    for (int64_t i = k; i < end; ++i) {
      const bool three = i + 1 < end;
      if (i > k) {
        p = at(i, i - 1);
        q = at(i + 1, i - 1);
        r = three ? at(i + 2, i - 1) : 0;
      }
      const double tail = q * q + r * r, length = std::sqrt(p * p + tail);
      if (tail == 0 || length == 0) continue;
      const double beta = p < 0 ? length : -length, inverse = 1 / (p - beta), tau = (beta - p) / beta;
      const double v2 = q * inverse, v3 = r * inverse;
      if (i > k) {
        h(i, i - 1) = static_cast<T>(beta);
        h(i + 1, i - 1) = 0;
        if (three) h(i + 2, i - 1) = 0;
      } else if (k > begin) {
        h(k, k - 1) = static_cast<T>(at(k, k - 1) * (1 - tau));
      }
      const T v[] = {static_cast<T>(v2), static_cast<T>(v3)};
      const T t[] = {static_cast<T>(tau), static_cast<T>(tau * v2), static_cast<T>(tau * v3)};
      if (three) {
        reflect_rows(i, columns, v, t);
        reflect_columns<3>(h_, i, first_row, std::min(i + 4, end + 1), v, t);
        if (vectors_) reflect_columns<3>(z_, i, 0, n_, v, t);
      } else {
        for (int64_t c = i; c < columns; ++c) {
          T* at_row = h_.column(c) + i;
          const T sum = at_row[0] + v[0] * at_row[1];
          at_row[0] -= sum * t[0];
          at_row[1] -= sum * t[1];
        }
        reflect_columns<2>(h_, i, first_row, end + 1, v, t);
        if (vectors_) reflect_columns<2>(z_, i, 0, n_, v, t);
      }
    }
  }

  /// Rows i to i + 2 of the columns from i on: four columns at a time, which are turned over in registers.
  void reflect_rows(int64_t i, int64_t columns, const T* v, const T* t) {
    typedef T Four __attribute__((vector_size(4 * sizeof(T))));
    int64_t c = i;
    auto turn = [](Four* x) {
      const Four a = __builtin_shufflevector(x[0], x[1], 0, 4, 2, 6),
                 b = __builtin_shufflevector(x[0], x[1], 1, 5, 3, 7);
      const Four d = __builtin_shufflevector(x[2], x[3], 0, 4, 2, 6),
                 e = __builtin_shufflevector(x[2], x[3], 1, 5, 3, 7);
      x[0] = __builtin_shufflevector(a, d, 0, 1, 4, 5);
      x[1] = __builtin_shufflevector(b, e, 0, 1, 4, 5);
      x[2] = __builtin_shufflevector(a, d, 2, 3, 6, 7);
      x[3] = __builtin_shufflevector(b, e, 2, 3, 6, 7);
    };
    for (; c + 4 <= columns && i + 4 <= h_.step; c += 4) {
      Four x[4];
      for (int k = 0; k < 4; ++k) std::memcpy(&x[k], h_.column(c + k) + i, sizeof x[k]);
      turn(x);
      const Four sum = x[0] + v[0] * x[1] + v[1] * x[2];
      x[0] -= sum * t[0];
      x[1] -= sum * t[1];
      x[2] -= sum * t[2];
      turn(x);
      for (int k = 0; k < 4; ++k) std::memcpy(h_.column(c + k) + i, &x[k], sizeof x[k]);
    }
    for (; c < columns; ++c) {
      T* row = h_.column(c) + i;
      const T sum = row[0] + v[0] * row[1] + v[1] * row[2];
      row[0] -= sum * t[0];
      row[1] -= sum * t[1];
      row[2] -= sum * t[2];
    }
  }

  /// Columns i, i + 1 and, of three, i + 2, in whole vectors of rows. What lies below the rows that change is zero.
  template <int count>
  static void reflect_columns(Columns<T>& a, int64_t i, int64_t from, int64_t to, const T* v, const T* t) {
    using V = typename VectorOf<T>::type;
    T *x = a.column(i), *y = x + a.step, *z = y + a.step;
    for (int64_t r = from / kLanes<T> * kLanes<T>; r < to; r += kLanes<T>) {
      V first = load_vector(x + r), second = load_vector(y + r), third{};
      V sum = first + v[0] * second;
      if constexpr (count == 3) {
        third = load_vector(z + r);
        sum += v[1] * third;
        third -= sum * t[2];
        std::memcpy(z + r, &third, sizeof third);
      }
      first -= sum * t[0];
      second -= sum * t[1];
      std::memcpy(x + r, &first, sizeof first);
      std::memcpy(y + r, &second, sizeof second);
    }
  }

  /// The eigenvector number j of what is left of the matrix, in parts x and y; b and c are the right-hand sides that
  /// follow from what is known.
  void solve_backwards(int64_t j, int64_t last, T* x, T* y, T* b, T* c) {
    using C = std::complex<double>;
    const bool pair = last != j;
    const C value(re(j), im(j));
    const double least = std::max(kEpsilon * norm_, std::numeric_limits<double>::min() * 1e10);
    auto known = [&](int64_t i, C element) {
      x[i] = static_cast<T>(element.real());
      y[i] = static_cast<T>(element.imag());
      const T *column = h_.column(i), by_x = x[i], by_y = y[i];
      FACULA_SIMD
      for (int64_t k = 0; k < i; ++k) b[k] -= by_x * column[k];
      if (!pair) return;
      FACULA_SIMD
      for (int64_t k = 0; k < i; ++k) c[k] -= by_y * column[k];
    };
    auto keep_small = [&](int64_t i, C element) {  // what is divided by almost nothing again and again
      const double size = std::max(std::abs(element.real()), std::abs(element.imag()));
      if (kEpsilon * size * size <= 1) return 1.0;
      for (int64_t k = 0; k <= last; ++k) {
        T* parts[] = {x + k, y + k, b + k, c + k};
        for (T* part : parts) *part = static_cast<T>(static_cast<double>(*part) / size);
      }
      (void)i;
      return 1 / size;
    };
    if (!pair) {
      known(j, 1);
    } else {
      const double up = at(j, last), down = at(last, j);
      const bool from_below = std::abs(down) >= std::abs(up);
      const C first = from_below ? (value - at(last, last)) / down : C(1);
      known(last, from_below ? C(1) : (value - at(j, j)) / up);
      known(j, first);
    }
    for (int64_t i = j - 1; i >= 0; --i) {
      const C right(b[i], c[i]);
      C own = at(i, i) - value;
      if (im(i) == 0) {
        if (std::abs(own) < least) own = least;
        const C element = pair ? right / own : C(right.real() / own.real());
        known(i, element * keep_small(i, element));
        continue;
      }
      const int64_t k = i - 1;
      const C upper = at(k, k) - value, above(b[k], c[k]);
      const double across = at(k, i), below = at(i, k);
      C determinant = upper * own - across * below;
      if (std::abs(determinant) < least * least) determinant = least * least;
      C first = (own * above - across * right) / determinant, second = (upper * right - below * above) / determinant;
      const double factor = keep_small(i, std::abs(first) > std::abs(second) ? first : second);
      known(i, second * factor);
      known(k, first * factor);
      i = k;
    }
  }

  /// The first `count` columns of the basis, each times an element of `x`.
  void combine(const T* x, int64_t count, T* to) {
    using V = typename VectorOf<T>::type;
    constexpr int64_t lanes = kLanes<T>;
    for (int64_t r = 0; r < n_; r += lanes) {
      V even{}, odd{};
      int64_t k = 0;
      for (; k + 2 <= count; k += 2) {
        even += load_vector(z_.column(k) + r) * x[k];
        odd += load_vector(z_.column(k + 1) + r) * x[k + 1];
      }
      if (k < count) even += load_vector(z_.column(k) + r) * x[k];
      const V sum = even + odd;
      for (int64_t l = 0; l < std::min(lanes, n_ - r); ++l)
        to[r + l] = static_cast<T>(static_cast<double>(sum[l]) * scales_[static_cast<size_t>(r + l)]);
    }
  }

  void normalise(T* x, T* y) const {
    double largest = 0, squares = 0;
    for (int64_t i = 0; i < n_; ++i)
      largest = std::max({largest, std::abs(static_cast<double>(x[i])), y ? std::abs(static_cast<double>(y[i])) : 0.0});
    if (largest == 0) return;
    auto size = [&](int64_t i) {
      const double a = static_cast<double>(x[i]) / largest, b = y ? static_cast<double>(y[i]) / largest : 0;
      return a * a + b * b;
    };
    int64_t most = 0;
    for (int64_t i = 0; i < n_; ++i) {
      squares += size(i);
      if (size(i) > size(most)) most = i;
    }
    const double factor = 1 / std::sqrt(squares);
    if (!y) {
      for (int64_t i = 0; i < n_; ++i) x[i] = static_cast<T>(static_cast<double>(x[i]) / largest * factor);
      return;
    }
    const double a = static_cast<double>(x[most]) / largest, b = static_cast<double>(y[most]) / largest;
    const double length = std::sqrt(a * a + b * b), c = a / length, s = b / length;
    for (int64_t i = 0; i < n_; ++i) {
      const double first = static_cast<double>(x[i]) / largest, second = static_cast<double>(y[i]) / largest;
      x[i] = static_cast<T>((c * first + s * second) * factor);
      y[i] = static_cast<T>((c * second - s * first) * factor);
    }
    y[most] = 0;
  }

  int64_t n_;
  bool vectors_;
  Columns<T> h_, z_;
  std::vector<double> scales_, real_, imaginary_;
  double norm_ = 0;
};

template <class T>
bool eigen_of_any(int64_t n, const T* a, T* real, T* imaginary, T* vectors) {
  Eigen<T> matrix(n, a, vectors);
  if (!matrix.run(real, imaginary)) return false;
  if (vectors) matrix.find_vectors(vectors);
  return true;
}

}  // namespace

void register_own_eig() {
  own_eigen<float> = eigen_of_any<float>;
  own_eigen<double> = eigen_of_any<double>;
}

}  // namespace facula::cpu::FACULA_ISA
