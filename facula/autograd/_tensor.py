"""Methods of Tensor and Node that register hooks."""

from __future__ import annotations

from .. import _C


def _handle(hooks, hook):
    from ..utils.hooks import RemovableHandle, add_hook

    handle = RemovableHandle(hooks)
    add_hook(hooks, handle, hook)
    return handle


def register_hook(self, hook):
    """Calls `hook(grad)` whenever the gradient of the tensor is computed; a Tensor it returns replaces the gradient.

    Returns a handle whose `remove()` takes the hook out. Errors: RuntimeError when the tensor requires no gradient.
    """
    if not self.requires_grad:
        raise RuntimeError(
            f"register_hook: cannot register a hook on a tensor that doesn't require gradient, got shape "
            f"{tuple(self.shape)}"
        )
    return _handle(_C._tensor_hooks(self), hook)


def register_post_accumulate_grad_hook(self, hook):
    """Calls `hook(leaf)` after the gradient of this leaf was added to `.grad`. Returns a handle with `remove()`."""
    return _handle(_C._leaf_hooks(self), hook)


def register_node_hook(self, fn):
    """Calls `fn(grad_inputs, grad_outputs)` after the node ran; a tuple it returns replaces grad_inputs."""
    return _handle(_C._node_hooks(self), fn)


def register_prehook(self, fn):
    """Calls `fn(grad_outputs)` before the node runs; a tuple it returns replaces grad_outputs."""
    return _handle(_C._node_prehooks(self), fn)


_C._install_methods(
    {"register_hook": register_hook, "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook}
)
_C._install_node_methods({"register_hook": register_node_hook, "register_prehook": register_prehook})
