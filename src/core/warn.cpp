#include "core/warn.h"

#include "core/host.h"

namespace facula {

std::atomic<bool> warn_always = false;

void warn_once(std::atomic<bool>& given, const char* text) {
  if (host.warn && (!given.exchange(true) || warn_always)) host.warn(text);
}

}  // namespace facula
