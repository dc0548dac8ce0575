"""Names that public programs use and no other test calls: each line of the tables is true, of PyTorch, too.

A program: `python -m facula tests/used_names.py` (or PyTorch's `python`) writes the lines that are not true, and how many there are.

Long because most of it is tables, a line for each name.
"""

import collections  # noqa: F401 (the tables use it)
import importlib
import operator  # noqa: F401
import tempfile
import warnings

import numpy as np
import torch
import torch._jit_internal
import torch._prims_common
import torch._subclasses.fake_tensor
import torch.distributed._functional_collectives
import torch.distributed.checkpoint.state_dict
import torch.distributed.fsdp
import torch.distributed.run
import torch.distributed.tensor
import torch.fx.experimental.symbolic_shapes
import torch.nn.attention.flex_attention
import torch.nn.utils.prune
import torch.onnx.operators
import torch.utils.data.graph_settings
import torch.utils.model_zoo

nn, F = torch.nn, torch.nn.functional
optimizer = importlib.import_module("torch.optim.optimizer")


def close(a, b):
    return bool(np.allclose(np.asarray(a), np.asarray(b), atol=1e-6))


def shapes(tensors):
    return [tuple(t.shape) for t in tensors]


def gradients_of_a_convolution():
    ones, more = torch.ones(1, 1, 2), ([1], [1], [0], [1], False, [0], 1, [True, True, True])
    return [g.tolist() for g in torch.ops.aten.convolution_backward(ones, torch.arange(3.0).reshape(1, 1, 3), ones, *more)]


def fused_weight(weight, scale):
    zero = torch.zeros(1)
    return nn.utils.fuse_conv_bn_weights(weight, None, zero, torch.ones(1), 0.0, torch.tensor([scale]), zero)[0].detach()


def places_by_dtype(*tensors):
    found = torch.optim.Optimizer._group_tensors_by_device_and_dtype([list(tensors)], with_indices=True)
    return [places for _, places in found.values()]


class Sub(torch.Tensor):
    pass


class Count(nn.Module):
    def __init__(self, **more):
        super().__init__()
        self.__dict__.update(more)
        self.seen = []

    def forward(self, x):
        self.seen.append(tuple(x.shape))
        return x


def changed(start, change, *given):
    """The values of a tensor after an operator in place."""
    x = torch.tensor(start)
    y = change(x, *given)
    assert y is x
    return x.tolist()


def foreach(name, *given):
    x = [torch.tensor([1.0, 4.0]), torch.tensor([2.0])]
    result = getattr(torch, name)(x, *given)
    return [t.tolist() for t in (x if name.endswith("_") else result)]


def backward_hook():
    layer, seen = nn.Linear(2, 1), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer.register_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_output[0].tolist()))
    layer(torch.ones(1, 2)).sum().backward()
    return seen


def own_state():
    class Loads(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *more):
            state_dict[f"{prefix}weight"] = state_dict[f"{prefix}weight"] * 0
            super()._load_from_state_dict(state_dict, prefix, *more)

    layer = Loads(2, 1)
    layer.load_state_dict(nn.Linear(2, 1).state_dict())
    return not layer.weight.any()


def pruned(kind, *given, **more):
    kind = kind if kind == "random_structured" else getattr(nn.utils.prune, kind)
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    prune = nn.utils.prune
    if isinstance(kind, str):
        getattr(prune, kind)(layer, "weight", *given, **more)
    else:
        kind.apply(layer, "weight", *given, **more)
    return int((layer.weight == 0).sum())


def reset(loader):
    iterator = iter(loader)
    next(iterator)
    iterator._reset(loader)
    return next(iterator).tolist()


def lazy():
    class Has:
        made = 0

        @torch.distributions.utils.lazy_property
        def value(self):
            self.made += 1
            return torch.ones(1)

    has = Has()
    return has.value is has.value and has.made == 1


def recorded():
    with torch.autograd.profiler.profile(), torch.autograd.profiler.record_function("part") as part:
        return torch.autograd._profiler_enabled() and callable(part.__exit__)


def raised(function, *given):
    try:
        function(*given)
    except Exception as error:
        return type(error).__name__


def mutated_backends():
    with getattr(torch.backends, "__allow_nonbracketed_mutation")():
        return True


