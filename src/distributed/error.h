// Defines errors between processes; each kind is a class of facula.distributed.
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

/// The engine does not work any more and is not called again; who is gone is heard elsewhere.
class EngineGaveUp : public DistError {
 public:
  explicit EngineGaveUp(std::string why) : DistError(Trouble::Backend, std::move(why)) {}
};

/// The other side may hang, or be stopped; its connection is there.
class NoAnswer : public DistError {
 public:
  explicit NoAnswer(std::string why) : DistError(Trouble::Network, std::move(why)) {}
};

template <class... Args>
[[noreturn, gnu::cold]] void fail(Trouble trouble, const Args&... parts) {
  throw DistError(trouble, message_of({MessagePart(parts)...}));
}

}  // namespace facula::distributed
