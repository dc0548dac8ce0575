#include "core/dtype.h"

#include <algorithm>
#include <atomic>

namespace facula {
namespace {

std::atomic<DType> default_dtype_{DType::Float32};

// Rank of the signed integers by width, for promotion among them.
int width_rank(DType d) {
  switch (item_size(d)) {
    case 1: return 0;
    case 2: return 1;
    case 4: return 2;
    default: return 3;
  }
}

// The Array API's table: the narrowest dtype that holds both. PyTorch promotes the wide unsigned dtypes with no other
// integer.
DType promote_integers(DType a, DType b) {
  constexpr DType by_rank[] = {DType::Int8, DType::Int16, DType::Int32, DType::Int64};
  if (is_signed(a) == is_signed(b)) return width_rank(a) >= width_rank(b) ? a : b;
  int with_sign = width_rank(is_signed(a) ? a : b), without_sign = width_rank(is_signed(a) ? b : a);
  if (without_sign == 3) throw_error(ErrorKind::Runtime, "promote_types: no integer dtype holds both ", a, " and ", b);
  return by_rank[std::max(with_sign, without_sign + 1)];
}

DType promote_floats(DType a, DType b) {
  if (a == b) return a;
  if (is_float8(a) || is_float8(b)) {
    throw_error(ErrorKind::Runtime, "promote_types: float8 dtypes promote with nothing else, got ", a, " and ", b);
  }
  if (is_half(a) && is_half(b)) return DType::Float32;
  return index(a) >= index(b) ? a : b;
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  DTypeClass ca = dtype_class(a), cb = dtype_class(b);
  if (ca > cb) {
    std::swap(a, b);
    std::swap(ca, cb);
  }
  if (ca == DTypeClass::Bool) return b;
  if (cb == DTypeClass::Integral) return promote_integers(a, b);
  if (cb == DTypeClass::Floating) {
    if (ca == DTypeClass::Floating) return promote_floats(a, b);
    return b;
  }
  if (ca == DTypeClass::Integral) return b;
  // complex with float or complex: the wider real part decides; bfloat16 counts as float32 here
  DType ra = a == DType::BFloat16 ? DType::Float32 : real_dtype(a);
  return complex_dtype(promote_floats(ra, real_dtype(b)));
}

DType default_dtype() { return default_dtype_.load(std::memory_order_relaxed); }
void set_default_dtype(DType dtype) { default_dtype_.store(dtype, std::memory_order_relaxed); }

}  // namespace facula
