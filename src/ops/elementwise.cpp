#include "ops/elementwise.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/number.h"
#include "core/write.h"
#include "ops/checks.h"
#include "ops/elementwise_small.h"
#include "raw_elementwise.h"

namespace facula {

LoopFn (*loop_table)[kDTypes] = nullptr;
bool* light_loops = nullptr;

namespace ops {
namespace {

void check_operands(const ElementwiseOp& op, const Operand* inputs, int count) {
  bool any = false;
  for (int i = 0; i < count; ++i) {
    any |= inputs[i].is_tensor();
    bool refused = op.factor && count == 2 && !contains(op.dtypes, DType::Bool) && inputs[i].is_tensor() &&
                   inputs[i].dtype() == DType::Bool;
    FACULA_CHECK(!refused, ErrorKind::Runtime, op.name,
                 ": not defined for bool tensors (use logical_xor, or convert first), got a bool tensor");
  }
  FACULA_CHECK(any || !(op.checks & kCheckTensor), ErrorKind::Type, op.name,
               ": expected at least one Tensor, got only numbers");
}

void check_one_dtype(const ElementwiseOp& op, const Operand* inputs, int count, DType common) {
  for (int i = 1; i < count; ++i) {
    // a weight without dimensions counts as a number
    const TensorImpl* t = inputs[i].impl();
    const bool counts_as_number = i == 2 && t && t->ndim == 0 && common == inputs[0].dtype();
    FACULA_CHECK(!t || counts_as_number || t->dtype == inputs[0].dtype(), ErrorKind::Runtime, op.name,
                 ": tensors of one dtype, got ", inputs[0].dtype(), " and ", inputs[i].dtype());
  }
}

void check_quotient(const ElementwiseOp& op, const Operand& above, const Operand& below) {
  FACULA_CHECK(!is_bits(above.dtype()) || !is_bits(below.dtype()), ErrorKind::Runtime, op.name,
               ": Integer division is no longer supported, one of both tensors must be floating or complex, got ",
               above.dtype(), " and ", below.dtype());
}

void check_degree(const ElementwiseOp& op, const Operand& degree) {
  if (!degree.is_tensor()) {
    const double number = degree.scalar().to_double();  // what no integer can hold counts as negative
    FACULA_CHECK(!(number > kMostDegree && number < 0x1p63), ErrorKind::Runtime, op.name,
                 ": expected a degree of at most ", static_cast<int64_t>(kMostDegree), ", got ", degree.scalar());
    return;
  }
  check_values(degree.tensor(), {Holds::Degree, ErrorKind::Runtime, op.name, "degrees of at most 16777216"});
}

Dims broadcast_shape(const ElementwiseOp& op, const Operand* inputs, int count) {
  Dims shape;
  for (int i = 0; i < count; ++i) {
    if (inputs[i].impl()) shape = broadcast(shape, inputs[i].impl()->sizes(), op.name);
  }
  return shape;
}

// The dtype the op computes in, before narrow floats are widened.
DType common_dtype(const ElementwiseOp& op, const Operand* inputs, int count) {
  ResultType result;
  for (int i = op.condition_first; i < count; ++i) result.add(inputs[i]);
  DType common = result.get();
  if (contains(op.dtypes, common)) return common;
  if (is_bits(common) && contains(op.dtypes, default_dtype()) && !contains(op.dtypes, DType::Int64))
    return default_dtype();
  broadcast_shape(op, inputs, count);  // shapes that do not fit are said first
  throw_error(op.checks & kCheckRuntime ? ErrorKind::Runtime : ErrorKind::NotImplemented, op.name,
              ": not implemented for dtype ", common);
}

Device common_device(const ElementwiseOp& op, const Operand* inputs, int count) {
  Device device = kCPU;
  int first = 0;
  bool found = false, only_scalars = false;  // so far 0-d CPU tensors, which may stand beside tensors of another device
  for (int i = 0; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (!t) continue;
    Device here = t->storage->device;
    bool scalar = here.is_cpu() && t->ndim == 0;
    FACULA_CHECK(!found || here == device || scalar || only_scalars, ErrorKind::Runtime, op.name,
                 ": all tensors must be on the same device (to(device) moves them), got argument ", first + 1, " on ",
                 device, " and argument ", i + 1, " on ", here);
    if (!found || only_scalars) device = here, first = i;
    only_scalars = (!found || only_scalars) && scalar;
    found = true;
  }
  return device;
}

void to_bytes(Dims& strides, int64_t size) {
  for (int64_t& s : strides) s = wrapping_mul(s, size);
}

// The strides of a new result: dense, with the dimensions in the order in which they lie in the operands.
Dims result_strides(const Operand* inputs, int count, IntList shape) {
  std::array<Dims, kMaxInputs> strides;
  size_t tensors = 0;
  for (int i = 0; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (t && t->ndim > 0) strides[tensors++] = broadcast_strides(t->sizes(), t->strides(), shape);
  }
  return dense_strides(shape, dimension_order(shape, {strides.data(), tensors}));
}

// Checks the tensor that receives the result, and makes it fit when it is an out=.
void prepare_given(const ElementwiseOp& op, const Tensor& given, IntList shape, DType result, Device device,
                   bool in_place, const Operand* inputs, int count) {
  if (in_place) {
    FACULA_CHECK(given.sizes() == shape, ErrorKind::Runtime, op.name, "_: the result must fit in place into shape ",
                 given.sizes(), ", got ", shape);
  }
  bool fits = op.exact_out && !in_place ? result == given.dtype() : can_cast(result, given.dtype());
  FACULA_CHECK(fits, ErrorKind::Runtime, op.name, ": the result cannot be written into the tensor, since result type ",
               result, " can't be cast to ", given.dtype());
  FACULA_CHECK(given.device() == device, ErrorKind::Runtime, op.name, ": out must be on ", device, ", got ",
               given.device());
  check_writes_to(given, shape, op.name);
  if (!in_place && given.sizes() != shape) {
    for (int i = 0; i < count; ++i)
      FACULA_CHECK(inputs[i].impl() != given.impl(), ErrorKind::Runtime, op.name, ": the result has shape ", shape,
                   ", to which out= cannot be resized, as it is an input as well, got shape ", given.sizes());
    resize_output(given, shape, op.name);
    set_sizes(given.impl(), shape, result_strides(inputs, count, shape));
  }
  for (int i = 0; i < count; ++i) {
    if (inputs[i].impl()) check_no_partial_overlap(given, inputs[i].tensor(), op.name);
  }
}

}  // namespace

void store_number(DType dtype, const Scalar& number, char* at) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    T value = element_of<T>(number);
    std::memcpy(at, &value, sizeof value);
  });
}

