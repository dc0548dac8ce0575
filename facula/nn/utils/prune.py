"""Prune parameters: multiply them by masks of zeros and ones.

A pruned parameter ``name`` becomes ``name_orig``, its mask the buffer ``name_mask``, and a forward pre-hook
computes ``name`` from both before every call.

Long because PyTorch has all ways to prune in one file of this name, and each class stands there with its docstring and
example.
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

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


# ---- The base class of ways to prune, and several of them for one tensor


class BasePruningMethod(ABC):
    """Compute and apply masks; the base class of pruning methods. Subclasses set ``PRUNING_TYPE`` and define
    ``compute_mask``.

    ``PRUNING_TYPE`` says what a method sees when a tensor is already pruned: 'unstructured' the entries that are left,
    'structured' the channels along ``dim`` that are left, 'global' everything.

    Shapes: a mask has the shape of its tensor.

    >>> from torch.nn.utils import prune
    >>> class Negative(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t >= 0)
    >>> Negative().prune(torch.tensor([1.0, -2.0, 3.0])).tolist()
    [1.0, -0.0, 3.0]
    >>> layer = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(layer.weight, -1.0)
    >>> method = Negative.apply(layer, "weight")
    >>> layer.weight_mask, method.apply_mask(layer).abs().sum().item()
    (tensor([[0., 0.]]), 0.0)
    >>> method.remove(layer)
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """

    _tensor_name: str | None = None

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Tensor) -> None:
        """Return the mask, of zeros where to prune and ones elsewhere.

        Args:
            t: what decides: the values, or their importance.
            default_mask: the mask so far, of the same shape.

        >>> method = nn.utils.prune.L1Unstructured(amount=1)
        >>> method.compute_mask(torch.tensor([3.0, -1.0, 2.0]), torch.ones(3))
        tensor([1., 0., 1.])
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return the masked parameter.

        Args:
            module: one that the method was applied to.

        Errors: AssertionError before that.
        """
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"prune: {type(module).__name__} is not pruned yet, got no tensor name")
        original = getattr(module, name + "_orig")
        return getattr(module, name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Self:
        """Prune a parameter of a module, on top of any pruning it already has, and return the method (or the
        `PruningContainer`).

        Args:
            module: the module, which is changed in place.
            name: the name of the parameter.
            importance_scores: of the parameter's shape, used instead of its values.
            args, kwargs: what the class takes.

        Errors: AssertionError for scores of another shape.
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
        """Return the tensor with the mask applied, without a module.

        Args:
            t: the tensor.
            default_mask: a mask that counts already; default: ones.
            importance_scores: of the tensor's shape, used instead of its values.

        Errors: AssertionError for scores of another shape.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"prune: importance_scores must have shape {tuple(t.shape)}, got {tuple(scores.shape)}"
            )
        default_mask = facula.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Make the masked values the parameter's own; the mask and the original are dropped. The hook stays: see
        `prune.remove`.

        Args:
            module: one that the method was applied to.

        Errors: AssertionError before that.
        """
        name = self._tensor_name
        if name is None:
            raise AssertionError(
                f"prune: {type(module).__name__} is not pruned, so there is nothing to remove"
            )
        weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        # The Parameter stays the same object, so that optimizers go on with it.
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _pruning_hook(module, name: str):
    """Return (key, hook) of the pruning of the parameter ``name``, or None."""
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
    """Hold several pruning methods of one tensor; each one prunes what the earlier ones left.

    Applying a method to a tensor that is pruned already makes one.

    Args:
        args: the methods.

    Errors: ValueError for methods of different tensors.

    >>> from torch.nn.utils import prune
    >>> layer = prune.l1_unstructured(nn.Linear(4, 2), "weight", amount=2)
    >>> layer = prune.random_unstructured(layer, "weight", amount=3)
    >>> container = next(iter(layer._forward_pre_hooks.values()))
    >>> [type(method).__name__ for method in container], int(layer.weight_mask.sum())
    (['L1Unstructured', 'RandomUnstructured'], 3)
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method, which comes last.

        Args:
            method: for the same tensor.

        Errors: TypeError for something that is no pruning method; ValueError for one of another tensor.

        >>> from torch.nn.utils import prune
        >>> container = prune.PruningContainer()
        >>> container.add_pruning_method(prune.L1Unstructured(amount=0.5))
        >>> len(container)
        1
        """
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
        """Return the index of the part of ``t`` that ``method`` may prune."""
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


def _check_dim(t, dim: int) -> None:
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"prune: dim must be within {t.dim()} dimensions, got {dim}")


