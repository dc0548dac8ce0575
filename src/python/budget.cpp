// Memory budgets: setting one, and what its report has (budget/report.h). Texts are made in facula/utils.
#include "budget/budget.h"

#include "budget/moved.h"
#include "budget/record.h"
#include "budget/report.h"
#include "budget/times.h"
#include "budget/why_full.h"
#include "cpu/allocator.h"
#include "cuda/allocator.h"
#include "python/objects.h"

namespace facula::python {
namespace {

using budget::Report;

PyObject* number(uint64_t value) { return check(PyLong_FromUnsignedLongLong(value)); }
PyObject* text(const std::string& value) {
  return check(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}
PyObject* place_of(uint32_t place) { return text(budget::short_place(place)); }
PyObject* op_of(uint16_t op) { return text(op ? budget::public_name_of(op) : ""); }

/// A tuple of new references, which may be null where an error is set.
template <class... Items>
PyObject* tuple_of(Items... items) {
  Owned owned[] = {Owned(items)...};
  for (const Owned& item : owned) check(item.get());
  Owned tuple(check(PyTuple_New(sizeof...(items))));
  Py_ssize_t i = 0;
  for (Owned& item : owned) PyTuple_SET_ITEM(tuple.get(), i++, item.release());
  return tuple.release();
}

template <class T, class F>
PyObject* list_of(const std::vector<T>& values, F&& wrapped) {
  Owned list(check(PyList_New(static_cast<Py_ssize_t>(values.size()))));
  for (size_t i = 0; i < values.size(); ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), check(wrapped(values[i])));
  }
  return list.release();
}

/// Arguments of the functions below: a device, then integers.
struct Given {
  Given(PyObject* args, Py_ssize_t count) : args_(args) {
    FACULA_CHECK(PyTuple_GET_SIZE(args) == count, ErrorKind::Type, "memory_budget: ", count, " arguments, got ",
                 PyTuple_GET_SIZE(args));
  }
  Device device() const {
    const Device given = to_device_value(PyTuple_GET_ITEM(args_, 0));
    FACULA_CHECK(given.is_cpu() || given.is_cuda(), ErrorKind::Value,
                 "memory_budget: expected the CPU or a CUDA device, got ", given);
    return given.is_cpu() ? kCPU : Device{DeviceType::CUDA, std::max<int8_t>(given.index, 0)};
  }
  Report& report() const { return budget::report_of(device()); }
  int64_t integer(Py_ssize_t i) const { return to_int(PyTuple_GET_ITEM(args_, i)); }

 private:
  PyObject* args_;
};

size_t held_on(Device device) {
  if (device.is_cpu()) return cpu::memory_stats().allocated_bytes.current;
  return static_cast<size_t>(cuda::allocator_stats(device.index).allocated_bytes.all.current);
}

/// The most that the allocator has counted, since the start or the last reset of peaks.
size_t peak_of(Device device) {
  if (device.is_cpu()) return cpu::memory_stats().allocated_bytes.peak;
  return static_cast<size_t>(cuda::allocator_stats(device.index).allocated_bytes.all.peak);
}

// _budget_set(device, bytes) -> the bound before; 0 is none
PyObject* set(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2);
    const Device device = given.device();
    const int64_t bytes = given.integer(1);
    FACULA_CHECK(bytes >= 0, ErrorKind::Value, "memory_budget: a number of bytes, or 0 for none, got ", bytes);
    const size_t before = budget::budget_of(device);
    budget::set_budget(device, static_cast<size_t>(bytes));
    return number(before);
  });
}

PyObject* get(PyObject*, PyObject* args) {
  return guarded([&] { return number(budget::budget_of(Given(args, 1).device())); });
}

PyObject* time_of_maker(PyObject*, PyObject* tensor) {
  return guarded([&] {
    FACULA_CHECK(is_tensor(tensor), ErrorKind::Type, "_budget_time: expected a Tensor, got ", Py_TYPE(tensor)->tp_name);
    return number(budget::time_of_maker(tensor_of(tensor)));
  });
}

