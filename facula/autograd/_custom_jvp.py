"""Run custom functions in forward mode: the user's `jvp` computes the tangents of the results of `forward`."""

from __future__ import annotations

from .. import _C
from . import forward_ad

Tensor = _C.Tensor
_VIEW, _WRITTEN, _PLAIN = 1, 2, 4  # what an output of forward is, as src/python/function.cpp says it


def apply(cls, args):
    """Run forward mode through the user's jvp: tangents in, duals out."""
    pairs = [forward_ad.unpack_dual(a) if isinstance(a, Tensor) else None for a in args]
    primals = [a if p is None else p.primal for a, p in zip(args, pairs)]
    outputs, context, kinds = cls._apply_with_context(*primals)
    # a tangent is needed wherever a differentiable tensor came in
    tangents = [
        _C.zeros_like(p) if _has_tangents(p) and pair.tangent is None and context.materialize_grads else pair and pair.tangent
        for p, pair in zip(primals, pairs)
    ]
    if any(kind & _WRITTEN for kind in kinds):  # jvp will write its tangents, which may be leaves that the program gave
        tangents = [t.clone() if t is not None and t.is_leaf and t.requires_grad else t for t in tangents]
    if context.saved_for_forward is None:
        context.saved_for_forward = ()
    versions = {id(t): t._version for t in tangents if t is not None}
    made = cls.jvp(context, *tangents)
    context.saved_for_forward = None
    single = isinstance(outputs, Tensor)
    results = (outputs,) if single else tuple(outputs)
    made = (made,) if isinstance(made, Tensor) or made is None else tuple(made)
    if len(made) != len(results):
        raise RuntimeError(f"{cls.__name__}.jvp: expected {len(results)} tangents, got {len(made)}")
    duals = []
    for i, (result, tangent, kind) in enumerate(zip(results, made, kinds)):
        if tangent is None:
            duals.append(result)
            continue
        _check_tangent(f"{cls.__name__}.jvp", i, result, tangent, kind, tangents, versions)
        dual = forward_ad._make(result, tangent)
        written = next((a for a, p in zip(args, primals) if p is result), None)
        duals.append(dual if written is None else written.copy_(dual))  # mark_dirty: the argument itself comes back
    return duals[0] if single else tuple(duals)


def _has_tangents(value):
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _check_tangent(name, i, result, tangent, kind, tangents, versions):
    """Check that a tangent lies to those of the inputs as the result of forward lies to the inputs."""
    if not isinstance(result, Tensor) or kind & _PLAIN:
        raise RuntimeError(f"{name}: output {i} is not differentiable, so its tangent is None, got {type(tangent).__name__}")
    given = [t for t in tangents if t is not None]
    if kind & _WRITTEN and tangent._version == versions.get(id(tangent), tangent._version):
        raise RuntimeError(f"{name}: forward writes output {i} in place, so jvp must write the tangent in place and return it")
    if kind & _VIEW and not any(tangent is not t and tangent._base is (t if t._base is None else t._base) for t in given):
        raise RuntimeError(
            f"{name}: output {i} of forward is an input or a view of one, so its tangent must be a view of the tangent of "
            "that input, got a tensor of its own or a view of another"
        )
