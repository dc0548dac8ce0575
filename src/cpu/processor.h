// What a processor does well or badly among the instructions that it has, where that decides between two ways.
#pragma once

namespace facula::cpu {

/// Whether loops with the widest vectors gain by asking for memory ahead.
extern const bool asks_ahead;
/// Whether gathering a vector of elements takes less time than loading them one by one.
extern const bool gathers_well;

}  // namespace facula::cpu
