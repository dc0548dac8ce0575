#include "core/error.h"

#include "core/refusal.h"

namespace facula {
namespace {

/// Says what is known of the Error that a thread throws; `Unknown` again once it was caught.
enum class Thrown : uint8_t { Unknown, ByCheck, Refusal };
thread_local constinit Thrown thrown = Thrown::Unknown;

class CheckedError final : public Error {
 public:
  CheckedError(ErrorKind kind, std::string message, Thrown how) : Error(kind, std::move(message)) { thrown = how; }
  ~CheckedError() override { thrown = Thrown::Unknown; }
};

}  // namespace

std::string message_of(std::initializer_list<MessagePart> parts) {
  std::ostringstream text;
  for (const MessagePart& part : parts) part.print(text, part.value);
  return text.str();
}

void throw_message(ErrorKind kind, std::initializer_list<MessagePart> parts) {
  throw CheckedError(kind, message_of(parts), Thrown::ByCheck);
}

void throw_refusal_message(ErrorKind kind, std::initializer_list<MessagePart> parts) {
  throw CheckedError(kind, message_of(parts), Thrown::Refusal);
}

bool refused_before_writing() noexcept { return thrown != Thrown::Unknown; }

void note_halfway() noexcept {
  if (thrown == Thrown::ByCheck) thrown = Thrown::Unknown;
}

}  // namespace facula
