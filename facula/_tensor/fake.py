"""Implement FakeTensor, which has the shape, dtype and strides of a tensor on any device and computes them on the meta
device.
"""

from __future__ import annotations

import facula
from facula import _C
from facula.utils import _pytree
from facula.utils._python_dispatch import TorchDispatchMode, _modes


class UnsupportedFakeTensorException(RuntimeError):
    """Report a tensor that has no fake counterpart."""


class DataDependentOutputException(RuntimeError):
    """Report an op whose result depends on values, which a fake tensor does not have."""


class FakeTensor(_C.Tensor):
    """Represent a tensor without values that says it lies on `device`; a FakeTensorMode makes it."""

    __torch_function__ = _C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, fake_mode, elem, device, requires_grad=None):
        if not elem.is_meta:
            raise UnsupportedFakeTensorException(f"FakeTensor: expected a tensor on the meta device, got {elem.device}")
        wanted = elem.requires_grad if requires_grad is None else requires_grad
        self = _C.Tensor._make_subclass(cls, elem, wanted)
        self.__dict__["_reported_device"] = facula.device(device)
        self.__dict__["fake_mode"] = fake_mode
        return self

    @property
    def fake_device(self):
        """The device it says it lies on."""
        return self.__dict__["_reported_device"]

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        leaves = _pytree.tree_leaves((args, kwargs or {}))
        mode = next(leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor))
        with mode:
            return func(*args, **(kwargs or {}))

    def __repr__(self):
        gradient = ", requires_grad=True" if self.requires_grad else ""
        return f"FakeTensor(..., device='{self.device}', size={tuple(self.shape)}, dtype={self.dtype}{gradient})"

    def tolist(self):
        """Raise DataDependentOutputException: there are no values."""
        raise DataDependentOutputException(f"tolist: a fake tensor has no values, got shape {tuple(self.shape)}")

    def item(self):
        """Raise DataDependentOutputException: there is no value."""
        raise DataDependentOutputException(f"item: a fake tensor has no values, got shape {tuple(self.shape)}")

    numpy = __bool__ = __int__ = __float__ = item


class FakeTensorMode(TorchDispatchMode):
    """Make the ops in a block return fake tensors.

    Args:
        allow_non_fake_inputs: imitate real tensors that ops meet instead of raising.
        allow_fallback_kernels, shape_env, static_shapes: accepted for programs that give them; sizes are always numbers here.
    """

    def __init__(
        self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None, export=False,
    ):  # fmt: skip
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env, self.static_shapes, self.export = shape_env, static_shapes, export
        self._known = {}  # id of a real tensor -> (the tensor, its imitation)
        self._entered = []  # for each block, whether it is one within another of this mode

    def __enter__(self):
        self._entered.append(any(mode is self for mode in _modes.stack))
        return self if self._entered[-1] else super().__enter__()

    def __exit__(self, *exception):
        if not self._entered.pop():
            super().__exit__(*exception)

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        """Return the imitation of a real tensor: shape, strides, dtype, device and requires_grad. The same one for the same
        tensor."""
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("from_tensor: Mixing fake modes NYI, got a tensor of another FakeTensorMode")
            return tensor
        known = self._known.get(id(tensor))
        if known is None:
            from facula.utils._python_dispatch import _disable_current_modes

            with _disable_current_modes(), facula.no_grad():
                data = facula.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
            fake = FakeTensor(self, data, tensor.device, tensor.requires_grad)
            if isinstance(tensor, facula.nn.Parameter):
                fake._is_param = True
            # The tensor is stored as well, so that its identity is not given to another one.
            known = self._known[id(tensor)] = (tensor, fake)
        return known[1]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        given = (args, kwargs)
        fakes = [leaf for leaf in _pytree.tree_leaves(given) if isinstance(leaf, _C.Tensor)]
        if fakes and all(_is_number(leaf) for leaf in fakes):  # counters, as optimizers keep: they have their values
            result = func(*args, **kwargs)
            if all(_is_number(leaf) for leaf in _pytree.tree_leaves(result) if isinstance(leaf, _C.Tensor)):
                return result
        named = [leaf for leaf in _pytree.tree_leaves(given) if _is_device(leaf)]
        # A device that the call names, as `to` and factories do, comes before those of the arguments.
        device = named[0] if named else _common_device(fakes)
        plain_args, plain_kwargs = _pytree.tree_map(self._plain, given)
        if not fakes:  # a factory
            plain_kwargs["device"] = "meta"
        try:
            result = func(*plain_args, **plain_kwargs)
        except NotImplementedError as error:
            raise DataDependentOutputException(f"{func.name()}: {error}") from None
        written = func.written(args, kwargs)
        if written is not None:
            return written
        return _pytree.tree_map(lambda leaf: self._fake(leaf, device), result)

    def _plain(self, leaf):
        if _is_device(leaf):
            return facula.device("meta")
        if not isinstance(leaf, _C.Tensor):
            return leaf
        if not isinstance(leaf, FakeTensor):
            if not self.allow_non_fake_inputs and leaf.dim() > 0:
                raise AssertionError(
                    "FakeTensorMode: expected fake tensors only (allow_non_fake_inputs=True lifts this), got a real one of "
                    f"shape {tuple(leaf.shape)} on {leaf.device}"
                )
            leaf = self.from_tensor(leaf)
        return _C._without_dispatch(leaf)

    def _fake(self, leaf, device):
        return FakeTensor(self, leaf, device) if isinstance(leaf, _C.Tensor) and not isinstance(leaf, FakeTensor) else leaf


def is_fake(value):
    """Return whether it is a fake tensor."""
    return isinstance(value, FakeTensor)


def _is_number(tensor):
    """Return whether it is a real tensor of no dimensions."""
    return not isinstance(tensor, FakeTensor) and tensor.dim() == 0


def _is_device(value):
    return isinstance(value, _C.device)


def _common_device(tensors):
    """Return that of the tensors with dimensions; 0-d ones on the CPU go along with any."""
    device = facula.device("cpu")
    for tensor in tensors:
        if tensor.device != device and (tensor.dim() > 0 or device.type == "cpu"):
            device = tensor.device
    return device
