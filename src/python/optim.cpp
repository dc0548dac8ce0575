// Optimizer steps on the param_groups and state of facula.optim: `_optim_sgd` and `_optim_adam` update a whole group in
// one call; `_optim_steps` runs rules on parameters that Python has listed.
#include "ops/optim.h"

#include <cmath>

#include "autograd/node.h"
#include "core/sparse.h"
#include "core/write.h"
#include "functions.h"
#include "ops/scaling.h"
#include "python/free_threading.h"
#include "python/objects.h"

namespace facula::python {
namespace {

/// Names of options and states, made once.
PyObject* interned(const char* text) { return check(PyUnicode_InternFromString(text)); }

struct Names {
  PyObject *params = interned("params"), *lr = interned("lr"), *momentum = interned("momentum"),
           *dampening = interned("dampening"), *weight_decay = interned("weight_decay"),
           *nesterov = interned("nesterov"), *maximize = interned("maximize"),
           *momentum_buffer = interned("momentum_buffer"), *betas = interned("betas"), *eps = interned("eps"),
           *amsgrad = interned("amsgrad"), *decoupled = interned("decoupled_weight_decay"), *step = interned("step"),
           *exp_avg = interned("exp_avg"), *exp_avg_sq = interned("exp_avg_sq"),
           *max_exp_avg_sq = interned("max_exp_avg_sq");
};
const Names& names() {
  static const Names made;
  return made;
}

/// An entry of a dict; throws KeyError when it is missing.
Item entry(PyObject* dict, PyObject* key) {
  Item found = dict_item(dict, key);
  if (!found.get()) {
    PyErr_SetObject(PyExc_KeyError, key);
    throw PythonError{};
  }
  return found;
}

/// An option: a number, or a tensor that holds one.
double number(PyObject* object) {
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (is_tensor(object)) return tensor_of(object).item().to_double();
  double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) throw PythonError{};
  return value;
}
double option(PyObject* group, PyObject* key) { return number(entry(group, key).get()); }
bool flag(PyObject* group, PyObject* key) {
  int truth = PyObject_IsTrue(entry(group, key).get());
  check(truth);
  return truth == 1;
}

Tensor state_tensor(PyObject* state, PyObject* key) {
  const Item found = entry(state, key);
  FACULA_CHECK(is_tensor(found), ErrorKind::Type, "step: optimizer state '", printable(key), "' must be a tensor, got ",
               Py_TYPE(found)->tp_name);
  return tensor_of(found);
}

/// Calls f(parameter object, parameter, gradient) for every parameter of a group that has a gradient. Of an exception
/// the steps that it has added are run, as if each had been run at once.
template <class F>
void each_parameter(PyObject* group, OptimSteps& steps, F&& f) {
  const Item params = entry(group, names().params);
  FACULA_CHECK(PyList_Check(params), ErrorKind::Type, "step: params of a group must be a list, got ",
               Py_TYPE(params)->tp_name);
  try {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params.get()); ++i) {
      const Item object = list_item(params, i);
      if (!object.get() || !is_tensor(object)) continue;
      const Tensor& param = tensor_of(object);
      Tensor grad = grad_of(param);
      if (grad.defined()) f(object, param, grad);
    }
  } catch (...) {
    steps.run();
    throw;
  }
  steps.run();
}

/// The state of a parameter; Python fills it when there is none yet.
Item parameter_state(PyObject* states, PyObject* param, PyObject* group, PyObject* start) {
  Item found = dict_item(states, param);
  if (found.get() && PyDict_Check(found) && PyDict_GET_SIZE(found.get())) return found;
  PyObject* arguments[] = {group, param};
  Py_DECREF(check(call_python(PyObject_Vectorcall, start, arguments, 2, nullptr)));
  return entry(states, param);
}

/// Adds one to a step counter, and returns it.
double advance(const Tensor& step) {
  double value = step.item().to_double() + 1;
  const bool is_ours = step.is_cpu() && (step.dtype() == DType::Float32 || step.dtype() == DType::Float64);
  if (!is_ours) {  // a program's own counter: of integers, on another device
    facula::add_(step, Scalar(int64_t{1}));
    return value;
  }
  const WriteScope write(step, "step");
  if (step.dtype() == DType::Float32) *step.data<float>() = static_cast<float>(value);
  else *step.data<double>() = value;
  return value;
}

// ---- whole groups

/// Whether a step is left to Python: of tensors whose class stands in for kernels.
bool is_left(const Tensor& param, const Tensor& grad) {
  return __builtin_expect((param.flags() | grad.flags()) & kPythonDispatch, 0);
}

void leave(Owned& left, PyObject* param) {
  if (!left) left = Owned(check(PyList_New(0)));
  if (PyList_Append(left.get(), param) < 0) throw PythonError{};
}

