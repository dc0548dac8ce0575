// Ops by name, gradients, random numbers and programs of the C interface.
#include <algorithm>
#include <map>
#include <mutex>

#include "autograd/engine.h"
#include "capi/capi.h"
#include "functions.h"

namespace facula::capi {
namespace {

/// What the C interface tells of an op: texts that live as long as the library.
struct OpTexts {
  std::string name, signature;
  std::vector<std::string> types;
};

const OpTexts& texts_of(const BoxedOp* op) {
  static std::mutex mutex;
  static auto* const known = new std::map<const BoxedOp*, OpTexts>;
  const std::scoped_lock lock(mutex);
  const auto [place, fresh] = known->try_emplace(op);
  if (fresh) {
    place->second = {op->key(), op->signature(), {}};
    for (const BoxedArgument& a : op->arguments) place->second.types.push_back(a.type.text());
  }
  return place->second;
}

const std::vector<const BoxedOp*>& ops() {
  static const auto* const all = new std::vector<const BoxedOp*>(all_boxed());
  return *all;
}

const BoxedOp* boxed(fc_op op) { return reinterpret_cast<const BoxedOp*>(op); }

std::vector<Value> completed(const BoxedOp& op, const fc_value* given, size_t count) {
  FACULA_CHECK(count <= op.arguments.size(), ErrorKind::Type, op.key(), ": takes ", op.arguments.size(),
               " arguments, got ", count);
  std::vector<Value> values;
  values.reserve(op.arguments.size());
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const BoxedArgument& argument = op.arguments[i];
    if (i >= count || given[i].kind == FC_DEFAULT) {
      FACULA_CHECK(!argument.required, ErrorKind::Type, op.key(), ": the argument ", argument.name, " is missing");
      values.push_back(argument.default_value);
      continue;
    }
    values.push_back(from_c(given[i], argument.name.c_str()));
    FACULA_CHECK(argument.type.accepts(values.back()), ErrorKind::Type, op.key(), ": ", argument.name, " must be ",
                 argument.type.text(), ", got ", name(values.back().kind()));
  }
  return values;
}

std::vector<Edge> edges_of(const fc_tensor* tensors, size_t count, const char* what) {
  std::vector<Edge> edges;
  for (size_t i = 0; i < count; ++i) {
    const Tensor t = borrow(tensors[i], what);
    FACULA_CHECK(t.requires_grad(), ErrorKind::Runtime, what, ": tensor ", i, " does not require a gradient");
    edges.push_back(gradient_edge(t.impl()));
  }
  return edges;
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

size_t fc_op_count(void) { return facula::capi::ops().size(); }
fc_op fc_op_at(size_t index) {
  return index < fc_op_count() ? reinterpret_cast<fc_op>(facula::capi::ops()[index]) : nullptr;
}
fc_op fc_op_find(const char* name) {
  const BoxedOp* op = nullptr;
  guarded([&] {
    if (!name) return;
    const std::string word = name, plain = word + ".default";
    const bool bare = word.find('.') == std::string::npos;
    op = find_boxed(word);
    if (!op && bare) op = find_boxed(plain);
    if (!op) op = find_aten(word);
    if (!op && bare) op = find_aten(plain);
  });
  return reinterpret_cast<fc_op>(op);
}
const char* fc_op_name(fc_op op) { return op ? texts_of(boxed(op)).name.c_str() : nullptr; }
const char* fc_op_signature(fc_op op) { return op ? texts_of(boxed(op)).signature.c_str() : nullptr; }
int32_t fc_op_argument_count(fc_op op) { return op ? static_cast<int32_t>(boxed(op)->arguments.size()) : 0; }
int32_t fc_op_result_count(fc_op op) { return op ? static_cast<int32_t>(boxed(op)->results.size()) : 0; }

const char* fc_op_argument_name(fc_op op, int32_t index) {
  const bool there = index >= 0 && index < fc_op_argument_count(op);
  return there ? boxed(op)->arguments[static_cast<size_t>(index)].name.c_str() : nullptr;
}
const char* fc_op_argument_type(fc_op op, int32_t index) {
  const bool there = index >= 0 && index < fc_op_argument_count(op);
  return there ? texts_of(boxed(op)).types[static_cast<size_t>(index)].c_str() : nullptr;
}

fc_status fc_call(fc_op op, const fc_value* arguments, size_t count, fc_value* results) {
  return guarded([&] {
    FACULA_CHECK(op, ErrorKind::Value, "fc_call: there is no such op (fc_op_find gave NULL)");
    const BoxedOp& row = *boxed(op);
    const std::vector<Value> values = completed(row, arguments, count);
    std::vector<const Value*> given;
    for (const Value& v : values) given.push_back(&v);
    std::vector<Value> made(std::max<size_t>(row.results.size(), 1));
    row.call(given.data(), made.data());
    for (size_t i = 0; i < row.results.size(); ++i) to_c(made[i], results[i]);
  });
}

bool fc_grad_enabled(void) { return thread_state.grad_enabled; }
void fc_set_grad_enabled(bool enabled) { thread_state.grad_enabled = enabled; }
bool fc_tensor_requires_grad(fc_tensor tensor) { return tensor && (impl(tensor)->flags & kRequiresGrad); }

fc_status fc_tensor_set_requires_grad(fc_tensor tensor, bool requires_grad) {
  return guarded([&] { set_requires_grad(borrow(tensor, "fc_tensor_set_requires_grad"), requires_grad); });
}
fc_status fc_tensor_grad(fc_tensor tensor, fc_tensor* out) {
  return guarded([&] {
    const Tensor grad = grad_of(borrow(tensor, "fc_tensor_grad"));
    *out = grad.defined() ? give(grad) : nullptr;
  });
}
fc_status fc_tensor_set_grad(fc_tensor tensor, fc_tensor grad) {
  return guarded([&] {
    const Tensor t = borrow(tensor, "fc_tensor_set_grad"), g = grad ? borrow(grad, "fc_tensor_set_grad") : Tensor();
    FACULA_CHECK(!g.defined() || (g.sizes() == t.sizes() && g.dtype() == t.dtype()), ErrorKind::Runtime,
                 "fc_tensor_set_grad: a gradient has the shape and the dtype of its tensor");
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
    auto made = std::make_unique<fc_generator_s>(fc_generator_s{make_generator(device_of(device))});
    made->generator->seed(seed);
    *out = made.release();
  });
}
fc_status fc_generator_seed(fc_generator generator, uint64_t seed) {
  return guarded([&] {
    FACULA_CHECK(generator, ErrorKind::Value, "fc_generator_seed: the generator is NULL");
    const std::scoped_lock lock(generator->generator->mutex);
    generator->generator->seed(seed);
  });
}
void fc_generator_release(fc_generator generator) { delete generator; }

fc_status fc_program_parse(const char* text, fc_program* out) {
  return guarded([&] {
    FACULA_CHECK(text, ErrorKind::Value, "fc_program_parse: the text is NULL");
    auto program = std::make_shared<const Program>(Program::parse(text));
    auto made = std::unique_ptr<fc_program_s>(new fc_program_s{Runner(program), {}});
    for (const ProgramInput& input : program->inputs)
      if (input.kind == ProgramInput::Kind::User) made->inputs.push_back(&input);
    *out = made.release();
  });
}
void fc_program_release(fc_program program) { delete program; }

fc_status fc_program_text(fc_program program, char* text, size_t room, size_t* needed) {
  return guarded([&] {
    FACULA_CHECK(program, ErrorKind::Value, "fc_program_text: the program is NULL");
    const std::string all = program->runner.program().text();
    if (needed) *needed = all.size() + 1;
    if (text && room > all.size()) std::copy_n(all.c_str(), all.size() + 1, text);
  });
}
int32_t fc_program_input_count(fc_program program) {
  return program ? static_cast<int32_t>(program->inputs.size()) : 0;
}
const char* fc_program_input_name(fc_program program, int32_t index) {
  const bool there = index >= 0 && index < fc_program_input_count(program);
  return there ? program->inputs[static_cast<size_t>(index)]->path.c_str() : nullptr;
}
int32_t fc_program_output_count(fc_program program) {
  return program ? static_cast<int32_t>(program->runner.program().outputs.size()) : 0;
}
fc_status fc_program_run(fc_program program, const fc_value* inputs, size_t count, fc_value* results) {
  return guarded([&] {
    FACULA_CHECK(program, ErrorKind::Value, "fc_program_run: the program is NULL");
    std::vector<Value> values;
    for (size_t i = 0; i < count; ++i) {
      const char* input = fc_program_input_name(program, static_cast<int32_t>(i));
      values.push_back(from_c(inputs[i], input ? input : "fc_program_run"));
    }
    const std::vector<Value> made = program->runner(values);
    for (size_t i = 0; i < made.size(); ++i) to_c(made[i], results[i]);
  });
}

}  // extern "C"
