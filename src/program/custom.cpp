#include "program/custom.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "autograd/batching.h"
#include "autograd/function_support.h"
#include "functions.h"

namespace facula {

namespace {

constexpr const char* kKernelKeyNames[] = {
    "CPU",      "CUDA",        "Meta",        "CompositeExplicitAutograd", "CompositeImplicitAutograd",
    "Autograd", "AutogradCPU", "AutogradCUDA"};
static_assert(std::size(kKernelKeyNames) == kKernelKeys);
// Of devices and modes that are not here; kernels for them are taken and never run.
constexpr std::string_view kElsewhere[] = {"Autocast",
                                           "AutocastCPU",
                                           "AutocastCUDA",
                                           "AutocastXPU",
                                           "AutogradXPU",
                                           "AutogradMPS",
                                           "HIP",
                                           "HPU",
                                           "IPU",
                                           "MPS",
                                           "MTIA",
                                           "PrivateUse1",
                                           "QuantizedCPU",
                                           "QuantizedCUDA",
                                           "SparseCPU",
                                           "SparseCUDA",
                                           "XLA",
                                           "XPU",
                                           "ADInplaceOrView",
                                           "BackendSelect",
                                           "FuncTorchBatched",
                                           "Functionalize",
                                           "Tracer",
                                           "MkldnnCPU",
                                           "AutogradPrivateUse1",
                                           "AutogradOther",
                                           "AutogradNestedTensor",
                                           "NestedTensorCPU",
                                           "ZeroTensor",
                                           "Python"};

thread_local constinit int below_autograd __attribute__((tls_model("initial-exec"))) = 0;

std::string plain_name(std::string_view name) {
  if (name.ends_with(".default")) name.remove_suffix(8);
  return std::string(name);
}

void call_row(void (*function)(), const Value* const* arguments, Value* results) {
  reinterpret_cast<const CustomOp*>(function)->call(arguments, results);
}

/// The arguments of a call with other tensors in their places.
class Replaced {
 public:
  Replaced(const Value* const* arguments, size_t count) : values_(count) {
    for (size_t i = 0; i < count; ++i) values_[i] = *arguments[i];
  }
  /// Calls f(const Tensor&), which gives the tensor for its place, for each that is there.
  template <class F>
  void each(F&& f) {
    for (Value& value : values_) {
      if (value.is_tensor()) {
        value = Value(f(value.tensor()));
      } else if (value.kind() == Value::Kind::Tensors) {
        std::vector<Tensor> list = value.tensors();
        for (Tensor& t : list) {
          if (t.defined()) t = f(t);
        }
        value = Value(std::move(list));
      }
    }
    places_.clear();
    for (const Value& value : values_) places_.push_back(&value);
  }
  const Value* const* places() const { return places_.data(); }

 private:
  std::vector<Value> values_;
  std::vector<const Value*> places_;
};

template <class F>
void each_tensor(const Value* const* arguments, size_t count, F&& f) {
  for (size_t i = 0; i < count; ++i) {
    const Value& value = *arguments[i];
    if (value.is_tensor()) f(value.tensor());
    if (value.kind() != Value::Kind::Tensors) continue;
    for (const Tensor& t : value.tensors()) {
      if (t.defined()) f(t);
    }
  }
}

/// What the results of a kernel without a derivative remember.
class Underived final : public Node {
 public:
  explicit Underived(const std::string& op) : op_(op) {}
  std::string name() const override { return op_ + "Backward"; }
  void apply(const Tensor*, Tensor*) override {
    throw_error(ErrorKind::Runtime, op_,
                ": backward needs a derivative and none is registered (a kernel for Autograd, or ",
                "library.register_autograd), got ", output_count(), " gradients");
  }

