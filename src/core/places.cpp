#include "core/places.h"

namespace facula {

std::string (*place_text)(uint32_t stack) = nullptr;
uint32_t (*capture_line)() = nullptr;

}  // namespace facula
