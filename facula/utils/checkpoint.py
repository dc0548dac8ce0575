"""Trade time for memory (checkpointing): values inside the checkpointed part are dropped and computed again in
backward.

Long because PyTorch has all forms of checkpointing in one file of this name.
"""

from __future__ import annotations

import contextlib
import enum
import warnings
from typing import TYPE_CHECKING

from .. import _C
from ..amp.autocast_mode import current_regions
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ._checkpoint_logs import DebugLogs
from ._selective_checkpoint import flat_tensors, key_of, selective_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = [
    "checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity",
    "detach_variable",
    "get_device_states", "set_device_states", "noop_context_fn", "set_checkpoint_early_stop", "DefaultDeviceType",
    "set_checkpoint_debug_enabled", "CheckpointPolicy", "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]  # fmt: skip


# ---- Random states of all devices, which the second computation of a checkpoint needs as they were at the first


class DefaultDeviceType:
    """Choose the device type whose random state is saved beside the CPU's.

    >>> torch.utils.checkpoint.DefaultDeviceType.set_device_type("cuda")
    >>> torch.utils.checkpoint.DefaultDeviceType.get_device_type()
    'cuda'
    """

    _type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose the device type, `device`."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the device type chosen."""
        return DefaultDeviceType._type


def _states_of(indices, kind):
    """Return the random states of the devices of a kind with the given numbers."""
    module = _device_module(kind)
    return [module.get_rng_state(index) for index in indices]


def get_device_states(*args: Any) -> tuple[list[Any], list[Any]]:
    """Return the numbers of the accelerators that hold the tensors in `args`, and their random states.

    Accelerators are those of the type that `DefaultDeviceType` names; nested lists, tuples and dicts are looked into.

    >>> torch.utils.checkpoint.get_device_states(torch.ones(2))
    ([], [])
    """
    kind = DefaultDeviceType.get_device_type()
    found = {t.device.index or 0 for t in flat_tensors(args) if t.device.type == kind and kind not in ("cpu", "meta")}
    indices = sorted(found)
    return indices, _states_of(indices, kind)


def set_device_states(devices: Sequence[Any], states: Any, *, device_type: str | None = None) -> None:
    """Put back random states of accelerators.

    Args:
        devices, states: what get_device_states returned.
        device_type: the type of the devices. Default: that of `DefaultDeviceType`.

    >>> torch.utils.checkpoint.set_device_states(*torch.utils.checkpoint.get_device_states(torch.ones(2)))
    """
    kind = device_type or DefaultDeviceType.get_device_type()
    if kind in ("cpu", "meta"):
        return  # the CPU's generator has a state of its own, and meta tensors draw nothing
    module = _device_module(kind)
    for device, state in zip(devices, states, strict=True):
        module.set_rng_state(state, device)


def _device_module(kind):
    """Return the module of a kind of device, such as facula.cuda."""
    from ..functions.device import get_device_module

    return get_device_module(kind)


def _random_states():
    """Return the states of the CPU's generator and of every accelerator's."""
    kind = DefaultDeviceType.get_device_type()
    if kind in ("cpu", "meta"):
        return _C.default_generator.get_state(), kind, []
    module = _device_module(kind)
    # Reading the state would initialize CUDA; without it, nothing has been drawn on a device.
    if not module.is_available() or (kind == "cuda" and not module.is_initialized()):
        return _C.default_generator.get_state(), kind, []
    if kind == "cuda" and module.is_current_stream_capturing():
        raise RuntimeError(
            "checkpoint: expected preserve_rng_state=False while a CUDA graph is captured, since random states cannot be put "
            "back there, got preserve_rng_state=True"
        )
    return _C.default_generator.get_state(), kind, _states_of(range(module.device_count()), kind)


def _put_back(states):
    state, kind, of_devices = states
    _C.default_generator.set_state(state)
    set_device_states(range(len(of_devices)), of_devices, device_type=kind)


Tensor = _C.Tensor


# ---- Selective checkpointing: results of some ops are saved instead of computed again


class CheckpointPolicy(enum.Enum):
    """Name whether selective checkpointing saves the result of an op or computes it again.

    MUST_SAVE and PREFER_SAVE save it, MUST_RECOMPUTE and PREFER_RECOMPUTE do not: the PREFER policies are taken as the MUST
    policies of the same name. MUST_CPU_OFFLOAD is not supported: NotImplementedError.

    >>> torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE.value
    0
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class SelectiveCheckpointContext:
    """Describe a call for a policy function, which receives this object as its first argument.

    Args:
        is_recompute: True in the second computation.
        op_output: the result of the op, when it ran; else None.

    >>> torch.utils.checkpoint.SelectiveCheckpointContext(is_recompute=True).is_recompute
    True
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class CheckpointError(RuntimeError):
    """Report that the second computation saved other tensors than the first."""


class _SelectiveState:
    """Hold the saved calls of one checkpoint by function, in the order in which they ran."""

    error = CheckpointError  # for a second computation that differs

    def __init__(self, policy, mutable):
        self.policy = policy
        self.mutable = mutable
        self.calls = {}
        self.pack = self.unpack = None  # those of the checkpoint

    def saves(self, func, is_recompute, args, kwargs):
        policy = self.policy(SelectiveCheckpointContext(is_recompute=is_recompute), func, *args, **kwargs)
        if isinstance(policy, bool):
            return policy
        if policy == CheckpointPolicy.MUST_CPU_OFFLOAD:
            raise NotImplementedError("create_selective_checkpoint_contexts: the policy MUST_CPU_OFFLOAD is not supported")
        return policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


def create_selective_checkpoint_contexts(policy_fn_or_list: Callable[..., Any] | Sequence[Callable[..., Any]],
                                         allow_cache_entry_mutation: bool = False) -> tuple[Any, Any]:  # fmt: skip
    """Return contexts for `context_fn` of checkpoint(use_reentrant=False) that save the results of some ops instead of
    computing them again.

    Args:
        policy_fn_or_list: `policy_fn(ctx, op, *args, **kwargs)` gives a CheckpointPolicy (or True to save); a list
            names the functions (such as `facula.matmul` or `facula.Tensor.matmul`) whose results are saved.
        allow_cache_entry_mutation: if True, saved results may be changed in place.

    An op is a public function or method, as modes of `__torch_function__` see it; one that returns anything but a
    tensor or a tuple of tensors is always computed again.

    >>> import functools
    >>> from facula.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> save_products = functools.partial(create_selective_checkpoint_contexts, [torch.mm])
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> y = checkpoint(lambda x: torch.mm(x, x).exp(), x, use_reentrant=False, context_fn=save_products)
    >>> y.sum().backward()
    >>> x.grad.shape
    torch.Size([2, 2])
    """
    if callable(policy_fn_or_list):
        policy = policy_fn_or_list
    elif isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not callable(op):
                raise ValueError(
                    "create_selective_checkpoint_contexts: expected a list of functions, got an element of type "
                    f"{type(op).__name__}"
                )
        names = {key_of(op) for op in policy_fn_or_list}

        def policy(ctx, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if key_of(op) in names else CheckpointPolicy.PREFER_RECOMPUTE
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts: expected a function or a list of ops as the policy, got "
            f"{type(policy_fn_or_list).__name__}"
        )
    return selective_modes(_SelectiveState(policy, allow_cache_entry_mutation))


# What the contexts below say, before the arguments of checkpoint(): None leaves it to those.
_early_stop = None
_debug = None


class _StopRecomputation(Exception):
    """End the second computation early: all saved values exist, so the rest of the function need not run."""


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool):
    """Return a context manager that overrides the `early_stop` argument of the calls of checkpoint within by `enable`.

    >>> from facula.utils.checkpoint import checkpoint, set_checkpoint_early_stop
    >>> x = torch.ones(2, requires_grad=True)
    >>> with set_checkpoint_early_stop(False):  # the second computation goes on to the end of the function
    ...     y = checkpoint(torch.exp, x, use_reentrant=False)
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None):
    """Return a context manager that overrides the `debug` argument of the calls of checkpoint within by `enabled`; None leaves
    it alone.

    >>> from facula.utils.checkpoint import checkpoint, set_checkpoint_debug_enabled
    >>> x = torch.ones(2, requires_grad=True)
    >>> with set_checkpoint_debug_enabled(True):
    ...     y = checkpoint(torch.exp, x, use_reentrant=False)
    """
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def noop_context_fn() -> tuple[Any, Any]:
    """Return two contexts that change nothing, for forward and recomputation: the default of `context_fn`.

    >>> first, second = torch.utils.checkpoint.noop_context_fn()
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: Any) -> tuple[Tensor, ...]:
    """Return the tensors as leaves of a graph of their own, other values as they are.

    Args:
        inputs: a tuple; RuntimeError for anything else.

    >>> x = torch.ones(2, requires_grad=True) * 2
    >>> leaf, number = torch.utils.checkpoint.detach_variable((x, 3))
    >>> leaf.is_leaf, leaf.requires_grad, number
    (True, True, 3)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"detach_variable: only a tuple of tensors is supported, got {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Any) -> None:
    """Warn (UserWarning) when none of the `inputs` is a tensor that requires a gradient.

    >>> torch.utils.checkpoint.check_backward_validity([torch.ones(2, requires_grad=True)])
    """
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn("checkpoint: no input requires a gradient, so none will get one", stacklevel=2)


class _Surroundings:
    """Record the present autocast regions and random states, and restore them for a second computation.

    The function may draw on any accelerator, whatever its arguments are on, so the states of all are saved: 16 bytes each,
    in host memory.
    """

    def __init__(self, preserve_rng_state):
        self.regions = current_regions()
        self.states = _random_states() if preserve_rng_state else None

    @contextlib.contextmanager
    def replayed(self):
        with contextlib.ExitStack() as regions:
            for region in self.regions:
                regions.enter_context(region)
            if self.states is None:
                yield
                return
            before = _random_states()
            _put_back(self.states)
            try:
                yield
            finally:
                _put_back(before)


class CheckpointFunction(Function):
    """Implement the re-entrant kind: forward without recording, then a second forward and a backward of its own in
    backward.

    Args:
        args, kwargs: none are taken: a Function is not instantiated, but used as `apply(function, preserve_rng_state, *args)`.

    >>> x = torch.zeros(2, requires_grad=True)
    >>> torch.utils.checkpoint.CheckpointFunction.apply(torch.exp, True, x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any] | Module, preserve_rng_state: bool, *args: Any) -> Tensor:
        """Run the function without recording; save its inputs and the random state."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state)
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor | Any:
        """Run the function again, recorded, and differentiate it."""
        from ..autograd import backward

        if _C._restricted_pass_runs():  # the backward below would fill .grad of leaves that nobody asked for
            raise RuntimeError(
                "checkpoint: with use_reentrant=True only backward() without `inputs` can pass through, got a pass for "
                "some inputs (use_reentrant=False allows it)"
            )
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.tensor_indices, ctx.saved_tensors):
            inputs[i] = tensor
        own = detach_variable(tuple(inputs))
        with ctx.surroundings.replayed(), enable_grad():
            outputs = ctx.run_function(*own)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("checkpoint: some output must require a gradient, got none that does")
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in own))


class _Frame:
    """Hold everything that computes the saved values of one checkpointed call again."""

    def __init__(self, run, surroundings, describe, early_stop, logs):
        self.run = run
        self.surroundings = surroundings
        self.describe = describe  # what of a value must agree, or None
        self.early_stop = early_stop
        self.logs = logs  # a DebugLogs, or None
        self.described = []  # (shape, dtype, device) of each saved value, in order
        self.complete = False  # whether the first computation is over: a pass inside of it asks for what it saved so far
        self.recomputed = {}  # pass -> {position: value}

    def values(self, key):
        if key not in self.recomputed:
            self.recomputed.clear()  # values of an earlier pass, which nobody reads any more
            found = {}
            self.compute(found)
            if not key:  # asked for outside of a pass, after which nobody would let them go
                return found
            self.recomputed[key] = found
        return self.recomputed[key]

    def compute(self, found):
        position = 0

        def pack(tensor):
            nonlocal position
            if position < len(self.described):
                found[position] = tensor.detach()
            position += 1
            if self.early_stop and position == len(self.described):
                raise _StopRecomputation  # everything that backward needs is there
            return tensor.detach()

        with contextlib.suppress(_StopRecomputation), self.surroundings.replayed(), enable_grad():
            with saved_tensors_hooks(pack, _same), self.logs.of_second if self.logs else contextlib.nullcontext():
                self.run(pack)
        try:
            self.check(found, position)
        except CheckpointError as error:
            if self.logs is None:
                raise
            raise CheckpointError(self.logs.report()) from error

    def check(self, found, count):
        if count < len(self.described) or (self.complete and count > len(self.described)):
            raise CheckpointError(
                "checkpoint: the second computation must save as many tensors as the first, "
                f"expected {len(self.described)}, got {count}"
            )
        if self.describe is None:
            return
        for i, expected in enumerate(self.described):
            got = self.describe(found[i])
            if got != expected:
                raise CheckpointError(
                    f"checkpoint: the second computation must save tensors like those of the first, at tensor {i} "
                    f"expected {expected}, got {got}"
                )


def _same(value):
    return value


def _bind(context, pack, unpack):
    """Let selective contexts take part in what is saved."""
    if hasattr(context, "bind"):
        context.bind(pack, unpack)


def _metadata(tensor):
    return tuple(tensor.shape), str(tensor.dtype), str(tensor.device)


_CHECKS = {"default": _metadata, "none": None}


def _without_reentry(function, frame_options, context_fn, determinism_check, args, kwargs):
    if determinism_check not in _CHECKS:
        raise ValueError(f"checkpoint: determinism_check must be {_C._one_of(determinism_check, _CHECKS)}")
    preserve_rng_state, early_stop, debug = frame_options
    if debug and context_fn is not noop_context_fn:
        raise ValueError("checkpoint: debug=True allows no context_fn, got both")
    forward_context, recompute_context = context_fn()

    def run(pack):
        with recompute_context:
            _bind(recompute_context, pack, _same)
            function(*args, **kwargs)

    logs = DebugLogs() if debug else None
    frame = _Frame(run, _Surroundings(preserve_rng_state), _CHECKS[determinism_check], early_stop, logs)

    def pack(tensor):
        frame.described.append(_metadata(tensor))
        return len(frame.described) - 1

    def unpack(position):
        values = frame.values(_C._pass_id())
        if position not in values:
            raise CheckpointError(f"checkpoint: the second computation did not save tensor {position}")
        return values[position]

    _bind(forward_context, pack, unpack)
    with saved_tensors_hooks(pack, unpack), forward_context, logs.of_first if logs else contextlib.nullcontext():
        result = function(*args, **kwargs)
    frame.complete = True
    return result


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[..., Any] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Tensor:
    """Call `function(*args, **kwargs)` without saving the values that backward needs; backward calls it again.

    Args:
        function: is called twice, and must compute the same both times.
        args, kwargs: what it is called with.
        use_reentrant: False records as usual but drops saved values; True runs a backward inside backward, needs an input that
            requires a gradient and takes no keyword arguments. Give it explicitly.
        context_fn: gives two context managers, for the first and for the second call.
        determinism_check: "default" compares shapes, dtypes and devices of saved values, "none" does not.
        debug: the error of a second call that differs lists the functions that ran in both, and from where.
        early_stop: the second call ends as soon as all saved values are there.
        preserve_rng_state: the second call sees the same random numbers.

    Errors: CheckpointError when the second call saves other tensors than the first; ValueError for arguments that do not go
    together.

    >>> layer = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    >>> x = torch.ones(2, 3, requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
    >>> x.grad.shape
    torch.Size([2, 3])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: say use_reentrant=True or False (better False), got neither and took True",
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        if not _C.is_grad_enabled():
            return function(*args, **kwargs)
        options = (
            preserve_rng_state,
            early_stop if _early_stop is None else _early_stop,
            debug if _debug is None else _debug,
        )
        return _without_reentry(function, options, context_fn, determinism_check, args, kwargs)
    if kwargs:
        raise ValueError(f"checkpoint: unexpected keyword arguments, got {', '.join(kwargs)}")
    if context_fn is not noop_context_fn or debug:
        raise ValueError("checkpoint: context_fn and debug need use_reentrant=False, got True")
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def checkpoint_sequential(functions: Module | Sequence[Callable[..., Any]], segments: int, input: Tensor,
                          use_reentrant: bool | None = None, **kwargs: Any) -> Tensor:  # fmt: skip
    """Call a sequence of functions in `segments` checkpointed parts; the last part is recorded as usual.

    Args:
        functions: a Sequential, or a list of modules or functions of one argument.
        segments: how many parts; each has as many functions, the last the rest.
        input: what the first function gets.
        use_reentrant: as of `checkpoint`. Give it explicitly.
        kwargs: `preserve_rng_state`, as of `checkpoint`; ValueError for others.

    >>> layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU())
    >>> x = torch.ones(2, 3, requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False).sum().backward()
    >>> x.grad.shape
    torch.Size([2, 3])
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"checkpoint_sequential: unexpected keyword arguments, got {', '.join(kwargs)}")
    if use_reentrant is None:
        warnings.warn("checkpoint_sequential: say use_reentrant=True or False, got neither and took True", stacklevel=2)
        use_reentrant = True
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(functions) // segments

    def part(start, end):
        def run(x):
            for function in functions[start:end]:
                x = function(x)
            return x

        return run

    end = 0
    for start in range(0, size * (segments - 1), size or 1):
        end = start + size
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(end, len(functions))(input)
