"""Compare derivatives with finite differences."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, NamedTuple

from .. import _C
from . import _finite_differences as parts
from ._finite_differences import get_analytical_jacobian as get_analytical_jacobian
from ._finite_differences import get_numerical_jacobian as get_numerical_jacobian
from ._run import grad as _grad
from .function import Function
from .grad_mode import enable_grad

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]

Tensor = _C.Tensor


class GradcheckError(RuntimeError):
    """Report a derivative that differs from finite differences; gradcheck raises it.

    >>> import sys
    >>> issubclass(sys.modules[torch.autograd.gradgradcheck.__module__].GradcheckError, RuntimeError)
    True
    """


class _Options(NamedTuple):
    """Hold what is compared, and the tolerances."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    fast: bool
    forward: bool
    backward: bool
    dtypes: bool


def _differentiable_inputs(inputs):
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def _draw(size, like):
    """Return a direction in which every component counts, the same in each run."""
    generator = _C.Generator()
    generator.manual_seed(1729)
    # At least 0.5, so that an error in any component shows in the product with the direction.
    vector = 0.5 + _C.rand(size, dtype=_C.float64, generator=generator)
    return (vector / vector.norm()).to(parts.real_dtype(like)).to(like.device)


def _directions(size, like, fast):
    if not size:
        return []
    return [_draw(size, like)] if fast else list(parts.units(size, like))


def _compare(found, expected, options, kind, place, scale=1.0):
    expected = expected.to(found.dtype)
    if not found.numel() or parts.close(found, expected, options.rtol, options.atol * scale):
        return
    worst = (found - expected).abs().max().item()
    what = "products with one direction" if options.fast else "matrices"
    raise GradcheckError(
        f"gradcheck: Jacobian mismatch for output {place[1]} with respect to input {place[0]} ({kind}), largest difference "
        f"{worst:.3g} of {what}\nnumerical:\n{expected.tolist()}\nanalytical:\n{found.tolist()}"
    )


def _pull(output, varied, cotangent, options, place):
    """Return the components of a product by backward mode, which must be the same when it is asked for again."""
    gradient = parts.pulled(output, varied.x, cotangent)
    if options.dtypes and gradient is not None and gradient.dtype != varied.x.dtype:
        raise GradcheckError(
            f"gradcheck: the gradient of input {place[0]} must have dtype {varied.x.dtype}, got {gradient.dtype}"
        )
    row = varied.row(gradient)
    # A second time, which finds backward passes that are not deterministic.
    again = varied.row(parts.pulled(output, varied.x, cotangent))
    if row.numel() and not parts.close(again, row, 0.0, options.nondet_tol):
        raise GradcheckError(
            f"gradcheck: backward must give the same gradient each time (nondet_tol {options.nondet_tol}), got a largest "
            f"difference of {(again - row).abs().max().item():.3g} for output {place[1]} and input {place[0]}"
        )
    return row


def _compare_backward(outputs, varied, directions, numerical, options, index):
    for k, output in enumerate(outputs):
        if not output.requires_grad:
            continue  # declared to have no derivative, such as statistics and indices
        vectors = _directions(parts.count(output), output, options.fast)
        rows = [_pull(output, varied, parts.shaped(v, output.detach()), options, (index, k)) for v in vectors]
        if not rows or not directions:
            continue
        if options.fast:
            (u,), (v,) = directions, vectors
            # The tolerance is meant for one entry of the matrix, and the product is a weighted sum of all of them.
            scale = (u.sum() * v.sum()).item()
            found, expected = (u.to(rows[0].dtype) @ rows[0]).reshape(1), (numerical[0][k] @ v).reshape(1)
            _compare(found, expected, options, "backward mode", (index, k), scale)
        else:
            _compare(_C.stack(rows, 1), _C.stack([row[k] for row in numerical]), options, "backward mode", (index, k))


def _compare_forward(func, inputs, outputs, varied, directions, numerical, options, index):
    for direction, row in zip(directions, numerical):
        found = parts.tangents(func, inputs, varied, direction)
        for k, (tangent, output) in enumerate(zip(found, outputs)):
            if output.requires_grad:
                tangent = _C.zeros_like(output.detach()) if tangent is None else tangent
                scale = direction.sum().item() if options.fast else 1.0
                _compare(parts.components(tangent), row[k], options, "forward mode", (index, k), scale)


