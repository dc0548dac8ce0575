"""Finding what belongs to a module: by dotted names, and one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import facula

from ..parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor

    from .module import Module


class _TraverseMethods:
    """The part of Module that finds submodules, parameters and buffers."""

    def get_submodule(self, target: str) -> Module:
        """The submodule of a dotted name.

        Args:
            target: the name; an empty one stands for the module itself.

        Errors: AttributeError where a part of the name does not exist or is no Module.

        >>> net = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
        >>> net.get_submodule("0.1")
        ReLU()
        """
        module = self
        if target == "":
            return module
        for part in target.split("."):
            if not hasattr(module, part):
                raise AttributeError(
                    f"get_submodule: {type(module).__name__} has no attribute {part!r}, got {target!r}"
                )
            module = getattr(module, part)
            if not isinstance(module, _TraverseMethods):
                raise AttributeError(
                    f"get_submodule: {part!r} is a {type(module).__name__}, no Module, got {target!r}"
                )
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in the place of another, or at a new name.

        Args:
            target: the dotted name.
            module: what comes there.
            strict: whether the name must exist; otherwise only its parent must.

        Errors: ValueError for an empty name and for what is no Module, AttributeError where the parent, or with strict
        the name, does not exist or is no Module.

        >>> net = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
        >>> net.set_submodule("0.1", nn.Tanh())
        >>> net.get_submodule("0.1")
        Tanh()
        """
        if target == "":
            raise ValueError('set_submodule: target must name a submodule, got ""')
        if not isinstance(module, _TraverseMethods):
            raise ValueError(f"set_submodule: module must be a Module, got {type(module).__name__}")
        parent_name, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_name)
        if strict and not hasattr(parent, name):
            raise AttributeError(
                f"set_submodule: {type(parent).__name__} has no attribute {name!r}, got {target!r}"
            )
        if hasattr(parent, name) and not isinstance(getattr(parent, name), _TraverseMethods):
            raise AttributeError(f"set_submodule: {name!r} exists and is no Module, got {target!r}")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name.

        Args:
            target: the name.

        Errors: AttributeError where a part of the name does not exist or the last is no `Parameter`.

        >>> nn.Sequential(nn.Linear(2, 3)).get_parameter("0.weight").shape
        torch.Size([3, 2])
        """
        return self._get_entry("get_parameter", target, lambda m, n: isinstance(getattr(m, n), Parameter))

    def get_buffer(self, target: str) -> facula.Tensor:
        """The buffer of a dotted name.

        Args:
            target: the name.

        Errors: AttributeError where a part of the name does not exist or the last is no buffer.

        >>> nn.Sequential(nn.BatchNorm1d(3)).get_buffer("0.running_mean")
        tensor([0., 0., 0.])
        """
        return self._get_entry("get_buffer", target, lambda m, n: n in m._buffers)

    def _get_entry(self, method: str, target: str, is_right: Callable) -> Any:
        module_name, _, name = target.rpartition(".")
        module = self.get_submodule(module_name)
        if not hasattr(module, name):
            raise AttributeError(
                f"{method}: {type(module).__name__} has no attribute {name!r}, got {target!r}"
            )
        if not is_right(module, name):
            raise AttributeError(f"{method}: {name!r} is not a {method[4:]}, got {target!r}")
        return getattr(module, name)

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate: bool = True):
        """(dotted name, member) of every module; ``get_members_fn(module)`` gives a module's own (name,
        member) pairs.
        """
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for module_prefix, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield (module_prefix + "." if module_prefix else "") + name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once: what an optimizer is given.

        Args:
            recurse: whether those of submodules are among them.

        Returns: an iterator.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> sum(p.numel() for p in net.parameters())
        13
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:  # fmt: skip
        """All parameters with their dotted names.

        Args:
            prefix: put before every name, with a dot.
            recurse: whether those of submodules are among them.
            remove_duplicate: whether a shared parameter comes once, under its first name.

        Returns: an iterator of (name, parameter).

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> [(name, tuple(p.shape)) for name, p in net.named_parameters(prefix="net")]
        [('net.0.weight', (3, 2)), ('net.0.bias', (3,))]
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[facula.Tensor]:
        """All buffers, each once.

        Args:
            recurse: whether those of submodules are among them.

        Returns: an iterator.

        >>> len(list(nn.Sequential(nn.BatchNorm1d(3)).buffers()))
        3
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:  # fmt: skip
        """All buffers with their dotted names.

        Args:
            prefix: put before every name, with a dot.
            recurse: whether those of submodules are among them.
            remove_duplicate: whether a shared buffer comes once, under its first name.

        Returns: an iterator of (name, buffer).

        >>> [name for name, _ in nn.Sequential(nn.BatchNorm1d(3)).named_buffers()]
        ['0.running_mean', '0.running_var', '0.num_batches_tracked']
        """
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """The direct submodules, each once.

        Returns: an iterator.

        >>> list(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).children())
        [Linear(in_features=2, out_features=3, bias=True), ReLU()]
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names, each once.

        Returns: an iterator of (name, module).

        >>> dict(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).named_children())
        {'0': Linear(in_features=2, out_features=3, bias=True), '1': ReLU()}
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, depth first.

        Args:
            remove_duplicate: whether a shared module comes once.

        Returns: an iterator.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
        >>> [type(module).__name__ for module in net.modules()]
        ['Sequential', 'Linear', 'Sequential', 'ReLU']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:  # fmt: skip
        """This module and all below it with their dotted names, depth first.

        Args:
            memo: a set of modules to leave out, which is added to.
            prefix: the name of this module.
            remove_duplicate: whether a shared module comes once, under its first name.

        Returns: an iterator of (name, module).

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
        >>> [name for name, _ in net.named_modules()]
        ['', '0', '1', '1.0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(
                    memo, prefix + ("." if prefix else "") + name, remove_duplicate
                )

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call a function on every module below this one, those below first, and on the module itself.

        Args:
            fn: takes a module; what it returns is not used.

        Returns: the module.

        >>> def zero_biases(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.zeros_(module.bias)
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).apply(zero_biases)
        >>> net[0].bias.tolist()
        [0.0, 0.0, 0.0]
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self
