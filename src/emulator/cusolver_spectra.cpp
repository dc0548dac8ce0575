// Eigenvalues and singular values of cuSOLVER's stand-in.
#include "emulator/cusolver.h"

using namespace facula::emulator;
using namespace facula::emulator::solver;

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
