"""Steps on lists of parameters, gradients and states: what `adam.adam`, `sgd.sgd` and their like share."""

from __future__ import annotations

import facula

from ._checks import check_flags, check_step
from ._rule_optimizer import check_layout, counted, run_steps


def step_lists(rule, group, params, grads, states, state_steps, grad_scale=None, found_inf=None) -> None:
    """One step of every parameter, with a method of the optimizer class `rule`.

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
                    steps.append(rule._update(rule, group, param, grad, state, step))
                if "momentum_buffer" in state and "momentum_buffer" in states:
                    states["momentum_buffer"][i] = state["momentum_buffer"]
        finally:
            run_steps(steps)
