// Products by cublasLtMatmul. cuBLAS thinks in columns: a row-major matrix is to it the transpose of one whose leading
// dimension is the row stride. So it is given out^T = b^T a^T, and no matrix is moved. What the library chose for a
// form of products is cached.
#include "cuda/blas.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/host.h"
#include "core/number.h"
#include "cuda/abi_cublas.h"
#include "cuda/device.h"
#include "cuda/flags.h"
#include "cuda/graph.h"
#include "cuda/kernel.h"
#include "cuda/plan_cache.h"
#include "cuda/stream.h"
#include "cuda/tuning.h"

namespace facula::cuda {
namespace {

struct Blas {
#define X(name, ...) cublasStatus_t (*name)(__VA_ARGS__) = nullptr;
  FACULA_BLAS_FUNCTIONS(X)
#undef X
};

Loaded<Blas> load() {
  Loaded<Blas> l;
  const OpenedLibrary& library = opened(Library::Blas);
#define X(name, ...) FACULA_FIND(l, library, name)
  FACULA_BLAS_FUNCTIONS(X)
#undef X
  return l;
}
const Loaded<Blas>& loaded() {
  static const Loaded<Blas> l = load();
  return l;
}
const Blas& blas() { return loaded().table; }

void check(cublasStatus_t status, const char* call) {
  FACULA_CHECK(status == CUBLAS_STATUS_SUCCESS, ErrorKind::Runtime, current_op(), ": CUDA error: ", call,
               " gives cuBLAS's status ", static_cast<int>(status));
}
#define FACULA_BLAS_CALL(name, ...) check(blas().name(__VA_ARGS__), #name)

/// The library's handle of a device; made once.
cublasLtHandle_t handle_of(int device) {
  static std::array<std::atomic<cublasLtHandle_t>, detail::kMostDevices> handles{};
  auto& handle = handles[static_cast<size_t>(device)];
  if (cublasLtHandle_t made = handle.load(std::memory_order_acquire)) return made;
  static std::mutex& mutex = *new std::mutex;
  std::lock_guard<std::mutex> lock(mutex);
  cublasLtHandle_t fresh = handle;
  if (!fresh) FACULA_BLAS_CALL(cublasLtCreate, &fresh);
  handle.store(fresh, std::memory_order_release);
  return fresh;
}

struct Types {
  cudaDataType matrices;
  cublasComputeType_t compute;
  cudaDataType scale;
};
bool has_types(DType dtype) {
  return (is_floating(dtype) && !is_float8(dtype)) || dtype == DType::Complex64 || dtype == DType::Complex128;
}
Types types_of(DType dtype) {
  const cublasComputeType_t single = flags()[Flag::MatmulTf32] ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  switch (dtype) {
    case DType::Float16:
      if (flags()[Flag::HalfAccumulation]) return {CUDA_R_16F, CUBLAS_COMPUTE_16F, CUDA_R_16F};
      return {CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::BFloat16: return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::Float32: return {CUDA_R_32F, single, CUDA_R_32F};
    case DType::Float64: return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    case DType::Complex64: return {CUDA_C_32F, single, CUDA_C_32F};
    default: return {CUDA_C_64F, CUBLAS_COMPUTE_64F, CUDA_C_64F};
  }
}

/// In which types the parts of a divided sum may be stored.
uint32_t reductions_of(DType dtype) {
  const bool narrow = (dtype == DType::Float16 && !flags()[Flag::HalfReduction]) ||
                      (dtype == DType::BFloat16 && !flags()[Flag::BrainReduction]);
  return narrow ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
}

/// One matrix of a product in columns: as it lies in memory, and whether the product reads it transposed.
struct Side {
  int64_t rows, columns, leading, step, transposed, alignment;
};

/// What a choice of the library depends on; compared byte by byte, so nothing lies between the members.
struct ProductKey {
  int64_t device, batch, bias, reductions, matrices, compute, scale;
  int64_t tuning;  // the version of what is known of the fastest ways; -1: the library chooses
  Side left, right, out;
};
static_assert(sizeof(ProductKey) == 26 * sizeof(int64_t));

int64_t alignment_of(const void* p) {
  constexpr int kMost = 8;  // 256 bytes
  return int64_t{1} << std::min(std::countr_zero(reinterpret_cast<uintptr_t>(p) | (uintptr_t{1} << kMost)), kMost);
}

/// The transpose of the row-major matrix `o`, for a product whose left or right side is that transpose.
Side side_of(const MatrixOperand& o, int64_t rows, int64_t columns) {
  const bool by_rows = rows_contiguous(rows, columns, o.row, o.column);
  Side s{};
  s.rows = by_rows ? columns : rows;
  s.columns = by_rows ? rows : columns;
  s.leading = s.columns == 1 ? s.rows : by_rows ? o.row : o.column;
  s.step = o.batch;
  s.transposed = !by_rows;
  s.alignment = alignment_of(o.data);
  return s;
}

bool fits(const ProductKey& p) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const Side* s : {&p.left, &p.right, &p.out})
    if (std::max({s->rows, s->columns, s->leading}) > kMost) return false;
  return p.batch <= kMost;
}

ProductKey key_of(const MatrixProduct& p, const Types& types) {
  ProductKey key{};
  key.device = active_index();
  key.batch = p.batch;
  key.bias = p.bias != nullptr;
  key.reductions = reductions_of(p.dtype);
  key.matrices = types.matrices;
  key.compute = types.compute;
  key.scale = types.scale;
  key.tuning = tuning().enabled ? tuning().version.load() : -1;
  key.left = side_of(p.b, p.inner, p.columns);
  key.right = side_of(p.a, p.rows, p.inner);
  key.out = {p.columns, p.rows, p.rows == 1 ? p.columns : p.out_row, p.out_batch, 0, alignment_of(p.out)};
  return key;
}

/// How much a product may use: 32 MiB on the larger devices as in PyTorch, or $CUBLASLT_WORKSPACE_SIZE in KiB.
uint64_t most_workspace(int device) {
  static const int64_t wanted = [] {
    const char* text = std::getenv("CUBLASLT_WORKSPACE_SIZE");
    return text ? std::max<int64_t>(std::atoll(text), 0) * 1024 : -1;
  }();
  if (wanted >= 0) return static_cast<uint64_t>(wanted);
  return (properties(device).major >= 9 ? uint64_t{32} : uint64_t{8}) << 20;
}

struct Preference {
  cublasLtMatmulPreference_t is = nullptr;
  Preference() = default;
  Preference(const Preference&) = delete;
  ~Preference() {
    if (is) blas().cublasLtMatmulPreferenceDestroy(is);
  }
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) const {
    FACULA_BLAS_CALL(cublasLtMatmulPreferenceSetAttribute, is, attribute, &value, sizeof value);
  }
};

