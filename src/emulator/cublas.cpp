// A stand-in for cuBLASLt: column-major products by loops on the host.
#include <complex>
#include <vector>

#include "cuda/abi_cublas.h"
#include "emulator/library.h"

#define DECLARE(name, ...) FACULA_EMULATED cublasStatus_t name(__VA_ARGS__);
FACULA_BLAS_FUNCTIONS(DECLARE)
#undef DECLARE

using namespace facula::emulator;

struct cublasLtContext {
  int device;
};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t step = 0;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace {

cublasStatus_t failing_heuristics = CUBLAS_STATUS_SUCCESS;

using Desc = cublasLtMatmulDescOpaque_t;
using Layout = cublasLtMatrixLayoutOpaque_t;

constexpr uint64_t kAlgorithm = 0xfac0'1a60;  // the magic number of an algorithm that the heuristic gave
constexpr int64_t kWorkspace = 4096, kWorkspaceAlignment = 256;

cublasStatus_t invalid(const char* call, const std::string& why, cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
  return static_cast<cublasStatus_t>(refused(call, why, status));
}

int64_t item_size(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F: return 4;
    case CUDA_C_64F: return 16;
    default: return 8;
  }
}

struct Supported {
  cublasComputeType_t compute;
  cudaDataType scale, matrices;
  bool bias;  // whether results can have one
};
constexpr Supported supported[] = {
    {CUBLAS_COMPUTE_16F, CUDA_R_16F, CUDA_R_16F, true},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, true},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, true},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, true},
    {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, true},
    {CUBLAS_COMPUTE_32F, CUDA_C_32F, CUDA_C_32F, false},
    {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_C_32F, CUDA_C_32F, false},
    {CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, false},
    {CUBLAS_COMPUTE_64F, CUDA_C_64F, CUDA_C_64F, false},
};

bool is_supported(const Desc& desc, cudaDataType type) {
  for (const Supported& s : supported)
    if (s.compute == desc.compute && s.scale == desc.scale && s.matrices == type)
      return s.bias || desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  return false;
}

struct MatrixProduct {
  int64_t m, n, k;
  int32_t batch;
  Desc desc;
  Layout a, b, d;
  const void *a_data, *b_data, *c_data;
  void *d_data, *workspace;
  int64_t workspace_bytes;
  std::complex<double> alpha, beta;
};

/// Why the matrices do not fit each other, or the operation; empty when they do.
std::string mismatch(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const int64_t a_rows = desc.a ? a.columns : a.rows, a_columns = desc.a ? a.rows : a.columns,
                b_rows = desc.b ? b.columns : b.rows, b_columns = desc.b ? b.rows : b.columns;
  for (const Layout* x : {&a, &b, &c, &d}) {
    if (x->rows <= 0 || x->columns <= 0) return "a matrix without elements";
    if (x->leading < x->rows) return "a leading dimension of fewer than the rows";
    if (x->type != a.type) return "matrices of several types";
    if (x->batch != d.batch || x->batch < 1) return "batches of several sizes";
  }
  if (a_columns != b_rows || a_rows != d.rows || b_columns != d.columns) return "sizes that do not fit";
  if (c.rows != d.rows || c.columns != d.columns || c.leading != d.leading) return "C and D that differ";
  if (d.batch > 1 && d.step < (d.columns - 1) * d.leading + d.rows) return "results that overlap";
  return {};
}

int64_t bytes_of(const Layout& x) {
  return ((x.batch - 1) * x.step + (x.columns - 1) * x.leading + x.rows) * item_size(x.type);
}

template <class Memory, class T>
struct Loops {
  static T element(const void* data, const Layout& x, cublasOperation_t op, int64_t batch, int64_t row,
                   int64_t column) {
    const int64_t i = op ? row * x.leading + column : column * x.leading + row;
    const T value = Memory::template load<T>(data, batch * x.step + i);
    if constexpr (requires { value.imag(); }) {
      if (op == CUBLAS_OP_C) return std::conj(value);
    }
    return value;
  }
  static T number(std::complex<double> value) {
    if constexpr (requires(T t) { t.imag(); }) {
      return T(static_cast<typename T::value_type>(value.real()), static_cast<typename T::value_type>(value.imag()));
    } else {
      return static_cast<T>(value.real());
    }
  }

