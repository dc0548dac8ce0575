// Declares what generated binding files share.
#pragma once

#include <atomic>
#include <tuple>

#include "observe/observer.h"
#include "ops/pinned.h"
#include "python/args.h"
#include "python/dispatch.h"

namespace facula::python {

/// A generated function: the module it belongs to ("" is the top level, else "special", "nn.functional", ...), and its
/// op, which may go by another name in Python.
struct Binding {
  const char* module;
  const char* op;
  PyMethodDef method;
};

/// The named tuple of an op's results, `facula.return_types.<op>`, and that of results written to `out=`, `<op>_out`.
/// The types are made when they are first needed.
struct ResultTuple {
  const char* op;
  const char* const* fields;
  int count;
  std::atomic<PyTypeObject*> made[2] = {};  // of results, of results in out=
};

class BindingTables {
 public:
  void add(const Binding* functions, const Binding* methods, ResultTuple* const* results);
  const std::vector<const Binding*>& functions() const { return functions_; }
  const std::vector<const Binding*>& methods() const { return methods_; }
  const std::vector<ResultTuple*>& results() const { return results_; }

 private:
  std::vector<const Binding*> functions_, methods_;
  std::vector<ResultTuple*> results_;
};

void register_all(BindingTables& tables);

using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
inline PyCFunction as_function(FastFunction f) { return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f)); }

/// Whether a factory's layout= requests another layout than the op gives: a sparse one, or that of a sparse `like`.
bool wants_other_layout(PyObject* layout, const Tensor* like, bool sized);
/// What it gives then: zeros, of the sizes of `like` where no size is given.
Tensor sparse_zeros(const char* op, const Tensor* like, bool sized, IntList size, std::optional<DType> dtype,
                    std::optional<Device> device, PyObject* layout);
/// Make a sparse `out=` one of zeros, and return it; nullptr where it is strided or there is none. Throws where layout=
/// requests another one.
PyObject* zeros_into_sparse(const char* op, PyObject* out, IntList size, std::optional<DType> dtype,
                            std::optional<Device> device, PyObject* layout);
/// Throws for a sparse layout.
void refuse_layout(const char* op, PyObject* layout);
/// What a factory takes the form from: `like`, or `strided`, which is made where a COO tensor is to give a strided one.
/// Throws for other changes of the layout.
const Tensor& like_in_layout(const char* op, PyObject* layout, const Tensor& like, Tensor& strided);

/// A composite is seen where Python calls it: by observers around the ops that it is made of; and whoever stands in for
/// kernels may answer the whole, where it is one op to PyTorch.
class CompositeScope {
 public:
  CompositeScope(uint16_t op, OpForm form, PyObject* const* slots, int count) {
    constexpr uint32_t kAny = kWatchObservers | kUnknownThread | kWatchDispatch;
    if (__builtin_expect((watching() & kAny) != 0 || classes_stand_in.load(std::memory_order_relaxed), 0))
      open(op, form, slots, count);
  }
  /// What answered in the place of the composite; null: nothing did.
  PyObject* answer() { return std::exchange(answer_, nullptr); }
  bool answered() const { return answer_ != nullptr; }
  ~CompositeScope() {
    if (__builtin_expect(opened_ != nullptr, 0)) close();
  }
  CompositeScope(const CompositeScope&) = delete;

 private:
  struct Opened;
  void open(uint16_t op, OpForm form, PyObject* const* slots, int count);
  void close();
  Opened* opened_ = nullptr;
  PyObject* answer_ = nullptr;
};

/// What stands in for an in-place form that no kernel has: it is computed, then put in place.
inline PyObject* answered_in_place(uint16_t op, PyObject* const* slots, int count) {
  return dispatch_possible() ? dispatch_composite(op, OpForm::InPlace, slots, count, true) : nullptr;
}

/// Frees the tuple that parse() made from integers spread over the arguments.
class Spread {
 public:
  explicit Spread(PyObject* tuple) : tuple_(tuple) {}
  ~Spread() { Py_XDECREF(tuple_); }

 private:
  PyObject* tuple_;
};

/// What a factory made, in pinned memory if that was requested.
inline Tensor where_wanted(Tensor tensor, PyObject* pin_memory) {
  if (given(pin_memory) && to_bool(pin_memory) && !tensor.is_meta()) return ops::pinned_copy(tensor);
  return tensor;
}

inline Tensor with_requires_grad(Tensor tensor, PyObject* slot) {
  if (given(slot) && to_bool(slot)) set_requires_grad(tensor, true);
  return tensor;
}

/// A new tuple of `items`, of the type of an op's results; a plain one where they have no names.
PyObject* make_results(ResultTuple* type, bool out, std::initializer_list<PyObject*> items);

template <class... T>
PyObject* wrap_results(ResultTuple* type, bool out, const std::tuple<T...>& results) {
  return std::apply([&](const auto&... r) { return make_results(type, out, {wrap(r)...}); }, results);
}

template <size_t N>
auto out_tuple(PyObject* slot) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::make_tuple(arg_out(slot, static_cast<int>(I))...);
  }(std::make_index_sequence<N>{});
}

}  // namespace facula::python
