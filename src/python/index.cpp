// x[...] and x[...] = v: basic indices become views, tensors and sequences go to `index` and `index_put_`.
#include <algorithm>

#include "autograd/node.h"
#include "core/host.h"
#include "core/number.h"
#include "core/sparse.h"
#include "core/write.h"
#include "functions.h"
#include "python/args.h"
#include "python/dispatch.h"
#include "python/free_threading.h"

namespace facula::python {
namespace {

/// One pass over the index: views are taken as they come, tensor indices are collected by the dimension they stand for.
struct Indexed {
  Tensor view;
  std::vector<Tensor> tensors;  // by dimension of `view`; undefined where the dimension is taken whole
  bool advanced = false;
  // masks and the dimensions they begin at; the tensors of a mask's positions are made only when they are needed
  std::vector<std::pair<size_t, Tensor>> masks;
  bool integers = false;  // there are index tensors besides masks

  /// The mask, when it is all there is besides views.
  const Tensor* only_mask() const { return masks.size() == 1 && !integers ? &masks[0].second : nullptr; }
  void expand_masks() {
    for (auto& [at, mask] : masks) {
      std::vector<Tensor> positions = unbind(nonzero(mask), 1);
      std::move(positions.begin(), positions.end(), tensors.begin() + static_cast<std::ptrdiff_t>(at));
    }
    masks.clear();
  }
};

/// Masks and single values may be on the CPU beside a tensor of another device.
Tensor from_host(const Tensor& t, Device device) {
  return t.device().is_cpu() && !device.is_cpu() && !device.is_meta() ? _to_device(t, device, t.dtype()) : t;
}

int64_t slice_bound(PyObject* bound) {
  if (is_tensor(bound)) return tensor_of(bound).item().to_int();
  Py_ssize_t value;
  if (!_PyEval_SliceIndex(bound, &value)) throw PythonError{};
  return value;
}

/// `part`: one of several indices, of which a slice of everything changes nothing.
Tensor apply_slice(const Tensor& t, int64_t dim, PyObject* key, bool part = false) {
  auto* s = reinterpret_cast<PySliceObject*>(key);
  int64_t size = t.size(dim);
  int64_t step = s->step == Py_None ? 1 : slice_bound(s->step);
  step = std::max<int64_t>(step, -PY_SSIZE_T_MAX);  // so that it can be negated
  FACULA_CHECK(step != 0, ErrorKind::Value, "index: a slice step must not be zero, got 0");
  Py_ssize_t start = s->start == Py_None ? (step < 0 ? PY_SSIZE_T_MAX : 0) : slice_bound(s->start);
  Py_ssize_t stop = s->stop == Py_None ? (step < 0 ? PY_SSIZE_T_MIN : PY_SSIZE_T_MAX) : slice_bound(s->stop);
  Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
  if (part && step == 1 && count == size) return t;
  if (step < 0) return negative_slice(t, dim, start, count, step);
  return slice(t, dim, start, count ? start + (count - 1) * step + 1 : start, step);
}

bool is_nested_sequence(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o); }

// A list of numbers (possibly nested), a NumPy array or another array as an index tensor.
Tensor index_tensor(PyObject* o) {
  static std::atomic<PyObject*> place;
  PyObject* function = made_once(place, [] {
    Owned module(check(PyImport_ImportModule("facula._C")));
    return PyObject_GetAttrString(module.get(), "_index_tensor");
  });
  Owned made(check(call_python(PyObject_CallOneArg, function, o)));
  return tensor_of(made.get());
}

// A short list as the whole index is a tuple when it holds anything but numbers (NumPy's old rule).
bool treat_as_tuple(PyObject* key) {
  if (PyTuple_Check(key)) return true;
  if (!PyList_Check(key) || PyList_GET_SIZE(key) >= 32) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(key); ++i) {
    const Item held = list_item(key, i);
    PyObject* item = held.get();
    if (!item) return false;
    if (item == Py_Ellipsis || item == Py_None || PySlice_Check(item) || is_tensor(item) || is_nested_sequence(item))
      return true;
  }
  return false;
}

