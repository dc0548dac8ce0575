// Sets markers and ranges for NVIDIA's profilers. A profiler names its library in the environment
// (NVTX_INJECTION64_PATH); the library is opened with the first marker, as NVTX's headers open it, and says which of
// its functions to call. Where there is none nothing happens.
#pragma once

#include <cstdint>

namespace facula::cuda::nvtx {

/// What push and pop give where nobody listens.
constexpr int kNobody = -2;

/// How many ranges of the thread are open around the new one.
int push(const char* text);
int pop();
/// A range that may end on another thread, by its number.
uint64_t start(const char* text);
void end(uint64_t range);
void marker(const char* text);

}  // namespace facula::cuda::nvtx
