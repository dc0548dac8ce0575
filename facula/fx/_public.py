"""Find the names under which programs call functions, which graphs print, and record calls in PyTorch's form.

A graph prints the names of PyTorch (`torch.nn.functional.dropout`), wherever Facula defines the function. Functions
that PyTorch has written in Python are recorded with all their optional arguments by keyword; the others as they were
called. Facula divides functions between C++ and Python in another way, so a table says which functions are written in
Python there.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import sys
import types

import facula
from facula import _C
from facula._operators.namespaces import OpOverload, OpOverloadPacket
from facula._shared.near_names import no_attribute

#: Functions of the core that are Python in PyTorch, with the arguments that they have there.
_SIGNATURES = """
    celu(input, alpha=1.0, inplace=False) elu(input, alpha=1.0, inplace=False) hardsigmoid(input, inplace=False)
    hardswish(input, inplace=False) leaky_relu(input, negative_slope=0.01, inplace=False) mish(input, inplace=False)
    relu(input, inplace=False) relu6(input, inplace=False) selu(input, inplace=False) silu(input, inplace=False) softsign(input)
    tanhshrink(input) threshold(input, threshold, value, inplace=False)
"""
_SIGNATURES_OF_TORCH = """
    norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None) meshgrid(*tensors, indexing=None)
    split(tensor, split_size_or_sections, dim=0) unravel_index(indices, *, shape)
    cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary")
"""
#: Functions of Facula in Python, by the module of their users, that are recorded in PyTorch's way of functions in Python.
_PYTHON = {
    "nn.functional": """
        adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d
        adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid alpha_dropout
        batch_norm binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss dropout
        dropout1d dropout2d dropout3d embedding embedding_bag feature_alpha_dropout fold fractional_max_pool2d
        fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices gaussian_nll_loss glu
        grid_sample group_norm gumbel_softmax hardtanh hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss
        layer_norm linear_cross_entropy local_response_norm log_softmax lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss
        max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d
        max_unpool2d max_unpool3d mse_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss
        multilabel_soft_margin_loss nll_loss normalize pad poisson_nll_loss rms_norm rrelu smooth_l1_loss soft_margin_loss
        softmax softmin triplet_margin_loss triplet_margin_with_distance_loss unfold
        """,
    "functional": "lobpcg lu pca_lowrank stft svd_lowrank tensordot unique unique_consecutive",
    "nn.init": "uniform_ normal_ constant_ kaiming_uniform_",
}
#: Functions of Facula in Python that are recorded as they are called.
_AS_CALLED = """
    affine_grid_generator chain_matmul cosine_embedding_loss detach einsum frobenius_norm get_device gradient gru gru_cell
    hinge_embedding_loss histogramdd is_complex is_conj is_distributed is_floating_point is_inference is_neg is_nonzero
    is_same_size is_signed istft lstm lstm_cell margin_ranking_loss native_norm nonzero norm_except_dim nuclear_norm numel
    poisson_nll_loss rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell segment_reduce sym_float sym_int sym_ite sym_max sym_min
    sym_not sym_sqrt sym_sum triplet_margin_loss _assert
""".split()
#: Where PyTorch keeps functions of the core that are not at its top level.
_OF_NN = """
    linear gelu one_hot softplus logsigmoid softshrink scaled_dot_product_attention avg_pool2d avg_pool3d elu_ hardtanh_
    leaky_relu_ upsample_nearest2d upsample_bilinear2d
""".split()
_OF_FUNCTIONAL = """
    align_tensors atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist
    chain_matmul einsum istft lu meshgrid norm split stft tensordot unique unique_consecutive unravel_index
""".split()
_RENAMED = {"logsigmoid": "log_sigmoid"}

_nn = _C.nn_functional


def _parse(text):
    """Return {name: signature} of functions written as in a program."""
    found = {}
    for part in text.replace("\n", " ").split(") "):
        if name := part.partition("(")[0].strip():
            scope = {}
            exec(f"def {part.strip().rstrip(')')}): pass", scope)  # our own text, from above
            found[name] = inspect.signature(scope[name])
    return found


@functools.cache
def _signatures():
    """Return {function: signature} of all that is recorded in the way of functions in Python."""
    found = {getattr(_nn, name): signature for name, signature in _parse(_SIGNATURES).items()}
    found.update((getattr(_C, name), signature) for name, signature in _parse(_SIGNATURES_OF_TORCH).items())
    for home, names in _PYTHON.items():
        module = facula if home == "functional" else importlib.import_module(f"facula.{home}")
        for name in names.split():
            function = getattr(module, name)
            found[function] = inspect.signature(function)
    return found


@functools.cache
def interceptable():
    """Return {id: function} of the functions that must be replaced while a program is traced: those in Python, which do not ask
    their arguments who takes the call over, and second names of functions of the core, which would be recorded by the first."""
    named = [getattr(facula, name) for name in _AS_CALLED]
    in_python = [f for f in (*_signatures(), *named) if isinstance(f, types.FunctionType)]
    return {id(f): f for f in (*in_python, *_second_names())}


def _second_names():
    """Yield the functions of the core that are equal to one before: `swapaxes` after `transpose`."""
    first = {}
    for home in (_C, _C.special, _C.linalg, _C.fft):
        for function in list(vars(home).values()):
            if isinstance(function, types.BuiltinFunctionType) and first.setdefault(function, function) is not function:
                yield function


#: functions of `nn.functional` that call a method of their argument
METHODS = {id(getattr(_nn, name)): name for name in ("sigmoid", "tanh")}


def _with_indices(function, arguments):
    """Return the function that gives indices too, which is another one in PyTorch."""
    name = f"{function.__name__}_with_indices"
    if arguments.get("return_indices") is True and hasattr(facula.nn.functional, name):
        return getattr(facula.nn.functional, name)
    return function


def written_call(function, args, kwargs):
    """Return (function, args, kwargs) as a graph has them."""
    try:
        signature = _signatures().get(function)
    except TypeError:  # not hashable
        signature = None
    if signature is None:
        return function, args, kwargs
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    all_by_keyword = getattr(function, "__module__", "") == "facula.nn.init"
    positional, keywords = [], {}
    for name, parameter in signature.parameters.items():
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif parameter.kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty or all_by_keyword:
            keywords[name] = value
        else:
            positional.append(value)
    return _with_indices(function, keywords), tuple(positional), keywords


# ---- names


class _Names(types.ModuleType):
    """Find functions of a module of the core under PyTorch's private name, such as `torch._C._nn.gelu`."""

    def __init__(self, name, module, prefix="", renamed=None):
        super().__init__(name)
        self._module, self._prefix, self._renamed = module, prefix, renamed or {}
        self._others = (_C,)

    def __getattr__(self, name):
        wanted = self._renamed.get(name, name).removeprefix(self._prefix)
        if name.startswith("__") or not hasattr(self._module, wanted):
            if not name.startswith("__"):
                for place in self._others:
                    if hasattr(place, name):
                        return getattr(place, name)
            raise no_attribute(self.__name__, name)
        return getattr(self._module, wanted)