def kept_optimizer():
    state_dict = torch.distributed.checkpoint.state_dict
    net, other = nn.Linear(2, 1), nn.Linear(2, 1)
    first, second = (torch.optim.Adam(n.parameters(), lr=0.1) for n in (net, other))
    state_dict._init_optim_state(second)
    net(torch.ones(1, 2)).sum().backward()
    first.step()
    kept = state_dict.get_optimizer_state_dict(net, first)
    state_dict.set_optimizer_state_dict(other, second, optim_state_dict=kept)
    return second.state[other.weight]["exp_avg"].equal(first.state[net.weight]["exp_avg"])


def saved_state():
    checkpoint, loaded = torch.distributed.checkpoint, {"a": torch.zeros(2)}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save_state_dict({"a": torch.ones(2)}, checkpoint.FileSystemWriter(folder), no_dist=True)
        checkpoint.load_state_dict(loaded, checkpoint.FileSystemReader(folder), no_dist=True)
    return loaded["a"].tolist() == [1, 1]


class Pair:
    def __init__(self, a, b):
        self.parts = [a, b]


def flattened_pairs():
    torch.utils._pytree._register_pytree_node(Pair, lambda p: (p.parts, None), lambda parts, _: Pair(*parts))
    torch.fx._pytree.register_pytree_flatten_spec(Pair, lambda p, spec: p.parts)
    spec = torch.utils._pytree.tree_flatten(Pair(1, 2))[1]
    return torch.fx._pytree.tree_flatten_spec(Pair(3, 4), spec)


def copied_attribute():
    source, target = nn.Sequential(nn.Linear(1, 1)), nn.Module()
    torch.fx.graph_module._copy_attr(source, target, "0.weight")
    return target.get_submodule("0").weight is source[0].weight


def shuffler(values):
    pipes = torch.utils.data.datapipes.iter
    return pipes.combinatorics.ShufflerIterDataPipe(pipes.IterableWrapper(values))


