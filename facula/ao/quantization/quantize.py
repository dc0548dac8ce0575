"""Quantize models layer by layer: `prepare` inserts observers, and `convert` replaces layers by quantized ones.

Three ways: after training, with a few inputs for the observers (`prepare`, some inputs, `convert`); while training
(`prepare_qat`, training, `convert`); and of weights only, while activations get their scales anew each time
(`quantize_dynamic`).
"""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import TYPE_CHECKING

import facula
import facula.ao.nn.quantized as nnq
from facula import nn
from facula.ao.nn.intrinsic import _FusedModule
from facula.nn.utils.parametrize import type_before_parametrizations

from .observer import _is_activation_post_process as is_activation_post_process
from .qconfig import (
    _activation_is_memoryless,
    _add_module_to_qconfig_obs_ctr,
    _assert_valid_qconfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import get_qparam_dict, has_no_children_ignoring_parametrizations  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = [
    "add_quant_dequant", "convert", "get_default_custom_config_dict", "prepare", "prepare_qat", "propagate_qconfig_",
    "quantize", "quantize_dynamic", "quantize_qat", "swap_module",
]  # fmt: skip


def get_default_custom_config_dict() -> dict[Any, Any]:
    """Return which classes of modules become others in `prepare`, and which then in `convert`: none, unless the caller says so.

    (PyTorch replaces LSTM and MultiheadAttention by layers made of small ones, `nn.quantizable`, which are not here.)

    >>> from torch.ao.quantization import get_default_custom_config_dict
    >>> get_default_custom_config_dict()
    {'float_to_observed_custom_module_class': {}, 'observed_to_quantized_custom_module_class': {}}
    """
    return {"float_to_observed_custom_module_class": {}, "observed_to_quantized_custom_module_class": {}}


def _has_qconfig(module):
    return getattr(module, "qconfig", None) is not None


# ---- qconfigs


def _propagate(module, qconfig_dict, parent, prefix, custom):
    qconfig = qconfig_dict.get(type_before_parametrizations(module), parent)
    qconfig = qconfig_dict.get(prefix, qconfig)
    qconfig = getattr(module, "qconfig", qconfig)
    _assert_valid_qconfig(qconfig, module)
    module.qconfig = placed = _add_module_to_qconfig_obs_ctr(qconfig, module)
    for name, child in module.named_children():
        if name in custom.get("non_traceable_module_name", ()) or type(child) in custom.get("non_traceable_module_class", ()):
            continue
        _propagate(child, qconfig_dict, placed, f"{prefix}.{name}" if prefix else name, custom)


def propagate_qconfig_(module: Module, qconfig_dict: dict[Any, Any] | None = None,
                       prepare_custom_config_dict: dict[str, Any] | None = None) -> None:  # fmt: skip
    """Give all modules within a module the attribute `qconfig`: their own, that of their name or class, or their parent's.

    Args:
        module: changed in place.
        qconfig_dict: {class or name: qconfig}.
        prepare_custom_config_dict: with `non_traceable_module_name` and `non_traceable_module_class`, lists of what to leave
            alone.

    >>> from torch.ao.quantization import default_qconfig, propagate_qconfig_
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> propagate_qconfig_(model, {"0": default_qconfig})
    >>> model[0].qconfig is not None, model[1].qconfig
    (True, None)
    """
    _propagate(module, qconfig_dict or {}, None, "", prepare_custom_config_dict or {})


# ---- observers


def _observer_forward_hook(self, input, output):
    """Pass the module's output to its observer."""
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self, input):
    """Pass the module's input to its observer."""
    return self.activation_post_process(input[0])


def _register_activation_post_process_hook(module, pre_hook=False) -> None:
    if not hasattr(module, "activation_post_process"):
        raise AssertionError(f"prepare: expected a module with an activation_post_process, got {type(module).__name__}")
    if pre_hook:
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        # The observer comes first, so that it sees the module's own output and not what other hooks make of it.
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _one_device(module):
    devices = {tensor.device for tensors in (module.parameters(), module.buffers()) for tensor in tensors}
    if len(devices) > 1:
        raise AssertionError(f"prepare: expected a model on one device, got {sorted(map(str, devices))}")
    return devices.pop() if devices else None


