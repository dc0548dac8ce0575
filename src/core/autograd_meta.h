// The one opaque pointer that autograd hangs on a tensor.
#pragma once

namespace facula {

struct AutogradMetaBase {
  virtual ~AutogradMetaBase() = default;
};

}  // namespace facula
