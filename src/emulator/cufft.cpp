// A stand-in for cuFFT: transforms by loops on the host. What cuFFT leaves open is spoilt: the workspace, what a
// transform to real numbers reads, and its result where the points that stand for real ones are not real.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <numbers>
#include <utility>
#include <vector>

#include "cuda/abi_cufft.h"
#include "emulator/library.h"

#define DECLARE(name, ...) FACULA_EMULATED cufftResult name(__VA_ARGS__);
FACULA_FFT_FUNCTIONS(DECLARE)
#undef DECLARE

using namespace facula::emulator;

namespace {

using Number = std::complex<double>;
constexpr int kMostRank = 3;
constexpr int64_t kWorkspace = 2048, kWorkspaceAlignment = 256;

struct Side {
  cudaDataType type;
  long long sizes[kMostRank], stride, distance;
  bool halved;  // along the last dimension
};

struct FftPlan {
  bool is_made = false, allocates = true;
  int rank = 0;
  long long sizes[kMostRank]{}, batch = 0;
  Side in{}, out{};
  size_t work_bytes = 0;
  void* work = nullptr;
  CUstream stream = nullptr;
};

struct FftPlans {
  std::mutex mutex;
  std::map<cufftHandle, FftPlan> all;
  cufftHandle last = 0;
};
FftPlans& plans() {
  static FftPlans& p = *new FftPlans;
  return p;
}

cufftResult wrong(const char* call, const std::string& why, cufftResult status = CUFFT_INVALID_VALUE) {
  return static_cast<cufftResult>(refused(call, why, status));
}

/// Changes a plan, if there is one of that number.
template <class Change>
cufftResult with_plan(cufftHandle handle, const char* call, Change change) {
  FftPlans& p = plans();
  std::lock_guard<std::mutex> guard(p.mutex);
  const auto found = p.all.find(handle);
  if (found == p.all.end()) return wrong(call, "a plan that there is not", CUFFT_INVALID_PLAN);
  return change(found->second);
}

bool is_real(cudaDataType type) { return type == CUDA_R_16F || type == CUDA_R_32F || type == CUDA_R_64F; }
int64_t item_size(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F: return 2;
    case CUDA_R_32F:
    case CUDA_C_16F: return 4;
    case CUDA_C_64F: return 16;
    default: return 8;
  }
}

struct Types {
  cudaDataType in, out, compute;
};
constexpr Types supported[] = {
    {CUDA_C_16F, CUDA_C_16F, CUDA_C_16F}, {CUDA_R_16F, CUDA_C_16F, CUDA_C_16F}, {CUDA_C_16F, CUDA_R_16F, CUDA_C_16F},
    {CUDA_C_32F, CUDA_C_32F, CUDA_C_32F}, {CUDA_R_32F, CUDA_C_32F, CUDA_C_32F}, {CUDA_C_32F, CUDA_R_32F, CUDA_C_32F},
    {CUDA_C_64F, CUDA_C_64F, CUDA_C_64F}, {CUDA_R_64F, CUDA_C_64F, CUDA_C_64F}, {CUDA_C_64F, CUDA_R_64F, CUDA_C_64F},
};
bool is_supported(const Types& t) {
  return std::any_of(std::begin(supported), std::end(supported),
                     [&](const Types& s) { return s.in == t.in && s.out == t.out && s.compute == t.compute; });
}

/// How many points there are in memory along a dimension.
long long points(const FftPlan& p, const Side& s, int d) {
  return s.halved && d == p.rank - 1 ? p.sizes[d] / 2 + 1 : p.sizes[d];
}

/// From the first point of a transform to its last one.
long long extent(const FftPlan& p, const Side& s) {
  long long at = 0;
  for (int d = 0; d < p.rank; ++d) at = (d ? at * s.sizes[d] : 0) + points(p, s, d) - 1;
  return at * s.stride;
}

