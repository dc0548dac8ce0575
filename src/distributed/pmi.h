// Implements a server of PMI-1, the protocol by which an MPI library learns from its launcher who the other processes
// are. Here every process answers its own library, from the store: no mpirun is needed.
#pragma once

#include <memory>
#include <string>

#include "distributed/store.h"

namespace facula::distributed {

struct PmiJob {
  std::string name;     // unique for every attempt: MPICH calls its shared memory so
  std::string mapping;  // which ranks share a machine
  int rank = 0, size = 1;
  double timeout = 300;
};

/// Starts the server, which lives as long as the library speaks to it, also beyond exit(); the library's descriptor.
int serve_pmi(std::shared_ptr<Store> store, PmiJob job);

/// PMI's text for "these ranks share a machine": machines by rank, by any names.
std::string process_mapping(const std::vector<std::string>& machines);

}  // namespace facula::distributed
