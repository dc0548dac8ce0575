// What functions take besides tensors, with libtorch's names: lists, dtypes, devices, options, numbers, generators.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/generator.h"
#include "core/scalar.h"
#include "core/shape.h"
#include "cxx/ready.h"

namespace torch {

using Error = facula::Error;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using Half = facula::Half;
using BFloat16 = facula::BFloat16;

namespace detail {
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream text;
  static_cast<void>((text << ... << parts));
  return text.str();
}
[[noreturn]] void fail_check(const char* condition, const std::string& message);
}  // namespace detail

/// The parts one behind the other, as text.
template <class... Parts>
std::string str(const Parts&... parts) {
  return detail::text_of(parts...);
}

// ---- lists

/// A list that somebody else holds, for the length of a call.
template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(static_cast<size_t>(end - begin)) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& values) : data_(values.data()), size_(values.size()) {
    static_assert(!std::is_same_v<T, bool>);
  }
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& values) : data_(values.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&values)[N]) : data_(values), size_(N) {}
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  constexpr ArrayRef(const std::initializer_list<T>& values)
      : data_(values.begin() == values.end() ? nullptr : values.begin()), size_(values.size()) {}
#pragma GCC diagnostic pop
  ArrayRef(facula::List<T> list) : data_(list.data()), size_(list.size()) {}

  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr iterator begin() const { return data_; }
  constexpr iterator end() const { return data_ + size_; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const {
    FACULA_CHECK(i < size_, facula::ErrorKind::Index, "ArrayRef::at: an index below ", size_, " is expected, got ", i);
    return data_[i];
  }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  constexpr bool equals(ArrayRef other) const {
    if (size_ != other.size_) return false;
    for (size_t i = 0; i < size_; ++i)
      if (!(data_[i] == other.data_[i])) return false;
    return true;
  }
  constexpr ArrayRef slice(size_t first, size_t count) const { return {data_ + first, count}; }
  constexpr ArrayRef slice(size_t first) const { return slice(first, size_ - first); }
  std::vector<T> vec() const { return {begin(), end()}; }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};
template <class T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <class T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) {
  return ArrayRef<T>(a).equals(b);
}
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) {
  return a.equals(ArrayRef<T>(b));
}
template <class T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> list) {
  out << '[';
  for (size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "") << list[i];
  return out << ']';
}
using IntArrayRef = ArrayRef<int64_t>;
using IntList = ArrayRef<int64_t>;

/// A list, or none; an integer is a list of one.
class OptionalIntArrayRef {
 public:
  OptionalIntArrayRef() = default;
  OptionalIntArrayRef(nullopt_t) {}
  OptionalIntArrayRef(IntArrayRef list) : list_(list) {}
  OptionalIntArrayRef(const std::vector<int64_t>& list) : list_(list) {}
  OptionalIntArrayRef(const optional<IntArrayRef>& list) : list_(list) {}
  OptionalIntArrayRef(const optional<std::vector<int64_t>>& list) {
    if (list) list_ = IntArrayRef(*list);
  }
  OptionalIntArrayRef(const std::initializer_list<int64_t>& list) : list_(IntArrayRef(list)) {}
  OptionalIntArrayRef(const int64_t& one) : list_(IntArrayRef(one)) {}
  bool has_value() const { return list_.has_value(); }
  explicit operator bool() const { return list_.has_value(); }
  const IntArrayRef& value() const { return list_.value(); }
  const IntArrayRef& operator*() const { return *list_; }
  const IntArrayRef* operator->() const { return &*list_; }

 private:
  optional<IntArrayRef> list_;
};

// ---- dtypes

enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Bool = 11,
  BFloat16 = 15,
  Float8_e5m2 = 23,
  Float8_e4m3fn = 24,
  Float8_e5m2fnuz = 25,
  Float8_e4m3fnuz = 26,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
  Undefined = 45,
};
using Dtype = ScalarType;

constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = kByte, kChar = ScalarType::Char, kInt8 = kChar,
                     kShort = ScalarType::Short, kInt16 = kShort, kInt = ScalarType::Int, kInt32 = kInt,
                     kLong = ScalarType::Long, kInt64 = kLong, kHalf = ScalarType::Half, kFloat16 = kHalf,
                     kFloat = ScalarType::Float, kFloat32 = kFloat, kDouble = ScalarType::Double, kFloat64 = kDouble,
                     kComplexHalf = ScalarType::ComplexHalf, kComplexFloat = ScalarType::ComplexFloat,
                     kComplexDouble = ScalarType::ComplexDouble, kBool = ScalarType::Bool,
                     kBFloat16 = ScalarType::BFloat16, kUInt16 = ScalarType::UInt16, kUInt32 = ScalarType::UInt32,
                     kUInt64 = ScalarType::UInt64, kFloat8_e5m2 = ScalarType::Float8_e5m2,
                     kFloat8_e4m3fn = ScalarType::Float8_e4m3fn;
