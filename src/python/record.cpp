#include "python/record.h"

#include <frameobject.h>

#include <map>

#include "program/record.h"
#include "python/free_threading.h"
#include "python/program_object.h"
#include "python/values.h"

namespace facula::python {
namespace {

/// A recording of this thread.
struct Recording {
  Recorder recorder;
  Owned handlers;  // of calls that are no ops: a dict of name to function
  Owned find_path;
  std::string package;  // the folder of the package, whose own lines are not the program's
  int paused = 0;
  std::unique_ptr<Recording> outer;  // of a function inside a program: a branch, the body of a loop
};
// Not owned by the thread: one that ends while it records has no interpreter any more that could take the objects.
constinit thread_local Recording* present __attribute__((tls_model("initial-exec"))) = nullptr;

/// Ends the present recording; the one around it, if any, goes on.
void end_present() {
  const std::unique_ptr<Recording> ended(present);
  present = present->outer.release();
}

/// What runs inside is part of what is recorded already.
class Pause {
 public:
  Pause() {
    if (++present->paused == 1) set_recorder_sees_calls(false);
  }
  ~Pause() {
    if (present && --present->paused == 0) set_recorder_sees_calls(true);
  }
  Pause(const Pause&) = delete;
};

Recording& active(const char* function) {
  FACULA_CHECK(present, ErrorKind::Runtime, function, ": nothing is being recorded on this thread");
  return *present;
}

/// file:line of the innermost frame outside of the package.
std::string source_here() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  std::string found;
  while (frame && found.empty()) {
    Owned code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    PyObject* file = reinterpret_cast<PyCodeObject*>(code.get())->co_filename;
    const std::string_view name = utf8(file);
    if (!name.starts_with(present->package))
      found = std::string(name) + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return found;
}

std::string path_of(const Tensor& tensor) {
  Owned object(wrap(tensor));
  Owned path(check(call_python(PyObject_CallOneArg, present->find_path.get(), object.get())));
  return path.get() == Py_None ? "" : std::string(utf8(path.get()));
}

// ---- which op a call is

/// The ops that share a binding, in the order of its signatures.
const std::vector<const BoxedOp*>& ops_of(const FunctionSpec& f) {
  static Mutex lock;
  static std::map<const FunctionSpec*, std::vector<const BoxedOp*>> known;
  Holding guard(lock);
  auto [found, fresh] = known.try_emplace(&f);
  if (!fresh) return found->second;
  for (const BoxedOp* op : all_boxed()) {
    if (op->id != 0 && op->form != OpForm::Out && op->name == f.name) found->second.push_back(op);
  }
  std::sort(found->second.begin(), found->second.end(), [](auto* a, auto* b) { return a->id < b->id; });
  return found->second;
}

struct Call {
  const BoxedOp* op;
  std::vector<Value> values;  // as many as the op has arguments
};

/// A tensor without dimensions may stand for a number, of which a program would keep what it is now: then it is the
/// overload with tensors, if there is one.
const BoxedOp* op_of(const std::vector<const BoxedOp*>& ops, int chosen, const Signature& signature, PyObject** slots) {
  for (int i = 0; i < signature.count; ++i) {
    const ArgType type = signature.args[i].type;
    if ((type != ArgType::Scalar && type != ArgType::OptScalar) || !slots[i] || !is_tensor(slots[i])) continue;
    for (const BoxedOp* op : ops) {
      if (op->overload == "Tensor") return op;
    }
  }
  return ops[static_cast<size_t>(chosen)];
}

/// The arguments of a bound signature as values.
Call read_call(const FunctionSpec& f, int chosen, PyObject** slots) {
  const std::vector<const BoxedOp*>& ops = ops_of(f);
  FACULA_CHECK(static_cast<size_t>(chosen) < ops.size(), ErrorKind::Runtime, f.name,
               ": no op of the table is called so");
  const Signature& signature = f.signatures[chosen];
  Call call{op_of(ops, chosen, signature, slots), {}};
  size_t at = 0;
  PyObject* out = nullptr;
  for (int i = 0; i < signature.count; ++i) {
    const ArgSpec& spec = signature.args[i];
    if (spec.type == ArgType::OutTensor || spec.type == ArgType::OutTuple) {
      out = given(slots[i]) ? slots[i] : nullptr;
      continue;
    }
    const BoxedArgument* argument = at < call.op->arguments.size() ? &call.op->arguments[at] : nullptr;
    const std::string_view name = std::string_view(spec.name) == "input" && argument && argument->name == "self"
                                      ? std::string_view("self")
                                      : std::string_view(spec.name);
    if (!argument || argument->name != name) continue;  // what only Python understands
    ++at;
    if (!slots[i]) {
      call.values.push_back(argument->default_value);
    } else if (argument->type.list && Py_TYPE(slots[i]) == &PyBaseObject_Type) {
      call.values.push_back(IntList(arg_ints(slots[i], argument->type.list_size).values));  // spread over the call
    } else {
      if (takes_number(argument->type) && is_tensor(slots[i])) value_needed(tensor_of(slots[i]), f.name);
      call.values.push_back(to_value(slots[i], argument->type, f.name, spec.name));
    }
  }
  FACULA_CHECK(call.values.size() == call.op->arguments.size(), ErrorKind::Runtime, f.name,
               ": the binding and the table differ in arguments, got ", call.values.size(), " of ",
               call.op->arguments.size());
  if (out) {
    const BoxedOp* with_out = find_boxed(call.op->id, OpForm::Out);
    for (size_t k = 0; k < with_out->outs(); ++k)
      call.values.insert(call.values.begin() + static_cast<std::ptrdiff_t>(k),
                         Value(arg_out(out, static_cast<int>(k))));
    call.op = with_out;
  }
  return call;
}

/// nn.functional's functions with an argument `inplace` are the op, or its in-place form, to other libraries.
Call as_plain_op(Call call) {
  constexpr std::string_view kPrefix = "functional_";
  if (!call.op->name.starts_with(kPrefix)) return call;
  std::string name = call.op->name.substr(kPrefix.size());
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (call.op->arguments[i].name == "inplace" && call.values[i].to_bool()) name += "_";
  }
  const BoxedOp* plain = find_boxed(name + ".default");
  if (!plain) return call;
  Call made{plain, {}};
  for (const BoxedArgument& wanted : plain->arguments) {
    Value value = wanted.default_value;
    for (size_t i = 0; i < call.values.size(); ++i) {
      if (call.op->arguments[i].name == wanted.name) value = call.values[i];
    }
    if (value.is_none() && wanted.name == "dim") {  // what softmax takes where none is given
      const int64_t ndim = call.values[0].tensor().dim();
      value = Value(int64_t{ndim == 0 || ndim == 1 || ndim == 3 ? 0 : 1});
    }
    if (!wanted.type.accepts(value)) return call;
    made.values.push_back(std::move(value));
  }
  return made;
}

std::vector<Value> read_results(const BoxedOp& op, PyObject* result) {
  std::vector<Value> values;
  if (op.results.size() == 1) {
    values.push_back(to_value(result));
    return values;
  }
  Owned items(check(PySequence_Fast(result, "recorder: several results")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    values.push_back(to_value(PySequence_Fast_GET_ITEM(items.get(), i)));
  }
  return values;
}

bool gives_tensors(const BoxedOp& op) {
  return std::all_of(op.results.begin(), op.results.end(), [](const BoxedType& t) { return t.is_tensor(); });
}

void add_node(const Call& call, std::vector<Arg> arguments, PyObject* result) {
  const std::vector<Value> results = read_results(*call.op, result);
  FACULA_CHECK(results.size() == call.op->results.size(), ErrorKind::Runtime, call.op->key(), ": gave ", results.size(),
               " results where ", call.op->results.size(), " are stated");
  present->recorder.add(*call.op, std::move(arguments), results);
}

[[noreturn, gnu::cold]] void refuse_value(const char* op) {
  const std::string where = source_here();
  throw_error(ErrorKind::Runtime, "export: ", op, where.empty() ? "" : " at " + where,
              " makes Python depend on the values of a tensor, so that the program would be another one for other "
              "values: use facula.where() to choose between elements, facula.cond() between computations, or keep the "
              "number a tensor");
}

bool knows_any(const Recorder& recorder, const Call& call) {
  for (const Value& v : call.values) {
    if (v.is_tensor() && recorder.knows(v.tensor())) return true;
    if (v.kind() != Value::Kind::Tensors) continue;
    for (const Tensor& t : v.tensors()) {
      if (t.defined() && recorder.knows(t)) return true;
    }
  }
  return false;
}

bool has_tensors(PyObject* o) {
  if (is_tensor(o)) return true;
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    if (has_tensors(PySequence_Fast_GET_ITEM(o, i))) return true;
  }
  return false;
}

}  // namespace

