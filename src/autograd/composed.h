// States when derivatives must save no argument of the forward pass.
#pragma once

namespace facula {

/// True on this thread while the pass of a transform (func.grad, vjp, jacrev) runs: formulas that divide by what the
/// program may write to, or whose quotients overflow where the derivative does not, are then put together without that,
/// as PyTorch does there.
bool derivatives_are_composed();
/// Returns what it was.
bool set_derivatives_are_composed(bool on);

}  // namespace facula
