#include "core/write.h"

#include "core/budget_hooks.h"
#include "core/error.h"
#include "core/held.h"
#include "core/recipe.h"

namespace facula {

void will_write(Storage* storage, const char* op, IntList sizes) {
  if (storage->asks.load(std::memory_order_relaxed) & kReadLate) run_readers(storage);
  make_permanent(storage);
  if (storage->asks.load(std::memory_order_relaxed) & kReadAgain) budget_hooks.will_change(storage);
  FACULA_CHECK(!storage->is_read_only(), ErrorKind::Runtime, op,
               ": the tensor written is on read-only memory (clone it first), got shape ", sizes);
}

void check_not_inference_now(const Tensor& self, const char* op) {
  FACULA_CHECK(!(self.flags() & kInference) || (thread_state.modes & kModeInference), ErrorKind::Runtime, op,
               ": an inference tensor is not written outside of inference mode (clone it to get a normal "
               "tensor), got shape ",
               self.sizes());
}

void check_no_internal_overlap(const Tensor& self, const char* op) {
  if (self.is_dense() || (self.flags() & kSparse)) return;
  // Only a stride of zero is certain to make two elements share a place; other patterns are left to the caller.
  for (int64_t i = 0; i < self.dim(); ++i) {
    FACULA_CHECK(
        self.size(i) <= 1 || self.stride(i) != 0, ErrorKind::Runtime, op,
        ": unsupported operation: several elements of the written tensor lie in the same place in memory (clone it "
        "first), got sizes ",
        self.sizes(), " and strides ", self.strides());
  }
}

void check_written(const Tensor& self, const char* op) {
  materialize_bytes(self);
  if (self.storage()->asks_first()) will_write(self.storage(), op, self.sizes());
  check_not_inference(self, op);
  check_no_internal_overlap(self, op);
}

void check_apart(const Tensor& written, const Tensor& read, const char* op) {
  const bool same = written.is_same(read);  // refused even where it is empty, and no byte is shared
  FACULA_CHECK(!same || read.numel() > 0, ErrorKind::Runtime, op,
               ": the written tensor is an argument as well (clone that first), got shape ", read.sizes());
  if (!read.defined() || written.storage() != read.storage() || written.numel() == 0 || read.numel() == 0) return;
  const Extent a = byte_extent(written), b = byte_extent(read);
  const bool apart = written.impl()->data + a.high <= read.impl()->data + b.low ||
                     read.impl()->data + b.high <= written.impl()->data + a.low;
  FACULA_CHECK(
      apart || !written.is_dense() || !read.is_dense(), ErrorKind::Runtime, op,
      ": unsupported operation: the written tensor shares memory with an argument (clone that first), got shapes ",
      written.sizes(), " and ", read.sizes());
}

void check_writes_to(const Tensor& out, IntList sizes, const char* op) {
  if (out.sizes() == sizes) return check_written(out, op);
  if (out.storage()->asks_first()) will_write(out.storage(), op, out.sizes());
  check_not_inference(out, op);
}

void WriteScope::begin(const char* op, Overlap overlap) {
  materialize_bytes(*self_);
  if (storage_->asks_first()) will_write(storage_, op, self_->sizes());
  check_not_inference(*self_, op);
  if (overlap == Overlap::Refused) check_no_internal_overlap(*self_, op);
  held_ = hold(*self_);
  if (held_.is_same(*self_)) held_ = Tensor();
}

void WriteScope::end_held() noexcept { end_held_write(*self_, held_, id_); }

}  // namespace facula
