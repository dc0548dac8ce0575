"""Define the base class of optimizers whose update is a rule of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import facula
from facula import _C, Tensor

from ._arguments import check_flags, check_step
from ._update_rules import apply
from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# ---- Steps on lists of parameters, gradients and states, for `adam.adam`, `sgd.sgd` and the others


def step_lists(rule, group, params, grads, states, state_steps, grad_scale=None, found_inf=None) -> None:
    """Make one step of every parameter, with a method of the optimizer class `rule`.

    Args:
        group: the options. states: state name -> list of tensors, or None for a state that the options leave out.
        state_steps: step counters, one-element tensors; None for a rule without.
        grad_scale: what gradients are divided by first. found_inf: a tensor; not zero leaves the step out.
    """
    name = rule.__name__
    check_flags(name, group)
    check_step(name, group, params)
    if state_steps is not None and not all(isinstance(s, facula.Tensor) for s in state_steps):
        kinds = sorted({type(s).__name__ for s in state_steps})
        raise RuntimeError(f"{name}: state_steps must be a list of one-element tensors, got {', '.join(kinds)}")
    if found_inf is not None and found_inf.item():
        return
    steps = []
    with facula.set_grad_enabled(bool(group["differentiable"])):
        try:
            for i, (param, grad) in enumerate(zip(params, grads)):
                state = {key: values[i] for key, values in states.items() if values}
                step = None
                if state_steps is not None:
                    state["step"] = state_steps[i]
                    state["step"] += 1
                    step = counted(group, state["step"])
                grad = grad if grad_scale is None else grad / grad_scale
                if check_layout(rule, grad):
                    rule._update_sparse(group, param, grad, state)
                else:
                    # Only prepared here; run_steps runs many together in one launch.
                    steps.append(rule._update(rule, group, param, grad, state, step))
                if "momentum_buffer" in state and "momentum_buffer" in states:
                    states["momentum_buffer"][i] = state["momentum_buffer"]
        finally:
            run_steps(steps)


class RuleOptimizer(Optimizer):
    """Update each parameter by itself, in one pass of the core (many parameters in one launch on a device with a
    queue), or in ops: with ``differentiable``, which records them, and with ``capturable``, where step counters and
    what follows from them are on the device, so that a graph can replay the step. It is the base class of optimizers
    whose update is a rule of the core.
    """

    _counters = ("step",)
    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _update_sparse = None  # (group, parameter, gradient, state): a step with a sparse gradient, where the rule has one

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update all parameters that have a gradient; return the loss of the closure, or None."""
        loss = self._evaluate(closure)
        self._check_capture()
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _check_capture(self) -> None:
        """Raise where a graph is captured and its replays would all be the same step."""
        for group in self.param_groups:
            on_device = not group.get("capturable", True) and any(p.is_cuda for p in group["params"])
            if on_device and _C._cuda_captures_here():
                raise RuntimeError(
                    f"{type(self).__name__}: capturable=True, since a graph is captured and its replays are to count steps, "
                    "got capturable=False"
                )

    def _step_group(self, group, params=None) -> None:
        """Step parameter by parameter, of all or of some; what has been prepared is run also when a later one raises."""
        params = group["params"] if params is None else params
        check_step(type(self).__name__, group, params)
        steps = []
        try:
            for param in params:
                grad = param.grad
                if grad is None:
                    continue
                sparse = check_layout(self, grad)
                state = self.state[param] or self._start(group, param)  # an empty dict before the first step
                state["step"] += 1
                if sparse:
                    self._update_sparse(group, param, grad, state)
                    continue
                steps.append(self._update(group, param, grad, state, counted(group, state["step"])))
        finally:
            run_steps(steps)

    def _update(self, group, param, grad, state, step):
        """Prepare or do one step of one parameter: give what `_run` gave. ``step`` counts from 1."""
        raise NotImplementedError(f"{type(self).__name__}: _update is not implemented, got a call")

    @staticmethod
    def _run(rule: str, group, param, grad, states, numbers, decay=None):
        """Return a step of a rule, for run_steps(), or None where it was made, in ops.

        Args:
            numbers: a tuple of the rule's numbers: variables of the names that the rule has for them in `_update_rules`.
            decay: the L2 weight decay. Default: the group's.
        """
        sign = -1.0 if group["maximize"] else 1.0
        decay = group["weight_decay"] if decay is None else decay
        step = (rule, param, grad, states, (sign, decay, *numbers))
        on_device = group.get("capturable") and any(isinstance(n, Tensor) for n in numbers)
        if not (group["differentiable"] or on_device):
            return step
        with facula.set_grad_enabled(facula.is_grad_enabled() and bool(group["differentiable"])):
            apply(*step)
        return None


def check_layout(rule, grad) -> bool:
    """Return whether a gradient is sparse; raise RuntimeError where it is and the rule (a class or an optimizer) has no such
    step."""
    if grad.layout is facula.strided:
        return False
    if rule._update_sparse is None:
        name = getattr(rule, "__name__", type(rule).__name__)
        raise RuntimeError(f"{name} does not support sparse gradients, got layout {grad.layout}")
    return True


def counted(group: Mapping[str, Any], step: Tensor) -> float:
    """Return a step counter's value: a number, or itself where the host must not ask for it."""
    # item() makes the host wait for the device, which a capture forbids.
    return step if group.get("capturable") else step.item()


def run_steps(steps: Sequence[tuple[Tensor | str | tuple[Any, ...], ...] | None]) -> None:
    """Run what `_run` has prepared: those of a device together."""
    steps = [step for step in steps if step]
    wrapped = [step for step in steps if _stands_in(step[1]) or _stands_in(step[2])]
    if not wrapped:
        _C._optim_steps(steps)
        return
    _C._optim_steps([step for step in steps if not (_stands_in(step[1]) or _stands_in(step[2]))])
    with facula.no_grad():
        for step in wrapped:
            apply(*step)


def _stands_in(tensor: Tensor) -> bool:
    """Return whether a tensor's class stands in for kernels, so that its steps are done in ops. Tensor has the method, too."""
    return type(tensor).__torch_dispatch__ is not _C._disabled_torch_dispatch_impl
