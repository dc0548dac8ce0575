// Installs the CPU backend: the allocator, and the kernels of the best instruction-set level that this processor has.
#pragma once

namespace facula::cpu {

void register_backend();
/// The level chosen: "v4", "v3", "v2" or "base".
const char* isa_level();

}  // namespace facula::cpu
