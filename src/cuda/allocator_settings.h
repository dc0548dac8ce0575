// Reads FACULA_CUDA_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF): "key:value,key:value".
//   expandable_segments:True           segments are ranges of addresses that grow and shrink (expandable.h)
//   max_split_size_mb:N                larger blocks are not split; more than 20
//   garbage_collection_threshold:F     from this share of the limit on, free segments go back before new ones are taken
//   roundup_power2_divisions:N         sizes are rounded up to one of N steps between powers of two, or
//   roundup_power2_divisions:[256:1,512:2,>:8]   of as many as stand for sizes of so many MiB
//   backend:native                     the only one
// Another key is an error with its name.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace facula::cuda {

struct AllocatorSettings {
  bool expandable_segments = false;
  size_t max_split = SIZE_MAX;
  double garbage_threshold = 0;
  std::array<size_t, 16> divisions{};  // by the power of two of the size in MiB; 0 and 1: no rounding
};

AllocatorSettings parse_allocator_settings(std::string_view text);
/// Those of the process: the environment's until others are set. The text stays as it was given.
AllocatorSettings allocator_settings();
namespace detail {
inline std::atomic<uint64_t> settings_version{1};
/// Whether a variable of the environment is set, and not to 0.
bool is_switched_on(const char* name);
}  // namespace detail
/// Another number, from 1 on, whenever they change.
inline uint64_t allocator_settings_version() { return detail::settings_version.load(std::memory_order_relaxed); }
std::string allocator_settings_text();
void set_allocator_settings(std::string_view text);

/// Of how many steps between two powers of two a block of so many bytes may be.
size_t divisions_for(const AllocatorSettings& settings, size_t bytes);

/// PYTORCH_NO_CUDA_MEMORY_CACHING and FACULA_CUDA_POISON (allocator.h).
inline bool is_caching_off() {
  static const bool set = detail::is_switched_on("PYTORCH_NO_CUDA_MEMORY_CACHING");
  return set;
}
inline bool is_poisoning() {
  static const bool set = detail::is_switched_on("FACULA_CUDA_POISON");
  return set;
}

}  // namespace facula::cuda
