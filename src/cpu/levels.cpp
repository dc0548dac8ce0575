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
  const char* name;
  bool (*supported)();
  void (*install)();
};

#if defined(__x86_64__)
bool has_v4() { return __builtin_cpu_supports("x86-64-v4"); }
bool has_v3() { return __builtin_cpu_supports("x86-64-v3"); }
#endif
[[maybe_unused]] bool always() { return true; }

const Level levels[] = {
#ifdef FACULA_HAS_BASE
    {"base", always, base::register_level},
#endif
#ifdef FACULA_HAS_V2
    {"v2", always, v2::register_level},
#endif
#ifdef FACULA_HAS_V3
    {"v3", has_v3, v3::register_level},
#endif
#ifdef FACULA_HAS_V4
    {"v4", has_v4, v4::register_level},
#endif
};

const char* chosen = "";

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
  FACULA_CHECK(*chosen && !forced, ErrorKind::Runtime,
               "facula: expected an instruction-set level that was compiled in and that this processor has, got ",
               forced ? forced : "none", forced ? " from FACULA_ISA" : "");
}

const char* isa_level() { return chosen; }

}  // namespace facula::cpu