def _check_precision(checked):
    import warnings

    if not checked:
        raise ValueError(
            "gradcheck: some input must be a tensor with requires_grad=True, got none"
        )
    for i, x in enumerate(checked):
        if x.dtype not in (_C.float64, _C.complex128):
            warnings.warn(
                f"gradcheck: input {i} requires gradient and is not of double precision, got {x.dtype}", stacklevel=4
            )
        strided = x.layout == _C.strided
        if strided and x.numel() and any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
            raise RuntimeError(
                f"gradcheck: input {i} has a dimension with stride 0 (call contiguous() first), got strides "
                f"{x.stride()}"
            )


def _refuse_sparse(outputs):
    for k, output in enumerate(outputs):
        if output.requires_grad and output.layout != _C.strided:
            raise ValueError(
                f"gradcheck: outputs must be dense (call to_dense() last), got output {k} of layout {output.layout}"
            )


def _check_constant(numerical, options, index):
    """Check that outputs none of which requires a gradient do not depend on the inputs."""
    for row in numerical:
        for k, column in enumerate(row):
            if column.numel() and column.abs().max().item() > options.atol:
                raise GradcheckError(
                    f"gradcheck: no output requires a gradient, so differences must be zero, got {column.tolist()} for output "
                    f"{k} by input {index}"
                )


def _check_derivatives(func, inputs, options, varied):
    """Compare each mode with finite differences; return whether any output has a derivative."""
    results = []
    with enable_grad():
        # finite differences write to the inputs, so what is recorded for backward comes after them
        for one in varied:
            directions = _directions(one.size, one.x, options.fast)
            results.append((directions, [parts.difference(func, one, u, options.eps) for u in directions]))
        outputs = parts.as_outputs(func(*inputs))
        has_derivative = any(o.requires_grad for o in outputs)
        for index, (one, (directions, numerical)) in enumerate(zip(varied, results)):
            if not has_derivative:
                _check_constant(numerical, options, index)
                continue
            if options.backward:
                _compare_backward(outputs, one, directions, numerical, options, index)
            if options.forward:
                _compare_forward(func, inputs, outputs, one, directions, numerical, options, index)
    return has_derivative


def _check_same_tangents(results, text):
    for k, (one, other) in enumerate(zip(*results)):
        for a, b in ((one, other), (other, one)):
            if a is None and b is not None and not parts.close(_C.zeros_like(b), b, 0.0, 0.0):
                raise GradcheckError(f"gradcheck: {text}, got none and {b.tolist()} for output {k}")
        if one is not None and other is not None and not parts.close(one.detach(), other.detach(), 1e-5, 1e-8):
            raise GradcheckError(f"gradcheck: {text}, got {one.tolist()} and {other.tolist()} for output {k}")


def _check_undefined_forward(func, inputs, varied):
    """Check that arguments without a tangent count as those whose tangent is zero."""
    for one in varied:
        direction = _draw(one.size, one.x) if one.size else _C.zeros(0, dtype=parts.real_dtype(one.x))
        results = [parts.tangents(func, inputs, one, direction)]
        if len(varied) > 1:
            results.append(parts.tangents(func, inputs, one, direction, _C.zeros_like))
            _check_same_tangents(results, "forward mode must take an argument without a tangent as one with zeros")


def _check_batched_forward(func, inputs, varied):
    """Check that a batch of tangents gives what each of them gives."""
    from ..func import vmap

    for one in varied:
        if not one.size:
            continue
        directions = _C.stack([_draw(one.size, one.x), 2 * _draw(one.size, one.x)])
        alone = [parts.tangents(func, inputs, one, u) for u in directions.unbind(0)]
        kept = [k for k, tangent in enumerate(alone[0]) if tangent is not None]

        def batched(u, one=one, kept=kept):
            found = parts.tangents(func, inputs, one, u)
            return tuple(found[k] for k in kept)

        try:
            together = vmap(batched)(directions)
        except RuntimeError as error:
            raise GradcheckError(f"gradcheck: tangents must be computed in a batch as well, got {error}") from error
        for number, single in enumerate(alone):
            pair = [single[k] for k in kept], [t[number] for t in together]
            _check_same_tangents(pair, "a batch of tangents must give what each tangent gives")


