"""Which modules of a model are wrapped each for itself."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula import nn

if TYPE_CHECKING:
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
    """Wraps every module."""
    return True


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Any) -> bool:
    """Wraps modules for which `lambda_fn(module)` is True."""
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Any) -> bool:
    """Wraps modules of the given classes."""
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def _module_wrap_policy(module, recurse: bool, nonwrapped_numel: int, module_classes) -> bool:
    return True if recurse else isinstance(module, tuple(module_classes))


def _or_policy(module, recurse: bool, nonwrapped_numel: int, policies) -> bool:
    """Wraps what one of the policies wraps."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8), force_leaf_modules: Any = None,
    exclude_wrap_modules: Any = None,
) -> bool:  # fmt: skip
    """Wraps modules that have `min_num_params` elements in what is not wrapped inside them.

    Args:
        force_leaf_modules: classes whose insides are left alone. Default: MultiheadAttention.
        exclude_wrap_modules: classes that are never wrapped. Default: ModuleList and ModuleDict.
    """
    leaves = tuple(force_leaf_modules if force_leaf_modules is not None else {nn.MultiheadAttention})
    never = tuple(exclude_wrap_modules if exclude_wrap_modules is not None else {nn.ModuleList, nn.ModuleDict})
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, leaves) if recurse else large and not isinstance(module, never)


class ModuleWrapPolicy:
    """Wraps modules of the given classes."""

    def __init__(self, module_classes: Any) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: Any, *args: Any, **kwargs: Any) -> bool:
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """Wraps modules for which `lambda_fn(module)` is True or gives other arguments for the wrapper."""

    def __init__(self, lambda_fn: Any) -> None:
        self._lambda_fn = lambda_fn


def auto_wrap(root: Module, policy: Any, wrapper: Any, ignored: Any, options: Any) -> None:
    """Replaces children that the policy wants wrapped, inner ones first."""
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
    """Wraps inside; the number of elements that were wrapped."""
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
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """A context in which `wrap` wraps.

    Args:
        wrapper_cls: FullyShardedDataParallel.
        wrapper_kwargs: its arguments.
    """
    _enabled.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _enabled.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module in the wrapper of `enable_wrap`; the module itself outside of one."""
    if not _enabled:
        return module
    wrapper, options = _enabled[-1]
    return wrapper(module, **{**options, **wrap_overrides})


