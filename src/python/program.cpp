// Programs and the boxed table in Python: what facula.export and facula._operators are made of.
#include "core/parallel.h"
#include "program/passes/passes.h"
#include "program/pt2.h"
#include "program/run.h"
#include "python/args.h"
#include "python/program_object.h"
#include "python/values.h"

namespace facula::python {

PyTypeObject ProgramType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

PyProgram* self_of(PyObject* o) { return reinterpret_cast<PyProgram*>(o); }

PyObject* text(const std::string& s) {
  return check(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

template <class List, class F>
PyObject* listed(const List& list, F&& item_of) {
  Owned made(check(PyList_New(static_cast<Py_ssize_t>(list.size()))));
  Py_ssize_t i = 0;
  for (const auto& item : list) PyList_SET_ITEM(made.get(), i++, check(item_of(item)));
  return made.release();
}

// ---- the boxed table

const BoxedOp& op_by_key(PyObject* key) {
  const std::string_view name = utf8(key);
  const BoxedOp* op = find_boxed(name);
  FACULA_CHECK(op, ErrorKind::Attribute, "boxed: the schema has no op ", name);
  return *op;
}

PyObject* describe(const BoxedOp& op) {
  Owned arguments(listed(op.arguments, [](const BoxedArgument& a) {
    return Py_BuildValue("(NNOOON)", text(a.name), text(a.type.text()), a.keyword_only ? Py_True : Py_False,
                         a.required ? Py_True : Py_False, a.written ? Py_True : Py_False, wrap_value(a.default_value));
  }));
  Owned results(listed(op.results, [](const BoxedType& type) { return text(type.text()); }));
  Owned names(listed(op.result_names, text));
  constexpr const char* kForms[] = {"function", "inplace", "out", "composite"};
  return Py_BuildValue("{sNsNsNsssNsNsNsNsNsOsO}", "key", text(op.key()), "name", text(op.name), "overload",
                       text(op.overload), "form", kForms[static_cast<size_t>(op.form)], "aten", text(op.aten),
                       "signature", text(op.signature()), "arguments", arguments.release(), "results",
                       results.release(), "result_names", names.release(), "draws", op.draws ? Py_True : Py_False,
                       "may_alias", op.may_alias ? Py_True : Py_False);
}

PyObject* boxed_keys(PyObject*, PyObject*) {
  return guarded([] { return listed(all_boxed(), [](const BoxedOp* op) { return text(op->key()); }); });
}
PyObject* boxed_op(PyObject*, PyObject* key) {
  return guarded([&] { return describe(op_by_key(key)); });
}
PyObject* boxed_by_aten(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const BoxedOp* op = find_aten(utf8(name));
    if (!op) Py_RETURN_NONE;
    return text(op->key());
  });
}
// _boxed_call(key, arguments): a tuple of results; arguments that are not given have their defaults
PyObject* boxed_call(PyObject*, PyObject* args) {
  PyObject *key = nullptr, *given = nullptr;
  if (!PyArg_ParseTuple(args, "UO!", &key, &PyTuple_Type, &given)) return nullptr;
  return guarded([&] {
    const BoxedOp& op = op_by_key(key);
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(given));
    FACULA_CHECK(count <= op.arguments.size(), ErrorKind::Type, op.key(), ": expected at most ", op.arguments.size(),
                 " arguments, got ", count);
    std::vector<Value> values;
    std::vector<const Value*> places;
    values.reserve(op.arguments.size());
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      const BoxedArgument& a = op.arguments[i];
      FACULA_CHECK(i < count || !a.required, ErrorKind::Type, op.key(), ": argument '", a.name, "' is missing");
      PyObject* object = i < count ? PyTuple_GET_ITEM(given, static_cast<Py_ssize_t>(i)) : nullptr;
      values.push_back(object ? to_value(object, a.type, op.name.c_str(), a.name.c_str()) : a.default_value);
      FACULA_CHECK(!values.back().is_symbolic(), ErrorKind::Type, op.key(), ": argument '", a.name,
                   "' is an expression");
      places.push_back(&values.back());
    }
    std::vector<Value> results(op.results.size());
    op.call(places.data(), results.data());
    Owned made(check(PyTuple_New(static_cast<Py_ssize_t>(results.size()))));
    for (size_t i = 0; i < results.size(); ++i) {
      PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), check(wrap_value(results[i])));
    }
    return made.release();
  });
}

