"""Wrap modules so that they compute activations again in the backward pass, or store them on the CPU."""

from __future__ import annotations

import enum
import functools

from facula import nn
from facula.autograd.graph import save_on_cpu
from facula.utils.checkpoint import checkpoint

_PREFIX = "_checkpoint_wrapped_module"


class CheckpointImpl(enum.Enum):
    """Name the implementation of checkpointing."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(nn.Module):
    """Wrap a module. The wrapper's name does not appear in state dicts or in the names of parameters."""

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_state_dict_post_hook(self._without_prefix)
        self.register_load_state_dict_pre_hook(self._with_prefix)

    def forward(self, *args, **kwargs):
        """Raise NotImplementedError: subclasses say what happens around the module inside."""
        raise NotImplementedError(f"{type(self).__name__}: forward is a subclass's, got {len(args)} arguments")

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_PREFIX), name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args, **kwargs):
        """Yield the parameters under the names that they have inside."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_PREFIX}.", ""), parameter

    @staticmethod
    def _without_prefix(module, state_dict, prefix, *_):
        del module
        for key in [key for key in state_dict if key.startswith(f"{prefix}{_PREFIX}.")]:
            state_dict[prefix + key[len(prefix) + len(_PREFIX) + 1 :]] = state_dict.pop(key)

    @staticmethod
    def _with_prefix(module, state_dict, prefix, *_):
        del module
        for key in [key for key in state_dict if key.startswith(prefix)]:
            state_dict[f"{prefix}{_PREFIX}.{key[len(prefix) :]}"] = state_dict.pop(key)


class OffloadWrapper(ActivationWrapper):
    """Store in main memory what the module saves for the backward pass."""

    def forward(self, *args, **kwargs):
        """Return what the module inside gives."""
        with save_on_cpu(pin_memory=False):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Compute the module again in the backward pass.

    Args:
        mod: the module.
        checkpoint_impl: the way.
        checkpoint_fn: does it, in the place of `utils.checkpoint.checkpoint`.
        checkpoint_fn_kwargs: further arguments of that function.
    """

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn_kwargs["use_reentrant"] = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn = checkpoint
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        """Return what the module inside gives."""
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:
            names = list(kwargs)

            def call(*given):
                return self._checkpoint_wrapped_module(*given[: len(args)], **dict(zip(names, given[len(args) :], strict=True)))

            return self.checkpoint_fn(call, *args, *kwargs.values())
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)


def offload_wrapper(module):
    """Return `OffloadWrapper` of a module.

    Args:
        module: the module to wrap.
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    """Return `CheckpointWrapper` of a module.

    Args:
        module: the module to wrap.
        checkpoint_impl: a CheckpointImpl.
        checkpoint_fn: what runs the module; None for `checkpoint`.
        checkpoint_fn_kwargs: further arguments of it.
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True, auto_wrap_policy=None
):
    """Put modules within `model`, in place, into wrappers.

    Args:
        model: the model, which itself stays as it is.
        checkpoint_wrapper_fn: makes a wrapper of a module.
        check_fn: says of a module whether it gets one.
        auto_wrap_policy: says it in the place of `check_fn`, as a policy of FSDP does.
    """

    def wanted(module):
        if auto_wrap_policy is None:
            return check_fn(module)
        return auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=sum(p.numel() for p in module.parameters()))

    def visit(module):
        for name, child in list(module.named_children()):
            visit(child)
            if wanted(child) and not isinstance(child, ActivationWrapper):
                setattr(module, name, checkpoint_wrapper_fn(child))

    visit(model)
