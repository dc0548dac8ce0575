// Gradients and random numbers of the C interface.
#include "autograd/engine.h"
#include "capi/capi.h"
#include "core/backend.h"
#include "core/generator_looks.h"
#include "core/generators.h"
#include "functions.h"

namespace facula::capi {
namespace {

std::vector<Edge> edges_of(const fc_tensor* tensors, size_t count, const char* what) {
  listed(tensors, static_cast<int64_t>(count), what);
  std::vector<Edge> edges;
  for (size_t i = 0; i < count; ++i) {
    const Tensor t = borrow(tensors[i], what);
    FACULA_CHECK(t.requires_grad(), ErrorKind::Runtime, what, ": tensor ", i, " does not require a gradient");
    edges.push_back(gradient_edge(t.impl()));
  }
  return edges;
}

Generator& borrow_generator(fc_generator generator, const char* what) {
  FACULA_CHECK(generator, ErrorKind::Value, what, ": the generator is NULL");
  return *generator->generator;
}

std::vector<Tensor> roots_of(const fc_tensor* outputs, const fc_tensor* grads, size_t count, const char* what) {
  std::vector<Tensor> made;
  for (size_t i = 0; i < count; ++i) {
    const Tensor t = borrow(outputs[i], what);
    if (grads && grads[i]) {
      made.push_back(borrow(grads[i], what));
      FACULA_CHECK(made.back().sizes() == t.sizes(), ErrorKind::Runtime, what, ": gradient ", i,
                   " has another shape than its tensor");
      continue;
    }
    FACULA_CHECK(t.numel() == 1, ErrorKind::Runtime, what, ": a gradient can be left out for one element only, got ",
                 t.numel());
    made.push_back(ones_like(t));
  }
  return made;
}

}  // namespace
}  // namespace facula::capi

using namespace facula;
using namespace facula::capi;

