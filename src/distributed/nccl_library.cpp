#include "distributed/nccl_library.h"

#include <map>
#include <mutex>
#include <vector>

#include "cuda/collectives.h"
#include "cuda/device.h"

namespace facula::distributed::nccl_library {
namespace {

cuda::Loaded<Functions> load() {
  cuda::Loaded<Functions> l;
  const cuda::OpenedLibrary& library = cuda::opened_collectives();
#define X(name, ...) FACULA_FIND(l, library, name)
  FACULA_NCCL_FUNCTIONS(X)
  FACULA_NCCL_TEXTS(X)
#undef X
  return l;
}
const cuda::Loaded<Functions>& loaded() {
  static const cuda::Loaded<Functions> l = load();
  return l;
}

[[noreturn]] void report(ncclResult_t result, const char* call, ncclComm_t comm) {
  const char* more = comm ? nccl().ncclGetLastError(comm) : nullptr;
  fail(Trouble::Backend, call, ": NCCL says: ", nccl().ncclGetErrorString(result), more && *more ? ": " : "",
       more ? more : "");
}

class DeviceStreams {
 public:
  Stream take(int device) {
    std::lock_guard lock(mutex_);
    auto& free = free_[device];
    if (free.empty()) {
      cuda::DeviceGuard guard(device);
      int least = 0, greatest = 0;
      FACULA_CUDA_CALL(cuCtxGetStreamPriorityRange, &least, &greatest);
      CUstream made = nullptr;
      FACULA_CUDA_CALL(cuStreamCreateWithPriority, &made, CU_STREAM_NON_BLOCKING, greatest);
      return {{DeviceType::CUDA, static_cast<int8_t>(device)}, reinterpret_cast<uint64_t>(made)};
    }
    const Stream stream = free.back();
    free.pop_back();
    return stream;
  }
  void give_back(Stream stream) {
    std::lock_guard lock(mutex_);
    free_[stream.device.index].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<Stream>> free_;
};
/// Streams are few and stay: those of failed communicators may never end.
DeviceStreams& streams() {
  static DeviceStreams& s = *new DeviceStreams;
  return s;
}

}  // namespace

const Functions& nccl() { return loaded().table; }
const std::string& why_not_opened() { return loaded().error; }

void check(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result != ncclSuccess && result != ncclInProgress) report(result, call, comm);
}

bool is_ready(ncclComm_t comm, const char* call) {
  ncclResult_t state = ncclSuccess;
  check(nccl().ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm);
  if (state == ncclInProgress) return false;
  check(state, call, comm);
  return true;
}

Number number_of(DType dtype) {
  switch (dtype) {
    case DType::Int8: return {ncclInt8};
    case DType::Int32: return {ncclInt32};
    case DType::UInt32: return {ncclUint32};
    case DType::Int64: return {ncclInt64};
    case DType::UInt64: return {ncclUint64};
    case DType::Float16: return {ncclFloat16};
    case DType::BFloat16: return {ncclBfloat16};
    case DType::Float32: return {ncclFloat32};
    case DType::Float64: return {ncclFloat64};
    case DType::Complex64: return {ncclFloat32, 2};
    case DType::Complex128: return {ncclFloat64, 2};
    default: return {ncclUint8};
  }
}

ncclRedOp_t op_of(DType dtype, Reduction reduction) {
  const bool flags = dtype == DType::Bool;
  switch (reduction) {
    case Reduction::Max:
    case Reduction::BitOr: return ncclMax;
    case Reduction::Min:
    case Reduction::BitAnd: return ncclMin;
    case Reduction::Product: return flags ? ncclMin : ncclProd;
    case Reduction::Avg: return ncclAvg;
    default: return flags ? ncclMax : ncclSum;
  }
}

Stream take_stream(int device) { return streams().take(device); }
void give_back(Stream stream) { streams().give_back(stream); }

}  // namespace facula::distributed::nccl_library
