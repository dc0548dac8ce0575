// Notes why storages are made and freed, for histories of memory. A thread says it while it does so.
#pragma once

#include <cstdint>

namespace facula {

enum class MemoryCause : uint8_t {
  Program,    // what the program does
  LetGo,      // a memory budget lets go of bytes that can be made again
  MadeAgain,  // and makes them again
};

/// The reason that holds on this thread.
MemoryCause memory_cause();

/// It holds for as long as this lives.
class MemoryCauseScope {
 public:
  explicit MemoryCauseScope(MemoryCause cause);
  ~MemoryCauseScope();
  MemoryCauseScope(const MemoryCauseScope&) = delete;

 private:
  MemoryCause before_;
};

}  // namespace facula
