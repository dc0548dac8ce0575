// Handles what a program requests of ops whose results could vary from run to run (use_deterministic_algorithms).
#pragma once

#include "core/tensor.h"

namespace facula::ops {

enum class Deterministic : uint8_t { Off, Warn, Error };

void set_deterministic(Deterministic mode);
bool deterministic_is_requested();
/// Whether memory that nobody has written yet is filled while deterministic algorithms are requested.
void set_fill_new_memory(bool fill);

/// For an op without a deterministic way: raises or warns where the program requested deterministic algorithms.
void alert_not_deterministic(const char* op);
/// A new tensor, filled where deterministic algorithms are requested: with NaN, the greatest integer, or true.
Tensor fill_new(Tensor made);
/// The same for the elements of the storage of `self` behind its first `bytes`.
void fill_grown(const Tensor& self, size_t bytes);

}  // namespace facula::ops