 private:
  std::string op_;
};

}  // namespace

// The table lives as long as the process: kernels in it belong to libraries that may end before it.
class CustomOps {
 public:
  CustomOp& entry(std::string_view space, std::string_view name) {
    const size_t colons = name.find("::");
    FACULA_CHECK(colons == std::string_view::npos || name.substr(0, colons) == space, ErrorKind::Runtime,
                 "library: an operator of the namespace '", space, "' is expected, got '", name, "'");
    const std::string full = plain_name(colons == std::string_view::npos ? std::string(space) + "::" + std::string(name)
                                                                         : std::string(name));
    auto& found = ops_[full];
    if (!found) {
      found.reset(new CustomOp(full));
      order_.push_back(found.get());
    }
    return *found;
  }
  void define(CustomOp& op, BoxedOp parsed, std::string_view schema) {
    const BoxedOp* before = op.row();
    if (before) {
      FACULA_CHECK(same(*before, parsed), ErrorKind::Runtime, "library: ", op.name(), " has another schema already, '",
                   *op.schema_.load(), "', got '", schema, "'");
      return;
    }
    parsed.name = op.name().substr(0, op.name().size() - (parsed.overload.empty() ? 0 : parsed.overload.size() + 1));
    for (const SchemaCheck check : op.checks_) check_fits(op.name(), schema, check(parsed));
    op.checks_.clear();
    parsed.draws = true;  // what it does besides giving results is not known
    parsed.function = {reinterpret_cast<void (*)()>(&op), call_row};
    op.schema_.store(new std::string(schema), std::memory_order_release);
    op.row_.store(new BoxedOp(std::move(parsed)), std::memory_order_release);
  }
  static void implement(CustomOp& op, KernelKey key, CustomKernel kernel, SchemaCheck check) {
    if (const BoxedOp* row = op.row()) check_fits(op.name(), *op.schema_.load(), check(*row));
    else op.checks_.push_back(check);
    if (key == KernelKey::Elsewhere) return;
    auto& place = op.kernels_[static_cast<size_t>(key)];
    FACULA_CHECK(!place.load(), ErrorKind::Runtime, "library: ", op.name(), " has a kernel for ", facula::name(key),
                 " already");
    place.store(new CustomKernel(std::move(kernel)), std::memory_order_release);
  }
  const CustomOp* find(const std::string& name) const {
    const auto found = ops_.find(name);
    return found == ops_.end() || !found->second->row() ? nullptr : found->second.get();
  }

  std::mutex mutex;
  std::map<std::string, std::unique_ptr<CustomOp>, std::less<>> ops_;
  std::vector<const CustomOp*> order_;
  std::map<std::string, std::string, std::less<>> spaces;  // namespace -> where it was claimed
  std::string errors;
  std::atomic<size_t> registrations{0};

 private:
  static void check_fits(const std::string& name, std::string_view schema, const std::string& why) {
    FACULA_CHECK(why.empty(), ErrorKind::Runtime, "library: ", name, ", declared as '", schema, "': ", why);
  }
  static bool same(const BoxedOp& a, const BoxedOp& b) {
    const auto equal = [](const BoxedArgument& x, const BoxedArgument& y) {
      return x.name == y.name && x.type.text() == y.type.text() && x.required == y.required &&
             x.default_value == y.default_value && x.keyword_only == y.keyword_only;
    };
    return std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(), b.arguments.end(), equal) &&
           std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(),
                      [](const BoxedType& x, const BoxedType& y) { return x.text() == y.text(); });
  }
};

static CustomOps& custom_ops() {
  static CustomOps* ops = new CustomOps;
  return *ops;
}

const char* name(KernelKey key) {
  return key == KernelKey::Elsewhere ? "another device" : kKernelKeyNames[static_cast<size_t>(key)];
}

KernelKey kernel_key(std::string_view name) {
  if (name.empty() || name == "CatchAll") return KernelKey::CompositeImplicit;
  if (name == "CompositeExplicitAutogradNonFunctional") return KernelKey::CompositeExplicit;
  for (size_t i = 0; i < kKernelKeys; ++i) {
    if (name == kKernelKeyNames[i]) return static_cast<KernelKey>(i);
  }
  for (std::string_view known : kElsewhere) {
    if (name == known) return KernelKey::Elsewhere;
  }
  throw_error(ErrorKind::Value, "library: a dispatch key such as CPU, CUDA, Meta, Autograd is expected, got '", name,
              "'");
}

// ---- registration

