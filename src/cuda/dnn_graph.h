// cuDNN's graphs: descriptors, and plans that the library makes of them.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "cuda/abi_cudnn.h"
#include "cuda/stream.h"

namespace facula::cuda::dnn {

struct Functions {
#define X(name, ...) cudnnStatus_t (*name)(__VA_ARGS__) = nullptr;
  FACULA_DNN_FUNCTIONS(X)
#undef X
  size_t (*cudnnGetVersion)() = nullptr;
};
/// Whether the library is there.
bool is_there();
const Functions& functions();
void check(cudnnStatus_t status, const char* call);

/// The library's handle of a device: one, so that its users hold the mutex.
cudnnHandle_t handle_of(int device);
std::mutex& library_mutex();

cudnnDataType_t type_of(DType dtype);

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept : is_(std::exchange(other.is_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(is_, other.is_);
    return *this;
  }
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  cudnnBackendDescriptor_t get() const { return is_; }

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const void* values,
                  int64_t count = 1);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t type);
  Descriptor& set(cudnnBackendAttributeName_t name, int64_t number);
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const int64_t> numbers);
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnHandle_t handle);
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<void* const> pointers);
  /// Throws where the library refuses it.
  Descriptor& finish();
  /// False where the library cannot do it.
  bool try_finish();

 private:
  cudnnBackendDescriptor_t is_ = nullptr;
};

/// Which ways are wanted.
struct Wishes {
  bool full_precision;  // factors are not rounded
  bool deterministic;
};

class Plan {
 public:
  Plan(Descriptor config, Descriptor plan, int64_t workspace)
      : config_(std::move(config)), plan_(std::move(plan)), workspace_(workspace) {}
  int64_t workspace() const { return workspace_; }
  /// Queues it on the stream: the tensors of those ids lie at those addresses.
  void run(Stream stream, std::span<const int64_t> ids, std::span<void* const> addresses, void* workspace) const;

 private:
  Descriptor config_, plan_;
  int64_t workspace_;
};

/// Plans for the graph of one operation, those that the library thinks best first; at most `most`.
std::vector<Plan> plans_of(const Descriptor& operation, int device, const Wishes& wishes, size_t most);

}  // namespace facula::cuda::dnn