/// Why a side's layout is none; empty where it is one.
std::string mismatch(const FftPlan& p, const Side& s) {
  if (s.stride < 1 || s.distance < 1) return "a stride or a distance below one";
  std::vector<std::pair<long long, long long>> ways;  // from one element to the next, and how many
  if (p.batch > 1) ways.emplace_back(s.distance, p.batch);
  long long step = s.stride;
  for (int d = p.rank - 1; d >= 0; step *= d ? s.sizes[d] : 1, --d) {
    if (d && s.sizes[d] < points(p, s, d)) return "a row in memory that is shorter than the transform";
    if (points(p, s, d) > 1) ways.emplace_back(step, points(p, s, d));
  }
  std::sort(ways.begin(), ways.end());
  long long last = 0;
  for (const auto& [apart, count] : ways) {
    if (apart <= last) return "elements that overlap";
    last += apart * (count - 1);
  }
  return {};
}

int64_t bytes_of(const FftPlan& p, const Side& s) {
  return ((p.batch - 1) * s.distance + extent(p, s) + 1) * item_size(s.type);
}

// ---- transforms

/// Every `step`-th of n points, to neighbors.
void transform_line(const Number* in, Number* out, long long n, long long step, double sign) {
  if (n == 1) {
    *out = *in;
    return;
  }
  long long prime = 2;
  while (n % prime && prime * prime < n) ++prime;
  if (n % prime) prime = n;
  const long long rest = n / prime;
  std::vector<Number> roots(static_cast<size_t>(n)), parts(static_cast<size_t>(n));
  for (long long k = 0; k < n; ++k)
    roots[static_cast<size_t>(k)] =
        std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
  for (long long i = 0; i < prime; ++i)
    transform_line(in + i * step, parts.data() + i * rest, rest, step * prime, sign);
  for (long long k = 0; k < n; ++k) {
    Number sum = 0;
    for (long long i = 0; i < prime; ++i)
      sum += parts[static_cast<size_t>(i * rest + k % rest)] * roots[static_cast<size_t>(i * k % n)];
    out[k] = sum;
  }
}

Number load(const void* data, cudaDataType type, long long i) {
  switch (type) {
    case CUDA_R_16F: return Half::load<double>(data, i);
    case CUDA_R_32F: return static_cast<const float*>(data)[i];
    case CUDA_R_64F: return static_cast<const double*>(data)[i];
    case CUDA_C_16F: return {Half::load<double>(data, 2 * i), Half::load<double>(data, 2 * i + 1)};
    case CUDA_C_32F: return static_cast<const std::complex<float>*>(data)[i];
    default: return static_cast<const Number*>(data)[i];
  }
}
void store(void* data, cudaDataType type, long long i, Number value) {
  switch (type) {
    case CUDA_R_16F: return Half::store(data, i, value.real());
    case CUDA_R_32F: static_cast<float*>(data)[i] = static_cast<float>(value.real()); return;
    case CUDA_R_64F: static_cast<double*>(data)[i] = value.real(); return;
    case CUDA_C_16F: Half::store(data, 2 * i, value.real()), Half::store(data, 2 * i + 1, value.imag()); return;
    case CUDA_C_32F: static_cast<std::complex<float>*>(data)[i] = std::complex<float>(value); return;
    default: static_cast<Number*>(data)[i] = value;
  }
}

/// Calls each(point in the order of all points, element in memory, place along the last dimension).
template <class Each>
void for_points(const FftPlan& p, const Side& s, long long b, Each each) {
  long long sizes[kMostRank] = {1, 1, 1}, rows[kMostRank] = {1, 1, 1}, all[kMostRank] = {1, 1, 1};
  for (int d = 0; d < p.rank; ++d) {
    const int to = kMostRank - p.rank + d;
    sizes[to] = points(p, s, d);
    all[to] = p.sizes[d];
    if (d) rows[to] = s.sizes[d];
  }
  for (long long x = 0; x < sizes[0]; ++x)
    for (long long y = 0; y < sizes[1]; ++y)
      for (long long z = 0; z < sizes[2]; ++z)
        each((x * all[1] + y) * all[2] + z, b * s.distance + ((x * rows[1] + y) * rows[2] + z) * s.stride, z);
}

