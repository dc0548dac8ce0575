#include "core/generator_looks.h"

namespace facula {

void (*look_hook)(const Generator& generator) = nullptr;

void note_look(const Generator& generator) {
  if (look_hook) look_hook(generator);
}

}  // namespace facula
