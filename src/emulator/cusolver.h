// Declares what the parts of cuSOLVER's stand-in share: handles, checks of arguments, and LAPACK.
//
// A stand-in checks its arguments, and computes by LAPACK's routines of the OpenBLAS that lies beside this library. It
// overwrites what cuSOLVER leaves open: workspaces, and the pivots of matrices with NaN. Calls for which cuSOLVER may
// not end (spectra of matrices that are not finite) are an error here.
#pragma once

#include <cmath>
#include <mutex>
#include <set>
#include <vector>

#include "cuda/abi_cusolver.h"
#include "emulator/library.h"

#define DECLARE(name, ...) FACULA_EMULATED cusolverStatus_t name(__VA_ARGS__);
FACULA_SOLVER_FUNCTIONS(DECLARE)
FACULA_SOLVER_LATE_FUNCTIONS(DECLARE)
#undef DECLARE

struct cusolverDnContext {
  CUstream stream = nullptr;
};
struct cusolverDnParams {};

namespace facula::emulator::solver {

using Type = cudaDataType;
constexpr size_t kDeviceBytes = 1536, kHostBytes = 384;
constexpr int64_t kAlignment = 16, kElements = 96;
constexpr int kNotFinite = -99;

inline cusolverStatus_t wrong(const char* call, const std::string& why,
                              cusolverStatus_t status = CUSOLVER_STATUS_INVALID_VALUE) {
  return static_cast<cusolverStatus_t>(refused(call, why, status));
}

inline bool is_complex(Type type) { return type == CUDA_C_32F || type == CUDA_C_64F; }
inline bool is_known(Type type) { return is_complex(type) || type == CUDA_R_32F || type == CUDA_R_64F; }
inline bool is_double(Type type) { return type == CUDA_R_64F || type == CUDA_C_64F; }
inline Type real_of(Type type) { return is_double(type) ? CUDA_R_64F : CUDA_R_32F; }
inline Type complex_of(Type type) { return is_double(type) ? CUDA_C_64F : CUDA_C_32F; }
inline int64_t item_size(Type type) { return (is_double(type) ? 8 : 4) * (is_complex(type) ? 2 : 1); }

// ---- handles

struct Live {
  std::mutex mutex;
  std::set<const void*> all;
};
inline Live& live() {
  static Live& l = *new Live;
  return l;
}
template <class T>
cusolverStatus_t make(T** out) {
  if (!out) return wrong("cusolverDnCreate", "a null pointer");
  *out = new T;
  std::lock_guard<std::mutex> guard(live().mutex);
  live().all.insert(*out);
  return CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cusolverStatus_t destroy(T* object) {
  std::lock_guard<std::mutex> guard(live().mutex);
  if (!live().all.erase(object)) return wrong("cusolverDnDestroy", "what there is not");
  delete object;
  return CUSOLVER_STATUS_SUCCESS;
}
inline bool is_live(const void* object) {
  std::lock_guard<std::mutex> guard(live().mutex);
  return live().all.contains(object);
}

// ---- LAPACK

void* lapack_symbol(const std::string& name);

/// The routine of a type; the names of real and of complex ones may differ. LAPACK takes addresses only.
template <class... A>
void lapack(Type type, const char* real, const char* complex, A*... arguments) {
  const std::string letter(1, is_complex(type) ? (is_double(type) ? 'z' : 'c') : (is_double(type) ? 'd' : 's'));
  auto* routine = reinterpret_cast<void (*)(A*...)>(lapack_symbol(letter + (is_complex(type) ? complex : real)));
  if (!routine) {
    refused(real, "there is no LAPACK", 0);
    std::abort();
  }
  routine(arguments...);
}

inline double real_part(const void* data, Type type, int64_t i = 0) {
  const int64_t at = is_complex(type) ? 2 * i : i;
  return is_double(type) ? static_cast<const double*>(data)[at]
                         : static_cast<double>(static_cast<const float*>(data)[at]);
}

/// Memory of a routine. `run(memory, size)` runs it, with a size of -1 to learn the one it wants.
template <class Run>
void with_work(Type type, Run run) {
  char answer[16]{};
  run(static_cast<void*>(answer), -1);
  const int size = std::max(1, static_cast<int>(real_part(answer, type)));
  std::vector<char> work(static_cast<size_t>(size * item_size(type)));
  run(static_cast<void*>(work.data()), size);
}

// ---- arguments

struct Matrix {
  Type type;
  const void* data;
  int64_t rows, columns, leading;
  const char* name;

  int64_t bytes() const { return ((columns - 1) * leading + rows) * item_size(type); }
  char* at(int64_t i) const {  // of a batch without gaps
    return static_cast<char*>(const_cast<void*>(data)) + i * leading * columns * item_size(type);
  }
  bool is_finite(bool lower = true, bool upper = true) const {
    const int64_t parts = is_complex(type) ? 2 : 1;
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t p = 0; p < parts && (r == c || (r > c ? lower : upper)); ++p)
          if (!std::isfinite(real_part(data, real_of(type), (c * leading + r) * parts + p))) return false;
    return true;
  }
};

/// Sizes and types; empty where they are right.
inline std::string shape_error(const Matrix& m) {
  const std::string name = std::string(" of ") + m.name;
  if (!is_known(m.type)) return "a type" + name + " that there is not";
  if (m.rows < 1 || m.columns < 1) return "no elements" + name;
  if (m.leading < m.rows) return "a leading dimension" + name + " of fewer than the rows";
  return {};
}
inline std::string memory_error(const Matrix& m, int64_t count = 1) {
  const int64_t bytes = (count - 1) * m.leading * m.columns * item_size(m.type) + m.bytes();
  return is_readable(m.data, bytes, item_size(m.type))
             ? ""
             : std::string("memory of ") + m.name + " that is no device's, or not aligned";
}
template <class T>
std::string list_error(const T* data, int64_t count, const char* name) {
  return is_readable(data, count * static_cast<int64_t>(sizeof(T)), sizeof(T))
             ? ""
             : std::string("memory of ") + name + " that is no device's, or not aligned";
}

/// The first of several reasons.
inline std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& reason : reasons)
    if (!reason.empty()) return reason;
  return {};
}
inline std::string unless(bool holds, const char* reason) { return holds ? "" : reason; }

