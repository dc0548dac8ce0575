// Finds who holds a port, as far as the system says.
#pragma once

#include <string>

namespace facula::distributed {

/// Such as "process 4711 (python train.py)".
std::string holder_of_port(int port);
/// The command line of a process, shortened; empty when the system does not say.
std::string command_of(int pid);

}  // namespace facula::distributed
