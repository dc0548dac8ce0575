"""Map constraints to transforms from all real numbers to the values that a constraint allows.

`biject_to(constraint)` is bijective, for densities; `transform_to(constraint)` need not be, and is preferable for
parameters under an optimizer. `register` adds a program's own constraints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.distributions.constraints import Constraint

from . import constraints, transforms

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Map constraints to transforms by the class of the constraint; called with a constraint, it returns the transform.

    Errors: NotImplementedError, when called, for a constraint without a transform.

    >>> from torch.distributions import biject_to, constraints
    >>> biject_to(constraints.positive)(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    def __init__(self):
        self._registry = {}
        super().__init__()

    def register(self, constraint: Constraint | type, factory: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Note which transform leads to the values of a constraint.

        Args:
            constraint: a constraint, of which the class counts, or its class.
            factory: a function from a constraint of that class to a transform; without it, a decorator of such a function is
                returned.

        Errors: TypeError for what is no constraint.

        >>> from torch.distributions import ExpTransform, constraints, transform_to
        >>> class Rate(constraints.Constraint):
        ...     def check(self, value):
        ...         return value > 0
        >>> _ = transform_to.register(Rate, lambda constraint: ExpTransform())
        >>> transform_to(Rate())(torch.tensor(0.0))
        tensor(1.)
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(f"register: expected a constraint or its class, got {constraint!r}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Any:
        """Return the transform for a constraint.

        Raises:
            NotImplementedError: none is known.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"transform_to: no transform is registered for {type(constraint).__name__}")
        return factory(constraint)


biject_to: ConstraintRegistry = ConstraintRegistry()
transform_to: ConstraintRegistry = ConstraintRegistry()
_BOTH = (biject_to, transform_to)


def _to_interval(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    sigmoid = transforms.SigmoidTransform()
    if not hasattr(low, "shape") and not hasattr(high, "shape") and (low, high) == (0, 1):
        return sigmoid
    return transforms.ComposeTransform([sigmoid, transforms.AffineTransform(loc=low, scale=high - low)])


def _after_exp(loc, scale):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(loc, scale)])


def _to_greater(constraint):
    return _after_exp(constraint.lower_bound, 1)


_FACTORIES = {
    constraints._Real: lambda c: transforms.identity_transform,
    constraints._GreaterThan: _to_greater,
    constraints._GreaterThanEq: _to_greater,
    constraints._LessThan: lambda c: _after_exp(c.upper_bound, -1),
    constraints._Interval: _to_interval,
    constraints._HalfOpenInterval: _to_interval,
    constraints._CorrCholesky: lambda c: transforms.CorrCholeskyTransform(),
}
for _kind, _factory in _FACTORIES.items():
    for _registry in _BOTH:
        _registry.register(_kind, _factory)

biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_semidefinite, constraints.positive_definite):
    transform_to.register(_kind, lambda c: transforms.PositiveDefiniteTransform())


def _register_compound(registry):
    """Register constraints made of others: transforms made of the others' transforms."""

    @registry.register(constraints.independent)
    def _independent(constraint):
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def _cat(constraint):
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _stack(constraint):
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


for _registry in _BOTH:
    _register_compound(_registry)