void Params::convert(DType compute, const Scalar* values, int count) {
  for (int i = 0; i < count; ++i) store_number(compute, values[i], bytes + i * item_size(compute));
}

namespace {

void make_row(PlanOperand& operand, char* data, DType dtype) {
  operand.data = data;
  operand.dtype = dtype;
  operand.strides.push_back(item_size(dtype));
}

/// Whether a call on same operands is a plan of one row, which need not be derived from shapes: on another device. In
/// place, no operand may lie elsewhere in the memory that is written.
bool is_one_row(const ElementwiseOp& op, const Operand* inputs, int count, const TensorImpl* same,
                const Tensor* given) {
  const Device device = same->storage->device;
  if (op.condition_first || same->numel == 0 || device.is_cpu() || device.is_meta()) return false;
  if (!given) return true;
  const TensorImpl* out = given->impl();
  if (inputs[0].impl() != out || loop_result(op, same->dtype) != out->dtype || out->storage->asks_first()) return false;
  for (int i = 1; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (t && t->storage == out->storage && t->data != out->data) return false;
  }
  return true;
}

void run_one_row(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params, int param_count,
                 const TensorImpl* same, const Tensor& out) {
  Plan plan;
  plan.inputs = count;
  plan.numel = same->numel;
  plan.shape.push_back(same->numel);
  plan.compute = compute_dtype(same->dtype);
  plan.loop = op.loop;
  plan.loop_result = loop_result(op, plan.compute);
  make_row(plan.out, out.impl()->data, out.dtype());
  for (int i = 0; i < count; ++i) {
    if (const TensorImpl* t = inputs[i].impl()) {
      make_row(plan.in[i], t->data, t->dtype);
      continue;
    }
    make_row(plan.in[i], plan.numbers[i], plan.compute);
    plan.in[i].strides[0] = 0;
    plan.in[i].residency = Residency::Number;
    store_number(plan.compute, inputs[i].scalar(), plan.numbers[i]);
  }
  for (int i = 0; i < param_count; ++i)
    store_number(plan.compute, params[i], plan.params + i * item_size(plan.compute));
  run_plan(same->storage->device, plan);
}

uint32_t flags_of(const Operand* inputs, int count) {
  uint32_t flags = 0;
  for (int i = 0; i < count; ++i) flags |= inputs[i].flags();
  return flags;
}

/// The same on memory that nobody exchanges while it is read (see hold()).
[[gnu::cold]] Tensor on_held_memory(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params,
                                    int param_count, const Tensor* out, Into into) {
  std::array<Tensor, kMaxInputs> held;
  std::array<Operand, kMaxInputs> operands = {Scalar(0), Scalar(0), Scalar(0)};
  for (int i = 0; i < count; ++i) {
    operands[i] = inputs[i];
    if (!(inputs[i].flags() & kPrivateLayout)) continue;
    held[i] = hold(inputs[i].tensor());
    held[i].impl()->flags &= ~static_cast<uint32_t>(kPrivateLayout);
    operands[i] = Operand(held[i]);
  }
  return elementwise(op, operands.data(), count, params, param_count, out, into);
}

/// Whether a result goes to memory of its own first: an operand would change while it is read, a narrow float would not
/// be rounded to its own precision, or `given` shows conjugates.
bool needs_own_memory(const Tensor& given, const Operand* inputs, int count, DType result) {
  if (given.is_conj() || (compute_dtype(result) != result && given.dtype() != result)) return true;
  for (int i = 0; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (!t || t == given.impl() || !share_bytes(t->storage, given.storage())) continue;
    const bool same = t->data == given.impl()->data && t->sizes() == given.sizes() && t->strides() == given.strides();
    if (!same || t->dtype != given.dtype()) return true;
  }
  return false;
}

/// Computes the op on memory of its device.
void run_derived(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params, int param_count,
                 ElementwiseShape& derived, const Tensor& result) {
  Plan plan;
  plan.inputs = count;
  plan.numel = result.numel();
  plan.compute = compute_dtype(derived.common);
  plan.loop = op.loop;
  plan.loop_result = loop_result(op, plan.compute);
  plan.out.data = result.impl()->data;
  plan.out.dtype = result.dtype();
  to_bytes(derived.strides[0], result.item_size());
  for (int i = 0; i < count; ++i) {
    PlanOperand& operand = plan.in[i];
    const TensorImpl* t = inputs[i].impl();
    if (t && t->storage->device == derived.device) {
      operand.data = t->data;
      operand.dtype = t->dtype;
      to_bytes(derived.strides[i + 1], item_size(t->dtype));
    } else {
      operand.data = plan.numbers[i];
      operand.residency = Residency::Number;
      operand.dtype = plan.compute;
      store_number(plan.compute, t ? inputs[i].tensor().item() : inputs[i].scalar(), plan.numbers[i]);
    }
  }
  for (int i = 0; i < param_count; ++i)
    store_number(plan.compute, params[i], plan.params + i * item_size(plan.compute));
  collapse(plan, derived.sizes, {derived.strides.data(), static_cast<size_t>(count) + 1}, derived.order);
  run_plan(derived.device, plan);
}

/// What follows from same operands: nothing is to be broadcast, converted or refused. False where a dimension has one
/// element, whose strides may be anything.
bool derive_same(const ElementwiseOp& op, const Operand* inputs, int count, const TensorImpl* same,
                 ElementwiseShape& derived) {
  for (int d = 0; d < same->ndim; ++d)
    if (same->dims[d] <= 1) return false;
  derived.common = same->dtype;
  derived.result = loop_result(op, same->dtype);
  derived.device = same->storage->device;
  derived.sizes = Dims(same->sizes());
  for (int i = 0; i < count; ++i)
    derived.strides[i + 1] = inputs[i].impl() ? Dims(same->strides()) : Dims(derived.sizes.size());
  derived.in_order = true;
  return true;
}

void derive(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params, int param_count,
            const TensorImpl* same, ElementwiseShape& derived) {
  if (same && derive_same(op, inputs, count, same, derived)) return;
  check_operands(op, inputs, count);
  const DType common = common_dtype(op, inputs, count);
  if (op.checks & kCheckOneDtype) check_one_dtype(op, inputs, count, common);
  if (op.checks & kCheckDegree) check_degree(op, inputs[1]);
  for (int i = 0; i < param_count; ++i) {
    FACULA_CHECK(!params[i].is_complex() || is_complex(common), ErrorKind::Runtime, op.name,
                 ": a real number for tensors of ", common, ", got ", params[i]);
  }
  FACULA_CHECK(factors_fit(op, common, params, param_count), ErrorKind::Runtime, op.name,
               ": alpha and value of integer tensors must be integers, got ", params[0]);
  derived.common = common;
  derived.result = loop_result(op, common);
  derived.device = common_device(op, inputs, count);
  derived.sizes = broadcast_shape(op, inputs, count);
  for (int i = 0; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    derived.strides[i + 1] =
        t ? broadcast_strides(t->sizes(), t->strides(), derived.sizes) : Dims(derived.sizes.size());
  }
}

}  // namespace

