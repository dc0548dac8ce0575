"""Define the update rules of the core with ops: `differentiable=True` records them, and `capturable=True` runs them.

A rule maps (parameter, gradient, states, *numbers) to (parameter, states), all new; states that an optimizer leaves out are
None. The names and the order of the numbers are those of `src/kernels/optim_rules.h`, which makes the same steps in one pass.
"""

from __future__ import annotations

import facula
from facula import Tensor


def _sgd(p, g, states, lr, momentum, undamped, nesterov):
    (buffer,) = states or (None,)
    if buffer is None:
        return p - lr * g, states
    buffer = buffer * momentum + undamped * g
    return p - lr * (g + momentum * buffer if nesterov else buffer), (buffer,)


def _averages(p, g, states, shrink, rest1, beta2, rest2):
    m, v = states[:2]
    return p * shrink, m + rest1 * (g - m), v * beta2 + rest2 * g * g


def _adam(p, g, states, shrink, rest1, beta2, step_size, root_correction, eps, rest2):
    p, m, v = _averages(p, g, states, shrink, rest1, beta2, rest2)
    top = facula.maximum(states[2], v) if len(states) > 2 and states[2] is not None else None
    squares = v if top is None else top
    return p - step_size * m / (squares.sqrt() / root_correction + eps), (m, v, top)


def _adamax(p, g, states, rest1, beta2, rate, eps):
    m = states[0] + rest1 * (g - states[0])
    largest = facula.maximum(states[1] * beta2, g.abs() + eps)
    return p - rate * m / largest, (m, largest)


def _nadam(p, g, states, shrink, rest1, beta2, correction, eps, rate_gradient, rate_average):
    p, m, v = _averages(p, g, states, shrink, rest1, beta2, 1 - beta2)
    divisor = (v / correction).sqrt() + eps
    return p - rate_gradient * g / divisor - rate_average * m / divisor, (m, v)


def _radam(p, g, states, shrink, rest1, beta2, correction, eps, lr, rectified):
    p, m, v = _averages(p, g, states, shrink, rest1, beta2, 1 - beta2)
    step = m / correction * lr
    adapted = step * rectified / (v.sqrt() + eps)
    if isinstance(rectified, Tensor):
        return p - facula.where(rectified > 0, adapted, step), (m, v)
    return p - (adapted if rectified else step), (m, v)


def _adagrad(p, g, states, lr, eps):
    total = states[0] + g * g
    return p - lr * g / (total.sqrt() + eps), (total,)


def _adadelta(p, g, states, lr, rho, eps):
    squares = states[0] * rho + (1 - rho) * g * g
    delta = (states[1] + eps).sqrt() / (squares + eps).sqrt() * g
    return p - lr * delta, (squares, states[1] * rho + (1 - rho) * delta * delta)


def _rmsprop(p, g, states, lr, alpha, eps, momentum):
    squares, buffer, mean = states
    squares = squares * alpha + (1 - alpha) * g * g
    variance = squares
    if mean is not None:
        mean = mean + (1 - alpha) * (g - mean)
        variance = squares - mean * mean
    step = g / (variance.sqrt() + eps)
    if buffer is not None:
        step = buffer = buffer * momentum + step
    return p - lr * step, (squares, buffer, mean)


def _rprop(p, g, states, minus, plus, least, most):
    before, size = states
    product = g * before
    one = facula.ones_like(size)
    factor = facula.where(product > 0, one * plus, facula.where(product < 0, one * minus, one))
    size = (size * factor).clamp(least, most)
    g = facula.where(product < 0, facula.zeros_like(g), g)
    return p - g.sign() * size, (g, size)


def _asgd(p, g, states, shrink, eta, mu):
    p = p * shrink - eta * g
    return p, (p if not isinstance(mu, Tensor) and mu == 1 else states[0] + (p - states[0]) * mu,)


#: rule -> its function, whose further parameters name its numbers
RULES = {
    "sgd": _sgd, "adam": _adam, "adamax": _adamax, "nadam": _nadam, "radam": _radam, "adagrad": _adagrad,
    "adadelta": _adadelta, "rmsprop": _rmsprop, "rprop": _rprop, "asgd": _asgd,
}  # fmt: skip


def _real(t):
    return facula.view_as_real(t) if t is not None and t.is_complex() else t


def apply(rule: str, param, grad, states, numbers) -> None:
    """Make one step in ops: write the new values into `param` and `states` in place.

    Args:
        rule: a key of RULES.
        numbers: the sign of the gradient, the L2 weight decay, and the numbers of the rule.
    """
    sign, decay, *rest = numbers
    # Copies: what the rule saves for its derivative must not be written to below.
    p, g, *olds = (_real(t if t is None else t.clone()) for t in (param, grad, *states))
    g = g * sign
    g = g + decay * p if rule != "rprop" and not (isinstance(decay, (int, float)) and decay == 0) else g
    p, news = RULES[rule](p, g, tuple(olds), *rest)
    for target, new in ((param, p), *zip(states, news)):
        if target is not None:
            target.copy_(facula.view_as_complex(new) if target.is_complex() else new)
