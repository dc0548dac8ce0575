// Describes ops, as the schema states them, for code that plans or defers their work: one row for every op, by its
// number.
#pragma once

#include <cstdint>

#include "ops/elementwise.h"

namespace facula {

enum class OpWeight : uint8_t {
  Heavy,      // products, convolutions, sorting, indexing: their time is their own
  Element,    // one element of the result from one of each operand
  View,       // no elements move
  Fold,       // a reduction
  Row,        // lines of elements: softmax, norms, scans
  Factory,    // no operands
  Draw,       // takes random numbers
  Composite,  // made of ops
};

struct OpSemantics {
  OpWeight weight = OpWeight::Heavy;
  bool may_alias = true;  // results may share memory with arguments
  bool writes = false;    // to arguments, in the plain form
  uint8_t operands = 0;   // of an element-wise op
  const ops::ElementwiseOp* element = nullptr;
};

const OpSemantics& op_semantics(uint16_t id);

}  // namespace facula
