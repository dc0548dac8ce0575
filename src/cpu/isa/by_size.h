// Elements that are moved, not computed with: their size is all that matters, so that a loop is compiled five times
// and not for twenty dtypes.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {

struct __attribute__((may_alias)) Bytes16 {
  uint64_t low, high;
};

/// Calls f(TypeTag<T>()) with an unsigned type, or Bytes16, of `item` bytes.
template <class F>
decltype(auto) visit_size(int64_t item, F&& f) {
  switch (item) {
    case 1: return f(TypeTag<uint8_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    case 8: return f(TypeTag<uint64_t>{});
    default: return f(TypeTag<Bytes16>{});
  }
}

}  // namespace facula::cpu::FACULA_ISA
