// Reads the graph of an archive of PyTorch's: what it says becomes nodes, target by target.
#pragma once

#include <utility>

#include "program/json.h"
#include "program/program.h"

namespace facula::pt2 {

constexpr size_t kMostDims = 64;  // of a tensor

template <class... Parts>
[[noreturn, gnu::cold]] void refuse(const Parts&... why) {
  throw_error(ErrorKind::Runtime, "load: ", why...);
}

/// By PyTorch's number.
DType dtype_of(const Json& number);

/// Makes the program of a model's document, without the tensors that it holds.
void read_graph(const Json& model, Program& program);

}  // namespace facula::pt2
