// Detects properties of processors that have the same instructions but run some of them well or badly.
#pragma once

namespace facula::cpu {

/// True if loops with the widest vectors gain by asking for memory ahead.
extern const bool asks_ahead;
/// True if gathering a vector of elements takes less time than loading them one by one.
extern const bool gathers_well;

}  // namespace facula::cpu