int64_t dims_consumed(PyObject* item) {
  if (PyLong_CheckExact(item) || PySlice_Check(item)) return 1;
  if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item)) return 0;
  if (is_tensor(item)) {
    const Tensor& t = operand_tensor_of(item);
    return t.dtype() == DType::Bool || t.dtype() == DType::UInt8 ? t.dim() : 1;
  }
  if (has_attribute(item, "__array_interface__") && !is_number(item)) {
    Owned dtype(PyObject_GetAttrString(item, "dtype"));
    Owned kind(dtype ? PyObject_GetAttrString(dtype.get(), "kind") : nullptr);
    Owned ndim(PyObject_GetAttrString(item, "ndim"));
    if (kind && ndim && PyUnicode_CompareWithASCIIString(kind.get(), "b") == 0) return PyLong_AsLongLong(ndim.get());
    PyErr_Clear();
  }
  return 1;
}

class Reader {
 public:
  explicit Reader(const Tensor& t) : result_{t, {}} {}

  Indexed read(PyObject* key) {
    tuple_ = Owned(treat_as_tuple(key) ? PySequence_Tuple(key) : PyTuple_Pack(1, key));
    const List<PyObject*> items(&PyTuple_GET_ITEM(check(tuple_.get()), 0),
                                static_cast<size_t>(PyTuple_GET_SIZE(tuple_.get())));
    several_ = items.size() > 1;
    int64_t consumed = 0;
    int ellipses = 0;
    for (PyObject* item : items) {
      consumed += dims_consumed(item);
      ellipses += item == Py_Ellipsis;
    }
    FACULA_CHECK(ellipses <= 1, ErrorKind::Index, "index: expected at most one ellipsis, got ", ellipses);
    FACULA_CHECK(consumed <= result_.view.dim(), ErrorKind::Index, "index: too many indices for tensor of dimension ",
                 result_.view.dim(), ", got ", consumed);
    rest_ = result_.view.dim() - consumed;
    for (PyObject* item : items) add(item);
    return std::move(result_);
  }

 private:
  void add(PyObject* item) {
    Tensor& view = result_.view;
    if (item == Py_None) {
      view = unsqueeze(view, at_);
      --taken_;
      ++at_;
    } else if (item == Py_Ellipsis) {
      at_ += rest_;
    } else if (PySlice_Check(item)) {
      view = apply_slice(view, at_, item, several_);
      ++at_;
    } else if (PyBool_Check(item)) {
      view = unsqueeze(view, at_);
      --taken_;
      put(unsqueeze(index_tensor(item), 0));
    } else if (is_int(item)) {
      take_integer(to_int(item));
    } else if (is_tensor(item)) {
      take_tensor(operand_tensor_of(item));
    } else if (is_nested_sequence(item) || has_attribute(item, "__array_interface__") ||
               has_attribute(item, "__array__")) {
      take_tensor(index_tensor(item));
    } else if (PyIndex_Check(item)) {
      take_integer(to_int(item));
    } else if (PySequence_Check(item) && !PyUnicode_Check(item) && !PyBytes_Check(item)) {  // range, deque
      Owned list(check(PySequence_List(item)));
      take_tensor(index_tensor(list.get()));
    } else {
      throw_error(PyUnicode_Check(item) || PyBytes_Check(item) ? ErrorKind::Type : ErrorKind::Index,
                  "index: expected integers, slices, ellipsis, None, tensors, sequences or bools, got ",
                  Py_TYPE(item)->tp_name);
    }
  }

  void take_integer(int64_t i) {
    Tensor& view = result_.view;
    FACULA_CHECK(view.dim() > 0, ErrorKind::Index, "index: invalid index of a 0-d tensor (use .item()), got ", i);
    int64_t size = view.size(at_);
    FACULA_CHECK(i >= -size && i < size, ErrorKind::Index, "index: index ", i, " is out of bounds for dimension ",
                 at_ + taken_, " with size ", size);
    view = select(view, at_, i);
    ++taken_;
  }

