// Defines element-wise ops: one description per op (generated), one routine for all.
#pragma once

#include "ops/kernel_table.h"
#include "ops/out.h"

namespace facula::ops {

enum class ResultRule : uint8_t { Same, Bool, Real, Int64, Complex };

struct ElementwiseOp {
  const char* name;
  uint16_t id;      // OpId, remembered by storages as their last writer
  uint16_t loop;    // LoopId
  uint32_t dtypes;  // bit per DType
  ResultRule result;
  bool condition_first;  // the first operand is a condition and takes no part in promotion
  bool factor;           // the number it takes multiplies an operand (alpha, value): no float factor for integers
  bool exact_out;        // out= must have the result's dtype
  uint8_t checks;        // kCheck...
};

// What the schema's key `checks` says of an element-wise op.
constexpr uint8_t kCheckTensor = 1;     // refuses a call with numbers only
constexpr uint8_t kCheckOneDtype = 2;   // refuses operands of different dtypes instead of promoting them
constexpr uint8_t kCheckDegree = 8;     // refuses a second operand above kMostDegree, which would take for ever
constexpr uint8_t kCheckQuotient = 16;  // refuses a second and third operand that are both integers or truth values
constexpr uint8_t kCheckRuntime = 4;    // a dtype that it has not is a RuntimeError, as where PyTorch checks by hand

constexpr bool contains(uint32_t set, DType dtype) { return set >> index(dtype) & 1; }

/// What the tensor is into which an op writes: an `out=` (resized where needed); the operand of an in-place form, which
/// has the broadcast shape already; the same inside of another op, which counts the write itself.
enum class Into : uint8_t { Out, InPlace, Part };

/// What follows from the operands of a call, before anything is allocated.
struct ElementwiseShape {
  DType common;  // what the op computes in, before narrow floats are widened
  DType result;
  Device device;
  Dims sizes;
  bool in_order = false;                     // elements of all tensors lie one after the other, as `sizes` counts them
  Dims order;                                // of the dimensions in memory, innermost first
  std::array<Dims, kMaxInputs + 1> strides;  // of the result, then of the inputs seen as `sizes`; in elements
};
/// All but the order and the strides of the result. Throws what the call throws.
void derive_elementwise(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params,
                        int param_count, ElementwiseShape& derived);
/// The order and the strides of a new result.
void lay_out_result(const Operand* inputs, int count, ElementwiseShape& derived);
/// Writes a number as an element of the dtype; throws where it has no value there.
void store_number(DType dtype, const Scalar& number, char* at);

/// out == nullptr: allocate.
Tensor elementwise(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params, int param_count,
                   const Tensor* out, Into into);

constexpr int64_t kSerialElements = 16384;

inline bool same_shape(const TensorImpl* a, const TensorImpl* b) {
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; ++i)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/// What the op makes of elements of the dtype `compute`.
inline DType loop_result(const ElementwiseOp& op, DType compute) {
  switch (op.result) {
    case ResultRule::Bool: return DType::Bool;
    case ResultRule::Int64: return DType::Int64;
    case ResultRule::Real: return real_dtype(compute);
    case ResultRule::Complex: return complex_dtype(compute);
    default: return compute;
  }
}

/// Whether the numbers suit the dtype: a float factor does not multiply integers.
inline bool factors_fit(const ElementwiseOp& op, DType dtype, const Scalar* params, int count) {
  if (!op.factor || !is_bits(dtype)) return true;
  for (int i = 0; i < count; ++i)
    if (params[i].kind() > DTypeClass::Integral) return false;
  return true;
}

constexpr double kMostDegree = 1 << 24;

/// Whether no operand or number needs to be looked at: where not, the long way says what is wrong.
inline bool numbers_fit(const ElementwiseOp& op, DType dtype, const Scalar* params, int count) {
  if (op.checks & kCheckDegree) return false;
  for (int i = 0; i < count; ++i)
    if (params[i].is_complex() && !is_complex(dtype)) return false;
  return factors_fit(op, dtype, params, count);
}

/// The loop when `a` needs neither promotion nor conversion nor a second thread; null otherwise.
inline LoopFn direct_loop(const ElementwiseOp& op, const TensorImpl* a) {
  bool plain = (a->flags & kContiguous) && a->numel <= kSerialElements && a->storage->device.is_cpu();
  return plain ? loop_table[op.loop][index(a->dtype)] : nullptr;
}

/// The numbers an op hands to its scalar function, in the compute dtype, one after the other.
struct Params {
  alignas(16) char bytes[kMaxParams * 16];
  Params(DType compute, const Scalar* values, int count) {
    if (compute == DType::Float32) {
      for (int i = 0; i < count; ++i) reinterpret_cast<float*>(bytes)[i] = static_cast<float>(values[i].to_double());
    } else if (count) {
      convert(compute, values, count);
    }
  }

