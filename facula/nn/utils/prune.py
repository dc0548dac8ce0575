"""Pruning: parameters multiplied by masks of zeros and ones.

A pruned parameter ``name`` becomes ``name_orig``, its mask the buffer ``name_mask``, and a forward pre-hook
computes ``name`` from both before every call.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

import facula

from .convert_parameters import parameters_to_vector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module


class BasePruningMethod(ABC):
    """A way to choose what to prune; subclasses set ``PRUNING_TYPE`` and define ``compute_mask``.

    ``PRUNING_TYPE`` says what a method sees when a tensor is already pruned: 'unstructured' the entries that
    are left, 'structured' the channels along ``dim`` that are left, 'global' everything.
    """

    _tensor_name: str | None = None

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Tensor) -> None:
        """The mask for importances ``t``, given the mask so far, of the same shape."""

    def apply_mask(self, module: Module) -> Tensor:
        """The masked parameter."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"prune: {type(module).__name__} is not pruned yet, got no tensor name")
        original = getattr(module, name + "_orig")
        return getattr(module, name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Self:
        """Prune the parameter ``name`` of ``module``, on top of any pruning it already has; return the
        method.

        Args:
            importance_scores: of the parameter's shape, used instead of its values.
            Others: of the class.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        previous = _pruning_hook(module, name)
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"prune: importance_scores must have shape {tuple(original.shape)}, got {tuple(scores.shape)}"
            )
        if previous is None:
            mask = method.compute_mask(scores, default_mask=facula.ones_like(original))
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
        else:
            key, hook = previous
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container.add_pruning_method(method)
            method = container
            mask = method.compute_mask(scores, default_mask=getattr(module, name + "_mask").detach().clone())
            del module._forward_pre_hooks[key]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Any, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Any:
        """``t`` with the mask applied, without a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"prune: importance_scores must have shape {tuple(t.shape)}, got {tuple(scores.shape)}"
            )
        default_mask = facula.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Make the masked values the parameter's own; the mask and the original are dropped."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(
                f"prune: {type(module).__name__} is not pruned, so there is nothing to remove"
            )
        weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _pruning_hook(module, name: str):
    """(key, hook) of the pruning of the parameter ``name``, or None."""
    found = [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(found) > 1:
        raise AssertionError(
            f"prune: one tensor takes one pruning hook (a PruningContainer), got {len(found)}"
        )
    return found[0] if found else None


class PruningContainer(BasePruningMethod):
    """Several pruning methods of one tensor; the last one prunes what the others have left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same tensor."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"PruningContainer: takes pruning methods, got {type(method).__name__}")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"PruningContainer: all methods must be for the tensor {self._tensor_name!r}, got "
                f"{method._tensor_name!r}"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        visible = self._visible(method, t, mask)
        mask[visible] = method.compute_mask(t[visible], default_mask=mask[visible]).to(mask.dtype)
        return mask

    @staticmethod
    def _visible(method, t, mask):
        """Index of the part of ``t`` that ``method`` may prune."""
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE == "global":
            return (slice(None),) * t.dim()
        if method.PRUNING_TYPE != "structured":
            raise ValueError(f"PruningContainer: unknown PRUNING_TYPE, got {method.PRUNING_TYPE!r}")
        if not hasattr(method, "dim"):
            raise AttributeError(
                f"PruningContainer: structured methods need a dim, got {type(method).__name__}"
            )
        _check_dim(t, method.dim)
        dim = method.dim % t.dim()
        kept = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
        return tuple(kept if d == dim else slice(None) for d in range(t.dim()))


def _check_amount(amount) -> None:
    """``amount`` is a number of entries, or a share in [0, 1]."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"prune: amount must be a number, got {type(amount).__name__}")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1.0):
        raise ValueError(f"prune: amount must be a non-negative integer or a share in [0, 1], got {amount}")


def _count(amount, size: int) -> int:
    """How many of ``size`` entries ``amount`` stands for."""
    if isinstance(amount, numbers.Integral):
        if amount > size:
            raise ValueError(f"prune: amount must be at most {size}, got {amount}")
        return int(amount)
    return round(amount * size)


def _check_dim(t, dim: int) -> None:
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"prune: dim must be within {t.dim()} dimensions, got {dim}")


def _check_structured(t, dim: int) -> None:
    if t.dim() <= 1:
        raise ValueError(f"prune: structured pruning needs at least 2 dimensions, got shape {tuple(t.shape)}")
    _check_dim(t, dim)


