#include "observe/memory_cause.h"

#include <utility>

namespace facula {
namespace {
thread_local MemoryCause present = MemoryCause::Program;
}  // namespace

MemoryCause memory_cause() { return present; }

MemoryCauseScope::MemoryCauseScope(MemoryCause cause) : before_(std::exchange(present, cause)) {}
MemoryCauseScope::~MemoryCauseScope() { present = before_; }

}  // namespace facula
