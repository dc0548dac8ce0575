// Chooses the instruction-set level.
#pragma once

namespace facula::cpu {

void register_best_level();

}  // namespace facula::cpu
