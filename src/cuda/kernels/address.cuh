// Addresses of global memory.
#pragma once

#include "types.cuh"

namespace facula::cuda {

/// An address that the compiler takes as it is, so that adding to it is one instruction and not a sum of all that it
/// was made of.
template <class T>
FACULA_FN T* fixed_address(T* address) {
#if !defined(FACULA_EMULATED_KERNEL)
  asm("" : "+l"(address));
  __builtin_assume(__isGlobal(address));
#endif
  return address;
}

}  // namespace facula::cuda
