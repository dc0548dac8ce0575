// Declares the base class of what autograd attaches to a tensor. To the core it is one opaque pointer.
#pragma once

namespace facula {

struct AutogradMetaBase {
  virtual ~AutogradMetaBase() = default;
};

}  // namespace facula
