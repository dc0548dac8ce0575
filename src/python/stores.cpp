// Stores, as facula.distributed._store wraps them. Times are seconds; keys and values are bytes or str.
#include <unistd.h>

#include "distributed/store.h"
#include "distributed/tcp_store.h"
#include "python/distributed_objects.h"
#include "python/free_threading.h"

namespace facula::python {
namespace {

using distributed::Store;
using distributed::Texts;

struct StoreObject {
  PyObject_HEAD std::shared_ptr<Store> store;
};

std::string text_of(PyObject* value, const char* what) {
  if (PyUnicode_Check(value)) return std::string(utf8(value));
  if (PyBytes_Check(value)) return {PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value))};
  throw_error(ErrorKind::Type, "store: ", what, " must be str or bytes, got ", Py_TYPE(value)->tp_name);
}

Texts texts_of(PyObject* list, const char* what) {
  Owned items(snapshot(list, "store: expected a list of keys"));
  if (!items) throw PythonError{};
  Texts texts;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    texts.push_back(text_of(PySequence_Fast_GET_ITEM(items.get(), i), what));
  return texts;
}

PyObject* to_python(const std::string& bytes) {
  return check(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}
PyObject* to_python(int64_t number) { return check(PyLong_FromLongLong(number)); }
PyObject* to_python(bool value) { return PyBool_FromLong(value); }
PyObject* to_python(const Texts& texts) {
  Owned list(check(PyList_New(static_cast<Py_ssize_t>(texts.size()))));
  for (size_t i = 0; i < texts.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), to_python(texts[i]));
  return list.release();
}

/// Runs `ask` on the store without the interpreter lock; a wait inside can be interrupted.
template <class F>
PyObject* asking(PyObject* self, F ask) {
  return guarded([&]() -> PyObject* {
    const auto store = reinterpret_cast<StoreObject*>(self)->store;
    const auto run = [&] {
      WithoutLock unlocked;
      distributed::Interruptible interruptible;
      return ask(*store);
    };
    if constexpr (std::is_void_v<decltype(ask(*store))>) {
      run();
      return Py_NewRef(Py_None);
    } else {
      return to_python(run());
    }
  });
}

/// The arguments of a method, as `format` of PyArg_ParseTuple reads them.
template <class... T>
void parse(PyObject* args, const char* format, T*... slots) {
  if (!PyArg_ParseTuple(args, format, slots...)) throw PythonError{};
}

