// What the torch:: functions take besides tensors.
#include <ATen/Parallel.h>
#include <torch/detail/convert.h>

#include "core/backend.h"
#include "core/generators.h"
#include "core/host.h"
#include "core/parallel.h"
#include "core/thread_pool.h"
#include "cuda/stream.h"

namespace torch {
namespace {

using facula::DType;
using facula::ErrorKind;

struct TypeRow {
  ScalarType type;
  DType dtype;
  const char* name;  // as toString() gives it
  const char* word;  // as the name of C++'s type
};
constexpr TypeRow kTypes[] = {
    {ScalarType::Byte, DType::UInt8, "Byte", "unsigned char"},
    {ScalarType::Char, DType::Int8, "Char", "signed char"},
    {ScalarType::Short, DType::Int16, "Short", "short"},
    {ScalarType::Int, DType::Int32, "Int", "int"},
    {ScalarType::Long, DType::Int64, "Long", "long"},
    {ScalarType::Half, DType::Float16, "Half", "c10::Half"},
    {ScalarType::Float, DType::Float32, "Float", "float"},
    {ScalarType::Double, DType::Float64, "Double", "double"},
    {ScalarType::ComplexHalf, DType::Complex32, "ComplexHalf", "c10::complex<c10::Half>"},
    {ScalarType::ComplexFloat, DType::Complex64, "ComplexFloat", "c10::complex<float>"},
    {ScalarType::ComplexDouble, DType::Complex128, "ComplexDouble", "c10::complex<double>"},
    {ScalarType::Bool, DType::Bool, "Bool", "bool"},
    {ScalarType::BFloat16, DType::BFloat16, "BFloat16", "c10::BFloat16"},
    {ScalarType::Float8_e5m2, DType::Float8E5M2, "Float8_e5m2", "c10::Float8_e5m2"},
    {ScalarType::Float8_e4m3fn, DType::Float8E4M3FN, "Float8_e4m3fn", "c10::Float8_e4m3fn"},
    {ScalarType::Float8_e5m2fnuz, DType::Float8E5M2FNUZ, "Float8_e5m2fnuz", "c10::Float8_e5m2fnuz"},
    {ScalarType::Float8_e4m3fnuz, DType::Float8E4M3FNUZ, "Float8_e4m3fnuz", "c10::Float8_e4m3fnuz"},
    {ScalarType::UInt16, DType::UInt16, "UInt16", "unsigned short"},
    {ScalarType::UInt32, DType::UInt32, "UInt32", "unsigned int"},
    {ScalarType::UInt64, DType::UInt64, "UInt64", "unsigned long"},
};

const TypeRow& row(ScalarType type) {
  for (const TypeRow& r : kTypes)
    if (r.type == type) return r;
  facula::throw_error(ErrorKind::Type, "dtype: one that tensors can have is expected, got ScalarType number ",
                      static_cast<int>(type));
}

struct DeviceRow {
  DeviceType type;
  facula::DeviceType core;
  const char* name;
};
constexpr DeviceRow kDevices[] = {
    {kCPU, facula::DeviceType::CPU, "CPU"},
    {kCUDA, facula::DeviceType::CUDA, "CUDA"},
    {kMeta, facula::DeviceType::Meta, "META"},
    {DeviceType::PrivateUse1, facula::DeviceType::PrivateUse, "PRIVATEUSEONE"},
};
const DeviceRow& row(DeviceType type) {
  for (const DeviceRow& r : kDevices)
    if (r.type == type) return r;
  facula::throw_error(ErrorKind::Value, "device: an unknown type, got number ", static_cast<int>(type));
}

constexpr std::pair<MemoryFormat, facula::MemoryFormat> kFormats[] = {
    {MemoryFormat::Contiguous, facula::MemoryFormat::Contiguous},
    {MemoryFormat::Preserve, facula::MemoryFormat::Preserve},
    {MemoryFormat::ChannelsLast, facula::MemoryFormat::ChannelsLast},
    {MemoryFormat::ChannelsLast3d, facula::MemoryFormat::ChannelsLast3d},
};

}  // namespace

namespace detail {

void fail_check(const char* condition, const std::string& message) {
  if (!message.empty()) throw Error(ErrorKind::Runtime, message);
  facula::throw_error(ErrorKind::Runtime, "TORCH_CHECK: the condition does not hold, got false for ", condition);
}

void warn(const std::string& message) {
  if (facula::host.warn) facula::host.warn(message.c_str());
  else std::fprintf(stderr, "Warning: %s\n", message.c_str());
}

DType dtype_of(ScalarType type) { return row(type).dtype; }
ScalarType scalar_type_of(DType dtype) {
  for (const TypeRow& r : kTypes)
    if (r.dtype == dtype) return r.type;
  return ScalarType::Undefined;
}

facula::Device device_of(const Device& device) { return {row(device.type()).core, device.index()}; }
Device device_from(facula::Device device) {
  for (const DeviceRow& r : kDevices)
    if (r.core == device.type) return {r.type, device.index};
  return {kCPU};
}

facula::MemoryFormat format_of(MemoryFormat format) {
  for (const auto& [ours, core] : kFormats)
    if (ours == format) return core;
  facula::throw_error(ErrorKind::Value, "memory_format: an unknown one, got number ", static_cast<int>(format));
}

const facula::Tensor& no_tensor() {
  static const facula::Tensor none;
  return none;
}

std::vector<Tensor> out(std::vector<facula::Tensor> list) {
  std::vector<Tensor> made;
  made.reserve(list.size());
  for (facula::Tensor& t : list) made.emplace_back(std::move(t));
  return made;
}

// The state of a device's generator is the library's; a Generator shows it without owning it.
Generator getDefaultCPUGenerator() {
  return Generator(std::shared_ptr<facula::Generator>(&facula::default_generator(facula::kCPU), [](auto*) {}));
}

}  // namespace detail

// ---- dtypes

const char* toString(ScalarType type) { return type == ScalarType::Undefined ? "Undefined" : row(type).name; }
size_t elementSize(ScalarType type) { return static_cast<size_t>(facula::item_size(row(type).dtype)); }
bool isFloatingType(ScalarType type) { return facula::is_floating(row(type).dtype); }
bool isComplexType(ScalarType type) { return facula::is_complex(row(type).dtype); }
bool isIntegralType(ScalarType type, bool includeBool) {
  return facula::is_integral(row(type).dtype) || (includeBool && type == kBool);
}
ScalarType promoteTypes(ScalarType a, ScalarType b) {
  return detail::scalar_type_of(facula::promote(row(a).dtype, row(b).dtype));
}
std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }
std::string_view TypeMeta::name() const {
  return type_ == ScalarType::Undefined ? "nullptr (uninitialized)" : row(type_).word;
}
std::ostream& operator<<(std::ostream& out, TypeMeta type) { return out << type.name(); }
TypeMeta get_default_dtype() { return detail::scalar_type_of(facula::default_dtype()); }
void set_default_dtype(TypeMeta type) { facula::set_default_dtype(detail::dtype_of(type.toScalarType())); }