bool is_recording() { return present && present->paused == 0; }

void note_value_needed(const Tensor& tensor, const char* op) {
  if (!is_recording() || !present->recorder.knows(tensor)) return;
  PyObject* handler = PyDict_GetItemString(present->handlers.get(), "value");
  if (!handler) refuse_value(op);
  Owned object(wrap(tensor));
  Owned(check(call_python(PyObject_CallFunction, handler, "Os", object.get(), op)));
}

PyObject* record_creation(const char* name, PyObject* args, PyObject* kwargs) {
  const Pause pause;
  return call_override_with(name, args, kwargs);
}

Owned find_recorded_sizes(PyObject* tensor) {
  if (!is_recording()) return Owned();
  PyObject* handler = PyDict_GetItemString(present->handlers.get(), "sizes");
  if (!handler) return Owned();
  Owned sizes(check(call_python(PyObject_CallOneArg, handler, tensor)));
  return sizes.get() == Py_None ? Owned() : std::move(sizes);
}

PyObject* record_call(const FunctionSpec& f, int chosen, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                      PyObject* kwnames, PyObject** slots) {
  return guarded([&] {
    // Functions that PyTorch writes with ops of its own have a handler that does as much.
    if (PyObject* handler = PyDict_GetItemString(present->handlers.get(), (std::string("op:") + f.name).c_str())) {
      std::vector<PyObject*> all;
      if (self) all.push_back(self);
      all.insert(all.end(), args, args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
      return check(
          call_python(PyObject_Vectorcall, handler, all.data(), static_cast<size_t>(nargs) + (self ? 1 : 0), kwnames));
    }
    const Call call = as_plain_op(read_call(f, chosen, slots));
    if (!gives_tensors(*call.op) && knows_any(present->recorder, call)) refuse_value(f.name);
    std::vector<Arg> arguments;
    for (const Value& v : call.values) arguments.push_back(present->recorder.argument(v));
    Owned result;
    {
      const Pause pause;
      const BoundFunction function = find_binding(f.name, self != nullptr);
      FACULA_CHECK(function, ErrorKind::Runtime, f.name, ": no binding goes by this name");
      result = Owned(check(function(self, args, nargs, kwnames)));
    }
    if (gives_tensors(*call.op)) add_node(call, std::move(arguments), result.get());
    return result.release();
  });
}

PyObject* record_named(const char* name, bool method, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                       PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    if (PyObject* handler = PyDict_GetItemString(present->handlers.get(), name)) {
      std::vector<PyObject*> all;
      if (self) all.push_back(self);
      all.insert(all.end(), args, args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
      return check(
          call_python(PyObject_Vectorcall, handler, all.data(), static_cast<size_t>(nargs) + (self ? 1 : 0), kwnames));
    }
    const std::string plain = std::string_view(name).starts_with("__")
                                  ? std::string(name + 2, std::string_view(name).size() - 4)
                                  : std::string(name);
    if (BoundFunction function = find_binding(plain, method)) {  // an operator
      return check(function(self, args, nargs, kwnames));
    }
    Owned result;
    {
      const Pause pause;
      result = Owned(check(call_override(name, method, self, args, nargs, kwnames)));
    }
    FACULA_CHECK(!has_tensors(result.get()), ErrorKind::NotImplemented, "export: ", name,
                 " is no op that a program can hold");
    return result.release();
  });
}

