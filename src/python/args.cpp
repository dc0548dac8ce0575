#include "python/args.h"

#include <algorithm>
#include <optional>

#include "functions.h"
#include "python/free_threading.h"
#include "python/mismatch.h"
#include "python/record.h"
#include "python/replay.h"

namespace facula::python {

const Tensor undefined_tensor;

const char* alias_of(std::string_view keyword) {
  if (keyword == "axis") return "dim";
  if (keyword == "keepdims") return "keepdim";
  if (keyword == "self" || keyword == "x" || keyword == "x1" || keyword == "tensor") return "input";
  if (keyword == "axis0") return "dim0";
  if (keyword == "axis1") return "dim1";
  if (keyword == "split_size_or_sections") return "split_size";
  if (keyword == "x2") return "other";
  if (keyword == "other") return "src";
  if (keyword == "input") return "A";
  return nullptr;
}

namespace {

bool is_sequence(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }

template <class F>
bool all_items(PyObject* sequence, F&& fits) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
  for (Py_ssize_t i = 0; i < n; ++i) {
    const Item item = list_item(sequence, i);
    if (!item.get()) break;  // the list has become shorter
    if (!fits(item.get())) return false;
  }
  return true;
}

bool is_zero_dim_tensor(PyObject* o) { return is_tensor(o) && tensor_of(o).defined() && tensor_of(o).dim() == 0; }
/// A number may also be given as a tensor, unless it wants a gradient, which would be lost.
bool is_number_tensor(PyObject* o) { return is_zero_dim_tensor(o) && !requires_grad(tensor_of(o)); }
inline bool is_index(PyObject* o) {
  return PyLong_CheckExact(o) || is_int(o) || (is_zero_dim_tensor(o) && is_bits(tensor_of(o).dtype()));
}
bool is_real_number(PyObject* o) { return is_number(o) && !PyComplex_Check(o); }
bool is_bool_object(PyObject* o) {
  return PyBool_Check(o) || std::string_view(Py_TYPE(o)->tp_name).starts_with("numpy.bool");
}

bool fits(ArgType type, int list_size, PyObject* o) {
  switch (type) {
    case ArgType::OptTensor:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::Tensor: return is_tensor(o);
    case ArgType::TensorList: return is_sequence(o) && all_items(o, is_tensor);
    case ArgType::Operand: return is_tensor(o) || is_number(o);
    case ArgType::OptScalar:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::Scalar: return is_number(o) || is_number_tensor(o);
    case ArgType::OptInt:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::Int: return is_index(o);
    case ArgType::OptFloat:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::Float: return is_real_number(o) || is_number_tensor(o);
    case ArgType::OptBool:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::Bool: return is_bool_object(o);
    case ArgType::OptIntList:
    case ArgType::IntListOrDefault:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::IntList: return (is_sequence(o) && all_items(o, is_index)) || (list_size > 0 && is_index(o));
    case ArgType::OptFloatList:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::FloatList: return is_sequence(o) && all_items(o, is_real_number);
    case ArgType::OptStr:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::Str: return PyUnicode_Check(o);
    case ArgType::OptDType:
      if (o == Py_None) return true;
      [[fallthrough]];
    case ArgType::DType: return is_dtype(o);
    case ArgType::OptDevice: return o == Py_None || is_device(o);
    case ArgType::OptLayout: return o == Py_None || PyObject_TypeCheck(o, &LayoutType);
    case ArgType::OptMemoryFormat: return o == Py_None || PyObject_TypeCheck(o, &MemoryFormatType);
    case ArgType::OptGenerator: return o == Py_None || PyObject_TypeCheck(o, &GeneratorType);
    case ArgType::OutTensor: return o == Py_None || is_tensor(o);
    case ArgType::OutTuple: return o == Py_None || (PySequence_Check(o) && !is_tensor(o));
  }
  return false;
}

PyObject* interned_name(const ArgSpec& spec) {
  return std::atomic_ref(const_cast<PyObject*&>(spec.interned)).load(std::memory_order_relaxed);
}

int find_keyword(const Signature& s, PyObject* keyword) {
  for (int i = 0; i < s.count; ++i) {
    if (interned_name(s.args[i]) == keyword) return i;
  }
  const char* text = PyUnicode_AsUTF8(keyword);
  if (!text) PyErr_Clear();  // no name of ours
  for (int pass = 0; pass < 2 && text; ++pass) {
    for (int i = 0; i < s.count; ++i) {
      if (std::string_view(s.args[i].name) == text) return i;
    }
    text = alias_of(text);
  }
  return -1;
}

thread_local SpreadArguments spread_arguments __attribute__((tls_model("initial-exec")));

PyObject* spread_marker() {
  static struct {
    PyObject object;
  } marker = {PyObject_HEAD_INIT(&PyBaseObject_Type)};  // whoever looks into slots may read its type
  return &marker.object;
}

PyObject* pack_tuple(PyObject* const* items, Py_ssize_t n) {
  PyObject* tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; ++i) PyTuple_SET_ITEM(tuple, i, Py_NewRef(items[i]));
  return tuple;
}

