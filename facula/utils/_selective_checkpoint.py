"""Selective checkpointing: results of some ops are kept instead of computed again."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .. import _C
from ..autograd.graph import saved_tensors_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

Tensor = _C.Tensor


class CheckpointPolicy(enum.Enum):
    """Whether selective checkpointing keeps the result of an op or computes it again.

    MUST_SAVE and PREFER_SAVE keep it, MUST_RECOMPUTE and PREFER_RECOMPUTE do not: the PREFER policies are taken as the MUST
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
    """What a policy function is told, its first argument.

    Args:
        is_recompute: whether this is the second computation.
        op_output: the result of the op, when it ran; else None.

    >>> torch.utils.checkpoint.SelectiveCheckpointContext(is_recompute=True).is_recompute
    True
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _KeptCall:
    """A call whose result is kept: the results, and where each value that its derivative saves comes from."""

    def __init__(self):
        self.results = None  # None: not to be kept after all
        self.saved = []  # ("argument", position) or ("value", tensor)

    def describe(self, tensor, arguments, mutable):
        for i, argument in enumerate(arguments):
            if argument is tensor:
                self.saved.append(("argument", i))
                return
        self.saved.append(("value", tensor.detach() if mutable else (tensor.detach(), tensor._version)))

    def results_again(self, mutable):
        """The kept results as new tensors that require gradients where the first ones did."""
        for tensor, version, _ in self.results:
            if not mutable and tensor._version != version:
                raise RuntimeError(
                    "create_selective_checkpoint_contexts: a kept result was changed in place (allow_cache_entry_mutation "
                    f"permits that), got shape {tuple(tensor.shape)}"
                )
        return [tensor.detach().requires_grad_(needs) for tensor, _, needs in self.results]


def _flat_tensors(value):
    from ._pytree import tree_flatten

    return [v for v in tree_flatten(value)[0] if isinstance(v, Tensor)]


class _SelectiveState:
    """The kept calls of one checkpoint, by function, in the order in which they ran."""

    def __init__(self, policy, mutable):
        self.policy = policy
        self.mutable = mutable
        self.calls = {}
        self.pack = self.unpack = None  # those of the checkpoint

    def keeps(self, func, is_recompute, args, kwargs):
        policy = self.policy(SelectiveCheckpointContext(is_recompute=is_recompute), func, *args, **kwargs)
        if isinstance(policy, bool):
            return policy
        if policy == CheckpointPolicy.MUST_CPU_OFFLOAD:
            raise NotImplementedError("create_selective_checkpoint_contexts: the policy MUST_CPU_OFFLOAD is not supported")
        return policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


def _key(func):
    return getattr(func, "__qualname__", None) or repr(func)


def _may_be_kept(func, result):
    """Only results that are tensors, and not of calls that write to their arguments."""
    items = result if isinstance(result, (tuple, list)) else (result,)
    return all(isinstance(item, Tensor) for item in items) and not getattr(func, "__name__", "").endswith("_")


def _selective_modes(state):
    from ..overrides import TorchFunctionMode

    class Keep(TorchFunctionMode):
        """In forward: keeps what the policy says."""

        is_recompute = False

        def bind(self, pack, unpack):
            state.pack, state.unpack = pack, unpack

        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if not state.keeps(func, False, args, kwargs):
                return func(*args, **kwargs)
            call = _KeptCall()
            arguments = _flat_tensors((args, kwargs))

            def pack(tensor):
                call.describe(tensor, arguments, state.mutable)
                return state.pack(tensor)

            with saved_tensors_hooks(pack, state.unpack):
                result = func(*args, **kwargs)
            if _may_be_kept(func, result):
                call.results = [(r.detach(), r._version, r.requires_grad) for r in _flat_tensors(result)]
            state.calls.setdefault(_key(func), []).append(call)
            return result

    class Reuse(TorchFunctionMode):
        """In the second computation: hands out what was kept."""

        is_recompute = True

        def __enter__(self):
            self.position = {}
            self.pack = None
            return super().__enter__()

        def bind(self, pack, unpack):
            self.pack = pack

        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if not state.keeps(func, True, args, kwargs):
                return func(*args, **kwargs)
            calls, at = state.calls.get(_key(func), []), self.position.get(_key(func), 0)
            if at >= len(calls):
                from .checkpoint import CheckpointError

                raise CheckpointError(
                    f"create_selective_checkpoint_contexts: {_key(func)} ran {at + 1} times in the second computation, "
                    f"expected {len(calls)}"
                )
            self.position[_key(func)] = at + 1
            if calls[at].results is None:
                return func(*args, **kwargs)
            return self.replay(calls[at], func, args, kwargs)

        def replay(self, call, func, args, kwargs):
            arguments = _flat_tensors((args, kwargs))
            for source, value in call.saved:
                self.pack(arguments[value] if source == "argument" else value if state.mutable else value[0])
            results = call.results_again(state.mutable)
            return results[0] if len(results) == 1 else tuple(results)

    return Keep(), Reuse()


def create_selective_checkpoint_contexts(policy_fn_or_list: Callable[..., Any] | Sequence[Callable[..., Any]],
                                         allow_cache_entry_mutation: bool = False) -> tuple[Any, Any]:  # fmt: skip
    """For `context_fn` of checkpoint(use_reentrant=False): the results of some ops are kept instead of computed again.

    Args:
        policy_fn_or_list: `policy_fn(ctx, op, *args, **kwargs)` gives a CheckpointPolicy (or whether to keep); a list
            names the functions (such as `facula.matmul` or `facula.Tensor.matmul`) whose results are kept.
        allow_cache_entry_mutation: kept results may be changed in place.

    An op is a public function or method, as modes of `__torch_function__` see it; one that returns anything but a
    tensor or a tuple of tensors is always computed again.

    >>> import functools
    >>> from facula.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> keep_products = functools.partial(create_selective_checkpoint_contexts, [torch.mm])
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> y = checkpoint(lambda x: torch.mm(x, x).exp(), x, use_reentrant=False, context_fn=keep_products)
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
        names = {_key(op) for op in policy_fn_or_list}

        def policy(ctx, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if _key(op) in names else CheckpointPolicy.PREFER_RECOMPUTE
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts: expected a function or a list of ops as the policy, got "
            f"{type(policy_fn_or_list).__name__}"
        )
    return _selective_modes(_SelectiveState(policy, allow_cache_entry_mutation))