  void take_tensor(const Tensor& t) {
    if (t.dim() == 0 && is_integral(t.dtype()) && t.dtype() != DType::UInt8 && !t.is_meta() &&
        !(t.flags() & kBatched)) {
      take_integer(t.item().to_int());
      return;
    }
    if (t.dim() == 0 && (t.dtype() == DType::Bool || t.dtype() == DType::UInt8)) {
      result_.view = unsqueeze(result_.view, at_);
      --taken_;
      put(unsqueeze(t, 0));
      return;
    }
    const bool known =
        t.dtype() == DType::Int64 || t.dtype() == DType::Int32 || t.dtype() == DType::UInt8 || t.dtype() == DType::Bool;
    FACULA_CHECK(known, ErrorKind::Index, "index: tensors used as indices must be int32, int64, uint8 or bool, got ",
                 t.dtype());
    put(t);
  }

  // `t` indexes the dimensions from at_ on: a mask as many as it has, an index tensor one.
  void put(const Tensor& t) {
    result_.advanced = true;
    result_.tensors.resize(static_cast<size_t>(at_));
    if (t.dtype() != DType::Bool && t.dtype() != DType::UInt8) {
      result_.tensors.push_back(t);
      result_.integers = true;
      ++at_;
      return;
    }
    if (t.dtype() == DType::UInt8 && host.warn) host.warn("index: masks of uint8 are an old form; give one of bool");
    for (int64_t d = 0; d < t.dim(); ++d) {
      FACULA_CHECK(t.size(d) == result_.view.size(at_ + d), ErrorKind::Index,
                   "index: a mask must be as long as each dimension that it indexes, got a mask of shape ", t.sizes(),
                   " for shape ", result_.view.sizes(), " at dimension ", at_ + d);
    }
    result_.masks.emplace_back(static_cast<size_t>(at_),
                               from_host(t.dtype() == DType::Bool ? t : t != 0, result_.view.device()));
    at_ += t.dim();
    result_.tensors.resize(static_cast<size_t>(at_));
  }

  Indexed result_;
  Owned tuple_;  // holds the items
  bool several_ = false;
  int64_t at_ = 0, rest_ = 0;
  int64_t taken_ = 0;  // dimensions that integers took away, less those that None and bools put in
};

// x[i] and x[a:b]: no vector, no second look.
Tensor quick_view(const Tensor& t, PyObject* key, bool& done) {
  done = true;
  if (PyLong_CheckExact(key)) {
    int64_t i = to_int(key);
    FACULA_CHECK(t.dim() > 0, ErrorKind::Index, "index: invalid index of a 0-d tensor (use .item()), got ", i);
    int64_t size = t.size(0);
    FACULA_CHECK(i >= -size && i < size, ErrorKind::Index, "index: index ", i,
                 " is out of bounds for dimension 0 with size ", size);
    return select(t, 0, i);
  }
  if (PySlice_Check(key)) {
    FACULA_CHECK(t.dim() > 0, ErrorKind::Index, "index: a 0-d tensor cannot be sliced, got a slice");
    return apply_slice(t, 0, key);
  }
  done = false;
  return Tensor();
}

bool overridden(PyObject* o) { return !is_plain_tensor(o) && has_override(o); }

bool item_overridden(PyObject* item) {
  if (PyLong_Check(item) || PySlice_Check(item) || item == Py_Ellipsis) return false;  // what keys mostly are
  return overridden(item);
}

bool key_overridden(PyObject* key) {
  if (!PyTuple_Check(key)) return item_overridden(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    if (item_overridden(PyTuple_GET_ITEM(key, i))) return true;
  }
  return false;
}