def _check_batched(func, inputs):
    """Check that gradients of a batch of cotangents are those of each."""
    xs = _differentiable_inputs(inputs)
    for output in parts.as_outputs(func(*inputs)):
        if not output.requires_grad or output.numel() == 0:
            continue
        seeds = _C.stack([_C.ones_like(output.detach()), 2 * _C.ones_like(output.detach())])
        try:
            together = _grad([output], xs, [seeds], retain_graph=True, allow_unused=True, is_grads_batched=True)
        except RuntimeError as error:
            raise GradcheckError(f"gradcheck: gradients must be computed in a batch as well, got {error}") from error
        for k, seed in enumerate(seeds.unbind(0)):
            alone = _grad([output], xs, [seed], retain_graph=True, allow_unused=True)
            for i, (a, b) in enumerate(zip(together, alone)):
                if (a is None) != (b is None) or a is not None and not parts.close(a[k], b, 1e-5, 1e-8):
                    raise GradcheckError(f"gradcheck: batched gradients of input {i} differ from those of each cotangent")


def _check_form(gradient, x, index):
    """Check that a gradient is a tensor of the kind of its input."""
    if gradient.layout != _C.strided and gradient.layout != x.layout:
        raise GradcheckError(
            f"gradcheck: the gradient of input {index} must be dense or of its layout {x.layout}, got {gradient.layout}"
        )
    if gradient.layout == _C.sparse_coo:
        expected, found = [(t.sparse_dim(), t.dense_dim()) for t in (x, gradient)]
        if expected != found:
            raise GradcheckError(
                f"gradcheck: the gradient of input {index} must have {expected} sparse and dense dimensions, got {found}"
            )
    for what in ("shape", "dtype", "device"):
        expected, found = getattr(x, what), getattr(gradient, what)
        if expected != found:
            raise GradcheckError(f"gradcheck: the gradient of input {index} must have {what} {expected}, got {found}")


def _check_linear(func, inputs):
    """Check that cotangents of zero give gradients of zero."""
    xs = _differentiable_inputs(inputs)
    outputs = [o for o in parts.as_outputs(func(*inputs)) if o.requires_grad]
    if not outputs:
        return
    zeros = [_C.zeros_like(o.detach()) for o in outputs]
    # A backward that is not linear in the gradients of its outputs, such as one that ignores them, gives other numbers.
    for i, (gradient, x) in enumerate(zip(_grad(outputs, xs, zeros, True, allow_unused=True), xs)):
        if gradient is None:
            continue
        _check_form(gradient, x, i)
        row = parts.components(gradient)
        if row.numel() and bool((row != 0).any()):
            raise GradcheckError(
                f"gradcheck: backward must multiply by the gradients of its outputs, got {row.tolist()} for input {i} from "
                "zeros"
            )


