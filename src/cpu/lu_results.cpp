// What is read off LU factors on the CPU. Factors are column after column, pivots count from one.
#include <complex>
#include <numeric>
#include <vector>

#include "cpu/serial.h"
#include "ops/linalg.h"

namespace facula::cpu {
namespace {

template <class T>
constexpr bool is_lapack_type = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

template <class F>
void visit_lapack(DType dtype, F&& f) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (is_lapack_type<T>) f(tag);
  });
}

/// Calls f(element of the diagonal, whether its row was exchanged) for matrix i.
template <class T, class F>
void each_pivot(const Tensor& lu, const Tensor& pivots, int64_t i, F&& f) {
  const int64_t n = lu.size(-1);
  for (int64_t r = 0; r < n; ++r) f(lu.data<T>()[i * n * n + r * (n + 1)], pivots.data<int32_t>()[i * n + r] != r + 1);
}

void det_cpu(const Tensor& out, const Tensor& lu, const Tensor& pivots) {
  visit_lapack(out.dtype(), [&]<class T>(TypeTag<T>) {
    one_by_one(out.numel(), lu.size(-1), [&](int64_t i) {
      T product(1);
      each_pivot<T>(lu, pivots, i, [&](T x, bool exchanged) {
        product *= x;
        if (exchanged) product = -product;
      });
      out.data<T>()[i] = product;
    });
  });
}

void slogdet_cpu(const Tensor& sign, const Tensor& logarithm, const Tensor& lu, const Tensor& pivots) {
  visit_lapack(sign.dtype(), [&]<class T>(TypeTag<T>) {
    one_by_one(sign.numel(), lu.size(-1), [&](int64_t i) {
      T s(1);
      double sum = 0;
      each_pivot<T>(lu, pivots, i, [&](T x, bool exchanged) {
        const auto size = std::abs(x);
        s *= size == 0 ? T(0) : x / size;
        sum += std::log(static_cast<double>(size));
        if (exchanged) s = -s;
      });
      sign.data<T>()[i] = s;
      using Real = decltype(std::abs(s));
      logarithm.data<Real>()[i] = static_cast<Real>(sum);
    });
  });
}

void lu_permutation_cpu(const Tensor& out, const Tensor& pivots) {
  const int64_t rows = out.size(-1), count = out.numel() / (rows * rows), k = pivots.size(-1);
  std::vector<int64_t> order(static_cast<size_t>(rows));
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    const T one = Scalar(1).to<T>();
    one_by_one(count, 2 * rows, [&](int64_t i) {
      std::iota(order.begin(), order.end(), 0);
      for (int64_t r = 0; r < k; ++r) {
        const int64_t other = int64_t{pivots.data<int32_t>()[i * k + r]} - 1;
        FACULA_CHECK(other >= r && other < rows, ErrorKind::Runtime,
                     "lu_unpack: pivots count from one up to the number of rows ", rows, ", got ", other + 1);
        std::swap(order[static_cast<size_t>(r)], order[static_cast<size_t>(other)]);
      }
      for (int64_t r = 0; r < rows; ++r) out.data<T>()[(i * rows + order[static_cast<size_t>(r)]) * rows + r] = one;
    });
  });
}

}  // namespace

void register_lu_results() {
  det_kernel.set(DeviceType::CPU, det_cpu);
  slogdet_kernel.set(DeviceType::CPU, slogdet_cpu);
  lu_permutation_kernel.set(DeviceType::CPU, lu_permutation_cpu);
}

}  // namespace facula::cpu