struct Attempt {
  bool tensors_are_numbers = true;  // a tensor without dimensions fits where a number is wanted
  bool overridden = false;
  bool refused_tensor = false;  // one would have fitted so
};

bool is_number_type(ArgType type) {
  return type == ArgType::Scalar || type == ArgType::OptScalar || type == ArgType::Float || type == ArgType::OptFloat;
}

bool accept_slow(const ArgSpec& spec, PyObject* value, Attempt& attempt) {
  if (!attempt.tensors_are_numbers && is_number_type(spec.type) && is_tensor(value)) {
    attempt.refused_tensor = true;
    return false;
  }
  if (fits(spec.type, spec.list_size, value)) {
    if (spec.type <= ArgType::Operand) {
      if (is_tensor(value)) {
        if (!is_plain_tensor(value) && has_override(value)) attempt.overridden = true;
      } else if (spec.type == ArgType::TensorList) {
        all_items(value, [&](PyObject* item) {
          if (!is_plain_tensor(item) && has_override(item)) attempt.overridden = true;
          return true;
        });
      }
    }
    return true;
  }
  if (!overrides_disabled() && has_override(value)) {  // whatever it is: its class takes the call
    attempt.overridden = true;
    return true;
  }
  return false;
}

inline bool are_plain_tensors(PyObject* value) {
  if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    const Item item = list_item(value, i);
    if (!item.get()) break;
    if (Py_TYPE(item.get()) != &TensorType) return false;
  }
  return true;
}

template <class... Types>
constexpr uint32_t set_of(Types... types) {
  return ((1u << static_cast<int>(types)) | ...);
}
constexpr uint32_t kTakesTensor = set_of(ArgType::Tensor, ArgType::OptTensor, ArgType::Operand),
                   kTakesFloat =
                       set_of(ArgType::Operand, ArgType::Scalar, ArgType::OptScalar, ArgType::Float, ArgType::OptFloat),
                   kTakesInt = kTakesFloat | set_of(ArgType::Int, ArgType::OptInt),
                   kTakesBool = set_of(ArgType::Bool, ArgType::OptBool),
                   kTakesNone =
                       set_of(ArgType::OptTensor, ArgType::OptScalar, ArgType::OptInt, ArgType::OptFloat,
                              ArgType::OptBool, ArgType::OptIntList, ArgType::IntListOrDefault, ArgType::OptFloatList,
                              ArgType::OptStr, ArgType::OptDType, ArgType::OptDevice, ArgType::OptLayout,
                              ArgType::OptMemoryFormat, ArgType::OptGenerator, ArgType::OutTensor, ArgType::OutTuple);

inline bool accept(const ArgSpec& spec, PyObject* value, Attempt& attempt) {
  // most arguments are plain tensors, plain numbers or None, where those are wanted
  const PyTypeObject* type = Py_TYPE(value);
  const uint32_t wanted = 1u << static_cast<int>(spec.type);
  if (type == &TensorType) {
    if (wanted & kTakesTensor) return true;
  } else if (type == &PyLong_Type) {
    if (wanted & kTakesInt) return true;
  } else if (value == Py_None) {
    if (wanted & kTakesNone) return true;
  } else if (type == &PyFloat_Type) {
    if (wanted & kTakesFloat) return true;
  } else if (type == &PyBool_Type) {
    if (wanted & kTakesBool) return true;
  } else if (spec.type == ArgType::TensorList && are_plain_tensors(value)) {
    return true;
  }
  return accept_slow(spec, value, attempt);
}

