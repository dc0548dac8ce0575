// Opens the MPI library of this process when several processes come together.
#pragma once

#include <string>
#include <vector>

#include "distributed/error.h"
#include "distributed/mpi_abi.h"

namespace facula::distributed::mpi {

struct Functions {
#define X(name, ...) int (*name)(__VA_ARGS__);
  FACULA_MPI_FUNCTIONS(X)
#undef X
};

struct Library {
  std::string path;
  Functions call;
  bool aborts_to_us = false;  // abort() in the library is EngineGaveUp, as exit() is
};

/// Where to look beside FACULA_MPI and the system: files, in order of preference.
void set_candidates(std::vector<std::string> files);
/// Opens it at the first call. An error that says how to get one when there is none.
const Library& library();
/// The file, or empty.
std::string found_at();

/// Where a connection breaks in MPI's hands it calls exit(), whatever its error handlers are. As long as this lives,
/// that is EngineGaveUp on this thread.
class Calling {
 public:
  Calling() { ++depth; }
  ~Calling() { --depth; }
  static bool here() { return depth > 0; }
  /// Calls of MPI that do not return end so too, on all threads and for ever, where they wait in known ways: for a
  /// connection that is never made, or bytes that nobody takes.
  static void interrupt();

 private:
  static thread_local int depth;
};

/// What MPI says of an error.
std::string error_text(int code, const char* what);
/// An error of MPI, as an exception.
void check(int code, const char* what);

}  // namespace facula::distributed::mpi
