#include "autograd/function_support.h"

#include <exception>

#include "autograd/copy_and_notify.h"
#include "core/public_names.h"
#include "core/sparse.h"
#include "ops/kernel_table.h"

namespace facula {

namespace {

/// Names of the arguments that are tensors or lists of them, from the schema; none for what is not an op of it.
std::vector<std::string> tensor_arguments(const char* op) {
  std::vector<std::string> names;
  const OpInfo* info = find_op_info(op);
  std::string_view left = info ? info->arguments : "";
  while (!left.empty()) {
    const size_t end = std::min(left.find(", "), left.size());
    const std::string_view argument = left.substr(0, end);
    if (argument.starts_with("Tensor"))
      names.emplace_back(argument.substr(argument.find(' ') + 1, argument.find('=') - argument.find(' ') - 1));
    left.remove_prefix(std::min(end + 2, left.size()));
  }
  return names;
}

}  // namespace

void report_devices(const char* op, const std::vector<TensorList>& arguments) {
  const std::vector<std::string> names = tensor_arguments(op);
  std::string places;
  size_t number = 0;
  for (TensorList list : arguments) {
    const std::string name = number < names.size() ? names[number] : "argument " + std::to_string(number + 1);
    const std::string public_name = name == "self" ? "input" : name;
    ++number;
    for (size_t i = 0; i < list.size(); ++i) {
      if (!list[i].defined() || (i > 0 && list[i].device() == list[0].device())) continue;
      places += (places.empty() ? "" : ", ") + public_name + (list.size() > 1 ? "[" + std::to_string(i) + "]" : "") +
                " on " + to_string(list[i].device());
    }
  }
  throw_error(ErrorKind::Runtime, op, ": all tensors must be on the same device (to(device) moves them), got ", places);
}

void check_out(const char* op, uint32_t inputs, OutHistory history, List<const Tensor*> outs) {
  uint32_t written = 0;
  for (const Tensor* out : outs) {
    materialize_bytes(*out);
    written |= out->flags();
  }
  if ((inputs | written) & kBatched) report_batched_out(op);
  for (const Tensor* out : outs)
    FACULA_CHECK(!((inputs | out->flags()) & kDual) || !is_inexact(out->dtype()) || !thread_state.forward_grad_enabled,
                 ErrorKind::NotImplemented, op,
                 ": an out= function does not support forward mode, but one of the arguments is a dual tensor");
  for (const Tensor* out : outs)
    FACULA_CHECK(!(out->flags() & kSparse) || (inputs & kSparse), ErrorKind::Runtime, op,
                 ": out= must be strided where no input is sparse, got layout ", layout_of(*out));
  if (history == OutHistory::None || !GradMode::enabled() || !((written | inputs) & kRequiresGrad)) return;
  bool refused = (inputs & kRequiresGrad) || history == OutHistory::Recorded;
  for (const Tensor* out : outs) refused |= (out->flags() & kRequiresGrad) && !grad_fn(out->impl());
  FACULA_CHECK(!refused, ErrorKind::Runtime, op,
               ": out= has no derivative, so no argument may require grad, got one that does");
}

Tensor unrecorded_view(Tensor view) {
  const AutogradMeta* base = view.impl()->base ? autograd_meta(view.impl()->base) : nullptr;
  if (base && base->generation) own_autograd_meta(view.impl()).base_generation = base->generation;
  return view;
}

void EndOfHistory::begin(const char* op, OutHistory history, const Tensor& out) {
  if (!grad_fn(out.impl())) return;  // a leaf
  check_writable(out, op);
  op_ = op;
  out_ = &out;
  history_ = history;
  failures_ = std::uncaught_exceptions();
}

void EndOfHistory::end() noexcept {
  if (std::uncaught_exceptions() > failures_) return;
  if (history_ == OutHistory::None) {
    erase_history(*out_, op_);
    return;
  }
  auto node = Ref<MissingDerivative>::adopt(new MissingDerivative(op_));
  set_history_in_place(*out_, node.get());
}

void check_stated(const char* op, const Tensor& out, std::optional<DType> dtype, std::optional<Device> device) {
  FACULA_CHECK(!dtype || *dtype == out.dtype(), ErrorKind::Runtime, op, ": expected out= of the requested dtype, ",
               *dtype, ", got ", out.dtype());
  FACULA_CHECK(!device || concrete(*device) == out.device(), ErrorKind::Runtime, op,
               ": expected out= on the requested device, ", *device, ", got ", out.device());
}

void MissingDerivative::apply(const Tensor*, Tensor*) {
  throw_error(ErrorKind::Runtime, op_,
              ": the derivative is not implemented, got a backward pass through it (detach() its inputs)");
}

void write_result(const Tensor& self, const Tensor& value, uint16_t op) {
  const bool same = value.is_same(self);  // the op had nothing to change
  FACULA_CHECK(value.sizes() == self.sizes(), ErrorKind::Runtime, op_name(op),
               "_: the result must fit in place into shape ", self.sizes(), ", got ", value.sizes());
  check_castable(value, self, op_name(op) + std::string("_"));
  const WriteScope write(self, op_name(op), op);
  if (!same) copy_and_notify(write.target(), hold(value));
}

void assign_values(const Tensor& self, const Tensor& value, uint16_t op) {
  if ((self.flags() | value.flags()) & kBatched) {
    write_batched(self, value, op_name(op), false);
    return;
  }
  check_not_inference(self, op_name(op));
  if (recorded_flags_of(value) | written_flags_of(self)) {
    check_writable(self, op_name(op));
    assign(self, value, op);
  } else {
    write_result(self, value, op);
  }
  note_write(self);
}

}  // namespace facula