PyObject* set_threshold(PyObject*, PyObject* value) {
  return guarded([&] {
    const int64_t bytes = to_int(value);
    FACULA_CHECK(bytes >= 0, ErrorKind::Value, "_budget_threshold: a number of bytes, got ", bytes);
    return number(budget::set_smallest(static_cast<size_t>(bytes)));
  });
}

// _budget_folder(path or None: of the environment) -> the one before, "" for none
PyObject* set_folder(PyObject*, PyObject* path) {
  return guarded([&] {
    const std::string before = budget::folder();
    if (path == Py_None) {
      budget::set_folder_of_environment();
    } else {
      const char* folder = PyBytes_AsString(path);
      if (!folder) throw PythonError{};
      budget::set_folder(folder);
    }
    return check(PyUnicode_DecodeFSDefault(before.c_str()));
  });
}

PyObject* set_move_price(PyObject*, PyObject* factor) {
  return guarded([&] { return check(PyFloat_FromDouble(budget::set_move_price(to_float(factor)))); });
}

// _budget_let_go(device, bytes) -> how many went: what an allocator does that is short of memory
PyObject* let_go(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2);
    const auto bytes = static_cast<size_t>(given.integer(1));
    return number(budget_hooks.make_room ? budget_hooks.make_room(given.device(), bytes) : 0);
  });
}
// _budget_why(device, bytes) -> what the error says of a request that fails now
PyObject* why(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2);
    const auto bytes = static_cast<size_t>(given.integer(1));
    return text(budget_hooks.why_full ? budget_hooks.why_full(given.device(), bytes) : "");
  });
}

// ---- watches

PyObject* peak(PyObject*, PyObject* args) {
  return guarded([&] { return number(peak_of(Given(args, 1).device())); });
}
PyObject* begin_watch(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 1);
    return number(given.report().begin_watch(held_on(given.device())));
  });
}
PyObject* watched(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2);
    const budget::Highest highest = given.report().watched(static_cast<uint32_t>(given.integer(1)));
    return tuple_of(number(std::max<uint64_t>(highest.held, held_on(given.device()))), number(highest.plain),
                    number(highest.smallest), number(highest.let_go));
  });
}
PyObject* end_watch(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2);
    given.report().end_watch(static_cast<uint32_t>(given.integer(1)));
    return Py_NewRef(Py_None);
  });
}

// ---- readers

PyObject* wrap_row(const budget::Row& r) {
  return tuple_of(op_of(r.by.op), place_of(r.by.place), number(r.let_go), number(r.let_go_bytes), number(r.again),
                  number(r.again_bytes), number(r.again_ns), number(r.moved), number(r.moved_bytes),
                  number(r.moved_ns));
}
PyObject* wrap_copied(const budget::Copied& c) {
  return tuple_of(wrap_size(c.sizes), wrap_dtype(c.dtype), place_of(c.place), number(c.count), number(c.bytes));
}

// _budget_report(device) -> sums since the process began
PyObject* report(PyObject*, PyObject* args) {
  return guarded([&] {
    const budget::Totals totals = Given(args, 1).report().totals();
    const Owned rows(list_of(totals.rows, wrap_row)), copied(list_of(totals.copied, wrap_copied));
    return check(Py_BuildValue(
        "{s:O,s:O,s:K,s:L,s:K,s:L,s:K,s:K}", "rows", rows.get(), "copied", copied.get(), "passes",
        static_cast<unsigned long long>(totals.passes), "last_pass_end", static_cast<long long>(totals.last_pass_end),
        "rooms", static_cast<unsigned long long>(totals.rooms), "now", static_cast<long long>(budget::report_clock()),
        "steps_ns", static_cast<unsigned long long>(totals.steps_ns), "steps_again_ns",
        static_cast<unsigned long long>(totals.steps_again_ns)));
  });
}

constexpr const char* kEventNames[] = {"request", "again", "moved away", "moved back", "copied"};

