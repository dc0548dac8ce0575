"""Select the modules of a model that are wrapped separately."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula import nn

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every module.

    Args:
        args, kwargs: what policies are called with; not looked at.

    Returns: True.

    >>> from torch.distributed.fsdp.wrap import always_wrap_policy
    >>> always_wrap_policy(nn.Linear(2, 2), recurse=False, nonwrapped_numel=6)
    True
    """
    return True


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Any) -> bool:
    """Wrap modules for which a function is True. Fix it with `functools.partial`, as `auto_wrap_policy` of
    FullyShardedDataParallel.

    Args:
        module: the module that is asked about.
        recurse: whether the question is to look inside (always) or to wrap.
        nonwrapped_numel: elements of parameters that are not wrapped inside; not looked at.
        lambda_fn: `lambda_fn(module)`.

    Returns: True where recurse is, else what lambda_fn returns.

    >>> import functools
    >>> from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy
    >>> policy = functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.Linear))
    >>> policy(nn.ReLU(), recurse=False, nonwrapped_numel=0)
    False
    """
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Any) -> bool:
    """Wrap modules of the given classes. Fix them with `functools.partial`, as `auto_wrap_policy` of FullyShardedDataParallel.

    Args:
        module: the module that is asked about.
        recurse: whether the question is to look inside (always) or to wrap.
        nonwrapped_numel: elements of parameters that are not wrapped inside; not looked at.
        transformer_layer_cls: the classes, a set.

    Returns: True where recurse is, else whether the module is of one of the classes.

    >>> import functools
    >>> from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    >>> policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer})
    >>> policy(nn.TransformerEncoderLayer(8, 2), recurse=False, nonwrapped_numel=0)
    True
    """
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def _module_wrap_policy(module, recurse: bool, nonwrapped_numel: int, module_classes) -> bool:
    return True if recurse else isinstance(module, tuple(module_classes))


def _or_policy(module, recurse: bool, nonwrapped_numel: int, policies) -> bool:
    """Wrap what one of the policies wraps."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8), force_leaf_modules: Any = None,
    exclude_wrap_modules: Any = None,
) -> bool:  # fmt: skip
    """Wrap modules that have `min_num_params` elements in what is not wrapped inside them.

    Args:
        module: the module that is asked about.
        recurse: whether the question is to look inside or to wrap.
        nonwrapped_numel: elements of parameters that are not wrapped inside.
        min_num_params: from how many on. Fix it with `functools.partial`.
        force_leaf_modules: classes whose insides are left alone. Default: MultiheadAttention.
        exclude_wrap_modules: classes that are never wrapped. Default: ModuleList and ModuleDict.

    Returns: whether to look inside where recurse is True, else whether to wrap the module.

    >>> from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
    >>> size_based_auto_wrap_policy(nn.Linear(8, 8), recurse=False, nonwrapped_numel=72, min_num_params=50)
    True
    """
    leaves = tuple(force_leaf_modules if force_leaf_modules is not None else {nn.MultiheadAttention})
    never = tuple(exclude_wrap_modules if exclude_wrap_modules is not None else {nn.ModuleList, nn.ModuleDict})
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, leaves) if recurse else large and not isinstance(module, never)


class ModuleWrapPolicy:
    """Wrap modules of the given classes.

    Args:
        module_classes: the classes.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    >>> from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = FSDP(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    >>> isinstance(model.module[0], FSDP), isinstance(model.module[1], FSDP)
    (True, False)
    >>> dist.destroy_process_group()
    """

    def __init__(self, module_classes: Any) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: Any, *args: Any, **kwargs: Any) -> bool:
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """Wrap the modules that a function selects.

    Args:
        lambda_fn: `lambda_fn(module)` gives False, True, or a dict of other arguments for the wrapper; ValueError, when the
            model is wrapped, for anything else.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    >>> from torch.distributed.fsdp.wrap import CustomPolicy
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> policy = CustomPolicy(lambda m: isinstance(m, nn.Linear))
    >>> isinstance(FSDP(nn.Sequential(nn.Linear(4, 4)), auto_wrap_policy=policy).module[0], FSDP)
    True
    >>> dist.destroy_process_group()
    """

    def __init__(self, lambda_fn: Any) -> None:
        self._lambda_fn = lambda_fn


def auto_wrap(root: Module, policy: Any, wrapper: Any, ignored: Any, options: Any) -> None:
    """Replace children that the policy wants wrapped, inner ones first."""
    if isinstance(policy, CustomPolicy):
        _wrap_by_choice(root, policy, wrapper, ignored, options)
    else:
        _recurse(root, policy, wrapper, ignored, options)


def _children(module, wrapper, ignored):
    return [(n, c) for n, c in module.named_children() if c not in ignored and not isinstance(c, wrapper)]


def _wrap_by_choice(module, policy, wrapper, ignored, options) -> None:
    for name, child in _children(module, wrapper, ignored):
        _wrap_by_choice(child, policy, wrapper, ignored, options)
        choice = policy._lambda_fn(child)
        if not isinstance(choice, (bool, dict)):
            raise ValueError(f"CustomPolicy: the function must give a bool or a dict, got {type(choice).__name__}")
        if choice is not False:
            setattr(module, name, wrapper(child, **{**options, **(choice if isinstance(choice, dict) else {})}))


def _recurse(module, policy, wrapper, ignored, options) -> int:
    """Wrap inside; return the number of elements that were wrapped."""
    total = sum(p.numel() for p in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=total):
        return 0
    wrapped = 0
    for name, child in _children(module, wrapper, ignored):
        numel = sum(p.numel() for p in child.parameters())
        inside = _recurse(child, policy, wrapper, ignored, options)
        if numel and policy(module=child, recurse=False, nonwrapped_numel=numel - inside):
            setattr(module, name, wrapper(child, **options))
            inside = numel
        wrapped += inside
    return wrapped


_enabled: list[tuple[Any, ...]] = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Callable[..., Any], **wrapper_kwargs: Any):
    """Return a context in which `wrap` wraps.

    Args:
        wrapper_cls: FullyShardedDataParallel.
        wrapper_kwargs: its arguments.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    >>> from torch.distributed.fsdp.wrap import enable_wrap, wrap
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> with enable_wrap(wrapper_cls=FSDP):
    ...     layer = wrap(nn.Linear(4, 2))
    >>> isinstance(layer, FSDP)
    True
    >>> dist.destroy_process_group()
    """
    _enabled.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _enabled.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Return the module in the wrapper of `enable_wrap`; the module itself outside of one.

    Args:
        module: the module.
        wrap_overrides: arguments of the wrapper, in the place of those of `enable_wrap`.

    >>> from torch.distributed.fsdp.wrap import wrap
    >>> wrap(nn.Linear(4, 2))
    Linear(in_features=4, out_features=2, bias=True)
    """
    if not _enabled:
        return module
    wrapper, options = _enabled[-1]
    return wrapper(module, **{**options, **wrap_overrides})


