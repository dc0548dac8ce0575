// Errors between processes; each kind is a class of facula.distributed.
#pragma once

#include "core/error.h"

namespace facula::distributed {

enum class Trouble : uint8_t { Dist, Backend, Network, Store, QueueEmpty };

class DistError : public Error {
 public:
  DistError(Trouble trouble, std::string message) : Error(ErrorKind::Runtime, std::move(message)), trouble_(trouble) {}
  Trouble trouble() const { return trouble_; }

 private:
  Trouble trouble_;
};

template <class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void fail(Trouble trouble, const Args&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw DistError(trouble, text.str());
}

}  // namespace facula::distributed
