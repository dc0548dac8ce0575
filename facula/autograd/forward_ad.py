"""Implement forward mode: dual numbers, whose tangents are propagated through ops.

    with dual_level():
        x = make_dual(primal, tangent)
        y = f(x)
        value, derivative = unpack_dual(y)

Ops on duals are recorded as for backward; `unpack_dual` derives the tangent from that record. The product of the
Jacobian with a vector is the derivative, with respect to u, of the product of its transpose with u.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _C
from .._C import Tensor
from .._tensor import printing
from .grad_mode import _Switch

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]


class UnpackedDualTensor(NamedTuple):
    """Hold the value of a dual number and its tangent, which is None where the value does not depend on any dual input.

    Args:
        primal: the value.
        tangent: the derivative in the direction of the inputs' tangents.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     primal, tangent = fwAD.unpack_dual(fwAD.make_dual(torch.tensor(2.), torch.tensor(1.)) ** 2)
    >>> primal, tangent
    (tensor(4.), tensor(4.))
    """

    primal: Tensor
    tangent: Tensor | Any


class _Level:
    """Keep the duals made in one level, what of them the graph leads to, and their tangents.

    A dual is kept with its state and the number of its input; its tangent is the one that the program gave.
    """

    def __init__(self, inputs=(), tangents=()):
        self.duals = []
        self.inputs = list(inputs)
        self.tangents = list(tangents)
        self.before = None  # what `_end` takes
        self.given = {}  # of duals written in place: the tensors that the program gave, by the number of the input


class _State(threading.local):
    def __init__(self):
        self.levels = []
        self.enabled = True  # as the program has set it
        self.opened = 0  # levels and switches


_state = _State()


def _open(mode: bool | None = None) -> tuple[bool, bool]:
    """Begin a level, or a stretch with the switch set to `mode`; return what `_end` takes.

    Ops on duals are recorded as long as one is open. Outside of them nobody can ask for a tangent, and what is added up there,
    such as `.grad`, would keep the graphs of all steps alive.
    """
    before = _state.enabled, _C._is_fwd_grad_enabled()
    if mode is not None:
        _state.enabled = mode
    _state.opened += 1
    _C._set_fwd_grad_enabled(_state.enabled)
    return before


def _end(before: tuple[bool, bool]) -> None:
    _state.opened -= 1
    _state.enabled, recorded = before
    _C._set_fwd_grad_enabled(recorded and _state.opened > 0)


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # of this thread; -1 outside of every level
        return len(_state.levels) - 1
    from facula._shared.near_names import no_attribute

    raise no_attribute(__name__, name)


def enter_dual_level() -> int:
    """Open a level of forward mode and return its number; `dual_level` does it for a block. Levels do not nest.

    Errors: RuntimeError where one is open.

    >>> level = torch.autograd.forward_ad.enter_dual_level()
    >>> torch.autograd.forward_ad.exit_dual_level(level=level)
    >>> level
    0
    """
    if _state.levels:
        raise RuntimeError("enter_dual_level: Nested forward mode AD is not supported, got a second level")
    opened = _Level()
    opened.before = _open()
    _state.levels.append(opened)
    return len(_state.levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level of forward mode; its duals become ordinary tensors.

    Args:
        level: its number, for a check; None for the innermost.

    Errors: RuntimeError where none is open, and for another level than the innermost.

    >>> level = torch.autograd.forward_ad.enter_dual_level()
    >>> torch.autograd.forward_ad.exit_dual_level()
    """
    if not _state.levels:
        raise RuntimeError("exit_dual_level: no level is open")
    if level is not None and level != len(_state.levels) - 1:
        raise RuntimeError(f"exit_dual_level: level {len(_state.levels) - 1} is the one to exit, got {level}")
    closed = _state.levels[-1]
    try:
        for place, (dual, made, _) in enumerate(closed.duals):
            if made != _state_of(dual):  # an op in place was meant for the tangent as well
                _written_tangent(closed, place)
    finally:
        _close(_state.levels.pop())
        _end(closed.before)


def _close(level):
    for tensor in (*(dual for dual, _, _ in level.duals), *level.inputs):
        _C._clear_dual(tensor)