def _check_amount(amount) -> None:
    """Check that ``amount`` is a number of entries, or a share in [0, 1]."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"prune: amount must be a number, got {type(amount).__name__}")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1.0):
        raise ValueError(f"prune: amount must be a non-negative integer or a share in [0, 1], got {amount}")


def _count(amount, tensor_size: int) -> int:
    """Return how many of ``tensor_size`` entries ``amount`` stands for."""
    if isinstance(amount, numbers.Integral):
        if amount > tensor_size:
            raise ValueError(f"prune: amount must be at most {tensor_size}, got {amount}")
        return int(amount)
    return round(amount * tensor_size)


def _check_size(amount, tensor_size: int) -> None:
    """Check that ``amount`` is at most a number of ``tensor_size`` entries."""
    _count(amount, tensor_size)


# what programs call in PyTorch
_validate_pruning_amount_init, _validate_pruning_amount, _compute_nparams_toprune = _check_amount, _check_size, _count


def _check_structured(t, dim: int) -> None:
    if t.dim() <= 1:
        raise ValueError(f"prune: structured pruning needs at least 2 dimensions, got shape {tuple(t.shape)}")
    _check_dim(t, dim)


class Identity(BasePruningMethod):
    """Add a mask that prunes nothing.

    >>> from torch.nn.utils import prune
    >>> layer = nn.Linear(2, 1)
    >>> _ = prune.Identity.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[1., 1.]])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Self:
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Prune ``amount`` single entries, those of the smallest `_scores`."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    @staticmethod
    def _worst(t, count: int):
        """Return the flat positions of the ``count`` entries to prune."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=facula.contiguous_format)
        if count:
            mask.view(-1)[self._worst(t, count)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prune entries at random.

    Args:
        amount: how much is pruned: a number, or a share (a float in [0, 1]).

    Errors: TypeError for something that is no number; ValueError for one out of range.

    >>> from torch.nn.utils import prune
    >>> prune.RandomUnstructured(amount=0.5).prune(torch.ones(4)).sum()
    tensor(2.)
    """

    @staticmethod
    def _worst(t, count: int):
        return facula.topk(facula.rand_like(t).view(-1), k=count).indices

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Self:
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prune the entries of smallest absolute value.

    Args:
        amount: how much is pruned: a number, or a share (a float in [0, 1]).

    Errors: TypeError for something that is no number; ValueError for one out of range.

    >>> from torch.nn.utils import prune
    >>> prune.L1Unstructured(amount=0.5).prune(torch.tensor([1.0, -4.0, 3.0, 2.0])).abs()
    tensor([0., 4., 3., 0.])
    """

    @staticmethod
    def _worst(t, count: int):
        return facula.topk(t.abs().reshape(-1), k=count, largest=False).indices

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Self:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _channel_mask(t, dim: int, kept):
    """Return ones in the channels that ``kept`` indexes along ``dim``, zeros elsewhere."""
    mask = facula.zeros_like(t)
    index = [slice(None)] * t.dim()
    index[dim] = kept
    mask[tuple(index)] = 1
    return mask


class RandomStructured(BasePruningMethod):
    """Prune channels at random.

    Args:
        amount: how much is pruned: a number, or a share (a float in [0, 1]).
        dim: the dimension of the channels.

    Errors: TypeError for an amount that is no number; ValueError for one out of range, or a tensor of one dimension; IndexError
    for a dim that it does not have.

    >>> from torch.nn.utils import prune
    >>> prune.RandomStructured(amount=1, dim=0).prune(torch.ones(3, 2)).sum(1).sort().values
    tensor([0., 2., 2.])
    """

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
    """Prune the channels of smallest norm.

    Args:
        amount: how much is pruned: a number, or a share (a float in [0, 1]).
        n: the power of the norm.
        dim: the dimension of the channels.

    Errors: TypeError for an amount that is no number; ValueError for one out of range, or a tensor of one dimension; IndexError
    for a dim that it does not have.

    >>> from torch.nn.utils import prune
    >>> prune.LnStructured(amount=1, n=2, dim=0).prune(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[0., 0.],
            [3., 4.]])
    """

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
    """Prune with a mask of the program, on top of the one so far.

    Args:
        mask: a tensor of the shape of the pruned one, zeros where to prune.

    Errors: AssertionError for another shape, when applied.

    >>> from torch.nn.utils import prune
    >>> prune.CustomFromMask(torch.tensor([1, 0])).prune(torch.tensor([3.0, 4.0]))
    tensor([3., 0.])
    """

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
    """Add a mask of ones to a parameter, and return the module.

    Args:
        module: the module, which is changed in place.
        name: the name of the parameter.

    Returns: the module.

    >>> sorted(nn.utils.prune.identity(nn.Linear(2, 1), "weight").state_dict())
    ['bias', 'weight_mask', 'weight_orig']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune entries of a parameter at random, and return the module.

    Args:
        module: the module, which is changed in place.
        name: the name of the parameter.
        amount: how much is pruned: a number, or a share (a float in [0, 1]).

    Returns: the module.

    Errors: TypeError for an amount that is no number; ValueError for one out of range.

    >>> layer = nn.utils.prune.random_unstructured(nn.Linear(2, 3), "weight", amount=1)
    >>> int((layer.weight == 0).sum())
    1
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the entries of a parameter of smallest absolute value, and return the module.

    Args:
        module: the module, which is changed in place.
        name: the name of the parameter.
        amount: how much is pruned: a number, or a share (a float in [0, 1]).
        importance_scores: of the parameter's shape, whose absolute values decide instead.

    Returns: the module.

    Errors: TypeError for an amount that is no number; ValueError for one out of range; AssertionError for scores of another
    shape.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(2, 3), "weight", amount=0.2)
    >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
    (1, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels of a parameter at random, and return the module.

    Args:
        module: the module, which is changed in place.
        name: the name of the parameter.
        amount: how much is pruned: a number, or a share (a float in [0, 1]).
        dim: the dimension of the channels.

    Returns: the module.

    Errors: TypeError for an amount that is no number; ValueError for one out of range, or a parameter of one dimension;
    IndexError for a dim that it does not have.

    >>> layer = nn.utils.prune.random_structured(nn.Linear(5, 3), "weight", amount=3, dim=1)
    >>> int((layer.weight.sum(dim=0) == 0).sum())
    3
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: float, n: Any, dim: int,
                  importance_scores: Tensor | None = None) -> Module:  # fmt: skip
    """Prune the channels of a parameter of smallest norm, and return the module.

    Args:
        module: the module, which is changed in place.
        name: the name of the parameter.
        amount: how much is pruned: a number, or a share (a float in [0, 1]).
        n: the power of the norm.
        dim: the dimension of the channels.
        importance_scores: of the parameter's shape, whose norms decide instead.

    Returns: the module.

    Errors: TypeError for an amount that is no number; ValueError for one out of range, or a parameter of one dimension;
    IndexError for a dim that it does not have; AssertionError for scores of another shape.

    >>> layer = nn.utils.prune.ln_structured(nn.Conv2d(5, 3, 2), "weight", amount=0.3, n=2, dim=1)
    >>> int((layer.weight.abs().sum(dim=(0, 2, 3)) == 0).sum())
    2
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters: Sequence[Sequence[Module | str]], pruning_method: type,
                        importance_scores: Tensor | None = None, **kwargs: Any) -> None:  # fmt: skip
    """Prune several parameters as if they were one tensor.

    Args:
        parameters: (module, name) pairs; the modules are changed in place.
        pruning_method: a class of unstructured methods.
        importance_scores: a dict from (module, name) to scores that are used instead of the values.
        kwargs: the arguments of the class, such as ``amount``.

    Errors: TypeError for parameters that cannot be iterated over, scores that are no dict, or a method that is not
    unstructured.

    >>> from torch.nn.utils import prune
    >>> first, second = nn.Linear(4, 2), nn.Linear(2, 4)
    >>> prune.global_unstructured([(first, "weight"), (second, "weight")], prune.L1Unstructured, amount=5)
    >>> int((first.weight_mask == 0).sum() + (second.weight_mask == 0).sum())
    5
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
    """Prune a parameter with a mask of your own, and return the module.

    Args:
        module: the module, which is changed in place.
        name: the name of the parameter.
        mask: of the parameter's shape, zeros where to prune.

    Returns: the module.

    Errors: AssertionError for another shape.

    >>> layer = nn.utils.prune.custom_from_mask(nn.Linear(3, 1), "bias", torch.tensor([0]))
    >>> layer.bias.abs()
    tensor([0.], grad_fn=<AbsBackward0>)
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruning of a parameter permanent, and return the module.

    Args:
        module: the module, which is changed in place.
        name: the parameter; it has its own name again, and the mask and the original are dropped.

    Returns: the module.

    Errors: ValueError for a parameter that is not pruned.

    >>> from torch.nn.utils import prune
    >>> layer = prune.remove(prune.l1_unstructured(nn.Linear(2, 3), "weight", amount=1), "weight")
    >>> sorted(layer.state_dict()), int((layer.weight == 0).sum())
    (['bias', 'weight'], 1)
    """
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
    """Return whether a module, or one below it, has a pruned parameter.

    Args:
        module: any module.

    >>> from torch.nn.utils import prune
    >>> model = nn.Sequential(nn.Linear(2, 3))
    >>> prune.is_pruned(model), prune.is_pruned(nn.Sequential(prune.identity(model[0], "weight")))
    (False, True)
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for submodule in module.modules()
        for hook in submodule._forward_pre_hooks.values()
    )
