"""Derivatives compared with finite differences."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

from .. import _C
from ._run import grad as _grad
from .forward_ad import pushforward
from .grad_mode import enable_grad

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]

Tensor = _C.Tensor


class GradcheckError(RuntimeError):
    """A derivative differs from finite differences: what gradcheck raises.

    >>> import sys
    >>> issubclass(sys.modules[torch.autograd.gradgradcheck.__module__].GradcheckError, RuntimeError)
    True
    """


def _differentiable_inputs(inputs):
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def _as_outputs(value):
    items = (value,) if isinstance(value, Tensor) else tuple(value)
    return tuple(o for o in items if isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex()))


def _real_view(tensor):
    """A complex tensor as a real one with a last dimension of two, a real one itself; flattened."""
    flat = tensor.detach().reshape(-1)
    return _C.view_as_real(flat.resolve_conj()).reshape(-1) if tensor.is_complex() else flat


def _numerical(func, inputs, x, eps):
    """Rows over the real components of `x`, columns over those of each output: central differences."""
    components = 2 if x.is_complex() else 1
    rows = [[] for _ in _as_outputs(func(*inputs))]
    data = x.data  # writes to it are not counted: the graph at hand finds x as it was
    for position in range(data.numel()):
        index = _unravel(position, data.shape)
        for part in range(components):
            step = eps * 1j if part else eps
            before = data[index].item()
            data[index] = before + step
            high = [_real_view(o).clone() for o in _as_outputs(func(*inputs))]
            data[index] = before - step
            low = [_real_view(o).clone() for o in _as_outputs(func(*inputs))]
            data[index] = before
            for k, (a, b) in enumerate(zip(high, low)):
                rows[k].append((a - b) / (2 * eps))
    return [_C.stack(r) if r else None for r in rows]


def _unravel(position, shape):
    index = []
    for size in reversed(shape):
        index.append(position % size)
        position //= size
    return tuple(reversed(index))


def _seeds(output):
    """One cotangent per real component of the output."""
    for position in range(output.numel()):
        for unit in (1, 1j) if output.is_complex() else (1,):
            seed = _C.zeros(output.numel(), dtype=output.dtype, device=output.device)
            seed[position] = unit
            yield seed.reshape(output.shape)


def _analytical(output, x):
    """The same matrix from backward: row i, column j is the derivative of component j of the output by component i
    of x."""
    columns = []
    for seed in _seeds(output):
        (pulled,) = (
            _grad([output], [x], [seed], retain_graph=True, allow_unused=True) if output.requires_grad else (None,)
        )
        pulled = _C.zeros_like(x.detach()) if pulled is None else pulled
        columns.append(_real_view(pulled))
    return _C.stack(columns, 1) if columns else None


def _forward(output, x):
    """The same matrix from forward mode."""
    rows = []
    for seed in _seeds(x):
        tangent = pushforward([output], [x], [seed])[0] if output.requires_grad else None
        rows.append(_real_view(_C.zeros_like(output.detach()) if tangent is None else tangent))
    return _C.stack(rows) if rows else None


def _close(a, b, rtol, atol):
    return bool(_C.le((a - b).abs(), atol + rtol * b.abs()).all())


def _compare(found, expected, rtol, atol, kind, input_index, output_index):
    if found is None or expected is None or found.numel() == 0:
        return
    if not _close(found, expected, rtol, atol):
        worst = (found - expected).abs().max().item()
        raise GradcheckError(
            f"gradcheck: Jacobian mismatch of output {output_index} with respect to input {input_index} ({kind}), "
            f"largest difference {worst:.3g}\nnumerical:\n{expected.tolist()}\nanalytical:\n{found.tolist()}"
        )


def _check_precision(inputs):
    checked = _differentiable_inputs(inputs)
    if not checked:
        raise ValueError(
            "gradcheck: expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    import warnings

    for i, x in enumerate(checked):
        if x.dtype not in (_C.float64, _C.complex128):
            warnings.warn(
                f"gradcheck: input {i} requires gradient and is not of double precision, got {x.dtype}", stacklevel=4
            )
        if x.numel() and any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
            raise RuntimeError(
                f"gradcheck: input {i} has a dimension with stride 0 (call contiguous() first), got strides "
                f"{x.stride()}"
            )


def _check_undefined(func, inputs):
    """Backward copes with outputs that have no gradient."""
    outputs = [o for o in _as_outputs(func(*inputs)) if o.requires_grad]
    if len(outputs) < 2:
        return
    xs = _differentiable_inputs(inputs)
    for o in outputs:
        _grad([o], xs, [_C.zeros_like(o.detach())], retain_graph=True, allow_unused=True)


def _check_constant(numerical, atol):
    """Outputs none of which requires a gradient must not depend on the inputs."""
    for i, per_output in enumerate(numerical):
        for k, matrix in enumerate(per_output):
            if matrix is not None and matrix.numel() and matrix.abs().max().item() > atol:
                raise GradcheckError(
                    f"gradcheck: Numerical gradient for function expected to be zero, got {matrix.tolist()} for output "
                    f"{k} with respect to input {i}, though no output requires a gradient"
                )


def _check(func, inputs, eps, atol, rtol, forward, backward, undefined):
    _check_precision(inputs)
    with enable_grad():
        # finite differences write to the inputs, so what is recorded for backward comes after them
        xs = _differentiable_inputs(inputs)
        numerical = [_numerical(func, inputs, x, eps) for x in xs]
        outputs = _as_outputs(func(*inputs))
        if not any(o.requires_grad for o in outputs):
            _check_constant(numerical, atol)
            return
        for i, x in enumerate(xs):
            for k, output in enumerate(outputs):
                if not output.requires_grad:
                    continue  # declared to have no derivative, such as statistics and indices
                if backward:
                    _compare(_analytical(output, x), numerical[i][k], rtol, atol, "backward mode", i, k)
                if forward:
                    _compare(_forward(output, x), numerical[i][k], rtol, atol, "forward mode", i, k)
        if undefined:
            _check_undefined(func, inputs)


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
    """Whether derivatives of `func` agree with central differences.

    Args:
        func: a function of tensors that gives a tensor or several.
        inputs: a tensor or a sequence of arguments; those that require gradients are checked, and should be float64 or
            complex128.
        eps: the width of the differences.
        atol, rtol: how much may differ: atol + rtol * |d|.
        raise_exception: whether a difference raises rather than gives False.
        nondet_tol: accepted: backward gives one result.
        check_undefined_grad: whether backward must cope with outputs that have no gradient.
        check_grad_dtypes: whether gradients must have the dtype of their inputs.
        check_batched_grad: whether a batch of gradients at once must give what each gives.
        check_batched_forward_grad: accepted.
        check_forward_ad, check_backward_ad: which modes are checked.
        fast_mode: accepted; everything is checked as thoroughly.
        masked: accepted.

    Returns True. Errors: GradcheckError on a difference, ValueError where no input requires a gradient.

    >>> x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("gradcheck: one of check_forward_ad and check_backward_ad must be on")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        _check(func, inputs, eps, atol, rtol, check_forward_ad, check_backward_ad, check_undefined_grad)
        if check_grad_dtypes:
            _check_dtypes(func, inputs)
        if check_batched_grad and check_backward_ad:
            _check_batched(func, inputs, rtol, atol)
    except RuntimeError:
        if raise_exception:
            raise
        return False
    return True


