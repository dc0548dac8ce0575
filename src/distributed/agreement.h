// Defines what the ranks of a group send each other before a collective: what they call, and values that are so few
// that they travel with it.
#pragma once

#include <cstdint>

#include "distributed/engine.h"

namespace facula::distributed {

struct Agreement {
  static constexpr int kBytes = 96;

  uint64_t least = 0, greatest_inverse = 0;  // the fingerprint and its inverse; in the end the least of all ranks'
  uint64_t imbalance = 0;                    // in the end 0, if everybody sends what the others expect
  DType dtype = DType::UInt8;                // of the values
  Reduction reduction = Reduction::BitOr;
  uint16_t count = 0;
  uint32_t reserved = 0;
  alignas(8) char values[kBytes] = {};

  explicit Agreement(uint64_t fingerprint = 0) : least(fingerprint), greatest_inverse(~fingerprint) {}
  /// Whether all ranks call the same.
  bool reached() const { return least == ~greatest_inverse; }
};
static_assert(sizeof(Agreement) == 128);

/// Puts the call of another rank to this one; values only while the ranks agree.
void combine(const Agreement& other, Agreement& mine);

}  // namespace facula::distributed
