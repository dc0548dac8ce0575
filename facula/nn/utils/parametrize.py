"""Compute attributes of a module from other parameters (parametrizations)."""

from __future__ import annotations

import collections
import contextlib
import copy
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import facula

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = [
    "cached",
    "ParametrizationList",
    "register_parametrization",
    "is_parametrized",
    "remove_parametrizations",
    "type_before_parametrizations",
    "transfer_parametrizations_and_params",
]

_counting = threading.Lock()
_cache_enabled = 0
_cache: dict[tuple[int, str], object] = {}


@contextlib.contextmanager
def cached():
    """Return a context manager in which every parametrized tensor is computed once, however often it is read.

    >>> from torch.nn.utils import parametrize
    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cache_enabled
    with _counting:
        _cache_enabled += 1
    try:
        yield
    finally:
        with _counting:
            _cache_enabled -= 1
            if not _cache_enabled:
                _cache.clear()


def _register_parameter_or_buffer(module: Module, name: str, tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _maybe_set(dest, src) -> None:
    """Make ``src`` the data of ``dest``, keeping the object (optimizers hold it)."""
    if dest is not src:
        dest.data = src.data if isinstance(src, facula.Tensor) else src


class ParametrizationList(ModuleList):
    """Hold the original tensors of one parametrized tensor, and the parametrizations that are applied to them one after
    the other.

    The source is ``original``; or ``original0``, ``original1``, ... when the first parametrization's ``right_inverse`` gives
    several tensors. `register_parametrization` makes it as ``module.parametrizations.<name>``.

    Args:
        modules: the parametrizations.
        original: the tensor that is parametrized.
        unsafe: if True, leave out the checks of dtype and shape.

    Errors: ValueError for no parametrizations, or ones that change dtype or shape.

    >>> from torch.nn.utils.parametrize import ParametrizationList
    >>> class Doubled(nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    ...
    ...     def right_inverse(self, y):
    ...         return y / 2
    >>> doubled = ParametrizationList([Doubled()], nn.Parameter(torch.ones(2)))
    >>> doubled().tolist(), doubled.original.tolist()
    ([1.0, 1.0], [0.5, 0.5])
    >>> doubled.right_inverse(torch.full((2,), 6.0))
    >>> doubled.original.tolist()
    [3.0, 3.0]
    """

    original: facula.Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList: needs at least one parametrization, got none")
        super().__init__(modules)
        self.unsafe = unsafe
        before_shape, before_dtype = original.shape, original.dtype
        source = original
        with facula.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    continue
                try:
                    source = module.right_inverse(source)
                except NotImplementedError:
                    pass
        if not isinstance(source, facula.Tensor) and not isinstance(source, Sequence):
            raise ValueError(
                "ParametrizationList: right_inverse must give a Tensor or a sequence of them, got "
                f"{type(source).__name__}"
            )
        self.is_tensor: bool = isinstance(source, facula.Tensor)
        self.ntensors: int = 1 if self.is_tensor else len(source)
        if self.is_tensor:
            self._keep_single_source(original, source)
        else:
            self._keep_sources(original, source)
        if not self.unsafe:
            self._check_result(before_shape, before_dtype)

    def _keep_single_source(self, original, source) -> None:
        if original.dtype != source.dtype:
            raise ValueError(
                f"ParametrizationList: right_inverse must keep the dtype {original.dtype}, got {source.dtype}"
            )
        # The parameter stays the same object, so that optimizers that know it go on working.
        with facula.no_grad():
            _maybe_set(original, source)
        _register_parameter_or_buffer(self, "original", original)

    def _keep_sources(self, original, sources) -> None:
        for i, source in enumerate(sources):
            if not isinstance(source, facula.Tensor):
                raise ValueError(
                    f"ParametrizationList: right_inverse must give Tensors, got {type(source).__name__} at "
                    f"{i}"
                )
            if isinstance(original, Parameter):
                source = Parameter(source, original.requires_grad)
            source.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{i}", source)

    def _check_result(self, shape, dtype) -> None:
        result = self()
        if not isinstance(result, facula.Tensor):
            raise ValueError(
                f"ParametrizationList: a parametrization must give a Tensor, got {type(result).__name__}"
            )
        if result.dtype != dtype:
            raise ValueError(
                f"ParametrizationList: a parametrization must keep the dtype {dtype} unless unsafe=True, "
                f"got {result.dtype}"
            )
        if result.shape != shape:
            raise ValueError(
                "ParametrizationList: a parametrization must keep the shape (unsafe=True lifts this), "
                f"expected {tuple(shape)}, got {tuple(result.shape)}"
            )

    def right_inverse(self, value: Any) -> None:
        """Set the source tensors so that the result becomes ``value``, as far as the parametrizations can.

        Args:
            value: of the result's shape.

        Errors: RuntimeError for a parametrization without ``right_inverse``; ValueError for one that gives another dtype, or
        another
        number of tensors.
        """
        with facula.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"{type(module).__name__}: assigning to a parametrized tensor needs right_inverse, "
                        "got a class without it"
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, facula.Tensor):
                    raise ValueError(f"right_inverse: must give a Tensor, got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"right_inverse: must give dtype {self.original.dtype}, got {value.dtype}"
                    )
                _maybe_set(self.original, value)
                return
            if not isinstance(value, Sequence) or len(value) != self.ntensors:
                raise ValueError(
                    f"right_inverse: must give {self.ntensors} tensors, got {type(value).__name__}"
                )
            for i, tensor in enumerate(value):
                source = getattr(self, f"original{i}")
                if not isinstance(tensor, facula.Tensor) or tensor.dtype != source.dtype:
                    got = getattr(tensor, "dtype", type(tensor).__name__)
                    raise ValueError(f"right_inverse: tensor {i} must have dtype {source.dtype}, got {got}")
                _maybe_set(source, tensor)

    def forward(self) -> Tensor:
        """Return the parametrized tensor."""
        modules = list(self)
        if self.is_tensor:
            value = modules[0](self.original)
        else:
            value = modules[0](*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in modules[1:]:
            value = module(value)
        return value


def _set_class(module: Module, names) -> None:
    """Give ``module`` a class derived from its own one in which tensors ``names`` are computed; its own for none.

    Such a class is never changed: deep copies of the module have it too.
    """
    cls = vars(type(module)).get("_parametrized_base", type(module))
    if not names:
        module.__class__ = cls
        return

    def deepcopy_parametrized(self, memo):
        replica = memo.get(id(self))
        if replica is None:
            replica = self.__new__(type(self))
            memo[id(self)] = replica
            replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        return replica

    def refuse_pickling(self):
        raise RuntimeError(
            f"{cls.__name__}: parametrized modules are saved through state_dict() only, got a request to "
            "pickle one"
        )

    members = {"__getstate__": refuse_pickling, "_parametrized_base": cls}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = deepcopy_parametrized
    members.update({name: _computed(name) for name in names})
    # A class of its own, because a property works only in the class, and other modules of `cls` must not have it.
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _computed(name: str) -> property:
    """Return a tensor as a property of the module's own class: reading computes it, writing goes to ``right_inverse``."""

    def read(self):
        parametrization = self.parametrizations[name]
        if not _cache_enabled:
            return parametrization()
        key = (id(self), name)
        value = _cache.get(key)
        if value is None:
            value = _cache[key] = parametrization()
        return value

    def write(self, value) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of a module the result of another module, and return the module.

    The tensor moves to ``module.parametrizations.<tensor_name>.original``. When the parametrization has a ``right_inverse``, it
    gives the first value of the original, and assignments to the tensor go through it. A second one is applied to the result of
    the first.

    Args:
        module: the module that has the tensor; it is changed in place, and its class becomes one derived from its own.
        tensor_name: the name of the tensor.
        parametrization: a Module, called with the original tensor (or tensors).
        unsafe: if True, leave out the checks that dtype and shape stay the same.

    Returns: the module.

    Errors: ValueError for a tensor that does not exist, or another dtype or shape.

    >>> from torch.nn.utils import parametrize
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).t()
    >>> layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.t()).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append_parametrization(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        # A registered parameter would be found before the property.
        delattr(module, tensor_name)
        names = [tensor_name]
        if is_parametrized(module):
            names += list(module.parametrizations)
        else:
            module.parametrizations = ModuleDict()
        _set_class(module, names)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} does not have a parameter or buffer of this name, got "
            f"{tensor_name!r}"
        )
    return module