TENSORS = """
torch.BoolTensor([1, 0]).tolist() == [True, False]
torch.ByteTensor([1]).dtype is torch.uint8
torch.ShortTensor([3]).dtype is torch.int16
torch.HalfTensor([1.5]).dtype is torch.float16
changed([7, 6], operator.iand, 3) == [3, 2]
changed([1, 2], operator.ior, 4) == [5, 6]
changed([1, 3], operator.ixor, 1) == [0, 2]
changed([7, 9], operator.ifloordiv, 2) == [3, 4]
changed([7, 9], operator.imod, 4) == [3, 1]
changed([1, 2], operator.ilshift, 2) == [4, 8]
changed([4, 8], operator.irshift, 2) == [1, 2]
changed([1.0, 2.0], operator.imul, 3) == [3, 6]
changed([1.0, 2.0], operator.isub, 1) == [0, 1]
changed([1.0, 2.0], operator.itruediv, 2) == [0.5, 1]
changed([1.0, 5.0], torch.Tensor.clip_, 2, 3) == [2, 3]
torch.tensor([2, 3]).__rfloordiv__(7).tolist() == (7 // torch.tensor([2, 3])).tolist() == [3, 2]
torch.tensor([2, 4]).__rmod__(7).tolist() == (7 % torch.tensor([2, 4])).tolist() == [1, 3]
torch.tensor([2, 3]).__rlshift__(1).tolist() == (1 << torch.tensor([2, 3])).tolist() == [4, 8]
torch.tensor([2, 3]).__rrshift__(16).tolist() == (16 >> torch.tensor([2, 3])).tolist() == [4, 2]
torch.tensor([1, 2]).__ror__(4).tolist() == (4 | torch.tensor([1, 2])).tolist() == [5, 6]
torch.tensor([1, 3]).__rxor__(1).tolist() == (1 ^ torch.tensor([1, 3])).tolist() == [0, 2]
torch.tensor([2, 3]).__rpow__(2).tolist() == [4, 8]
torch.tensor([2.0]).__rtruediv__(1).tolist() == [0.5]
close(torch.arccos(torch.tensor([0.5])), [1.0471976])
close(torch.arcsin(torch.tensor([0.5])), [0.5235988])
close(torch.arctan(torch.tensor([1.0])), [0.7853982])
close(torch.arctan2(torch.tensor([1.0]), torch.tensor([-1.0])), [2.3561945])
torch.ones(2, 3).ndimension() == 2
torch.ones(2, 3).nelement() == 6
not any((torch.ones(1).is_mps, torch.ones(1).is_quantized, torch.ones(1).is_sparse, torch.ones(1).is_xpu))
torch.ger(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])).tolist() == [[3, 4], [6, 8]]
torch.true_divide(torch.tensor([1, 3]), 2).tolist() == [0.5, 1.5]
close(torch.special.expit(torch.tensor([0.0, 1.0])), [0.5, 0.7310586])
torch.trapz(torch.tensor([1.0, 2.0, 3.0])).item() == 4
torch.trapz(torch.tensor([1.0, 3.0]), dx=2.0).item() == 4
foreach("_foreach_add_", 1) == [[2, 5], [3]]
foreach("_foreach_sub", 1) == [[0, 3], [1]]
foreach("_foreach_neg") == [[-1, -4], [-2]]
foreach("_foreach_div", 2) == [[0.5, 2], [1]]
foreach("_foreach_div_", 2) == [[0.5, 2], [1]]
foreach("_foreach_neg_") == [[-1, -4], [-2]]
foreach("_foreach_maximum_", 2) == [[2, 4], [2]]
foreach("_foreach_minimum_", 2) == [[1, 2], [2]]
foreach("_foreach_pow", 2) == [[1, 16], [4]]
foreach("_foreach_reciprocal_") == [[1, 0.25], [0.5]]
foreach("_foreach_sqrt_")[0] == [1, 2]
foreach("_foreach_lerp_", [torch.zeros(2), torch.zeros(1)], 0.5) == [[0.5, 2], [1]]
foreach("_foreach_addcmul_", [torch.ones(2), torch.ones(1)], [torch.ones(2), torch.ones(1)], 2) == [[3, 6], [4]]
foreach("_foreach_addcdiv_", [torch.ones(2), torch.ones(1)], [torch.ones(2), torch.ones(1)], 2) == [[3, 6], [4]]
torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
torch.legacy_contiguous_format is torch.contiguous_format
close(torch._softmax_backward_data(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]), 1, torch.float32), [[0.25, -0.25]])
torch._segment_reduce(torch.tensor([1.0, 2.0, 3.0]), "sum", lengths=torch.tensor([2, 1])).tolist() == [3, 3]
torch.get_default_dtype() is torch.float32
not torch.is_inference_mode_enabled()
torch.get_autocast_cpu_dtype() is torch.bfloat16
torch.get_autocast_gpu_dtype() is torch.float16
not torch.is_deterministic_algorithms_warn_only_enabled()
isinstance(torch.default_generator, torch.Generator)
torch.random.default_generator is torch.default_generator
torch.ops.aten._to_copy(torch.ones(2), dtype=torch.int64).dtype is torch.int64
torch.ops.aten._unsafe_view(torch.ones(4), [2, 2]).shape == (2, 2)
torch.ops.aten._local_scalar_dense(torch.tensor(3)) == 3
bool(torch.ops.aten._is_all_true(torch.tensor([True])))
torch.ops.aten._assert_scalar(1, "no") is None
torch.ops.aten._assert_tensor_metadata(torch.ones(2), [2], None, torch.float32) is None
torch.ops.aten.sym_constrain_range_for_size(3, min=2) is None
torch.sym_constrain_range(3, min=1, max=3) is None
torch.ops.aten.alias(torch.ones(2)).tolist() == [1, 1]
torch.ops.aten.sym_size(torch.ones(2, 3), 1) == 3
torch.ops.aten.sym_stride(torch.ones(2, 3), 0) == 3
gradients_of_a_convolution() == [[[[1, 2, 1]]], [[[1, 3]]], [2]]
torch.ByteStorage.from_buffer(b"ab", "native").tolist() == [97, 98]
torch.ShortStorage.from_buffer(b"\\0\\1", "big").tolist() == [1]
torch.FloatStorage._from_buffer(bytes(8), "little").tolist() == [0, 0]
torch.types._size is not None
torch.types._device is not None
torch.types._dtype is torch.dtype
str(torch.sparse_csc) == "torch.sparse_csc"
issubclass(torch.SymInt, object)
not isinstance(3, torch.SymInt)
not isinstance(3.0, torch.SymFloat)
not isinstance(True, torch.SymBool)
"""

