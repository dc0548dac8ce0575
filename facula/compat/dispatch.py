"""Define PyTorch's dispatch keys as names. Facula has no dispatcher, but programs form sets of keys while they are
imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from facula import Tensor

_KEYS = """
    Undefined Dense CPU CUDA HIP XPU MPS Meta BackendSelect Python Functionalize ADInplaceOrView Autograd AutogradCPU
    AutogradCUDA AutogradXPU AutogradMPS AutogradFunctionality Tracer AutocastCPU AutocastCUDA AutocastXPU AutocastMPS
    CompositeExplicitAutograd CompositeImplicitAutograd FuncTorchBatched FuncTorchVmapMode PrivateUse1 PythonDispatcher
    PythonTLSSnapshot Sparse SparseCPU SparseCUDA Quantized QuantizedCPU ZeroTensor Conjugate Negative
"""


class DispatchKey:
    """Name a dispatch key. There is no dispatcher here, but programs form sets of keys while they are imported.

    Args:
        name: for example "CPU".

    >>> torch._C.DispatchKey.CPU.name
    'CPU'
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKey) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"DispatchKey.{self.name}"


for _name in _KEYS.split():
    setattr(DispatchKey, _name, DispatchKey(_name))


class DispatchKeySet:
    """Hold a set of keys; ``|``, ``&`` and ``-`` combine two sets.

    Args:
        keys: a key, or several.

    >>> keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    >>> keys.has(torch._C.DispatchKey.CPU), keys.has(torch._C.DispatchKey.CUDA)
    (True, False)
    """

    def __init__(self, keys: Any) -> None:
        self._keys = frozenset([keys] if isinstance(keys, DispatchKey) else keys)

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(self._keys)

    def __or__(self, other: Tensor) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: Tensor) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: Tensor) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)

    def add(self, key: Any) -> DispatchKeySet:
        """Return the set with `key`."""
        return DispatchKeySet(self._keys | {key})

    def remove(self, key: Any) -> DispatchKeySet:
        """Return the set without `key`."""
        return DispatchKeySet(self._keys - {key})

    def has(self, key: Any) -> bool:
        """Return whether `key` is in the set."""
        return key in self._keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self._keys))})"
