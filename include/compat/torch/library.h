// Operators of a program's own: their schemas and kernels, registered when the library that has them is loaded.
#pragma once

#include <torch/autograd.h>
#include <torch/detail/boxing.h>

namespace torch {

/// What a kernel is for. Kernels for devices and modes that are not here are taken and never run.
enum class DispatchKey : uint8_t {
  Undefined,
  CatchAll = Undefined,
  CPU,
  CUDA,
  Meta,
  HIP,
  XPU,
  MPS,
  PrivateUse1,
  QuantizedCPU,
  QuantizedCUDA,
  SparseCPU,
  SparseCUDA,
  BackendSelect,
  ADInplaceOrView,
  Autograd,
  AutogradCPU,
  AutogradCUDA,
  AutogradXPU,
  AutogradMPS,
  AutogradOther,
  AutogradPrivateUse1,
  Autocast,
  AutocastCPU,
  AutocastCUDA,
  AutocastXPU,
  FuncTorchBatched,
  Functionalize,
  CompositeImplicitAutograd,
  CompositeExplicitAutograd,
  CompositeExplicitAutogradNonFunctional,
};
const char* toString(DispatchKey key);

/// Marks of operators that compilers ask for; kept nowhere.
enum class Tag {
  pt2_compliant_tag,
  needs_fixed_stride_order,
  flexible_layout,
  core,
  inplace_view,
  data_dependent_output,
  dynamic_output_shape,
  generated,
  nondeterministic_seeded,
  pointwise,
  view_copy
};

/// A kernel: a function and what is known of it.
class CppFunction {
 public:
  template <class F>
    requires(!std::is_same_v<std::decay_t<F>, CppFunction>)
  CppFunction(F&& function) {
    using Function = typename detail::Signature<std::decay_t<F>>::type;
    kernel_ = detail::Boxed<Function, std::decay_t<F>>{std::forward<F>(function)};
    schema_ = &detail::Inferred<Function>::schema;
    mismatch_ = &detail::Inferred<Function>::mismatch;
  }
  /// Stands for no kernel: what comes after runs.
  static CppFunction makeFallthrough() { return CppFunction(); }
  CppFunction&& debug(std::string) && { return std::move(*this); }

 private:
  friend class Library;
  friend CppFunction dispatch_to(DispatchKey key, CppFunction function);
  CppFunction() = default;
  facula::CustomKernel kernel_;
  std::string (*schema_)(const std::string& name) = nullptr;
  std::string (*mismatch_)(const facula::BoxedOp& op) = nullptr;
  DispatchKey key_ = DispatchKey::Undefined;
};
CppFunction dispatch_to(DispatchKey key, CppFunction function);
/// A function as the kernel for one kind of device or mode.
template <class F>
CppFunction dispatch(DispatchKey key, F&& function) {
  return dispatch_to(key, CppFunction(std::forward<F>(function)));
}
template <class F>
CppFunction dispatch(DeviceType type, F&& function) {
  return dispatch_to(type == kCUDA   ? DispatchKey::CUDA
                     : type == kMeta ? DispatchKey::Meta
                                     : DispatchKey::CPU,
                     CppFunction(std::forward<F>(function)));
}

/// A schema as text, for `def`.
inline std::string schema(const char* text) { return text; }

/// The namespace that TORCH_LIBRARY opens, for declaring operators and registering kernels.
class Library {
 public:
  enum Kind { DEF, IMPL, FRAGMENT };
  Library(Kind kind, std::string space, optional<DispatchKey> key, const char* file, int line);

  /// "name(Tensor a) -> Tensor", without a kernel.
  Library& def(const std::string& schema, const std::vector<Tag>& tags = {});
  /// The same with a kernel for all devices; of a bare name the schema is what the function takes.
  template <class F>
  Library& def(const std::string& name_or_schema, F&& function, const std::vector<Tag>& = {})
    requires(!std::is_convertible_v<F, std::vector<Tag>>)
  {
    return define_with(name_or_schema, CppFunction(std::forward<F>(function)));
  }
  /// A kernel, before or after the schema.
  template <class F>
  Library& impl(const std::string& name, F&& function) {
    return implement(name, CppFunction(std::forward<F>(function)));
  }
  template <class F>
  Library& impl(const std::string& name, DispatchKey key, F&& function) {
    return implement(name, dispatch(key, std::forward<F>(function)));
  }
  template <class F>
  Library& impl_UNBOXED(const std::string& name, F* function) {
    return impl(name, function);
  }
  /// Only kernels that stand for none can be given for a whole key.
  Library& fallback(CppFunction function);
  /// Which Python module holds the rest; nothing here needs to know.
  Library& set_python_module(const char*, const char* = "") { return *this; }
  Library& impl_abstract_pystub(const char*, const char* = "") { return *this; }

 private:
  Library& define_with(const std::string& name_or_schema, CppFunction function);
  Library& implement(const std::string& name, CppFunction function);
  std::string space_;
  optional<DispatchKey> key_;
};

/// How operators were registered before there was TORCH_LIBRARY.
class RegisterOperators {
 public:
  RegisterOperators() = default;
  template <class F>
  RegisterOperators(const std::string& name_or_schema, F&& function) {
    op(name_or_schema, std::forward<F>(function));
  }
  template <class F>
  RegisterOperators&& op(const std::string& name_or_schema, F&& function) && {
    add(name_or_schema, CppFunction(std::forward<F>(function)));
    return std::move(*this);
  }
  template <class F>
  RegisterOperators& op(const std::string& name_or_schema, F&& function) & {
    add(name_or_schema, CppFunction(std::forward<F>(function)));
    return *this;
  }