// ---- programs

std::vector<Value> values_in(PyObject* sequence, const char* what) {
  Owned items(check(PySequence_Fast(sequence, what)));
  std::vector<Value> values;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    values.push_back(to_value(PySequence_Fast_GET_ITEM(items.get(), i)));
  }
  return values;
}

void program_dealloc(PyObject* o) {
  self_of(o)->~PyProgram();
  PyObject_Free(o);
}

PyObject* program_text(PyObject* o, PyObject*) {
  return guarded([&] { return text(self_of(o)->program->text()); });
}
PyObject* program_parse(PyObject*, PyObject* source) {
  return guarded([&] {
    FACULA_CHECK(PyUnicode_Check(source), ErrorKind::Type, "program: expected a str, got ", Py_TYPE(source)->tp_name);
    return wrap_program(std::make_shared<Program>(Program::parse(utf8(source))));
  });
}
PyObject* program_verify(PyObject* o, PyObject*) {
  return guarded([&] {
    self_of(o)->program->verify();
    return Py_NewRef(Py_None);
  });
}
PyObject* program_run(PyObject* o, PyObject* inputs) {
  return guarded([&] {
    const std::vector<Value> values = values_in(inputs, "program: a sequence of inputs");
    if (!self_of(o)->runner) self_of(o)->runner = std::make_shared<Runner>(self_of(o)->program);
    const std::shared_ptr<const Runner> runner = self_of(o)->runner;
    const std::vector<Value> outputs = (*runner)(values);
    return listed(outputs, wrap_value);
  });
}
// set_sizes(value, sizes): integers, and texts of expressions
PyObject* program_set_sizes(PyObject* o, PyObject* args) {
  Py_ssize_t value = 0;
  PyObject* sizes = nullptr;
  if (!PyArg_ParseTuple(args, "nO!", &value, &PyList_Type, &sizes)) return nullptr;
  return guarded([&] {
    Program& program = *self_of(o)->program;
    FACULA_CHECK(value >= 0 && static_cast<size_t>(value) < program.values.size(), ErrorKind::Index,
                 "set_sizes: the program has ", program.values.size(), " values, got ", value);
    std::vector<Expr> exprs;
    for (Py_ssize_t d = 0; d < PyList_GET_SIZE(sizes); ++d) {
      PyObject* size = PyList_GET_ITEM(sizes, d);
      exprs.push_back(PyUnicode_Check(size) ? Expr::parse(utf8(size)) : Expr(to_int(size)));
    }
    program.values[static_cast<size_t>(value)].meta.sizes = std::move(exprs);
    self_of(o)->runner.reset();
    return Py_NewRef(Py_None);
  });
}
// set_graph(node, argument, program): another program in the place of one that a node calls
PyObject* program_set_graph(PyObject* o, PyObject* args) {
  Py_ssize_t node = 0, argument = 0;
  PyObject* graph = nullptr;
  if (!PyArg_ParseTuple(args, "nnO", &node, &argument, &graph)) return nullptr;
  return guarded([&] {
    Program& program = *self_of(o)->program;
    FACULA_CHECK(node >= 0 && static_cast<size_t>(node) < program.nodes.size(), ErrorKind::Index,
                 "set_graph: the program has ", program.nodes.size(), " nodes, got ", node);
    std::vector<Arg>& arguments = program.nodes[static_cast<size_t>(node)].arguments;
    FACULA_CHECK(argument >= 0 && static_cast<size_t>(argument) < arguments.size(), ErrorKind::Index,
                 "set_graph: the node has ", arguments.size(), " arguments, got ", argument);
    Arg& old = arguments[static_cast<size_t>(argument)];
    Value value = to_value(graph);
    FACULA_CHECK(old.kind == Arg::Kind::Constant && old.constant.kind() == Value::Kind::Graph &&
                     value.kind() == Value::Kind::Graph,
                 ErrorKind::Type, "set_graph: expected a program in the place of one, got ", Py_TYPE(graph)->tp_name);
    old.constant = std::move(value);
    self_of(o)->runner.reset();
    return Py_NewRef(Py_None);
  });
}
// hold(input, tensor): what an input that is no user's is; the input by its path or its number
PyObject* program_hold(PyObject* o, PyObject* args) {
  PyObject *which = nullptr, *object = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &which, &object)) return nullptr;
  return guarded([&] {
    FACULA_CHECK(is_tensor(object), ErrorKind::Type, "hold: expected a Tensor, got ", Py_TYPE(object)->tp_name);
    const Tensor& tensor = strided_tensor_of(object);
    Program& program = *self_of(o)->program;
    if (PyUnicode_Check(which)) {
      const std::string_view path = utf8(which);
      for (ProgramInput& input : program.inputs) {
        if (input.kind != ProgramInput::Kind::User && input.path == path) program.hold(input, tensor);
      }
    } else {
      const int64_t number = to_int(which);
      FACULA_CHECK(number >= 0 && static_cast<size_t>(number) < program.inputs.size(), ErrorKind::Index,
                   "hold: the program has ", program.inputs.size(), " inputs, got ", number);
      program.hold(program.inputs[static_cast<size_t>(number)], tensor);
    }
    self_of(o)->runner.reset();
    return Py_NewRef(Py_None);
  });
}
// lift(tensors): the program as one that is given these, in this order: what it held of them it takes as inputs
PyObject* program_lift(PyObject* o, PyObject* tensors) {
  return guarded([&] {
    Program& program = *self_of(o)->program;
    Owned items(check(PySequence_Fast(tensors, "lift: a list of tensors")));
    std::vector<ProgramInput> given, held = std::move(program.inputs);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      PyObject* object = PySequence_Fast_GET_ITEM(items.get(), i);
      FACULA_CHECK(is_tensor(object), ErrorKind::Type, "lift: expected a list of tensors, got ",
                   Py_TYPE(object)->tp_name);
      const Tensor& tensor = strided_tensor_of(object);
      const auto found = std::find_if(held.begin(), held.end(),
                                      [&](const ProgramInput& input) { return input.tensor.is_same(tensor); });
      ProgramInput input;
      input.path = found == held.end() ? "unused_" + std::to_string(i) : found->path;
      if (found != held.end()) {
        input.value = found->value;
        held.erase(found);
      } else {
        input.value = program.add_value("unused", Value::Kind::Tensor, TensorMeta::of(tensor));
      }
      given.push_back(std::move(input));
    }
    FACULA_CHECK(held.empty(), ErrorKind::Value, "lift: the program holds a tensor that is not given: ", held[0].path);
    program.inputs = std::move(given);
    self_of(o)->runner.reset();
    return Py_NewRef(o);
  });
}
// roles_of(program): its outputs are what those of the other one are
PyObject* program_roles_of(PyObject* o, PyObject* other) {
  return guarded([&] {
    FACULA_CHECK(PyObject_TypeCheck(other, &ProgramType), ErrorKind::Type, "roles_of: expected a program, got ",
                 Py_TYPE(other)->tp_name);
    self_of(o)->program->roles = self_of(other)->program->roles;
    return Py_NewRef(o);
  });
}
PyObject* program_copy(PyObject* o, PyObject*) {
  return guarded([&] { return wrap_program(std::make_shared<Program>(*self_of(o)->program)); });
}

