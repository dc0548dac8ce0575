// Builds cuDNN's graphs: descriptors, and plans that the library makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

/// This thread's handle of the library, with the stream.
cudnnHandle_t handle_of(Stream stream);

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
  /// What the library says.
  cudnnStatus_t finish_status();

 private:
  cudnnBackendDescriptor_t is_ = nullptr;
};

/// Which ways are wanted.
struct Wishes {
  bool full_precision;  // factors are not rounded
  bool deterministic;
};

class EnginePlan {
 public:
  EnginePlan(Descriptor config, Descriptor plan, int64_t workspace)
      : config_(std::move(config)), plan_(std::move(plan)), workspace_(workspace) {}
  /// Queues it on the stream: the tensors of those ids lie at those addresses. False where it cannot be: there is no
  /// memory for its workspace, or the library finds only now that it does not support it.
  bool run(Stream stream, std::span<const int64_t> ids, std::span<void* const> addresses) const;

 private:
  Descriptor config_, plan_;
  int64_t workspace_;
};

/// The plans of a graph: those that the library thinks best come first, and each is made when it is needed. One thread
/// at a time uses them (PlanCache).
class EnginePlans {
 public:
  /// The operations' descriptors are finished.
  EnginePlans(std::span<const cudnnBackendDescriptor_t> operations, int device, const Wishes& wishes);

  /// Whether there is one.
  bool any() { return found(1) != 0; }
  /// Queues the first that runs; those that do not are left out from then on. False where none does.
  bool run(Stream stream, std::span<const int64_t> ids, std::span<void* const> addresses);
  /// Why there is none, as far as the library says so.
  const std::string& why_none() const { return why_none_; }
  /// Times as many as `most` (all for 0) with these tensors, and puts the quickest first.
  void time(size_t most, Stream stream, std::span<const int64_t> ids, std::span<void* const> addresses);

 private:
  /// Makes plans until there are as many, and returns how many there are.
  size_t found(size_t wanted);
  std::optional<EnginePlan> next();

  Descriptor graph_;
  int device_;
  Wishes wishes_;
  std::vector<EnginePlan> plans_;
  std::vector<Descriptor> left_;  // configurations, the best last
  int modes_asked_ = 0;
  std::string why_none_;
};

}  // namespace facula::cuda::dnn