bool bind(const Signature& s, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
          PyObject** slots, Attempt& attempt) {
  for (int i = 0; i < s.count; ++i) slots[i] = nullptr;
  if (self) {
    if (s.self_index < 0) return false;
    slots[s.self_index] = self;
    if (!is_plain_tensor(self) && has_override(self)) attempt.overridden = true;
  }
  int at = 0;
  for (Py_ssize_t k = 0; k < nargs; ++at) {
    if (self && at == s.self_index) continue;
    if (at >= s.count) return false;
    const ArgSpec& spec = s.args[at];
    if (spec.keyword_only) return false;
    // x.view(2, 3), block_diag(a, b): items spread over the rest of the positional arguments; ints only where no other
    // argument is positional
    bool alone = k == 0 && (at + 1 >= s.count || s.args[at + 1].keyword_only);
    bool spreads_ints = alone && spec.type == ArgType::IntList && spec.list_size == 0 && is_index(args[k]);
    bool spreads_tensors = spec.type == ArgType::TensorList && spec.list_size == 1 && is_tensor(args[k]);
    if (spreads_ints || spreads_tensors) {
      bool exact = spreads_ints;
      for (Py_ssize_t i = k; i < nargs; ++i) {
        if (!(spreads_ints ? is_index(args[i]) : is_tensor(args[i]))) return false;
        if (spreads_tensors && !is_plain_tensor(args[i]) && has_override(args[i])) attempt.overridden = true;
        exact = exact && PyLong_CheckExact(args[i]);
      }
      // plain integers are read straight from the call; anything that may run Python code goes through a tuple
      slots[at] = exact ? spread_marker() : slots[kMaxArgs - 1] = check(pack_tuple(args + k, nargs - k));
      if (exact) spread_arguments = {args + k, static_cast<size_t>(nargs - k)};
      k = nargs;
      continue;
    }
    if (!accept(spec, args[k], attempt)) return false;
    slots[at] = args[k++];
  }
  Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    int i = find_keyword(s, PyTuple_GET_ITEM(kwnames, k));
    if (i < 0 || slots[i]) return false;
    if (!accept(s.args[i], args[nargs + k], attempt)) return false;
    slots[i] = args[nargs + k];
  }
  for (int i = 0; i < s.count; ++i) {
    if (slots[i] == Py_None && s.args[i].type == ArgType::IntListOrDefault) slots[i] = nullptr;
    // atleast_1d(): no tensors, given one by one
    bool none_given = s.args[i].type == ArgType::TensorList && s.args[i].list_size == 1 && !self && nargs == 0;
    if (!slots[i] && none_given) slots[i] = slots[kMaxArgs - 1] = check(PyTuple_New(0));
    if (!slots[i] && s.args[i].required) return false;
  }
  return true;
}

// ---- orders of arguments of long ago: add(input, alpha, other), addmm(beta, input, alpha, mat1, mat2)

struct OldOrder {
  const char* name;
  const char* number;  // the keyword of the number that stood before the tensors
  int tensors;         // how many follow it
};
constexpr OldOrder old_orders[] = {
    {"add", "alpha", 1}, {"sub", "alpha", 1}, {"addcmul", "value", 2}, {"addcdiv", "value", 2}, {"addmm", "", 2},
    {"addmv", "", 2},    {"addr", "", 2},     {"baddbmm", "", 2},      {"addbmm", "", 2},
};

/// Arguments in today's order: tensors first, then numbers by keyword.
struct Reordered {
  std::vector<PyObject*> values;      // borrowed
  std::vector<const char*> keywords;  // of the last of them
};

