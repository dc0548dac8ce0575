"""The base class of optimizers whose update is a rule of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import facula
from facula import _C, Tensor

from . import _rules
from ._checks import check_step
from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class RuleOptimizer(Optimizer):
    """An optimizer whose step treats each parameter by itself, in one pass of the core (on a device with a queue many in
    one launch), or in ops: with ``differentiable``, which records them, and with ``capturable``, where step counters and
    what follows from them are on the device, so that a graph can replay it."""

    _counters = ("step",)
    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _update_sparse = None  # (group, parameter, gradient, state): a step with a sparse gradient, where the rule has one

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Updates all parameters that have a gradient; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        self._check_capture()
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _check_capture(self) -> None:
        """Raises where a graph is captured and its replays would all be the same step."""
        for group in self.param_groups:
            on_device = not group.get("capturable", True) and any(p.is_cuda for p in group["params"])
            if on_device and _C._cuda_captures_here():
                raise RuntimeError(
                    f"{type(self).__name__}: capturable=True, since a graph is captured and its replays are to count steps, "
                    "got capturable=False"
                )

    def _step_group(self, group, params=None) -> None:
        """Parameter by parameter, of all or of some; what has been prepared is run also when a later one raises."""
        params = group["params"] if params is None else params
        check_step(type(self).__name__, group, params)
        steps = []
        try:
            for param in params:
                grad = param.grad
                if grad is None:
                    continue
                sparse = check_layout(self, grad)
                state = self.state[param] or self._start(group, param)
                state["step"] += 1
                if sparse:
                    self._update_sparse(group, param, grad, state)
                    continue
                steps.append(self._update(group, param, grad, state, counted(group, state["step"])))
        finally:
            run_steps(steps)

    def _update(self, group, param, grad, state, step):
        """Prepares or does one step of one parameter: gives what `_run` gave. ``step`` counts from 1."""
        raise NotImplementedError(f"{type(self).__name__}: _update is not implemented, got a call")

    @staticmethod
    def _run(rule: str, group, param, grad, states, numbers, decay=None):
        """A step of a rule, for run_steps(), or None where it was done, in ops; ``decay`` is the L2 weight decay, by default
        the group's."""
        sign = -1.0 if group["maximize"] else 1.0
        decay = group["weight_decay"] if decay is None else decay
        step = (rule, param, grad, states, (sign, decay, *numbers))
        on_device = group.get("capturable") and any(isinstance(n, Tensor) for n in numbers)
        if not (group["differentiable"] or on_device):
            return step
        with facula.set_grad_enabled(facula.is_grad_enabled() and bool(group["differentiable"])):
            _rules.apply(*step)
        return None


def check_layout(rule, grad) -> bool:
    """Whether a gradient is sparse; raises RuntimeError where it is and the rule (a class or an optimizer) has no such step."""
    if grad.layout is facula.strided:
        return False
    if rule._update_sparse is None:
        name = getattr(rule, "__name__", type(rule).__name__)
        raise RuntimeError(f"{name} does not support sparse gradients, got layout {grad.layout}")
    return True


def counted(group: Mapping[str, Any], step: Tensor) -> float:
    """A step counter's value: a number, or itself where the host must not ask for it."""
    return step if group.get("capturable") else step.item()


def run_steps(steps: Sequence[tuple[Tensor | str | tuple[Any, ...], ...] | None]) -> None:
    """Runs what `_run` has prepared: those of a device together."""
    steps = [step for step in steps if step]
    wrapped = [step for step in steps if _stands_in(step[1]) or _stands_in(step[2])]
    if not wrapped:
        _C._optim_steps(steps)
        return
    _C._optim_steps([step for step in steps if not (_stands_in(step[1]) or _stands_in(step[2]))])
    with facula.no_grad():
        for step in wrapped:
            _rules.apply(*step)


def _stands_in(tensor: Tensor) -> bool:
    """Return whether a tensor's class stands in for kernels, so that its steps are done in ops. Tensor has the method, too."""
    return type(tensor).__torch_dispatch__ is not _C._disabled_torch_dispatch_impl
