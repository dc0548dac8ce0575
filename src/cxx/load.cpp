#include "cxx/load.h"

#include "cpu/backend.h"
#include "cuda/backend.h"

namespace facula {

bool load() {
  static const bool done = [] {
    cpu::register_backend();
    cuda::register_backend();
    return true;
  }();
  return done;
}

}  // namespace facula