MODULES = """
nn.Linear(2, 3).extra_repr() == "in_features=2, out_features=3, bias=True"
nn.Module().extra_repr() == ""
nn.Sequential().add_module("a", nn.ReLU()) is None
[*torch.nn.Sequential(collections.OrderedDict(a=nn.ReLU()))._modules] == ["a"]
backward_hook() == [[[1]]]
own_state()
isinstance(nn.LSTM(1, 1), nn.RNNBase)
nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 1)(torch.ones(2, 1, 4), torch.ones(3, 1, 4)).shape == (2, 1, 4)
issubclass(nn.BatchNorm1d, nn.modules.batchnorm._BatchNorm)
issubclass(nn.BatchNorm1d, nn.modules.batchnorm._NormBase)
issubclass(nn.Conv2d, nn.modules.conv._ConvNd)
issubclass(nn.InstanceNorm1d, nn.modules.instancenorm._InstanceNorm)
issubclass(nn.LazyLinear, nn.modules.lazy.LazyModuleMixin)
issubclass(nn.MSELoss, nn.modules.loss._Loss)
isinstance(nn.MultiheadAttention(2, 1).out_proj, nn.modules.linear.NonDynamicallyQuantizableLinear)
nn.modules.module._EXTRA_STATE_KEY_SUFFIX == "_extra_state"
nn.modules.module._IncompatibleKeys(["a"], []).missing_keys == ["a"]
nn.modules.transformer._get_activation_fn("gelu") is F.gelu
nn.modules.utils._single(1) == (1,)
nn.modules.utils._pair(1) == (1, 1)
nn.modules.utils._triple(1) == (1, 1, 1)
nn.modules.utils._ntuple(4)(2) == (2,) * 4
nn.MultiheadAttention(2, 1)._reset_parameters() is None
nn.init._calculate_fan_in_and_fan_out(torch.ones(3, 2)) == (2, 3)
nn.init._calculate_correct_fan(torch.ones(3, 2), "fan_out") == 3
float(nn.init._no_grad_uniform_(torch.ones(50, requires_grad=True), 2, 3).min()) >= 2
F._canonical_mask(torch.tensor([True]), "m", None, "", torch.float32).item() == -float("inf")
F._none_or_dtype(torch.ones(1)) is torch.float32
shapes(F._in_projection_packed(*[torch.ones(1, 1, 2)] * 3, torch.ones(6, 2))) == [(1, 1, 2)] * 3
pruned("RandomUnstructured", 3) == 3
pruned("RandomStructured", 1) == 4
pruned("LnStructured", 1, 2, 0) == 4
pruned("random_structured", amount=1, dim=0) == 4
close(fused_weight(torch.ones(1, 1, 1), 2.0), [[[2]]])
isinstance(nn.utils.rnn.pack_sequence([torch.ones(2)]), nn.utils.rnn.PackedSequence)
[t.tolist() for t in nn.utils.rnn.unpad_sequence(torch.tensor([[1, 2], [3, 0]]), torch.tensor([2, 1]))] == [[1, 3], [2]]
torch.optim.lr_scheduler.StepLR.__mro__[1] is torch.optim.lr_scheduler.LRScheduler
issubclass(torch.optim.lr_scheduler._LRScheduler, torch.optim.lr_scheduler.LRScheduler)
optimizer._default_to_fused_or_foreach([torch.ones(2)], False) == (False, False)
optimizer._default_to_fused_or_foreach([torch.ones(2)], False, True) == (True, False)
optimizer._get_capturable_supported_devices() == ["cuda", "xpu", "hpu", "privateuseone", "xla"]
optimizer.ParamsT is not None
sorted(places_by_dtype(torch.ones(1), torch.ones(1).long(), torch.ones(2))) == [[0, 2], [1]]
torch.nn.attention.flex_attention._DEFAULT_SPARSE_BLOCK_SIZE == 128
torch.amp.grad_scaler.OptState.READY.value == 0
torch.amp.autocast_mode._cast(torch.ones(1), "cpu", torch.bfloat16).dtype is torch.bfloat16
"""

