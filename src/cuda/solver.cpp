#include "cuda/solver.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "core/kernel.h"
#include "cuda/abi_cusolver.h"
#include "cuda/device.h"
#include "cuda/flags.h"
#include "cuda/host_allocator.h"
#include "cuda/library.h"
#include "cuda/library_handles.h"
#include "cuda/linalg.h"
#include "cuda/stream.h"

namespace facula::cuda::solver {
namespace {

bool is_there();

// ---- what the library does, and what our own kernels do

/// How the library takes a batch: matrix after matrix, or all of them in one call (or so much better than our own
/// kernels that it does not matter).
enum class Taken : uint8_t { Each, Together };

/// One matrix is the library's. Our own kernels take all matrices of a batch with a launch: the small ones are theirs,
/// a block for each, and so are many of a middling size where the library would take one after the other. A program
/// that prefers the library (facula.backends.cuda.preferred_linalg_library) gets it for everything.
bool is_for_library(const Tensor& a, Taken taken) {
  constexpr int64_t kSmall = 64, kLarge = 512, kFew = 8;
  const int64_t count = a.size(0), side = std::max(a.size(1), a.size(2));
  if (a.numel() == 0 || !is_there()) return false;
  if (count == 1 || flags()[Flag::PreferSolver]) return true;
  return side > kSmall && (taken == Taken::Together || side >= kLarge || count <= kFew);
}

// ---- the library

struct Functions {
#define X(name, ...) cusolverStatus_t (*name)(__VA_ARGS__) = nullptr;
  FACULA_SOLVER_FUNCTIONS(X)
  FACULA_SOLVER_LATE_FUNCTIONS(X)
#undef X
};

Loaded<Functions> load() {
  Loaded<Functions> l, late;
  const OpenedLibrary& library = opened(Library::Solver);
#define X(name, ...) FACULA_FIND(l, library, name)
  FACULA_SOLVER_FUNCTIONS(X)
#undef X
#define X(name, ...)                \
  FACULA_FIND(late, library, name); \
  l.table.name = late.table.name;
  FACULA_SOLVER_LATE_FUNCTIONS(X)
#undef X
  return l;
}
const Loaded<Functions>& loaded() {
  static const Loaded<Functions> l = load();
  return l;
}
const Functions& functions() { return loaded().table; }
bool is_there() { return loaded().error.empty(); }

void check(cusolverStatus_t status, const char* call) {
  FACULA_CHECK(status == CUSOLVER_STATUS_SUCCESS, ErrorKind::Runtime, current_op(), ": CUDA error: ", call,
               " gives cuSOLVER's status ", static_cast<int>(status));
}
#define FACULA_SOLVER_CALL(name, ...) check(functions().name(__VA_ARGS__), #name)

// ---- handles

struct Handle {
  cusolverDnHandle_t handle = nullptr;
  cusolverDnParams_t params = nullptr;
};
struct Cusolver {
  using Handle = solver::Handle;
  static Handle make() {
    Handle made;
    FACULA_SOLVER_CALL(cusolverDnCreate, &made.handle);
    FACULA_SOLVER_CALL(cusolverDnCreateParams, &made.params);
    return made;
  }
  static void set_stream(Handle& h, CUstream stream) { FACULA_SOLVER_CALL(cusolverDnSetStream, h.handle, stream); }
};
/// This thread's handle of the device, with the current stream.
Handle handle_for(const Tensor& t) { return LibraryHandles<Cusolver>::of(current_stream(device_of(t))); }

// ---- arguments

cudaDataType type_of(const Tensor& t) {
  switch (t.dtype()) {
    case DType::Float32: return CUDA_R_32F;
    case DType::Float64: return CUDA_R_64F;
    case DType::Complex64: return CUDA_C_32F;
    default: return CUDA_C_64F;
  }
}

/// Which of the functions for float, double and the complex numbers of both.
size_t letter_of(const Tensor& t) {
  constexpr cudaDataType letters[] = {CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, CUDA_C_64F};
  return static_cast<size_t>(std::find(std::begin(letters), std::end(letters), type_of(t)) - std::begin(letters));
}
/// `base` is potrfBatched or the like; the names of real and of complex functions may differ.
#define FACULA_SOLVER_TYPED(t, real, complex)                                                                \
  std::array{functions().cusolverDnS##real, functions().cusolverDnD##real, functions().cusolverDnC##complex, \
             functions().cusolverDnZ##complex}[letter_of(t)]

/// Matrix i.
char* at(const Tensor& t, int64_t i) { return t.data<char>() + i * t.stride(0) * t.item_size(); }
int64_t leading(const Tensor& t) { return std::max(t.stride(2), std::max<int64_t>(t.size(1), 1)); }
bool is_by_column(const Tensor& t) { return t.size(1) <= 1 || t.stride(1) == 1; }
cublasFillMode_t triangle(bool upper) { return upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER; }
cublasOperation_t op_of(char op) { return op == 'N' ? CUBLAS_OP_N : op == 'T' ? CUBLAS_OP_T : CUBLAS_OP_C; }

/// Functions of before the 64-bit interface count in int.
bool fits_int(std::initializer_list<int64_t> sizes) { return std::max(sizes) <= std::numeric_limits<int>::max(); }

Tensor room(const Tensor& like, int64_t count, DType dtype) { return facula::empty({count}, dtype, like.device()); }

/// What a call may use: memory of the device, which goes back to the stream's pool at once (what comes later there is
/// queued behind the call), and of the host, pinned, which is not given out again before the stream has got there.
class Room {
 public:
  Room(const Tensor& like, size_t device_bytes, size_t host_bytes)
      : stream_(current_stream(device_of(like))), there_(cuda::solver::room(like, most(device_bytes), DType::UInt8)) {
    if (host_bytes) here_ = allocate_pinned(host_bytes);
  }
  ~Room() {
    if (!here_) return;
    use_pinned(here_, stream_);
    release_pinned(here_);
  }
  Room(const Room&) = delete;
  void* there() const { return there_.data(); }
  void* here() const { return here_; }

 private:
  static int64_t most(size_t bytes) { return static_cast<int64_t>(std::max<size_t>(bytes, 1)); }

  Stream stream_;
  Tensor there_;
  void* here_ = nullptr;
};

struct Bytes {
  size_t there = 0, here = 0;
};

// ---- matrices that are not finite

/// They become zero, for the library does not promise to end with them; `flag` is put in the place of its info.
class SetAside {
 public:
  enum Part : int { All, Lower, Upper };
  SetAside(const Tensor& a, Part part, int flag) : flags_(room(a, a.size(0), DType::Int32)) {
    static const DeviceKernel kernel{"linalg_library.cuh", "set_aside"};
    kernel(device_of(a), {a.dtype(), static_cast<int>(part)}, grid_by_matrix(a, a.size(1) * a.size(2)), matrices(a),
           static_cast<long long>(a.size(0)), static_cast<long long>(a.size(1)), static_cast<long long>(a.size(2)),
           flag, flags_.data<int>());
  }
  void report(const Tensor& info) const {
    static const DeviceKernel kernel{"linalg_library.cuh", "put_flags"};
    kernel(device_of(info), {}, grid_for(device_of(info), info.numel()), static_cast<const int*>(flags_.data<int>()),
           info.data<int>(), static_cast<long long>(info.numel()));
  }

 private:
  Tensor flags_;
};

// ---- Cholesky

void cholesky_together(const Handle& h, const Tensor& a, const Tensor& info, cublasFillMode_t part) {
  static const DeviceKernel addresses{"linalg_library.cuh", "addresses_of"};
  const int64_t count = a.size(0);
  const Tensor all = room(a, count, DType::Int64);
  addresses(device_of(a), {}, grid_for(device_of(a), count), a.data<char>(),
            static_cast<long long>(a.stride(0) * a.item_size()), static_cast<long long>(count),
            static_cast<void**>(static_cast<void*>(all.data())));
  check(FACULA_SOLVER_TYPED(a, potrfBatched, potrfBatched)(h.handle, part, static_cast<int>(a.size(1)), all.data(),
                                                           static_cast<int>(leading(a)), info.data<int>(),
                                                           static_cast<int>(count)),
        "cusolverDn<t>potrfBatched");
}

}  // namespace

bool cholesky(const Tensor& a, const Tensor& info, bool upper) {
  const int64_t count = a.size(0), n = a.size(1), ld = leading(a);
  if (!is_for_library(a, Taken::Together)) return false;
  const Handle& h = handle_for(a);
  const cudaDataType type = type_of(a);
  if (count > 1 && fits_int({count, n, ld})) {
    cholesky_together(h, a, info, triangle(upper));
    return true;
  }
  Bytes bytes;
  FACULA_SOLVER_CALL(cusolverDnXpotrf_bufferSize, h.handle, h.params, triangle(upper), n, type, a.data(), ld, type,
                     &bytes.there, &bytes.here);
  for (int64_t i = 0; i < count; ++i) {
    const Room r(a, bytes.there, bytes.here);
    FACULA_SOLVER_CALL(cusolverDnXpotrf, h.handle, h.params, triangle(upper), n, type, at(a, i), ld, type, r.there(),
                       bytes.there, r.here(), bytes.here, info.data<int>() + i);
  }
  return true;
}

bool cholesky_solve(const Tensor& factor, const Tensor& b, bool upper) {
  if (b.numel() == 0 || !is_for_library(factor, Taken::Each)) return false;
  const Handle& h = handle_for(b);
  const cudaDataType type = type_of(b);
  const Tensor info = room(b, 1, DType::Int32);
  for (int64_t i = 0; i < b.size(0); ++i)
    FACULA_SOLVER_CALL(cusolverDnXpotrs, h.handle, h.params, triangle(upper), b.size(1), b.size(2), type, at(factor, i),
                       leading(factor), type, at(b, i), leading(b), info.data<int>());
  return true;
}

// ---- LU

bool lu(const Tensor& a, const Tensor& pivots, const Tensor& info) {
  static const DeviceKernel narrow{"linalg_library.cuh", "narrow_pivots"};
  if (!is_for_library(a, Taken::Each)) return false;
  const int64_t count = a.size(0), m = a.size(1), n = a.size(2), ld = leading(a), k = std::min(m, n);
  const Handle& h = handle_for(a);
  const cudaDataType type = type_of(a);
  const Tensor wide = room(a, count * k, DType::Int64);
  Bytes bytes;
  FACULA_SOLVER_CALL(cusolverDnXgetrf_bufferSize, h.handle, h.params, m, n, type, a.data(), ld, type, &bytes.there,
                     &bytes.here);
  for (int64_t i = 0; i < count; ++i) {
    const Room r(a, bytes.there, bytes.here);
    FACULA_SOLVER_CALL(cusolverDnXgetrf, h.handle, h.params, m, n, type, at(a, i), ld, wide.data<int64_t>() + i * k,
                       type, r.there(), bytes.there, r.here(), bytes.here, info.data<int>() + i);
  }
  narrow(device_of(a), {}, grid_for(device_of(a), count * k),
         static_cast<const long long*>(static_cast<const void*>(wide.data())), pivots.data<int>(),
         static_cast<long long>(count), static_cast<long long>(k), static_cast<long long>(m));
  return true;
}

bool lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, char op) {
  if (b.numel() == 0 || !is_by_column(b) || !is_for_library(lu, Taken::Each)) return false;
  const Handle& h = handle_for(b);
  const cudaDataType type = type_of(b);
  const int64_t n = lu.size(1);
  const Tensor wide = room(b, lu.size(0) * n, DType::Int64), info = room(b, 1, DType::Int32);
  copy_elements(wide, make_view(pivots, {lu.size(0) * n}, {1}, 0, false));
  for (int64_t i = 0; i < lu.size(0); ++i)
    FACULA_SOLVER_CALL(cusolverDnXgetrs, h.handle, h.params, op_of(op), n, b.size(2), type, at(lu, i), leading(lu),
                       wide.data<int64_t>() + i * n, type, at(b, i), leading(b), info.data<int>());
  return true;
}

// ---- QR

bool qr(const Tensor& a, const Tensor& tau) {
  if (!is_for_library(a, Taken::Each)) return false;
  const int64_t m = a.size(1), n = a.size(2), ld = leading(a), k = std::min(m, n);
  const Handle& h = handle_for(a);
  const cudaDataType type = type_of(a);
  const Tensor info = room(a, 1, DType::Int32);
  Bytes bytes;
  FACULA_SOLVER_CALL(cusolverDnXgeqrf_bufferSize, h.handle, h.params, m, n, type, a.data(), ld, type, tau.data(), type,
                     &bytes.there, &bytes.here);
  for (int64_t i = 0; i < a.size(0); ++i) {
    const Room r(a, bytes.there, bytes.here);
    FACULA_SOLVER_CALL(cusolverDnXgeqrf, h.handle, h.params, m, n, type, at(a, i), ld, type,
                       tau.data<char>() + i * k * tau.item_size(), type, r.there(), bytes.there, r.here(), bytes.here,
                       info.data<int>());
  }
  return true;
}

bool reflectors(const Tensor& a, const Tensor& tau) {
  const int64_t m = a.size(1), n = a.size(2), ld = leading(a), k = tau.size(-1);
  if (!is_for_library(a, Taken::Each) || !fits_int({m, n, ld})) return false;
  const Handle& h = handle_for(a);
  const Tensor info = room(a, 1, DType::Int32);
  const int rows = static_cast<int>(m), columns = static_cast<int>(n), step = static_cast<int>(ld),
            vectors = static_cast<int>(k);
  int size = 0;
  check(FACULA_SOLVER_TYPED(a, orgqr_bufferSize, ungqr_bufferSize)(h.handle, rows, columns, vectors, a.data(), step,
                                                                   tau.data(), &size),
        "cusolverDn<t>orgqr_bufferSize");
  const Room r(a, static_cast<size_t>(size) * static_cast<size_t>(a.item_size()), 0);
  for (int64_t i = 0; i < a.size(0); ++i)
    check(FACULA_SOLVER_TYPED(a, orgqr, ungqr)(h.handle, rows, columns, vectors, at(a, i), step,
                                               tau.data<char>() + i * k * tau.item_size(), r.there(), size,
                                               info.data<int>()),
          "cusolverDn<t>orgqr");
  return true;
}

bool reflect(const Tensor& a, const Tensor& tau, const Tensor& c, bool left, bool adjoint) {
  const int64_t k = tau.size(-1);
  if (c.numel() == 0 || k == 0 || !is_by_column(c) || !is_by_column(a) || !is_for_library(a, Taken::Each) ||
      !fits_int({c.size(1), c.size(2), leading(a), leading(c)}))
    return false;
  const Handle& h = handle_for(c);
  const Tensor info = room(c, 1, DType::Int32);
  const cublasSideMode_t side = left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
  const cublasOperation_t op = !adjoint ? CUBLAS_OP_N : c.is_complex() ? CUBLAS_OP_C : CUBLAS_OP_T;
  const int rows = static_cast<int>(c.size(1)), columns = static_cast<int>(c.size(2)), vectors = static_cast<int>(k),
            a_step = static_cast<int>(leading(a)), c_step = static_cast<int>(leading(c));
  int size = 0;
  check(FACULA_SOLVER_TYPED(c, ormqr_bufferSize, unmqr_bufferSize)(h.handle, side, op, rows, columns, vectors, a.data(),
                                                                   a_step, tau.data(), c.data(), c_step, &size),
        "cusolverDn<t>ormqr_bufferSize");
  const Room r(c, static_cast<size_t>(size) * static_cast<size_t>(c.item_size()), 0);
  for (int64_t i = 0; i < c.size(0); ++i)
    check(FACULA_SOLVER_TYPED(c, ormqr, unmqr)(h.handle, side, op, rows, columns, vectors, at(a, i), a_step,
                                               tau.data<char>() + i * k * tau.item_size(), at(c, i), c_step, r.there(),
                                               size, info.data<int>()),
          "cusolverDn<t>ormqr");
  return true;
}

// ---- eigenvalues and singular values

namespace {

void eigh_together(const Handle& h, const Tensor& a, const Tensor& w, const Tensor& info, cublasFillMode_t part,
                   cusolverEigMode_t mode) {
  const int64_t n = a.size(1);
  Bytes bytes;
  FACULA_SOLVER_CALL(cusolverDnXsyevBatched_bufferSize, h.handle, h.params, mode, part, n, type_of(a), a.data(), n,
                     type_of(w), w.data(), type_of(a), &bytes.there, &bytes.here, a.size(0));
  const Room r(a, bytes.there, bytes.here);
  FACULA_SOLVER_CALL(cusolverDnXsyevBatched, h.handle, h.params, mode, part, n, type_of(a), a.data(), n, type_of(w),
                     w.data(), type_of(a), r.there(), bytes.there, r.here(), bytes.here, info.data<int>(), a.size(0));
}

void eigh_each(const Handle& h, const Tensor& a, const Tensor& w, const Tensor& info, cublasFillMode_t part,
               cusolverEigMode_t mode) {
  const int64_t n = a.size(1);
  Bytes bytes;
  FACULA_SOLVER_CALL(cusolverDnXsyevd_bufferSize, h.handle, h.params, mode, part, n, type_of(a), a.data(), n,
                     type_of(w), w.data(), type_of(a), &bytes.there, &bytes.here);
  for (int64_t i = 0; i < a.size(0); ++i) {
    const Room r(a, bytes.there, bytes.here);
    FACULA_SOLVER_CALL(cusolverDnXsyevd, h.handle, h.params, mode, part, n, type_of(a), at(a, i), n, type_of(w),
                       w.data<char>() + i * n * w.item_size(), type_of(a), r.there(), bytes.there, r.here(), bytes.here,
                       info.data<int>() + i);
  }
}

}  // namespace

bool eigh(const Tensor& a, const Tensor& w, const Tensor& info, bool upper, bool vectors) {
  if (!is_for_library(a, Taken::Together)) return false;
  const int64_t n = a.size(1);
  const SetAside aside(a, upper ? SetAside::Upper : SetAside::Lower, static_cast<int>(n > 1 ? n - 1 : 1));
  const Handle& h = handle_for(a);
  const bool together = a.size(0) > 1 && functions().cusolverDnXsyevBatched;
  (together ? eigh_together : eigh_each)(h, a, w, info, triangle(upper),
                                         vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR);
  aside.report(info);
  return true;
}

namespace {

/// Of tall or square matrices. u and vt, column after column, where they are defined; vt is the adjoint of V.
void tall_svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vt, const Tensor& info) {
  const int64_t m = a.size(1), n = a.size(2);
  const Handle& h = handle_for(a);
  const cudaDataType type = type_of(a);
  const auto job = static_cast<signed char>(!u.defined() ? 'N' : u.size(2) == m ? 'A' : 'S');
  const auto memory = [](const Tensor& t, int64_t i) { return t.defined() ? at(t, i) : nullptr; };
  Bytes bytes;
  FACULA_SOLVER_CALL(cusolverDnXgesvd_bufferSize, h.handle, h.params, job, job, m, n, type, a.data(), leading(a),
                     type_of(s), s.data(), type, memory(u, 0), m, type, memory(vt, 0), n, type, &bytes.there,
                     &bytes.here);
  for (int64_t i = 0; i < a.size(0); ++i) {
    const Room r(a, bytes.there, bytes.here);
    FACULA_SOLVER_CALL(cusolverDnXgesvd, h.handle, h.params, job, job, m, n, type, at(a, i), leading(a), type_of(s),
                       s.data<char>() + i * n * s.item_size(), type, memory(u, i), m, type, memory(vt, i), n, type,
                       r.there(), bytes.there, r.here(), bytes.here, info.data<int>() + i);
  }
}

}  // namespace

