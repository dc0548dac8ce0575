#include "ops/contiguous.h"

#include "core/warn.h"
#include "ops/iterator.h"

namespace facula::ops {

void warn_of_lost_parts(DType from, DType to) {
  if (!is_complex(from) || is_complex(to) || to == DType::Bool) return;
  static std::atomic<bool> given = false;
  warn_once(given, "to: converting complex numbers to real ones drops their imaginary parts (take .real to say so)");
}

Tensor empty_in(MemoryFormat format, IntList sizes, DType dtype, Device device, const char* op) {
  if (format == MemoryFormat::Contiguous) return facula::empty(sizes, dtype, device);
  return facula::empty_strided(sizes, strides_of(sizes, format, op), dtype, device);
}

Tensor contiguous_copy(const Tensor& t, IntList shape, DType dtype) {
  Tensor copy = facula::empty(shape, dtype, t.device());
  const bool same = t.sizes() == shape;
  copy_elements(copy, same ? t : make_view(t, shape, broadcast_strides(t.sizes(), t.strides(), shape), 0, false));
  return copy;
}

Tensor as_contiguous(const Tensor& t, MemoryFormat format, DType dtype) {
  if (t.is_contiguous(format) && t.dtype() == dtype) return t;
  Tensor copy = empty_in(format, t.sizes(), dtype, t.device(), "contiguous");
  copy_elements(copy, t);
  return copy;
}

Tensor on_host(const Tensor& t) {
  materialize_bytes(t);
  if (t.is_cpu()) return as_contiguous(t);
  Tensor copy = facula::empty(t.sizes(), t.dtype());
  copy_elements(copy, t);
  return copy;
}

Tensor vector_on(IntList numbers, Device device) {
  Tensor host = facula::empty({static_cast<int64_t>(numbers.size())}, DType::Int64);
  std::copy(numbers.begin(), numbers.end(), host.data<int64_t>());
  if (device.is_cpu()) return host;
  Tensor result = facula::empty(host.sizes(), DType::Int64, device);
  copy_elements(result, host);
  return result;
}

}  // namespace facula::ops
