"""Words for what shares a scale, and what an observer of such parts is made with; other libraries build on them."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from facula.nn import Module

from ._arguments import with_args

if TYPE_CHECKING:
    from typing import Any

    import facula
    from facula import Tensor


class MappingType(enum.Enum):
    """How values are mapped to levels: zero in the middle, the same without clipping either side, or zero where it falls.

    >>> from torch.ao.quantization import MappingType
    >>> MappingType.SYMMETRIC.name
    'SYMMETRIC'
    """

    SYMMETRIC = enum.auto()
    SYMMETRIC_NO_CLIPPING_ERR = enum.auto()
    ASYMMETRIC = enum.auto()


class ZeroPointDomain(enum.Enum):
    """What a zero point is: a level, a value, or nothing.

    >>> from torch.ao.quantization import ZeroPointDomain
    >>> [domain.name for domain in ZeroPointDomain]
    ['INT', 'FLOAT', 'NONE']
    """

    INT = enum.auto()
    FLOAT = enum.auto()
    NONE = enum.auto()


class TorchAODType(enum.Enum):
    """Integers of one to seven bits, for which there are no dtypes.

    >>> from torch.ao.quantization import TorchAODType
    >>> TorchAODType.INT4.name
    'INT4'
    """

    INT1 = enum.auto()
    INT2 = enum.auto()
    INT3 = enum.auto()
    INT4 = enum.auto()
    INT5 = enum.auto()
    INT6 = enum.auto()
    INT7 = enum.auto()


@dataclass(frozen=True)
class Granularity:
    """What shares a scale.

    >>> from torch.ao.quantization import Granularity, PerTensor
    >>> isinstance(PerTensor(), Granularity)
    True
    """


@dataclass(frozen=True)
class PerBlock(Granularity):
    """Every block of `block_size` does.

    >>> from torch.ao.quantization.observer import PerBlock, get_block_size
    >>> get_block_size((4, 6), PerBlock((2, 3)))
    (2, 3)
    """

    block_size: tuple[int, ...]


@dataclass(frozen=True)
class PerTensor(Granularity):
    """The whole tensor does.

    >>> from torch.ao.quantization.observer import PerTensor, get_block_size
    >>> get_block_size((4, 6), PerTensor())
    (4, 6)
    """


@dataclass(frozen=True)
class PerAxis(Granularity):
    """What has the same index along the dimension `axis` does.

    >>> from torch.ao.quantization.observer import PerAxis, get_block_size
    >>> get_block_size((4, 6), PerAxis(axis=1))
    (4, 1)
    """

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """Every `group_size` neighbours along the last dimension do.

    >>> from torch.ao.quantization.observer import PerGroup, get_block_size
    >>> get_block_size((4, 6), PerGroup(group_size=2))
    (1, 2)
    """

    group_size: int


class PerRow(Granularity):
    """Every row along the last dimension does.

    >>> from torch.ao.quantization.observer import PerRow, get_block_size
    >>> get_block_size((4, 6), PerRow())
    (1, 6)
    """


class PerToken(Granularity):
    """Every row along the last dimension does, with scales found for each input.

    >>> from torch.ao.quantization.observer import PerToken, get_block_size
    >>> get_block_size((2, 4, 6), PerToken())
    (1, 1, 6)
    """


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """The shape of the parts of a tensor that share a scale.

    Args:
        input_shape: of the tensor.
        granularity: one of the classes here.

    Errors: AssertionError for no granularity, a group that does not divide the row; ValueError for classes of one's own.

    Example::

        >>> from torch.ao.quantization.observer import PerAxis, get_block_size
        >>> get_block_size((4, 6), PerAxis(0))
        (1, 6)
    """
    if not isinstance(granularity, Granularity):
        raise AssertionError(f"get_block_size: Please provide an instance of Granularity, got {granularity}")
    if isinstance(granularity, PerTensor):
        return input_shape
    if isinstance(granularity, PerBlock):
        return granularity.block_size
    if isinstance(granularity, PerAxis):
        axis = granularity.axis % len(input_shape)
        return tuple(1 if i == axis else n for i, n in enumerate(input_shape))
    ones = (1,) * (len(input_shape) - 1)
    if isinstance(granularity, (PerRow, PerToken)):
        return (*ones, input_shape[-1])
    if isinstance(granularity, PerGroup):
        if len(input_shape) != 2 or input_shape[-1] % granularity.group_size:
            raise AssertionError(
                f"get_block_size: expected two dimensions, the last a multiple of {granularity.group_size}, got {input_shape}"
            )
        return (1, granularity.group_size)
    raise ValueError(f"get_block_size: Unsupported Granularity: {granularity}")


class AffineQuantizedObserverBase(ABC, Module):
    """What observers share that others write for parts of tensors: it keeps their arguments.

    Args:
        mapping_type: a `MappingType`.
        target_dtype: of the quantised tensor.
        granularity: a `Granularity`.
        quant_min, quant_max: the levels.
        eps: the least scale.
        scale_dtype, zero_point_dtype: of the scales and zero points.
        preserve_zero: whether zero is a level.
        zero_point_domain: a `ZeroPointDomain`.
        kwargs: ignored, for subclasses.

    Errors: AssertionError for no granularity.

    >>> from torch.ao.quantization.observer import AffineQuantizedObserverBase, MappingType, PerTensor
    >>> class Largest(AffineQuantizedObserverBase):
    ...     def forward(self, x):
    ...         self.seen = x.abs().max()
    ...         return x
    ...     def calculate_qparams(self):
    ...         return self.seen / self.quant_max, torch.tensor(0)
    >>> observer = Largest(MappingType.SYMMETRIC, torch.int8, PerTensor(), quant_min=-127, quant_max=127)
    >>> _ = observer(torch.tensor([-254.0, 1.0]))
    >>> observer.calculate_qparams()
    (tensor(2.), tensor(0))
    """

    with_args: Any = classmethod(with_args)

    def __init__(self, mapping_type: MappingType, target_dtype: facula.dtype, granularity: Granularity,
                 quant_min: int | None = None, quant_max: int | None = None, eps: float | None = None, scale_dtype: Any = None,
                 zero_point_dtype: Any = None, preserve_zero: bool = True,
                 zero_point_domain: ZeroPointDomain = ZeroPointDomain.INT, **kwargs: Any) -> None:  # fmt: skip
        super().__init__()
        for name, value in (("granularity", granularity), ("zero_point_domain", zero_point_domain)):
            if value is None:
                raise AssertionError(f"{type(self).__name__}: {name} is None, got {kwargs}")
        self.mapping_type = mapping_type
        self.target_dtype = target_dtype
        self.granularity = granularity
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.eps = eps
        self.scale_dtype = scale_dtype
        self.zero_point_dtype = zero_point_dtype
        self.preserve_zero = preserve_zero
        self.zero_point_domain = zero_point_domain
        self.block_size: Any = None

    @abstractmethod
    def forward(self, input: Tensor) -> Any:
        """Looks at the tensor and returns it."""
        raise NotImplementedError(f"{type(self).__name__}.forward: a subclass says it, got {input.shape}")

    @abstractmethod
    def calculate_qparams(self) -> Any:
        """(scale, zero point) for what was seen."""
        raise NotImplementedError(f"{type(self).__name__}.calculate_qparams: a subclass says it, got {self}")

    def convert(self, model: Module, observer_node: Any) -> Any:
        """Graphs are not converted.

        Args:
            model, observer_node: not looked at.

        Errors: NotImplementedError always.

        >>> from torch.ao.quantization.observer import AffineQuantizedObserverBase, MappingType, PerTensor
        >>> class Blind(AffineQuantizedObserverBase):
        ...     def forward(self, x):
        ...         return x
        ...     def calculate_qparams(self):
        ...         return torch.tensor(1.0), torch.tensor(0)
        >>> Blind(MappingType.SYMMETRIC, torch.int8, PerTensor()).convert(None, "x")
        Traceback (most recent call last):
            ...
        NotImplementedError: Blind.convert: graphs (pt2e) are not supported, got NoneType, x
        """
        raise NotImplementedError(
            f"{type(self).__name__}.convert: graphs (pt2e) are not supported, got {type(model).__name__}, {observer_node}"
        )