PyObject* store_set(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject *key, *value;
    parse(args, "OO", &key, &value);
    std::string k = text_of(key, "a key"), v = text_of(value, "a value");
    return check(asking(self, [&](Store& s) { s.set(k, std::move(v)); }));
  });
}
PyObject* store_get(PyObject* self, PyObject* key) {
  return guarded([&] {
    const std::string k = text_of(key, "a key");
    return check(asking(self, [&](Store& s) { return s.get(k); }));
  });
}
PyObject* store_add(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* key;
    long long amount;
    parse(args, "OL", &key, &amount);
    const std::string k = text_of(key, "a key");
    return check(asking(self, [&](Store& s) { return s.add(k, amount); }));
  });
}
PyObject* store_compare_set(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject *key, *expected, *desired;
    parse(args, "OOO", &key, &expected, &desired);
    const std::string k = text_of(key, "a key"), e = text_of(expected, "a value"), d = text_of(desired, "a value");
    return check(asking(self, [&](Store& s) { return s.compare_set(k, e, d); }));
  });
}
PyObject* store_check(PyObject* self, PyObject* keys) {
  return guarded([&] {
    const Texts k = texts_of(keys, "a key");
    return check(asking(self, [&](Store& s) { return s.has(k); }));
  });
}
PyObject* store_wait(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* keys;
    double timeout = -1;
    parse(args, "O|d", &keys, &timeout);
    const Texts k = texts_of(keys, "a key");
    return check(asking(self, [&](Store& s) { s.wait(k, timeout < 0 ? s.timeout() : timeout); }));
  });
}
PyObject* store_delete_key(PyObject* self, PyObject* key) {
  return guarded([&] {
    const std::string k = text_of(key, "a key");
    return check(asking(self, [&](Store& s) { return s.delete_key(k); }));
  });
}
PyObject* store_num_keys(PyObject* self, PyObject*) {
  return asking(self, [](Store& s) { return s.num_keys(); });
}
PyObject* store_list_keys(PyObject* self, PyObject*) {
  return asking(self, [](Store& s) { return s.list_keys(); });
}
PyObject* store_append(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject *key, *value;
    parse(args, "OO", &key, &value);
    const std::string k = text_of(key, "a key"), v = text_of(value, "a value");
    return check(asking(self, [&](Store& s) { s.append(k, v); }));
  });
}
PyObject* store_multi_get(PyObject* self, PyObject* keys) {
  return guarded([&] {
    const Texts k = texts_of(keys, "a key");
    return check(asking(self, [&](Store& s) { return s.multi_get(k); }));
  });
}
PyObject* store_multi_set(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject *keys, *values;
    parse(args, "OO", &keys, &values);
    const Texts k = texts_of(keys, "a key"), v = texts_of(values, "a value");
    return check(asking(self, [&](Store& s) { s.multi_set(k, v); }));
  });
}
PyObject* store_queue_push(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject *key, *value;
    parse(args, "OO", &key, &value);
    const std::string k = text_of(key, "a key"), v = text_of(value, "a value");
    return check(asking(self, [&](Store& s) { s.queue_push(k, v); }));
  });
}
PyObject* store_queue_pop(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* key;
    int block = 1;
    parse(args, "O|p", &key, &block);
    const std::string k = text_of(key, "a key");
    return check(asking(self, [&](Store& s) { return s.queue_pop(k, block != 0); }));
  });
}
PyObject* store_queue_len(PyObject* self, PyObject* key) {
  return guarded([&] {
    const std::string k = text_of(key, "a key");
    return check(asking(self, [&](Store& s) { return s.queue_len(k); }));
  });
}
PyObject* store_barrier(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* key;
    long long size;
    double timeout;
    parse(args, "OLd", &key, &size, &timeout);
    const std::string k = text_of(key, "a key");
    return check(asking(self, [&](Store& s) { s.barrier(k, size, timeout < 0 ? s.timeout() : timeout); }));
  });
}
PyObject* store_clone(PyObject* self, PyObject*) {
  return guarded([&] { return wrap_store(reinterpret_cast<StoreObject*>(self)->store->clone()); });
}
PyObject* store_timeout(PyObject* self, PyObject* args) {
  return guarded([&] {
    double seconds = -1;
    parse(args, "|d", &seconds);
    Store& store = *reinterpret_cast<StoreObject*>(self)->store;
    if (seconds >= 0) store.set_timeout(seconds);
    return check(PyFloat_FromDouble(store.timeout()));
  });
}
PyObject* store_until(PyObject* self, PyObject* args) {
  return guarded([&] {
    double seconds;
    parse(args, "d", &seconds);
    reinterpret_cast<StoreObject*>(self)->store->set_until(seconds);
    return none();
  });
}
PyObject* store_address(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const auto* tcp = dynamic_cast<distributed::TcpStore*>(reinterpret_cast<StoreObject*>(self)->store.get());
    if (!tcp) return Py_NewRef(Py_None);
    return check(Py_BuildValue("(si)", tcp->host().c_str(), tcp->port()));
  });
}

PyMethodDef methods[] = {
    {"set", store_set, METH_VARARGS, "(key, value): keeps a value."},
    {"get", store_get, METH_O, "(key) -> bytes: waits for it."},
    {"add", store_add, METH_VARARGS, "(key, amount) -> the sum."},
    {"compare_set", store_compare_set, METH_VARARGS, "(key, expected, desired) -> the value that is there then."},
    {"check", store_check, METH_O, "(keys) -> whether all are there."},
    {"wait", store_wait, METH_VARARGS, "(keys, seconds)"},
    {"delete_key", store_delete_key, METH_O, "(key) -> whether it was there."},
    {"num_keys", store_num_keys, METH_NOARGS, "How many keys there are."},
    {"list_keys", store_list_keys, METH_NOARGS, "The keys, as bytes."},
    {"append", store_append, METH_VARARGS, "(key, value): at the end of what is there."},
    {"multi_get", store_multi_get, METH_O, "(keys) -> list of bytes."},
    {"multi_set", store_multi_set, METH_VARARGS, "(keys, values)"},
    {"queue_push", store_queue_push, METH_VARARGS, "(key, value)"},
    {"queue_pop", store_queue_pop, METH_VARARGS, "(key, block) -> bytes"},
    {"queue_len", store_queue_len, METH_O, "(key) -> int"},
    {"barrier", store_barrier, METH_VARARGS, "(key, world_size, seconds)"},
    {"clone", store_clone, METH_NOARGS, "The same store, for another thread."},
    {"until", store_until, METH_VARARGS, "Seconds from now in which all requests end; negative: no such limit."},
    {"timeout", store_timeout, METH_VARARGS, "Seconds that get and wait may take; sets them if given."},
    {"address", store_address, METH_NOARGS, "(host, port) of a TCP store, else None."},
    {}};

