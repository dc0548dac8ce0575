// Remembers a call of a compiled function: its ops in their order, and what became of each. A recording is advice and
// nothing more. Every op that is deferred is derived from the operands of its own call, so results are those of eager
// execution whatever a recording says. It decides which ops are worth deferring, and which of their results are written
// with the others of their group.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "observe/op_call.h"

namespace facula {

template <class T>
T learned(const T& field) {
  return std::atomic_ref(const_cast<T&>(field)).load(std::memory_order_relaxed);
}
template <class T>
void learn(T& field, T value) {
  std::atomic_ref(field).store(value, std::memory_order_relaxed);
}

/// A field that calls learn. A recording that goes another way copies it while others may be learning.
template <class T>
struct Learned {
  T value;
  Learned(T v) : value(v) {}
  Learned(const Learned& other) : value(learned(other.value)) {}
  Learned& operator=(const Learned& other) { return *this = learned(other.value); }
  Learned& operator=(T v) {
    learn(value, v);
    return *this;
  }
  operator T() const { return learned(value); }
};
template <class T>
T learned(const Learned<T>& field) {
  return learned(field.value);
}
template <class T>
void learn(Learned<T>& field, T value) {
  learn(field.value, value);
}

struct RecordedOp {
  uint16_t op = 0;
  OpForm form = OpForm::Function;
  // what calls learn; several threads may, so these are read and written by learned() and learn()
  Learned<bool> waits = false;   // it is put off where that is possible
  Learned<bool> wanted = false;  // its result was needed when its group had run
  Learned<uint8_t> alone = 0;    // how often it was the only step of its group
  uint8_t operands = 0;          // tensors among the arguments
  uint8_t results = 0;
  Learned<int16_t> group = -1;  // in the last call that followed; -1: it ran at once
  uint32_t place = 0;           // where Python was, a number of `line_of_program`; 0: not requested
  int64_t bytes = 0;            // of the results

  bool is(const OpCall& call) const { return op == call.op && form == call.form; }
};

/// A value, or a size that depends on values, that Python needed.
struct Demand {
  std::string what;  // "item", "bool"
  size_t ops;        // before it
  uint32_t place;
};

struct Recording {
  std::vector<RecordedOp> ops;
  std::vector<Demand> demands;
  int64_t followed = 0;  // calls that it served to the end
  struct Counts {
    int64_t groups = 0;        // that ran
    int64_t put_off = 0;       // ops
    int64_t never_made = 0;    // results that nobody wanted
    int64_t bytes_saved = 0;   // of these
    int64_t on_devices = 0;    // groups of devices that work while Python goes on
    int64_t not_moved = 0;     // bytes, by these groups
    int64_t bytes_let_go = 0;  // of results that were made and that only a tape held
  };
  Counts counts;  // of the last of these calls
};

}  // namespace facula
