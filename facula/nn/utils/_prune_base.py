"""The base class of ways to prune, and several of them for one tensor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module


class BasePruningMethod(ABC):
    """Base of ways to prune; subclasses set ``PRUNING_TYPE`` and define ``compute_mask``.

    ``PRUNING_TYPE`` says what a method sees when a tensor is already pruned: 'unstructured' the entries that are left,
    'structured' the channels along ``dim`` that are left, 'global' everything.

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
        """The mask, of zeros where to prune and ones elsewhere.

        Args:
            t: what decides: the values, or their importance.
            default_mask: the mask so far, of the same shape.

        >>> method = nn.utils.prune.L1Unstructured(amount=1)
        >>> method.compute_mask(torch.tensor([3.0, -1.0, 2.0]), torch.ones(3))
        tensor([1., 0., 1.])
        """

    def apply_mask(self, module: Module) -> Tensor:
        """The masked parameter.

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
        """Prunes a parameter of a module, on top of any pruning it already has, and returns the method (or the
        `PruningContainer`).

        Args:
            module: is changed in place.
            name: the parameter.
            importance_scores: of the parameter's shape, used instead of its values.
            args, kwargs: what the class takes.

        Errors: AssertionError for scores of another shape.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        previous = pruning_hook(module, name)
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
        """The tensor with the mask applied, without a module.

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
        """Makes the masked values the parameter's own; the mask and the original are dropped. The hook stays: see
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
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def pruning_hook(module, name: str):
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
    """Several pruning methods of one tensor; the last one prunes what the others have left.

    Applying a method to a tensor that is pruned already makes one.

    Args:
        args: the methods.

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
        """Adds a method, which comes last.

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
        check_dim(t, method.dim)
        dim = method.dim % t.dim()
        kept = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
        return tuple(kept if d == dim else slice(None) for d in range(t.dim()))


def check_dim(t, dim: int) -> None:
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"prune: dim must be within {t.dim()} dimensions, got {dim}")