/// Whether the heuristics say that they have no way for a product, and not that the library or the device has failed.
bool is_unsupported(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}
/// Says once that there is none where there should be one.
void note_failure(cublasStatus_t status) {
  static std::atomic<bool> noted{false};
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || noted.exchange(true) || !host.warn) return;
  host.warn(("matmul: cuBLAS has no way for a product, and Facula's own kernels compute it: "
             "cublasLtMatmulAlgoGetHeuristic gives cuBLAS's status " +
             std::to_string(static_cast<int>(status)))
                .c_str());
}

/// What the library made of a product.
class MatmulPlan {
 public:
  explicit MatmulPlan(const ProductKey& p) {
    const auto compute = static_cast<cublasComputeType_t>(p.compute);
    const auto type = static_cast<cudaDataType>(p.matrices);
    FACULA_BLAS_CALL(cublasLtMatmulDescCreate, &desc, compute, static_cast<cudaDataType>(p.scale));
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (p.bias) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    const Side* sides[] = {&p.left, &p.right, &p.out};
    for (size_t i = 0; i < layouts.size(); ++i) layouts[i] = layout_of(*sides[i], type, static_cast<int32_t>(p.batch));
    choose(p);
  }
  ~MatmulPlan() {
    for (cublasLtMatrixLayout_t layout : layouts)
      if (layout) blas().cublasLtMatrixLayoutDestroy(layout);
    if (desc) blas().cublasLtMatmulDescDestroy(desc);
  }
  MatmulPlan(const MatmulPlan&) = delete;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    FACULA_BLAS_CALL(cublasLtMatmulDescSetAttribute, desc, attribute, &value, sizeof value);
  }

  cublasLtMatmulDesc_t desc = nullptr;
  std::array<cublasLtMatrixLayout_t, 3> layouts{};
  using Way = cublasLtMatmulHeuristicResult_t;
  std::vector<Way> ways;  // that the library proposes, the best first as far as it knows
  size_t chosen = 0;
  bool is_tuned = false;  // where the fastest way is wanted: it is known, or not to be tried
  bool is_possible() const { return !ways.empty(); }

 private:
  static cublasLtMatrixLayout_t layout_of(const Side& s, cudaDataType type, int32_t batch) {
    cublasLtMatrixLayout_t layout = nullptr;
    FACULA_BLAS_CALL(cublasLtMatrixLayoutCreate, &layout, type, static_cast<uint64_t>(s.rows),
                     static_cast<uint64_t>(s.columns), s.leading);
    if (batch == 1) return layout;
    FACULA_BLAS_CALL(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                     sizeof batch);
    FACULA_BLAS_CALL(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s.step,
                     sizeof s.step);
    return layout;
  }

  void choose(const ProductKey& p) {
    Preference preference;
    FACULA_BLAS_CALL(cublasLtMatmulPreferenceCreate, &preference.is);
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace(static_cast<int>(p.device)));
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(p.reductions));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(p.left.alignment));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(p.right.alignment));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(p.out.alignment));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(p.out.alignment));
    constexpr int kMostTuned = 16;
    const int wanted = p.tuning < 0 ? 1 : kMostTuned;
    ways.resize(static_cast<size_t>(wanted));
    int found = 0;
    const cublasStatus_t status =
        blas().cublasLtMatmulAlgoGetHeuristic(handle_of(static_cast<int>(p.device)), desc, layouts[0], layouts[1],
                                              layouts[2], layouts[2], preference.is, wanted, ways.data(), &found);
    ways.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(found) : 0);
    if (is_unsupported(status)) note_failure(status);
    else check(status, "cublasLtMatmulAlgoGetHeuristic");
    std::erase_if(ways, [](const Way& way) { return way.state != CUBLAS_STATUS_SUCCESS; });
  }
};