def _check_batched(func, inputs, rtol, atol):
    """Gradients of a batch of cotangents are those of each."""
    xs = _differentiable_inputs(inputs)
    for output in _as_outputs(func(*inputs)):
        if not output.requires_grad or output.numel() == 0:
            continue
        seeds = _C.stack([_C.ones_like(output.detach()), 2 * _C.ones_like(output.detach())])
        together = _grad([output], xs, [seeds], retain_graph=True, allow_unused=True, is_grads_batched=True)
        for k, seed in enumerate(seeds.unbind(0)):
            alone = _grad([output], xs, [seed], retain_graph=True, allow_unused=True)
            for i, (a, b) in enumerate(zip(together, alone)):
                if (a is None) != (b is None) or a is not None and not _close(a[k], b, rtol, atol):
                    raise GradcheckError(f"gradcheck: batched gradients of input {i} differ from those of each cotangent")


def _check_dtypes(func, inputs):
    xs = _differentiable_inputs(inputs)
    outputs = [o for o in _as_outputs(func(*inputs)) if o.requires_grad]
    pulled = _grad(outputs, xs, [_C.ones_like(o.detach()) for o in outputs], allow_unused=True)
    for i, (x, g) in enumerate(zip(xs, pulled)):
        if g is not None and g.dtype != x.dtype:
            raise GradcheckError(f"gradcheck: the gradient of input {i} must have dtype {x.dtype}, got {g.dtype}")


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
    """Whether second derivatives of `func` agree with central differences of its gradients.

    Args:
        func, inputs, eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
            fast_mode, masked: as for gradcheck.
        grad_outputs: what the gradients are taken with; drawn at random where None.
        gen_non_contig_grad_outputs: whether those that are drawn are not contiguous.
        check_fwd_over_rev, check_rev_over_rev: in which modes the gradients are differentiated.

    Returns True. Errors: GradcheckError on a difference.

    >>> x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, (x,))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _as_outputs(func(*inputs))
    used = [k for k, o in enumerate(outputs) if o.requires_grad]
    if grad_outputs is None:
        generator = _C.Generator()
        generator.manual_seed(20)
        grad_outputs = tuple(_random_like(outputs[k], generator, gen_non_contig_grad_outputs) for k in used)
    else:
        grad_outputs = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    count = len(inputs)

    def first_derivatives(*args):
        own, cotangents = args[:count], args[count:]
        xs = _differentiable_inputs(own)
        values = _as_outputs(func(*own))
        with enable_grad():
            pulled = _grad([values[k] for k in used], xs, cotangents, create_graph=True, allow_unused=True)
        return tuple(g for g in pulled if g is not None)

    return gradcheck(
        first_derivatives, inputs + grad_outputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )  # fmt: skip


def _random_like(output, generator, strided):
    shape = (*output.shape, 2) if strided else tuple(output.shape)
    values = _C.empty(shape, dtype=output.dtype).normal_(generator=generator)
    return (values[..., 0] if strided else values).requires_grad_()


class _CallableModule(types.ModuleType):
    """`autograd.gradcheck` is a function and a module of one name: importing the module binds it over the function."""

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