void store_dealloc(PyObject* self) {
  auto* object = reinterpret_cast<StoreObject*>(self);
  {
    WithoutLock unlocked;  // a server's thread is waited for
    object->store.~shared_ptr();
  }
  Py_TYPE(self)->tp_free(self);
}

PyTypeObject store_type = {.ob_base = PyVarObject_HEAD_INIT(nullptr, 0)};

void make_store_type(PyObject* module) {
  store_type.tp_name = "facula._C.Store";
  store_type.tp_basicsize = sizeof(StoreObject);
  store_type.tp_flags = Py_TPFLAGS_DEFAULT;
  store_type.tp_dealloc = store_dealloc;
  store_type.tp_methods = methods;
  store_type.tp_doc = "Keys and values that processes share; facula.distributed.Store wraps it.";
  check(PyType_Ready(&store_type));
  check(PyModule_AddObjectRef(module, "_Store", reinterpret_cast<PyObject*>(&store_type)));
}

// ---- a store of the program's own class

class PythonStore final : public Store {
 public:
  explicit PythonStore(PyObject* object) : Store(300), object_(Py_NewRef(object)) {}
  ~PythonStore() override {
    WithLock lock;
    Py_DECREF(object_);
  }
  std::shared_ptr<Store> clone() override {
    WithLock lock;
    return std::make_shared<PythonStore>(object_);
  }
  distributed::Reply call(const distributed::Request& request, double timeout) override;

 private:
  Owned method(const char* name, PyObject* args) const {  // takes the arguments
    Owned given(check(args)), bound(PyObject_GetAttrString(object_, name));
    if (!bound) throw PythonError{};
    return Owned(check(call_python(PyObject_CallObject, bound.get(), given.get())));
  }
  distributed::Reply ask(const distributed::Request& request, double timeout) const;
  PyObject* object_;
};

Owned key_list(const Texts& keys) {
  Owned list(check(PyList_New(0)));
  for (const std::string& key : keys)
    check(PyList_Append(list.get(), Owned(check(PyUnicode_FromString(key.c_str()))).get()));
  return list;
}

Owned time_of(double seconds) {
  Owned module(check(PyImport_ImportModule("datetime")));
  return Owned(check(call_python(PyObject_CallMethod, module.get(), "timedelta", "id", 0, seconds)));
}

int64_t number_of(const Owned& value) {
  const long long number = PyLong_AsLongLong(value.get());
  if (number == -1 && PyErr_Occurred()) throw PythonError{};
  return number;
}

distributed::Reply PythonStore::ask(const distributed::Request& request, double timeout) const {
  using distributed::StoreOp;
  distributed::Reply reply;
  const Texts &keys = request.keys, &values = request.values;
  const char* key = keys.empty() ? "" : keys[0].c_str();
  const auto bytes = [&](size_t i) { return Owned(to_python(values.at(i))); };
  switch (request.op) {
    case StoreOp::Set:
      for (size_t i = 0; i < keys.size(); ++i) method("set", Py_BuildValue("(sO)", keys[i].c_str(), bytes(i).get()));
      return reply;
    case StoreOp::Get:
      for (const std::string& k : keys)
        reply.values.push_back(text_of(method("get", Py_BuildValue("(s)", k.c_str())).get(), "a value"));
      return reply;
    case StoreOp::Wait:
      method("wait", Py_BuildValue("(OO)", key_list(keys).get(), time_of(timeout).get()));
      return reply;
    case StoreOp::WaitCount:
      while (number_of(method("add", Py_BuildValue("(si)", key, 0))) < request.number) {
        if (timeout <= 0) return {distributed::Answer::Timeout, {keys[0]}};
        timeout -= 0.01;
        WithoutLock unlocked;
        usleep(10000);
      }
      return reply;
    case StoreOp::Add:
      reply.number = number_of(method("add", Py_BuildValue("(sL)", key, static_cast<long long>(request.number))));
      return reply;
    case StoreOp::CompareSet: {
      const Owned found = method("compare_set", Py_BuildValue("(sOO)", key, bytes(0).get(), bytes(1).get()));
      return {distributed::Answer::Done, {text_of(found.get(), "a value")}};
    }
    case StoreOp::Check:
      reply.number = number_of(method("check", Py_BuildValue("(O)", key_list(keys).get())));
      return reply;
    case StoreOp::Delete: reply.number = number_of(method("delete_key", Py_BuildValue("(s)", key))); return reply;
    case StoreOp::NumKeys: reply.number = number_of(method("num_keys", PyTuple_New(0))); return reply;
    case StoreOp::Append: method("append", Py_BuildValue("(sO)", key, bytes(0).get())); return reply;
    default: break;
  }
  return {distributed::Answer::Refused, {"a store of the program's own class has no queues"}};
}

