// Compiles runs of a group: consecutive element-wise steps become machine code (emit_run.h), which holds in registers
// what they give to each other. Code is made once for groups that differ only in numbers and addresses.
#pragma once

#include <memory>
#include <vector>

#include "cpu/emit_run.h"
#include "ops/group.h"

namespace facula::cpu {

/// How the elements of a value are held, as far as code is concerned.
enum class Held : uint8_t {
  Elements,
  Number,
  OfRows,  // one element for each row, and a row at a time
  Unfit,   // in another way: steps that read it are left to loops
};

struct GroupRun {
  struct Argument {
    enum class Kind : uint8_t { Elements, Stored, Number, OfRows, Params };
    Kind kind;
    uint8_t input = 0;   // of a number: which of the step's
    uint16_t value = 0;  // or the step, of a number and of params
    uint8_t item = 0;    // bytes of an element
  };
  size_t first = 0, end = 0;  // steps
  DType compute = DType::Float32;
  emit::RunFn code = nullptr;
  int64_t lanes = 0;  // elements have to be multiples of it; else 0
  std::vector<Argument> arguments;
};

struct GroupRuns {
  std::vector<GroupRun> runs;  // in order
  std::vector<bool> inside;    // by value: whether it never leaves registers
  std::shared_ptr<const emit::Code> code;
};

/// The runs of a group, from a cache; null where there are none. `held` is by value.
std::shared_ptr<const GroupRuns> runs_of(const Group& group, const std::vector<Held>& held, emit::Level level);

/// Calls the code of a run. What does not fill a vector is computed in a buffer where code has no masks.
void call_run(const GroupRun& run, int64_t n, const void* const* arguments);

}  // namespace facula::cpu
