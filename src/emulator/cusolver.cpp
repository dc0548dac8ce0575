// Linear systems of cuSOLVER's stand-in: Cholesky, LU, QR and LDL.
#include "emulator/cusolver.h"

#include <algorithm>

using namespace facula::emulator;
using namespace facula::emulator::solver;

FACULA_EMULATED cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) { return make(handle); }
FACULA_EMULATED cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) { return destroy(handle); }
FACULA_EMULATED cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params) { return make(params); }
FACULA_EMULATED cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) { return destroy(params); }
FACULA_EMULATED cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, CUstream stream) {
  if (!is_live(handle)) return wrong(__func__, "a handle that there is not");
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

// ---- Cholesky

FACULA_EMULATED cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t params,
                                                             cublasFillMode_t part, int64_t n, Type type,
                                                             const void* data, int64_t ld, Type compute, size_t* there,
                                                             size_t* here) {
  return answer(__func__, cholesky_error(params, part, {type, data, n, n, ld, "A"}, compute), there, here, false);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                  cublasFillMode_t part, int64_t n, Type type, void* data, int64_t ld,
                                                  Type compute, void* there, size_t there_bytes, void* here,
                                                  size_t here_bytes, int* info) {
  const Matrix a{type, data, n, n, ld, "A"};
  const Room room{there, there_bytes, here, here_bytes};
  const std::string why = first_of({cholesky_error(params, part, a, compute), memory_error(a), room_error(room, false),
                                    list_error(info, 1, "info")});
  return queue(__func__, handle, why, a, 1, [=] {
    spoil(room);
    cholesky(a, part, info);
  });
}
FACULA_EMULATED cusolverStatus_t cusolverDnXpotrs(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                  cublasFillMode_t part, int64_t n, int64_t columns, Type type,
                                                  const void* data, int64_t ld, Type b_type, void* b_data, int64_t b_ld,
                                                  int* info) {
  const Matrix a{type, data, n, n, ld, "A"}, b{b_type, b_data, n, columns, b_ld, "B"};
  const std::string why = first_of({cholesky_error(params, part, a, b_type), shape_error(b), memory_error(a),
                                    memory_error(b), list_error(info, 1, "info")});
  return queue(__func__, handle, why, a, 1, [=] {
    const char triangle = letter(part);
    const int size = narrow(n), right = narrow(columns), a_ld = narrow(ld), x_ld = narrow(b_ld);
    lapack(type, "potrs", "potrs", &triangle, &size, &right, a.at(0), &a_ld, b.at(0), &x_ld, info);
  });
}

namespace {
cusolverStatus_t cholesky_together(const char* call, Type type, cusolverDnHandle_t handle, cublasFillMode_t part, int n,
                                   void* matrices, int ld, int* info, int count) {
  const Matrix first{type, nullptr, n, n, ld, "A"};
  const std::string why = first_of({triangle_error(part), shape_error(first), unless(count > 0, "an empty batch"),
                                    list_error(static_cast<void**>(matrices), count, "the list of matrices"),
                                    list_error(info, count, "info")});
  return queue(call, handle, why, first, count, [=] {
    for (int i = 0; i < count; ++i) {
      const Matrix a{type, static_cast<void**>(matrices)[i], n, n, ld, "A"};
      if (const std::string bad = memory_error(a); !bad.empty()) info[i] = refused(call, bad, kNotFinite);
      else cholesky(a, part, info + i);
    }
  });
}
}  // namespace

#define TOGETHER(letter, type)                                                                                 \
  FACULA_EMULATED cusolverStatus_t cusolverDn##letter##potrfBatched(                                           \
      cusolverDnHandle_t handle, cublasFillMode_t part, int n, void* matrices, int ld, int* info, int count) { \
    return cholesky_together(__func__, type, handle, part, n, matrices, ld, info, count);                      \
  }
TOGETHER(S, CUDA_R_32F)
TOGETHER(D, CUDA_R_64F)
TOGETHER(C, CUDA_C_32F)
TOGETHER(Z, CUDA_C_64F)

// ---- LU