def _current(level, name):
    if not _state.levels:
        raise RuntimeError(f"{name}: a dual level must be open (use dual_level()), got level {level}")
    opened = _state.levels[-1 if level is None or level < 0 else level]
    if opened is None:
        raise RuntimeError(f"{name}: within jacfwd and linearize no tangents are known yet (use jvp), got level {level}")
    return opened


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a tensor of the same values whose derivative in direction of the inputs is `tangent`.

    Args:
        tensor: the values, floating or complex.
        tangent: of the same shape; its dtype may be another floating or complex one, real where the values are.
        level: the level of forward mode; None for the innermost.

    Errors: RuntimeError outside of a level; ValueError for dtypes that are not floating; RuntimeError for a tangent of another
    shape.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor([1., 2.]), torch.tensor([1., 10.]))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor([ 2., 40.])
    """
    _current(level, "make_dual")
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if _C._is_dual(value):
            raise RuntimeError(
                f"make_dual: {name} must have no tangent of this level yet, got a dual of shape {tuple(value.shape)}"
            )
    return _make(tensor, tangent, level)


def _make(tensor, tangent, level=None):
    """Return `make_dual` of what may depend on duals already: that is forgotten."""
    opened = _current(level, "make_dual")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"make_dual: the primal must have a floating or complex dtype, got {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"make_dual: the tangent must have a floating or complex dtype, got {tangent.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            f"make_dual: the tangent must have the primal's shape {tuple(tensor.shape)}, got {tuple(tangent.shape)}"
        )
    if tangent.is_complex() and not tensor.is_complex():
        raise RuntimeError(f"make_dual: the tangent of a real tensor of {tensor.dtype} must be real, got {tangent.dtype}")
    # `origin` is the input of the graph whose direction is the tangent; `dual` is the view of it that the program gets.
    dual, origin = _C._make_dual(tensor)
    opened.duals.append((dual, _state_of(dual), len(opened.inputs)))
    opened.inputs.append(origin)
    opened.tangents.append(tangent)
    return dual


def _state_of(tensor):
    """Return what in-place ops change."""
    return None if tensor.is_inference() else tensor._version, tensor.shape, tensor.stride()


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value and the tangent of a dual.

    Args:
        tensor: any tensor.
        level: the level of forward mode; None for the innermost.

    Returns: an `UnpackedDualTensor` of ``primal`` and ``tangent``; the tangent is None where the tensor depends on no dual.

    Both are of the shape of the tensor.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     fwAD.unpack_dual(torch.ones(1)).tangent is None
    True
    """
    if level is None and not _state.levels:
        return UnpackedDualTensor(tensor, None)
    opened = _current(level, "unpack_dual")
    if not _C._is_dual(tensor):
        return UnpackedDualTensor(tensor, None)
    if not _C._is_fwd_grad_enabled():
        return UnpackedDualTensor(_primal(tensor), None)
    for place, (dual, made, number) in enumerate(opened.duals):
        if dual is tensor:
            unwritten = made == _state_of(dual)
            tangent = opened.given.get(number, opened.tangents[number]) if unwritten else _written_tangent(opened, place)
            return UnpackedDualTensor(_primal(tensor), tangent)
    shown = _shown_tangent(tensor, opened)
    return UnpackedDualTensor(_primal(tensor), _tangent_of(tensor, opened) if shown is None else shown)


printing.tangent_of = lambda tensor: unpack_dual(tensor).tangent


def _shown_tangent(tensor, opened):
    """Return the part of a given tangent that a view of its dual shows, in the memory of the tangent; None elsewhere."""
    place = _memory(tensor) if tensor._is_view() else None
    known = [each for each in opened.duals if place and _memory(each[0]) == place]
    if len(known) != 1:
        return None
    dual, made, number = known[0]
    given = opened.given.get(number, opened.tangents[number])
    same = made == _state_of(dual) and _memory(given) and _lies_like(given, dual)
    plain = dual.dtype == tensor.dtype and dual.is_conj() == tensor.is_conj() and given.is_conj() == dual.is_conj()
    return given.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()) if same and plain else None


def _memory(tensor):
    plain = tensor.layout is _C.strided and not _C._batch_level(tensor)
    return tensor.untyped_storage().data_ptr() if plain else None


def _tangent_of(tensor, opened):
    tangent = pushforward([tensor], opened.inputs, opened.tangents, True)[0]
    if tangent is None:
        return _C.zeros_like(tensor.detach())
    place = _memory(tangent)
    if place and any(_memory(given) == place for given in opened.tangents):  # the result is no view of the dual
        tangent = tangent.clone()
    return without_inputs(tangent, opened.inputs)


