// Provides the one way to write. Code that puts elements into a tensor that somebody else can hold does so while a
// WriteScope of that tensor lives: results of in-place and out= forms, assignments, steps of optimizers and scalers,
// running statistics, collectives, copies from other libraries and into storages. The scope
//   - refuses read-only memory, elements that share a place, and tensors of inference mode outside of it. Autograd has
//     checks of its own (check_writable() in autograd/inplace.h);
//   - materializes a deferred tensor, and runs the recipes that have yet to read what is overwritten;
//   - counts the write once when it ends, also when a kernel throws halfway: what was saved for a derivative or packed
//     for products is not trusted afterwards;
//   - counts nothing if an op refuses its arguments before it writes: CheckedWrite is the scope of an op that checks
//     them itself;
//   - holds the memory of a private layout, and copies what was written if another thread materialized the tensor
//     meanwhile: write to target().
//
// Other scopes begin after the arguments are checked and before the first element is written.
#pragma once

#include <utility>
#include <vector>

#include "core/refusal.h"
#include "core/tensor.h"

namespace facula {

/// Throws where the two share a byte; interleaved views are not decided, as in PyTorch.
void check_apart(const Tensor& written, const Tensor& read, const char* op);
/// Called before memory changes that asks for it (Storage::asks): runs the recipes that have yet to read it. Throws
/// where it must not change.
void will_write(Storage* storage, const char* op, IntList sizes);
/// What a scope refuses, for ops that check before they resize or compute.
void check_written(const Tensor& self, const char* op);
/// The same for an `out=` that will be given `sizes`: where it is resized, its elements get places of their own.
void check_writes_to(const Tensor& out, IntList sizes, const char* op);
/// Elements that share a place: all get one value in ops that fill, which need not refuse them.
void check_no_internal_overlap(const Tensor& self, const char* op);
void check_not_inference_now(const Tensor& self, const char* op);
inline void check_not_inference(const Tensor& self, const char* op) {
  if (__builtin_expect(self.flags() & kInference, 0)) check_not_inference_now(self, op);
}
/// Counts a write that somebody else made: a program that says so, or what stood in for a kernel.
inline void count_write(const Tensor& self, uint16_t op = 0) { self.storage()->bump_version(op); }

class WriteScope {
 public:
  enum class Overlap { Refused, Filled };  // Filled: every element gets the same value

  /// `op` is named in errors, `id` remembered as the last writer.
  WriteScope(const Tensor& self, const char* op, uint16_t id = 0, Overlap overlap = Overlap::Refused)
      : storage_(self.storage()), self_(&self), id_(id) {
    constexpr uint32_t kLookedAt = kDense | kInference | kPrivateLayout | kDeferred;
    const bool plain = !storage_->asks_first() && (self.flags() & kLookedAt) == kDense;
    if (__builtin_expect(!plain, 0)) begin(op, overlap);
  }
  /// A write to bytes, not to a tensor.
  WriteScope(Storage* storage, const char* op) : storage_(storage) {
    if (__builtin_expect(storage_->asks_first(), 0)) will_write(storage_, op, {static_cast<int64_t>(storage_->nbytes)});
  }
  WriteScope(WriteScope&& other) noexcept
      : storage_(std::exchange(other.storage_, nullptr)),
        self_(other.self_),
        held_(std::move(other.held_)),
        id_(other.id_) {}
  WriteScope& operator=(WriteScope&&) = delete;
  ~WriteScope() {
    if (__builtin_expect(held_.defined(), 0)) end_held();
    else if (storage_) storage_->bump_version(id_);
  }

  /// Where elements are written.
  const Tensor& target() const { return __builtin_expect(held_.defined(), 0) ? held_ : *self_; }

 protected:
  /// Nothing was written.
  void give_up() {
    storage_ = nullptr;
    held_ = Tensor();
  }

 private:
  void begin(const char* op, Overlap overlap);
  void end_held() noexcept;

  Storage* storage_;
  const Tensor* self_ = nullptr;
  Tensor held_;  // the memory of a private layout
  uint16_t id_ = 0;
};

/// The scope of a raw op that checks its arguments before it calls a kernel, and not after.
class CheckedWrite : public WriteScope {
 public:
  using WriteScope::WriteScope;
  ~CheckedWrite() {
    if (!ran_) take_back();
  }
  void ran() { ran_ = true; }

 private:
  [[gnu::cold]] void take_back() noexcept {
    if (refused_before_writing()) give_up();
  }
  bool ran_ = false;
};

/// Scopes of several tensors, which are all looked at before the first is written.
using WriteScopes = std::vector<WriteScope>;

}  // namespace facula
