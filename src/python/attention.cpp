// What programs say about the implementations of attention (facula.backends.cuda, facula.nn.attention).
#include "composite/attention_choice.h"
#include "python/objects.h"

namespace facula::python {
namespace {

AttentionBackend backend_of(PyObject* number) {
  const int64_t n = to_int(number);
  FACULA_CHECK(n >= 0 && n < kAttentionBackends, ErrorKind::Value, "attention: no backend of number ", n);
  return static_cast<AttentionBackend>(n);
}

// _attention_allow(backend, whether)
PyObject* allow(PyObject*, PyObject* args) {
  PyObject* number = nullptr;
  int whether = 0;
  if (!PyArg_ParseTuple(args, "Op", &number, &whether)) return nullptr;
  return guarded([&] {
    attention_settings().allowed[static_cast<size_t>(backend_of(number))] = whether != 0;
    return Py_NewRef(Py_None);
  });
}

// _attention_order(backends, given)
PyObject* order(PyObject*, PyObject* args) {
  PyObject* all[kAttentionBackends];
  int given = 0;
  if (!PyArg_ParseTuple(args, "(OOOOO)p", &all[0], &all[1], &all[2], &all[3], &all[4], &given)) return nullptr;
  return guarded([&] {
    AttentionSettings& settings = attention_settings();
    for (size_t i = 0; i < kAttentionBackends; ++i) settings.order[i] = backend_of(all[i]);
    settings.is_ordered = given != 0;
    return Py_NewRef(Py_None);
  });
}

// _attention_why_not(backend, query, key, value, mask, dropout, is_causal, enable_gqa)
PyObject* why_not(PyObject*, PyObject* args) {
  PyObject *number = nullptr, *tensors[4];
  double dropout = 0;
  int is_causal = 0, enable_gqa = 0;
  if (!PyArg_ParseTuple(args, "OOOOOdpp", &number, &tensors[0], &tensors[1], &tensors[2], &tensors[3], &dropout,
                        &is_causal, &enable_gqa))
    return nullptr;
  return guarded([&] {
    Tensor given[4];
    for (size_t i = 0; i < 4; ++i) {
      if (i == 3 && tensors[i] == Py_None) continue;
      FACULA_CHECK(is_tensor(tensors[i]), ErrorKind::Type, "attention: expected a tensor, got ",
                   Py_TYPE(tensors[i])->tp_name);
      given[i] = tensor_of(tensors[i]);
      FACULA_CHECK(i == 3 || given[i].dim() >= 2, ErrorKind::Runtime,
                   "attention: expected at least two dimensions, got shape ", given[i].sizes());
    }
    const AttentionCall call{given[0], given[1], given[2], given[3], dropout, is_causal != 0, enable_gqa != 0, {}};
    const std::string why = why_not_attention(backend_of(number), call);
    return check(PyUnicode_FromStringAndSize(why.data(), static_cast<Py_ssize_t>(why.size())));
  });
}

PyMethodDef functions[] = {
    {"_attention_allow", allow, METH_VARARGS, "(backend, whether): PyTorch's numbers of backends."},
    {"_attention_order", order, METH_VARARGS, "(backends, given): their order, and whether a program gave it."},
    {"_attention_why_not", why_not, METH_VARARGS,
     "(backend, query, key, value, mask, dropout, is_causal, enable_gqa): why it is not used; empty where it can be."},
    {}};

}  // namespace

void init_attention(PyObject* module);
void init_attention(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
