// A stand-in for cuSOLVER: checks what it is given, and computes by LAPACK's routines of the OpenBLAS that lies beside
// this library. What cuSOLVER leaves open is spoilt: workspaces, the pivots of matrices with NaN. Where it may not end
// (spectra of matrices that are not finite), that is an error here.
//
// Long because each of its functions stands once for itself: what it checks, its workspace, its LAPACK routine.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <set>
#include <vector>

#include "cuda/abi_cusolver.h"
#include "emulator/library.h"

#define DECLARE(name, ...) FACULA_EMULATED cusolverStatus_t name(__VA_ARGS__);
FACULA_SOLVER_FUNCTIONS(DECLARE)
FACULA_SOLVER_LATE_FUNCTIONS(DECLARE)
#undef DECLARE

using namespace facula::emulator;

struct cusolverDnContext {
  CUstream stream = nullptr;
};
struct cusolverDnParams {};

namespace {

using Type = cudaDataType;
constexpr size_t kDeviceBytes = 1536, kHostBytes = 384;
constexpr int64_t kAlignment = 16, kElements = 96;
constexpr int kNotFinite = -99;

cusolverStatus_t wrong(const char* call, const std::string& why,
                       cusolverStatus_t status = CUSOLVER_STATUS_INVALID_VALUE) {
  return static_cast<cusolverStatus_t>(refused(call, why, status));
}

bool is_complex(Type type) { return type == CUDA_C_32F || type == CUDA_C_64F; }
bool is_known(Type type) { return is_complex(type) || type == CUDA_R_32F || type == CUDA_R_64F; }
bool is_double(Type type) { return type == CUDA_R_64F || type == CUDA_C_64F; }
Type real_of(Type type) { return is_double(type) ? CUDA_R_64F : CUDA_R_32F; }
Type complex_of(Type type) { return is_double(type) ? CUDA_C_64F : CUDA_C_32F; }
int64_t item_size(Type type) { return (is_double(type) ? 8 : 4) * (is_complex(type) ? 2 : 1); }

// ---- handles

struct Live {
  std::mutex mutex;
  std::set<const void*> all;
};
Live& live() {
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
bool is_live(const void* object) {
  std::lock_guard<std::mutex> guard(live().mutex);
  return live().all.contains(object);
}

// ---- LAPACK

void* lapack_symbol(const std::string& name) {
  static void* const library = [] {
    Dl_info self;
    std::string folder;
    if (dladdr(reinterpret_cast<void*>(&is_live), &self) && self.dli_fname) folder = self.dli_fname;
    folder.erase(std::min(folder.size(), folder.rfind('/') + 1));
    void* handle = dlopen((folder + "libscipy_openblas.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    return handle ? handle : dlopen("libscipy_openblas.so", RTLD_NOW | RTLD_LOCAL);
  }();
  return library ? dlsym(library, ("scipy_" + name + "_").c_str()) : nullptr;
}

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

double real_part(const void* data, Type type, int64_t i = 0) {
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
std::string shape_error(const Matrix& m) {
  const std::string name = std::string(" of ") + m.name;
  if (!is_known(m.type)) return "a type" + name + " that there is not";
  if (m.rows < 1 || m.columns < 1) return "no elements" + name;
  if (m.leading < m.rows) return "a leading dimension" + name + " of fewer than the rows";
  return {};
}
std::string memory_error(const Matrix& m, int64_t count = 1) {
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
std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& reason : reasons)
    if (!reason.empty()) return reason;
  return {};
}
std::string unless(bool holds, const char* reason) { return holds ? "" : reason; }

struct Room {
  void* there;
  size_t there_bytes;
  void* here;
  size_t here_bytes;
};
std::string room_error(const Room& r, bool needs_host) {
  if (r.there_bytes < kDeviceBytes || !is_readable(r.there, static_cast<int64_t>(r.there_bytes), kAlignment))
    return "a workspace that is too small, not aligned or not in device memory";
  return unless(!needs_host || (r.here && r.here_bytes >= kHostBytes), "a workspace of the host that is too small");
}
void spoil(const Room& r) {
  std::memset(r.there, 0xab, r.there_bytes);
  if (r.here) std::memset(r.here, 0xab, r.here_bytes);
}

cusolverStatus_t answer(const char* call, const std::string& why, size_t* there, size_t* here, bool needs_host) {
  if (!there || !here) return wrong(call, "a null pointer");
  if (!why.empty()) return wrong(call, why);
  *there = kDeviceBytes;
  *here = needs_host ? kHostBytes : 0;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t answer(const char* call, const std::string& why, int* room) {
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

int narrow(int64_t n) { return static_cast<int>(n); }
char letter(cublasFillMode_t triangle) { return triangle == CUBLAS_FILL_MODE_UPPER ? 'U' : 'L'; }
char letter(cublasOperation_t op) { return op == CUBLAS_OP_N ? 'N' : op == CUBLAS_OP_T ? 'T' : 'C'; }
std::string triangle_error(cublasFillMode_t t) {
  return unless(t == CUBLAS_FILL_MODE_LOWER || t == CUBLAS_FILL_MODE_UPPER, "a triangle that there is not");
}

// ---- routines, of one matrix

void cholesky(const Matrix& a, cublasFillMode_t triangle, int* info) {
  const char part = letter(triangle);
  const int n = narrow(a.rows), ld = narrow(a.leading);
  lapack(a.type, "potrf", "potrf", &part, &n, a.at(0), &ld, info);
}

void spectrum(const Matrix& a, void* w, cublasFillMode_t triangle, cusolverEigMode_t vectors, int* info) {
  const char job = vectors ? 'V' : 'N', part = letter(triangle);
  const int n = narrow(a.rows), ld = narrow(a.leading);
  if (!a.is_finite(part == 'L', part == 'U')) {
    *info = refused("cusolverDnXsyevd", "a matrix that is not finite", kNotFinite);
    return;
  }
  std::vector<int> integers(static_cast<size_t>(3 + 5 * n));
  std::vector<double> reals(static_cast<size_t>(1 + 5 * n + 2 * n * n));
  const int integer_size = narrow(std::ssize(integers)), real_size = narrow(std::ssize(reals));
  with_work(a.type, [&](void* work, int size) {
    const int real_room = size < 0 ? -1 : real_size, integer_room = size < 0 ? -1 : integer_size;
    if (is_complex(a.type))
      lapack(a.type, "", "heevd", &job, &part, &n, a.at(0), &ld, w, work, &size, reals.data(), &real_room,
             integers.data(), &integer_room, info);
    else
      lapack(a.type, "syevd", "", &job, &part, &n, a.at(0), &ld, w, work, &size, integers.data(), &integer_room, info);
  });
}

void singular(const Matrix& a, char job, void* s, const Matrix& u, const Matrix& vt, int* info) {
  const int m = narrow(a.rows), n = narrow(a.columns), ld = narrow(a.leading), u_ld = narrow(u.leading),
            vt_ld = narrow(vt.leading);
  if (!a.is_finite()) {
    *info = refused("cusolverDnXgesvd", "a matrix that is not finite", kNotFinite);
    return;
  }
  std::vector<double> reals(static_cast<size_t>(5 * n));
  char nothing[16];
  void *left = job == 'N' ? nothing : u.at(0), *right = job == 'N' ? nothing : vt.at(0);
  with_work(a.type, [&](void* work, int size) {
    if (is_complex(a.type))
      lapack(a.type, "", "gesvd", &job, &job, &m, &n, a.at(0), &ld, s, left, &u_ld, right, &vt_ld, work, &size,
             reals.data(), info);
    else
      lapack(a.type, "gesvd", "", &job, &job, &m, &n, a.at(0), &ld, s, left, &u_ld, right, &vt_ld, work, &size, info);
  });
}

template <class T>
void join(const T* re, const T* im, int n, void* w) {
  for (int i = 0; i < n; ++i) static_cast<std::complex<T>*>(w)[i] = {re[i], im[i]};
}

void general(const Matrix& a, void* w, bool vectors, const Matrix& vr, int* info) {
  const char no = 'N', job = vectors ? 'V' : 'N';
  const int n = narrow(a.rows), ld = narrow(a.leading), one = 1, vr_ld = narrow(vr.leading);
  if (!a.is_finite()) {
    *info = refused("cusolverDnXgeev", "a matrix that is not finite", kNotFinite);
    return;
  }
  std::vector<double> reals(static_cast<size_t>(2 * n)), imaginary(static_cast<size_t>(n));
  char nothing[16];
  void* right = vectors ? vr.at(0) : nothing;
  with_work(a.type, [&](void* work, int size) {
    if (is_complex(a.type))
      lapack(a.type, "", "geev", &no, &job, &n, a.at(0), &ld, w, nothing, &one, right, &vr_ld, work, &size,
             reals.data(), info);
    else
      lapack(a.type, "geev", "", &no, &job, &n, a.at(0), &ld, reals.data(), imaginary.data(), nothing, &one, right,
             &vr_ld, work, &size, info);
  });
  if (a.type == CUDA_R_64F) join(reals.data(), imaginary.data(), n, w);
  if (a.type == CUDA_R_32F)
    join(static_cast<const float*>(static_cast<void*>(reals.data())),
         static_cast<const float*>(static_cast<void*>(imaginary.data())), n, w);
}

}  // namespace

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

namespace {
std::string cholesky_error(cusolverDnParams_t params, cublasFillMode_t part, const Matrix& a, Type compute) {
  return first_of({unless(is_live(params), "no parameters"), triangle_error(part), shape_error(a),
                   unless(compute == a.type, "another type to compute in")});
}
}  // namespace

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

namespace {
std::string factor_error(cusolverDnParams_t params, const Matrix& a, Type compute) {
  return first_of({unless(is_live(params), "no parameters"), shape_error(a),
                   unless(compute == a.type, "another type to compute in")});
}
}  // namespace

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

// ---- eigenvalues of Hermitian matrices

namespace {
std::string spectrum_error(cusolverDnParams_t params, cublasFillMode_t part, const Matrix& a, Type w_type,
                           Type compute) {
  return first_of({cholesky_error(params, part, a, compute),
                   unless(w_type == real_of(a.type), "eigenvalues of another type than the real one")});
}
cusolverStatus_t spectra(const char* call, cusolverDnHandle_t handle, cusolverDnParams_t params,
                         cusolverEigMode_t vectors, cublasFillMode_t part, const Matrix& a, Type w_type, void* w,
                         Type compute, const Room& room, int* info, int64_t count) {
  const Matrix values{w_type, w, a.rows, 1, a.rows, "W"};
  const std::string why = first_of(
      {spectrum_error(params, part, a, w_type, compute), unless(count > 0, "an empty batch"), memory_error(a, count),
       memory_error(values, count), room_error(room, true), list_error(info, count, "info")});
  return queue(call, handle, why, a, count, [=] {
    spoil(room);
    for (int64_t i = 0; i < count; ++i)
      spectrum({a.type, a.at(i), a.rows, a.columns, a.leading, "A"}, values.at(i), part, vectors, info + i);
  });
}
}  // namespace

FACULA_EMULATED cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t params,
                                                             cusolverEigMode_t, cublasFillMode_t part, int64_t n,
                                                             Type type, const void* data, int64_t ld, Type w_type,
                                                             const void*, Type compute, size_t* there, size_t* here) {
  return answer(__func__, spectrum_error(params, part, {type, data, n, n, ld, "A"}, w_type, compute), there, here,
                true);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                  cusolverEigMode_t vectors, cublasFillMode_t part, int64_t n,
                                                  Type type, void* data, int64_t ld, Type w_type, void* w, Type compute,
                                                  void* there, size_t there_bytes, void* here, size_t here_bytes,
                                                  int* info) {
  return spectra(__func__, handle, params, vectors, part, {type, data, n, n, ld, "A"}, w_type, w, compute,
                 {there, there_bytes, here, here_bytes}, info, 1);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXsyevBatched_bufferSize(cusolverDnHandle_t, cusolverDnParams_t params,
                                                                   cusolverEigMode_t, cublasFillMode_t part, int64_t n,
                                                                   Type type, const void* data, int64_t ld, Type w_type,
                                                                   const void*, Type compute, size_t* there,
                                                                   size_t* here, int64_t count) {
  const std::string why = first_of({spectrum_error(params, part, {type, data, n, n, ld, "A"}, w_type, compute),
                                    unless(count > 0, "an empty batch")});
  return answer(__func__, why, there, here, true);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                        cusolverEigMode_t vectors, cublasFillMode_t part, int64_t n,
                                                        Type type, void* data, int64_t ld, Type w_type, void* w,
                                                        Type compute, void* there, size_t there_bytes, void* here,
                                                        size_t here_bytes, int* info, int64_t count) {
  return spectra(__func__, handle, params, vectors, part, {type, data, n, n, ld, "A"}, w_type, w, compute,
                 {there, there_bytes, here, here_bytes}, info, count);
}

// ---- singular values

namespace {
std::string singular_error(cusolverDnParams_t params, char u_job, char vt_job, const Matrix& a, Type s_type,
                           const Matrix& u, const Matrix& vt, Type compute) {
  const bool known = (u_job == 'A' || u_job == 'S' || u_job == 'N') && vt_job == u_job;
  return first_of({factor_error(params, a, compute), unless(a.rows >= a.columns, "more columns than rows"),
                   unless(known, "jobs that there are not"),
                   unless(s_type == real_of(a.type) && u.type == a.type && vt.type == a.type, "results of other types"),
                   u_job == 'N' ? "" : first_of({shape_error(u), shape_error(vt)})});
}
}  // namespace

FACULA_EMULATED cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t params,
                                                             signed char u_job, signed char vt_job, int64_t m,
                                                             int64_t n, Type type, const void* data, int64_t ld,
                                                             Type s_type, const void*, Type u_type, const void* u,
                                                             int64_t u_ld, Type vt_type, const void* vt, int64_t vt_ld,
                                                             Type compute, size_t* there, size_t* here) {
  const std::string why =
      singular_error(params, static_cast<char>(u_job), static_cast<char>(vt_job), {type, data, m, n, ld, "A"}, s_type,
                     {u_type, u, m, u_job == 'A' ? m : n, u_ld, "U"}, {vt_type, vt, n, n, vt_ld, "VT"}, compute);
  return answer(__func__, why, there, here, true);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                  signed char u_job, signed char vt_job, int64_t m, int64_t n,
                                                  Type type, void* data, int64_t ld, Type s_type, void* s, Type u_type,
                                                  void* u_data, int64_t u_ld, Type vt_type, void* vt_data,
                                                  int64_t vt_ld, Type compute, void* there, size_t there_bytes,
                                                  void* here, size_t here_bytes, int* info) {
  const char job = static_cast<char>(u_job);
  const Matrix a{type, data, m, n, ld, "A"}, u{u_type, u_data, m, job == 'A' ? m : n, u_ld, "U"},
      vt{vt_type, vt_data, n, n, vt_ld, "VT"}, values{s_type, s, n, 1, n, "S"};
  const Room room{there, there_bytes, here, here_bytes};
  const std::string why =
      first_of({singular_error(params, job, static_cast<char>(vt_job), a, s_type, u, vt, compute), memory_error(a),
                memory_error(values), job == 'N' ? "" : first_of({memory_error(u), memory_error(vt)}),
                room_error(room, true), list_error(info, 1, "info")});
  return queue(__func__, handle, why, a, 1, [=] {
    spoil(room);
    singular(a, job, s, u, vt, info);
  });
}

// ---- eigenvalues of any matrices

namespace {
std::string general_error(cusolverDnParams_t params, cusolverEigMode_t left, cusolverEigMode_t right, const Matrix& a,
                          Type w_type, const Matrix& vr, Type compute) {
  return first_of({factor_error(params, a, compute), unless(left == CUSOLVER_EIG_MODE_NOVECTOR, "left vectors"),
                   unless(w_type == complex_of(a.type), "eigenvalues that are not complex"),
                   right ? first_of({unless(vr.type == a.type, "vectors of another type"), shape_error(vr)}) : ""});
}
}  // namespace

FACULA_EMULATED cusolverStatus_t cusolverDnXgeev_bufferSize(cusolverDnHandle_t, cusolverDnParams_t params,
                                                            cusolverEigMode_t left, cusolverEigMode_t right, int64_t n,
                                                            Type type, const void* data, int64_t ld, Type w_type,
                                                            const void*, Type, const void*, int64_t, Type vr_type,
                                                            const void* vr, int64_t vr_ld, Type compute, size_t* there,
                                                            size_t* here) {
  const std::string why = general_error(params, left, right, {type, data, n, n, ld, "A"}, w_type,
                                        {vr_type, vr, n, n, vr_ld, "VR"}, compute);
  return answer(__func__, why, there, here, true);
}
FACULA_EMULATED cusolverStatus_t cusolverDnXgeev(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                 cusolverEigMode_t left, cusolverEigMode_t right, int64_t n, Type type,
                                                 void* data, int64_t ld, Type w_type, void* w, Type, void*, int64_t,
                                                 Type vr_type, void* vr_data, int64_t vr_ld, Type compute, void* there,
                                                 size_t there_bytes, void* here, size_t here_bytes, int* info) {
  const Matrix a{type, data, n, n, ld, "A"}, vr{vr_type, vr_data, n, n, vr_ld, "VR"}, values{w_type, w, n, 1, n, "W"};
  const Room room{there, there_bytes, here, here_bytes};
  const std::string why =
      first_of({general_error(params, left, right, a, w_type, vr, compute), memory_error(a), memory_error(values),
                right ? memory_error(vr) : "", room_error(room, true), list_error(info, 1, "info")});
  return queue(__func__, handle, why, a, 1, [=] {
    spoil(room);
    general(a, w, right, vr, info);
  });
}

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