extern "C" {

bool fc_grad_enabled(void) { return thread_state.grad_enabled; }
void fc_set_grad_enabled(bool enabled) { thread_state.grad_enabled = enabled; }
bool fc_tensor_requires_grad(fc_tensor tensor) { return tensor && (impl(tensor)->flags & kRequiresGrad); }

fc_status fc_tensor_set_requires_grad(fc_tensor tensor, bool requires_grad) {
  return guarded([&] { set_requires_grad(borrow(tensor, "fc_tensor_set_requires_grad"), requires_grad); });
}
bool fc_tensor_is_leaf(fc_tensor tensor) {
  return tensor && (!fc_tensor_requires_grad(tensor) || !grad_fn(impl(tensor)));
}
fc_status fc_tensor_retain_grad(fc_tensor tensor) {
  return guarded([&] { retain_grad(borrow(tensor, "fc_tensor_retain_grad")); });
}
fc_status fc_tensor_detach(fc_tensor tensor, fc_tensor* out) {
  return guarded([&] {
    fc_tensor& place = there(out, "fc_tensor_detach");
    place = give(alias(borrow(tensor, "fc_tensor_detach")));
  });
}
fc_status fc_tensor_grad(fc_tensor tensor, fc_tensor* out) {
  return guarded([&] {
    fc_tensor& place = there(out, "fc_tensor_grad");
    const Tensor grad = grad_of(borrow(tensor, "fc_tensor_grad"));
    place = grad.defined() ? give(grad) : nullptr;
  });
}
fc_status fc_tensor_set_grad(fc_tensor tensor, fc_tensor grad) {
  return guarded([&] {
    const Tensor t = borrow(tensor, "fc_tensor_set_grad"), g = grad ? borrow(grad, "fc_tensor_set_grad") : Tensor();
    const bool fits = !g.defined() || (g.sizes() == t.sizes() && g.dtype() == t.dtype() && g.device() == t.device());
    FACULA_CHECK(fits, ErrorKind::Runtime,
                 "fc_tensor_set_grad: a gradient has the shape, the dtype and the device of its tensor");
    FACULA_CHECK(!g.is_same(t), ErrorKind::Runtime, "fc_tensor_set_grad: a tensor cannot be its own gradient");
    set_grad_of(t, g);
  });
}

fc_status fc_tensor_backward(fc_tensor tensor, fc_tensor grad, bool keep_graph, bool create_graph) {
  return guarded([&] {
    const auto roots = edges_of(&tensor, 1, "fc_tensor_backward");
    run_backward(roots, roots_of(&tensor, &grad, 1, "fc_tensor_backward"), {},
                 {.keep_graph = keep_graph || create_graph, .create_graph = create_graph});
  });
}

fc_status fc_grad(const fc_tensor* outputs, const fc_tensor* grads, size_t output_count, const fc_tensor* inputs,
                  size_t input_count, bool keep_graph, bool create_graph, fc_tensor* out) {
  return guarded([&] {
    FACULA_CHECK(out || input_count == 0, ErrorKind::Value, "fc_grad: there is no place for the results (NULL)");
    const auto roots = edges_of(outputs, output_count, "fc_grad"), ends = edges_of(inputs, input_count, "fc_grad");
    const std::vector<Tensor> made =
        run_backward(roots, roots_of(outputs, grads, output_count, "fc_grad"), ends,
                     {.keep_graph = keep_graph || create_graph, .create_graph = create_graph, .accumulate = false});
    for (size_t i = 0; i < input_count; ++i) out[i] = made[i].defined() ? give(made[i]) : nullptr;
  });
}

fc_status fc_manual_seed(uint64_t seed) {
  return guarded([&] {
    Generator& cpu = default_generator(kCPU);
    {
      const std::scoped_lock lock(cpu.mutex);
      cpu.seed(seed);
    }
    seed_other_devices(seed);
  });
}
fc_status fc_generator_new(const char* device, uint64_t seed, fc_generator* out) {
  return guarded([&] {
    fc_generator& place = there(out, "fc_generator_new");
    std::shared_ptr<Generator> made = owned(make_generator(device_of(device)));
    made->seed(seed);
    place = new fc_generator_s{std::move(made)};
  });
}
fc_status fc_generator_default(const char* device, fc_generator* out) {
  return guarded([&] {
    fc_generator& place = there(out, "fc_generator_default");
    place = new fc_generator_s{share(&default_generator(concrete(device_of(device))))};
  });
}
fc_status fc_generator_seed(fc_generator generator, uint64_t seed) {
  return guarded([&] {
    Generator& g = borrow_generator(generator, "fc_generator_seed");
    const std::scoped_lock lock(g.mutex);
    g.seed(seed);
  });
}
fc_status fc_generator_state(fc_generator generator, fc_tensor* out) {
  return guarded([&] {
    Generator& g = borrow_generator(generator, "fc_generator_state");
    fc_tensor& place = there(out, "fc_generator_state");
    const Tensor state = empty({static_cast<int64_t>(g.state_bytes())}, DType::UInt8);
    const std::scoped_lock lock(g.mutex);
    g.get_state(state.data<uint8_t>());
    note_look(g);
    place = give(state);
  });
}
fc_status fc_generator_set_state(fc_generator generator, fc_tensor state) {
  return guarded([&] {
    Generator& g = borrow_generator(generator, "fc_generator_set_state");
    const Tensor t = borrow(state, "fc_generator_set_state");
    FACULA_CHECK(t.dtype() == DType::UInt8 && t.is_cpu() && t.dim() == 1, ErrorKind::Type,
                 "fc_generator_set_state: expected a vector of uint8 on the CPU, got ", t.dtype(), " on ", t.device());
    const Tensor bytes = contiguous(t);
    materialize_bytes(bytes);
    const std::scoped_lock lock(g.mutex);
    g.set_state(bytes.data<uint8_t>(), static_cast<size_t>(bytes.numel()));
  });
}
void fc_generator_release(fc_generator generator) { delete generator; }

}  // extern "C"
