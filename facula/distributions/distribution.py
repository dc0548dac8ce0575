"""Define the base class of all distributions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Size, Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .utils import broadcast_all, lazy_property

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

__all__ = ["Distribution"]


class Distribution:
    """Represent a distribution, or a batch of independent ones; the base class of all families.

    A sample has the shape ``sample_shape + batch_shape + event_shape``. Parameters are attributes; ``arg_constraints`` names
    them and what they may be, and they have the shape ``batch_shape`` and, for each, dimensions of its own.

    Args:
        batch_shape: the shape of the batch of distributions.
        event_shape: the shape of one value.
        validate_args: if True, check parameters here, and values in log_prob, cdf and icdf; None as `set_default_validate_args`
            says, which is True at first unless Python runs with -O.

    Arguments of methods:
        sample_shape: how many samples are drawn, as a shape.
        value: values, (*sample_shape, *batch_shape, *event_shape), or what broadcasts with this; probabilities for icdf.

    Shapes: a sample is (*sample_shape, *batch_shape, *event_shape); log_prob and entropy give (*batch_shape), with the
    sample_shape of the value before it.

    Errors: ValueError for a parameter or a value that does not meet its constraint, NotImplementedError from what a family
    lacks.

    >>> d = torch.distributions.Normal(torch.tensor([0.0, 10.0]), 1.0)
    >>> d.batch_shape, d.event_shape, d.sample((5,)).shape
    (torch.Size([2]), torch.Size([]), torch.Size([5, 2]))
    >>> d.log_prob(torch.tensor([0.0, 10.0]))
    tensor([-0.9189, -0.9189])
    >>> d.cdf(torch.tensor([0.0, 10.0])), d.icdf(torch.tensor(0.5))
    (tensor([0.5000, 0.5000]), tensor([ 0., 10.]))
    >>> d.entropy(), d.perplexity()
    (tensor([1.4189, 1.4189]), tensor([4.1327, 4.1327]))
    >>> d.expand((3, 2)).rsample().shape
    torch.Size([3, 2])
    >>> torch.distributions.Bernoulli(0.5).enumerate_support()
    tensor([0., 1.])
    """

    arg_constraints: ClassVar[dict[str, Constraint]]
    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args = __debug__
    _parts = ()  # attributes that are distributions of the same batch
    _kept = ()  # attributes that expand does not change

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check their arguments where their constructor is not told.

        Args:
            value: True or False.

        Errors: ValueError for anything else.

        >>> torch.distributions.Distribution.set_default_validate_args(False)
        >>> torch.distributions.Normal(0.0, -1.0).scale
        tensor(-1.)
        >>> torch.distributions.Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] | tuple[Any, ...] = (),
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()  # of a class beside this one

    def _set_parameters(self, validate_args, **parameters):
        """Construct a distribution of a family whose values and parameters are single numbers."""
        tensors = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, tensors, strict=True))
        Distribution.__init__(self, tensors[0].size(), validate_args=validate_args)

    def _check_parameters(self):
        try:
            checks = self.arg_constraints
        except NotImplementedError:
            checks = {}
            warnings.warn(
                f"{type(self).__name__} has no arg_constraints: its parameters are not checked (validate_args=False "
                "silences this)",
                stacklevel=3,
            )
        for name, constraint in checks.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # it follows from another parameter
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"{type(self).__name__}: expected parameter {name} of shape {tuple(value.shape)} to satisfy "
                    f"{constraint!r}, got {value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        """Return the distribution with parameters expanded to a larger batch shape, without copying them.

        A subclass with a constructor of its own overrides this, and passes an object that has its own attributes
        as `_instance`.

        Args:
            batch_shape: the new shape of the batch.
        """
        family = next(c for c in type(self).__mro__ if c.__module__.startswith(__package__))
        new = self._get_checked_instance(family, _instance)
        batch_shape = Size(batch_shape)
        dims = len(self._batch_shape)
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if isinstance(value, facula.Tensor):
                new.__dict__[name] = value.expand(batch_shape + value.shape[dims:])
        for name in self._parts:
            new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        for name in self._kept:
            new.__dict__[name] = self.__dict__[name]
        return self._finish_expanded(new, batch_shape, self._event_shape)

    def _finish_expanded(self, new, batch_shape, event_shape):
        # The parameters were checked when the first one was made.
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls, _instance=None):
        """Return the object that expand fills in: `_instance`, or a new one where no subclass has anything to add."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__ or cls is Distribution:
            raise NotImplementedError(
                f"expand: {type(self).__name__} defines a constructor and must define expand as well"
            )
        return type(self).__new__(type(self))

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Any:
        """Constraints of the parameters by name, in the order of the constructor."""
        raise self._missing("arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that all values satisfy."""
        raise self._missing("support")

    @property
    def mean(self) -> Any:
        """Shape batch_shape + event_shape; where it does not exist, NaN or infinite."""
        raise self._missing("mean")

    @property
    def mode(self) -> Any:
        """A most likely value."""
        raise self._missing("mode")

    @property
    def variance(self) -> Any:
        """Of each element of the event."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw values without a gradient, of shape sample_shape + batch_shape + event_shape."""
        with facula.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw values that are differentiable functions of the parameters; see has_rsample."""
        raise self._missing("rsample")

    def sample_n(self, n: int) -> Any:
        """Return ``sample((n,))``, deprecated: a FutureWarning says so.

        Args:
            n: how many samples.

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     torch.distributions.Normal(0.0, 1.0).sample_n(3).shape
        torch.Size([3])
        """
        warnings.warn("sample_n is deprecated: use sample((n,))", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Any:
        """Return the logarithm of the density or probability of `value`, of the shape without the event's dimensions."""
        raise self._missing("log_prob")

    def cdf(self, value: Tensor) -> Any:
        """Return the probability of values up to `value`."""
        raise self._missing("cdf")

    def icdf(self, value: Tensor) -> Any:
        """Return the value up to which the probability is `value`."""
        raise self._missing("icdf")

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all values in the first dimension, of size 1 in the batch dimensions unless `expand`.

        Args:
            expand: whether the batch dimensions have their sizes rather than 1.
        """
        raise self._missing("enumerate_support")

    def entropy(self) -> Any:
        """Return the entropy in nats, of shape batch_shape."""
        raise self._missing("entropy")

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return facula.exp(self.entropy())

    def _missing(self, name):
        return NotImplementedError(f"{type(self).__name__}.{name}")

    def _extended_shape(self, sample_shape=()):
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        return Size(sample_shape + self._batch_shape + self._event_shape)

    def _validate_sample(self, value):
        """Check type, shape and support of a value that log_prob, cdf or icdf was given.

        Raises:
            ValueError: with what is wrong.
        """
        where = type(self).__name__
        if not isinstance(value, facula.Tensor):
            raise ValueError(f"{where}: a value must be a tensor, got {type(value).__name__}")
        batch, event = self._batch_shape, self._event_shape
        first = value.dim() - len(event)
        if first < 0 or value.shape[first:] != event:
            raise ValueError(f"{where}: expected a value of shape (..., *{tuple(event)}), got {tuple(value.shape)}")
        for given, own in zip(reversed(value.shape[:first]), reversed(batch), strict=False):
            if given != own and given != 1 and own != 1:
                raise ValueError(
                    f"{where}: a value must broadcast with batch shape {tuple(batch)} and event shape {tuple(event)}, "
                    f"got shape {tuple(value.shape)}"
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{where} has no support: values are not checked (validate_args=False silences this)", stacklevel=3)
            return
        if not support.check(value).all():
            raise ValueError(f"{where}: expected a value of shape {tuple(value.shape)} within {support!r}, got {value}")

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if value is not None:
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"
