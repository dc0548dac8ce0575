"""Define containers of layers that `convert` replaces by one layer."""

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
    """Check the classes of the layers in a container; the base class of all containers of fused layers."""

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


class ConvReLU1d(_FusedModule):
    """Hold a convolution and a ReLU, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv1d`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvReLU1d(nn.Conv1d(2, 2, 3), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2, 3)).shape)
    (4, 2, 1)
    """

    _KINDS = (nn.Conv1d, nn.ReLU)

    def __init__(self, conv: Module, relu: Module) -> None:
        super().__init__(*self._checked(conv, relu))


class ConvReLU2d(_FusedModule):
    """Hold a convolution and a ReLU, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv2d`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvReLU2d(nn.Conv2d(2, 2, 3), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2, 3, 3)).shape)
    (4, 2, 1, 1)
    """

    _KINDS = (nn.Conv2d, nn.ReLU)

    def __init__(self, conv: Module, relu: Module) -> None:
        super().__init__(*self._checked(conv, relu))


class ConvReLU3d(_FusedModule):
    """Hold a convolution and a ReLU, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv3d`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvReLU3d(nn.Conv3d(2, 2, 3), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2, 3, 3, 3)).shape)
    (4, 2, 1, 1, 1)
    """

    _KINDS = (nn.Conv3d, nn.ReLU)

    def __init__(self, conv: Module, relu: Module) -> None:
        super().__init__(*self._checked(conv, relu))


class ConvBn1d(_FusedModule):
    """Hold a convolution and a batch normalization, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv1d`.
        bn: an `nn.BatchNorm1d`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvBn1d(nn.Conv1d(2, 2, 3), nn.BatchNorm1d(2))
    >>> tuple(layer(torch.ones(4, 2, 3)).shape)
    (4, 2, 1)
    """

    _KINDS = (nn.Conv1d, nn.BatchNorm1d)

    def __init__(self, conv: Module, bn: Module) -> None:
        super().__init__(*self._checked(conv, bn))


class ConvBn2d(_FusedModule):
    """Hold a convolution and a batch normalization, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv2d`.
        bn: an `nn.BatchNorm2d`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvBn2d(nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2))
    >>> tuple(layer(torch.ones(4, 2, 3, 3)).shape)
    (4, 2, 1, 1)
    """

    _KINDS = (nn.Conv2d, nn.BatchNorm2d)

    def __init__(self, conv: Module, bn: Module) -> None:
        super().__init__(*self._checked(conv, bn))


class ConvBn3d(_FusedModule):
    """Hold a convolution and a batch normalization, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv3d`.
        bn: an `nn.BatchNorm3d`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvBn3d(nn.Conv3d(2, 2, 3), nn.BatchNorm3d(2))
    >>> tuple(layer(torch.ones(4, 2, 3, 3, 3)).shape)
    (4, 2, 1, 1, 1)
    """

    _KINDS = (nn.Conv3d, nn.BatchNorm3d)

    def __init__(self, conv: Module, bn: Module) -> None:
        super().__init__(*self._checked(conv, bn))


class ConvBnReLU1d(_FusedModule):
    """Hold a convolution, a batch normalization and a ReLU, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv1d`.
        bn: an `nn.BatchNorm1d`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvBnReLU1d(nn.Conv1d(2, 2, 3), nn.BatchNorm1d(2), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2, 3)).shape)
    (4, 2, 1)
    """

    _KINDS = (nn.Conv1d, nn.BatchNorm1d, nn.ReLU)

    def __init__(self, conv: Module, bn: Module, relu: Module) -> None:
        super().__init__(*self._checked(conv, bn, relu))


class ConvBnReLU2d(_FusedModule):
    """Hold a convolution, a batch normalization and a ReLU, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv2d`.
        bn: an `nn.BatchNorm2d`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvBnReLU2d(nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2, 3, 3)).shape)
    (4, 2, 1, 1)
    """

    _KINDS = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)

    def __init__(self, conv: Module, bn: Module, relu: Module) -> None:
        super().__init__(*self._checked(conv, bn, relu))