constexpr ScalarType kU8 = kByte, kI8 = kChar, kI16 = kShort, kI32 = kInt, kI64 = kLong, kF16 = kHalf, kF32 = kFloat,
                     kF64 = kDouble;

namespace detail {
facula::DType dtype_of(ScalarType type);
ScalarType scalar_type_of(facula::DType dtype);
}  // namespace detail

const char* toString(ScalarType type);
size_t elementSize(ScalarType type);
bool isFloatingType(ScalarType type);
bool isComplexType(ScalarType type);
bool isIntegralType(ScalarType type, bool includeBool);
ScalarType promoteTypes(ScalarType a, ScalarType b);
std::ostream& operator<<(std::ostream& out, ScalarType type);

template <class T>
struct CppTypeToScalarType {
  static ScalarType of() { return detail::scalar_type_of(facula::dtype_of<std::remove_const_t<T>>()); }
};
template <>
inline ScalarType CppTypeToScalarType<long long>::of() {
  return kLong;
}

/// The dtype of a tensor, as `tensor.dtype()` gives it.
class TypeMeta {
 public:
  constexpr TypeMeta() = default;
  constexpr TypeMeta(ScalarType type) : type_(type) {}
  constexpr ScalarType toScalarType() const { return type_; }
  std::string_view name() const;
  size_t itemsize() const { return elementSize(type_); }
  bool isScalarType() const { return true; }
  bool isScalarType(ScalarType type) const { return type_ == type; }
  template <class T>
  static TypeMeta Make() {
    return CppTypeToScalarType<T>::of();
  }
  constexpr bool operator==(const TypeMeta&) const = default;
  friend constexpr bool operator==(TypeMeta a, ScalarType b) { return a.type_ == b; }

 private:
  ScalarType type_ = ScalarType::Undefined;
};
std::ostream& operator<<(std::ostream& out, TypeMeta type);
inline ScalarType typeMetaToScalarType(TypeMeta type) { return type.toScalarType(); }
inline TypeMeta scalarTypeToTypeMeta(ScalarType type) { return type; }

TypeMeta get_default_dtype();
void set_default_dtype(TypeMeta type);

// ---- devices, layouts

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 14, PrivateUse1 = 20 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;
std::string DeviceTypeName(DeviceType type, bool lower_case = false);
std::ostream& operator<<(std::ostream& out, DeviceType type);

class Device {
 public:
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  /// "cpu", "cuda", "cuda:1".
  Device(const std::string& text);
  Device(const char* text) : Device(std::string(text)) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ >= 0; }
  void set_index(DeviceIndex index) { index_ = index; }
  bool is_cpu() const { return type_ == kCPU; }
  bool is_cuda() const { return type_ == kCUDA; }
  bool is_meta() const { return type_ == kMeta; }
  std::string str() const;
  bool operator==(const Device&) const = default;

 private:
  DeviceType type_;
  DeviceIndex index_;
};
std::ostream& operator<<(std::ostream& out, const Device& device);

enum class Layout : int8_t { Strided };
constexpr Layout kStrided = Layout::Strided;
std::ostream& operator<<(std::ostream& out, Layout layout);

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
std::ostream& operator<<(std::ostream& out, MemoryFormat format);

namespace detail {
facula::Device device_of(const Device& device);
Device device_from(facula::Device device);
}  // namespace detail

