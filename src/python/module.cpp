// The extension module facula._C.
#include "autograd/sharing.h"
#include "cpu/convolution.h"
#include "cxx/load.h"
#include "python/bindings.h"

namespace facula::python {
void init_cuda_compile(PyObject* module);
void init_cuda_host(PyObject* module);
void init_cuda_memory(PyObject* module);
void init_cuda_graphs(PyObject* module);
void init_cuda_ipc(PyObject* module);
void init_attention(PyObject* module);
void init_stores(PyObject* module);
void init_values(PyObject* module);
void init_program(PyObject* module);
void init_record(PyObject* module);
void init_rnn(PyObject* module);
void init_extension(PyObject* module);
void init_near_name(PyObject* module);
void init_region(PyObject* module);
void init_deferred(PyObject* module);
void init_replay(PyObject* module);
void init_budget(PyObject* module);
void init_held_memory(PyObject* module);
}  // namespace facula::python

#ifdef Py_GIL_DISABLED
/// Threads run at the same time. A private layout is exchanged by whoever first looks, which others must not see.
static void begin_without_lock(PyObject* module) {
  facula::histories_are_shared = true;
  facula::cpu::set_private_layouts(false);
  facula::python::check(PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED));
}
#endif

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "facula._C", "The core of Facula.", -1, nullptr, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__C() {
  using namespace facula::python;
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  try {
    facula::load();
    for (auto* init : {init_errors,        init_types,     init_tensor_type, init_overrides,       init_generator,
                       init_creation,      init_autograd,  init_settings,    init_tensor_methods,  init_tensor_new,
                       init_storage,       init_dlpack,    init_memory,      init_dtype_functions, init_optim,
                       init_module_lookup, init_observe,   init_dispatch,    init_guard,           init_cuda,
                       init_cuda_compile,  init_cuda_host, init_cuda_memory, init_cuda_graphs,     init_cuda_ipc,
                       init_attention,     init_rnn,       init_stores,      init_generated,       init_values,
                       init_program,       init_record,    init_extension,   init_near_name,       init_region,
                       init_deferred,      init_replay,    init_budget,      init_held_memory}) {
      init(module);
    }
#ifdef Py_GIL_DISABLED
    begin_without_lock(module);
#endif
  } catch (...) {
    translate_exception();
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