void tune(MatmulPlan& plan, const ProductKey& key, const MatrixProduct& p);

template <class Use>
auto with_plan(const ProductKey& key, const MatrixProduct& p, Use&& use) {
  static auto& plans = *new PlanCache<ProductKey, MatmulPlan>;
  return plans.with(
      key, [&] { return MatmulPlan(key); },
      [&](MatmulPlan& plan) {
        if (key.tuning >= 0 && !plan.is_tuned && plan.is_possible()) tune(plan, key, p);
        return use(plan);
      });
}

/// A factor as the library reads it.
struct Factor {
  alignas(16) char bytes[16];
  Factor(const Scalar& value, cudaDataType type) {
    switch (type) {
      case CUDA_R_32F: write(static_cast<float>(value.to_double())); break;
      case CUDA_R_64F: write(value.to_double()); break;
      case CUDA_C_32F: write(std::complex<float>(value.to_complex())); break;
      case CUDA_C_64F: write(value.to_complex()); break;
      default: std::memcpy(bytes, scalar_tensor(value, DType::Float16).data(), 2);
    }
  }
  template <class T>
  void write(const T& value) {
    std::memcpy(bytes, &value, sizeof value);
  }
};

/// Queues the product, done in one of the plan's ways.
cublasStatus_t queue(const MatmulPlan& plan, const MatmulPlan::Way& way, const MatrixProduct& p, void* out) {
  if (p.bias) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  const int device = active_index();
  const size_t bytes = way.workspaceSize;
  Tensor workspace;  // goes back to the stream's pool at once: what comes later there is queued behind the product
  if (bytes)
    workspace = facula::empty({static_cast<int64_t>(bytes)}, DType::UInt8,
                              Device{DeviceType::CUDA, static_cast<int8_t>(device)});
  const cudaDataType scale = types_of(p.dtype).scale;
  const Factor alpha(p.alpha, scale), beta(p.beta, scale);
  return blas().cublasLtMatmul(handle_of(device), plan.desc, alpha.bytes, p.b.data, plan.layouts[0], p.a.data,
                               plan.layouts[1], beta.bytes, out, plan.layouts[2], out, plan.layouts[2], &way.algo,
                               bytes ? workspace.data() : nullptr, bytes, handle(current_stream(device)));
}