class _WithoutGradient(Function):
    """Return the input unchanged, and pass no gradient on."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return None


def _check_undefined(func, inputs):
    """Check that backward copes with outputs that have no gradient."""
    outputs = [o for o in parts.as_outputs(func(*inputs)) if o.requires_grad]
    xs = _differentiable_inputs(inputs)
    choices = [range(len(outputs))] if len(outputs) < 2 else [range(len(outputs)), *([k] for k in range(len(outputs)))]
    for without in choices:
        roots = [_WithoutGradient.apply(o) if k in without else o for k, o in enumerate(outputs)]
        seeds = [_C.zeros_like(o.detach()) for o in outputs]
        try:
            found = _grad(roots, xs, seeds, retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError(
                f"gradcheck: backward must cope with outputs that have no gradient (check_undefined_grad), got {error}"
            ) from error
        for i, gradient in enumerate(found):
            if gradient is not None and bool((parts.components(gradient) != 0).any()):
                raise GradcheckError(
                    f"gradcheck: without gradients of outputs {list(without)} the gradient of input {i} must be zero, got "
                    f"{gradient.tolist()}"
                )


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Return whether derivatives of `func` agree with central differences.

    Args:
        func: a function of tensors that gives a tensor or several.
        inputs: a tensor or a sequence of arguments; those that require gradients are checked, and should be float64 or
            complex128.
        eps: the width of the differences.
        atol, rtol: how much may differ: atol + rtol * |d|.
        raise_exception: whether a difference raises rather than gives False.
        nondet_tol: how much a second backward may give something else than the first.
        check_undefined_grad: whether backward must cope with outputs that have no gradient, and forward mode with arguments
            that have no tangent.
        check_grad_dtypes: whether gradients must have the dtype of their inputs.
        check_batched_grad: whether a batch of gradients at once must give what each gives.
        check_batched_forward_grad: the same for tangents.
        check_forward_ad, check_backward_ad: which modes are checked.
        fast_mode: whether derivatives are compared in one direction only, which takes two calls of `func` for each input
            rather than two for each element.
        masked: whether only the values that a sparse input holds are varied. By default its other places are, too.

    Returns: True.

    Errors: GradcheckError on a difference, ValueError where no input requires a gradient and for a sparse output,
    AssertionError where the shape or dtype of an output depends on the values.

    >>> x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("gradcheck: one of check_forward_ad and check_backward_ad must be on, got none")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    options = _Options(
        eps, atol, rtol, nondet_tol, fast_mode, check_forward_ad, check_backward_ad, check_grad_dtypes
    )  # fmt: skip
    _check_precision(_differentiable_inputs(inputs))
    _refuse_sparse(parts.as_outputs(func(*inputs)))
    varied = parts.varied_inputs(inputs, bool(masked))
    try:
        has_derivative = _check_derivatives(func, inputs, options, varied)
        if has_derivative and check_forward_ad:
            if check_undefined_grad:
                _check_undefined_forward(func, inputs, varied)
            if check_batched_forward_grad:
                _check_batched_forward(func, inputs, varied)
        if has_derivative and check_backward_ad:
            with enable_grad():
                if check_batched_grad:
                    _check_batched(func, inputs)
                _check_linear(func, inputs)
                if check_undefined_grad:
                    _check_undefined(func, inputs)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Return whether second derivatives of `func` agree with central differences of its gradients.

    Args:
        func, inputs, eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
            fast_mode, masked: as for gradcheck.
        grad_outputs: what the gradients are taken with; drawn at random where None.
        gen_non_contig_grad_outputs: whether those that are drawn are not contiguous.
        check_fwd_over_rev, check_rev_over_rev: in which modes the gradients are differentiated.

    Returns: True.

    Errors: GradcheckError on a difference.

    >>> x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, (x,))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = parts.as_outputs(func(*inputs))
    used = [k for k, o in enumerate(outputs) if o.requires_grad]
    if grad_outputs is None:
        generator = _C.Generator()
        generator.manual_seed(20)
        grad_outputs = tuple(_random_like(outputs[k], generator, gen_non_contig_grad_outputs) for k in used)
    else:
        grad_outputs = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    count = len(inputs)
    wanted = [isinstance(x, Tensor) and x.requires_grad for x in inputs]

    def first_derivatives(*args):
        # forward mode hands over arguments that require no gradient
        own = tuple(x if not w or x.requires_grad else x.requires_grad_() for x, w in zip(args, wanted))
        cotangents = args[count:]
        xs = _differentiable_inputs(own)
        values = parts.as_outputs(func(*own))
        with enable_grad():
            pulled = _grad([values[k] for k in used], xs, cotangents, create_graph=True, allow_unused=True)
        return tuple(g for g in pulled if g is not None)

    return gradcheck(
        first_derivatives, inputs + grad_outputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _random_like(output, generator, strided):
    shape = (*output.shape, 2) if strided else tuple(output.shape)
    values = _C.empty(shape, dtype=output.dtype).normal_(generator=generator)
    # A slice along the last dimension is not contiguous.
    return (values[..., 0] if strided else values).requires_grad_()


class _CallableModule(types.ModuleType):
    """Make the module callable. `autograd.gradcheck` is a function and a module of one name, and importing the module
    would otherwise hide the function.
    """

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