// ---- files

/// The bytes of an object while it is read.
class ByteView {
 public:
  explicit ByteView(PyObject* object) { check(PyObject_GetBuffer(object, &view_, PyBUF_SIMPLE)); }
  ~ByteView() { PyBuffer_Release(&view_); }
  ByteView(const ByteView&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(view_.buf), static_cast<size_t>(view_.len)}; }

 private:
  Py_buffer view_{};
};

ProgramFile read_file(std::unique_ptr<const ByteSource> source) {
  LockRelease release(true);
  return read_program(std::move(source), {.map = false}, true);
}

// _load_program(file): of a path (a str) or of bytes (program, in_spec, out_spec, names of forward, examples or None)
PyObject* load_program_file(PyObject*, PyObject* object) {
  return guarded([&] {
    ProgramFile file;
    if (PyUnicode_Check(object)) {
      PyObject* encoded = nullptr;
      if (!PyUnicode_FSConverter(object, &encoded)) throw PythonError{};
      const Owned path(encoded);
      file = read_file(ByteSource::file(PyBytes_AS_STRING(path.get())));
    } else {
      const ByteView view(object);
      file = read_file(ByteSource::memory(view.bytes()));
    }
    Owned examples(Py_NewRef(Py_None));
    if (file.examples) {
      examples = Owned(
          check(PyBytes_FromStringAndSize(file.examples->data(), static_cast<Py_ssize_t>(file.examples->size()))));
    }
    return Py_BuildValue("(NNNNO)", wrap_program(file.program), text(file.in_spec), text(file.out_spec),
                         listed(file.forward_names, text), examples.get());
  });
}