// ---- the fastest way, by trying

const char* type_name(const ProductKey& p) {
  switch (p.matrices) {
    case CUDA_R_16F: return "Half";
    case CUDA_R_16BF: return "BFloat16";
    case CUDA_R_32F: return p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? "tf32" : "float";
    case CUDA_R_64F: return "double";
    case CUDA_C_32F: return "c10::complex<float>";
    default: return "c10::complex<double>";
  }
}

/// How the files call a product.
Tuning::Key tuning_key(const ProductKey& p) {
  const auto letter = [](const Side& s, char plain) {
    return static_cast<char>(s.transposed ? plain - 'N' + 'T' : plain);
  };
  std::string op = p.batch > 1 ? "GemmStridedBatchedTunableOp_" : p.bias ? "GemmAndBiasTunableOp_" : "GemmTunableOp_";
  op += std::string(type_name(p)) + "_" + letter(p.left, 'N') + letter(p.right, 'N');
  const int64_t inner = p.left.transposed ? p.left.rows : p.left.columns;
  std::string sizes = {letter(p.left, 'n'), letter(p.right, 'n')};
  const auto add = [&](std::initializer_list<int64_t> numbers) {
    for (const int64_t n : numbers) sizes += "_" + std::to_string(n);
  };
  add({p.out.rows, p.out.columns, inner});
  if (p.batch > 1) sizes += "_B", add({p.batch});
  sizes += "_ld";
  add({p.left.leading, p.right.leading, p.out.leading});
  return {op, sizes};
}

/// Memory as that of the result, for tries.
Tensor scratch_for(const MatrixProduct& p) {
  const int64_t count = (p.batch - 1) * p.out_batch + (p.rows - 1) * p.out_row + p.columns;
  Tensor made = facula::empty({count}, p.dtype, Device{DeviceType::CUDA, static_cast<int8_t>(active_index())});
  FACULA_CUDA_CALL(cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(made.data()), static_cast<unsigned char>(0),
                   static_cast<size_t>(count * made.item_size()), handle(current_stream(active_index())));
  return made;
}

/// Milliseconds that a way takes; negative where it does not work.
double time_of(const MatmulPlan& plan, const MatmulPlan::Way& way, const MatrixProduct& p, void* out) {
  if (queue(plan, way, p, out) != CUBLAS_STATUS_SUCCESS) return -1;
  const Stream stream = current_stream(active_index());
  const auto timed = [&](int times) {
    Event begin(CU_EVENT_DEFAULT), end(CU_EVENT_DEFAULT);
    begin.record(stream);
    for (int i = 0; i < times; ++i) check(queue(plan, way, p, out), "cublasLtMatmul");
    end.record(stream);
    end.synchronize();
    return static_cast<double>(begin.elapsed(end));
  };
  const double once = timed(1), room = tuning().most_milliseconds / std::max(once, 1e-6);
  const int times = std::max(1, static_cast<int>(std::min<double>(tuning().most_iterations, room)));
  return timed(times) / times;
}