struct Room {
  void* there;
  size_t there_bytes;
  void* here;
  size_t here_bytes;
};
inline std::string room_error(const Room& r, bool needs_host) {
  if (r.there_bytes < kDeviceBytes || !is_readable(r.there, static_cast<int64_t>(r.there_bytes), kAlignment))
    return "a workspace that is too small, not aligned or not in device memory";
  return unless(!needs_host || (r.here && r.here_bytes >= kHostBytes), "a workspace of the host that is too small");
}
inline void spoil(const Room& r) {
  std::memset(r.there, 0xab, r.there_bytes);
  if (r.here) std::memset(r.here, 0xab, r.here_bytes);
}

inline cusolverStatus_t answer(const char* call, const std::string& why, size_t* there, size_t* here, bool needs_host) {
  if (!there || !here) return wrong(call, "a null pointer");
  if (!why.empty()) return wrong(call, why);
  *there = kDeviceBytes;
  *here = needs_host ? kHostBytes : 0;
  return CUSOLVER_STATUS_SUCCESS;
}
inline cusolverStatus_t answer(const char* call, const std::string& why, int* room) {
  if (!room) return wrong(call, "a null pointer");
  if (!why.empty()) return wrong(call, why);
  *room = kElements;
  return CUSOLVER_STATUS_SUCCESS;
}

/// Queues the loops where nothing is wrong.
template <class Loops>
cusolverStatus_t queue(const char* call, cusolverDnHandle_t handle, const std::string& why, const Matrix& a,
                       int64_t count, Loops loops) {
  if (does_nothing()) return CUSOLVER_STATUS_SUCCESS;
  if (!is_live(handle)) return wrong(call, "a handle that there is not");
  if (!why.empty()) return wrong(call, why);
  const auto word = [](const char* name, int64_t value) { return std::string(name) + std::to_string(value); };
  remember(std::string(call) + word(" rows=", a.rows) + word(" columns=", a.columns) + word(" type=", a.type) +
           word(" count=", count) +
           word(" stream=", static_cast<int64_t>(reinterpret_cast<uintptr_t>(handle->stream))));
  return queue_loops(handle->stream, loops) == CUDA_SUCCESS ? CUSOLVER_STATUS_SUCCESS
                                                            : CUSOLVER_STATUS_EXECUTION_FAILED;
}

inline int narrow(int64_t n) { return static_cast<int>(n); }
inline char letter(cublasFillMode_t triangle) { return triangle == CUBLAS_FILL_MODE_UPPER ? 'U' : 'L'; }
inline char letter(cublasOperation_t op) { return op == CUBLAS_OP_N ? 'N' : op == CUBLAS_OP_T ? 'T' : 'C'; }
inline std::string triangle_error(cublasFillMode_t t) {
  return unless(t == CUBLAS_FILL_MODE_LOWER || t == CUBLAS_FILL_MODE_UPPER, "a triangle that there is not");
}

inline std::string cholesky_error(cusolverDnParams_t params, cublasFillMode_t part, const Matrix& a, Type compute) {
  return first_of({unless(is_live(params), "no parameters"), triangle_error(part), shape_error(a),
                   unless(compute == a.type, "another type to compute in")});
}
inline std::string factor_error(cusolverDnParams_t params, const Matrix& a, Type compute) {
  return first_of({unless(is_live(params), "no parameters"), shape_error(a),
                   unless(compute == a.type, "another type to compute in")});
}

// ---- routines, of one matrix (cusolver_lapack.cpp)

void cholesky(const Matrix& a, cublasFillMode_t triangle, int* info);
/// Eigenvalues, and with `vectors` the vectors in place of the matrix.
void spectrum(const Matrix& a, void* w, cublasFillMode_t triangle, cusolverEigMode_t vectors, int* info);
void singular(const Matrix& a, char job, void* s, const Matrix& u, const Matrix& vt, int* info);
void general(const Matrix& a, void* w, bool vectors, const Matrix& vr, int* info);

}  // namespace facula::emulator::solver