// A pass changes the program; what was planned for it is planned anew.
template <void (*Pass)(Program&)>
PyObject* run_pass(PyObject* o, PyObject*) {
  return guarded([&] {
    Pass(*self_of(o)->program);
    self_of(o)->runner.reset();
    return Py_NewRef(o);
  });
}

// ---- passes that run the program on examples

// decompose(examples): another program; with no examples it runs on the meta device
PyObject* program_decompose(PyObject* o, PyObject* examples) {
  return guarded([&] {
    return wrap_program(decompose(*self_of(o)->program, values_in(examples, "decompose: a sequence of examples")));
  });
}
// joint(examples, loss, differentiable): (program, number of results, numbers of the inputs whose gradients follow)
PyObject* program_joint(PyObject* o, PyObject* args) {
  PyObject* examples = nullptr;
  int loss = -1, differentiable = 0;
  if (!PyArg_ParseTuple(args, "Oip", &examples, &loss, &differentiable)) return nullptr;
  return guarded([&] {
    const std::vector<Value> values = values_in(examples, "joint: a sequence of examples");
    Joint made = joint(*self_of(o)->program, values, {.loss = loss, .differentiable = differentiable != 0});
    return Py_BuildValue("(NnN)", wrap_program(made.program), static_cast<Py_ssize_t>(made.results),
                         listed(made.gradient_of, PyLong_FromLong));
  });
}
// set_argument(node, argument, value): what is a constant there: an integer, the text of an expression, a list of such,
// or a program
PyObject* program_set_argument(PyObject* o, PyObject* args) {
  Py_ssize_t node = 0, which = 0;
  PyObject* object = nullptr;
  if (!PyArg_ParseTuple(args, "nnO", &node, &which, &object)) return nullptr;
  return guarded([&] {
    Program& program = *self_of(o)->program;
    FACULA_CHECK(node >= 0 && static_cast<size_t>(node) < program.nodes.size(), ErrorKind::Index,
                 "set_argument: the program has ", program.nodes.size(), " nodes, got ", node);
    std::vector<Arg>& arguments = program.nodes[static_cast<size_t>(node)].arguments;
    FACULA_CHECK(which >= 0 && static_cast<size_t>(which) < arguments.size() &&
                     arguments[static_cast<size_t>(which)].kind == Arg::Kind::Constant,
                 ErrorKind::Index, "set_argument: expected the number of a constant argument, got ", which);
    const auto expr_of = [](PyObject* item) {
      return PyUnicode_Check(item) ? Expr::parse(utf8(item)) : Expr(to_int(item));
    };
    Arg& argument = arguments[static_cast<size_t>(which)];
    if (PyObject_TypeCheck(object, &ProgramType)) {
      argument = Value(std::make_shared<const Runner>(self_of(object)->program));
    } else if (PyList_Check(object)) {
      std::vector<Expr> exprs;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) exprs.push_back(expr_of(PyList_GET_ITEM(object, i)));
      argument = Value(std::move(exprs));
    } else {
      argument = Value(expr_of(object));
    }
    self_of(o)->runner.reset();
    return Py_NewRef(Py_None);
  });
}

