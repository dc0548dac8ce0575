#include "ops/deterministic.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/host.h"
#include "core/kernel.h"
#include "core/scalar.h"

namespace facula::ops {
namespace {

std::atomic<Deterministic> deterministic_mode{Deterministic::Off};
std::atomic<bool> fills{true};

bool filling() { return deterministic_is_requested() && fills.load(); }

Scalar value_of_new(DType dtype) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  switch (dtype) {
    case DType::Bool: return true;
    case DType::Int8: return std::numeric_limits<int8_t>::max();
    case DType::Int16: return std::numeric_limits<int16_t>::max();
    case DType::Int32: return std::numeric_limits<int32_t>::max();
    case DType::Int64: return std::numeric_limits<int64_t>::max();
    case DType::UInt8: return std::numeric_limits<uint8_t>::max();
    case DType::UInt16: return std::numeric_limits<uint16_t>::max();
    case DType::UInt32: return std::numeric_limits<uint32_t>::max();
    case DType::UInt64: return std::numeric_limits<uint64_t>::max();
    default: return is_complex(dtype) ? Scalar(std::complex<double>(nan, nan)) : Scalar(nan);
  }
}

}  // namespace

void set_deterministic(Deterministic mode) { deterministic_mode.store(mode); }
bool deterministic_is_requested() { return deterministic_mode.load(std::memory_order_relaxed) != Deterministic::Off; }
void set_fill_new_memory(bool fill) { fills.store(fill); }

void alert_not_deterministic(const char* op) {
  const Deterministic mode = deterministic_mode.load(std::memory_order_relaxed);
  if (__builtin_expect(mode == Deterministic::Off, 1)) return;
  FACULA_CHECK(mode == Deterministic::Warn, ErrorKind::Runtime, op,
               ": does not have a deterministic implementation, and use_deterministic_algorithms(True) asks for one "
               "(warn_only=True warns instead), got a call");
  if (host.warn) host.warn((std::string(op) + ": does not have a deterministic implementation").c_str());
}

Tensor fill_new(Tensor made) {
  if (__builtin_expect(filling(), 0) && !made.is_meta() && made.numel())
    fill_kernel(made.device(), made, value_of_new(made.dtype()));
  return made;
}

void fill_grown(const Tensor& self, size_t bytes) {
  if (__builtin_expect(!filling(), 1) || self.is_meta()) return;
  Storage* storage = self.storage();
  const int64_t size = item_size(self.dtype()), end = static_cast<int64_t>(storage->nbytes) / size;
  const int64_t begin = (static_cast<int64_t>(bytes) + size - 1) / size;
  if (begin < end) fill_new(tensor_on_storage(storage, self.dtype(), begin, {end - begin}, {1}, "resize_"));
}

}  // namespace facula::ops