FACULA_EMULATED cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t params, int64_t m,
                                                             int64_t n, Type type, const void* data, int64_t ld,
                                                             Type compute, size_t* there, size_t* here) {
  return answer(__func__, factor_error(params, {type, data, m, n, ld, "A"}, compute), there, here, false);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m,
                                                  int64_t n, Type type, void* data, int64_t ld, int64_t* pivots,
                                                  Type compute, void* there, size_t there_bytes, void* here,
                                                  size_t here_bytes, int* info) {
  const Matrix a{type, data, m, n, ld, "A"};
  const Room room{there, there_bytes, here, here_bytes};
  const int64_t k = std::min(m, n);
  const std::string why = first_of({factor_error(params, a, compute), memory_error(a), room_error(room, false),
                                    list_error(pivots, k, "the pivots"), list_error(info, 1, "info")});
  return queue(__func__, handle, why, a, 1, [=] {
    spoil(room);
    const bool is_finite = a.is_finite();
    const int rows = narrow(m), columns = narrow(n), a_ld = narrow(ld);
    std::vector<int> exchanges(static_cast<size_t>(k));
    lapack(type, "getrf", "getrf", &rows, &columns, a.at(0), &a_ld, exchanges.data(), info);
    for (int64_t i = 0; i < k; ++i) pivots[i] = is_finite ? exchanges[static_cast<size_t>(i)] : 0;
  });
}
FACULA_EMULATED cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                  cublasOperation_t op, int64_t n, int64_t columns, Type type,
                                                  const void* data, int64_t ld, const int64_t* pivots, Type b_type,
                                                  void* b_data, int64_t b_ld, int* info) {
  const Matrix a{type, data, n, n, ld, "A"}, b{b_type, b_data, n, columns, b_ld, "B"};
  const std::string why = first_of({factor_error(params, a, b_type), shape_error(b), memory_error(a), memory_error(b),
                                    unless(op >= CUBLAS_OP_N && op <= CUBLAS_OP_C, "an operation that there is not"),
                                    list_error(pivots, n, "the pivots"), list_error(info, 1, "info")});
  return queue(__func__, handle, why, a, 1, [=] {
    const char how = letter(op);
    const int size = narrow(n), right = narrow(columns), a_ld = narrow(ld), x_ld = narrow(b_ld);
    const std::vector<int> exchanges(pivots, pivots + n);
    lapack(type, "getrs", "getrs", &how, &size, &right, a.at(0), &a_ld, exchanges.data(), b.at(0), &x_ld, info);
  });
}

// ---- QR

FACULA_EMULATED cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t params, int64_t m,
                                                             int64_t n, Type type, const void* data, int64_t ld,
                                                             Type tau_type, const void*, Type compute, size_t* there,
                                                             size_t* here) {
  const std::string why = first_of({factor_error(params, {type, data, m, n, ld, "A"}, compute),
                                    unless(tau_type == type, "factors of another type")});
  return answer(__func__, why, there, here, false);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m,
                                                  int64_t n, Type type, void* data, int64_t ld, Type tau_type,
                                                  void* tau, Type compute, void* there, size_t there_bytes, void* here,
                                                  size_t here_bytes, int* info) {
  const int64_t k = std::min(m, n);
  const Matrix a{type, data, m, n, ld, "A"}, factors{tau_type, tau, k, 1, k, "tau"};
  const Room room{there, there_bytes, here, here_bytes};
  const std::string why =
      first_of({factor_error(params, a, compute), unless(tau_type == type, "factors of another type"), memory_error(a),
                memory_error(factors), room_error(room, false), list_error(info, 1, "info")});
  return queue(__func__, handle, why, a, 1, [=] {
    spoil(room);
    const int rows = narrow(m), columns = narrow(n), a_ld = narrow(ld);
    with_work(type, [&](void* work, int size) {
      lapack(type, "geqrf", "geqrf", &rows, &columns, a.at(0), &a_ld, tau, work, &size, info);
    });
  });
}

