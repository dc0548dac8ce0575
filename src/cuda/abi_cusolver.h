// Declares the part of cuSOLVER (of dense matrices) that Facula calls, from NVIDIA's documentation (.ci/check_abi.py
// compares it with NVIDIA's headers).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/abi.h"
#include "cuda/abi_cublas.h"
#include "cuda/abi_types.h"

using cusolverDnHandle_t = struct cusolverDnContext*;
using cusolverDnParams_t = struct cusolverDnParams*;

enum cusolverStatus_t : int {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_EXECUTION_FAILED = 6,
  CUSOLVER_STATUS_NOT_SUPPORTED = 9,
};
enum cusolverEigMode_t : int { CUSOLVER_EIG_MODE_NOVECTOR = 0, CUSOLVER_EIG_MODE_VECTOR = 1 };
enum cublasFillMode_t : int { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum cublasSideMode_t : int { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };

#define FACULA_SOLVER_FUNCTIONS(X)                                                                                     \
  X(cusolverDnCreate, cusolverDnHandle_t* handle)                                                                      \
  X(cusolverDnDestroy, cusolverDnHandle_t handle)                                                                      \
  X(cusolverDnSetStream, cusolverDnHandle_t handle, CUstream stream)                                                   \
  X(cusolverDnCreateParams, cusolverDnParams_t* params)                                                                \
  X(cusolverDnDestroyParams, cusolverDnParams_t params)                                                                \
  X(cusolverDnXpotrf_bufferSize, cusolverDnHandle_t handle, cusolverDnParams_t params, cublasFillMode_t triangle,      \
    int64_t n, cudaDataType a_type, const void* a, int64_t a_leading, cudaDataType compute, size_t* device_bytes,      \
    size_t* host_bytes)                                                                                                \
  X(cusolverDnXpotrf, cusolverDnHandle_t handle, cusolverDnParams_t params, cublasFillMode_t triangle, int64_t n,      \
    cudaDataType a_type, void* a, int64_t a_leading, cudaDataType compute, void* device_room, size_t device_bytes,     \
    void* host_room, size_t host_bytes, int* info)                                                                     \
  X(cusolverDnXpotrs, cusolverDnHandle_t handle, cusolverDnParams_t params, cublasFillMode_t triangle, int64_t n,      \
    int64_t columns, cudaDataType a_type, const void* a, int64_t a_leading, cudaDataType b_type, void* b,              \
    int64_t b_leading, int* info)                                                                                      \
  X(cusolverDnXgetrf_bufferSize, cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m, int64_t n,           \
    cudaDataType a_type, const void* a, int64_t a_leading, cudaDataType compute, size_t* device_bytes,                 \
    size_t* host_bytes)                                                                                                \
  X(cusolverDnXgetrf, cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m, int64_t n, cudaDataType a_type, \
    void* a, int64_t a_leading, int64_t* pivots, cudaDataType compute, void* device_room, size_t device_bytes,         \
    void* host_room, size_t host_bytes, int* info)                                                                     \
  X(cusolverDnXgetrs, cusolverDnHandle_t handle, cusolverDnParams_t params, cublasOperation_t op, int64_t n,           \
    int64_t columns, cudaDataType a_type, const void* a, int64_t a_leading, const int64_t* pivots,                     \
    cudaDataType b_type, void* b, int64_t b_leading, int* info)                                                        \
  X(cusolverDnXgeqrf_bufferSize, cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m, int64_t n,           \
    cudaDataType a_type, const void* a, int64_t a_leading, cudaDataType tau_type, const void* tau,                     \
    cudaDataType compute, size_t* device_bytes, size_t* host_bytes)                                                    \
  X(cusolverDnXgeqrf, cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m, int64_t n, cudaDataType a_type, \
    void* a, int64_t a_leading, cudaDataType tau_type, void* tau, cudaDataType compute, void* device_room,             \
    size_t device_bytes, void* host_room, size_t host_bytes, int* info)                                                \
  X(cusolverDnXsyevd_bufferSize, cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t vectors,      \
    cublasFillMode_t triangle, int64_t n, cudaDataType a_type, const void* a, int64_t a_leading, cudaDataType w_type,  \
    const void* w, cudaDataType compute, size_t* device_bytes, size_t* host_bytes)                                     \
  X(cusolverDnXsyevd, cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t vectors,                 \
    cublasFillMode_t triangle, int64_t n, cudaDataType a_type, void* a, int64_t a_leading, cudaDataType w_type,        \
    void* w, cudaDataType compute, void* device_room, size_t device_bytes, void* host_room, size_t host_bytes,         \
    int* info)                                                                                                         \
  X(cusolverDnXgesvd_bufferSize, cusolverDnHandle_t handle, cusolverDnParams_t params, signed char u_job,              \
    signed char vt_job, int64_t m, int64_t n, cudaDataType a_type, const void* a, int64_t a_leading,                   \
    cudaDataType s_type, const void* s, cudaDataType u_type, const void* u, int64_t u_leading, cudaDataType vt_type,   \
    const void* vt, int64_t vt_leading, cudaDataType compute, size_t* device_bytes, size_t* host_bytes)                \
  X(cusolverDnXgesvd, cusolverDnHandle_t handle, cusolverDnParams_t params, signed char u_job, signed char vt_job,     \
    int64_t m, int64_t n, cudaDataType a_type, void* a, int64_t a_leading, cudaDataType s_type, void* s,               \
    cudaDataType u_type, void* u, int64_t u_leading, cudaDataType vt_type, void* vt, int64_t vt_leading,               \
    cudaDataType compute, void* device_room, size_t device_bytes, void* host_room, size_t host_bytes, int* info)       \
  X(cusolverDnXsytrs_bufferSize, cusolverDnHandle_t handle, cublasFillMode_t triangle, int64_t n, int64_t columns,     \
    cudaDataType a_type, const void* a, int64_t a_leading, const int64_t* pivots, cudaDataType b_type, void* b,        \
    int64_t b_leading, size_t* device_bytes, size_t* host_bytes)                                                       \
  X(cusolverDnXsytrs, cusolverDnHandle_t handle, cublasFillMode_t triangle, int64_t n, int64_t columns,                \
    cudaDataType a_type, const void* a, int64_t a_leading, const int64_t* pivots, cudaDataType b_type, void* b,        \
    int64_t b_leading, void* device_room, size_t device_bytes, void* host_room, size_t host_bytes, int* info)          \
  X(cusolverDnSpotrfBatched, cusolverDnHandle_t handle, cublasFillMode_t triangle, int n, void* matrices,              \
    int a_leading, int* info, int count)                                                                               \
  X(cusolverDnDpotrfBatched, cusolverDnHandle_t handle, cublasFillMode_t triangle, int n, void* matrices,              \
    int a_leading, int* info, int count)                                                                               \
  X(cusolverDnCpotrfBatched, cusolverDnHandle_t handle, cublasFillMode_t triangle, int n, void* matrices,              \
    int a_leading, int* info, int count)                                                                               \
  X(cusolverDnZpotrfBatched, cusolverDnHandle_t handle, cublasFillMode_t triangle, int n, void* matrices,              \
    int a_leading, int* info, int count)                                                                               \
  X(cusolverDnSorgqr_bufferSize, cusolverDnHandle_t handle, int m, int n, int k, const void* a, int a_leading,         \
    const void* tau, int* room)                                                                                        \
  X(cusolverDnSorgqr, cusolverDnHandle_t handle, int m, int n, int k, void* a, int a_leading, const void* tau,         \
    void* work, int room, int* info)                                                                                   \
  X(cusolverDnDorgqr_bufferSize, cusolverDnHandle_t handle, int m, int n, int k, const void* a, int a_leading,         \
    const void* tau, int* room)                                                                                        \
  X(cusolverDnDorgqr, cusolverDnHandle_t handle, int m, int n, int k, void* a, int a_leading, const void* tau,         \
    void* work, int room, int* info)                                                                                   \
  X(cusolverDnCungqr_bufferSize, cusolverDnHandle_t handle, int m, int n, int k, const void* a, int a_leading,         \
    const void* tau, int* room)                                                                                        \
  X(cusolverDnCungqr, cusolverDnHandle_t handle, int m, int n, int k, void* a, int a_leading, const void* tau,         \
    void* work, int room, int* info)                                                                                   \
  X(cusolverDnZungqr_bufferSize, cusolverDnHandle_t handle, int m, int n, int k, const void* a, int a_leading,         \
    const void* tau, int* room)                                                                                        \
  X(cusolverDnZungqr, cusolverDnHandle_t handle, int m, int n, int k, void* a, int a_leading, const void* tau,         \
    void* work, int room, int* info)                                                                                   \
  X(cusolverDnSormqr_bufferSize, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, \
    int k, const void* a, int a_leading, const void* tau, const void* c, int c_leading, int* room)                     \
  X(cusolverDnSormqr, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k,     \
    const void* a, int a_leading, const void* tau, void* c, int c_leading, void* work, int room, int* info)            \
  X(cusolverDnDormqr_bufferSize, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, \
    int k, const void* a, int a_leading, const void* tau, const void* c, int c_leading, int* room)                     \
  X(cusolverDnDormqr, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k,     \
    const void* a, int a_leading, const void* tau, void* c, int c_leading, void* work, int room, int* info)            \
  X(cusolverDnCunmqr_bufferSize, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, \
    int k, const void* a, int a_leading, const void* tau, const void* c, int c_leading, int* room)                     \
  X(cusolverDnCunmqr, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k,     \
    const void* a, int a_leading, const void* tau, void* c, int c_leading, void* work, int room, int* info)            \
  X(cusolverDnZunmqr_bufferSize, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, \
    int k, const void* a, int a_leading, const void* tau, const void* c, int c_leading, int* room)                     \
  X(cusolverDnZunmqr, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k,     \
    const void* a, int a_leading, const void* tau, void* c, int c_leading, void* work, int room, int* info)            \
  X(cusolverDnSsytrf_bufferSize, cusolverDnHandle_t handle, int n, void* a, int a_leading, int* room)                  \
  X(cusolverDnSsytrf, cusolverDnHandle_t handle, cublasFillMode_t triangle, int n, void* a, int a_leading,             \
    int* pivots, void* work, int room, int* info)                                                                      \
  X(cusolverDnDsytrf_bufferSize, cusolverDnHandle_t handle, int n, void* a, int a_leading, int* room)                  \
  X(cusolverDnDsytrf, cusolverDnHandle_t handle, cublasFillMode_t triangle, int n, void* a, int a_leading,             \
    int* pivots, void* work, int room, int* info)                                                                      \
  X(cusolverDnCsytrf_bufferSize, cusolverDnHandle_t handle, int n, void* a, int a_leading, int* room)                  \
  X(cusolverDnCsytrf, cusolverDnHandle_t handle, cublasFillMode_t triangle, int n, void* a, int a_leading,             \
    int* pivots, void* work, int room, int* info)                                                                      \
  X(cusolverDnZsytrf_bufferSize, cusolverDnHandle_t handle, int n, void* a, int a_leading, int* room)                  \
  X(cusolverDnZsytrf, cusolverDnHandle_t handle, cublasFillMode_t triangle, int n, void* a, int a_leading,             \
    int* pivots, void* work, int room, int* info)

// Those that CUDA 12.8 brought.
#define FACULA_SOLVER_LATE_FUNCTIONS(X)                                                                                \
  X(cusolverDnXsyevBatched_bufferSize, cusolverDnHandle_t handle, cusolverDnParams_t params,                           \
    cusolverEigMode_t vectors, cublasFillMode_t triangle, int64_t n, cudaDataType a_type, const void* a,               \
    int64_t a_leading, cudaDataType w_type, const void* w, cudaDataType compute, size_t* device_bytes,                 \
    size_t* host_bytes, int64_t count)                                                                                 \
  X(cusolverDnXsyevBatched, cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t vectors,           \
    cublasFillMode_t triangle, int64_t n, cudaDataType a_type, void* a, int64_t a_leading, cudaDataType w_type,        \
    void* w, cudaDataType compute, void* device_room, size_t device_bytes, void* host_room, size_t host_bytes,         \
    int* info, int64_t count)                                                                                          \
  X(cusolverDnXgeev_bufferSize, cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t left,          \
    cusolverEigMode_t right, int64_t n, cudaDataType a_type, const void* a, int64_t a_leading, cudaDataType w_type,    \
    const void* w, cudaDataType vl_type, const void* vl, int64_t vl_leading, cudaDataType vr_type, const void* vr,     \
    int64_t vr_leading, cudaDataType compute, size_t* device_bytes, size_t* host_bytes)                                \
  X(cusolverDnXgeev, cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t left,                     \
    cusolverEigMode_t right, int64_t n, cudaDataType a_type, void* a, int64_t a_leading, cudaDataType w_type, void* w, \
    cudaDataType vl_type, void* vl, int64_t vl_leading, cudaDataType vr_type, void* vr, int64_t vr_leading,            \
    cudaDataType compute, void* device_room, size_t device_bytes, void* host_room, size_t host_bytes, int* info)
