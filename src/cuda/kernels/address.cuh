// Addresses of global memory, and what the compiler is to make of them.
#pragma once

#include "types.cuh"

namespace facula::cuda {

/// An address that the compiler takes as it is, so that adding to it is one instruction and not a sum of all that it
/// was made of.
template <class T>
FACULA_FN T* fixed_address(T* address) {
#if !defined(FACULA_EMULATED_KERNEL)
  char* plain = const_cast<char*>(reinterpret_cast<const char*>(address));  // what the intrinsic takes
  asm("" : "+l"(plain));
  __builtin_assume(__isGlobal(plain));
  address = reinterpret_cast<T*>(plain);
#endif
  return address;
}

/// A number that stays in a register until it is used again, and is not computed again.
FACULA_FN UInt64 in_register(UInt64 number) {
#if !defined(FACULA_EMULATED_KERNEL)
  asm("" : "+l"(number));
#endif
  return number;
}

}  // namespace facula::cuda