// ---- what Python calls

namespace {

PyObject* text(const std::string& s) {
  return check(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

PyObject* record_begin(PyObject*, PyObject* args) {
  PyObject *handlers = nullptr, *find_path = nullptr;
  const char* package = nullptr;
  if (!PyArg_ParseTuple(args, "O!Os", &PyDict_Type, &handlers, &find_path, &package)) return nullptr;
  return guarded([&] {
    FACULA_CHECK(!present, ErrorKind::Runtime, "export: a program is being recorded on this thread already");
    present = new Recording;
    present->handlers = Owned::share(handlers);
    present->find_path = Owned::share(find_path);
    present->package = package;
    present->recorder.find_source = source_here;
    present->recorder.find_path = path_of;
    set_recorder_sees_calls(true);
    return Py_NewRef(Py_None);
  });
}

// _record_inner_begin(): what is called from now on is a program of its own, to which all other tensors are constants
PyObject* record_inner_begin(PyObject*, PyObject*) {
  return guarded([&] {
    Recording& outer = active("_record_inner_begin");
    FACULA_CHECK(outer.paused == 0, ErrorKind::Runtime, "recorder: what runs inside an op is not recorded");
    auto inner = std::make_unique<Recording>();
    Owned handlers(check(PyDict_Copy(outer.handlers.get())));
    if (PyDict_Contains(handlers.get(), Owned(text("sizes")).get()) == 1)
      check(PyDict_DelItemString(handlers.get(), "sizes"));
    inner->handlers = std::move(handlers);
    inner->package = outer.package;
    inner->recorder.find_source = source_here;
    inner->recorder.find_path = [n = 0](const Tensor&) mutable { return "outer_" + std::to_string(n++); };
    inner->outer.reset(present);
    present = inner.release();
    return Py_NewRef(Py_None);
  });
}
// _record_inner_end(): the program so far; the recording outside goes on
PyObject* record_inner_end(PyObject*, PyObject*) {
  return guarded([&] {
    Recording& recording = active("_record_inner_end");
    FACULA_CHECK(recording.outer, ErrorKind::Runtime, "_record_inner_end: no function inside a program is recorded");
    std::shared_ptr<Program> program = recording.recorder.finish();
    end_present();
    return wrap_program(std::move(program));
  });
}

PyObject* record_end(PyObject*, PyObject*) {
  return guarded([&] {
    Recording& recording = active("_record_end");
    std::shared_ptr<Program> program = recording.recorder.finish();
    set_recorder_sees_calls(false);
    end_present();
    return wrap_program(std::move(program));
  });
}

ProgramInput::Kind input_kind(std::string_view word) {
  for (auto kind : {ProgramInput::Kind::User, ProgramInput::Kind::Parameter, ProgramInput::Kind::Buffer,
                    ProgramInput::Kind::Constant}) {
    if (word == name(kind)) return kind;
  }
  throw_error(ErrorKind::Value, "recorder: expected a kind of input, got ", word);
}

// _record_input(tensor, kind, name, path, persistent, sizes): the number of its value; sizes are integers or texts
PyObject* record_input(PyObject*, PyObject* args) {
  PyObject *object = nullptr, *sizes = nullptr;
  const char *kind = nullptr, *name = nullptr, *path = nullptr;
  int persistent = 1;
  if (!PyArg_ParseTuple(args, "OssspO", &object, &kind, &name, &path, &persistent, &sizes)) return nullptr;
  return guarded([&] {
    Recorder& recorder = active("_record_input").recorder;
    ProgramInput input;
    input.kind = input_kind(kind);
    input.path = path;
    input.persistent = persistent != 0;
    if (!is_tensor(object)) {
      const Value value = to_value(object);
      input.constant = value.is_symbolic() ? Value() : value;
      recorder.add_number(std::move(input), name, value.is_symbolic() ? Value::Kind::Int : value.kind());
      return Py_NewRef(Py_True);
    }
    const Tensor& tensor = operand_tensor_of(object);
    if (input.kind != ProgramInput::Kind::User) input.tensor = tensor;
    TensorMeta meta = TensorMeta::of(tensor);
    for (Py_ssize_t d = 0; sizes != Py_None && d < PySequence_Size(sizes); ++d) {
      Owned size(check(PySequence_GetItem(sizes, d)));
      if (PyUnicode_Check(size.get())) meta.sizes[static_cast<size_t>(d)] = Expr::parse(utf8(size.get()));
    }
    return PyBool_FromLong(recorder.add_input(tensor, std::move(input), name, std::move(meta)));
  });
}

// _record_symbol(name, least, most or None, sample)
PyObject* record_symbol(PyObject*, PyObject* args) {
  const char* name = nullptr;
  long long least = 0, sample = 0;
  PyObject* most = nullptr;
  if (!PyArg_ParseTuple(args, "sLOL", &name, &least, &most, &sample)) return nullptr;
  return guarded([&] {
    Symbol symbol{name, least, std::nullopt, sample};
    if (most != Py_None) symbol.most = to_int(most);
    active("_record_symbol").recorder.program()->symbols.push_back(std::move(symbol));
    return Py_NewRef(Py_None);
  });
}

// _record_guard(text)
PyObject* record_guard(PyObject*, PyObject* condition) {
  return guarded([&] {
    Program& program = *active("_record_guard").recorder.program();
    Guard guard = Guard::parse(utf8(condition));
    guard.source = source_here();
    if (std::find(program.guards.begin(), program.guards.end(), guard) == program.guards.end())
      program.guards.push_back(std::move(guard));
    return Py_NewRef(Py_None);
  });
}

// _record_outputs(values): a list of tensors, numbers and None
PyObject* record_outputs(PyObject*, PyObject* values) {
  return guarded([&] {
    Recorder& recorder = active("_record_outputs").recorder;
    Owned items(check(PySequence_Fast(values, "recorder: a list of outputs")));
    std::vector<Arg> outputs;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      outputs.push_back(recorder.argument(to_value(PySequence_Fast_GET_ITEM(items.get(), i))));
    }
    recorder.set_outputs(std::move(outputs));
    return Py_NewRef(Py_None);
  });
}

// _record_op(key, arguments, function, function arguments): calls the function, which is this op, and records it
PyObject* record_op(PyObject*, PyObject* args) {
  PyObject *key = nullptr, *values = nullptr, *function = nullptr, *given = nullptr;
  if (!PyArg_ParseTuple(args, "UO!OO!", &key, &PyTuple_Type, &values, &function, &PyTuple_Type, &given)) return nullptr;
  return guarded([&] {
    active("_record_op");
    const std::string name(utf8(key));
    const BoxedOp* op = find_boxed(name);
    FACULA_CHECK(op, ErrorKind::Attribute, "recorder: the table has no op ", name);
    const Call call{op, {}};
    std::vector<Arg> arguments;
    for (size_t i = 0; i < op->arguments.size(); ++i) {
      const BoxedArgument& a = op->arguments[i];
      const bool is_given = i < static_cast<size_t>(PyTuple_GET_SIZE(values));
      arguments.push_back(
          is_given ? present->recorder.argument(to_value(PyTuple_GET_ITEM(values, static_cast<Py_ssize_t>(i)), a.type,
                                                         name.c_str(), a.name.c_str()))
                   : Arg(a.default_value));
    }
    Owned result;
    {
      const Pause pause;
      result = Owned(check(call_python(PyObject_CallObject, function, given)));
    }
    add_node(call, std::move(arguments), result.get());
    return result.release();
  });
}

// _record_unseen(function, arguments): calls it without recording what it does
PyObject* record_unseen(PyObject*, PyObject* args) {
  PyObject *function = nullptr, *given = nullptr;
  if (!PyArg_ParseTuple(args, "OO!", &function, &PyTuple_Type, &given)) return nullptr;
  return guarded([&] {
    if (!present) return check(call_python(PyObject_CallObject, function, given));
    const Pause pause;
    return check(call_python(PyObject_CallObject, function, given));
  });
}

// _record_module(path): says which module runs from now on; returns which ran
PyObject* record_module(PyObject*, PyObject* path) {
  return guarded([&] {
    std::string& module = active("_record_module").recorder.module;
    Owned before(text(module));
    module = utf8(path);
    return before.release();
  });
}
// _record_value(tensor): the number of its value, -1 for a tensor that is not known
PyObject* record_value(PyObject*, PyObject* tensor) {
  return guarded([&] {
    Recorder& recorder = active("_record_value").recorder;
    const bool known = is_tensor(tensor) && recorder.knows(tensor_of(tensor));
    return PyLong_FromLong(known ? recorder.value_of(tensor_of(tensor)) : -1);
  });
}
PyObject* recording(PyObject*, PyObject*) { return PyBool_FromLong(is_recording()); }
PyObject* record_source(PyObject*, PyObject*) {
  return guarded([&] {
    active("_record_source");
    return text(source_here());
  });
}

PyMethodDef functions[] = {
    {"_record_begin", record_begin, METH_VARARGS,
     "_record_begin(handlers, find_path, package): records what this thread calls from now on."},
    {"_record_end", record_end, METH_NOARGS, "Ends the recording: the program so far."},
    {"_record_inner_begin", record_inner_begin, METH_NOARGS, "Begins to record a function inside the program."},
    {"_record_inner_end", record_inner_end, METH_NOARGS, "Ends what _record_inner_begin began: that program so far."},
    {"_record_input", record_input, METH_VARARGS,
     "_record_input(tensor, kind, name, path, persistent, sizes): False when the tensor is an input already."},
    {"_record_symbol", record_symbol, METH_VARARGS, "_record_symbol(name, least, most, sample)"},
    {"_record_guard", record_guard, METH_O, "_record_guard(text): a condition on symbols that a run has to meet."},
    {"_record_outputs", record_outputs, METH_O, "_record_outputs(values)"},
    {"_record_op", record_op, METH_VARARGS,
     "_record_op(key, arguments, function, given): calls the function, and records that it is this op."},
    {"_record_unseen", record_unseen, METH_VARARGS, "_record_unseen(function, arguments): calls it, unrecorded."},
    {"_record_module", record_module, METH_O, "_record_module(path): which module runs; returns which ran."},
    {"_record_value", record_value, METH_O, "The number of a tensor's value, -1 for one that is not known."},
    {"_record_source", record_source, METH_NOARGS, "Where the program is, file:line."},
    {"_recording", recording, METH_NOARGS, "Whether calls of this thread are recorded."},
    {}};

}  // namespace

void init_record(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