CustomOp& define_custom(std::string_view space, std::string_view schema) {
  BoxedOp parsed = parse_schema(schema);
  CustomOps& all = custom_ops();
  const std::lock_guard lock(all.mutex);
  CustomOp& op = all.entry(space, parsed.name + (parsed.overload.empty() ? "" : "." + parsed.overload));
  all.define(op, std::move(parsed), schema);
  ++all.registrations;
  return op;
}

void implement_custom(std::string_view space, std::string_view name, KernelKey key, CustomKernel kernel,
                      SchemaCheck check) {
  CustomOps& all = custom_ops();
  const std::lock_guard lock(all.mutex);
  CustomOps::implement(all.entry(space, name), key, std::move(kernel), check);
  ++all.registrations;
}

void claim_namespace(std::string_view space, const char* file, int line) {
  CustomOps& all = custom_ops();
  const std::lock_guard lock(all.mutex);
  const std::string where = std::string(file) + ":" + std::to_string(line);
  const auto [found, fresh] = all.spaces.emplace(space, where);
  FACULA_CHECK(fresh, ErrorKind::Runtime, "TORCH_LIBRARY: one library for the namespace '", space,
               "' is expected, and TORCH_LIBRARY_FRAGMENT in others, got those of ", found->second, " and ", where);
}

const CustomOp* find_custom(std::string_view name) {
  CustomOps& all = custom_ops();
  if (!all.registrations.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(all.mutex);
  return all.find(plain_name(name));
}

std::vector<const CustomOp*> custom_overloads(std::string_view name) {
  CustomOps& all = custom_ops();
  const std::lock_guard lock(all.mutex);
  std::vector<const CustomOp*> found;
  for (const CustomOp* op : all.order_) {
    const std::string_view own = op->name();
    if (op->row() && own.substr(0, own.find('.')) == name) found.push_back(op);
  }
  return found;
}

std::vector<const CustomOp*> all_custom() {
  CustomOps& all = custom_ops();
  const std::lock_guard lock(all.mutex);
  return all.order_;
}

size_t custom_registrations() { return custom_ops().registrations.load(std::memory_order_acquire); }

void keep_registration_error(const std::string& message) {
  CustomOps& all = custom_ops();
  const std::lock_guard lock(all.mutex);
  all.errors += (all.errors.empty() ? "" : "\n") + message;
}

std::string take_registration_error() {
  CustomOps& all = custom_ops();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.errors, "");
}