class Identity(BasePruningMethod):
    """Prunes nothing, but adds the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Self:
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Prunes ``amount`` single entries, those of the smallest `_scores`."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    @staticmethod
    def _worst(t, count: int):
        """Flat positions of the ``count`` entries to prune."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=facula.contiguous_format)
        if count:
            mask.view(-1)[self._worst(t, count)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes ``amount`` (a number, or a share) of the entries at random."""

    @staticmethod
    def _worst(t, count: int):
        return facula.topk(facula.rand_like(t).view(-1), k=count).indices

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Self:
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the ``amount`` (a number, or a share) of entries of smallest absolute value."""

    @staticmethod
    def _worst(t, count: int):
        return facula.topk(t.abs().reshape(-1), k=count, largest=False).indices

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Self:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _channel_mask(t, dim: int, kept):
    """Ones in the channels that ``kept`` indexes along ``dim``, zeros elsewhere."""
    mask = facula.zeros_like(t)
    index = [slice(None)] * t.dim()
    index[dim] = kept
    mask[tuple(index)] = 1
    return mask


class RandomStructured(BasePruningMethod):
    """Prunes ``amount`` (a number, or a share) of the channels along ``dim`` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Tensor) -> Tensor:
        _check_structured(t, self.dim)
        count = _count(self.amount, t.shape[self.dim])
        if count == 0:
            return default_mask
        chances = facula.rand(t.shape[self.dim])
        threshold = facula.kthvalue(chances, k=count).values
        mask = _channel_mask(t, self.dim, chances > threshold)
        return mask * default_mask.to(mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> Self:
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the ``amount`` (a number, or a share) of channels along ``dim`` of smallest ``n``-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _check_structured(t, self.dim)
        channels = t.shape[self.dim]
        count = _count(self.amount, channels)
        if count == 0:
            return default_mask
        dim = self.dim % t.dim()
        norms = facula.norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != dim])
        best = facula.topk(norms, k=channels - count, largest=True).indices
        mask = _channel_mask(t, dim, best)
        return mask * default_mask.to(mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None) -> Self:
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes with a mask of your own, on top of the one so far."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"prune: the mask must have shape {tuple(default_mask.shape)}, got {tuple(self.mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Self:
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """Add a mask of ones to the parameter ``name``; return the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune ``amount`` (a number, or a share) of the entries at random; return the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the ``amount`` of entries of smallest absolute value (or importance); return the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune ``amount`` of the channels along ``dim`` at random; return the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: float, n: Any, dim: int,
                  importance_scores: Tensor | None = None) -> Module:  # fmt: skip
    """Prune the ``amount`` of channels along ``dim`` of smallest ``n``-norm; return the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters: Sequence[Sequence[Module | str]], pruning_method: type,
                        importance_scores: Tensor | None = None, **kwargs: Any) -> None:  # fmt: skip
    """Prune several parameters as if they were one tensor.

    Args:
        parameters: (module, name) pairs.
        pruning_method: an unstructured method; ``kwargs`` are its arguments.
        importance_scores: dict from (module, name) to scores used instead of the values.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(
            f"global_unstructured: parameters must be (module, name) pairs, got {type(parameters).__name__}"
        )
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, dict):
        raise TypeError(
            f"global_unstructured: importance_scores must be a dict, got {type(importance_scores).__name__}"
        )
    parameters = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured: the method must be unstructured, got {method.PRUNING_TYPE!r}")
    values = [getattr(module, name) for module, name in parameters]
    scores = [importance_scores.get(key, value) for key, value in zip(parameters, values)]
    masks = [
        getattr(module, name + "_mask", facula.ones_like(value))
        for (module, name), value in zip(parameters, values)
    ]
    method._tensor_name = "all"
    mask = PruningContainer(method).compute_mask(parameters_to_vector(scores), parameters_to_vector(masks))
    for (module, name), part in zip(parameters, mask.split([value.numel() for value in values])):
        custom_from_mask(module, name, mask=part.view_as(getattr(module, name)))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune with ``mask``, of the parameter's shape; return the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruning of the parameter ``name`` permanent; return the module."""
    found = _pruning_hook(module, name)
    if found is None:
        raise ValueError(
            f"prune.remove: {type(module).__name__} has no pruned parameter of this name, got {name!r}"
        )
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether ``module`` or one below it has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod)
        for submodule in module.modules()
        for hook in submodule._forward_pre_hooks.values()
    )
