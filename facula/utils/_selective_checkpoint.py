"""Save the results of some ops in forward, and return them in the second computation (selective checkpointing).

`checkpoint.create_selective_checkpoint_contexts` makes them with a state, which has the policy, the saved calls by function,
and the hooks of the checkpoint that they take part in.
"""

from __future__ import annotations

from .. import _C
from ..autograd.graph import saved_tensors_hooks

Tensor = _C.Tensor


class _SavedCall:
    """Hold the results of a call, and where each value that its derivative saves comes from."""

    def __init__(self):
        self.results = None  # None: not to be saved after all
        self.saved = []  # ("argument", position) or ("value", tensor)

    def describe(self, tensor, arguments, mutable):
        for i, argument in enumerate(arguments):
            if argument is tensor:
                self.saved.append(("argument", i))
                return
        self.saved.append(("value", tensor.detach() if mutable else (tensor.detach(), tensor._version)))

    def results_again(self, mutable):
        """Return the saved results as new tensors that require gradients where the first ones did."""
        for tensor, version, _ in self.results:
            if not mutable and tensor._version != version:
                raise RuntimeError(
                    "create_selective_checkpoint_contexts: a saved result was changed in place (allow_cache_entry_mutation "
                    f"permits that), got shape {tuple(tensor.shape)}"
                )
        return [tensor.detach().requires_grad_(needs) for tensor, _, needs in self.results]


def flat_tensors(value):
    from ._pytree import tree_flatten

    return [v for v in tree_flatten(value)[0] if isinstance(v, Tensor)]


def key_of(func):
    return getattr(func, "__qualname__", None) or repr(func)


def _may_be_saved(func, result):
    """Return whether a result may be saved: only results that are tensors, and not of calls that write to their arguments."""
    items = result if isinstance(result, (tuple, list)) else (result,)
    return all(isinstance(item, Tensor) for item in items) and not getattr(func, "__name__", "").endswith("_")


def selective_modes(state):
    from ..overrides import TorchFunctionMode

    class Save(TorchFunctionMode):
        """Save in forward the results that the policy selects."""

        is_recompute = False

        def bind(self, pack, unpack):
            state.pack, state.unpack = pack, unpack

        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if not state.saves(func, False, args, kwargs):
                return func(*args, **kwargs)
            call = _SavedCall()
            arguments = flat_tensors((args, kwargs))

            def pack(tensor):
                call.describe(tensor, arguments, state.mutable)
                return state.pack(tensor)

            with saved_tensors_hooks(pack, state.unpack):
                result = func(*args, **kwargs)
            if _may_be_saved(func, result):
                call.results = [(r.detach(), r._version, r.requires_grad) for r in flat_tensors(result)]
            state.calls.setdefault(key_of(func), []).append(call)
            return result

    class Reuse(TorchFunctionMode):
        """Return the saved results in the second computation."""

        is_recompute = True

        def __enter__(self):
            self.position = {}
            self.pack = None
            return super().__enter__()

        def bind(self, pack, unpack):
            self.pack = pack

        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if not state.saves(func, True, args, kwargs):
                return func(*args, **kwargs)
            calls, at = state.calls.get(key_of(func), []), self.position.get(key_of(func), 0)
            if at >= len(calls):
                raise state.error(
                    f"create_selective_checkpoint_contexts: {key_of(func)} ran {at + 1} times in the second computation, "
                    f"expected {len(calls)}"
                )
            self.position[key_of(func)] = at + 1
            if calls[at].results is None:
                return func(*args, **kwargs)
            return self.replay(calls[at], func, args, kwargs)

        def replay(self, call, func, args, kwargs):
            arguments = flat_tensors((args, kwargs))
            for source, value in call.saved:
                self.pack(arguments[value] if source == "argument" else value if state.mutable else value[0])
            results = call.results_again(state.mutable)
            return results[0] if len(results) == 1 else tuple(results)

    return Save(), Reuse()