bool svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info) {
  if (!is_for_library(a, Taken::Together)) return false;
  const SetAside aside(a, SetAside::All, -4);  // as LAPACK says it
  if (a.size(1) >= a.size(2)) {
    tall_svd(a, u, s, vh, info);
  } else {  // A^H = V S U^H
    const Tensor turned = copy_of(flipped(a), true);
    Tensor left, right;
    if (u.defined()) left = new_matrices(a, a.size(2), vh.size(1)), right = new_matrices(a, a.size(1), a.size(1));
    tall_svd(turned, left, s, right, info);
    if (u.defined()) {
      copy_matrices(u, flipped(right), true);
      copy_matrices(vh, flipped(left), true);
    }
  }
  aside.report(info);
  return true;
}

bool eig(const Tensor& a, const Tensor& w, const Tensor& v, const Tensor& info) {
  static const DeviceKernel unpack{"linalg_library.cuh", "unpack_vectors"};
  if (a.numel() == 0 || !is_there() || !functions().cusolverDnXgeev) return false;
  const int64_t count = a.size(0), n = a.size(1);
  const Handle& h = handle_for(a);
  const cudaDataType type = type_of(a);
  const auto mode = v.defined() ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const Tensor vectors = v.defined() && !a.is_complex() ? new_matrices(a, n, n) : v;
  const auto memory = [&](int64_t i) { return v.defined() ? at(vectors, i) : nullptr; };
  Bytes bytes;
  FACULA_SOLVER_CALL(cusolverDnXgeev_bufferSize, h.handle, h.params, CUSOLVER_EIG_MODE_NOVECTOR, mode, n, type,
                     a.data(), n, type_of(w), w.data(), type, nullptr, n, type, memory(0), n, type, &bytes.there,
                     &bytes.here);
  for (int64_t i = 0; i < count; ++i) {
    const Room r(a, bytes.there, bytes.here);
    FACULA_SOLVER_CALL(cusolverDnXgeev, h.handle, h.params, CUSOLVER_EIG_MODE_NOVECTOR, mode, n, type, at(a, i), n,
                       type_of(w), w.data<char>() + i * n * w.item_size(), type, nullptr, n, type, memory(i), n, type,
                       r.there(), bytes.there, r.here(), bytes.here, info.data<int>() + i);
  }
  if (v.defined() && !a.is_complex())
    unpack(device_of(a), {a.dtype()}, grid_for(device_of(a), vectors.numel()), static_cast<const void*>(vectors.data()),
           static_cast<const void*>(w.data()), static_cast<void*>(v.data()), static_cast<long long>(count),
           static_cast<long long>(n));
  return true;
}

