"""Define `Function`, the base of operations whose derivative is written by hand.

    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad):
            (result,) = ctx.saved_tensors
            return grad * result

    y = Exp.apply(x)

The C++ half, src/python/function.cpp, runs forward, records a node and calls backward.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import TYPE_CHECKING, Any

from .. import _C

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "FunctionCtx", "BackwardCFunction", "FunctionMeta", "Function", "once_differentiable", "InplaceFunction",
    "NestedIOFunction",
]  # fmt: skip

Tensor = _C.Tensor


class FunctionCtx:
    """Carry values and settings from `forward` and `setup_context` to `backward`.

    `needs_input_grad` has a bool per argument of forward: in forward, whether it requires a gradient; in backward,
    whether the pass that runs needs its gradient, which for ``grad(loss, x)`` is True only on the way to x.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         print(ctx.needs_input_grad)
    ...         return 2 * x
    >>> y = Double.apply(torch.ones(1, requires_grad=True))
    (True,)
    """

    to_save = None
    dirty_tensors = None
    non_differentiable = None
    materialize_grads = True
    _materialize_non_diff_grads = True
    saved_for_forward = None
    needs_input_grad: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep inputs and outputs of forward for backward, where ``saved_tensors`` gives them back.

        Other tensors may be kept so, too.

        Args:
            tensors: tensors or None.

        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * grad
        >>> x = torch.tensor(3., requires_grad=True)
        >>> Square.apply(x).backward()
        >>> x.grad
        tensor(6.)
        """
        self.to_save: Any = tensors

    def save_for_forward(self, *tensors: Tensor) -> None:
        """Keep tensors for jvp, where ``saved_tensors`` gives them back.

        Args:
            tensors: tensors or None.

        Errors: TypeError for anything else.

        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_forward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def jvp(ctx, tangent):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * tangent
        >>> fwAD = torch.autograd.forward_ad
        >>> with fwAD.dual_level():
        ...     y = Square.apply(fwAD.make_dual(torch.tensor(3.), torch.tensor(1.)))
        ...     fwAD.unpack_dual(y).tangent
        tensor(6.)
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_forward: expected Tensors or None, got {type(tensor).__name__}")
        self.saved_for_forward: Any = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs forward changed in place; each must be returned.

        Args:
            args: the inputs.

        >>> class AddOne(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.mark_dirty(x)
        ...         return x.add_(1)
        >>> AddOne.apply(torch.zeros(2))
        tensor([1., 1.])
        """
        self.dirty_tensors: Any = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no gradient.

        Args:
            args: the outputs.

        >>> class SortWithPlaces(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         values, places = x.sort()
        ...         ctx.mark_non_differentiable(places)
        ...         return values, places
        >>> values, places = SortWithPlaces.apply(torch.tensor([2., 1.], requires_grad=True))
        >>> values.requires_grad, places.requires_grad
        (True, False)
        """
        self.non_differentiable: Any = args

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether backward gets zeros (the default) or None for outputs without gradient.

        Args:
            value: False for None.

        >>> class Both(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.set_materialize_grads(False)
        ...         return x + 1, x + 2
        ...     @staticmethod
        ...     def backward(ctx, first, second):
        ...         return first if second is None else second
        >>> x = torch.ones(1, requires_grad=True)
        >>> Both.apply(x)[0].backward()
        >>> x.grad
        tensor([1.])
        """
        self.materialize_grads: bool = value


class BackwardCFunction(_C._FunctionBase, FunctionCtx):
    """Hold the context of one call of a Function together with the node of the graph that belongs to it.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    >>> y = Double.apply(torch.ones(1, requires_grad=True))
    >>> isinstance(y.grad_fn, torch.autograd.function.BackwardCFunction), y.grad_fn.name()
    (True, 'DoubleBackward')
    """

    _is_legacy = False

    def apply(self, *args: Any) -> Any:
        """Call the backward (or vjp) of the Function with this context and the gradients `args` of its results.

        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> y = Double.apply(torch.ones(1, requires_grad=True))
        >>> y.grad_fn.apply(torch.ones(1))
        tensor([2.])
        """
        return self._forward_cls._backward(self, *args)


def _placeholder(name, text, meaning):
    def missing(ctx: Any, *args: Any) -> Any:
        raise NotImplementedError(text)

    missing.__name__ = name
    missing.__doc__ = f"""{meaning} A subclass defines it; here it raises NotImplementedError.

    Args:
        ctx: the context of the call, a FunctionCtx.
        args: what the call was given, or what stands for each of it.
    """
    missing._is_missing = True
    return staticmethod(missing)


class FunctionMeta(type):
    """Create a class of contexts for every subclass of Function; it is the class of those classes.

    Args:
        name, bases, attributes: of the class, as `type` takes them.

    >>> isinstance(torch.autograd.Function, torch.autograd.function.FunctionMeta)
    True
    """

    def __init__(cls, name: str, bases: Sequence[type], attributes: dict[str, Any]) -> None:
        super().__init__(name, bases, attributes)
        cls._backward_cls = type(
            name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__module__": cls.__module__}
        )
        cls._has_setup_context = not getattr(cls.setup_context, "_is_missing", False)
        # inputs of setup_context are all arguments of forward
        cls._has_defaults = cls._has_setup_context and any(
            p.default is not p.empty for p in inspect.signature(cls.forward).parameters.values()
        )
        cls._has_jvp = not getattr(cls.jvp, "_is_missing", False)
        cls._has_vmap = not getattr(cls.vmap, "_is_missing", False)

    @property
    def _backward(cls):
        backward_missing = getattr(cls.backward, "_is_missing", False)
        vjp_missing = getattr(cls.vjp, "_is_missing", False)
        if not backward_missing and not vjp_missing:
            raise RuntimeError(
                f"{cls.__name__}: backward and vjp are the same function, implement one of them, got both"
            )
        return cls.vjp if backward_missing and not vjp_missing else cls.backward


class _FunctionMeta(FunctionMeta, type(_C._FunctionBase)):
    pass


class Function(_C._FunctionBase, FunctionCtx, metaclass=_FunctionMeta):
    """Define an operation with a derivative written by hand; use ``MyFunction.apply(*args)``.

    A subclass has static methods: either ``forward(ctx, *args)``, or ``forward(*args)`` and
    ``setup_context(ctx, inputs, output)``. ``backward(ctx, *grad_outputs)`` (or vjp) gives one gradient (or None) per argument
    of forward. ``jvp(ctx, *tangents)`` serves forward mode, ``vmap(info, in_dims, *args)`` (or ``generate_vmap_rule = True``)
    vmap.

    Args:
        args, kwargs: of an instance, which is of no use: a DeprecationWarning.

    Errors: RuntimeError for calling an instance, NotImplementedError for a method that is needed and missing.

    >>> class Exp(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         result = x.exp()
    ...         ctx.save_for_backward(result)
    ...         return result
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (result,) = ctx.saved_tensors
    ...         return grad * result
    >>> x = torch.zeros(2, requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(x):
    ...         return 2 * x
    ...     @staticmethod
    ...     def setup_context(ctx, inputs, output):
    ...         pass
    ...     @staticmethod
    ...     def vjp(ctx, grad):
    ...         return 2 * grad
    ...     @staticmethod
    ...     def jvp(ctx, tangent):
    ...         return 2 * tangent
    ...     @staticmethod
    ...     def vmap(info, in_dims, x):
    ...         return 2 * x, in_dims[0]
    >>> torch.func.jvp(Double.apply, (torch.ones(1),), (torch.ones(1),))
    (tensor([2.]), tensor([2.]))
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        text = f"{type(self).__name__}: a Function should not be instantiated, call its apply(...), got {args} and {kwargs}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{type(self).__name__}: Functions with methods that are not static are no longer supported, call "
            f"{type(self).__name__}.apply(...)"
        )

    forward: Any = _placeholder(
        "forward",
        "Function: implement the static method forward to use the class",
        "Compute the results from the arguments of `apply`; without recording what it calls.",
    )
    setup_context: Any = _placeholder(
        "setup_context",
        "Function: setup_context is not implemented",
        "Keep in `ctx` what backward needs, given the arguments of forward (inputs) and its results (output).",
    )
    backward: Any = _placeholder(
        "backward",
        "Function: implement the static method backward (or vjp) to differentiate it",
        "Return the gradient of each argument of forward, or None, from the gradients of its results.",
    )
    vjp: Any = _placeholder(
        "vjp",
        "Function: implement the static method backward (or vjp) to differentiate it",
        "Do what backward does, of which this is another name: return gradients of arguments from those of results.",
    )
    jvp: Any = _placeholder(
        "jvp", "Function: implement the static method jvp to use it in forward mode",
        "Return the tangents of results from those of the arguments of forward, which are None where there is none.",
    )
    vmap: Any = _placeholder(
        "vmap", "Function: implement the static method vmap, or set generate_vmap_rule, to use it within vmap",
        "Return (results, the dimensions of batches in them), from (info, the dimensions of batches in arguments, *arguments).",
    )


class InplaceFunction(Function):
    """Extend Function with an ``inplace`` flag, for old code.

    Args:
        inplace: the flag.

    >>> issubclass(torch.autograd.function.InplaceFunction, torch.autograd.Function)
    True
    """

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward that cannot be differentiated again.

    Args:
        fn: the static method backward.

    Errors: RuntimeError for a derivative of its results.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @torch.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.autograd.grad(Double.apply(x), x)
    (tensor([2.]),)
    """

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with _no_grad():
            outputs = fn(ctx, *args)
        if not _C.is_grad_enabled():
            return outputs
        # Without such an argument the result has no derivative that could be wrong.
        requires_grad = any(isinstance(a, Tensor) and a.requires_grad for a in args)
        if not requires_grad:
            return outputs
        single = not isinstance(outputs, tuple)
        items = (outputs,) if single else outputs
        blocked = tuple(
            _OnceDifferentiable.apply(o.detach().requires_grad_()) if _is_differentiable(o) else o for o in items
        )
        return blocked[0] if single else blocked

    return wrapper


def _no_grad():
    from .grad_mode import no_grad

    return no_grad()


def _is_differentiable(value):
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


class _OnceDifferentiable(Function):
    """Return the input unchanged, and report an error when the program differentiates a second time."""

    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError(
            "once_differentiable: trying to differentiate twice a function that was marked with @once_differentiable"
        )


def _in_order(cls, args, kwargs):
    """Return the arguments of forward as a tuple, those given by name in their places."""
    signature = inspect.signature(cls.forward)
    context = () if cls._has_setup_context else (None,)
    try:
        bound = signature.bind(*context, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.apply: {error}") from None
    if cls._has_setup_context:
        bound.apply_defaults()
        return bound.args
    names = list(signature.parameters)[1:]
    missing = [name for name in names[: len(args) + len(kwargs)] if name not in bound.arguments]
    if missing or len(bound.args) != len(args) + len(kwargs) + 1:
        raise TypeError(
            f"{cls.__name__}.apply: arguments given by name must leave no gap, missing {', '.join(missing) or 'none'}, "
            f"got {', '.join(kwargs)}"
        )
    return bound.args[1:]


def _apply_special(cls, args):
    """Make a call with vmap wrappers or forward-mode inputs among its arguments."""
    if any(hasattr(a, "_vmap_level") for a in args):
        from ..func import _vmap

        return _vmap.apply_function(cls, args)
    if cls._has_jvp and any(_C._is_dual(a) for a in args):
        from . import _custom_jvp, forward_ad

        if forward_ad.tangents_are_known():
            return _custom_jvp.apply(cls, args)
    return cls._apply_plain(*args)


class NestedIOFunction(Function):
    """Extend Function to nested lists and tuples of tensors, for old code. A subclass has instance methods
    ``forward_extended(*args)`` and ``backward_extended(*grads)``.

    Args:
        args, kwargs: none are taken: like any Function it is not instantiated.

    >>> issubclass(torch.autograd.NestedIOFunction, torch.autograd.Function)
    True
    """

    @classmethod
    def apply(cls, *args: Any) -> Any:
        raise NotImplementedError(
            "NestedIOFunction: instance-style functions are not supported, write a Function with static methods"
        )
