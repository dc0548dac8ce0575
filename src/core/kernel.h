// Selects the kernel of a device, which is the only choice left when an op runs.
//
// The arguments of a kernel are plain: tensors, numbers, and small structs by value. Every tensor lies on the kernel's
// device (except for copy_kernel), and so does whatever a pointer points at. A struct that contains memory lists it in
// `template <class See> void memory(See see) const`. A kernel that returns a value makes the host wait.
#pragma once

#include <algorithm>

#include "core/backend.h"
#include "core/refusal.h"
#include "core/tensor.h"

namespace facula {

/// Enters the device for as long as a kernel runs.
class KernelScope {
 public:
  KernelScope(Device device, const char* kernel, bool waits) : device_(device) {
    const Backend& backend = backend_of(device.type);
    if (backend.enter) backend.enter(device, kernel, waits);
  }
  ~KernelScope() {
    const Backend& backend = backend_of(device_.type);
    if (backend.leave) backend.leave(device_);
  }
  KernelScope(const KernelScope&) = delete;

 private:
  Device device_;
};

/// Installed by observers (src/observe): called when a kernel begins (by name) or ends (null) on a watched thread.
extern void (*on_kernel)(const char* name);

class KernelNote {
 public:
  explicit KernelNote(const char* name) : notifies_((watching() & kWatchObservers) && on_kernel) {
    if (notifies_) on_kernel(name);
  }
  ~KernelNote() {
    if (notifies_) on_kernel(nullptr);
  }
  KernelNote(const KernelNote&) = delete;

 private:
  bool notifies_;
};

/// Throws when memory that a kernel is given lies elsewhere: a mistake in the library, not in a program.
void check_resident(const Tensor& tensor, Device device, const char* kernel);
void check_resident(const void* memory, Device device, const char* kernel);
inline void check_resident(TensorList list, Device device, const char* kernel) {
  for (const Tensor& t : list) check_resident(t, device, kernel);
}
inline void check_resident(void* memory, Device device, const char* kernel) {
  check_resident(static_cast<const void*>(memory), device, kernel);
}
template <class T>
void check_resident(const T& argument, Device device, const char* kernel) {
  if constexpr (requires { argument.memory([](const auto&) {}); })
    argument.memory([&](const auto& each) { check_resident(each, device, kernel); });
}

/// Throws where a kernel is given what it must not see: a tensor without elements, or one whose memory another thread
/// may exchange while the kernel runs (it is to be given hold(tensor)). A mistake in the library, which is looked for
/// where somebody watches kernels, and everywhere in builds with FACULA_CHECKED.
void check_held(const Tensor& tensor, const char* kernel);
inline void check_held(TensorList list, const char* kernel) {
  for (const Tensor& t : list) check_held(t, kernel);
}
template <class T>
void check_held(const T& argument, const char* kernel) {
  if constexpr (std::is_convertible_v<const T&, TensorList>) check_held(TensorList(argument), kernel);
}
#ifdef FACULA_CHECKED
constexpr bool kCheckedKernels = true;
#else
constexpr bool kCheckedKernels = false;
#endif

/// What a kernel is given has bytes: those of deferred tensors are made here, if nobody has needed them before
/// (core/recipe.h).
inline void give_bytes(const Tensor& t) { materialize_bytes(t); }
inline void give_bytes(TensorList list) { materialize_bytes(list); }
inline void give_bytes(const void*) {}
template <class T>
void give_bytes(const T& argument) {
  if constexpr (std::is_convertible_v<const T&, TensorList>) give_bytes(TensorList(argument));
  else if constexpr (requires { argument.memory([](const auto&) {}); })
    argument.memory([](const auto& each) { give_bytes(each); });
}

/// More elements than memory holds: a tensor of them repeats its places, and a kernel that went over all would take
/// hours. Every kernel refuses them here; up to there it can be stopped (core/parallel.h).
constexpr int64_t kMostVisited = int64_t{1} << 42;

inline int64_t elements_visited(const Tensor& t) { return t.defined() ? t.numel() : 0; }
template <class T>
int64_t elements_visited(const T& argument) {
  if constexpr (requires { int64_t{argument.numel}; }) return argument.numel;  // a plan
  else return 0;
}
[[noreturn, gnu::cold]] void refuse_elements(const char* kernel, int64_t most);
[[noreturn, gnu::cold]] void refuse_device(const char* kernel, Device device);

template <class Signature>
struct Kernel;

/// A kernel by device: `inline Kernel<void(const Tensor&, int64_t)> sort_kernel{"sort"};` in src/ops/<topic>.h,
/// `sort_kernel.set(DeviceType::CPU, sort_cpu)` in the backend's register function.
template <class Result, class... Parameters>
struct Kernel<Result(Parameters...)> {
  const char* name;
  bool between_devices = false;  // its tensors may lie on different devices
  bool waits = !std::is_void_v<Result>;
  using Function = Result (*)(Parameters...);
  std::array<Function, kDeviceTypes> table = {};

  void set(DeviceType device, Function function) { table[static_cast<size_t>(device)] = function; }

  template <class... Args>
  Result operator()(Device device, Args&&... args) const {
    if constexpr (kCheckedKernels) (check_held(args, name), ...);
    (give_bytes(args), ...);
    const int64_t most = std::max({int64_t{0}, elements_visited(args)...});
    if (__builtin_expect(most > kMostVisited, 0)) refuse_elements(name, most);
    if (__builtin_expect(!device.is_cpu() || (watching() & kWatchObservers), 0)) return noted(device, args...);
    constexpr auto kCpuColumn = static_cast<size_t>(DeviceType::CPU);
    if (__builtin_expect(!table[kCpuColumn], 0)) refuse(device);
    return run(table[kCpuColumn], std::forward<Args>(args)...);
  }

 private:
  /// On another device, or while somebody watches.
  [[gnu::noinline]] Result noted(Device device, Parameters... args) const {
    const auto column = static_cast<size_t>(device.type);
    Function function = table[column];
    if (!function) function = table[static_cast<size_t>(backend_of(device.type).owner)];
    if (!function) refuse(device);
    if (!between_devices && !device.is_cpu()) (check_resident(args, device, name), ...);
    (check_held(args, name), ...);
    KernelNote note(name);
    KernelScope scope(device, name, waits);
    return run(function, static_cast<Parameters>(args)...);
  }
  template <class... Args>
  [[gnu::always_inline]] static Result run(Function function, Args&&... args) {
    KernelRun run;
    if constexpr (std::is_void_v<Result>) {
      function(std::forward<Args>(args)...);
      run.end();
    } else {
      Result result = function(std::forward<Args>(args)...);
      run.end();
      return result;
    }
  }
  [[noreturn, gnu::cold]] void refuse(Device device) const { refuse_device(name, device); }
};

/// Copies elements between tensors of one shape, with dtype conversion; strided, conjugating when only one is. One of
/// them lies on the kernel's device, the other there or on the CPU. See copy_elements().
extern Kernel<void(const Tensor& out, const Tensor& in)> copy_kernel;
/// Writes a number, which has a value in the dtype, into every element.
extern Kernel<void(const Tensor& out, const Scalar& value)> fill_kernel;
/// The bytes of the element that the tensor begins with, for the host; waits for what computes them.
extern Kernel<void(const Tensor& in, std::array<char, 16>& bytes)> read_kernel;

/// out[...] = in[...] for tensors of one shape on any devices; nothing on meta.
void copy_elements(const Tensor& out, const Tensor& in);

}  // namespace facula
