#include "core/error.h"

namespace facula {

std::string message_of(std::initializer_list<MessagePart> parts) {
  std::ostringstream text;
  for (const MessagePart& part : parts) part.print(text, part.value);
  return text.str();
}

void throw_message(ErrorKind kind, std::initializer_list<MessagePart> parts) { throw Error(kind, message_of(parts)); }

}  // namespace facula