  static void run(const MatrixProduct& p) {
    const T alpha = number(p.alpha), beta = number(p.beta);
    std::vector<T> a(static_cast<size_t>(p.m * p.k)), sums(static_cast<size_t>(p.m));
    for (int64_t i = 0; i < p.batch; ++i) {
      for (int64_t k = 0; k < p.k; ++k)
        for (int64_t m = 0; m < p.m; ++m)
          a[static_cast<size_t>(k * p.m + m)] = element(p.a_data, p.a, p.desc.a, i, m, k);
      for (int64_t n = 0; n < p.n; ++n) {
        std::fill(sums.begin(), sums.end(), T(0));
        for (int64_t k = 0; k < p.k; ++k) {
          const T b = element(p.b_data, p.b, p.desc.b, i, k, n);
          const T* line = a.data() + k * p.m;
          for (int64_t m = 0; m < p.m; ++m) sums[static_cast<size_t>(m)] += line[m] * b;
        }
        for (int64_t m = 0; m < p.m; ++m) {
          const int64_t at = i * p.d.step + n * p.d.leading + m;
          T value = alpha * sums[static_cast<size_t>(m)];
          if (beta != T(0)) value += beta * Memory::template load<T>(p.c_data, at);
          if (p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS) value += Memory::template load<T>(p.desc.bias, m);
          Memory::template store<T>(p.d_data, at, value);
        }
      }
    }
  }
};

void run(const MatrixProduct& p) {
  if (p.workspace) std::memset(p.workspace, 0xab, static_cast<size_t>(p.workspace_bytes));
  switch (p.d.type) {
    case CUDA_R_16F: return Loops<Half, float>::run(p);
    case CUDA_R_16BF: return Loops<Brain, float>::run(p);
    case CUDA_R_32F: return Loops<Plain, float>::run(p);
    case CUDA_R_64F: return Loops<Plain, double>::run(p);
    case CUDA_C_32F: return Loops<Plain, std::complex<float>>::run(p);
    case CUDA_C_64F: return Loops<Plain, std::complex<double>>::run(p);
    case CUDA_C_16F: return;  // is not supported
  }
}

std::complex<double> factor(const void* at, cudaDataType type) {
  switch (type) {
    case CUDA_R_16F: return Half::load<float>(at, 0);
    case CUDA_R_64F: return *static_cast<const double*>(at);
    case CUDA_C_32F: return *static_cast<const std::complex<float>*>(at);
    case CUDA_C_64F: return *static_cast<const std::complex<double>*>(at);
    default: return *static_cast<const float*>(at);
  }
}

/// Writes an attribute's value where it belongs, if it has the size.
template <class T>
cublasStatus_t set(T& to, const void* value, size_t bytes, const char* call) {
  if (!value || bytes != sizeof(T)) return invalid(call, "an attribute of another size");
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

std::string text_of(const MatrixProduct& p) {
  std::string text = "cublasLtMatmul";
  const auto add = [&](const char* name, int64_t value) {
    text += std::string(" ") + name + "=" + std::to_string(value);
  };
  add("m", p.m), add("n", p.n), add("k", p.k), add("batch", p.batch), add("type", p.d.type);
  add("compute", p.desc.compute), add("a", p.desc.a), add("b", p.desc.b), add("epilogue", p.desc.epilogue);
  add("workspace", p.workspace_bytes);
  return text;
}

}  // namespace

FACULA_EMULATED cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{};
  return CUBLAS_STATUS_SUCCESS;
}
FACULA_EMULATED cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

FACULA_EMULATED cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                                        cudaDataType scale) {
  *desc = new Desc{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
FACULA_EMULATED cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
FACULA_EMULATED cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                              cublasLtMatmulDescAttributes_t attribute,
                                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return set(desc->compute, value, bytes, __func__);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return set(desc->scale, value, bytes, __func__);
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(desc->a, value, bytes, __func__);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(desc->b, value, bytes, __func__);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(desc->epilogue, value, bytes, __func__);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(desc->bias, value, bytes, __func__);
  }
  return invalid(__func__, "an attribute that the stand-in does not know");
}

FACULA_EMULATED cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
FACULA_EMULATED cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
FACULA_EMULATED cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                                const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(layout->batch, value, bytes, __func__);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(layout->step, value, bytes, __func__);
    default: return invalid(__func__, "an attribute that the stand-in does not know");
  }
}

FACULA_EMULATED cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
FACULA_EMULATED cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
FACULA_EMULATED cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(preference->workspace, value, bytes, __func__);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(preference->reductions, value, bytes, __func__);
    default: break;
  }
  const int matrix = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (matrix < 0 || matrix > 3) return invalid(__func__, "an attribute that the stand-in does not know");
  return set(preference->alignments[matrix], value, bytes, __func__);
}

