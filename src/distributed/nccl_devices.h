// Runs collectives among devices of one process by NCCL, with a communicator for each device of a list, which stay.
#pragma once

#include "core/tensor.h"
#include "distributed/engine.h"

namespace facula::distributed {

/// One tensor on each device, contiguous and of one dtype. Runs behind the devices' current streams, which wait for it.
/// `Reduce` writes into the output of `root` only, and takes no others; `Broadcast` writes its inputs.
void run_on_devices(Kind kind, const std::vector<Tensor>& in, const std::vector<Tensor>& out, Reduction reduction,
                    int root);

/// By which ranks of a communicator find each other.
std::string nccl_unique_id();

}  // namespace facula::distributed
