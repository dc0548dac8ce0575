"""Containers of layers that `convert` makes one layer of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import nn
from facula.nn.utils.parametrize import type_before_parametrizations

if TYPE_CHECKING:
    from collections.abc import Callable

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d",
    "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearLeakyReLU", "LinearReLU", "LinearTanh",
]  # fmt: skip


class _FusedModule(nn.Sequential):
    """What all containers of fused layers are."""

    _KINDS: tuple[Any, ...] = ()

    def _checked(self, *modules):
        found = [type_before_parametrizations(module) for module in modules]
        for kind, wanted in zip(found, self._KINDS):
            if kind is not wanted:
                raise AssertionError(
                    f"{type(self).__name__}: Incorrect types for input modules, expected "
                    f"{[kind.__name__ for kind in self._KINDS]}, got {[kind.__name__ for kind in found]}"
                )
        return modules


class _ConvReLU(_FusedModule):
    def __init__(self, conv, relu) -> None:
        super().__init__(*self._checked(conv, relu))


class _ConvBn(_FusedModule):
    def __init__(self, conv, bn) -> None:
        super().__init__(*self._checked(conv, bn))


class _ConvBnReLU(_FusedModule):
    def __init__(self, conv, bn, relu) -> None:
        super().__init__(*self._checked(conv, bn, relu))


class _BNReLU(_FusedModule):
    def __init__(self, batch_norm, relu) -> None:
        super().__init__(*self._checked(batch_norm, relu))


_DOC = """{what}.

    Args:
        {arguments}: {kinds}.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.{name}({made})
    >>> tuple(layer(torch.ones({size})).shape)
    {result}
    """
_WORDS = {_ConvReLU: "conv relu", _ConvBn: "conv bn", _ConvBnReLU: "conv bn relu", _BNReLU: "batch_norm relu"}
_LONG = {
    "conv": "a convolution", "bn": "a batch normalisation", "relu": "a ReLU", "batch_norm": "a batch normalisation",
}  # fmt: skip


def _doc(name, what, arguments, kinds):
    names = [f"nn.{kind.__name__}" for kind in kinds]
    sizes = {"Conv": "2, 2, 3", "Batc": "2", "Line": "2, 2"}
    n = 0 if kinds[0] is nn.Linear else int(names[0][-2])
    return _DOC.format(
        name=name, what=what, arguments=arguments, kinds=f"{', '.join(names[:-1])} and {names[-1]}",
        made=", ".join(f"{kind}({sizes.get(kind[3:7], '')})" for kind in names), size=", ".join(["4", "2"] + ["3"] * n),
        result=(4, 2, *[1 if "Conv" in names[0] else 3] * n),
    )  # fmt: skip


def _sizes(name, base, *kinds):
    """Yield the classes of one, two and three dimensions, those of the layers that there are."""
    arguments = _WORDS[base].split()
    long = [_LONG[argument] for argument in arguments]
    what = f"{', '.join(long[:-1])} and {long[-1]}"
    for n in (1, 2, 3):
        layers = tuple(getattr(nn, kind.format(n)) for kind in kinds)
        doc = _doc(f"{name}{n}d", what[0].upper() + what[1:], ", ".join(arguments), layers)
        yield type(base)(f"{name}{n}d", (base,), {"_KINDS": layers, "__doc__": doc, "__module__": __name__})


ConvReLU1d: type[Any]
ConvReLU2d: type[Any]
ConvReLU3d: type[Any]
ConvBn1d: type[Any]
ConvBn2d: type[Any]
ConvBn3d: type[Any]
ConvBnReLU1d: type[Any]
ConvBnReLU2d: type[Any]
ConvBnReLU3d: type[Any]
ConvReLU1d, ConvReLU2d, ConvReLU3d = _sizes("ConvReLU", _ConvReLU, "Conv{}d", "ReLU")
ConvBn1d, ConvBn2d, ConvBn3d = _sizes("ConvBn", _ConvBn, "Conv{}d", "BatchNorm{}d")
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = _sizes("ConvBnReLU", _ConvBnReLU, "Conv{}d", "BatchNorm{}d", "ReLU")
BNReLU2d: type[Any]
BNReLU3d: type[Any]
_, BNReLU2d, BNReLU3d = _sizes("BNReLU", _BNReLU, "BatchNorm{}d", "ReLU")


class LinearReLU(_FusedModule):
    _KINDS = (nn.Linear, nn.ReLU)
    __doc__ = _doc("LinearReLU", "A linear layer and a ReLU", "linear, relu", _KINDS)

    def __init__(self, linear: Module, relu: Module) -> None:
        super().__init__(*self._checked(linear, relu))


class LinearBn1d(_FusedModule):
    _KINDS = (nn.Linear, nn.BatchNorm1d)
    __doc__ = _doc("LinearBn1d", "A linear layer and a batch normalisation", "linear, bn", _KINDS)

    def __init__(self, linear: Module, bn: Module) -> None:
        super().__init__(*self._checked(linear, bn))


class LinearLeakyReLU(_FusedModule):
    _KINDS = (nn.Linear, nn.LeakyReLU)
    __doc__ = _doc("LinearLeakyReLU", "A linear layer and a leaky ReLU", "linear, leaky_relu", _KINDS)

    def __init__(self, linear: Module, leaky_relu: Module) -> None:
        super().__init__(*self._checked(linear, leaky_relu))


class LinearTanh(_FusedModule):
    _KINDS = (nn.Linear, nn.Tanh)
    __doc__ = _doc("LinearTanh", "A linear layer and a hyperbolic tangent", "linear, tanh", _KINDS)

    def __init__(self, linear: Module, tanh: Module) -> None:
        super().__init__(*self._checked(linear, tanh))


class ConvAdd2d(_FusedModule):
    """A convolution whose result is added to another tensor: ``layer(x1, x2) = add(conv(x1), x2)``.

    Args:
        conv: nn.Conv2d.
        add: a function of two tensors.

    >>> layer = torch.ao.nn.intrinsic.ConvAdd2d(nn.Conv2d(2, 2, 1), torch.add)
    >>> layer(torch.ones(4, 2, 3, 3), torch.ones(4, 2, 3, 3)).shape
    torch.Size([4, 2, 3, 3])
    """

    def __init__(self, conv: Module, add: Callable[..., Any]) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return add(conv(x1), x2)."""
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution whose result is added to another tensor, and a ReLU: ``layer(x1, x2) = relu(add(conv(x1), x2))``.

    Args:
        conv: nn.Conv2d.
        add: a function of two tensors.
        relu: nn.ReLU.

    >>> layer = torch.ao.nn.intrinsic.ConvAddReLU2d(nn.Conv2d(2, 2, 1), torch.add, nn.ReLU())
    >>> bool((layer(torch.ones(4, 2, 3, 3), torch.zeros(4, 2, 3, 3)) >= 0).all())
    True
    """

    def __init__(self, conv: Module, add: Callable[..., Any], relu: Module) -> None:
        super().__init__(conv)
        self.add = add
        self.relu = relu

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return relu(add(conv(x1), x2))."""
        return self.relu(self.add(self[0](x1), x2))
