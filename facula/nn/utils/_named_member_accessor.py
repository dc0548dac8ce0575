"""Exchange tensors and submodules of a module by dotted names, without registering them anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ..modules.module import Module

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from facula import Tensor

_MISSING = object()


def _place(module, name):
    """Return (the dictionary that holds tensor `name` of the module, its value); (None, _MISSING) where there is none."""
    if not isinstance(module, Module):
        raise TypeError(f"swap_tensor: module must be an nn.Module, got {type(module).__name__}")
    if "." in name or not name:
        raise KeyError(f"swap_tensor: the name of one tensor of the module is expected, got {name!r}")
    for place in (module._parameters, module._buffers, vars(module)):
        if name in place:
            return place, place[name]
    return None, _MISSING


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put a tensor of the module in the place of another, which is returned.

    Args:
        module: the module that holds it.
        name: a name without dots.
        tensor: what is put there; None, or a parameter stays a parameter whatever this is.
        allow_missing: whether there need not be such a tensor; then what is returned, and may be put back, says so.

    Errors: TypeError for what is no module or no tensor; KeyError for a name with dots; AttributeError where there is none.
    """
    place, before = _place(module, name)
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, facula.Tensor):
        raise TypeError(f"swap_tensor: tensor must be a Tensor, got {type(tensor).__name__}")
    if place is None:
        if not allow_missing:
            raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
        if tensor is not _MISSING:
            setattr(module, name, tensor)
        return before
    if before is not None and not isinstance(before, facula.Tensor):
        raise TypeError(
            f"swap_tensor: the attribute {name!r} of {type(module).__name__} must be a Tensor, got {type(before).__name__}"
        )
    if tensor is _MISSING:
        del place[name]
    else:
        place[name] = tensor
    return before


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Put a tensor under a name without dots, whether or not the module has one there."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a submodule in the place of another, which is returned."""
    for value in (module, submodule):
        if not isinstance(value, Module):
            raise TypeError(f"swap_submodule: expected an nn.Module, got {type(value).__name__}")
    if name not in module._modules:
        raise AttributeError(f"{type(module).__name__} has no submodule {name!r}")
    before, module._modules[name] = module._modules[name], submodule
    return before


class NamedMemberAccessor:
    """Get and set tensors and submodules of a module, and of those below it, by dotted names.

    Args:
        module: the outermost one.
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        """Return the module of a dotted name. Errors: AttributeError where there is none."""
        return self.module.get_submodule(name)

    def _split(self, name):
        path, _, last = name.rpartition(".")
        return self.get_submodule(path), last

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module in the place of another, which is returned."""
        return swap_submodule(*self._split(path), value)

    def get_tensor(self, name: str) -> Tensor:
        """Return the tensor of a dotted name. Errors: AttributeError where there is none."""
        module, last = self._split(name)
        place, value = _place(module, last)
        if place is None:
            raise AttributeError(f"{type(module).__name__} has no attribute {last!r}")
        return value

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Put a tensor under a dotted name."""
        set_tensor(*self._split(name), value)

    def del_tensor(self, name: str) -> None:
        """Remove a tensor."""
        swap_tensor(*self._split(name), _MISSING)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Put a tensor in the place of another, which is returned."""
        return swap_tensor(*self._split(name), value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """Return the tensors of several names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Put tensors under several names."""
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Tensor]) -> None:
        """Put tensors under the names of a dictionary."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def swap_tensors_dict(self, named_tensors: dict[str, Any], allow_missing: bool = False) -> tuple[dict[str, Any], list[str]]:
        """Put tensors in the places of others; give these, and the names under which there was none.

        Errors: RuntimeError, with everything as it was, where a name is missing and must not be.
        """
        before: dict[str, Any] = {}
        missing = []
        try:
            for name, value in named_tensors.items():
                old = self.swap_tensor(name, value, allow_missing=True)
                before[name] = old
                if old is _MISSING:
                    missing.append(name)
            if missing and not allow_missing:
                raise RuntimeError(f"swap_tensors_dict: Missing key(s): {', '.join(map(repr, missing))}")
        except Exception as error:
            for name, old in before.items():
                self.swap_tensor(name, old, allow_missing=True)
            raise RuntimeError(f"swap_tensors_dict: {error}") from error
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return (names of tensors of the module that are not among `keys`, those of `keys` that are none)."""
        given = set(keys)
        known = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - given), sorted(given - known)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Yield the parameters by name."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Yield the buffers by name."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """Yield the parameters, then buffers, by name."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Module]]:
        """Yield the modules by name."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