HELPERS = """
torch._utils._flatten_dense_tensors([torch.ones(2), torch.zeros(1, 2)]).tolist() == [1, 1, 0, 0]
shapes(torch._utils._unflatten_dense_tensors(torch.ones(4), [torch.ones(2), torch.zeros(1, 2)])) == [(2,), (1, 2)]
torch._utils._element_size(torch.float16) == 2
torch._utils._get_device_index("cuda:1") == 1
torch._utils._get_device_index("cpu", allow_cpu=True) == -1
torch._tensor_str._tensor_str(torch.arange(4.0).reshape(2, 2), 0) == "[[0., 1.],\\n [2., 3.]]"
torch._tensor_str._str_intern(torch.ones(2)) == "tensor([1., 1.])"
torch._tensor_str._add_suffixes("tensor([1]", ["dtype=x", "b"], 7, False) == "tensor([1], dtype=x, b)"
torch._tensor_str.PRINT_OPTS.precision == 4
torch._prims_common.is_contiguous_or_false(torch.ones(2))
not torch._prims_common.is_contiguous_or_false(torch.ones(2, 3).t())
torch._C._get_accelerator().type in ("cpu", "cuda")
torch._C._get_default_device() == "cpu"
torch._C._GLIBCXX_USE_CXX11_ABI is True
torch._C._get_tracing_state() is None
not torch._C._are_functorch_transforms_active()
torch._C._get_privateuse1_backend_name() == "privateuseone"
type(torch.Tensor) is torch._C._TensorMeta
torch._C.DispatchKey.AutocastXPU is not None
not torch._C._distributed_rpc._is_current_rpc_agent_set()
torch.autograd._is_checkpoint_valid()
not torch.autograd._profiler_enabled()
recorded()
issubclass(torch.autograd.function.FunctionCtx, object)
not torch._subclasses.fake_tensor.is_fake(torch.ones(1))
torch.hub._check_module_exists("os")
not torch.hub._check_module_exists("no_such_module")
torch.hub._get_torch_home().endswith("torch")
torch.hub.HASH_REGEX.search("net-0123abcd.pth").group(1) == "0123abcd"
torch.hub.urlparse("http://a/b").path == "/b"
list(torch.utils.model_zoo.tqdm([1, 2], disable=True)) == [1, 2]
callable(torch.utils.model_zoo.load_url)
not torch.backends.mps.is_built()
callable(torch.backends.mps.is_macos_or_newer)
isinstance(torch.backends.quantized.supported_engines, list)
isinstance(torch.cuda.get_arch_list(), list)
torch.cuda.device_of(torch.ones(1)) is not None
torch.version.hip is None
torch.multiprocessing.current_process().name
"spawn" in torch.multiprocessing.get_all_start_methods()
callable(torch.multiprocessing.Pool)
callable(torch.multiprocessing.Manager)
torch.jit.Final[int] is not None
callable(torch.jit._overload)
torch.jit.annotations.BroadcastingList2[int] in (None, list[int])
torch.jit._script_if_tracing(close)(1, 1)
torch.serialization.DEFAULT_PROTOCOL == 2
torch.serialization.MAP_LOCATION is not None
callable(torch.serialization.default_restore_location)
Sub is not torch.Tensor
torch.Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions()
torch.fx.map_arg([1, 2], lambda n: n) == [1, 2]
torch.fx.experimental.symbolic_shapes.guard_or_true(True)
torch.fx.graph_module._USER_PRESERVED_ATTRIBUTES_KEY.startswith("_")
torch.profiler.profiler._default_schedule_fn(3) is torch.profiler.ProfilerAction.RECORD
torch.profiler.ProfilerActivity.XPU != torch.profiler.ProfilerActivity.CPU
torch.profiler.kineto_available() in (True, False)
not torch.xpu.is_bf16_supported()
torch.distributions.utils.logits_to_probs(torch.zeros(2)).tolist() == [0.5, 0.5]
close(torch.distributions.utils.probs_to_logits(torch.tensor([0.5, 0.5])), [-0.6931472] * 2)
close(torch.distributions.utils.clamp_probs(torch.tensor([0.0, 1.0])), [1.1920929e-07, 1 - 1.1920929e-07])
lazy()
torch.distributions.utils._sum_rightmost(torch.ones(2, 3), 1).tolist() == [3, 3]
torch.distributions.utils._standard_normal((2,), torch.float32, "cpu").shape == (2,)
torch.distributions.constraints.greater_than_eq(1).check(torch.tensor([0.0, 1.0])).tolist() == [False, True]
torch.distributions.constraints.integer_interval(0, 2).check(torch.tensor([1.0, 3.0])).tolist() == [True, False]
issubclass(torch.distributions.transforms.Transform, torch.distributions.Transform)
isinstance(torch.distributions.ExpTransform().inv, torch.distributions.transforms._InverseTransform)
close(torch.distributions.transforms.SoftmaxTransform()(torch.zeros(2)), [0.5, 0.5])
close(torch.distributions.transforms.LowerCholeskyTransform()(torch.zeros(2, 2)), np.eye(2))
close(torch.distributions.transforms.PositiveDefiniteTransform()(torch.zeros(1, 1)), [[1]])
torch.distributions.Distribution._validate_args in (True, False)
isinstance(torch.distributions.constraints.positive, torch.distributions.constraints.Constraint)
torch.distributions.constraints.dependent is not None
callable(torch.distributions.constraints.dependent_property)
torch.utils._pytree._dict_flatten({"a": 1}) == ([1], ["a"])
torch.utils._pytree._dict_unflatten([1], ["a"]) == {"a": 1}
torch.utils._pytree._get_node_type([1]) is list
dict in torch.utils._pytree.SUPPORTED_NODES
isinstance(torch.utils._pytree.tree_flatten(1)[1], torch.utils._pytree.TreeSpec)
torch.utils._pytree.LeafSpec() == torch.utils._pytree.tree_flatten(1)[1]
torch.utils._pytree._dict_flatten_with_keys({"a": 1})[0][0][1] == 1
torch.utils._pytree.SequenceKey(1) == torch.utils._pytree.SequenceKey(1)
torch.utils._pytree.Context is not None
torch.utils._pytree.PyTree is not None
[t.requires_grad for t in torch.utils.checkpoint.detach_variable((torch.ones(1, requires_grad=True),))] == [True]
torch.utils.checkpoint.check_backward_validity([torch.ones(1, requires_grad=True)]) is None
list(torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(3)), 2, False)) == [[0, 1], [2]]
reset(torch.utils.data.DataLoader(range(3))) == [0]
torch.utils.data.dataloader._DatasetKind.Map == 0
torch.utils.data.dataloader._DatasetKind.Iterable == 1
torch.utils.data._DatasetKind is torch.utils.data.dataloader._DatasetKind
torch.Tensor in torch.utils.data._utils.collate.default_collate_fn_map
torch.utils.data._utils.collate.np_str_obj_array_pattern.search("SU")
torch.utils.data._utils.worker._worker_info is None
issubclass(torch.utils.data.dataloader._MultiProcessingDataLoaderIter, torch.utils.data.dataloader._BaseDataLoaderIter)
isinstance(nn.Linear(1, 1).register_forward_hook(close), torch.utils.hooks.RemovableHandle)
torch.distributed.Backend.GLOO == "gloo"
torch.distributed.is_xccl_available() in (True, False)
torch.distributed.is_torchelastic_launched() in (True, False)
torch.distributed.is_gloo_available() in (True, False)
torch.distributed.tensor.placement_types.Shard.local_shard_size_and_offset(5, 2, 1) == (2, 3)
torch.distributed.tensor.placement_types.Shard(0)._local_shard_size_and_offset(5, 2, 0) == (3, 0)
torch.distributed.fsdp.ShardingStrategy.FULL_SHARD != torch.distributed.fsdp.ShardingStrategy.NO_SHARD
torch.distributed.fsdp.CPUOffloadPolicy().pin_memory
isinstance(torch.distributed.fsdp.CPUOffloadPolicy(), torch.distributed.fsdp.OffloadPolicy)
torch.distributed.fsdp.OptimStateKeyType.PARAM_NAME != torch.distributed.fsdp.OptimStateKeyType.PARAM_ID
torch.distributed.fsdp.LocalStateDictConfig() is not None
torch.distributed.fsdp.ShardedStateDictConfig() is not None
torch.distributed.fsdp.ShardedOptimStateDictConfig() is not None
torch.distributed.fsdp.BackwardPrefetch.BACKWARD_PRE != torch.distributed.fsdp.BackwardPrefetch.BACKWARD_POST
torch.distributed.run.get_args_parser().parse_args(["--nproc-per-node", "2", "x.py"]).training_script == "x.py"
torch._C._functorch.is_legacy_batchedtensor(torch.ones(1)) is False
torch._C._jit_can_fuse_on_cpu() in (True, False)
torch._C._jit_can_fuse_on_gpu() in (True, False)
torch._C._jit_override_can_fuse_on_cpu(False) is None
torch._C._jit_override_can_fuse_on_gpu(False) is None
isinstance(torch._C._jit_set_bailout_depth(20), (int, type(None)))
torch._C._jit_set_nvfuser_enabled(False) in (False, None)
torch._C._jit_set_nvfuser_guard_mode(False) in (True, False, None)
torch._C._jit_set_profiling_executor(True) in (True, False, None)
torch._C._jit_set_profiling_mode(True) in (True, False, None)
torch._C._jit_set_texpr_fuser_enabled(False) in (True, False, None)
torch._C._set_math_sdp_allow_fp16_bf16_reduction(False) is None
torch._check_with(ValueError, True, lambda: "no") is None
raised(torch._check_with, ValueError, False, lambda: "no") == "ValueError"
torch._check_tensor_all_with(ValueError, torch.tensor([True])) is None
raised(torch._check_tensor_all_with, ValueError, torch.tensor([False])) == "ValueError"
torch._dynamo.assume_constant_result(close) is close
torch._dynamo.is_dynamo_supported() in (True, False)
torch._dynamo.mark_dynamic(torch.ones(2), 0) is None
torch._dynamo.mark_static_address(torch.ones(2)) is None
torch._dynamo.utils.is_compile_supported("cpu") in (True, False)
torch._jit_internal._copy_to_script_wrapper(close) is close
torch._jit_internal._qualified_name(Sub).endswith("Sub")
mutated_backends() and torch.compiler.cudagraph_mark_step_begin() is None
torch.cuda.StreamContext(None).__enter__() is None
torch.distributed.ReduceOp.RedOpType.SUM == torch.distributed.ReduceOp.SUM
issubclass(torch.distributed._functional_collectives.AsyncCollectiveTensor, torch.Tensor)
isinstance(torch.distributed.ProcessGroup, type) and isinstance(torch.distributed.algorithms.Join, type)
kept_optimizer()
saved_state()
torch.distributed.fsdp.wrap._or_policy(nn.ReLU(), False, 2, policies=[lambda **more: False, lambda **more: True]) is True
raised(torch.distributed.rpc.api._require_initialized(lambda: 1)) == "RuntimeError"
torch.distributed.tensor._StridedShard(1, split_factor=2).dim == 1
flattened_pairs() == [3, 4]
torch.fx._symbolic_trace._orig_module_call is nn.Module.__call__
not torch.fx.experimental.symbolic_shapes.free_unbacked_symbols([1, 2])
issubclass(torch.fx.graph_module._CodeOnlyModule, nn.Module)
copied_attribute()
isinstance(torch.fx.proxy.GraphAppendingTracer(torch.fx.Graph()).graph, torch.fx.Graph)
issubclass(torch.jit.TracedModule, nn.Module)
F.ScalingType.RowWise != F.ScalingType.TensorWise
torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK != torch.onnx.OperatorExportTypes.ONNX
int(torch.onnx.TensorProtoDataType.INT64) == 7
torch.onnx.TrainingMode.EVAL != torch.onnx.TrainingMode.TRAINING
torch.onnx.operators.shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
torch.onnx.operators.reshape_from_tensor_shape(torch.ones(4), torch.tensor([2, 2])).shape == (2, 2)
torch.profiler.ProfilerActivity.HPU != torch.profiler.ProfilerActivity.MTIA
torch.utils.data.datapipes.iter.Batcher([1, 2, 3], 2).batch_size == 2
list(torch.utils.data.graph_settings.apply_shuffle_settings(shuffler([1, 2, 3]), shuffle=False)) == [1, 2, 3]
"""

WITH_WARNINGS = """
float(nn.init.kaiming_normal(torch.ones(2, 2)).std()) >= 0
float(nn.init.kaiming_uniform(torch.ones(2, 2)).abs().max()) < 3
float(nn.init.xavier_uniform(torch.ones(2, 2)).abs().max()) < 2
nn.init.xavier_normal(torch.ones(2, 2)).shape == (2, 2)
float(nn.utils.clip_grad_norm([nn.Parameter(torch.ones(1))], 1.0)) == 0
"""


def wrong():
    """The lines that are not true, and why."""
    for line in (TENSORS + MODULES + HELPERS + WITH_WARNINGS).replace("\\\\", "\\").split("\n"):
        try:
            why = "" if not line or eval(line, globals()) else "not true"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        if why:
            yield f"{line}\n    {why}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for text in wrong():
        print(text)
    print((TENSORS + MODULES + HELPERS + WITH_WARNINGS).count("\n"), "lines")