/// Whether a way gives what the library's own choice does, as nearly as the program demands.
bool agrees(const Tensor& got, const Tensor& wanted) {
  Tensor host[2];
  const Tensor* from[] = {&got, &wanted};
  for (int i = 0; i < 2; ++i) {
    host[i] = facula::empty(from[i]->sizes(), DType::Complex128, kCPU);
    copy_elements(host[i], *from[i]);
  }
  const auto* a = static_cast<const std::complex<double>*>(host[0].data());
  const auto* b = static_cast<const std::complex<double>*>(host[1].data());
  for (int64_t i = 0; i < got.numel(); ++i)
    if (!(a[i] == b[i] || std::abs(a[i] - b[i]) <= tuning().atol + tuning().rtol * std::abs(b[i]))) return false;
  return true;
}

size_t fastest(const MatmulPlan& plan, const MatrixProduct& given, double* milliseconds) {
  MatrixProduct p = given;
  p.beta = Scalar(0);  // tries do not read what they have written
  const Tensor reference = scratch_for(p), out = scratch_for(p);
  size_t best = 0;
  *milliseconds = time_of(plan, plan.ways[0], p, reference.data());
  for (size_t i = 1; i < plan.ways.size(); ++i) {
    const double each = time_of(plan, plan.ways[i], p, out.data());
    if (each < 0 || (each >= *milliseconds && *milliseconds >= 0)) continue;
    if (tuning().checks && !agrees(out, reference)) continue;
    *milliseconds = each;
    best = i;
  }
  return best;
}

constexpr std::string_view kWayName = "Gemm_CublasLt_";

void tune(MatmulPlan& plan, const ProductKey& key, const MatrixProduct& p) {
  const auto device = static_cast<int>(key.device);
  const Tuning::Key name = tuning_key(key);
  plan.is_tuned = true;
  if (const auto known = tuning().find(name, device)) {
    if (!known->way.starts_with(kWayName)) return;
    const auto number = static_cast<size_t>(std::strtoull(known->way.c_str() + kWayName.size(), nullptr, 10));
    if (number < plan.ways.size()) plan.chosen = number;
    return;
  }
  if (tuning().records_untuned) tuning().add_untuned(name, device);
  if (!tuning().tunes) return;
  plan.is_tuned = !is_captured(current_stream(device));
  if (!plan.is_tuned) return;
  double milliseconds = 0;
  plan.chosen = fastest(plan, p, &milliseconds);
  tuning().add(name, {std::string(kWayName) + std::to_string(plan.chosen), milliseconds}, device);
}

/// Where the library adds no bias (float64 and complex numbers), the product is added to rows of it.
bool product_over_bias(const MatrixProduct& p) {
  static const DeviceKernel fill{"matmul.cuh", "fill_rows"};
  MatrixProduct rest = p;
  rest.bias = nullptr;
  rest.beta = 1;
  const auto is_possible = [](const MatmulPlan& plan) { return plan.is_possible(); };
  if (!with_plan(key_of(rest, types_of(rest.dtype)), rest, is_possible)) return false;
  const int device = active_index();
  const long long rows = p.rows, columns = p.columns, batch = p.batch, out_row = p.out_row, out_batch = p.out_batch;
  fill(device, {bits_of(item_size(p.dtype))}, grid_for(device, batch * rows * columns), static_cast<void*>(p.out),
       static_cast<const void*>(p.bias), batch, rows, columns, out_batch, out_row);
  return product_by_library(rest);
}

}  // namespace

bool product_by_library(const MatrixProduct& p) {
  if (p.inner == 0 || !has_types(p.dtype) || !loaded().error.empty()) return false;
  const Types types = types_of(p.dtype);
  const ProductKey key = key_of(p, types);
  if (!fits(key)) return false;
  const bool done = with_plan(key, p, [&](const MatmulPlan& plan) {
    if (!plan.is_possible()) return false;
    check(queue(plan, plan.ways[plan.chosen], p, p.out), "cublasLtMatmul");
    return true;
  });
  return done || (p.bias && product_over_bias(p));
}

}  // namespace facula::cuda
