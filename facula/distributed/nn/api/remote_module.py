"""Define a module that is on another worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import facula
from facula import nn
from facula.distributed import rpc

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["RemoteModule"]

_HERE = ("on", "device", "is_device_map_set", "is_scriptable", "module_rref", "training")  # what a RemoteModule consists of

# what only the module itself has
_THERE = """
    register_buffer register_parameter add_module apply cuda ipu xpu cpu type float double half bfloat16 to
    register_backward_hook register_forward_pre_hook register_forward_hook register_full_backward_hook
    register_full_backward_pre_hook state_dict
    load_state_dict parameters named_parameters buffers named_buffers children named_children modules named_modules
    requires_grad_ zero_grad share_memory
    """.split()


def _place(text):
    """Return worker and device of a text such as "trainer0/cuda:1"."""
    worker, slash, device = text.partition("/")
    if not worker or slash and not device:
        raise ValueError(f"RemoteModule: expected '<worker>/<device>', got {text!r}")
    if worker.startswith("rank:"):
        worker = int(worker[5:])
    return worker, device or "cpu"


def _made(module_class, args, kwargs, device):
    module = module_class(*args, **kwargs)
    if not isinstance(module, nn.Module):
        raise ValueError(f"RemoteModule: module_cls makes an nn.Module, got {type(module).__name__}")
    return module.to(device)


def _moved(value, device):
    if isinstance(value, facula.Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(v, device) for v in value)
    return value


def _run(module_rref, device, on_device, args, kwargs):
    if on_device:
        args, kwargs = _moved(list(args), device), {k: _moved(v, device) for k, v in kwargs.items()}
    result = module_rref.local_value()(*args, **kwargs)
    return _moved(result, "cpu") if on_device else result


def _rrefs_of_parameters(module_rref, recurse):
    return [rpc.RRef(p) for p in module_rref.local_value().parameters(recurse)]


class RemoteModule(nn.Module):
    """Call a module on another worker as if it were here; distributed autograd goes through it.

    It can be sent to other workers, in calls. What only the module itself has, such as `parameters`, `state_dict` and hooks,
    raises ValueError.

    Args:
        remote_device: where, as "<worker>/<device>"; the worker by name, or as rank:<number>. Inputs are moved to a GPU
            there, and results back to the CPU. ValueError for another text.
        module_cls: the class of the module.
        args, kwargs: what the class takes.

    >>> from torch.distributed import rpc
    >>> from torch.distributed.nn import RemoteModule
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> layer = RemoteModule("me/cpu", nn.Linear, args=(4, 2))
    >>> layer(torch.ones(3, 4)).shape, layer.forward_async(torch.ones(3, 4)).wait().shape
    (torch.Size([3, 2]), torch.Size([3, 2]))
    >>> len(layer.remote_parameters())
    2
    >>> RemoteModule.init_from_module_rref("me/cpu", layer.get_module_rref())
    RemoteModule(me/cpu)
    >>> rpc.shutdown()
    """

    on: Any
    device: Any

    def __init__(self, remote_device: Any, module_cls: Any, args: Any = None, kwargs: Any = None) -> None:
        super().__init__()
        self._settle(remote_device)
        made = rpc.remote(self.on, _made, (module_cls, tuple(args or ()), dict(kwargs or {}), self.device))
        made.rpc_sync().train()  # whatever goes wrong there goes wrong here
        self.module_rref: Any = made

    def _settle(self, remote_device):
        self.on, self.device = _place(remote_device)
        self.is_device_map_set: bool = bool(rpc._get_current_rpc_agent().options.device_maps)
        self.is_scriptable = False

    @classmethod
    def init_from_module_rref(cls, remote_device: Any, module_rref: Any, _module_interface_cls: Any = None) -> Self:
        """Return a RemoteModule for a module that is on a worker already.

        Args:
            remote_device: where it is.
            module_rref: an RRef of it.
        """
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made._settle(remote_device)
        made.module_rref = module_rref
        return made

    def __reduce__(self) -> Any:
        if rpc._wire.sending() is None:
            raise RuntimeError("RemoteModule: it is pickled only in calls between workers, got another pickle")
        return _received, (type(self), {name: self.__dict__[name] for name in _HERE})

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def _call_there(self, call, args, kwargs):
        on_device = not str(self.device).startswith("cpu")
        return call(self.module_rref.owner(), _run, (self.module_rref, self.device, on_device, args, kwargs))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module's forward gives."""
        return self._call_there(rpc.rpc_sync, args, kwargs)

    def forward_async(self, *args: Any, **kwargs: Any) -> Any:
        """Return a Future of what the module's forward gives.

        Args:
            args, kwargs: what forward takes.
        """
        return self._call_there(rpc.rpc_async, args, kwargs)

    def remote_parameters(self, recurse: bool = True) -> Any:
        """Return RRefs of the parameters, for DistributedOptimizer.

        Args:
            recurse: whether those of modules inside are meant too.
        """
        return rpc.rpc_sync(self.module_rref.owner(), _rrefs_of_parameters, (self.module_rref, recurse))

    def get_module_rref(self) -> Self:
        """Return the RRef of the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> Self:
        """Set the module's mode.

        Args:
            mode: True for training, False for evaluation.
        """
        self.module_rref.rpc_sync().train(mode)
        self.training = mode
        return self

    def extra_repr(self) -> str:
        """Return where it is."""
        return f"{self.on}/{self.device}"


def _received(cls, state):
    made = cls.__new__(cls)
    nn.Module.__init__(made)
    for name, value in state.items():
        setattr(made, name, value)
    return made


def _not_here(name):
    def method(self, *args, **kwargs):
        instead = "remote_parameters" if "parameters" in name else "get_module_rref and calls"
        raise ValueError(f"RemoteModule.{name}: the module is on another worker, use {instead}")

    method.__name__, method.__qualname__, method.__doc__ = name, f"RemoteModule.{name}", "ValueError."
    return method


for _name in _THERE:
    setattr(RemoteModule, _name, _not_here(_name))