/// _optim_sgd(group, states): gives a list of the parameters that it leaves, or None: those with sparse gradients, and
/// those whose class stands in for kernels.
PyObject* sgd(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(nargs == 2, ErrorKind::Type, "_optim_sgd: takes a group and the states, got ", nargs, " arguments");
    PyObject *group = args[0], *states = args[1];
    const Names& n = names();
    const double momentum = option(group, n.momentum);
    std::array<double, kMaxOptimNumbers> numbers = {
        flag(group, n.maximize) ? -1.0 : 1.0, option(group, n.weight_decay),      option(group, n.lr), momentum,
        1.0 - option(group, n.dampening),     flag(group, n.nesterov) ? 1.0 : 0.0};
    OptimSteps steps;
    Owned left;
    each_parameter(group, steps, [&](PyObject* object, const Tensor& param, const Tensor& grad) {
      if (__builtin_expect(is_sparse(grad), 0) || is_left(param, grad)) return leave(left, object);
      if (momentum == 0) return steps.add(OptimRule::Sgd, param, grad, {}, numbers);
      Item state = dict_item(states, object);
      if (!state.get()) {
        Owned made(check(PyDict_New()));
        check(PyDict_SetItem(states, object, made.get()));
        state = entry(states, object);
      }
      const Item buffer = dict_item(state, n.momentum_buffer);
      if (buffer.get() && buffer.get() != Py_None)
        return steps.add(OptimRule::Sgd, param, grad, {tensor_of(buffer)}, numbers);
      // The first time, the buffer is the gradient itself: no damping.
      Tensor first = facula::empty_like(param, param.dtype());
      if (!first.is_meta()) fill_kernel(first.device(), first, Scalar(0));
      Owned wrapped(check(wrap(first)));
      check(PyDict_SetItem(state, n.momentum_buffer, wrapped.get()));
      std::array<double, kMaxOptimNumbers> undamped = numbers;
      undamped[4] = 1.0;
      steps.add(OptimRule::Sgd, param, grad, {first}, undamped);
    });
    return left ? left.release() : Py_NewRef(Py_None);
  });
}

/// _optim_adam(group, states, start): start(group, param) makes the state of a parameter. Gives a list of the
/// parameters whose class stands in for kernels, which it leaves, or None.
PyObject* adam(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(nargs == 3, ErrorKind::Type, "_optim_adam: takes a group, the states and a function, got ", nargs,
                 " arguments");
    PyObject *group = args[0], *states = args[1], *start = args[2];
    const Names& n = names();
    const Item betas = entry(group, n.betas);
    FACULA_CHECK(PySequence_Check(betas) && PySequence_Size(betas) == 2, ErrorKind::Type,
                 "Adam: betas must be two numbers, got ", Py_TYPE(betas)->tp_name);
    Owned first(check(PySequence_GetItem(betas, 0))), second(check(PySequence_GetItem(betas, 1)));
    const double beta1 = number(first.get()), beta2 = number(second.get());
    const double lr = option(group, n.lr), decay = option(group, n.weight_decay);
    const bool decoupled = flag(group, n.decoupled), amsgrad = flag(group, n.amsgrad);
    std::array<double, kMaxOptimNumbers> numbers = {flag(group, n.maximize) ? -1.0 : 1.0,
                                                    decoupled ? 0.0 : decay,
                                                    decoupled ? 1.0 - lr * decay : 1.0,
                                                    1.0 - beta1,
                                                    beta2,
                                                    0.0,
                                                    1.0,
                                                    option(group, n.eps),
                                                    1.0 - beta2};
    double corrected_for = -1;
    OptimSteps steps;
    Owned left;
    each_parameter(group, steps, [&](PyObject* object, const Tensor& param, const Tensor& grad) {
      if (is_left(param, grad)) return leave(left, object);
      FACULA_CHECK(!is_sparse(grad), ErrorKind::Runtime, decoupled ? "AdamW" : "Adam",
                   " does not support sparse gradients", decoupled ? "" : " (SparseAdam does)", ", got layout ",
                   layout_of(grad));
      const Item state = parameter_state(states, object, group, start);
      double step = advance(state_tensor(state, n.step));
      if (step != corrected_for) {
        numbers[5] = lr / (1.0 - std::pow(beta1, step));
        numbers[6] = std::sqrt(1.0 - std::pow(beta2, step));
        corrected_for = step;
      }
      steps.add(OptimRule::Adam, param, grad,
                {state_tensor(state, n.exp_avg), state_tensor(state, n.exp_avg_sq),
                 amsgrad ? state_tensor(state, n.max_exp_avg_sq) : Tensor()},
                numbers);
    });
    return left ? left.release() : Py_NewRef(Py_None);
  });
}

// ---- rules, parameter by parameter

