// Opens oneDNN, through its C interface, when it is first needed. There is one engine, one stream per thread, handles
// that release themselves, and a cache of primitives keyed by everything that shaped them.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "cpu/onednn.h"

namespace facula::cpu::onednn {

// What is used of the library; add a line to use more.
// clang-format off
#define FACULA_ONEDNN_FUNCTIONS(X) \
  X(engine_create) X(stream_create) X(stream_wait) X(sgemm) X(memory_desc_create_with_strides) \
  X(memory_desc_create_with_tag) X(memory_desc_destroy) X(memory_desc_get_size) X(memory_desc_equal) \
  X(memory_create) X(memory_destroy) X(memory_set_data_handle) X(primitive_desc_query_md) \
  X(primitive_desc_query) X(primitive_desc_destroy) X(primitive_create) X(primitive_execute) \
  X(primitive_destroy) X(primitive_attr_create) X(primitive_attr_destroy) X(primitive_attr_set_post_ops) \
  X(primitive_attr_set_scratchpad_mode) X(post_ops_create) X(post_ops_destroy) X(post_ops_append_sum) \
  X(post_ops_append_eltwise) X(matmul_primitive_desc_create) X(reorder_primitive_desc_create) \
  X(convolution_forward_primitive_desc_create) X(convolution_backward_data_primitive_desc_create) \
  X(convolution_backward_weights_primitive_desc_create) X(deconvolution_forward_primitive_desc_create) \
  X(deconvolution_backward_data_primitive_desc_create) X(deconvolution_backward_weights_primitive_desc_create) \
  X(pooling_forward_primitive_desc_create) X(pooling_backward_primitive_desc_create)
// clang-format on

struct Library {
#define X(name) decltype(&::dnnl_##name) name;
  FACULA_ONEDNN_FUNCTIONS(X)
#undef X
};

/// The library's functions; throws a RuntimeError when it is not there.
const Library& library();
dnnl_engine_t engine();
/// This thread's stream; also sets how many threads the library takes.
dnnl_stream_t stream();
/// Throws a RuntimeError that begins with `op` unless the status is success.
void check(dnnl_status_t status, const char* op);

/// Owns a handle of the C interface.
template <class Handle, auto Destroy>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_) (library().*Destroy)(handle_);
  }
  Handle get() const { return handle_; }
  Handle* slot() { return &handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle handle_ = nullptr;
};
using MemoryDesc = Owner<dnnl_memory_desc_t, &Library::memory_desc_destroy>;
using Memory = Owner<dnnl_memory_t, &Library::memory_destroy>;
using PrimitiveDesc = Owner<dnnl_primitive_desc_t, &Library::primitive_desc_destroy>;
using Primitive = Owner<dnnl_primitive_t, &Library::primitive_destroy>;
using Attributes = Owner<dnnl_primitive_attr_t, &Library::primitive_attr_destroy>;
using PostOps = Owner<dnnl_post_ops_t, &Library::post_ops_destroy>;

/// The library's name of a dtype; dnnl_data_type_undef where it has none.
dnnl_data_type_t data_type(DType dtype);
MemoryDesc describe(IntList sizes, IntList strides, DType dtype);
/// A memory object over `data`, which may be null and set later.
Memory memory(const_dnnl_memory_desc_t desc, const void* data);

using Key = std::vector<int64_t>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t h = 1469598103934665603ull;
    for (int64_t v : key) h = (h ^ static_cast<size_t>(v)) * 1099511628211ull;
    return h;
  }
};

/// Values made once per key, for instance a primitive with its memory objects. Bounded: cleared when full.
template <class Made>
class Cache {
 public:
  std::shared_ptr<Made> get(const Key& key, const std::function<std::shared_ptr<Made>()>& make) {
    {
      std::lock_guard lock(mutex_);
      if (auto found = values_.find(key); found != values_.end()) return found->second;
    }
    auto made = make();
    std::lock_guard lock(mutex_);
    if (values_.size() >= kMaxEntries) values_.clear();
    return values_.emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr size_t kMaxEntries = 4096;
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<Made>, KeyHash> values_;
};

}  // namespace facula::cpu::onednn