// The number of x[...] = v, which x's dtype must have; float16 and bfloat16 have infinity for what is too large.
Scalar element_number(DType dtype, PyObject* value) {
  const Scalar number = to_scalar(value);
  if (dtype == DType::Float16 || dtype == DType::BFloat16) return scalar_tensor(number, dtype).item();
  require_value(number, dtype, "index");
  return number;
}

// The value of x[...] = v as a tensor; numbers take x's dtype.
Tensor assigned_value(const Tensor& target, PyObject* value) {
  if (is_tensor(value)) {
    const Tensor& given = operand_tensor_of(value);
    return given.dim() == 0 ? from_host(given, target.device()) : given;
  }
  FACULA_CHECK(is_number(value), ErrorKind::Type,
               "index: a number or a tensor is assigned to elements of a tensor, got ", Py_TYPE(value)->tp_name);
  const Device device = target.flags() & kPythonDispatch ? kCPU : target.device();  // what a class wraps says where
  return scalar_tensor(element_number(target.dtype(), value), target.dtype(), device);
}

// Leading dimensions of size one may be dropped from an assigned value, as NumPy does.
Tensor without_leading_ones(const Tensor& value, int64_t ndim) {
  int64_t drop = 0;
  while (value.dim() - drop > ndim && value.size(drop) == 1) ++drop;
  return drop ? reshape(value, value.sizes().slice(static_cast<size_t>(drop), static_cast<size_t>(value.dim() - drop)))
              : value;
}

// A mask of the dimensions from `at` on that broadcasts over the others.
Tensor over_dimensions(const Tensor& mask, size_t at, int64_t ndim) {
  Dims shape(mask.sizes());
  while (static_cast<int64_t>(at + shape.size()) < ndim) shape.push_back(1);
  return reshape(mask, shape);
}

// [None, tensor, mask]: indices as PyTorch has them, a mask once for all of its dimensions.
PyObject* whole_indices(const Indexed& indexed) {
  Owned list(check(PyList_New(0)));
  const auto append = [&](Tensor t) {
    Owned item(t.defined() ? wrap(std::move(t)) : Py_NewRef(Py_None));
    if (PyList_Append(list.get(), check(item.get())) < 0) throw PythonError{};
  };
  for (size_t d = 0; d < indexed.tensors.size();) {
    const auto mask =
        std::find_if(indexed.masks.begin(), indexed.masks.end(), [&](const auto& m) { return m.first == d; });
    append(mask == indexed.masks.end() ? indexed.tensors[d] : mask->second);
    d += mask == indexed.masks.end() ? 1 : static_cast<size_t>(std::max<int64_t>(mask->second.dim(), 1));
  }
  return list.release();
}

bool any_seen_whole(const Indexed& indexed, const Tensor& value) {
  bool seen = dispatch_sees_whole({&indexed.view, &value});
  for (const Tensor& t : indexed.tensors) seen = seen || dispatch_sees_whole({&t});
  for (const auto& [at, mask] : indexed.masks) seen = seen || dispatch_sees_whole({&mask});
  return seen && (!GradMode::enabled() || !(requires_grad(indexed.view) || (value.defined() && requires_grad(value))));
}

// What a class or a mode in the place of kernels sees of an assignment; false: nobody does.
bool assigned_by_class(const Tensor& self, const Indexed& indexed, PyObject* value) {
  const Tensor given = is_tensor(value) ? tensor_of(value) : Tensor();
  if (!dispatch_possible() || !any_seen_whole(indexed, given)) return false;
  const bool number = !given.defined();
  Tensor source = number ? assigned_value(self, value) : given;
  Owned indices(indexed.advanced ? whole_indices(indexed) : Py_NewRef(Py_None));
  if (!number || indexed.advanced) source = without_leading_ones(source, indexed.advanced ? 0 : indexed.view.dim());
  Owned arguments(check(Py_BuildValue("(NONO)", wrap(indexed.view), indices.get(), wrap(std::move(source)),
                                      number ? Py_True : Py_False)));
  return Owned(dispatch_call("_assign", arguments.get())).get() != nullptr;
}