/// Adds (rule, param, grad, states, numbers); states may hold None.
void add_step(OptimSteps& steps, PyObject* given) {
  constexpr const char* op = "_optim_steps";
  FACULA_CHECK(PyTuple_Check(given) && PyTuple_GET_SIZE(given) == 5, ErrorKind::Type, op, ": tuples of 5, got ",
               Py_TYPE(given)->tp_name);
  const auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(given, i); };
  FACULA_CHECK(PyUnicode_Check(part(0)) && is_tensor(part(1)) && is_tensor(part(2)) && PyTuple_Check(part(3)) &&
                   PyTuple_Check(part(4)),
               ErrorKind::Type, op, ": takes a rule, two tensors and two tuples, got a ", Py_TYPE(part(0))->tp_name);
  const std::string_view wanted = utf8(part(0));
  size_t rule = 0;
  while (rule < kOptimRules && wanted != kOptimRuleInfo[rule].name) ++rule;
  FACULA_CHECK(rule < kOptimRules, ErrorKind::Value, op, ": there is no such rule, got '", wanted, "'");
  OptimSteps::States states;
  OptimSteps::Numbers numbers = {};
  const Py_ssize_t state_count = PyTuple_GET_SIZE(part(3)), number_count = PyTuple_GET_SIZE(part(4));
  FACULA_CHECK(state_count <= kMaxOptimStates && number_count == kOptimRuleInfo[rule].numbers, ErrorKind::Type, op,
               ": rule '", wanted, "' takes ", kOptimRuleInfo[rule].numbers, " numbers, got ", number_count);
  for (Py_ssize_t i = 0; i < state_count; ++i)
    if (PyObject* s = PyTuple_GET_ITEM(part(3), i); is_tensor(s)) states[static_cast<size_t>(i)] = tensor_of(s);
  for (Py_ssize_t i = 0; i < number_count; ++i) numbers[static_cast<size_t>(i)] = number(PyTuple_GET_ITEM(part(4), i));
  steps.add(static_cast<OptimRule>(rule), tensor_of(part(1)), tensor_of(part(2)), states, numbers);
}

/// _optim_steps(list of steps)
PyObject* run_steps(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(PyList_Check(list), ErrorKind::Type, "_optim_steps: expected a list, got ", Py_TYPE(list)->tp_name);
    OptimSteps steps;
    try {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
        if (const Item step = list_item(list, i); step.get()) add_step(steps, step);
    } catch (...) {
      steps.run();
      throw;
    }
    steps.run();
    Py_RETURN_NONE;
  });
}

// ---- scalers of losses

/// _unscale(gradients, found, factor): a list or tuple, and two tensors.
PyObject* unscale_gradients(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(
        nargs == 3 && (PyList_Check(args[0]) || PyTuple_Check(args[0])) && is_tensor(args[1]) && is_tensor(args[2]),
        ErrorKind::Type, unscale_kernel.name, ": expected a list of tensors and two tensors, got ", nargs,
        " arguments");
    std::vector<Tensor> grads;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(args[0]); ++i) {
      const Item grad = list_item(args[0], i);
      FACULA_CHECK(grad.get() && is_tensor(grad), ErrorKind::Type, unscale_kernel.name,
                   ": expected a list of tensors, got one with ", grad.get() ? Py_TYPE(grad.get())->tp_name : "fewer");
      grads.push_back(strided_tensor_of(grad));
    }
    unscale(grads, tensor_of(args[1]), tensor_of(args[2]));
    Py_RETURN_NONE;
  });
}

/// _update_scale(scale, good steps, found, growth, backoff, interval): three tensors and three numbers.
PyObject* next_scale(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&]() -> PyObject* {
    FACULA_CHECK(nargs == 6 && is_tensor(args[0]) && is_tensor(args[1]) && is_tensor(args[2]), ErrorKind::Type,
                 scale_update_kernel.name, ": expected three tensors and three numbers, got ", nargs, " arguments");
    update_scale(tensor_of(args[0]), tensor_of(args[1]), tensor_of(args[2]), number(args[3]), number(args[4]),
                 static_cast<int64_t>(number(args[5])));
    Py_RETURN_NONE;
  });
}

PyCFunction fast(PyObject* (*f)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

PyMethodDef functions[] = {
    {"_optim_sgd", fast(sgd), METH_FASTCALL, "One SGD step of a parameter group."},
    {"_optim_adam", fast(adam), METH_FASTCALL, "One Adam or AdamW step of a parameter group."},
    {"_optim_steps", run_steps, METH_O, "[(rule, param, grad, states, numbers)]: steps, those of a device together."},
    {"_unscale", fast(unscale_gradients), METH_FASTCALL, "(gradients, found, factor), for a device with a queue."},
    {"_update_scale", fast(next_scale), METH_FASTCALL, "(scale, good steps, found, growth, backoff, interval), alike."},
    {},
};

}  // namespace

void init_optim(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
