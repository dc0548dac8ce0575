"""Scale losses, so that gradients in float16 do not vanish.

The scale grows by `growth_factor` after `growth_interval` steps in a row without infinite or NaN gradients. It shrinks
by `backoff_factor` after a step with some, and that step is left out. On a CUDA device only `step` waits for the
device, because it must know whether the step is left out.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

import facula
from facula import Tensor
from facula.functions.scaling import _amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_

if TYPE_CHECKING:
    from typing import Any

    from facula.optim.optimizer import Optimizer
    from facula.types import Device

__all__ = ["OptState", "GradScaler"]


class OptState(Enum):
    """Name what has been done with an optimizer since the last update: READY (nothing), UNSCALED or STEPPED.

    >>> torch.amp.grad_scaler.OptState.READY.value
    0
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _found_by_any(found_inf, grads) -> None:
    """Tell all processes what one has found in its parts of DTensors."""
    groups = dict.fromkeys(group for g in grads if hasattr(g, "device_mesh") for group in g.device_mesh.get_all_groups())
    for group in groups:
        facula.distributed.all_reduce(found_inf, facula.distributed.ReduceOp.MAX, group=group)


class GradScaler:
    """Multiply losses by a scale, divide gradients by it before the step, and adapt it, so that float16 gradients do
    not vanish.

    Args:
        device: "cuda" or "cpu"; for "cuda" without such a device the scaler is disabled, with a UserWarning.
        init_scale: the first scale.
        growth_factor: above 1: the factor of the scale after enough good steps.
        backoff_factor: below 1: the factor of the scale after an overflow, whose step is left out.
        growth_interval: good steps in a row after which the scale grows.
        enabled: False makes every method a plain call of what it stands for.

    Errors: AssertionError for a growth_factor of at most 1, and a backoff_factor of at least 1.

    >>> weight = nn.Parameter(torch.ones(1))
    >>> optimizer = torch.optim.SGD([weight], lr=0.1)
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(weight * 2).backward()
    >>> weight.grad
    tensor([16.])
    >>> scaler.unscale_(optimizer)  # only to see or clip gradients before the step
    >>> weight.grad
    tensor([2.])
    >>> result = scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.data, scaler.get_scale(), scaler.is_enabled()
    (tensor([0.8000]), 8.0, True)
    >>> scaler.set_growth_factor(4.0), scaler.set_backoff_factor(0.25), scaler.set_growth_interval(100)
    (None, None, None)
    >>> scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()
    (4.0, 0.25, 100)
    >>> other = torch.amp.GradScaler("cpu")
    >>> other.load_state_dict(scaler.state_dict())
    >>> other.get_scale()
    8.0
    """

    def __init__(self, device: Device = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:  # fmt: skip
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not facula.cuda.is_available():
            warnings.warn("GradScaler: there is no CUDA device; the scaler is disabled", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if not growth_factor > 1.0:
            raise AssertionError(f"GradScaler: growth_factor must be above 1.0, got {growth_factor}")
        if not backoff_factor < 1.0:
            raise AssertionError(f"GradScaler: backoff_factor must be below 1.0, got {backoff_factor}")
        self._init_scale = init_scale
        self._scale = None  # made by the first scale()
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker = None
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _check_scale_growth_tracker(self, funcname):
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"GradScaler.{funcname}: scale(loss) must be called before, got no call of it: backpropagate "
                "scaler.scale(loss), not the loss"
            )
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev):
        if self._growth_tracker is not None:
            raise AssertionError("GradScaler.scale: the first call makes the scale, got one with a growth tracker already")
        self._scale = facula.full((), self._init_scale, dtype=facula.float32, device=dev)
        self._growth_tracker = facula.full((), self._init_growth_tracker, dtype=facula.int32, device=dev)

    def scale(self, outputs: Any) -> Tensor | Any:
        """Return the tensor `outputs` times the scale; of an iterable of tensors each. ValueError for anything else.

        Args:
            outputs: a tensor, or an iterable of them, as losses.

        Returns: tensors of the same shapes.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if not isinstance(outputs, Iterable):
            raise ValueError(f"GradScaler.scale: expected a tensor or an iterable of them, got {type(outputs).__name__}")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        grads = defaultdict(list)
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not allow_fp16 and p.grad.dtype == facula.float16:
                    raise ValueError("GradScaler.unscale_: gradients in float16 cannot be unscaled, got a parameter in float16")
                grads[p.grad.device].append(p.grad)
        found = {}
        with facula.no_grad():
            for device, members in grads.items():
                # A copy, since `to` returns the tensor itself on its own device and every device has a result of its
                # own.
                found[device] = found_inf.to(device, copy=True)
                parts = [g.to_local() if hasattr(g, "device_mesh") else g for g in members]
                _amp_foreach_non_finite_check_and_unscale_(parts, found[device], inv_scale.to(device))
                _found_by_any(found[device], members)
        return found

    def _measure(self, optimizer, inv_scale, allow_fp16):
        """Unscale and remember on which devices gradients were infinite or NaN."""
        zero = facula.full((), 0.0, dtype=facula.float32, device=self._scale.device)
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inv_scale, zero, allow_fp16)
        return state["found_inf_per_device"]

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, for clipping and the like before step().

        RuntimeError when called twice before update(), or after step(); ValueError for gradients in float16.

        Args:
            optimizer: the optimizer whose gradients are divided.
        """
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("GradScaler.unscale_: expected one call for an optimizer between updates, got a second")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("GradScaler.unscale_: it must be called before step(), got a call after it")
        # The reciprocal of a large float32 scale could lose digits, so it is computed in float64.
        self._measure(optimizer, self._scale.double().reciprocal().float(), False)
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Unscale unless done, then `optimizer.step(*args, **kwargs)` unless a gradient is infinite or NaN.

        Args:
            optimizer: the optimizer.
            args, kwargs: what its step is called with.

        Returns: what that returns, None when left out.

        Errors: RuntimeError for a closure, and when called twice before update().
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: a closure is not supported while the scaler is enabled")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("GradScaler.step: expected one call for an optimizer between updates, got a second")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_of_scaling_optimizer(optimizer, state, args, kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            if not state["found_inf_per_device"]:
                raise AssertionError(
                    "GradScaler.step: a gradient is needed, got none in the optimizer (call backward() before): no inf "
                    "checks were recorded"
                )
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_of_scaling_optimizer(self, optimizer, state, args, kwargs):
        """Step optimizers that unscale and check themselves: they find `grad_scale` and `found_inf` as attributes."""
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        found = list(state["found_inf_per_device"].values())
        optimizer.grad_scale = None if state["stage"] is OptState.UNSCALED else self._scale.clone()
        # A sum and not a test: the host does not wait for the device.
        optimizer.found_inf = sum(found[1:], found[0]) if found else facula.zeros(())
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | None = None) -> None:
        """Adapt the scale to the steps since the last update, or set it to `new_scale`, a number or a float tensor of one
        element.

        AssertionError where no step() was called, or scale() never was.

        Args:
            new_scale: the scale, a number or a float tensor of one element; None to adapt it.
        """
        if not self._enabled:
            return
        scale, growth_tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            self._set_scale(scale, new_scale)
        else:
            found = [f for state in self._per_optimizer_states.values() for f in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError(
                    "GradScaler.update: step(optimizer) must be called before, got no call of it: no inf checks were "
                    "recorded"
                )
            total = sum((f.to(scale.device) for f in found[1:]), found[0].to(scale.device))
            factors = self._growth_factor, self._backoff_factor, self._growth_interval
            _amp_update_scale_(scale, growth_tracker, total, *factors)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    @staticmethod
    def _set_scale(scale, new_scale):
        if isinstance(new_scale, (int, float)):
            scale.fill_(new_scale)
            return
        usable = isinstance(new_scale, Tensor) and new_scale.numel() == 1 and new_scale.is_floating_point()
        if not usable or new_scale.requires_grad:
            raise AssertionError(
                "update: expected new_scale as a float or as a float tensor of one element without gradient, "
                f"got {new_scale!r}"
            )
        scale.copy_(new_scale.reshape(()))

    def _get_scale_async(self):
        return self._scale

    def get_scale(self) -> float:
        """Return the scale as a Python float; 1.0 when disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> Any:
        """Return the factor of the scale after enough steps without overflow."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: Any) -> None:
        """Set to `new_factor` the factor of the scale after enough steps without overflow.

        Args:
            new_factor: a number above 1.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> Any:
        """Return the factor of the scale after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: Any) -> None:
        """Set to `new_factor` the factor of the scale after an overflow.

        Args:
            new_factor: a number below 1.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> Any:
        """Return the steps without overflow after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: Any) -> None:
        """Set to `new_interval` the steps in a row without overflow after which the scale grows.

        Args:
            new_interval: how many steps.
        """
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        """Return whether losses are scaled at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale, its options and the count of good steps; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what state_dict gave. RuntimeError for that of a disabled scaler.

        Args:
            state_dict: the dict.
        """
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError("load_state_dict: expected the state of an enabled GradScaler, got an empty dict")
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> Any:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError("GradScaler: can be pickled only at the beginning of an iteration or after update()")
            state.update(_init_scale=self.get_scale(), _init_growth_tracker=self._get_growth_tracker())
            # The first scale() after loading makes them anew, on the device of its loss.
            state.update(_scale=None, _growth_tracker=None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer):
        self._check_scale_growth_tracker("_check_inf_per_device")
        # A division by 1 leaves the gradients as they are: only the check is wanted.
        one = facula.full((), 1.0, dtype=facula.float32, device=self._scale.device)
        return self._measure(optimizer, one, True)

    def _found_inf_per_device(self, optimizer):
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