// What a program is, as tuples and lists

PyObject* expr_item(const Expr& e) { return e.is_integer() ? wrap(e.integer()) : text(e.text()); }

PyObject* describe_value(const ProgramValue& v) {
  if (v.kind != Value::Kind::Tensor) return Py_BuildValue("(Nss)", text(v.name), name(v.kind), nullptr);
  return Py_BuildValue("(Ns(NNNNO))", text(v.name), name(v.kind), wrap_dtype(v.meta.dtype),
                       listed(v.meta.sizes, expr_item), listed(v.meta.strides, expr_item), wrap_device(v.meta.device),
                       v.meta.requires_grad ? Py_True : Py_False);
}
PyObject* describe_input(const ProgramInput& i) {
  return Py_BuildValue("(siNONN)", name(i.kind), i.value, text(i.path), i.persistent ? Py_True : Py_False,
                       wrap(i.tensor), wrap_value(i.constant));
}
PyObject* describe_arg(const Arg& arg) {
  if (arg.kind == Arg::Kind::Ref) return Py_BuildValue("(si)", "value", arg.ref);
  if (arg.kind == Arg::Kind::List) return Py_BuildValue("(sN)", "list", listed(arg.items, describe_arg));
  return Py_BuildValue("(sN)", arg.constant.is_symbolic() ? "expr" : "constant", wrap_value(arg.constant));
}
PyObject* describe_node(const ProgramNode& n) {
  std::vector<bool> tensors;
  for (const Arg& arg : n.arguments) {
    tensors.push_back(arg.kind == Arg::Kind::Ref);
  }
  const auto flags = std::make_unique<bool[]>(tensors.size());
  std::copy(tensors.begin(), tensors.end(), flags.get());
  return Py_BuildValue("(NNNNNNO)", text(n.op->key()), text(n.op->aten_name({flags.get(), tensors.size()})),
                       listed(n.arguments, describe_arg),
                       listed(n.results, [](const std::vector<int>& r) { return listed(r, PyLong_FromLong); }),
                       text(n.module), text(n.source), n.no_grad ? Py_True : Py_False);
}

PyObject* get_values(PyObject* o, void*) {
  return guarded([&] { return listed(self_of(o)->program->values, describe_value); });
}
PyObject* get_inputs(PyObject* o, void*) {
  return guarded([&] { return listed(self_of(o)->program->inputs, describe_input); });
}
PyObject* get_nodes(PyObject* o, void*) {
  return guarded([&] { return listed(self_of(o)->program->nodes, describe_node); });
}
PyObject* get_outputs(PyObject* o, void*) {
  return guarded([&] { return listed(self_of(o)->program->outputs, describe_arg); });
}
PyObject* get_symbols(PyObject* o, void*) {
  return guarded([&] {
    return listed(self_of(o)->program->symbols, [](const Symbol& s) {
      return Py_BuildValue("(NLNL)", text(s.name), static_cast<long long>(s.least),
                           s.most ? wrap(*s.most) : Py_NewRef(Py_None), static_cast<long long>(s.sample));
    });
  });
}
PyObject* get_roles(PyObject* o, void*) {
  return guarded([&] {
    return listed(self_of(o)->program->roles,
                  [](const OutputRole& r) { return Py_BuildValue("(sN)", name(r.kind), text(r.target)); });
  });
}
PyObject* get_guards(PyObject* o, void*) {
  return guarded([&] {
    return listed(self_of(o)->program->guards,
                  [](const Guard& g) { return Py_BuildValue("(NN)", text(g.text()), text(g.source)); });
  });
}

