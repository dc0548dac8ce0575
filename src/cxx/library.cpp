// Operators that programs in C++ register: what the macros of torch/library.h run.
#include "torch/library.h"

namespace torch {

using facula::ErrorKind;

namespace {

constexpr const char* kKeyNames[] = {
    "",
    "CPU",
    "CUDA",
    "Meta",
    "HIP",
    "XPU",
    "MPS",
    "PrivateUse1",
    "QuantizedCPU",
    "QuantizedCUDA",
    "SparseCPU",
    "SparseCUDA",
    "BackendSelect",
    "ADInplaceOrView",
    "Autograd",
    "AutogradCPU",
    "AutogradCUDA",
    "AutogradXPU",
    "AutogradMPS",
    "AutogradOther",
    "AutogradPrivateUse1",
    "Autocast",
    "AutocastCPU",
    "AutocastCUDA",
    "AutocastXPU",
    "FuncTorchBatched",
    "Functionalize",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
};
static_assert(std::size(kKeyNames) == static_cast<size_t>(DispatchKey::CompositeExplicitAutogradNonFunctional) + 1);

/// The namespace of "space::name(...)", which is cut off.
std::string cut_space(std::string& name) {
  const size_t colons = name.find("::");
  FACULA_CHECK(colons != std::string::npos && colons < name.find('('), ErrorKind::Runtime,
               "RegisterOperators: a name such as 'space::name' is expected, got '", name, "'");
  std::string space = name.substr(0, colons);
  name.erase(0, colons + 2);
  return space;
}

}  // namespace

const char* toString(DispatchKey key) { return kKeyNames[static_cast<size_t>(key)]; }

CppFunction dispatch_to(DispatchKey key, CppFunction function) {
  function.key_ = key;
  return function;
}

Library::Library(Kind kind, std::string space, optional<DispatchKey> key, const char* file, int line)
    : space_(std::move(space)), key_(key) {
  if (kind == DEF) facula::claim_namespace(space_, file, line);
}

Library& Library::def(const std::string& schema, const std::vector<Tag>&) {
  facula::define_custom(space_, schema);
  return *this;
}

Library& Library::define_with(const std::string& name_or_schema, CppFunction function) {
  FACULA_CHECK(function.kernel_, ErrorKind::Runtime, "library: ", space_, "::", name_or_schema,
               ": a function is expected, got a kernel that falls through");
  const bool bare = name_or_schema.find('(') == std::string::npos;
  const facula::CustomOp& op = facula::define_custom(space_, bare ? function.schema_(name_or_schema) : name_or_schema);
  return implement(op.name(), std::move(function));
}

Library& Library::implement(const std::string& name, CppFunction function) {
  if (!function.kernel_) return *this;  // it falls through
  const bool own = function.key_ != DispatchKey::Undefined;
  const DispatchKey key = own ? function.key_ : key_.value_or(DispatchKey::Undefined);
  facula::implement_custom(space_, name, facula::kernel_key(toString(key)), std::move(function.kernel_),
                           function.mismatch_);
  return *this;
}

Library& Library::fallback(CppFunction function) {
  FACULA_CHECK(!function.kernel_, ErrorKind::NotImplemented,
               "library: a kernel for all operators of a key must fall through, got another one");
  return *this;
}

void RegisterOperators::add(const std::string& name_or_schema, CppFunction function) {
  try {
    std::string name = name_or_schema;
    const std::string space = cut_space(name);
    Library(Library::FRAGMENT, space, nullopt, "", 0).def(name, std::move(function));
  } catch (const std::exception& error) {
    facula::keep_registration_error(error.what());
  }
}

namespace detail {
LibraryInit::LibraryInit(Library::Kind kind, void (*fill)(Library&), const char* space, optional<DispatchKey> key,
                         const char* file, int line) {
  try {
    Library library(kind, space, key, file, line);
    fill(library);
  } catch (const std::exception& error) {
    facula::keep_registration_error(error.what());
  }
}
}  // namespace detail

void OperatorHandle::check(const std::string& mismatch) const {
  FACULA_CHECK(mismatch.empty(), ErrorKind::Runtime, op_->key(), ": ", mismatch);
}

Dispatcher& Dispatcher::singleton() {
  static Dispatcher one;
  return one;
}

OperatorHandle Dispatcher::findSchemaOrThrow(const char* name, const char* overload) const {
  const std::string full = std::string(name) + "." + (*overload ? overload : "default");
  constexpr std::string_view kAten = "aten::";
  const facula::BoxedOp* op =
      full.starts_with(kAten) ? facula::find_aten(full.substr(kAten.size())) : facula::find_boxed(full);
  FACULA_CHECK(op, ErrorKind::Runtime, "findSchemaOrThrow: no schema is registered for ", full);
  return OperatorHandle(op);
}

}  // namespace torch