// ---- options of tensors that are made

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(Layout layout) { layout_ = layout; }
  template <class T>
    requires(std::is_same_v<std::decay_t<T>, Device> || std::is_same_v<std::decay_t<T>, DeviceType> ||
             (std::is_constructible_v<Device, T> && !std::is_same_v<std::decay_t<T>, TensorOptions>))
  TensorOptions(T&& device) {
    device_ = Device(std::forward<T>(device));
  }
  TensorOptions(TypeMeta dtype) { dtype_ = dtype.toScalarType(); }
  TensorOptions(ScalarType dtype) { dtype_ = dtype; }
  TensorOptions(MemoryFormat format) { memory_format_ = format; }

  [[nodiscard]] TensorOptions device(optional<Device> device) const { return with(&TensorOptions::device_, device); }
  template <class... Args>
  [[nodiscard]] TensorOptions device(Args&&... args) const {
    return device(optional<Device>(std::in_place, std::forward<Args>(args)...));
  }
  [[nodiscard]] TensorOptions device_index(DeviceIndex index) const { return device(Device(kCUDA, index)); }
  [[nodiscard]] TensorOptions dtype(optional<ScalarType> type) const { return with(&TensorOptions::dtype_, type); }
  [[nodiscard]] TensorOptions dtype(ScalarType type) const { return dtype(optional<ScalarType>(type)); }
  [[nodiscard]] TensorOptions dtype(TypeMeta type) const { return dtype(optional<ScalarType>(type.toScalarType())); }
  template <class T>
  [[nodiscard]] TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::of());
  }
  [[nodiscard]] TensorOptions layout(optional<Layout> layout) const { return with(&TensorOptions::layout_, layout); }
  [[nodiscard]] TensorOptions requires_grad(optional<bool> yes) const {
    return with(&TensorOptions::requires_grad_, yes);
  }
  [[nodiscard]] TensorOptions pinned_memory(optional<bool> yes) const {
    return with(&TensorOptions::pinned_memory_, yes);
  }
  [[nodiscard]] TensorOptions memory_format(optional<MemoryFormat> format) const {
    return with(&TensorOptions::memory_format_, format);
  }

  Device device() const { return device_.value_or(Device(kCPU)); }
  bool has_device() const { return device_.has_value(); }
  optional<Device> device_opt() const { return device_; }
  TypeMeta dtype() const { return dtype_ ? TypeMeta(*dtype_) : get_default_dtype(); }
  bool has_dtype() const { return dtype_.has_value(); }
  optional<ScalarType> dtype_opt() const { return dtype_; }
  Layout layout() const { return layout_.value_or(kStrided); }
  bool has_layout() const { return layout_.has_value(); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool has_requires_grad() const { return requires_grad_.has_value(); }
  bool pinned_memory() const { return pinned_memory_.value_or(false); }
  bool has_pinned_memory() const { return pinned_memory_.has_value(); }
  bool has_memory_format() const { return memory_format_.has_value(); }
  optional<MemoryFormat> memory_format_opt() const { return memory_format_; }
  /// These, with what `other` says in their place.
  [[nodiscard]] TensorOptions merge_in(const TensorOptions& other) const;

  optional<facula::DType> given_dtype() const {
    return dtype_ ? optional<facula::DType>(detail::dtype_of(*dtype_)) : std::nullopt;
  }
  optional<facula::Device> given_device() const {
    return device_ ? optional<facula::Device>(detail::device_of(*device_)) : std::nullopt;
  }
  optional<MemoryFormat> pick(optional<MemoryFormat> argument) const { return argument ? argument : memory_format_; }

 private:
  template <class T>
  TensorOptions with(optional<T> TensorOptions::* field, optional<T> value) const {
    TensorOptions changed = *this;
    changed.*field = value;
    return changed;
  }
  optional<Device> device_;
  optional<ScalarType> dtype_;
  optional<Layout> layout_;
  optional<bool> requires_grad_, pinned_memory_;
  optional<MemoryFormat> memory_format_;
};
std::ostream& operator<<(std::ostream& out, const TensorOptions& options);

inline TensorOptions dtype(TypeMeta type) { return TensorOptions().dtype(type); }
inline TensorOptions dtype(ScalarType type) { return TensorOptions().dtype(type); }
template <class T>
TensorOptions dtype() {
  return TensorOptions().dtype<T>();
}
inline TensorOptions device(Device where) { return TensorOptions().device(where); }
inline TensorOptions layout(Layout kind) { return TensorOptions().layout(kind); }
inline TensorOptions requires_grad(bool yes = true) { return TensorOptions().requires_grad(yes); }
inline TensorOptions memory_format(MemoryFormat format) { return TensorOptions().memory_format(format); }

// ---- numbers

class Scalar {
 public:
  Scalar() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  Scalar(T number) : number_(number) {}
  Scalar(Half number) : number_(static_cast<double>(static_cast<float>(number))) {}
  Scalar(BFloat16 number) : number_(static_cast<double>(static_cast<float>(number))) {}
  template <class T>
  Scalar(std::complex<T> number) : number_(std::complex<double>(number)) {}
  Scalar(const facula::Scalar& number) : number_(number) {}

  const facula::Scalar& number() const { return number_; }
  template <class T>
  T to() const {
    return number_.to<T>();
  }
  bool isFloatingPoint() const { return number_.is_floating(); }
  bool isComplex() const { return number_.is_complex(); }
  bool isBoolean() const { return number_.is_bool(); }
  bool isIntegral(bool includeBool) const { return number_.is_integral() || (includeBool && number_.is_bool()); }
  ScalarType type() const {
    return isComplex() ? kComplexDouble : isFloatingPoint() ? kDouble : isBoolean() ? kBool : kLong;
  }
  double toDouble() const { return number_.to_double(); }
  float toFloat() const { return static_cast<float>(toDouble()); }
  int64_t toLong() const { return number_.to_int(); }
  int toInt() const { return static_cast<int>(toLong()); }
  int16_t toShort() const { return static_cast<int16_t>(toLong()); }
  int8_t toChar() const { return static_cast<int8_t>(toLong()); }
  uint8_t toByte() const { return static_cast<uint8_t>(toLong()); }
  bool toBool() const { return number_.to_bool(); }
  std::complex<double> toComplexDouble() const { return number_.to_complex(); }
  Scalar operator-() const { return Scalar(-number_); }
  template <class T>
    requires std::is_arithmetic_v<T>
  bool equal(T number) const {
    return number_.to_complex() == static_cast<double>(number);
  }

