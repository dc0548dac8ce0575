// Declares the part of cuFFT that Facula calls, from NVIDIA's documentation (.ci/check_abi.py compares it with NVIDIA's
// headers).
#pragma once

#include <cstddef>

#include "cuda/abi.h"
#include "cuda/abi_types.h"

using cufftHandle = int;

enum cufftResult : int {
  CUFFT_SUCCESS = 0,
  CUFFT_INVALID_PLAN = 1,
  CUFFT_INVALID_TYPE = 3,
  CUFFT_INVALID_VALUE = 4,
  CUFFT_EXEC_FAILED = 6,
  CUFFT_INVALID_SIZE = 8,
  CUFFT_NO_WORKSPACE = 13,
  CUFFT_NOT_SUPPORTED = 16,
};
enum cufftDirection : int { CUFFT_FORWARD = -1, CUFFT_INVERSE = 1 };

#define FACULA_FFT_FUNCTIONS(X)                                                                                      \
  X(cufftCreate, cufftHandle* plan)                                                                                  \
  X(cufftDestroy, cufftHandle plan)                                                                                  \
  X(cufftSetAutoAllocation, cufftHandle plan, int allocate)                                                          \
  X(cufftSetWorkArea, cufftHandle plan, void* memory)                                                                \
  X(cufftSetStream, cufftHandle plan, CUstream stream)                                                               \
  X(cufftXtMakePlanMany, cufftHandle plan, int rank, long long* sizes, long long* in_sizes, long long in_stride,     \
    long long in_distance, cudaDataType in_type, long long* out_sizes, long long out_stride, long long out_distance, \
    cudaDataType out_type, long long batch, size_t* work_bytes, cudaDataType compute_type)                           \
  X(cufftXtExec, cufftHandle plan, void* in, void* out, int direction)
