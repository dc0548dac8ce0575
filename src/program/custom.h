// Registers operators that programs in C++ bring, beside those of the schema: a name, a schema in PyTorch's notation,
// and kernels by what they are for. Libraries register them when they are loaded (torch/library.h). An operator with a
// schema has a row like those of the boxed table, under "namespace::name.overload", so code that knows ops by name
// calls it alike. A call runs the first of these that there is:
//   - a kernel for autograd, unless the thread is below it (BelowAutograd);
//   - the kernel for the device of the first tensors, or the one for all of them. Its computation is not recorded, so
//     the results have no derivative, and the backward pass raises an error there;
//   - the composite kernel, whose own ops are recorded.
//
// Registrations come from initializers of libraries, where nothing may be thrown. An error in one is stored for the
// code that loaded the library (take_registration_error).
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "program/boxed.h"

namespace facula {

/// What a kernel is for, in the order of kKernelKeyNames.
enum class KernelKey : uint8_t {
  CPU,
  CUDA,
  Meta,
  CompositeExplicit,
  CompositeImplicit,
  Autograd,
  AutogradCPU,
  AutogradCUDA,
  Elsewhere,  // for devices and modes that are not here: never called
};
constexpr size_t kKernelKeys = static_cast<size_t>(KernelKey::Elsewhere);
/// "CompositeImplicitAutograd" and the like.
const char* name(KernelKey key);
/// Of PyTorch's name of a dispatch key, "" for the composite kernel; a ValueError where there is no such key.
KernelKey kernel_key(std::string_view name);

/// Arguments are as many as the schema has; results are written.
using CustomKernel = std::function<void(const Value* const* arguments, Value* results)>;

/// Says why a kernel does not fit a schema, "" where it does.
using SchemaCheck = std::string (*)(const BoxedOp& op);

class CustomOp {
 public:
  /// "namespace::name.overload", without the overload where there is none.
  const std::string& name() const { return name_; }
  /// As it was registered, "add(Tensor a, Tensor b) -> Tensor"; "" while there is none.
  std::string schema() const;
  /// The row; null while there is no schema.
  const BoxedOp* row() const { return row_.load(std::memory_order_acquire); }
  bool has(KernelKey key) const { return kernel(key) != nullptr; }
  /// Runs the kernel that is right for the arguments.
  void call(const Value* const* arguments, Value* results) const;

 private:
  friend class CustomOps;
  explicit CustomOp(std::string name) : name_(std::move(name)) {}
  const CustomKernel* kernel(KernelKey key) const {
    return kernels_[static_cast<size_t>(key)].load(std::memory_order_acquire);
  }
  void run(const CustomKernel& kernel, const Value* const* arguments, Value* results) const;
  void run_examples(const std::vector<Tensor>& tensors, const Value* const* arguments, Value* results) const;
  void record_underived(uint32_t flags, const std::vector<Tensor>& tensors, const Value* results) const;
  KernelKey backend_key(const Value* const* arguments) const;
  [[noreturn]] void refuse(KernelKey wanted) const;

  std::string name_;
  std::atomic<const BoxedOp*> row_{nullptr};
  std::atomic<const std::string*> schema_{nullptr};
  std::array<std::atomic<const CustomKernel*>, kKernelKeys> kernels_{};
  std::vector<SchemaCheck> checks_;  // of kernels that came before the schema
};

/// Declares an operator of a namespace by its schema; a RuntimeError where it has another one already.
CustomOp& define_custom(std::string_view space, std::string_view schema);
/// Registers a kernel, before or after the schema; a RuntimeError, then or when the schema comes, where it does not
/// fit. `name` may say its namespace.
void implement_custom(std::string_view space, std::string_view name, KernelKey key, CustomKernel kernel,
                      SchemaCheck check);
/// A library that says that a namespace is its own; a RuntimeError for the second.
void claim_namespace(std::string_view space, const char* file, int line);

/// By "namespace::name.overload", with or without ".default"; null for one that has no schema.
const CustomOp* find_custom(std::string_view name);
/// Every overload of "namespace::name" that has a schema, in the order of their registration.
std::vector<const CustomOp*> custom_overloads(std::string_view name);
std::vector<const CustomOp*> all_custom();
/// How many registrations there were: who keeps a copy sees by it that there are more.
size_t custom_registrations();

/// Keeps what went wrong in an initializer.
void keep_registration_error(const std::string& message);
/// What went wrong since the last call, joined by newlines; "" for nothing.
std::string take_registration_error();

/// Loads a shared library with operators; a RuntimeError where it cannot be loaded.
void open_custom_library(const std::string& path);
/// The same; also a RuntimeError with what its registrations did wrong.
void load_custom_library(const std::string& path);

/// While it lives, calls run the kernels below those for autograd, and nothing is recorded.
class BelowAutograd {
 public:
  BelowAutograd();
  ~BelowAutograd();
  BelowAutograd(const BelowAutograd&) = delete;
  static bool active();

 private:
  GradMode mode_;
};

/// A schema in PyTorch's notation: "name.overload(Tensor(a!) self, int[2] size=1, *, float? eps=None) -> Tensor[]".
/// Throws a RuntimeError that says what was expected, and where. The row has no function yet.
BoxedOp parse_schema(std::string_view text);

}  // namespace facula
