#include "ops/out.h"

#include "core/checked.h"
#include "core/host.h"
#include "core/mode.h"
#include "core/recipe.h"
#include "core/storage_room.h"
#include "core/tensor_changes.h"
#include "ops/contiguous.h"
#include "ops/kernel_table.h"

namespace facula {

void Out::check() const {
  materialize_bytes(given_);
  if (given_.storage()->asks_first()) will_write(given_.storage(), op_, given_.sizes());
  check_not_inference(given_, op_);
}

Tensor Out::make(IntList sizes, DType dtype, Device device) const {
  const bool direct = given() && !aliased_ && given_.dtype() == dtype && given_.device() == device &&
                      given_.sizes() == sizes && given_.is_contiguous() && !given_.is_conj();
  if (!direct) return empty(sizes, dtype, device);
  if (!write_) write_.emplace(given_, op_, id_);
  return given_;
}

void Out::finish(const Tensor& made) const {
  if (!given()) return;
  if (made.is_same(given_)) {
    if (!write_) write_.emplace(given_, op_, id_);
    return;
  }
  const bool fits = cast_ == Cast::None ? made.dtype() == given_.dtype() : can_cast(made.dtype(), given_.dtype());
  FACULA_CHECK(fits || cast_ == Cast::None, ErrorKind::Runtime, op_, ": result type ", made.dtype(),
               " can't be cast to that of out=, which is ", given_.dtype());
  FACULA_CHECK(fits, ErrorKind::Runtime, op_, ": a result of ", made.dtype(), " (scalar type ",
               legacy_name(made.dtype()), ") cannot be written into out= of ", given_.dtype());
  FACULA_CHECK(given_.device() == made.device(), ErrorKind::Runtime, op_, ": out= must be on ", made.device(), ", got ",
               given_.device());
  if (cast_ == Cast::Filled) check();
  else check_writes_to(given_, made.sizes(), op_);
  // what shows an argument, or a part of it, is read before its memory changes
  const Tensor source = share_bytes(made.storage(), given_.storage()) ? ops::contiguous_copy(made) : made;
  resize_output(given_, made.sizes(), op_, cast_ == Cast::Quiet || cast_ == Cast::Filled);
  const auto overlap = cast_ == Cast::Filled ? WriteScope::Overlap::Filled : WriteScope::Overlap::Refused;
  if (!write_) write_.emplace(given_, op_, id_, overlap);
  copy_elements(given_, source);
}

void resize_output(const Tensor& out, IntList sizes, const char* op, bool quiet) {
  if (out.sizes() == sizes) return;
  if (!quiet && out.numel() != 0 && host.warn) {
    std::ostringstream text;
    text << op << ": an output that has elements was resized: out= had shape " << out.sizes() << ", got " << sizes
         << "; give an empty tensor (out.resize_(0)) to reuse memory without this warning";
    host.warn(text.str().c_str());
  }
  resize_tensor(out, sizes, contiguous_strides(sizes));
}

namespace {

/// Grows the storage of `self`. A tensor remembers an address, so the bytes move only while nobody but `self` and its
/// base holds them.
void grow_storage(const Tensor& self, size_t needed) {
  Storage* storage = self.storage();
  notify_tensor_changes(self);
  if (resize_storage_in_place(storage, needed)) return;     // it was as large before
  if (storage->asks_first()) materialize_storage(storage);  // recipes hold what they read
  TensorImpl* base = self.impl()->base;
  if (base && base->storage != storage) base = nullptr;
  size_t known = 1 + (base != nullptr) + (host.storage_objects ? host.storage_objects(storage) : 0);
  FACULA_CHECK(static_cast<size_t>(storage->refs.load()) <= known, ErrorKind::Runtime,
               "resize_: other tensors on the same memory cannot follow it when it grows (resize before making views, "
               "or clone), got ",
               storage->nbytes, " bytes that are to become ", needed);
  char* before = storage->data;
  resize_storage(storage, needed);
  for (TensorImpl* impl : {self.impl(), base}) {
    if (impl) impl->data = storage->data + (impl->data - before);
  }
}

}  // namespace

void resize_tensor(const Tensor& self, IntList sizes, IntList strides) {
  if (count_elements(sizes, "resize_") > 0) {
    const Checked end = places_of(sizes, strides, self.storage_offset()).high + 1;
    const size_t needed = byte_count(end, self.item_size(), "resize_", sizes);
    if (needed > self.storage()->nbytes) grow_storage(self, needed);
  } else {
    check_strides_fit(sizes, "resize_");
  }
  set_sizes(self.impl(), sizes, strides);
}

}  // namespace facula
