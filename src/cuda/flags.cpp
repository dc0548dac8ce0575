#include "cuda/flags.h"

namespace facula::cuda {

Flags& flags() {
  static Flags f;
  return f;
}

}  // namespace facula::cuda