namespace {

std::string work_error(Type type, const void* work, int room) {
  return unless(room >= kElements && is_readable(work, room * item_size(type), item_size(type)),
                "a workspace that is too small, not aligned or not in device memory");
}
void spoil(Type type, void* work, int room) { std::memset(work, 0xab, static_cast<size_t>(room * item_size(type))); }

std::string reflectors_error(const Matrix& a, int k) {
  return first_of({shape_error(a), unless(a.columns <= a.rows && k >= 0 && k <= a.columns,
                                          "more vectors than columns, or more columns than rows")});
}
cusolverStatus_t reflectors(const char* call, Type type, cusolverDnHandle_t handle, int m, int n, int k, void* data,
                            int ld, const void* tau, void* work, int room, int* info) {
  const Matrix a{type, data, m, n, ld, "A"}, factors{type, tau, std::max(k, 1), 1, std::max(k, 1), "tau"};
  const std::string why = first_of({reflectors_error(a, k), memory_error(a), memory_error(factors),
                                    work_error(type, work, room), list_error(info, 1, "info")});
  return queue(call, handle, why, a, 1, [=] {
    spoil(type, work, room);
    with_work(type, [&](void* memory, int size) {
      lapack(type, "orgqr", "ungqr", &m, &n, &k, a.at(0), &ld, tau, memory, &size, info);
    });
  });
}

std::string reflect_error(cublasSideMode_t side, cublasOperation_t op, const Matrix& a, const Matrix& c) {
  const int64_t length = side == CUBLAS_SIDE_LEFT ? c.rows : c.columns;
  const cublasOperation_t other = is_complex(a.type) ? CUBLAS_OP_C : CUBLAS_OP_T;
  return first_of({shape_error(a), shape_error(c), unless(a.rows == length && a.columns <= length, "too many vectors"),
                   unless(side == CUBLAS_SIDE_LEFT || side == CUBLAS_SIDE_RIGHT, "a side that there is not"),
                   unless(op == CUBLAS_OP_N || op == other, "an operation that the type does not have")});
}
cusolverStatus_t reflect(const char* call, Type type, cusolverDnHandle_t handle, cublasSideMode_t side,
                         cublasOperation_t op, int m, int n, int k, const void* data, int ld, const void* tau,
                         void* c_data, int c_ld, void* work, int room, int* info) {
  const Matrix a{type, data, side == CUBLAS_SIDE_LEFT ? m : n, k, ld, "A"}, c{type, c_data, m, n, c_ld, "C"},
      factors{type, tau, k, 1, k, "tau"};
  const std::string why = first_of({reflect_error(side, op, a, c), memory_error(a), memory_error(c),
                                    memory_error(factors), work_error(type, work, room), list_error(info, 1, "info")});
  return queue(call, handle, why, c, 1, [=] {
    spoil(type, work, room);
    const char where = side == CUBLAS_SIDE_LEFT ? 'L' : 'R', how = letter(op);
    with_work(type, [&](void* memory, int size) {
      lapack(type, "ormqr", "unmqr", &where, &how, &m, &n, &k, a.at(0), &ld, tau, c.at(0), &c_ld, memory, &size, info);
    });
  });
}

}  // namespace

#define REFLECTORS(name, type)                                                                                       \
  FACULA_EMULATED cusolverStatus_t cusolverDn##name##_bufferSize(cusolverDnHandle_t, int m, int n, int k,            \
                                                                 const void* a, int ld, const void*, int* room) {    \
    return answer(__func__, reflectors_error({type, a, m, n, ld, "A"}, k), room);                                    \
  }                                                                                                                  \
  FACULA_EMULATED cusolverStatus_t cusolverDn##name(cusolverDnHandle_t handle, int m, int n, int k, void* a, int ld, \
                                                    const void* tau, void* work, int room, int* info) {              \
    return reflectors(__func__, type, handle, m, n, k, a, ld, tau, work, room, info);                                \
  }
REFLECTORS(Sorgqr, CUDA_R_32F)
REFLECTORS(Dorgqr, CUDA_R_64F)
REFLECTORS(Cungqr, CUDA_C_32F)
REFLECTORS(Zungqr, CUDA_C_64F)

#define REFLECT(name, type)                                                                                        \
  FACULA_EMULATED cusolverStatus_t cusolverDn##name##_bufferSize(                                                  \
      cusolverDnHandle_t, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k, const void* a, int ld, \
      const void*, const void* c, int c_ld, int* room) {                                                           \
    const Matrix vectors{type, a, side == CUBLAS_SIDE_LEFT ? m : n, k, ld, "A"};                                   \
    return answer(__func__, reflect_error(side, op, vectors, {type, c, m, n, c_ld, "C"}), room);                   \
  }                                                                                                                \
  FACULA_EMULATED cusolverStatus_t cusolverDn##name(                                                               \
      cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k, const void* a,  \
      int ld, const void* tau, void* c, int c_ld, void* work, int room, int* info) {                               \
    return reflect(__func__, type, handle, side, op, m, n, k, a, ld, tau, c, c_ld, work, room, info);              \
  }
