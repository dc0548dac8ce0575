#include "cpu/processor.h"

namespace facula::cpu {
namespace {

bool is_intel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace

// Measured on Ice Lake, and on Zen 3 and Zen 4: there gathers of 512 bits take 1.4 to 1.6 times as long as loads one by
// one.
const bool asks_ahead = is_intel();
const bool gathers_well = is_intel();

}  // namespace facula::cpu