std::optional<Reordered> reordered(std::string_view name, bool method, PyObject* const* args, Py_ssize_t nargs) {
  if (name.ends_with('_')) name.remove_suffix(1);
  const OldOrder* found =
      std::find_if(std::begin(old_orders), std::end(old_orders), [&](const OldOrder& row) { return row.name == name; });
  if (found == std::end(old_orders)) return std::nullopt;
  const bool has_beta = !*found->number;
  std::string shape;  // t for a tensor, n for a number
  Reordered result;
  std::vector<PyObject*> numbers;
  for (Py_ssize_t i = 0; i < nargs; ++i) {
    if (is_tensor(args[i])) result.values.push_back(args[i]);
    else if (is_number(args[i])) numbers.push_back(args[i]);
    else return std::nullopt;
    shape += is_tensor(args[i]) ? 't' : 'n';
  }
  const std::string tensors(static_cast<size_t>(found->tensors), 't');
  const bool one = shape == (has_beta ? (method ? "n" : "nt") : (method ? "n" : "tn")) + tensors;
  const bool two = has_beta && shape == (method ? "nn" : "ntn") + tensors;
  if (!one && !two) return std::nullopt;
  if (has_beta) result.keywords = two ? std::vector{"beta", "alpha"} : std::vector{"beta"};
  else result.keywords = {found->number};
  result.values.insert(result.values.end(), numbers.begin(), numbers.end());
  return result;
}

/// Binds a call in an old order, with a warning; false where it is none.
int parse_old_order(FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject** slots) {
  const std::optional<Reordered> now = reordered(f.shown, self != nullptr, args, nargs);
  if (!now) return kFailed;
  Owned names(check(PyTuple_New(static_cast<Py_ssize_t>(now->keywords.size()))));
  for (size_t i = 0; i < now->keywords.size(); ++i)
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), check(PyUnicode_FromString(now->keywords[i])));
  const std::string text = std::string(f.shown) + ": This overload of " + f.shown +
                           " is deprecated, give the number before the tensors by keyword (" + now->keywords.back() +
                           "=)";
  if (replay_left_for_warning() || PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError{};
  const Py_ssize_t positional = static_cast<Py_ssize_t>(now->values.size() - now->keywords.size());
  return parse(f, self, now->values.data(), positional, names.get(), slots);
}

/// Whether something that is no tensor, among the arguments or in a list of them, belongs to a class that takes calls:
/// it may stand for a number or a size, where no signature has a place for it.
bool brings_override(PyObject* const* args, Py_ssize_t count) {
  bool found = false;
  auto look = [&](PyObject* o) {
    found = found || (!is_tensor(o) && has_override(o));
    return true;
  };
  for (Py_ssize_t i = 0; i < count; ++i) {
    look(args[i]);
    if (is_sequence(args[i])) all_items(args[i], look);
  }
  return found;
}

void intern_names(FunctionSpec& f) {
  for (int i = 0; i < f.count; ++i) {
    for (int k = 0; k < f.signatures[i].count; ++k) {
      ArgSpec& spec = f.signatures[i].args[k];
      if (interned_name(spec)) continue;
      std::atomic_ref(spec.interned).store(PyUnicode_InternFromString(spec.name), std::memory_order_relaxed);
    }
  }
}

/// x.copy_(3): the number stands for a tensor without dimensions, which lives as long as the call.
int parse_number_as_tensor(FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                           PyObject** slots) {
  const Py_ssize_t count = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  if (std::string_view(f.shown) != "copy_" || !self || count == 0 || !is_number(args[0])) return kFailed;
  const Scalar number = to_scalar(args[0]);
  const DType dtype = number.is_complex() ? DType::Complex128 : number.is_floating() ? DType::Float64 : DType::Int64;
  Owned tensor(wrap(scalar_tensor(number, dtype)));
  std::vector<PyObject*> values(args, args + count);
  values[0] = tensor.get();
  const int found = parse(f, self, values.data(), nargs, kwnames, slots);
  if (found >= 0) slots[kMaxArgs - 1] = tensor.release();
  return found;
}

}  // namespace