class _Inserter:
    """Insert observers into a model."""

    def __init__(self, device, leaves, others, classes) -> None:
        self.device = device
        self.leaves = leaves  # classes of modules without children
        self.others = others  # classes of modules with children
        self.classes = classes  # which become others

    def _made(self, constructor):
        made = constructor()
        return made if self.device is None else made.to(self.device)

    def _watch(self, module, special=None):
        if _has_qconfig(module) and not isinstance(module, DeQuantStub):
            module.add_module("activation_post_process", self._made(special or module.qconfig.activation))
            _register_activation_post_process_hook(module, pre_hook=_activation_is_memoryless(module.qconfig))

    def _child(self, module, name, child):
        # Dropout does nothing in inference, so there is nothing to observe.
        if type_before_parametrizations(child) is nn.Dropout:
            return
        if isinstance(child, (nnq.FloatFunctional, nnq.QFunctional)):
            if _has_qconfig(child):
                child.activation_post_process = self._made(child.qconfig.activation)
        elif isinstance(child, _FusedModule) or type_before_parametrizations(child) in self.others:
            self._watch(child)
        elif _has_special_act_post_process(child):
            self._watch(child, _get_special_act_post_process(child))
        elif _has_qconfig(child) and type_before_parametrizations(child) in self.classes:
            observed = self.classes[type_before_parametrizations(child)].from_float(child)
            setattr(module, name, observed)
            if not isinstance(observed, tuple(no_observer_set())):
                self._watch(observed)
        elif _has_qconfig(child) and isinstance(child, (nn.LSTM, nn.MultiheadAttention)):
            raise NotImplementedError(
                "prepare: LSTM and MultiheadAttention need nn.quantizable, which is not supported; set their qconfig to None, "
                f"or use quantize_dynamic, got {type(child).__name__} {name!r}"
            )
        else:
            self.visit(child)

    def visit(self, module):
        """Put observers into a module and all within."""
        for name, child in list(module.named_children()):
            self._child(module, name, child)
        is_leaf = has_no_children_ignoring_parametrizations(module) and not isinstance(module, nn.Sequential)
        if is_leaf and type_before_parametrizations(module) in self.leaves:
            self._watch(module)