// Where x[...] = v writes. Where the key is wrong, what is wrong with the written memory and the number is said first.
Indexed written_part(const Tensor& self, PyObject* key, PyObject* value) {
  try {
    bool quick = false;
    Indexed indexed{quick_view(self, key, quick), {}};
    if (!quick) indexed = Reader(self).read(key);
    return indexed;
  } catch (const Error&) {
    if (is_number(value)) element_number(self.dtype(), value);
    if (is_tensor(key)) check_apart(self, tensor_of(key), "index_put_");
    throw;
  }
}

void assign_item(const Tensor& self, PyObject* key, PyObject* value) {
  FACULA_CHECK(!is_sparse(self), ErrorKind::Type, "index: Cannot assign to a sparse tensor, got layout ",
               layout_of(self));
  if (key == Py_False) return;            // nothing is chosen, whatever the value's shape
  if (key == Py_True) key = Py_Ellipsis;  // all of it: a dimension in front of the value counts for nothing
  Indexed indexed = written_part(self, key, value);
  if (assigned_by_class(self, indexed, value)) return;
  if (!indexed.advanced) {
    if (is_number(value)) {
      fill_(indexed.view, element_number(self.dtype(), value));
      return;
    }
    Tensor source = without_leading_ones(assigned_value(self, value), indexed.view.dim());
    if (source.dim() != indexed.view.dim() && broadcasts_to(source.sizes(), indexed.view.sizes()))
      source = expand(source, indexed.view.sizes());  // x[None] = x: what is written is what is read
    copy_(indexed.view, source);
    return;
  }
  Tensor source = assigned_value(self, value);
  if (const Tensor* mask = indexed.only_mask(); mask && source.numel() == 1) {
    masked_fill_(indexed.view, over_dimensions(*mask, indexed.masks[0].first, indexed.view.dim()), reshape(source, {}));
    return;
  }
  indexed.expand_masks();
  index_put_(indexed.view, indexed.tensors, without_leading_ones(source, 0), false);
}

}  // namespace

PyObject* getitem(PyObject* self, PyObject* key) {
  bool special = overridden(self) || key_overridden(key) || (thread_state.modes & kModePython);
  if (special && !overrides_disabled()) {
    PyObject* args[] = {key};
    return call_override("__getitem__", true, self, args, 1, nullptr);
  }
  return guarded([&] {
    const Tensor& t = operand_tensor_of(self);
    bool quick = false;
    Tensor view = quick_view(t, key, quick);
    if (quick) return wrap(std::move(view));
    Indexed indexed = Reader(t).read(key);
    if (dispatch_possible() && indexed.advanced && any_seen_whole(indexed, undefined_tensor)) {
      Owned arguments(check(Py_BuildValue("(NN)", wrap(indexed.view), whole_indices(indexed))));
      if (PyObject* result = dispatch_call("_index", arguments.get())) return result;
    }
    if (const Tensor* mask = indexed.only_mask(); mask && mask->dim() == indexed.view.dim())
      return wrap(masked_select(indexed.view, *mask));
    indexed.expand_masks();
    if (indexed.advanced) return wrap(index(indexed.view, indexed.tensors));
    if (indexed.view.is_same(t)) return wrap(alias_view(t));
    return wrap(std::move(indexed.view));
  });
}

int setitem(PyObject* self, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "index: elements of a tensor cannot be deleted");
    return -1;
  }
  bool special = overridden(self) || key_overridden(key) || (is_tensor(value) && overridden(value)) ||
                 (thread_state.modes & kModePython);
  if (special && !overrides_disabled()) {
    PyObject* args[] = {key, value};
    PyObject* result = call_override("__setitem__", true, self, args, 2, nullptr);
    Py_XDECREF(result);
    return result ? 0 : -1;
  }
  try {
    assign_item(operand_tensor_of(self), key, value);
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}

}  // namespace facula::python
