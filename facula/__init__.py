"""Provide tensors and automatic differentiation as ordinary Python, with PyTorch's names.

`import facula as torch` is the usual way to use Facula. Submodules that few programs need are imported when they are
first used.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING

try:
    # Threads of OpenMP, which oneDNN has, spin for some 50 microseconds after their work instead of 3 milliseconds, in which
    # they take a processor from the threads of all other ops. Their library reads this once, when it is loaded.
    _openmp_waits = {"GOMP_SPINCOUNT": "5000"} if not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} else {}
    os.environ.update(_openmp_waits)
    from . import _C
except ImportError as error:
    if any(name.startswith("_C.") and name.endswith(".so") for name in os.listdir(__path__[0])):
        raise
    raise ImportError(
        "facula: this folder is the source, without its compiled library; start Python in another folder to use the "
        f"installed package, or build here (CONTRIBUTING.md), got {__path__[0]}"
    ) from error
finally:
    for _name in _openmp_waits:
        del os.environ[_name]
from ._C import *  # noqa: F403
from ._C import Size, Tensor, device, dtype, layout, memory_format
from ._shared.names import CONSTANTS, DTYPE_ALIASES, LAZY_MODULES, LAZY_NAMES
from .torch_version import __version__

# PyTorch's private names that packages import, such as facula._dynamo, lie in a folder of their own.
__path__.append(os.path.join(__path__[0], "compat", "private"))  # noqa: F405
globals().update({alias: getattr(_C, name) for alias, name in DTYPE_ALIASES.items()})
globals().update(CONSTANTS)
for _name in LAZY_MODULES & globals().keys():  # _C.linalg is the bare ops, facula.linalg the module around them
    del globals()[_name]

from . import _tensor  # noqa: E402, F401  (which installs methods of Tensor)
from ._tensor import pickled  # noqa: E402, F401  (which says how the class Tensor is pickled)
from ._tensor.overrides_off import DisableTorchFunctionSubclass  # noqa: E402
from .autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402
from .functions.index import nonzero  # noqa: E402  (hides the op, which has no as_tuple)

if TYPE_CHECKING:  # loaded on first use, below
    from typing import Any

    from . import autograd, distributions, func, multiprocessing, nn, optim, testing, utils
    from .func import vmap
    from .functions.control_flow import *  # noqa: F403
    from .functions.create import *  # noqa: F403
    from .functions.device import *  # noqa: F403
    from .functions.dtype import *  # noqa: F403
    from .functions.fft import *  # noqa: F403
    from .functions.linalg import *  # noqa: F403
    from .functions.matmul import *  # noqa: F403
    from .functions.reduce import *  # noqa: F403
    from .functions.settings import *  # noqa: F403
    from .functions.shape import *  # noqa: F403
    from .functions.tensor import *  # noqa: F403
    from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
    from .serialization import load, save

__all__ = ["Size", "Tensor", "device", "dtype", "layout", "memory_format", "__version__"]
__all__ += ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]


def __getattr__(name: str) -> Any:
    if name in LAZY_MODULES:
        return _lazy_module(name)
    if name == "Storage":  # the class of the default dtype, which may change
        return _lazy_module("storage")._default_class()
    if name in LAZY_NAMES:
        value = getattr(importlib.import_module(f"facula.{LAZY_NAMES[name]}"), name)
        globals()[name] = value
        return value
    value = _placeholder(name)
    globals()[name] = value
    return value


def _lazy_module(name):
    try:
        return importlib.import_module(f"facula.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"facula.{name}":
            raise
    return _placeholder(name)


def _placeholder(name):
    """Return what stands for a name of PyTorch that programs ask for; AttributeError for any other."""
    if not name.startswith("__"):
        from .compat import placeholders

        with contextlib.suppress(AttributeError):
            return placeholders.member("torch", name)
    from ._shared.near_names import no_attribute

    raise no_attribute(__name__, name)


def _c_placeholder(name):
    if name.startswith("__"):  # `from facula._C import ...` asks for __path__
        raise AttributeError(f"module 'facula._C' has no attribute {name!r}")
    if name == "_nn":  # PyTorch's private name of the functions in nn.functional
        importlib.import_module("facula.fx._public")
        return vars(_C)["_nn"]
    from .compat import placeholders

    return placeholders.member("torch._C", name)


_C.__getattr__ = _c_placeholder


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(LAZY_MODULES) | set(LAZY_NAMES))