void transform_dims(const FftPlan& p, std::vector<Number>& all, double sign, int begin, int end) {
  for (int d = begin; d < end; ++d) {
    const long long n = p.sizes[d];
    long long inner = 1;
    for (int later = d + 1; later < p.rank; ++later) inner *= p.sizes[later];
    std::vector<Number> line(static_cast<size_t>(n));
    for (size_t first = 0; first < all.size(); ++first) {
      if (static_cast<long long>(first) / inner % n) continue;
      transform_line(all.data() + first, line.data(), n, inner, sign);
      for (long long k = 0; k < n; ++k) all[first + static_cast<size_t>(k * inner)] = line[static_cast<size_t>(k)];
    }
  }
}

/// Half of the points becomes all of them; NaN where those are not real that stand for themselves.
void complete_half(const FftPlan& p, std::vector<Number>& all) {
  const long long n = p.sizes[p.rank - 1];
  for (size_t row = 0; row < all.size(); row += static_cast<size_t>(n)) {
    Number* line = all.data() + row;
    const bool open = line[0].imag() != 0 || (n % 2 == 0 && line[n / 2].imag() != 0);
    if (open) line[0] = std::numeric_limits<double>::quiet_NaN();
    for (long long k = n / 2 + 1; k < n; ++k) line[k] = std::conj(line[n - k]);
  }
}

void run(const FftPlan& p, void* in, void* out, int direction) {
  if (p.work) std::memset(p.work, 0xab, p.work_bytes);
  long long total = 1;
  for (int d = 0; d < p.rank; ++d) total *= p.sizes[d];
  for (long long b = 0; b < p.batch; ++b) {
    std::vector<Number> all(static_cast<size_t>(total));
    for_points(p, p.in, b, [&](long long point, long long at, long long) {
      all[static_cast<size_t>(point)] = load(in, p.in.type, at);
    });
    if (is_real(p.out.type)) {
      transform_dims(p, all, direction, 0, p.rank - 1);
      complete_half(p, all);
      transform_dims(p, all, direction, p.rank - 1, p.rank);
      for_points(p, p.in, b, [&](long long, long long at, long long) { store(in, p.in.type, at, {-7, -7}); });
    } else {
      transform_dims(p, all, direction, 0, p.rank);
    }
    for_points(p, p.out, b, [&](long long point, long long at, long long) {
      store(out, p.out.type, at, all[static_cast<size_t>(point)]);
    });
  }
}

std::string text_of(const FftPlan& p) {
  std::string text = "cufftXtExec";
  const auto add = [&](const char* name, long long value) {
    text += std::string(" ") + name + "=" + std::to_string(value);
  };
  add("rank", p.rank), add("batch", p.batch), add("in", p.in.type), add("out", p.out.type);
  add("stride", p.in.stride), add("distance", p.in.distance);
  add("stream", static_cast<long long>(reinterpret_cast<uintptr_t>(p.stream)));
  return text;
}

}  // namespace

FACULA_EMULATED cufftResult cufftCreate(cufftHandle* plan) {
  if (!plan) return wrong(__func__, "a null pointer");
  FftPlans& p = plans();
  std::lock_guard<std::mutex> guard(p.mutex);
  *plan = ++p.last;
  p.all[*plan] = {};
  return CUFFT_SUCCESS;
}
FACULA_EMULATED cufftResult cufftDestroy(cufftHandle plan) {
  FftPlans& p = plans();
  std::lock_guard<std::mutex> guard(p.mutex);
  return p.all.erase(plan) ? CUFFT_SUCCESS : wrong(__func__, "a plan that there is not", CUFFT_INVALID_PLAN);
}
FACULA_EMULATED cufftResult cufftSetAutoAllocation(cufftHandle plan, int allocate) {
  return with_plan(plan, __func__, [&](FftPlan& p) {
    if (p.is_made) return wrong("cufftSetAutoAllocation", "a plan that was made already");
    p.allocates = allocate;
    return CUFFT_SUCCESS;
  });
}
FACULA_EMULATED cufftResult cufftSetWorkArea(cufftHandle plan, void* memory) {
  return with_plan(plan, __func__, [&](FftPlan& p) {
    p.work = memory;
    return CUFFT_SUCCESS;
  });
}
FACULA_EMULATED cufftResult cufftSetStream(cufftHandle plan, CUstream stream) {
  return with_plan(plan, __func__, [&](FftPlan& p) {
    p.stream = stream;
    return CUFFT_SUCCESS;
  });
}

