// Transforms by cuFFT: a plan for each form of a transform, cached as PyTorch caches them (4096 for a device), its
// workspace from our allocator, on the current stream.
#include "cuda/fft_library.h"

#include <algorithm>
#include <deque>
#include <string>

#include "core/kernel.h"
#include "cuda/abi_cufft.h"
#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/fft_args.h"
#include "cuda/library.h"
#include "cuda/plan_cache.h"
#include "cuda/stream.h"
#include "ops/fft_plan.h"

namespace facula::cuda::fft_library {
namespace {

/// Where points lie: element x of transform b at b * distance + ((x0 * sizes[1] + x1) * sizes[2] + x2) * stride.
struct Layout {
  long long sizes[kMostDims], stride, distance;
};

/// What a plan depends on; compared byte by byte, so nothing lies between the members.
struct TransformKey {
  long long rank, batch, in_type, out_type, compute_type, sizes[kMostDims];
  Layout in, out;
};
static_assert(sizeof(TransformKey) == (5 + kMostDims + 2 * (kMostDims + 2)) * sizeof(long long));

// ---- what the library does, and what our own kernels do (fft.cpp)

/// Everything that can be given to it in one call is the library's. Our own kernels' is what cannot: lines that have
/// neighbors on both sides (a batch of two strides) and dimensions that are not transformed in the order in which they
/// lie (`layout_of` says both); and in half precision, sizes that are no powers of two, and real elements that do not
/// lie next to each other.
bool is_for_library(const TransformKey& p, FftKind kind) {
  if (p.compute_type != CUDA_C_16F) return true;
  const bool powers = std::all_of(p.sizes, p.sizes + p.rank, [](long long n) { return (n & (n - 1)) == 0; });
  const bool complex = kind == FftKind::Forward || kind == FftKind::Backward;
  return powers && (complex || (kind == FftKind::RealToHalf ? p.in : p.out).stride == 1);
}

/// The layout of a contiguous tensor whose dimensions `dims` (ascending) are transformed; false where it has none.
bool layout_of(const Tensor& t, IntList dims, Layout& l) {
  const auto is_transformed = [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); };
  if (!std::is_sorted(dims.begin(), dims.end())) return false;
  size_t left = dims.size();
  int64_t stride = 1, last = 1, next = 0;  // next: where a dimension of the batch has to go on
  for (int64_t d = t.dim() - 1; d >= 0; stride *= t.size(d--)) {
    if (is_transformed(d)) {
      if (left < dims.size()) l.sizes[left] = stride / last;
      else l.stride = stride;
      last = stride;
      --left;
    } else if (t.size(d) > 1) {
      if (next == 0) l.distance = stride;
      else if (stride != next) return false;
      next = stride * t.size(d);
    }
  }
  l.sizes[0] = t.size(dims[0]);
  if (next == 0) l.distance = stride;  // one transform
  return true;
}

// ---- the library

struct Functions {
#define X(name, ...) cufftResult (*name)(__VA_ARGS__) = nullptr;
  FACULA_FFT_FUNCTIONS(X)
#undef X
};

Loaded<Functions> load() {
  Loaded<Functions> l;
  const OpenedLibrary& library = opened(Library::Fft);
#define X(name, ...) FACULA_FIND(l, library, name)
  FACULA_FFT_FUNCTIONS(X)
#undef X
  return l;
}
const Loaded<Functions>& loaded() {
  static const Loaded<Functions> l = load();
  return l;
}
const Functions& fft() { return loaded().table; }

void check(cufftResult status, const char* call) {
  FACULA_CHECK(status == CUFFT_SUCCESS, ErrorKind::Runtime, current_op(), ": CUDA error: ", call,
               " gives cuFFT's status ", static_cast<int>(status));
}
#define FACULA_FFT_CALL(name, ...) check(fft().name(__VA_ARGS__), #name)

class TransformPlan {
 public:
  explicit TransformPlan(TransformKey p) {
    FACULA_FFT_CALL(cufftCreate, &handle_);
    try {
      FACULA_FFT_CALL(cufftSetAutoAllocation, handle_, 0);
      FACULA_FFT_CALL(cufftXtMakePlanMany, handle_, static_cast<int>(p.rank), p.sizes, p.in.sizes, p.in.stride,
                      p.in.distance, static_cast<cudaDataType>(p.in_type), p.out.sizes, p.out.stride, p.out.distance,
                      static_cast<cudaDataType>(p.out_type), p.batch, &workspace_,
                      static_cast<cudaDataType>(p.compute_type));
    } catch (...) {
      fft().cufftDestroy(handle_);
      throw;
    }
  }
  ~TransformPlan() { fft().cufftDestroy(handle_); }
  TransformPlan(const TransformPlan&) = delete;

