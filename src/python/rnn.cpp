// Recurrent networks that a library of the device computes as a whole (facula/nn/functions/rnn.py).
#include "autograd/node.h"
#include "autograd/rnn_network.h"
#include "core/parallel.h"
#include "python/free_threading.h"
#include "python/objects.h"

namespace facula::python {
namespace {

/// A network as Python describes it: (mode, input, hidden, projected, layers, biased, bidirectional).
RnnNetwork network_of(PyObject* tuple) {
  const char* mode = nullptr;
  long long input = 0, hidden = 0, projected = 0, layers = 0;
  int biased = 0, bidirectional = 0;
  if (!PyArg_ParseTuple(tuple, "sLLLLpp", &mode, &input, &hidden, &projected, &layers, &biased, &bidirectional))
    throw PythonError{};
  FACULA_CHECK(input >= 0 && hidden > 0 && projected >= 0 && layers > 0, ErrorKind::Value,
               "rnn: expected positive sizes, got ", input, ", ", hidden, ", ", projected, " and ", layers);
  return {ops::rnn_mode(mode), input, hidden, projected, layers, biased != 0, bidirectional != 0, false, false, 0, {}};
}

std::vector<Tensor> tensors_of(PyObject* list) {
  Owned items(check(snapshot(list, "rnn: a sequence of tensors")));
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    FACULA_CHECK(is_tensor(item), ErrorKind::Type, "rnn: expected tensors, got ", Py_TYPE(item)->tp_name);
    tensors.push_back(tensor_of(item));
  }
  return tensors;
}

// _rnn_by_library(network, (input, h[, c]), weights, dropout, batch_sizes, is_packed): (output, h[, c]) or None
PyObject* by_library(PyObject*, PyObject* args) {
  PyObject *network = nullptr, *inputs = nullptr, *weights = nullptr, *batch_sizes = nullptr;
  double dropout = 0;
  int is_packed = 0;
  if (!PyArg_ParseTuple(args, "O!OOdOp", &PyTuple_Type, &network, &inputs, &weights, &dropout, &batch_sizes,
                        &is_packed))
    return nullptr;
  return guarded([&]() -> PyObject* {
    RnnNetwork n = network_of(network);
    n.dropout = dropout;
    n.is_packed = is_packed != 0;
    const std::vector<Tensor> given = tensors_of(inputs);
    const bool lstm = n.mode == RnnMode::Lstm;
    FACULA_CHECK(given.size() == (lstm ? 3 : 2), ErrorKind::Value, "rnn: expected an input and its states, got ",
                 given.size(), " tensors");
    Owned sizes(check(snapshot(batch_sizes, "rnn: a sequence of batch sizes")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sizes.get()); ++i)
      n.batch_sizes.push_back(to_int(PySequence_Fast_GET_ITEM(sizes.get(), i)));
    std::optional<RnnNetworkResults> r;
    const RnnNetworkInputs in{given[0], given[1], lstm ? given[2] : Tensor(), tensors_of(weights)};
    {
      LockRelease release(true);
      r = rnn_by_library(std::move(n), in);
    }
    if (!r) return Py_NewRef(Py_None);
    Owned output(wrap(r->output)), h(wrap(r->h));
    if (!lstm) return check(PyTuple_Pack(2, output.get(), h.get()));
    Owned c(wrap(r->c));
    return check(PyTuple_Pack(3, output.get(), h.get(), c.get()));
  });
}

// _rnn_weights_in_one(network, weights): copies of them, or none
PyObject* weights_in_one(PyObject*, PyObject* args) {
  PyObject *network = nullptr, *weights = nullptr;
  if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &network, &weights)) return nullptr;
  return guarded([&] {
    const std::vector<Tensor> copies = rnn_weights_in_one(network_of(network), tensors_of(weights));
    Owned list(check(PyList_New(0)));
    for (const Tensor& t : copies) {
      Owned item(wrap(t));
      check(PyList_Append(list.get(), item.get()));
    }
    return list.release();
  });
}

PyMethodDef functions[] = {
    {"_rnn_by_library", by_library, METH_VARARGS,
     "(network, (input, h[, c]), weights, dropout, batch_sizes, is_packed): (output, h[, c]); None where no library "
     "does."},
    {"_rnn_weights_in_one", weights_in_one, METH_VARARGS,
     "(network, weights): copies in one block of memory, where a library reads them so; else []."},
    {}};

}  // namespace

void init_rnn(PyObject* module);
void init_rnn(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
