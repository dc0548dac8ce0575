"""Define an optimizer whose parameters are averaged over processes in some steps."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from facula.distributed.algorithms.model_averaging.averagers import ModelAverager
from facula.optim import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Step as `optim` does, and then let the averager average the parameters. The state_dict contains the averager's
    step.

    Args:
        optim: the optimizer of this process.
        averager: when and over whom parameters are averaged, a ModelAverager.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> from torch.distributed.optim import PostLocalSGDOptimizer
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> layer = nn.Linear(4, 2)
    >>> inner = torch.optim.SGD(layer.parameters(), lr=0.1)
    >>> optimizer = PostLocalSGDOptimizer(inner, PeriodicModelAverager(period=4, warmup_steps=100))
    >>> layer(torch.ones(1, 4)).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state_dict()["step"]
    1
    >>> dist.destroy_process_group()
    """

    optim: Optimizer
    averager: ModelAverager

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups: list[dict[str, Any]] = optim.param_groups

    @property
    def state(self) -> Any:
        """The state of the optimizer inside."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state, with the averager's step under "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` gave; without "step", a warning, and the averager begins at 0.

        Args:
            state_dict: what was saved.
        """
        state = dict(state_dict)
        step = state.pop("step", None)
        self.optim.load_state_dict(state)
        if step is None:
            warnings.warn("PostLocalSGDOptimizer.load_state_dict: there is no 'step', the averager begins at 0")
        self.averager.step = step or 0

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Make one step of the optimizer, and of the averager.

        Args:
            closure: what the optimizer's step takes.

        Returns: what the optimizer's step returns.
        """
        result = self.optim.step(closure)
        self.averager.average_parameters(self.optim.param_groups)
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do as the optimizer does.

        Args:
            set_to_none: whether gradients become None rather than zeros.
        """
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: Any) -> None:
        """Do as the optimizer does.

        Args:
            param_group: a dict with `params` and options.
        """
        self.optim.add_param_group(param_group)
