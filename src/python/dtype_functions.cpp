// Questions about dtypes that need the promotion rules, and the processor's treatment of subnormal numbers.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "core/recipe.h"
#include "python/args.h"
#include "python/docs/functions.h"
#include "python/mismatch.h"

namespace facula::python {
namespace {

DType dtype_argument(PyObject* o, const char* op) {
  FACULA_CHECK(is_dtype(o), ErrorKind::Type, op, ": expected dtypes, got ", Py_TYPE(o)->tp_name);
  return to_dtype_value(o);
}

PyObject* promote_types(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"type1", "type2", nullptr};
  PyObject *a, *b;
  if (!parse_keywords(args, kwargs, "OO:promote_types", names, &a, &b)) return nullptr;
  return guarded(
      [&] { return wrap_dtype(promote(dtype_argument(a, "promote_types"), dtype_argument(b, "promote_types"))); });
}

PyObject* can_cast_types(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"from_", "to", nullptr};
  PyObject *from, *to;
  if (!parse_keywords(args, kwargs, "OO:can_cast", names, &from, &to)) return nullptr;
  return guarded([&] { return wrap(can_cast(dtype_argument(from, "can_cast"), dtype_argument(to, "can_cast"))); });
}

PyObject* result_type(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"tensor", "other", nullptr};
  PyObject* operands[2];
  if (!parse_keywords(args, kwargs, "OO:result_type", names, &operands[0], &operands[1])) return nullptr;
  return guarded([&] {
    ResultType type;
    for (PyObject* o : operands) {
      FACULA_CHECK(is_tensor(o) || is_number(o), ErrorKind::Type, "result_type: expected tensors and numbers, got ",
                   Py_TYPE(o)->tp_name);
      type.add(arg_operand<Layouts::Keep>(o));
    }
    return wrap_dtype(type.get());
  });
}

// Flush-to-zero and denormals-are-zero of the calling thread.
PyObject* set_flush_denormal(PyObject*, PyObject* mode) {
  return guarded([&] {
    bool on = to_bool(mode);
    settings_will_change();
#if defined(__x86_64__)
    constexpr unsigned kFlush = 0x8040;
    _mm_setcsr(on ? _mm_getcsr() | kFlush : _mm_getcsr() & ~kFlush);
    Py_RETURN_TRUE;
#elif defined(__aarch64__)
    constexpr unsigned kFlush = 1u << 24;  // FZ of the control register: operands and results
    __builtin_aarch64_set_fpcr(on ? __builtin_aarch64_get_fpcr() | kFlush : __builtin_aarch64_get_fpcr() & ~kFlush);
    Py_RETURN_TRUE;
#else
    (void)on;
    Py_RETURN_FALSE;
#endif
  });
}

template <class F>
PyCFunction keywords(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

PyMethodDef functions[] = {
    {"promote_types", keywords(promote_types), METH_VARARGS | METH_KEYWORDS, docs::functions::kPromoteTypes},
    {"can_cast", keywords(can_cast_types), METH_VARARGS | METH_KEYWORDS, docs::functions::kCanCast},
    {"result_type", keywords(result_type), METH_VARARGS | METH_KEYWORDS, docs::functions::kResultType},
    {"set_flush_denormal", set_flush_denormal, METH_O, docs::functions::kSetFlushDenormal},
    {}};

}  // namespace

void init_dtype_functions(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
