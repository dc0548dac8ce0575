// Division of whole numbers by one that the host knows, by multiplication; read by both compilers.
#pragma once

namespace facula::cuda {

/// For numbers from 1 to 2^31 - 1 and what they divide below 2^31, where `factor` and `shift` give the exact quotient
/// (Granlund and Montgomery, 1994): 2^32 + factor is 2^(32 + shift) / by, rounded up.
struct FastDivision {
  unsigned by, factor, shift;

  unsigned quotient(unsigned n) const {
    const auto product = static_cast<unsigned long long>(n) * factor;
    return (static_cast<unsigned>(product >> 32) + n) >> shift;
  }
  /// The quotient; what remains of `n` stays there.
  unsigned divide(unsigned& n) const {
    const unsigned result = quotient(n);
    n -= result * by;
    return result;
  }
};

/// How to divide by a number.
inline FastDivision fast_division(unsigned by) {
  unsigned shift = 0;
  while ((1u << shift) < by) ++shift;
  const unsigned long long rest = (1ull << shift) - by;
  return {by, static_cast<unsigned>((rest << 32) / by) + 1, shift};
}

}  // namespace facula::cuda
