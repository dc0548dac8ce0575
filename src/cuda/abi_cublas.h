// Declares the part of cuBLASLt that Facula calls, from NVIDIA's documentation (.ci/check_abi.py compares it with
// NVIDIA's headers).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/abi.h"
#include "cuda/abi_types.h"

using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque_t*;

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasComputeType_t : int {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };

enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,
  CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
};
enum cublasLtEpilogue_t : int { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 };
enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_TYPE = 0,
  CUBLASLT_MATRIX_LAYOUT_ROWS = 2,
  CUBLASLT_MATRIX_LAYOUT_COLS = 3,
  CUBLASLT_MATRIX_LAYOUT_LD = 4,
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
};
enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};
enum cublasLtReductionScheme_t : int {
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
  CUBLASLT_REDUCTION_SCHEME_MASK = 7,
};

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

// X(name, parameters...): a function of libcublasLt that gives a cublasStatus_t
#define FACULA_BLAS_FUNCTIONS(X)                                                                                      \
  X(cublasLtCreate, cublasLtHandle_t* handle)                                                                         \
  X(cublasLtDestroy, cublasLtHandle_t handle)                                                                         \
  X(cublasLtMatmulDescCreate, cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType scale)            \
  X(cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t desc)                                                             \
  X(cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,              \
    const void* value, size_t bytes)                                                                                  \
  X(cublasLtMatrixLayoutCreate, cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t columns,   \
    int64_t leading)                                                                                                  \
  X(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t layout)                                                       \
  X(cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,       \
    const void* value, size_t bytes)                                                                                  \
  X(cublasLtMatmulPreferenceCreate, cublasLtMatmulPreference_t* preference)                                           \
  X(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t preference)                                           \
  X(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t preference,                                      \
    cublasLtMatmulPreferenceAttributes_t attribute, const void* value, size_t bytes)                                  \
  X(cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,     \
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                                     \
    cublasLtMatmulPreference_t preference, int requested, cublasLtMatmulHeuristicResult_t* results, int* found)       \
  X(cublasLtMatmul, cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,             \
    cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta, const void* c, \
    cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, \
    void* workspace, size_t workspace_bytes, CUstream stream)
