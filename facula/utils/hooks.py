"""Define handles of registered hooks, and the autograd nodes behind a module's backward hooks."""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import facula

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks", "BackwardHook"]

# Dicts of hooks are ordered ones, which threads without the interpreter lock cannot change while others read.
_changing = threading.RLock()
_takes_turns = getattr(sys, "_is_gil_enabled", lambda: True)


def hook_items(hooks: dict[Any, Any]) -> list[Any]:
    """Return (id, hook) of a dict of hooks, oldest first, which other threads may change meanwhile."""
    if _takes_turns():
        return list(hooks.items())
    with _changing:
        return list(hooks.items())


def add_hook(hooks: dict[Any, Any], handle: RemovableHandle, hook: Any, prepend: bool = False) -> None:
    """Put a hook under the number of its handle."""
    with _changing:
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)


class RemovableHandle:
    """Remove a hook: ``remove()`` does it, and so does leaving a `with` block. Registering a hook returns this handle.

    Args:
        hooks_dict: the dict, keyed by id, that the hook is put into by the caller.
        extra_dict: one more dict (or a list of dicts) keyed by the same id, cleaned together with the first.

    >>> layer = nn.Linear(1, 1)
    >>> handle = layer.register_forward_hook(lambda module, inputs, output: output * 0)
    >>> layer(torch.ones(1)).item()
    0.0
    >>> handle.remove()
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        with _changing:
            self.id = RemovableHandle.next_id
            RemovableHandle.next_id += 1
        if extra_dict is None:
            extra_dict = ()
        elif isinstance(extra_dict, dict):
            extra_dict = (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra_dict)

    def remove(self) -> None:
        """Take the hook out; a second time, do nothing."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                with _changing:
                    hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        # A dict that was gone when the handle was saved is replaced by an empty one, so that remove() still
        # works.
        hooks = OrderedDict() if state[0] is None else state[0]
        self.hooks_dict_ref: Any = weakref.ref(hooks)
        self.id = state[1]
        extra = state[2] if len(state) > 2 else ()
        self.extra_dict_ref: tuple[Any, ...] = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extra)
        with _changing:
            RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.remove()


def unserializable_hook(f: Callable[..., Any]) -> Any:
    """Mark the hook `f` as one that goes without saying: saving a tensor that carries it does not warn. Gives the function.

    >>> @torch.utils.hooks.unserializable_hook
    ... def hook(grad):
    ...     return None
    >>> x = torch.ones(2, requires_grad=True)
    >>> handle = x.register_hook(hook)
    >>> torch.utils.hooks.warn_if_has_hooks(x)
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn (UserWarning) for every backward hook of `tensor` that saving would lose, but for marked ones.

    >>> torch.utils.hooks.warn_if_has_hooks(torch.ones(2))
    """
    import warnings

    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(f"save: the backward hook {hook!r} of the tensor is not saved", stacklevel=2)


class _Identity(facula.autograd.Function):
    """Pass tensors through one common autograd node, so that their gradients arrive together."""

    @staticmethod
    def forward(ctx, *tensors):
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return grads