void derive_elementwise(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params,
                        int param_count, ElementwiseShape& derived) {
  derive(op, inputs, count, params, param_count, same_operands(op, inputs, count, params, param_count), derived);
}

void lay_out_result(const Operand* inputs, int count, ElementwiseShape& derived) {
  if (derived.in_order) {
    const size_t dims = derived.sizes.size();
    derived.order.resize(dims);
    for (size_t d = 0; d < dims; ++d) derived.order[d] = static_cast<int64_t>(dims - 1 - d);
    derived.strides[0] = contiguous_strides(derived.sizes);
    return;
  }
  std::array<Dims, kMaxInputs> of_tensors;
  size_t tensors = 0;
  for (int i = 0; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (t && t->ndim > 0) of_tensors[tensors++] = derived.strides[i + 1];
  }
  derived.order = dimension_order(derived.sizes, {of_tensors.data(), tensors});
  derived.strides[0] = dense_strides(derived.sizes, derived.order);
}

Tensor elementwise(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params, int param_count,
                   const Tensor* out, Into into) {
  const bool in_place = into != Into::Out;
  if (op.checks & kCheckQuotient) check_quotient(op, inputs[1], inputs[2]);
  const TensorImpl* same = same_operands(op, inputs, count, params, param_count);
  if (Tensor result = out ? *out : Tensor(); small_call(op, inputs, count, params, param_count, same, result)) {
    if (out && into != Into::Part) count_write(result, op.id);
    return result;
  }
  if (same && (in_place || !out) && is_one_row(op, inputs, count, same, out)) {
    const Tensor result = out ? *out : empty_like_contiguous(same, loop_result(op, same->dtype));
    std::optional<WriteScope> write;
    if (into == Into::InPlace) write.emplace(result, op.name, op.id);
    run_one_row(op, inputs, count, params, param_count, same, result);
    return result;
  }
  if (__builtin_expect(out && (flags_of(inputs, count) & kPrivateLayout), 0))
    return on_held_memory(op, inputs, count, params, param_count, out, into);
  ElementwiseShape derived;
  derive(op, inputs, count, params, param_count, same, derived);
  const IntList shape = derived.sizes;
  if (out) {
    prepare_given(op, *out, shape, derived.result, derived.device, in_place, inputs, count);
    if (!in_place && needs_own_memory(*out, inputs, count, derived.result)) {
      const Tensor made = elementwise(op, inputs, count, params, param_count, nullptr, Into::Out);
      const WriteScope write(*out, op.name, op.id);
      copy_elements(write.target(), made);
      return *out;
    }
  }
  std::optional<WriteScope> write;
  if (out && into != Into::Part) write.emplace(*out, op.name, op.id);

  std::array<Dims, kMaxInputs + 1>& strides = derived.strides;
  Tensor result;
  if (out) {
    result = write ? write->target() : *out;
    strides[0] = Dims(result.strides());
    derived.order = dimension_order(shape, {strides.data(), 1});
  } else {
    lay_out_result(inputs, count, derived);
    result = facula::empty_strided(shape, strides[0], derived.result, derived.device);
  }
  if (derived.device.is_meta() || result.numel() == 0) return out ? *out : result;
  run_derived(op, inputs, count, params, param_count, derived, result);
  return out ? *out : result;
}

}  // namespace ops
}  // namespace facula