def without_inputs(tensor: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """Return the tensor without the history of these inputs; where it has another history, with that alone."""
    if not (tensor.requires_grad or _C._is_dual(tensor)):
        return tensor
    recorded, dual = _C._other_inputs(tensor, list(inputs))
    if not (recorded or dual):
        return tensor.detach()
    if _C._is_dual(tensor) and not dual:
        before = _C._set_grad_enabled(True)
        try:
            tensor = tensor.view_as(tensor)
        finally:
            _C._set_grad_enabled(before)
        _C._clear_dual(tensor)
    return tensor


def _written_tangent(opened, place):
    """Return the tangent of a dual that was written in place: the tensor given as its tangent is written as well.

    As in PyTorch, that holds of a tangent that lies in memory as its primal does; of others a copy is followed.
    """
    dual, _, number = opened.duals[place]
    given = opened.given.get(number, opened.tangents[number])
    if not _lies_like(given, dual) or (given.requires_grad and given.is_leaf):
        return _tangent_of(dual, opened)
    if number not in opened.given:
        opened.given[number] = given
        opened.tangents[number] = given.clone()  # the direction of the input, which is as it was
    given.copy_(_tangent_of(dual, opened))
    opened.duals[place] = dual, _state_of(dual), number
    return given


def _lies_like(one, other):
    def place(tensor):
        return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes() // tensor.itemsize

    return place(one) == place(other)


def _primal(tensor):
    """Return the value alone; its ordinary history stays."""
    if not tensor.requires_grad:
        return tensor.detach()
    primal = tensor.view_as(tensor)
    _C._clear_dual(primal)
    return primal


def pushforward(outputs: Any, inputs: Any, tangents: Sequence[Tensor], forward: bool = False) -> list[Tensor]:
    """Return the tangents of recorded outputs, given those of the inputs; None where an output does not depend on any.

    Args:
        outputs, inputs: sequences of tensors; the outputs' graph leads to the inputs and is kept.
        tangents: per input a tensor of its shape.
        forward: whether the inputs are duals, which `no_grad` does not stop; else leaves.
    """
    before = _C._set_grad_enabled(True)
    try:
        return [_pushforward_one(output, inputs, tangents, forward) for output in outputs]
    finally:
        _C._set_grad_enabled(before)


def _pushforward_one(output, inputs, tangents, forward):
    # Backward is linear in the gradient of the output. Differentiating it by that gradient (the probe) therefore gives
    # the product of the Jacobian with a direction.
    probe = _C.zeros_like(output.detach()).requires_grad_()
    pulled = _C._run_backward((output,), (probe,), tuple(inputs), True, True, False, forward)
    used = [(p, t) for p, t in zip(pulled, tangents) if p is not None]
    if not used:
        return None
    linear = [(p, t) for p, t in used if p.requires_grad]
    if not linear:
        return _C.zeros_like(output.detach())
    values, directions = zip(*linear)
    (tangent,) = _C._run_backward(values, _fitting(values, directions), (probe,), True, True, False)
    if tangent is None:
        return _C.zeros_like(output.detach())
    for value, direction in linear:
        if direction.dtype != value.dtype:
            tangent = tangent.to(_C.promote_types(tangent.dtype, direction.dtype))
    return tangent if _depends_on_more(tangent, probe) else tangent.detach()


def _fitting(values, directions):
    """Return the tangents in the values' dtypes."""
    return tuple(d if d.dtype == v.dtype else d.to(v.dtype) for v, d in zip(values, directions))


def _depends_on_more(tensor, probe):
    """Return whether a derivative of the tangent with respect to anything but the probe may be asked for."""
    while _C._batch_level(tensor):
        tensor = _C._batch_value(tensor)
    return (tensor.requires_grad or _C._is_dual(tensor)) and any(_C._other_inputs(tensor, [probe]))


def tangents_are_known() -> bool:
    """Return whether the open level has tangents; within jacfwd a derivative comes from the recorded backward formulas."""
    return bool(_state.levels) and _state.levels[-1] is not None


class _transform_level:
    """Open the level of a function transform: its inputs and tangents, or none where these are not known yet."""

    def __init__(self, inputs=None, tangents=None):
        self.level = None if inputs is None else _Level(inputs, tangents)

    def __enter__(self):
        self.before = _open()
        _state.levels.append(self.level)
        return self.level

    def __exit__(self, *exception):
        _state.levels.pop()
        _end(self.before)
        if self.level:
            for dual, _, _ in self.level.duals:
                _C._clear_dual(dual)


class dual_level(_Switch):
    """Open a level of forward mode in a block, in which results of dual numbers carry their derivatives.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     y = fwAD.make_dual(torch.tensor(0.), torch.tensor(1.)).sin()
    ...     fwAD.unpack_dual(y)
    UnpackedDualTensor(primal=tensor(0.), tangent=tensor(1.))
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def _is_fwd_grad_enabled() -> bool:
    return _state.enabled


class _set_fwd_grad_enabled(_Switch):
    """Switch forward mode for the ops in a block."""

    def __init__(self, mode: bool):
        self.mode = mode

    def __enter__(self):
        self.before = _open(self.mode)

    def __exit__(self, *exception):
        _end(self.before)

    def clone(self):
        return type(self)(self.mode)
