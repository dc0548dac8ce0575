// The levels that were compiled in are named by FACULA_HAS_*; the environment variable FACULA_ISA chooses one
// of them, for tests and comparisons.
#include "cpu/levels.h"

#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "cpu/backend.h"

namespace facula::cpu {

#define DECLARE(level)   \
  namespace level {      \
  void register_level(); \
  }
#ifdef FACULA_HAS_V4
DECLARE(v4)
#endif
#ifdef FACULA_HAS_V3
DECLARE(v3)
#endif
#ifdef FACULA_HAS_V2
DECLARE(v2)
#endif
#ifdef FACULA_HAS_BASE
DECLARE(base)
#endif
#undef DECLARE

namespace {

struct Level {
  const char *name, *means;
  bool (*supported)();
  void (*install)();
};

#if defined(__x86_64__)
bool has_v4() { return __builtin_cpu_supports("x86-64-v4"); }
bool has_v3() { return __builtin_cpu_supports("x86-64-v3"); }
bool has_v2() { return __builtin_cpu_supports("x86-64-v2"); }
#endif
[[maybe_unused]] bool always() { return true; }

const Level levels[] = {
#ifdef FACULA_HAS_BASE
    {"base", "any processor of this kind", always, base::register_level},
#endif
#ifdef FACULA_HAS_V2
    {"v2", "SSE4.2", has_v2, v2::register_level},
#endif
#ifdef FACULA_HAS_V3
    {"v3", "AVX2", has_v3, v3::register_level},
#endif
#ifdef FACULA_HAS_V4
    {"v4", "AVX-512", has_v4, v4::register_level},
#endif
};

const char* chosen = "";

/// A copied installation may meet an older processor.
[[noreturn]] void report_older_processor() {
  throw_error(ErrorKind::Runtime, "facula: this package was compiled for processors with ", levels[0].means, " (level ",
              levels[0].name,
              "), which this one does not have; install it from source on this machine, or with a wheel "
              "that has all levels (make wheel, or FACULA_LEVELS=all pip wheel .)");
}

}  // namespace

// From the lowest upwards, each level in place of what the one below has registered: what a level lacks stays that
// one's.
void register_best_level() {
  const char* forced = std::getenv("FACULA_ISA");
  for (const Level& level : levels) {
    if (!level.supported()) break;
    chosen = level.name;
    level.install();
    if (forced && std::string_view(forced) == level.name) return;
  }
  if (!*chosen) report_older_processor();
  FACULA_CHECK(!forced, ErrorKind::Runtime,
               "facula: expected an instruction-set level that was compiled in and that this processor has, got ",
               forced, " from FACULA_ISA");
}

const char* isa_level() { return chosen; }

}  // namespace facula::cpu