PyObject* wrap_event(const budget::Event& e) {
  PyObject* shape = e.shaped ? wrap_size(e.sizes.dims()) : Py_NewRef(Py_None);
  PyObject* dtype = e.shaped ? wrap_dtype(e.dtype) : Py_NewRef(Py_None);
  return tuple_of(wrap(e.time), op_of(e.by.op), place_of(e.by.place), shape, dtype, number(e.bytes),
                  text(kEventNames[static_cast<int>(e.kind)]), number(e.ns));
}
// _budget_events(device, since) -> [(time, op, place, shape, dtype, bytes, cause, ns), ...]
PyObject* events(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2);
    return list_of(given.report().events(given.integer(1)), wrap_event);
  });
}
// _budget_samples(device, since) -> [(time, held, saved, gone, gradients), ...]
PyObject* samples(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2);
    return list_of(given.report().samples(given.integer(1)), [](const budget::Sample& s) {
      return tuple_of(wrap(s.time), number(s.held), number(s.saved), number(s.gone), number(s.gradients));
    });
  });
}
// _budget_passes(device, since) -> [(begin, end), ...]; end 0: it runs
PyObject* passes(PyObject*, PyObject* args) {
  return guarded([&] {
    const Given given(args, 2);
    return list_of(given.report().passes(given.integer(1)),
                   [](const budget::Pass& p) { return tuple_of(wrap(p.begin), wrap(p.end)); });
  });
}

constexpr const char* kHeldNames[] = {"model", "gradient", "program", "saved", "needed"};

// _budget_held(device) -> [(kind, bytes, shape, dtype), ...] of what the program's objects hold, each storage once
PyObject* held(PyObject*, PyObject* args) {
  return guarded([&] {
    std::vector<budget::HeldMemory> found;
    if (budget::find_held_memory) budget::find_held_memory(Given(args, 1).device(), found);
    return list_of(budget::each_once(std::move(found)), [](const budget::HeldMemory& m) {
      return tuple_of(text(kHeldNames[static_cast<int>(m.kind)]), number(m.bytes), wrap_size(m.sizes),
                      wrap_dtype(m.dtype));
    });
  });
}

PyMethodDef functions[] = {
    {"_budget_set", set, METH_VARARGS,
     "_budget_set(device, bytes): bounds its memory; returns the bound before, 0: none."},
    {"_budget_get", get, METH_VARARGS, "_budget_get(device): the bound, 0: none."},
    {"_budget_let_go", let_go, METH_VARARGS, "_budget_let_go(device, bytes): makes room; returns how many bytes went."},
    {"_budget_why", why, METH_VARARGS,
     "_budget_why(device, bytes): the text of an error for a request that fails now."},
    {"_budget_threshold", set_threshold, METH_O,
     "_budget_threshold(bytes): smaller results are not let go of; returns the threshold before."},
    {"_budget_time", time_of_maker, METH_O,
     "_budget_time(tensor): nanoseconds that the op took that made it, as far as is known; 0 where nobody keeps that."},
    {"_budget_folder", set_folder, METH_O,
     "_budget_folder(path): where bytes of the CPU are moved to, b'' nowhere, None as FACULA_BUDGET_DIR says; returns "
     "the folder before."},
    {"_budget_move_price", set_move_price, METH_O,
     "_budget_move_price(factor): what moves seem to cost, 1: what they do; returns the factor before."},
    {"_budget_peak", peak, METH_VARARGS, "_budget_peak(device): the most bytes that the allocator has counted."},
    {"_budget_begin_watch", begin_watch, METH_VARARGS, "_budget_begin_watch(device): a number for _budget_watched()."},
    {"_budget_watched", watched, METH_VARARGS,
     "_budget_watched(device, watch): (highest bytes held, without a budget, smallest budget, bytes let go) since."},
    {"_budget_end_watch", end_watch, METH_VARARGS, "_budget_end_watch(device, watch): it ends."},
    {"_budget_report", report, METH_VARARGS, "_budget_report(device): sums since the process began."},
    {"_budget_events", events, METH_VARARGS,
     "_budget_events(device, since): (time, op, place, shape, dtype, bytes, cause, ns) of the last events."},
    {"_budget_samples", samples, METH_VARARGS,
     "_budget_samples(device, since): (time, held, saved, gone, gradients), bytes over time."},
    {"_budget_passes", passes, METH_VARARGS, "_budget_passes(device, since): (begin, end) of backward passes."},
    {"_budget_held", held, METH_VARARGS, "_budget_held(device): (kind, bytes, shape, dtype) of what objects hold."},
    {}};

}  // namespace

void init_budget(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace facula::python