class ConvBnReLU3d(_FusedModule):
    """Hold a convolution, a batch normalization and a ReLU, which `convert` makes one layer.

    Args:
        conv: an `nn.Conv3d`.
        bn: an `nn.BatchNorm3d`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.ConvBnReLU3d(nn.Conv3d(2, 2, 3), nn.BatchNorm3d(2), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2, 3, 3, 3)).shape)
    (4, 2, 1, 1, 1)
    """

    _KINDS = (nn.Conv3d, nn.BatchNorm3d, nn.ReLU)

    def __init__(self, conv: Module, bn: Module, relu: Module) -> None:
        super().__init__(*self._checked(conv, bn, relu))


class BNReLU2d(_FusedModule):
    """Hold a batch normalization and a ReLU, which `convert` makes one layer.

    Args:
        batch_norm: an `nn.BatchNorm2d`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.BNReLU2d(nn.BatchNorm2d(2), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2, 3, 3)).shape)
    (4, 2, 3, 3)
    """

    _KINDS = (nn.BatchNorm2d, nn.ReLU)

    def __init__(self, batch_norm: Module, relu: Module) -> None:
        super().__init__(*self._checked(batch_norm, relu))


class BNReLU3d(_FusedModule):
    """Hold a batch normalization and a ReLU, which `convert` makes one layer.

    Args:
        batch_norm: an `nn.BatchNorm3d`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.BNReLU3d(nn.BatchNorm3d(2), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2, 3, 3, 3)).shape)
    (4, 2, 3, 3, 3)
    """

    _KINDS = (nn.BatchNorm3d, nn.ReLU)

    def __init__(self, batch_norm: Module, relu: Module) -> None:
        super().__init__(*self._checked(batch_norm, relu))


class LinearReLU(_FusedModule):
    """Hold a linear layer and a ReLU, which `convert` makes one layer.

    Args:
        linear: an `nn.Linear`.
        relu: an `nn.ReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.LinearReLU(nn.Linear(2, 2), nn.ReLU())
    >>> tuple(layer(torch.ones(4, 2)).shape)
    (4, 2)
    """

    _KINDS = (nn.Linear, nn.ReLU)

    def __init__(self, linear: Module, relu: Module) -> None:
        super().__init__(*self._checked(linear, relu))


class LinearBn1d(_FusedModule):
    """Hold a linear layer and a batch normalization, which `convert` makes one layer.

    Args:
        linear: an `nn.Linear`.
        bn: an `nn.BatchNorm1d`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.LinearBn1d(nn.Linear(2, 2), nn.BatchNorm1d(2))
    >>> tuple(layer(torch.ones(4, 2)).shape)
    (4, 2)
    """

    _KINDS = (nn.Linear, nn.BatchNorm1d)

    def __init__(self, linear: Module, bn: Module) -> None:
        super().__init__(*self._checked(linear, bn))


class LinearLeakyReLU(_FusedModule):
    """Hold a linear layer and a leaky ReLU, which `convert` makes one layer.

    Args:
        linear: an `nn.Linear`.
        leaky_relu: an `nn.LeakyReLU`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.LinearLeakyReLU(nn.Linear(2, 2), nn.LeakyReLU())
    >>> tuple(layer(torch.ones(4, 2)).shape)
    (4, 2)
    """

    _KINDS = (nn.Linear, nn.LeakyReLU)

    def __init__(self, linear: Module, leaky_relu: Module) -> None:
        super().__init__(*self._checked(linear, leaky_relu))


class LinearTanh(_FusedModule):
    """Hold a linear layer and a hyperbolic tangent, which `convert` makes one layer.

    Args:
        linear: an `nn.Linear`.
        tanh: an `nn.Tanh`.

    Shapes: those of the layers one after the other.

    Errors: AssertionError for other layers.

    >>> layer = torch.ao.nn.intrinsic.LinearTanh(nn.Linear(2, 2), nn.Tanh())
    >>> tuple(layer(torch.ones(4, 2)).shape)
    (4, 2)
    """

    _KINDS = (nn.Linear, nn.Tanh)

    def __init__(self, linear: Module, tanh: Module) -> None:
        super().__init__(*self._checked(linear, tanh))


class ConvAdd2d(_FusedModule):
    """Add another tensor to the result of a convolution: ``layer(x1, x2) = add(conv(x1), x2)``.

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
    """Add another tensor to the result of a convolution, and apply a ReLU: ``layer(x1, x2) = relu(add(conv(x1), x2))``.

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
