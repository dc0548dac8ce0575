"""Step parameters in backward passes, each as soon as its gradient is complete."""

from __future__ import annotations

__all__: list[str] = []


def _apply_optimizer_in_backward(optimizer_class, params, optimizer_kwargs, register_hook: bool = True) -> None:
    """Give every parameter an optimizer of its own, which steps it in each backward pass and takes its gradient away.

    Args:
        optimizer_class, optimizer_kwargs: what makes an optimizer.
        params: the parameters; one may get several optimizers, which step in order.
        register_hook: False only makes the optimizers, for those who step them themselves.
    """
    for param in params:
        first = not hasattr(param, "_in_backward_optimizers")
        if first:
            param._in_backward_optimizers, param._optimizer_classes, param._optimizer_kwargs = [], [], []
        param._in_backward_optimizers.append(optimizer_class([param], **optimizer_kwargs))
        param._optimizer_classes.append(optimizer_class)
        param._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook and not getattr(param, "_steps_in_backward", False):
            param._steps_in_backward = True
            param.register_post_accumulate_grad_hook(_step)


def _step(param) -> None:
    for optimizer in param._in_backward_optimizers:
        optimizer.step()
    param.grad = None


def _get_in_backward_optimizers(module) -> list:
    """Return the optimizers of a module's parameters, for checkpoints."""
    return [o for p in module.parameters() for o in getattr(p, "_in_backward_optimizers", [])]