FACULA_EMULATED cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long* sizes, long long* in_sizes,
                                                long long in_stride, long long in_distance, cudaDataType in_type,
                                                long long* out_sizes, long long out_stride, long long out_distance,
                                                cudaDataType out_type, long long batch, size_t* work_bytes,
                                                cudaDataType compute_type) {
  const char* call = __func__;
  return with_plan(plan, call, [&](FftPlan& p) {
    if (p.is_made) return wrong(call, "a plan that was made already", CUFFT_INVALID_PLAN);
    if (p.allocates) return wrong(call, "a plan that would allocate its workspace itself");
    if (!sizes || !in_sizes || !out_sizes || !work_bytes) return wrong(call, "a null pointer");
    if (rank < 1 || rank > kMostRank) return wrong(call, "a rank that is none of 1, 2, 3");
    if (batch < 1) return wrong(call, "an empty batch");
    if (!is_supported({in_type, out_type, compute_type}))
      return wrong(call, "types that do not go together", CUFFT_INVALID_TYPE);
    p.rank = rank;
    p.batch = batch;
    p.in = {in_type, {}, in_stride, in_distance, is_real(out_type)};
    p.out = {out_type, {}, out_stride, out_distance, is_real(in_type)};
    for (int d = 0; d < rank; ++d) {
      p.sizes[d] = sizes[d], p.in.sizes[d] = in_sizes[d], p.out.sizes[d] = out_sizes[d];
      if (sizes[d] < 1) return wrong(call, "a size below one", CUFFT_INVALID_SIZE);
      if (compute_type == CUDA_C_16F && sizes[d] & (sizes[d] - 1))
        return wrong(call, "a size that is no power of two, in half precision", CUFFT_INVALID_SIZE);
    }
    for (const Side* s : {&p.in, &p.out}) {
      if (const std::string why = mismatch(p, *s); !why.empty()) return wrong(call, why);
      if (s->type == CUDA_R_16F && s->stride != 1)
        return wrong(call, "real elements of half precision with a stride", CUFFT_NOT_SUPPORTED);
    }
    // as the library's, some plans need a workspace and others none
    p.work_bytes = rank > 1 || sizes[0] > 4 ? static_cast<size_t>(kWorkspace) : 0;
    *work_bytes = p.work_bytes;
    p.is_made = true;
    return CUFFT_SUCCESS;
  });
}

FACULA_EMULATED cufftResult cufftXtExec(cufftHandle plan, void* in, void* out, int direction) {
  const char* call = __func__;
  return with_plan(plan, call, [&](FftPlan& p) {
    if (!p.is_made) return wrong(call, "a plan that was not made", CUFFT_INVALID_PLAN);
    if (does_nothing()) return CUFFT_SUCCESS;
    if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE) return wrong(call, "a direction that is none");
    if ((is_real(p.in.type) && direction != CUFFT_FORWARD) || (is_real(p.out.type) && direction != CUFFT_INVERSE))
      return wrong(call, "the other direction than that of the types");
    const int64_t alignment = std::max(item_size(p.in.type), item_size(p.out.type));  // of complex elements
    if (!is_readable(in, bytes_of(p, p.in), alignment))
      return wrong(call, "an input that is not in device memory, or not aligned");
    if (!is_readable(out, bytes_of(p, p.out), alignment))
      return wrong(call, "an output that is not in device memory, or not aligned");
    if (p.work_bytes && !is_readable(p.work, static_cast<int64_t>(p.work_bytes), kWorkspaceAlignment))
      return wrong(call, "a workspace that is not in device memory, or not aligned", CUFFT_NO_WORKSPACE);
    remember(text_of(p));
    const CUresult queued = queue_loops(p.stream, [p, in, out, direction] { run(p, in, out, direction); });
    if (p.work_bytes) p.work = nullptr;  // it has to be said anew: it may be another's by then
    return queued == CUDA_SUCCESS ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
  });
}