void open_custom_library(const std::string& path) {
  if (!dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
    throw_error(ErrorKind::Runtime, "load_library: a shared library is expected that can be loaded, got '", path,
                "': ", dlerror());
}

void load_custom_library(const std::string& path) {
  open_custom_library(path);
  const std::string errors = take_registration_error();
  if (!errors.empty()) throw Error(ErrorKind::Runtime, errors);
}

// ---- calls

BelowAutograd::BelowAutograd() : mode_(false) { ++below_autograd; }
BelowAutograd::~BelowAutograd() { --below_autograd; }
bool BelowAutograd::active() { return below_autograd > 0; }

std::string CustomOp::schema() const {
  const std::string* text = schema_.load(std::memory_order_acquire);
  return text ? *text : "";
}

void CustomOp::refuse(KernelKey wanted) const {
  std::string present;
  for (size_t i = 0; i < kKernelKeys; ++i) {
    const auto key = static_cast<KernelKey>(i);
    if (has(key)) present += (present.empty() ? "" : ", ") + std::string(facula::name(key));
  }
  throw_error(ErrorKind::NotImplemented, name_, ": a kernel for ", facula::name(wanted), " is expected, got ",
              present.empty() ? "none" : present);
}

KernelKey CustomOp::backend_key(const Value* const* arguments) const {
  KernelKey key = KernelKey::CPU;
  each_tensor(arguments, row()->arguments.size(), [&](const Tensor& t) {
    const Device device = t.device();
    if (device.is_meta()) key = KernelKey::Meta;
    else if (device.is_cuda() && key != KernelKey::Meta) key = KernelKey::CUDA;
    else if (!device.is_cpu() && key == KernelKey::CPU) key = KernelKey::Elsewhere;
  });
  return key;
}

void CustomOp::call(const Value* const* arguments, Value* results) const {
  const KernelKey backend = backend_key(arguments);
  if (!below_autograd) {
    const KernelKey own = backend == KernelKey::CUDA ? KernelKey::AutogradCUDA : KernelKey::AutogradCPU;
    for (KernelKey key : {own, KernelKey::Autograd}) {
      if (const CustomKernel* found = kernel(key)) return (*found)(arguments, results);
    }
  }
  const CustomKernel* found = backend == KernelKey::Elsewhere ? nullptr : kernel(backend);
  if (!found) found = kernel(KernelKey::CompositeExplicit);
  if (found) return run(*found, arguments, results);
  found = kernel(KernelKey::CompositeImplicit);
  if (!found) refuse(backend);
  (*found)(arguments, results);
}

/// Inside vmap, where there is no rule: the op is called for each example, and the results are stacked.
void CustomOp::run_examples(const std::vector<Tensor>& tensors, const Value* const* arguments, Value* results) const {
  const size_t count = row()->arguments.size(), made = row()->results.size();
  const Batch batch(name_.c_str(), TensorList(tensors));
  const std::vector<Tensor> stacked = batch.loop([&](const Batch::Example& example) {
    const std::vector<Tensor> items = example(TensorList(tensors));
    size_t next = 0;
    Replaced of_example(arguments, count);
    of_example.each([&](const Tensor&) { return items[next++]; });
    call(of_example.places(), results);
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < made; ++i) {
      FACULA_CHECK(results[i].is_tensor(), ErrorKind::NotImplemented, name_,
                   ": inside vmap results are tensors, else a rule is needed (library.register_vmap), got ",
                   facula::name(results[i].kind()));
      outputs.push_back(results[i].tensor());
    }
    return outputs;
  });
  for (size_t i = 0; i < made; ++i) results[i] = Value(stacked[i]);
}

/// Results of a kernel without a derivative: their node says so when a gradient would pass.
void CustomOp::record_underived(uint32_t flags, const std::vector<Tensor>& tensors, const Value* results) const {
  Ref<Node> node = Ref<Node>::adopt(new Underived(name_));
  node->flags = flags;
  for (const Tensor& t : tensors) node->add_edge(gradient_edge(t.impl()));
  const auto attach = [&](const Tensor& t) {
    const bool given = std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& each) { return each.is_same(t); });
    if (t.defined() && !given && is_inexact(t.dtype()) && !t.impl()->base) set_history(t, node.get());
  };
  for (size_t i = 0; i < row()->results.size(); ++i) {
    if (results[i].is_tensor()) attach(results[i].tensor());
    if (results[i].kind() != Value::Kind::Tensors) continue;
    for (const Tensor& t : results[i].tensors()) attach(t);
  }
}

// A kernel reads memory: it is given no conjugates, and the examples of a batch one by one.
void CustomOp::run(const CustomKernel& kernel, const Value* const* arguments, Value* results) const {
  const size_t count = row()->arguments.size();
  uint32_t flags = 0;
  std::vector<Tensor> tensors;
  each_tensor(arguments, count, [&](const Tensor& t) {
    flags |= t.flags() | live_flags(t.impl());
    tensors.push_back(t);
  });
  if (flags & kBatched) return run_examples(tensors, arguments, results);
  Replaced replaced(arguments, flags & kConjugate ? count : 0);
  if (flags & kConjugate) {
    replaced.each([](const Tensor& t) { return t.is_conj() ? resolve_conj(t) : t; });
    arguments = replaced.places();
  }
  const uint32_t recorded_flags = below_autograd ? 0 : recorded(flags);
  {
    const BelowAutograd below;
    kernel(arguments, results);
  }
  for (size_t i = 0; i < count; ++i) {
    if (!row()->arguments[i].written || !arguments[i]->is_tensor()) continue;
    if (const Tensor written = arguments[i]->tensor(); written.defined()) count_write(written);
  }
  if (recorded_flags) record_underived(recorded_flags, tensors, results);
}

}  // namespace facula
