"""Define the methods of Tensor and Node that register hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _C

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _handle(hooks, hook):
    from ..utils.hooks import RemovableHandle, add_hook

    handle = RemovableHandle(hooks)
    add_hook(hooks, handle, hook)
    return handle


def register_hook(self, hook):
    """Call `hook(grad)` whenever the gradient of the tensor is computed; a Tensor it returns replaces the gradient.

    Args:
        hook: takes the gradient, of the shape of the tensor, and gives another one or None.

    Returns: a handle whose `remove()` takes the hook out.

    Errors: RuntimeError when the tensor requires no gradient.

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> y = x * 3
    >>> handle = y.register_hook(lambda grad: grad * 10)
    >>> (y ** 2).backward()
    >>> x.grad  # of 2 * 6 * 3
    tensor(360.)
    """
    if not self.requires_grad:
        raise RuntimeError(
            f"register_hook: expected a tensor that requires a gradient, got one of shape {tuple(self.shape)} that does not"
        )
    return _handle(_C._tensor_hooks(self), hook)


def register_post_accumulate_grad_hook(self, hook):
    """Call `hook(leaf)` after the gradient of this leaf was added to `.grad`, for example to step an optimizer at once.

    Args:
        hook: takes the leaf; what it gives is not looked at.

    Returns: a handle whose `remove()` takes the hook out.

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
    >>> (x * 3).backward()
    tensor(3.)
    """
    return _handle(_C._leaf_hooks(self), hook)


def register_node_hook(self, fn: Callable[..., Any]):
    """Call `fn(grad_inputs, grad_outputs)` after the node ran; a tuple it returns replaces grad_inputs.

    Both are tuples of gradients, with respect to the inputs of the op and to its outputs. Returns a handle with `remove()`.

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> y = x * 3
    >>> handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, None))
    >>> y.backward()
    >>> x.grad
    tensor(30.)
    """
    return _handle(_C._node_hooks(self), fn)


def register_prehook(self, fn: Callable[..., Any]):
    """Call `fn(grad_outputs)` before the node runs; a tuple it returns replaces grad_outputs.

    Returns: a handle whose `remove()` takes the hook out.

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> y = x * 3
    >>> handle = y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    >>> y.backward()
    >>> x.grad
    tensor(30.)
    """
    return _handle(_C._node_prehooks(self), fn)


def _grad_fn(self):
    return self.grad_fn


def _no_deletion(self):
    raise RuntimeError("_grad_fn: it belongs to the graph and cannot be deleted (use detach())")


_C._install_methods(
    {
        "register_hook": register_hook,
        "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
        "_grad_fn": property(_grad_fn, None, _no_deletion),
    }
)
_C._install_node_methods({"register_hook": register_node_hook, "register_prehook": register_prehook})