 private:
  static void add(const std::string& name_or_schema, CppFunction function);
};
namespace jit {
using torch::RegisterOperators;
}

namespace detail {
/// Runs what stands in the braces of TORCH_LIBRARY; what goes wrong there is told to who loads the library.
class LibraryInit {
 public:
  LibraryInit(Library::Kind kind, void (*fill)(Library&), const char* space, optional<DispatchKey> key,
              const char* file, int line);
};
}  // namespace detail

// ---- calls by name

/// An operator found by its name, of a type; calling it runs the kernel that is right for the arguments.
template <class F>
class TypedOperatorHandle;
template <class R, class... A>
class TypedOperatorHandle<R(A...)> {
 public:
  explicit TypedOperatorHandle(const facula::BoxedOp* op) : op_(op) {}
  R call(A... arguments) const {
    const facula::Value given[sizeof...(A) + 1] = {detail::Parameter<std::decay_t<A>>::boxed(arguments)...};
    const facula::Value* places[sizeof...(A) + 1];
    for (size_t i = 0; i < sizeof...(A); ++i) places[i] = &given[i];
    facula::Value results[detail::Results<R>::count + 1];
    op_->call(places, results);
    return detail::Results<R>::get(results);
  }
  R operator()(A... arguments) const { return call(std::forward<A>(arguments)...); }

 private:
  const facula::BoxedOp* op_;
};

class OperatorHandle {
 public:
  explicit OperatorHandle(const facula::BoxedOp* op) : op_(op) {}
  /// A RuntimeError where the operator is of another type.
  template <class F>
  TypedOperatorHandle<F> typed() const {
    check(detail::Inferred<F>::mismatch(*op_));
    return TypedOperatorHandle<F>(op_);
  }

 private:
  void check(const std::string& mismatch) const;
  const facula::BoxedOp* op_;
};

class Dispatcher {
 public:
  static Dispatcher& singleton();
  /// "space::name" and its overload, "" for the only one; a RuntimeError where there is none.
  OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const;
};

// ---- below autograd

/// While it lives, operators run the kernels below those for autograd, and nothing is recorded.
class AutoDispatchBelowAutograd {
  facula::BelowAutograd below_;
};
using AutoDispatchBelowADInplaceOrView = AutoDispatchBelowAutograd;
using AutoNonVariableTypeMode = AutoDispatchBelowAutograd;

}  // namespace torch

#define FACULA_JOIN_(a, b) a##b
#define FACULA_JOIN(a, b) FACULA_JOIN_(a, b)
#define TORCH_LIBRARY(ns, m)                                                                     \
  static void TORCH_LIBRARY_init_##ns(::torch::Library&);                                        \
  static const ::torch::detail::LibraryInit TORCH_LIBRARY_static_init_##ns(                      \
      ::torch::Library::DEF, &TORCH_LIBRARY_init_##ns, #ns, ::std::nullopt, __FILE__, __LINE__); \
  void TORCH_LIBRARY_init_##ns(::torch::Library& m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) FACULA_LIBRARY_FRAGMENT(ns, m, __COUNTER__)
#define FACULA_LIBRARY_FRAGMENT(ns, m, number)                                                                    \
  static void FACULA_JOIN(TORCH_LIBRARY_FRAGMENT_init_##ns##_, number)(::torch::Library&);                        \
  static const ::torch::detail::LibraryInit FACULA_JOIN(TORCH_LIBRARY_FRAGMENT_static_init_##ns##_, number)(      \
      ::torch::Library::FRAGMENT, &FACULA_JOIN(TORCH_LIBRARY_FRAGMENT_init_##ns##_, number), #ns, ::std::nullopt, \
      __FILE__, __LINE__);                                                                                        \
  void FACULA_JOIN(TORCH_LIBRARY_FRAGMENT_init_##ns##_, number)(::torch::Library & m)
#define TORCH_LIBRARY_IMPL(ns, k, m) FACULA_LIBRARY_IMPL(ns, k, m, __COUNTER__)
#define FACULA_LIBRARY_IMPL(ns, k, m, number)                                                                  \
  static void FACULA_JOIN(TORCH_LIBRARY_IMPL_init_##ns##_##k##_, number)(::torch::Library&);                   \
  static const ::torch::detail::LibraryInit FACULA_JOIN(TORCH_LIBRARY_IMPL_static_init_##ns##_##k##_, number)( \
      ::torch::Library::IMPL, &FACULA_JOIN(TORCH_LIBRARY_IMPL_init_##ns##_##k##_, number), #ns,                \
      ::torch::DispatchKey::k, __FILE__, __LINE__);                                                            \
  void FACULA_JOIN(TORCH_LIBRARY_IMPL_init_##ns##_##k##_, number)(::torch::Library & m)
#define TORCH_FN(function) (&function)
#define TORCH_FN_TYPE(function) decltype(&function)
#define TORCH_SELECTIVE_SCHEMA(text) text
#define TORCH_SELECTIVE_NAME(text) text
