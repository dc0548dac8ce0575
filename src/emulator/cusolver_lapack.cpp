// LAPACK for cuSOLVER's stand-in.
#include <dlfcn.h>

#include <algorithm>
#include <complex>

#include "emulator/cusolver.h"

namespace facula::emulator::solver {

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

namespace {

template <class T>
void join(const T* re, const T* im, int n, void* w) {
  for (int i = 0; i < n; ++i) static_cast<std::complex<T>*>(w)[i] = {re[i], im[i]};
}

}  // namespace

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

}  // namespace facula::emulator::solver