 private:
  void convert(DType compute, const Scalar* values, int count);
};

inline Tensor unary(const ElementwiseOp& op, const Operand& a, std::initializer_list<Scalar> params = {}) {
  const int param_count = static_cast<int>(params.size());
  if (const TensorImpl* x = a.impl();
      x && contains(op.dtypes, x->dtype) && numbers_fit(op, x->dtype, params.begin(), param_count)) {
    if (LoopFn loop = direct_loop(op, x)) {
      Tensor out = empty_like_contiguous(x, loop_result(op, x->dtype));
      const LoopInput in[] = {{x->data}};
      Params converted(x->dtype, params.begin(), param_count);
      loop(x->numel, out.impl()->data, in, converted.bytes);
      return out;
    }
  }
  return elementwise(op, &a, 1, params.begin(), param_count, nullptr, Into::Out);
}

/// Makes the buffer what a loop over `n` elements reads of a number; false when the number would promote the dtype.
inline bool fill_number(DType dtype, const Scalar& number, void* buffer, int64_t n) {
  const int64_t count = std::min(n, kRepeats);
  switch (dtype) {
    case DType::Float32:
      if (number.is_complex()) return false;
      std::fill_n(static_cast<float*>(buffer), count, static_cast<float>(number.to_double()));
      return true;
    case DType::Float64:
      if (number.is_complex()) return false;
      std::fill_n(static_cast<double*>(buffer), count, number.to_double());
      return true;
    case DType::Int64:
      if (!number.is_integral() && !number.is_bool()) return false;
      std::fill_n(static_cast<int64_t*>(buffer), count, number.to_int());
      return true;
    default: return false;
  }
}

inline Tensor binary(const ElementwiseOp& op, const Operand& a, const Operand& b,
                     std::initializer_list<Scalar> params = {}) {
  const TensorImpl *x = a.impl(), *y = b.impl();
  if (x && contains(op.dtypes, x->dtype) &&
      numbers_fit(op, x->dtype, params.begin(), static_cast<int>(params.size()))) {
    if (y) {
      if (x->dtype == y->dtype && (y->flags & kContiguous) && same_shape(x, y) && y->storage->device.is_cpu()) {
        if (LoopFn loop = direct_loop(op, x)) {
          Tensor out = empty_like_contiguous(x, loop_result(op, x->dtype));
          const LoopInput in[] = {{x->data}, {y->data}};
          Params converted(x->dtype, params.begin(), static_cast<int>(params.size()));
          loop(x->numel, out.impl()->data, in, converted.bytes);
          return out;
        }
      }
    } else {
      alignas(64) char buffer[kRepeats * 8];
      LoopFn loop = direct_loop(op, x);
      if (loop && fill_number(x->dtype, b.scalar(), buffer, x->numel)) {
        Tensor out = empty_like_contiguous(x, loop_result(op, x->dtype));
        const LoopInput in[] = {{x->data}, {buffer, 0}};
        Params converted(x->dtype, params.begin(), static_cast<int>(params.size()));
        loop(x->numel, out.impl()->data, in, converted.bytes);
        return out;
      }
    }
  }
  const Operand inputs[] = {a, b};
  return elementwise(op, inputs, 2, params.begin(), static_cast<int>(params.size()), nullptr, Into::Out);
}

inline Tensor ternary(const ElementwiseOp& op, const Operand& a, const Operand& b, const Operand& c,
                      std::initializer_list<Scalar> params = {}) {
  const Operand inputs[] = {a, b, c};
  return elementwise(op, inputs, 3, params.begin(), static_cast<int>(params.size()), nullptr, Into::Out);
}

}  // namespace facula::ops