int parse(FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
          PyObject** slots) {
  if (kwnames && f.signatures[0].count && !interned_name(f.signatures[0].args[0])) intern_names(f);
  slots[kMaxArgs - 1] = nullptr;
  try {
    // Overloads that take a tensor as one come first, in whatever order they are stated: clamp(x, bound).
    bool refused_tensor = false;
    for (int k = f.count > 1 ? 0 : f.count; k < 2 * f.count; ++k) {
      const int i = k % f.count;
      Attempt attempt;
      attempt.tensors_are_numbers = k >= f.count;
      if (attempt.tensors_are_numbers && f.count > 1 && !refused_tensor) break;
      bool bound = bind(f.signatures[i], self, args, nargs, kwnames, slots, attempt);
      refused_tensor = refused_tensor || attempt.refused_tensor;
      if (!bound) {
        Py_CLEAR(slots[kMaxArgs - 1]);
        continue;
      }
      if (__builtin_expect(attempt.overridden || (thread_state.modes & kModePython), 0) && !overrides_disabled()) {
        if (is_recording() && !function_modes_active() && (!attempt.overridden || class_overrides_off())) {
          PyObject* result = record_call(f, i, self, args, nargs, kwnames, slots);
          Py_CLEAR(slots[kMaxArgs - 1]);
          slots[0] = result;
          return result ? kHandled : kFailed;
        }
        Py_CLEAR(slots[kMaxArgs - 1]);
        slots[0] = call_override(f.name, self != nullptr, self, args, nargs, kwnames);
        return slots[0] ? kHandled : kFailed;
      }
      return i;
    }
    Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (!PyErr_Occurred() && !overrides_disabled() && brings_override(args, nargs + keywords)) {
      slots[0] = call_override(f.name, self != nullptr, self, args, nargs, kwnames);
      return slots[0] ? kHandled : kFailed;
    }
    if (!PyErr_Occurred()) {
      int found = keywords ? kFailed : parse_old_order(f, self, args, nargs, slots);
      if (found == kFailed && !PyErr_Occurred()) found = parse_number_as_tensor(f, self, args, nargs, kwnames, slots);
      if (found != kFailed) return found;
    }
  } catch (...) {
    translate_exception();
    return kFailed;
  }
  guarded([&]() -> PyObject* {
    if (!PyErr_Occurred()) report_mismatch(f, self, args, nargs, kwnames);
    return nullptr;
  });
  return kFailed;
}

namespace {

/// The items of a list or tuple, which the conversion of one of them (`__index__`) may shorten.
template <class F>
void for_items(PyObject* sequence, F&& use) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    const Item item = list_item(sequence, i);
    const Owned shared = Owned::share(item.get());
    if (shared.get()) use(shared.get());
  }
}

}  // namespace

std::vector<Tensor> arg_tensors(PyObject* slot, Layouts layouts) {
  std::vector<Tensor> tensors;
  tensors.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(slot)));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(slot); ++i) {
    const Item item = list_item(slot, i);
    if (!item.get()) break;
    FACULA_CHECK(is_tensor(item), ErrorKind::Type, "tensors: an item was replaced during the call, got ",
                 Py_TYPE(item.get())->tp_name);
    tensors.push_back(tensor_of(item));
  }
  if (layouts == Layouts::Plain) materialize_layout(tensors);
  return tensors;
}

SpreadArguments& present_spread_arguments() { return spread_arguments; }

IntsArg arg_ints(PyObject* slot, int list_size) {
  IntsArg result;
  if (slot == spread_marker()) {
    for (size_t i = 0; i < spread_arguments.count; ++i) result.values.push_back(to_int(spread_arguments.items[i]));
    return result;
  }
  if (!is_sequence(slot)) {
    int64_t value = to_int(slot);
    result.values = Dims(static_cast<size_t>(std::max(list_size, 1)), value);
    return result;
  }
  for_items(slot, [&](PyObject* item) { result.values.push_back(to_int(item)); });
  if (list_size > 1 && result.values.size() == 1)
    result.values = Dims(static_cast<size_t>(list_size), result.values[0]);
  return result;
}

FloatsArg arg_floats(PyObject* slot) {
  FloatsArg result;
  for_items(slot, [&](PyObject* item) { result.values.push_back(to_float(item)); });
  return result;
}

std::string_view arg_string(PyObject* slot) { return utf8(slot); }

const Tensor& arg_out(PyObject* slot, int k) {
  if (is_tensor(slot)) return tensor_of(slot);
  Owned item(check(PySequence_GetItem(slot, k)));
  FACULA_CHECK(is_tensor(item.get()), ErrorKind::Type, "out: expected a tuple of tensors, got ",
               Py_TYPE(item.get())->tp_name);
  return tensor_of(item.get());  // the sequence keeps it alive
}

}  // namespace facula::python
