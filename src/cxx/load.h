// Makes the library ready by registering its kernels. The Python module and every program in C++ begin with it.
#pragma once

namespace facula {

/// Registers the devices, once for the process.
bool load();

}  // namespace facula
