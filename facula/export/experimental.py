"""Export a training step as one program, which PyTorch calls experimental."""

from __future__ import annotations


def _export_forward_backward(ep, joint_loss_index=0):
    """Return the program that gives the results and the gradients of another one.

    Args:
        ep: an ExportedProgram with examples, whose parameters require gradients.
        joint_loss_index: which of its results is the loss, a scalar.

    The outputs are those of `ep`, then a gradient for each parameter and input that requires one; `graph_signature` says which
    (`backward_signature`). Writes to buffers stand at the end, and ops are those of PyTorch's core IR.
    """
    from facula.export._joint import joint_program

    return joint_program(ep.run_decompositions(), joint_loss_index).run_decompositions()