PyMethodDef methods[] = {
    {"text", program_text, METH_NOARGS, "The program in its text form."},
    {"parse", program_parse, METH_O | METH_STATIC, "parse(text): the program that the text describes."},
    {"verify", program_verify, METH_NOARGS, "Checks every node against the schema; a ValueError says what is wrong."},
    {"run", program_run, METH_O, "run(inputs): the outputs, as a list."},
    {"set_sizes", program_set_sizes, METH_VARARGS, "set_sizes(value, sizes): what is known of the sizes of a value."},
    {"set_graph", program_set_graph, METH_VARARGS,
     "set_graph(node, argument, program): another program in the place of one that a node calls."},
    {"hold", program_hold, METH_VARARGS,
     "hold(input, tensor): gives a parameter, a buffer or a constant, by path or number, its tensor."},
    {"lift", program_lift, METH_O, "lift(tensors): makes inputs of what the program holds, in this order."},
    {"roles_of", program_roles_of, METH_O,
     "roles_of(program): says that the outputs are what those of another one are."},
    {"copy", program_copy, METH_NOARGS, "Another program with the same nodes and tensors."},
    {"set_argument", program_set_argument, METH_VARARGS,
     "set_argument(node, argument, value): an integer, an expression, a list of these or a program in its place."},
    {"decompose", program_decompose, METH_O,
     "decompose(examples): the program in ops that have kernels; with no examples it is run on the meta device."},
    {"joint", program_joint, METH_VARARGS,
     "joint(examples, loss, differentiable): forward and backward as one program, the number of results of the former, "
     "and "
     "the numbers of the inputs whose gradients follow."},
    {"dead", run_pass<remove_dead>, METH_NOARGS, "Removes nodes whose results nobody uses and that have no effects."},
    {"fold", run_pass<fold_constants>, METH_NOARGS, "Computes nodes that depend on constants only."},
    {}};
PyGetSetDef properties[] = {
    {"values", get_values, nullptr, "(name, kind, (dtype, sizes, strides, device, requires_grad) or None) of each.",
     nullptr},
    {"inputs", get_inputs, nullptr, "(kind, value, path, persistent, tensor, constant) of each.", nullptr},
    {"nodes", get_nodes, nullptr, "(op, aten name, arguments, results, module, source) of each.", nullptr},
    {"outputs", get_outputs, nullptr, "An argument each.", nullptr},
    {"symbols", get_symbols, nullptr, "(name, least, most, sample) of each.", nullptr},
    {"roles", get_roles, nullptr, "(what it is, of what) of the first outputs; the others are results.", nullptr},
    {"guards", get_guards, nullptr, "(condition, source) of each.", nullptr},
    {}};

PyMethodDef functions[] = {
    {"_boxed_keys", boxed_keys, METH_NOARGS, "The keys of all ops that programs can have."},
    {"_boxed_op", boxed_op, METH_O, "What is known of an op, as a dict."},
    {"_boxed_by_aten", boxed_by_aten, METH_O, "The key of the op that PyTorch calls so, or None."},
    {"_load_program", load_program_file, METH_O,
     "_load_program(file): (program, in_spec, out_spec, names, examples or None) of a path or bytes of a .pt2."},
    {"_boxed_call", boxed_call, METH_VARARGS, "_boxed_call(key, arguments): a tuple of results."},
    {}};

}  // namespace

PyObject* wrap_program(std::shared_ptr<Program> program) {
  auto* o = PyObject_New(PyProgram, &ProgramType);
  if (!o) throw PythonError{};
  new (&o->program) std::shared_ptr<Program>(std::move(program));
  new (&o->runner) std::shared_ptr<const Runner>();
  return reinterpret_cast<PyObject*>(o);
}

void init_program(PyObject* module) {
  ProgramType.tp_name = "facula._C._Program";
  ProgramType.tp_basicsize = sizeof(PyProgram);
  ProgramType.tp_flags = Py_TPFLAGS_DEFAULT;
  ProgramType.tp_doc = "Ops in the order in which they ran, as data.";
  ProgramType.tp_dealloc = program_dealloc;
  ProgramType.tp_methods = methods;
  ProgramType.tp_getset = properties;
  check(PyType_Ready(&ProgramType));
  Py_INCREF(&ProgramType);
  PyModule_AddObject(module, "_Program", reinterpret_cast<PyObject*>(&ProgramType));
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace facula::python
