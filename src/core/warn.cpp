#include "core/warn.h"

#include "core/host.h"

namespace facula {

std::atomic<bool> warn_always = false;

void warn_once(std::atomic<bool>& given, const char* text) {
  if (!host.warn || (given.exchange(true) && !warn_always)) return;
  try {
    host.warn(text);
  } catch (...) {  // it is an error, or was not given
    given = false;
    throw;
  }
}

}  // namespace facula