// ---- devices, layouts

std::string DeviceTypeName(DeviceType type, bool lower_case) {
  std::string name = row(type).name;
  if (lower_case)
    for (char& c : name) c = static_cast<char>(std::tolower(c));
  return name;
}
std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << DeviceTypeName(type, true); }
Device::Device(const std::string& text) : Device(detail::device_from(facula::parse_device(text))) {}
std::string Device::str() const {
  const std::string name = DeviceTypeName(type_, true);
  return has_index() ? name + ":" + std::to_string(index_) : name;
}
std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }
std::ostream& operator<<(std::ostream& out, Layout) { return out << "Strided"; }
std::ostream& operator<<(std::ostream& out, MemoryFormat format) {
  constexpr const char* kNames[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
  return out << kNames[static_cast<size_t>(format)];
}

TensorOptions TensorOptions::merge_in(const TensorOptions& other) const {
  TensorOptions merged = other;
  if (!merged.device_) merged.device_ = device_;
  if (!merged.dtype_) merged.dtype_ = dtype_;
  if (!merged.layout_) merged.layout_ = layout_;
  if (!merged.requires_grad_) merged.requires_grad_ = requires_grad_;
  if (!merged.pinned_memory_) merged.pinned_memory_ = pinned_memory_;
  if (!merged.memory_format_) merged.memory_format_ = memory_format_;
  return merged;
}

std::ostream& operator<<(std::ostream& out, const TensorOptions& o) {
  const auto unless = [&](bool said) { return said ? "" : " (default)"; };
  out << "TensorOptions(dtype=" << o.dtype() << unless(o.has_dtype()) << ", device=" << o.device()
      << unless(o.has_device()) << ", layout=" << o.layout() << unless(o.has_layout());
  out << ", requires_grad=" << (o.requires_grad() ? "true" : "false") << unless(o.has_requires_grad())
      << ", pinned_memory=" << (o.pinned_memory() ? "true" : "false") << unless(o.has_pinned_memory());
  out << ", memory_format=";
  if (const auto format = o.memory_format_opt()) out << *format;
  else out << "(nullopt)";
  return out << ')';
}

// ---- numbers and generators

std::ostream& operator<<(std::ostream& out, const Scalar& s) {
  if (s.isComplex()) return out << s.toComplexDouble();
  if (s.isFloatingPoint()) return out << s.toDouble();
  if (s.isBoolean()) return out << (s.toBool() ? "true" : "false");
  return out << s.toLong();
}

Generator make_cpu_generator(uint64_t seed) {
  std::shared_ptr<facula::Generator> made = facula::owned(facula::make_generator(facula::kCPU));
  made->seed(seed);
  return Generator(made);
}

void manual_seed(uint64_t seed) {
  facula::default_generator(facula::kCPU).seed(seed);
  facula::seed_other_devices(seed);
}

int get_thread_num() { return facula::thread_pool::thread_number(); }
int get_num_threads() { return facula::num_threads(); }
void set_num_threads(int threads) { facula::set_num_threads(threads); }

namespace cuda {
bool is_available() { return device_count() > 0; }
size_t device_count() {
  if (!facula::has_backend(facula::DeviceType::CUDA)) return 0;
  const auto count = facula::backend_of(facula::DeviceType::CUDA).count;
  return count ? static_cast<size_t>(count()) : 0;
}
void manual_seed(uint64_t seed) { manual_seed_all(seed); }
void manual_seed_all(uint64_t seed) { facula::seed_other_devices(seed); }
void synchronize(int64_t device_index) {
  FACULA_CHECK(is_available(), facula::ErrorKind::Runtime, "synchronize: no CUDA device is there");
  facula::cuda::synchronize_device(
      facula::concrete(detail::device_of(Device(kCUDA, static_cast<DeviceIndex>(device_index)))).index);
}
}  // namespace cuda

Context& globalContext() {
  static Context context;
  return context;
}

}  // namespace torch