 private:
  facula::Scalar number_;
};
std::ostream& operator<<(std::ostream& out, const Scalar& number);

// ---- generators

/// Random numbers; copies share one state.
class Generator {
 public:
  Generator() = default;
  explicit Generator(std::shared_ptr<facula::Generator> held) : held_(std::move(held)) {}
  bool defined() const { return held_ != nullptr; }
  facula::Generator* get() const { return held_.get(); }
  void set_current_seed(uint64_t seed) { held_->seed(seed); }
  uint64_t current_seed() const { return held_->initial_seed(); }
  uint64_t seed() { return held_->seed(); }
  Device device() const { return detail::device_from(held_->device()); }
  Generator clone() const { return Generator(std::shared_ptr<facula::Generator>(held_->clone())); }

 private:
  std::shared_ptr<facula::Generator> held_;
};
/// A new generator of the CPU.
Generator make_cpu_generator(uint64_t seed = facula::Generator::kDefaultSeed);
namespace detail {
inline Generator createCPUGenerator(uint64_t seed = facula::Generator::kDefaultSeed) {
  return make_cpu_generator(seed);
}
Generator getDefaultCPUGenerator();
}  // namespace detail

/// Restarts the random numbers of all devices.
void manual_seed(uint64_t seed);
int get_num_threads();
void set_num_threads(int threads);

namespace cuda {
bool is_available();
size_t device_count();
inline bool cudnn_is_available() { return is_available(); }
void manual_seed(uint64_t seed);
void manual_seed_all(uint64_t seed);
/// Waits for what was started on a device, the current one if none is said.
void synchronize(int64_t device_index = -1);
}  // namespace cuda

/// Settings of the process that programs make of cuDNN; results are repeatable here whatever they say.
class Context {
 public:
  bool hasCUDA() const { return cuda::is_available(); }
  bool hasCuDNN() const { return cuda::cudnn_is_available(); }
  bool userEnabledCuDNN() const { return enabled_; }
  void setUserEnabledCuDNN(bool yes) { enabled_ = yes; }
  bool benchmarkCuDNN() const { return benchmark_; }
  void setBenchmarkCuDNN(bool yes) { benchmark_ = yes; }
  bool deterministicCuDNN() const { return deterministic_; }
  void setDeterministicCuDNN(bool yes) { deterministic_ = yes; }

 private:
  bool enabled_ = true, benchmark_ = false, deterministic_ = false;
};
Context& globalContext();
inline bool hasCUDA() { return cuda::is_available(); }

namespace Reduction {
enum Reduction { None, Mean, Sum, END };
}  // namespace Reduction

}  // namespace torch

#define TORCH_CHECK(condition, ...)                                                   \
  do {                                                                                \
    if (__builtin_expect(!static_cast<bool>(condition), 0))                           \
      ::torch::detail::fail_check(#condition, ::torch::detail::text_of(__VA_ARGS__)); \
  } while (0)
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define AT_CHECK(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define AT_ASSERT(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_ERROR_OF_KIND(kind, condition, ...)                                             \
  do {                                                                                        \
    if (__builtin_expect(!static_cast<bool>(condition), 0))                                   \
      throw ::torch::Error(::facula::ErrorKind::kind, ::torch::detail::text_of(__VA_ARGS__)); \
  } while (0)
#define TORCH_CHECK_INDEX(condition, ...) TORCH_ERROR_OF_KIND(Index, condition, __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TORCH_ERROR_OF_KIND(Value, condition, __VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) TORCH_ERROR_OF_KIND(Type, condition, __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) TORCH_ERROR_OF_KIND(NotImplemented, condition, __VA_ARGS__)
#define AT_ERROR(...) ::torch::detail::fail_check("", ::torch::detail::text_of(__VA_ARGS__))
#define TORCH_WARN(...) ::torch::detail::warn(::torch::detail::text_of(__VA_ARGS__))
#define TORCH_WARN_ONCE(...)                                  \
  do {                                                        \
    static const bool told = (TORCH_WARN(__VA_ARGS__), true); \
    (void)told;                                               \
  } while (0)

namespace torch::detail {
void warn(const std::string& message);
}

// libtorch's three namespaces are one here.
namespace at = torch;      // NOLINT
namespace c10 = torch;     // NOLINT
namespace caffe2 = torch;  // NOLINT