def _append_parametrization(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    current = module.parametrizations[name]
    if not unsafe:
        value = getattr(module, name)
        result = parametrization(value)
        problem = _difference(result, value)
        if problem is None and hasattr(parametrization, "right_inverse"):
            try:
                inverse = parametrization.right_inverse(result)
            except NotImplementedError:
                pass
            else:
                problem = _difference(inverse, value)
        if problem:
            raise ValueError(
                f"register_parametrization: dtype and shape must stay unless unsafe=True, {problem}"
            )
    current.append(parametrization)
    current.unsafe |= unsafe


def _difference(tensor, wanted) -> str | None:
    if not isinstance(tensor, facula.Tensor):
        return f"got {type(tensor).__name__}"
    if tensor.dtype != wanted.dtype or tensor.shape != wanted.shape:
        return f"got {tensor.dtype} {tuple(tensor.shape)} for {wanted.dtype} {tuple(wanted.shape)}"
    return None


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module, or one of its tensors, is parametrized.

    Args:
        module: only it, not those below it.
        tensor_name: the tensor; None for any.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    >>> is_parametrized = nn.utils.parametrize.is_parametrized
    >>> is_parametrized(layer), is_parametrized(layer, "bias")
    (True, False)
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Remove all parametrizations of a tensor; return the module.

    Args:
        module: the module, which is changed in place.
        tensor_name: the name of the tensor.
        leave_parametrized: if True, the tensor has its present value afterwards, otherwise the original one.

    Returns: the module.

    Errors: ValueError for a tensor that is not parametrized, or several originals without leave_parametrized.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    >>> _ = nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> type(layer.weight).__name__, sorted(layer.state_dict())
    ('Parameter', ['bias', 'weight'])
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {type(module).__name__} does not have a parametrization so called, got {tensor_name!r}"
        )
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with facula.no_grad():
                value = getattr(module, tensor_name)
                if type(original) is not facula.Tensor or value.shape != original.shape:
                    original.data = value
                else:
                    original.copy_(value)
    else:
        if not leave_parametrized:
            raise ValueError(
                "remove_parametrizations: several originals cannot become one tensor, got "
                "leave_parametrized=False"
            )
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    del module.parametrizations[tensor_name]
    _set_class(module, list(module.parametrizations))
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class of a module without the one that parametrizations put in front of it.

    Args:
        module: any module.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    >>> type(layer).__name__, nn.utils.parametrize.type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    return type(module)._parametrized_base if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy the parametrizations of a module, and what they are computed from, to another one, and return that.

    Args:
        from_module: the module that has them; without any, nothing is done.
        to_module: the module that gets them; it is changed in place.
        tensor_name: the name of the tensor whose parametrizations are copied. Default: all tensors.

    Returns: to_module.

    >>> from torch.nn.utils import parametrizations, parametrize
    >>> layer = parametrizations.weight_norm(nn.Linear(3, 2))
    >>> other = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(3, 2))
    >>> bool((other.weight == layer.weight).all()), parametrize.is_parametrized(other, "weight")
    (True, True)
    """
    if not is_parametrized(from_module):
        return to_module
    if not isinstance(from_module.parametrizations, ModuleDict):
        raise AssertionError(
            "transfer_parametrizations_and_params: from_module.parametrizations must be a ModuleDict, got something else"
        )
    if tensor_name is not None and tensor_name not in from_module.parametrizations:
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        target = to_module.parametrizations[name]
        with facula.no_grad():
            for key, tensor in collections.ChainMap(source._parameters, source._buffers).items():
                if tensor is not None:
                    getattr(target, key).data = tensor.data
    return to_module