// ---- LDL

namespace {
/// The library has symmetric matrices only.
bool has_ldl(const Tensor& a, bool hermitian) {
  return a.numel() != 0 && is_there() && !(hermitian && a.is_complex()) && fits_int({leading(a)});
}
}  // namespace

bool ldl(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian) {
  if (!has_ldl(a, hermitian)) return false;
  const Handle& h = handle_for(a);
  const int n = static_cast<int>(a.size(1)), ld = static_cast<int>(leading(a));
  int size = 0;
  check(FACULA_SOLVER_TYPED(a, sytrf_bufferSize, sytrf_bufferSize)(h.handle, n, a.data(), ld, &size),
        "cusolverDn<t>sytrf_bufferSize");
  const Room r(a, static_cast<size_t>(size) * static_cast<size_t>(a.item_size()), 0);
  for (int64_t i = 0; i < a.size(0); ++i)
    check(FACULA_SOLVER_TYPED(a, sytrf, sytrf)(h.handle, CUBLAS_FILL_MODE_LOWER, n, at(a, i), ld,
                                               pivots.data<int>() + i * n, r.there(), size, info.data<int>() + i),
          "cusolverDn<t>sytrf");
  return true;
}

bool ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
  if (b.numel() == 0 || !has_ldl(ld, hermitian)) return false;
  const Handle& h = handle_for(b);
  const cudaDataType type = type_of(b);
  const int64_t n = ld.size(1);
  const Tensor wide = room(b, ld.size(0) * n, DType::Int64), info = room(b, 1, DType::Int32);
  copy_elements(wide, make_view(pivots, {ld.size(0) * n}, {1}, 0, false));
  Bytes bytes;
  FACULA_SOLVER_CALL(cusolverDnXsytrs_bufferSize, h.handle, CUBLAS_FILL_MODE_LOWER, n, b.size(2), type, ld.data(),
                     leading(ld), wide.data<int64_t>(), type, b.data(), leading(b), &bytes.there, &bytes.here);
  for (int64_t i = 0; i < b.size(0); ++i) {
    const Room r(b, bytes.there, bytes.here);
    FACULA_SOLVER_CALL(cusolverDnXsytrs, h.handle, CUBLAS_FILL_MODE_LOWER, n, b.size(2), type, at(ld, i), leading(ld),
                       wide.data<int64_t>() + i * n, type, at(b, i), leading(b), r.there(), bytes.there, r.here(),
                       bytes.here, info.data<int>());
  }
  return true;
}

}  // namespace facula::cuda::solver