_C._nn = _Names("torch._C._nn", _nn, renamed={new: old for old, new in _RENAMED.items()})
sys.modules["facula._C._nn"] = _C._nn
_PLACES = {"facula._C.linalg": "linalg", "facula._C.special": "special", "facula._C.fft": "fft"}
for _place in _PLACES.values():
    setattr(_C, f"_{_place}", _Names(f"torch._C._{_place}", getattr(_C, _place), f"{_place}_"))


def _module_of(function):
    module = getattr(function, "__module__", None)
    if module is not None:
        return module
    objclass = getattr(function, "__objclass__", None)
    return getattr(objclass, "__module__", None)


def torch_module(name):
    """Return the name of a module in PyTorch, torch.nn.modules.linear for facula.nn.modules.linear."""
    return f"torch{name[len('facula') :]}" if name == "facula" or name.startswith("facula.") else name


def _core_name(function, name):
    """Return the name of a function of the top level of the core, or of its `nn_functional`."""
    if getattr(_nn, name, None) is function:
        if function in _signatures():
            return f"torch.nn.functional.{name}"
        if name in _OF_NN:
            return f"torch._C._nn.{_RENAMED.get(name, name)}"
        if not hasattr(_C, name):
            return f"torch.nn.functional.{name}"
    return f"torch.functional.{name}" if name in _OF_FUNCTIONAL else f"torch.{name}"


def _qualified_function(function, module, name):
    if module in _PLACES:
        return f"torch._C._{_PLACES[module]}.{_PLACES[module]}_{name}"
    if module in ("facula._C", "facula._C.nn_functional"):
        return _core_name(function, name)
    if module.startswith("facula.nn.functions."):
        return f"torch.nn.functional.{name}"
    if module.startswith("facula.functions."):
        if name == "segment_reduce":
            return "torch.segment_reduce"
        return f"torch.functional.{name}" if name in _OF_FUNCTIONAL else f"torch.{name}"
    if name != "<lambda>" and getattr(facula, name, None) is function:
        return f"torch.{name}"
    return f"{torch_module(module)}.{name}"


def qualified_name(function):
    """Return the name by which a program reaches a function: what a graph prints and its code calls."""
    name = getattr(function, "__name__", None)
    if name is not None and getattr(builtins, name, None) is function:
        return name
    if isinstance(function, OpOverload):
        packet = function.overloadpacket
        return f"torch.ops.{packet._qualified_op_name.replace('::', '.')}.{function._overloadname}"
    if isinstance(function, OpOverloadPacket):
        return f"torch.ops.{function._qualified_op_name.replace('::', '.')}"
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        if getattr(facula.Tensor, name, None) is function:
            return f"torch.Tensor.{name}"
    if name is None:
        raise RuntimeError(f"fx: a function in a graph needs a name, got {function!r}")
    if name == "<lambda>":
        with_source = _lambda_source(function)
        raise RuntimeError(f"qualified_name: a lambda has no name, got {with_source}")
    module = _module_of(function)
    if module is None:
        return name
    if module == "_operator":
        return f"_operator.{name}"
    return _qualified_function(function, module, name)


def _lambda_source(function):
    try:
        return inspect.getsource(function).strip()
    except OSError:
        return repr(function)


def short_name(function):
    """Return what a node that calls `function` is named after."""
    name = getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    if name is None or not isinstance(module, str) or not module.startswith("facula."):
        return name or "call"
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return name
    if isinstance(function, types.BuiltinFunctionType) and module.startswith("facula._C"):
        return _qualified_function(function, module, name).rpartition(".")[2]
    return name


def _type_repr(obj):
    """Return a type as generated code writes it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        module = torch_module(obj.__module__)
        return obj.__qualname__ if module == "builtins" else f"{module}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj).replace("facula.", "torch.") if "facula." in repr(obj) else repr(obj)


def stated_type(function, name):
    """Return the type that a function states for a parameter, or for "return"; None for texts of Facula's own functions, which
    are for type checkers."""
    kind = getattr(function, "__annotations__", {}).get(name)
    own = getattr(function, "__globals__", {}).get("__name__", "").startswith("facula.")
    return None if own and isinstance(kind, str) else kind
