#include "distributed/reduce.h"

#include <cmath>

namespace facula::distributed::mpi {
namespace {

struct Plus {
  static float apply(float a, float b) { return a + b; }
};
struct Times {
  static float apply(float a, float b) { return a * b; }
};
struct Least {  // NaN stays
  static float apply(float a, float b) { return a != a || a < b ? a : b; }
};
struct Most {
  static float apply(float a, float b) { return a != a || a > b ? a : b; }
};

template <class T, class F>
void reduce(void* in, void* inout, int* count, Type*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) b[i] = T(F::apply(static_cast<float>(a[i]), static_cast<float>(b[i])));
}

template <class T>
UserFunction* of(Reduction reduction) {
  switch (reduction) {
    case Reduction::Product: return reduce<T, Times>;
    case Reduction::Min: return reduce<T, Least>;
    case Reduction::Max: return reduce<T, Most>;
    default: return reduce<T, Plus>;
  }
}

Op builtin(Reduction reduction) {
  switch (reduction) {
    case Reduction::Product: return Op::Prod;
    case Reduction::Min: return Op::Min;
    case Reduction::Max: return Op::Max;
    case Reduction::BitAnd: return Op::BAnd;
    case Reduction::BitOr: return Op::BOr;
    case Reduction::BitXor: return Op::BXor;
    default: return Op::Sum;  // Avg divides afterwards, PremulSum multiplies before
  }
}

/// Of bytes that are 0 or 1: sums are "any", products "all".
Op of_bool(Reduction reduction) {
  switch (reduction) {
    case Reduction::Product:
    case Reduction::Min:
    case Reduction::BitAnd: return Op::Min;
    case Reduction::BitXor: return Op::BXor;
    default: return Op::Max;
  }
}

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::Int8: return Type::Int8;
    case DType::Int16: return Type::Int16;
    case DType::Int32: return Type::Int32;
    case DType::Int64: return Type::Int64;
    case DType::UInt16: return Type::UInt16;
    case DType::UInt32: return Type::UInt32;
    case DType::UInt64: return Type::UInt64;
    case DType::Float32:
    case DType::Complex64: return Type::Float;
    case DType::Float64:
    case DType::Complex128: return Type::Double;
    default: return Type::UInt8;
  }
}

}  // namespace

UserFunction* own_reduction(DType dtype, Reduction reduction) {
  if (dtype == DType::Float16) return of<Half>(reduction);
  if (dtype == DType::BFloat16) return of<BFloat16>(reduction);
  return nullptr;
}

Arithmetic arithmetic(DType dtype, Reduction reduction, Op own) {
  if (dtype == DType::Float16 || dtype == DType::BFloat16) return {Type::UInt16, own, 1};
  if (dtype == DType::Bool) return {Type::UInt8, of_bool(reduction), 1};
  return {type_of(dtype), builtin(reduction), is_complex(dtype) ? 2 : 1};
}

}  // namespace facula::distributed::mpi
