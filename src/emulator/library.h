// Declares what the stand-ins of NVIDIA's libraries share. They check their arguments as the libraries do, queue loops
// over host memory, and remember what was requested: facula_emulated_requests() gives it to tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "emulator/stream.h"

#define FACULA_EMULATED extern "C" __attribute__((visibility("default")))

namespace facula::emulator {

/// With FACULA_CUDA=null a call that would queue work looks at nothing and returns, as the driver's launches do.
inline bool does_nothing() { return settings().mode == Mode::Null; }

/// One line of what is remembered.
void remember(const std::string& request);
/// Says on standard error why a call is refused; gives `status`, so that it can be returned.
int refused(const char* call, const std::string& why, int status);

/// Queues what a library's kernels would do. It may run several times, as part of a graph.
CUresult queue_loops(CUstream stream, std::function<void()> loops);

/// Whether `bytes` from `p` on lie in one allocation of a device, and p is a multiple of `alignment`.
bool is_readable(const void* p, int64_t bytes, int64_t alignment);

/// float16 and bfloat16, as numbers and as bits; rounded to the nearest, ties to even.
inline float from_half(uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, sizeof half);
  return static_cast<float>(half);
}
inline uint16_t to_half(float value) {
  const auto half = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &half, sizeof bits);
  return bits;
}
inline float from_brain(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
inline uint16_t to_brain(float value) {
  uint32_t wide;
  std::memcpy(&wide, &value, sizeof wide);
  if (value != value) return 0x7fc0;
  return static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}

// How elements lie in memory, by the type that they are computed with.
struct Plain {
  template <class T>
  static T load(const void* data, int64_t i) {
    return static_cast<const T*>(data)[i];
  }
  template <class T>
  static void store(void* data, int64_t i, T value) {
    static_cast<T*>(data)[i] = value;
  }
};
struct Half {
  template <class T>
  static T load(const void* data, int64_t i) {
    return static_cast<T>(from_half(static_cast<const uint16_t*>(data)[i]));
  }
  template <class T>
  static void store(void* data, int64_t i, T value) {
    static_cast<uint16_t*>(data)[i] = to_half(static_cast<float>(value));
  }
};
struct Brain {
  template <class T>
  static T load(const void* data, int64_t i) {
    return static_cast<T>(from_brain(static_cast<const uint16_t*>(data)[i]));
  }
  template <class T>
  static void store(void* data, int64_t i, T value) {
    static_cast<uint16_t*>(data)[i] = to_brain(static_cast<float>(value));
  }
};

}  // namespace facula::emulator