class BackwardHook:
    """Run a module's full backward (pre-)hooks around its part of the graph.

    The module's inputs pass through one identity node and its outputs through another. The gradients of the
    outputs arrive at the second node (pre-hooks run there), those of the inputs leave from the first (hooks
    run there). When no input needs a gradient, the hooks run at the second node with ``None`` for every
    input.

    Args:
        module: what hooks get first.
        user_hooks: called with (module, gradients of inputs, gradients of outputs).
        user_pre_hooks: called with (module, gradients of outputs).

    >>> module = nn.Identity()
    >>> hook = torch.utils.hooks.BackwardHook(module, [lambda m, inputs, outputs: print(inputs)], [])
    >>> x = torch.ones(1, requires_grad=True)
    >>> (inputs,) = hook.setup_input_hook((x,))
    >>> y = hook.setup_output_hook(inputs * 3)
    >>> y.backward()
    (tensor([3.]),)
    """

    def __init__(self, module: Module, user_hooks: Sequence[Callable[..., Any]],
                 user_pre_hooks: Sequence[Callable[..., Any]]) -> None:  # fmt: skip
        self.module = module
        self.user_hooks: list[Any] = list(user_hooks)
        self.user_pre_hooks: list[Any] = list(user_pre_hooks)
        self.grad_outputs = None
        self.input_positions: list[int] | None = None
        self.output_positions: list[int] | None = None
        self.n_inputs = -1
        self.n_outputs = -1

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Watch the gradients of the arguments `args`, a tuple; give the arguments to call the module with."""
        args, self.input_positions, node = self._through_identity(args)
        self.n_inputs: int = len(args)
        if node is not None:
            node.register_hook(self._input_grads_ready)
        return args

    def setup_output_hook(self, outputs: Any) -> Tensor:
        """Watch the gradients of the results; give the results to return."""
        is_tuple = isinstance(outputs, tuple)
        packed = outputs if is_tuple else (outputs,)
        packed, self.output_positions, node = self._through_identity(packed)
        self.n_outputs: int = len(packed)
        if node is not None:
            node.register_prehook(self._output_grads_ready)
        return packed if is_tuple else packed[0]

    @staticmethod
    def _rebuilt(like: tuple, values: list) -> tuple:
        """Return the values as a tuple of the class of another one, which may be a named tuple."""
        kind = type(like)
        return tuple(values) if kind is tuple else kind(*values)

    def _through_identity(self, values: tuple):
        """Return (values with tensors replaced, positions of the tensors or None, the node or None)."""
        positions = [i for i, v in enumerate(values) if isinstance(v, facula.Tensor)]
        if not (facula.is_grad_enabled() and any(values[i].requires_grad for i in positions)):
            return values, None, None
        passed = _Identity.apply(*(values[i] for i in positions))
        nodes = [t.grad_fn for t in passed if t.grad_fn is not None]
        if not nodes:
            raise RuntimeError(
                f"{type(self.module).__name__}: backward hook: no tensor came back with a gradient node"
            )
        given, values = values, list(values)
        for i, tensor in zip(positions, passed):
            values[i] = tensor
        return self._rebuilt(given, values), positions, nodes[0]

    def _output_grads_ready(self, grads):
        full = self._spread(self.output_positions, self.n_outputs, grads)
        for hook in self.user_pre_hooks:
            result = hook(self.module, full)
            if result is not None:
                full = self._checked(result, self.n_outputs, "full backward pre-hook")
        # Kept for the hooks on the inputs' node, which runs after everything inside the module.
        self.grad_outputs = full
        if self.input_positions is None:
            for hook in self.user_hooks:
                result = hook(self.module, self._spread([], self.n_inputs, ()), full)
                if result is not None and not (isinstance(result, tuple) and all(r is None for r in result)):
                    raise RuntimeError(
                        f"{type(self.module).__name__}: full backward hook: where no input requires gradient, "
                        "the hook "
                        f"must return None, got {type(result).__name__}"
                    )
            self.grad_outputs = None
        return tuple(full[i] for i in self.output_positions) if self.user_pre_hooks else None

    def _input_grads_ready(self, grad_input, _):
        if self.grad_outputs is None:
            return None
        full = self._spread(self.input_positions, self.n_inputs, grad_input)
        for hook in self.user_hooks:
            result = hook(self.module, full, self.grad_outputs)
            if result is not None:
                full = self._checked(result, self.n_inputs, "full backward hook")
        self.grad_outputs: Any = None
        return tuple(full[i] for i in self.input_positions)

    @staticmethod
    def _spread(positions, length: int, values) -> tuple:
        full: list[Any] = [None] * length
        for i, value in zip(positions, values):
            full[i] = value
        return tuple(full)

    def _checked(self, result, length: int, kind: str) -> tuple:
        result = result if isinstance(result, tuple) else (result,)
        if len(result) != length:
            raise RuntimeError(
                f"{type(self.module).__name__}: {kind} must return {length} gradients, got {len(result)}"
            )
        return result