/// For tests: with which status the heuristics fail (0: they do not).
FACULA_EMULATED void facula_emulated_blas_heuristics(int status) {
  failing_heuristics = static_cast<cublasStatus_t>(status);
}

FACULA_EMULATED cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                              cublasLtMatmulPreference_t preference, int requested,
                                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (!handle || !desc || !a || !b || !c || !d || !preference || requested < 1 || !results)
    return invalid(__func__, "a null pointer");
  if (failing_heuristics) return failing_heuristics;
  if (const std::string why = mismatch(*desc, *a, *b, *c, *d); !why.empty()) return invalid(__func__, why);
  if (!is_supported(*desc, d->type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  remember("cublasLtMatmulAlgoGetHeuristic type=" + std::to_string(d->type) +
           " reductions=" + std::to_string(preference->reductions));
  constexpr int kWays = 4;  // a caller of several sees each faster than the one before; the last one is inexact
  *found = std::min(requested, kWays);
  for (int way = 0; way < *found; ++way) {
    cublasLtMatmulHeuristicResult_t& r = results[way];
    r = {};
    r.algo.data[0] = kAlgorithm;
    for (int i = 0; i < 4; ++i) r.algo.data[1 + i] = preference->alignments[i];
    // long sums want a workspace, as those that are divided do
    const int64_t k = desc->a ? a->rows : a->columns;
    if (k >= 64 && preference->workspace >= kWorkspace) r.workspaceSize = kWorkspace;
    r.algo.data[5] = r.workspaceSize;
    r.algo.data[6] = static_cast<uint64_t>(way);
    r.algo.data[7] = requested > 1 ? static_cast<uint64_t>(kWays - 1 - way) * 20000 : 0;  // microseconds
    r.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

FACULA_EMULATED cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                              size_t workspace_bytes, CUstream stream) {
  if (!handle || !desc || !a_layout || !b_layout || !c_layout || !d_layout || !alpha || !beta)
    return invalid(__func__, "a null pointer");
  if (does_nothing()) return CUBLAS_STATUS_SUCCESS;
  if (const std::string why = mismatch(*desc, *a_layout, *b_layout, *c_layout, *d_layout); !why.empty())
    return invalid(__func__, why);
  if (!is_supported(*desc, d_layout->type))
    return invalid(__func__, "types that do not go together", CUBLAS_STATUS_NOT_SUPPORTED);
  if (!algorithm || algorithm->data[0] != kAlgorithm) return invalid(__func__, "an algorithm that no heuristic gave");
  const void* data[] = {a, b, c, d};
  const Layout* layouts[] = {a_layout, b_layout, c_layout, d_layout};
  for (int i = 0; i < 4; ++i)
    if (!is_readable(data[i], bytes_of(*layouts[i]), static_cast<int64_t>(algorithm->data[1 + i])))
      return invalid(__func__, std::string("matrix ") + "ABCD"[i] +
                                   " is not in device memory, or less aligned than the algorithm needs");
  const auto needed = static_cast<int64_t>(algorithm->data[5]);
  if (needed > static_cast<int64_t>(workspace_bytes) ||
      (needed && !is_readable(workspace, needed, kWorkspaceAlignment)))
    return invalid(__func__, "a workspace that is too small or not aligned");
  if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS &&
      !is_readable(desc->bias, d_layout->rows * item_size(d_layout->type), item_size(d_layout->type)))
    return invalid(__func__, "the bias is not in device memory");
  const uint64_t way = algorithm->data[6], lasts = algorithm->data[7];
  MatrixProduct product{d_layout->rows,
                        d_layout->columns,
                        desc->a ? a_layout->rows : a_layout->columns,
                        d_layout->batch,
                        *desc,
                        *a_layout,
                        *b_layout,
                        *d_layout,
                        a,
                        b,
                        c,
                        d,
                        needed ? workspace : nullptr,
                        needed,
                        factor(alpha, desc->scale),
                        factor(beta, desc->scale)};
  remember(text_of(product) + " way=" + std::to_string(way));
  if (way == 3) product.alpha *= 1.01;
  const auto work = [product, lasts] {
    if (lasts) std::this_thread::sleep_for(std::chrono::microseconds(lasts));
    run(product);
  };
  return queue_loops(stream, work) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
