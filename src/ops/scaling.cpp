// Brings gradients into the form of a pass, and checks what a scaler gives.
#include "ops/scaling.h"

#include <vector>

#include "core/write.h"
#include "raw_ops.h"

namespace facula {

Kernel<void(const UnscalePass&)> unscale_kernel{"_amp_foreach_non_finite_check_and_unscale_"};
Kernel<void(const ScaleUpdate&)> scale_update_kernel{"_amp_update_scale_"};

namespace {

void check_number(const char* op, const char* what, const Tensor& t, DType dtype, Device device) {
  FACULA_CHECK(t.defined() && t.numel() == 1 && t.dtype() == dtype && t.device() == device, ErrorKind::Runtime, op,
               ": ", what, " is one element of ", dtype, " on ", device, ", got ", t.numel(), " of ", t.dtype(), " on ",
               t.device());
  materialize_bytes(t);
}

struct Copied {
  Tensor dense, wanted;
};

}  // namespace

void unscale(TensorList grads, const Tensor& found, const Tensor& factor) {
  const char* op = unscale_kernel.name;
  if (grads.empty()) return;
  const Device device = grads[0].device();
  check_number(op, "found_inf", found, DType::Float32, device);
  check_number(op, "inv_scale", factor, DType::Float32, device);
  for (const Tensor& grad : grads) check_written(grad, op);
  WriteScopes writes;
  writes.emplace_back(found, op);
  std::vector<Copied> copies;
  UnscalePass pass{grads[0].dtype(), 0, {}, {}, found.data<float>(), factor.data<float>()};
  const auto run = [&] {
    if (pass.tensors && !device.is_meta()) unscale_kernel(device, pass);
    pass.tensors = 0;
  };
  for (const Tensor& grad : grads) {
    FACULA_CHECK(grad.is_floating() && grad.device() == device, ErrorKind::Runtime, op,
                 ": expected floating-point gradients on ", device, ", got one of ", grad.dtype(), " on ",
                 grad.device());
    if (grad.numel() == 0) continue;
    Tensor dense = grad;
    if (!grad.is_dense()) {
      dense = facula::empty(grad.sizes(), grad.dtype(), device);
      copy_elements(dense, grad);
      copies.push_back({dense, grad});
    }
    if (pass.tensors == kMostUnscaled || dense.dtype() != pass.dtype) run();
    pass.dtype = dense.dtype();
    pass.grads[static_cast<size_t>(pass.tensors)] = dense.data();
    pass.counts[static_cast<size_t>(pass.tensors++)] = dense.numel();
    writes.emplace_back(grad, op);
  }
  run();
  for (const Copied& c : copies) copy_elements(c.wanted, c.dense);
}

void update_scale(const Tensor& scale, const Tensor& good_steps, const Tensor& found, double growth, double backoff,
                  int64_t interval) {
  const char* op = scale_update_kernel.name;
  check_number(op, "the scale", scale, DType::Float32, scale.device());
  check_number(op, "growth_tracker", good_steps, DType::Int32, scale.device());
  check_number(op, "found_inf", found, DType::Float32, scale.device());
  const WriteScope first(scale, op), second(good_steps, op);
  const ScaleUpdate update{
      scale.data<float>(), good_steps.data<int32_t>(), found.data<float>(), growth, backoff, interval};
  if (!scale.is_meta()) scale_update_kernel(scale.device(), update);
}

}  // namespace facula