def prepare(model: Module, inplace: bool = False, allow_list: Any = None,
            observer_non_leaf_module_list: set[type] | None = None,
            prepare_custom_config_dict: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Return the model with observers, ready to see a few inputs.

    Args:
        model: a module with the attribute `qconfig`, or with modules that have it. `QuantStub` and `DeQuantStub` are where it
            becomes quantized and floating point again.
        inplace: if True, change the model, otherwise a copy.
        allow_list: classes of layers whose outputs are watched, by default all that `convert` knows.
        observer_non_leaf_module_list: classes of modules with submodules whose outputs are watched, too.
        prepare_custom_config_dict: with `float_to_observed_custom_module_class`, a dictionary of classes.

    Example::

        >>> from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare
        >>> model = QuantWrapper(nn.Linear(4, 2)).eval()
        >>> model.qconfig = get_default_qconfig("x86")
        >>> model = prepare(model)
        >>> _ = model(torch.randn(8, 4))
        >>> type(convert(model).module).__module__.endswith("quantized.modules.linear")
        True
    """
    config = get_default_custom_config_dict() if prepare_custom_config_dict is None else prepare_custom_config_dict
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(_has_qconfig(module) for module in model.modules()):
        warnings.warn(
            "prepare: no module has a qconfig, so nothing will be quantized; assign .qconfig to the model or to modules of it",
            stacklevel=2,
        )
    leaves = get_default_qconfig_propagation_list() if allow_list is None else allow_list
    classes = config.get("float_to_observed_custom_module_class", {})
    _Inserter(_one_device(model), leaves, observer_non_leaf_module_list or (), classes).visit(model)
    return model


def _remove_activation_post_process(module) -> None:
    """Take the observer of a module's output away."""
    if is_activation_post_process(getattr(module, "activation_post_process", None)):
        del module.activation_post_process
    for hooks, ours in (
        (module._forward_pre_hooks, _observer_forward_pre_hook),
        (module._forward_hooks, _observer_forward_hook),
    ):
        for key in [key for key, hook in hooks.items() if hook is ours]:
            del hooks[key]


def _remove_qconfig(module) -> None:
    """Take qconfigs and observers away."""
    for child in module.children():
        _remove_qconfig(child)
    module.__dict__.pop("qconfig", None)
    _remove_activation_post_process(module)


def add_quant_dequant(module: Module) -> Any:
    """Wrap layers that have a qconfig, each by itself, in a `QuantWrapper`.

    Args:
        module: changed in place, unless it is such a layer itself.

    Returns: the module, or the wrapper.

    >>> from torch.ao.quantization import add_quant_dequant, default_qconfig
    >>> model = nn.Sequential(nn.ReLU(), nn.Tanh())
    >>> model[0].qconfig = default_qconfig
    >>> [type(child).__name__ for child in add_quant_dequant(model)]
    ['QuantWrapper', 'Tanh']
    """
    if has_no_children_ignoring_parametrizations(module) and _has_qconfig(module):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


# ---- conversion


def swap_module(mod: Module, mapping: dict[type, type], custom_module_class_mapping: dict[type, Any],
                use_precomputed_fake_quant: bool = False) -> Any:  # fmt: skip
    """Return what `convert` puts in the module's place: its quantized class made from it, or itself.

    Args:
        mod: a module; without a qconfig it stays.
        mapping: {class: quantized class}, which has `from_float`.
        custom_module_class_mapping: {class: quantized class}, which has `from_observed`.
        use_precomputed_fake_quant: whether scales of weights are those of the module's fake quantization.

    >>> from torch.ao.quantization import default_dynamic_qconfig, get_default_dynamic_quant_module_mappings, swap_module
    >>> layer = nn.Linear(2, 2)
    >>> layer.qconfig = default_dynamic_qconfig
    >>> swap_module(layer, get_default_dynamic_quant_module_mappings(), {})
    DynamicQuantizedLinear(in_features=2, out_features=2, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
    """
    kind = type_before_parametrizations(mod)
    if not _has_qconfig(mod):
        return mod
    if kind in custom_module_class_mapping:
        made = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        build = mapping[kind].from_float
        takes = "use_precomputed_fake_quant" in inspect.signature(build).parameters
        made = build(mod, use_precomputed_fake_quant=use_precomputed_fake_quant) if takes else build(mod)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        # The user's hooks move to the new module, the observers' do not.
        if hook is not _observer_forward_pre_hook:
            made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            made.register_forward_hook(hook)
    device = _one_device(mod)
    return made if device is None else made.to(device)


def _convert(module, mapping, classes, use_precomputed_fake_quant) -> None:
    for name, child in list(module.named_children()):
        if not isinstance(child, _FusedModule) and type_before_parametrizations(child) not in classes:
            _convert(child, mapping, classes, use_precomputed_fake_quant)
        module._modules[name] = swap_module(child, mapping, classes, use_precomputed_fake_quant)


def convert(module: Module, mapping: dict[type, type] | None = None, inplace: bool = False, remove_qconfig: bool = True,
            is_reference: bool = False, convert_custom_config_dict: dict[str, Any] | None = None,
            use_precomputed_fake_quant: bool = False) -> Module:  # fmt: skip
    """Return the model with quantized layers in the places of those that `prepare` or `prepare_qat` gave observers.

    Args:
        module: the model. Layers within it are replaced, not the model itself.
        mapping: {class: quantized class}, by default `get_default_static_quant_module_mappings()`.
        inplace: if True, change the model, otherwise a copy.
        remove_qconfig: if True, remove qconfigs and observers.
        is_reference: for layers that compute in floating point, which are not here.
        convert_custom_config_dict: with `observed_to_quantized_custom_module_class`, a dictionary of classes.
        use_precomputed_fake_quant: as for `swap_module`.

    Errors: NotImplementedError for is_reference.

    >>> from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare
    >>> model = QuantWrapper(nn.Linear(4, 2)).eval()
    >>> model.qconfig = get_default_qconfig("x86")
    >>> prepared = prepare(model)
    >>> _ = prepared(torch.randn(8, 4))
    >>> type(convert(prepared).module).__module__.split(".")[-3:]
    ['quantized', 'modules', 'linear']
    """
    if is_reference:
        raise NotImplementedError(
            f"convert: reference modules (ao.nn.quantized.reference) are not supported, got {is_reference=}"
        )
    config = get_default_custom_config_dict() if convert_custom_config_dict is None else convert_custom_config_dict
    if not inplace:
        module = copy.deepcopy(module)
    mapping = get_default_static_quant_module_mappings() if mapping is None else mapping
    _convert(module, mapping, config.get("observed_to_quantized_custom_module_class", {}), use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def quantize(model: Module, run_fn: Callable[..., Any], run_args: Sequence[Sequence[tuple[Any, ...]]], mapping: Any = None,
             inplace: bool = False) -> Module:  # fmt: skip
    """Quantize a model: `prepare`, some inputs, `convert`.

    Args:
        model: as for `prepare`.
        run_fn: called with the prepared model and run_args; it gives the model its inputs.
        run_args: a list of arguments.
        mapping: as for `convert`.
        inplace: if True, change the model, otherwise a copy.

    >>> from torch.ao.quantization import QuantWrapper, default_eval_fn, get_default_qconfig, quantize
    >>> model = QuantWrapper(nn.Linear(4, 2))
    >>> model.qconfig = get_default_qconfig("x86")
    >>> quantized = quantize(model, default_eval_fn, [[(torch.randn(8, 4), None)]])
    >>> quantized(torch.randn(3, 4)).shape
    torch.Size([3, 2])
    """
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, mapping, inplace=True)
    return model


_DYNAMIC = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
#: dtype -> qconfig, the classes that get it where nothing else is said
_DYNAMIC_QCONFIGS = {
    facula.qint8: (default_dynamic_qconfig, _DYNAMIC),
    facula.float16: (float16_dynamic_qconfig, _DYNAMIC),
    facula.quint8: (float_qparams_weight_only_qconfig, (nn.EmbeddingBag, nn.Embedding)),
    facula.quint4x2: (float_qparams_weight_only_qconfig_4bit, (nn.EmbeddingBag,)),
}


def quantize_dynamic(model: Module, qconfig_spec: Any = None, dtype: facula.dtype = facula.qint8, mapping: Any = None,
                     inplace: bool = False) -> Any:  # fmt: skip
    """Return the model with weights quantized; layers round their inputs to levels that they find anew each time.

    Args:
        model: any module; the copy is in evaluation mode.
        qconfig_spec: a set of classes and names of layers, or {class or name: qconfig}; by default linear and recurrent layers
            for qint8 and float16, embeddings for quint8, EmbeddingBag for quint4x2.
        dtype: of weights, where qconfig_spec is no dictionary.
        mapping: {class: quantized class}, by default `get_default_dynamic_quant_module_mappings()`.
        inplace: if True, change the model, otherwise a copy.

    Errors: ValueError and RuntimeError for other dtypes.

    Example::

        >>> from torch.ao.quantization import quantize_dynamic
        >>> model = quantize_dynamic(nn.Sequential(nn.Linear(4, 2), nn.ReLU()), {nn.Linear})
        >>> model[0].weight().dtype
        torch.qint8
    """
    if qconfig_spec is None or isinstance(qconfig_spec, set):
        if dtype not in _DYNAMIC_QCONFIGS:
            error = ValueError if qconfig_spec is None else RuntimeError
            raise error(f"quantize_dynamic: expected a dtype that has a default qconfig, got {dtype}")
        qconfig, classes = _DYNAMIC_QCONFIGS[dtype]
        qconfig_spec = dict.fromkeys(classes if qconfig_spec is None else qconfig_spec, qconfig)
    mapping = get_default_dynamic_quant_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model


# ---- training


def prepare_qat(model: Module, mapping: dict[type, type] | None = None, inplace: bool = False) -> Module:
    """Return the model with layers that round weights and outputs while they train.

    Args:
        model: in training mode, with the attribute `qconfig`, such as `get_default_qat_qconfig()`, or with modules that have
            it; layers fused by `fuse_modules_qat`.
        mapping: {class: class that trains with rounding}, by default `get_default_qat_module_mappings()`.
        inplace: if True, change the model, otherwise a copy.

    Errors: AssertionError for a model in evaluation mode.

    Example::

        >>> from torch.ao.quantization import QuantWrapper, get_default_qat_qconfig, prepare_qat
        >>> model = QuantWrapper(nn.Linear(4, 2))
        >>> model.qconfig = get_default_qat_qconfig("x86")
        >>> hasattr(prepare_qat(model).module, "weight_fake_quant")
        True
    """
    if not model.training:
        raise AssertionError(f"prepare_qat: expected a model that is training, got training={model.training}")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    # The qconfigs stay on the modules, because `prepare` chooses the observers of outputs by them.
    convert(model, mapping, inplace=True, remove_qconfig=False)
    return prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)


def quantize_qat(model: Module, run_fn: Callable[..., Any], run_args: Sequence[Any], inplace: bool = False) -> Module:
    """Quantize a model: `prepare_qat`, training, `convert`.

    Args:
        model: as for `prepare_qat`.
        run_fn: called with the prepared model and run_args; it trains.
        run_args: a list of arguments.
        inplace: if True, change the model, otherwise a copy.

    >>> from torch.ao.quantization import QuantWrapper, default_eval_fn, get_default_qat_qconfig, quantize_qat
    >>> model = QuantWrapper(nn.Linear(4, 2))
    >>> model.qconfig = get_default_qat_qconfig("x86")
    >>> quantized = quantize_qat(model, default_eval_fn, [[(torch.randn(8, 4), None)]])
    >>> quantized(torch.randn(3, 4)).shape
    torch.Size([3, 2])
    """
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, inplace=True)
    return model
