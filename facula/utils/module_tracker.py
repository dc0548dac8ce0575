"""Track which modules run at the moment, in forward and in backward."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import facula
from facula.autograd import Variable
from facula.autograd.graph import register_multi_grad_hook
from facula.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from facula.utils import _pytree

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Hold in `parents` the names of the modules that run at the moment, in forward and in backward, during a block.

    `is_bw` is True while `parents` describes a backward pass. A name consists of the class of the outermost module and
    the path from there: "Net.encoder.0". "Global" is always one of the names.

    Example::

        >>> with torch.utils.module_tracker.ModuleTracker() as tracker:
        ...     net = torch.nn.Sequential(torch.nn.Identity())
        ...     handle = net[0].register_forward_pre_hook(lambda *given: print(sorted(tracker.parents)))
        ...     y = net(torch.ones(1))
        ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]
    is_bw: bool

    def __init__(self):
        self.parents = {"Global"}
        self.is_bw = False
        self._names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []

    def _name(self, module):
        if module not in self._names:
            outermost = type(module).__name__
            for path, inner in module.named_modules():
                self._names.setdefault(inner, f"{outermost}.{path}" if path else outermost)
        return self._names[module]

    def _enter(self, name, backward):
        def enter(*_):
            if backward and not self.is_bw:
                self.parents = {"Global"}
                Variable._execution_engine.queue_callback(self._pass_ended)
            self.is_bw = backward
            self.parents.add(name)

        return enter

    def _pass_ended(self):
        self.parents, self.is_bw = {"Global"}, False

    def _leave(self, name, backward):
        def leave(*_):
            self.is_bw = backward
            self.parents.discard(name)

        return leave

    @staticmethod
    def _recorded(values):
        tensors = [x for x in _pytree.tree_leaves(values) if isinstance(x, facula.Tensor)]
        return [x for x in tensors if x.requires_grad] if facula.is_grad_enabled() else []

    def _before(self, module, inputs):
        name = self._name(module)
        self._enter(name, False)()
        tensors = self._recorded(inputs)
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, self._leave(name, True)))

    def _after(self, module, inputs, outputs):
        del inputs
        name = self._name(module)
        self._leave(name, False)()
        tensors = self._recorded(outputs)
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, self._enter(name, True), mode="any"))

    def __enter__(self) -> Self:
        self.parents, self.is_bw = {"Global"}, False
        self._handles = [register_module_forward_pre_hook(self._before)]
        self._handles.append(register_module_forward_hook(self._after, always_call=True))
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
