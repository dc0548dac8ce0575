#include "cuda/places.h"

namespace facula::cuda {

std::string (*place_text)(uint32_t stack) = nullptr;
uint32_t (*capture_line)() = nullptr;

}  // namespace facula::cuda