/// Also called by threads that know nothing of Python: its errors become ours.
distributed::Reply PythonStore::call(const distributed::Request& request, double timeout) {
  WithLock lock;
  try {
    return ask(request, timeout);
  } catch (const PythonError&) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    const Owned kind(type), raised(value), lines(trace), text(raised ? PyObject_Str(raised.get()) : nullptr);
    PyErr_Clear();
    distributed::fail(distributed::Trouble::Store, text ? printable(text.get()) : "store: failed");
  }
}

// ---- the kinds

PyObject* python_store(PyObject*, PyObject* object) {
  return guarded([&] { return wrap_store(std::make_shared<PythonStore>(object)); });
}

PyObject* hash_store(PyObject*, PyObject*) {
  return guarded([] { return wrap_store(std::make_shared<distributed::HashStore>()); });
}

PyObject* prefix_store(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *prefix, *store;
    parse(args, "OO!", &prefix, &store_type, &store);
    return wrap_store(std::make_shared<distributed::PrefixStore>(text_of(prefix, "a prefix"), store_of(store)));
  });
}

PyObject* file_store(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* path;
    long long world_size;
    parse(args, "OL", &path, &world_size);
    auto store = distributed::make_file_store(text_of(path, "a path"), world_size);
    store->num_keys();  // the file is there, or the error
    return wrap_store(std::move(store));
  });
}

PyObject* tcp_store(PyObject*, PyObject* args) {
  return guarded([&] {
    distributed::TcpStoreOptions o;
    const char *host, *token;
    long long world_size;
    int master, wait, tenant;
    parse(args, "siLpdppiz", &host, &o.port, &world_size, &master, &o.timeout, &wait, &tenant, &o.listen_fd, &token);
    o.host = host;
    o.world_size = world_size;
    o.is_master = master;
    o.wait_for_workers = wait;
    o.multi_tenant = tenant;
    o.token = token ? token : distributed::store_token();
    std::shared_ptr<Store> store;
    {
      WithoutLock unlocked;
      distributed::Interruptible interruptible;
      store = std::make_shared<distributed::TcpStore>(o);
    }
    return wrap_store(std::move(store));
  });
}

PyMethodDef functions[] = {
    {"_hash_store", hash_store, METH_NOARGS, "A store in this process."},
    {"_prefix_store", prefix_store, METH_VARARGS, "(prefix, store)"},
    {"_python_store", python_store, METH_O, "(store of a class written in Python)"},
    {"_file_store", file_store, METH_VARARGS, "(path, world_size)"},
    {"_tcp_store", tcp_store, METH_VARARGS,
     "(host, port, world_size, is_master, seconds, wait_for_workers, multi_tenant, listen_fd, token)"},
    {}};

}  // namespace

PyObject* wrap_store(std::shared_ptr<Store> store) {
  PyObject* object = check(store_type.tp_alloc(&store_type, 0));
  new (&reinterpret_cast<StoreObject*>(object)->store) std::shared_ptr<Store>(std::move(store));
  return object;
}

std::shared_ptr<Store> store_of(PyObject* object) {
  FACULA_CHECK(PyObject_TypeCheck(object, &store_type), ErrorKind::Type, "store: expected a store, got ",
               Py_TYPE(object)->tp_name);
  return reinterpret_cast<StoreObject*>(object)->store;
}

void init_stores(PyObject* module);  // called by module.cpp
void init_stores(PyObject* module) {
  make_store_type(module);
  init_process_groups(module);
  init_reducers(module);
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace facula::python