  /// Queues it on the current stream.
  void run(const Tensor& out, const Tensor& in, int direction) const {
    Tensor workspace;  // goes back to the stream's pool at once: what comes later there is queued behind the transform
    if (workspace_) workspace = facula::empty({static_cast<int64_t>(workspace_)}, DType::UInt8, out.device());
    FACULA_FFT_CALL(cufftSetStream, handle_, handle(current_stream(out.device().index)));
    if (workspace_) FACULA_FFT_CALL(cufftSetWorkArea, handle_, workspace.data());
    FACULA_FFT_CALL(cufftXtExec, handle_, in.data(), out.data(), direction);
  }

 private:
  cufftHandle handle_ = 0;
  size_t workspace_ = 0;
};

// ---- plans, cached

using TransformPlans = PlanCache<TransformKey, TransformPlan>;
constexpr size_t kMostPlans = 4096;

struct TransformPlansOfDevice : TransformPlans {
  TransformPlansOfDevice() : TransformPlans(kMostPlans) {}
};
TransformPlans& plans_of(int device) {
  static auto& all = *new std::deque<TransformPlansOfDevice>(static_cast<size_t>(device_count()));
  return all[static_cast<size_t>(device)];
}

cudaDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::Float16: return CUDA_R_16F;
    case DType::Float32: return CUDA_R_32F;
    case DType::Float64: return CUDA_R_64F;
    case DType::Complex32: return CUDA_C_16F;
    case DType::Complex64: return CUDA_C_32F;
    default: return CUDA_C_64F;
  }
}

/// Also where real elements begin, the library wants the alignment of complex ones.
Tensor aligned(const Tensor& t) {
  const auto bytes = static_cast<uintptr_t>(item_size(complex_dtype(real_dtype(t.dtype()))));
  if (reinterpret_cast<uintptr_t>(t.data()) % bytes == 0) return t;
  const Tensor copy = facula::empty(t.sizes(), t.dtype(), t.device());
  copy_elements(copy, t);
  return copy;
}

/// Half of the points of real ones: the imaginary parts of the first and of the middle one count for nothing, which
/// the library does not promise; and it writes into what it is given.
Tensor plain_half(const Tensor& out, const Tensor& half, int64_t dim, bool is_ours) {
  static const DeviceKernel clear{"fft.cuh", "fft_clear_imaginary"};
  Tensor copied = half;
  if (!is_ours) copy_elements(copied = facula::empty(half.sizes(), half.dtype(), half.device()), half);
  const fft::Lines l = fft::lines_along(out, dim, FftKind::HalfToReal, 1);
  const int device = out.device().index;
  clear(device, {real_dtype(out.dtype())}, grid_for(device, l.count()),
        FftHalf{copied.data(), l.outer, l.in_size(), l.inner, l.n % 2 == 0});
  return copied;
}

}  // namespace

bool is_there() { return loaded().error.empty(); }

bool transform(const Tensor& out, const Tensor& in, IntList dims, FftKind kind, bool is_ours) {
  if (!is_there()) return false;
  const Tensor& whole = kind == FftKind::HalfToReal ? out : in;  // has all points of the halved dimension
  TransformKey p{};
  if (!layout_of(in, dims, p.in) || !layout_of(out, dims, p.out)) return false;
  p.rank = static_cast<long long>(dims.size());
  p.in_type = type_of(in.dtype());
  p.out_type = type_of(out.dtype());
  p.compute_type = type_of(complex_dtype(real_dtype(out.dtype())));
  p.batch = whole.numel();
  for (size_t i = 0; i < dims.size(); ++i) {
    p.sizes[i] = whole.size(dims[i]);
    p.batch /= p.sizes[i];
  }
  if (!is_for_library(p, kind)) return false;
  const bool backward = kind == FftKind::Backward || kind == FftKind::HalfToReal;
  const Tensor points = kind == FftKind::HalfToReal ? plain_half(out, in, dims[0], is_ours) : aligned(in);
  plans_of(out.device().index)
      .with(
          p, [&] { return TransformPlan(p); },
          [&](const TransformPlan& plan) { plan.run(out, points, backward ? CUFFT_INVERSE : CUFFT_FORWARD); });
  return true;
}

size_t plans(int device) { return plans_of(device).size(); }
size_t most_plans(int device) { return plans_of(device).most(); }
void set_most_plans(int device, size_t most) {
  const DeviceGuard guard(device);
  plans_of(device).set_most(most);
}
void forget_plans(int device) {
  const DeviceGuard guard(device);
  plans_of(device).clear();
}

}  // namespace facula::cuda::fft_library