REFLECT(Sormqr, CUDA_R_32F)
REFLECT(Dormqr, CUDA_R_64F)
REFLECT(Cunmqr, CUDA_C_32F)
REFLECT(Zunmqr, CUDA_C_64F)

// ---- LDL

namespace {
cusolverStatus_t ldl(const char* call, Type type, cusolverDnHandle_t handle, cublasFillMode_t part, int n, void* data,
                     int ld, int* pivots, void* work, int room, int* info) {
  const Matrix a{type, data, n, n, ld, "A"};
  const std::string why = first_of({triangle_error(part), shape_error(a), memory_error(a), work_error(type, work, room),
                                    list_error(pivots, n, "the pivots"), list_error(info, 1, "info")});
  return queue(call, handle, why, a, 1, [=] {
    spoil(type, work, room);
    const char triangle = letter(part);
    with_work(type, [&](void* memory, int size) {
      lapack(type, "sytrf", "sytrf", &triangle, &n, a.at(0), &ld, pivots, memory, &size, info);
    });
  });
}
}  // namespace

#define LDL(letter, type)                                                                                             \
  FACULA_EMULATED cusolverStatus_t cusolverDn##letter##sytrf_bufferSize(cusolverDnHandle_t, int n, void* a, int ld,   \
                                                                        int* room) {                                  \
    return answer(__func__, shape_error({type, a, n, n, ld, "A"}), room);                                             \
  }                                                                                                                   \
  FACULA_EMULATED cusolverStatus_t cusolverDn##letter##sytrf(cusolverDnHandle_t handle, cublasFillMode_t part, int n, \
                                                             void* a, int ld, int* pivots, void* work, int room,      \
                                                             int* info) {                                             \
    return ldl(__func__, type, handle, part, n, a, ld, pivots, work, room, info);                                     \
  }
LDL(S, CUDA_R_32F)
LDL(D, CUDA_R_64F)
LDL(C, CUDA_C_32F)
LDL(Z, CUDA_C_64F)

namespace {
std::string ldl_solve_error(cublasFillMode_t part, const Matrix& a, const Matrix& b) {
  return first_of(
      {triangle_error(part), shape_error(a), shape_error(b), unless(a.type == b.type, "another type of B")});
}
}  // namespace

FACULA_EMULATED cusolverStatus_t cusolverDnXsytrs_bufferSize(cusolverDnHandle_t, cublasFillMode_t part, int64_t n,
                                                             int64_t columns, Type type, const void* a, int64_t ld,
                                                             const int64_t*, Type b_type, void* b, int64_t b_ld,
                                                             size_t* there, size_t* here) {
  return answer(__func__, ldl_solve_error(part, {type, a, n, n, ld, "A"}, {b_type, b, n, columns, b_ld, "B"}), there,
                here, false);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXsytrs(cusolverDnHandle_t handle, cublasFillMode_t part, int64_t n,
                                                  int64_t columns, Type type, const void* data, int64_t ld,
                                                  const int64_t* pivots, Type b_type, void* b_data, int64_t b_ld,
                                                  void* there, size_t there_bytes, void* here, size_t here_bytes,
                                                  int* info) {
  const Matrix a{type, data, n, n, ld, "A"}, b{b_type, b_data, n, columns, b_ld, "B"};
  const Room room{there, there_bytes, here, here_bytes};
  const std::string why =
      first_of({ldl_solve_error(part, a, b), memory_error(a), memory_error(b), list_error(pivots, n, "the pivots"),
                room_error(room, false), list_error(info, 1, "info")});
  return queue(__func__, handle, why, a, 1, [=] {
    spoil(room);
    const char triangle = letter(part);
    const int size = narrow(n), right = narrow(columns), a_ld = narrow(ld), x_ld = narrow(b_ld);
    const std::vector<int> exchanges(pivots, pivots + n);
    lapack(type, "sytrs", "sytrs", &triangle, &size, &right, a.at(0), &a_ld, exchanges.data(), b.at(0), &x_ld, info);
  });
}
