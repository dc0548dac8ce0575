"""List names of PyTorch that programs look up and that need no code of their own. The list comes from public programs.

`DECORATORS` hand back what they decorate. `ANSWERS` are functions that can be called and give a fixed value, such as "no".
`ELSEWHERE` says where Facula keeps what PyTorch has under another (private) name. What is missing is in not_here.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

ELSEWHERE = {
    "torch.torch": "facula",
    "torch.DispatchKey": "facula.compat.dispatch.DispatchKey",
    "torch.DispatchKeySet": "facula.compat.dispatch.DispatchKeySet",
    "torch._tensor._rebuild_from_type_v2": "facula._serialization.rebuild._rebuild_from_type_v2",
    "torch.nn.functional._in_projection_packed": "facula.nn.functions.attention._in_projection_packed",
    "torch.nn.functional.handle_torch_function": "facula.overrides.handle_torch_function",
    "torch.nn.functional.has_torch_function": "facula.overrides.has_torch_function",
    "torch.nn.functional.has_torch_function_unary": "facula.overrides.has_torch_function_unary",
    "torch.nn.functional.has_torch_function_variadic": "facula.overrides.has_torch_function_variadic",
    "torch._C.DisableTorchFunction": "facula.overrides.DisableTorchFunction",
    "torch._C._skip_one_hop_torch_function": "facula.overrides.redispatch_function",
    "torch._C._WeakTensorRef": "facula.utils.weak._WeakTensorRef",
    "torch._C._AutoDispatchBelowAutograd": "facula._operators.custom.AutoDispatchBelowAutograd",
    "torch._C._ExcludeDispatchKeyGuard": "facula._operators.custom.ExcludeDispatchKeyGuard",
    "torch._custom_ops.impl": "facula.library.custom_ops_impl",
    "torch._custom_ops.impl_abstract": "facula.library.register_fake",
    "torch._C.DispatchKey": "facula.compat.dispatch.DispatchKey",
    "torch._C.DispatchKeySet": "facula.compat.dispatch.DispatchKeySet",
    "torch._C._nn._parse_to": "facula._C._parse_to",
    "torch.distributed.DeviceMesh": "facula.distributed.device_mesh.DeviceMesh",
    "torch.distributed.GradBucket": "facula.distributed._reducer.GradBucket",
    "torch.distributed.init_device_mesh": "facula.distributed.device_mesh.init_device_mesh",
    "torch._C._get_accelerator": "facula.functions.device._get_accelerator",
    "torch._C._get_default_device": "facula.functions.device._get_default_device",
    "torch._C._GLIBCXX_USE_CXX11_ABI": "facula.functions.device._NEW_STRINGS",
    "torch.legacy_contiguous_format": "facula.contiguous_format",
    "torch.ScriptModule": "facula.jit.ScriptModule",
    "torch._jit_internal._qualified_name": "facula.jit._qualified._qualified_name",
    "torch._grouped_mm": "facula._operators.aten_parts._grouped_mm",
    "torch._segment_reduce": "facula.segment_reduce",
    "torch.nn.functional._canonical_mask": "facula.nn.functions.attention._canonical_mask",
    "torch.nn.functional._none_or_dtype": "facula.nn.functions.attention._none_or_dtype",
    "torch.nn.modules.module._global_forward_hooks": "facula.nn.modules.module._global_forward_hooks",
    "torch.nn.modules.module._global_forward_pre_hooks": "facula.nn.modules.module._global_forward_pre_hooks",
    "torch.distributed._tensor.experimental.implicit_replication": (
        "facula.distributed.tensor.experimental.implicit_replication"
    ),
    "torch.masked._canonical_dim": "facula.masked._masks.canonical_dim",
    "torch.masked._input_mask": "facula.masked._masks.input_mask",
    "torch.masked._reduction_identity": "facula.masked._masks.reduction_identity",
    "torch.masked._output_mask": "facula.masked._masks.output_mask",
    "torch._storage_classes": "facula.storage.STORAGE_CLASSES",
    "torch._C._LinAlgError": "facula.linalg.LinAlgError",
    "torch._C.PyTorchFileReader": "facula.PyTorchFileReader",
    "torch._C.Graph": "facula.onnx._graph.Graph",
    "torch._C.Value": "facula.onnx._graph.Value",
    "torch.StorageBase": "facula.UntypedStorage",
    "torch._C.StorageBase": "facula.UntypedStorage",
    "torch._C._distributed_c10d.Reducer": "facula.distributed._reducer.Reducer",
    "torch._C._functorch._add_batch_dim": "facula.func._batching._add_batch_dim",
    "torch._C._functorch._remove_batch_dim": "facula.func._batching._remove_batch_dim",
    "torch._C._functorch.get_unwrapped": "facula.func._batching.get_unwrapped",
    "torch._C._functorch.is_batchedtensor": "facula.func._batching.is_batchedtensor",
    "torch._C._functorch.maybe_get_bdim": "facula.func._batching.maybe_get_bdim",
    "torch._C._functorch.maybe_get_level": "facula.func._batching.maybe_get_level",
    "torch._custom_ops.get_ctx": "facula.library.get_ctx",
    "torch.distributed._tensor.DTensor": "facula.distributed.tensor.DTensor",
    "torch.distributed._tensor.Partial": "facula.distributed.tensor.Partial",
    "torch.distributed._tensor.Replicate": "facula.distributed.tensor.Replicate",
    "torch.distributed._tensor.Shard": "facula.distributed.tensor.Shard",
    "torch.distributed._tensor.Placement": "facula.distributed.tensor.Placement",
    "torch.distributed._tensor.distribute_module": "facula.distributed.tensor.distribute_module",
    "torch.distributed._tensor.distribute_tensor": "facula.distributed.tensor.distribute_tensor",
    "torch._disable_dynamo": "facula.compiler._eval_frame.disable",
    "torch._utils.is_compiling": "facula.compiler.is_compiling",
    "torch.fx._symbolic_trace.ScriptObject": "facula.ScriptObject",
    "torch._nested_view_from_buffer": "facula.nested._strided.view_from_buffer",
    "torch._C._distributed_rpc._is_current_rpc_agent_set": "facula.distributed.rpc.api._is_current_rpc_agent_set",
}

DECORATORS = frozenset((
    "torch._jit_internal._copy_to_script_wrapper",
    "torch._jit_internal._overload",
    "torch._jit_internal.ignore",
    "torch._jit_internal.unused",
    "torch._jit_internal.export",
    "torch._jit_internal.boolean_dispatch",
    "torch.testing._internal.common_utils.slowTest",
    "torch.overrides.wrap_torch_function",
))  # fmt: skip

ANSWERS: dict[Any, Any] = {
    "torch.autograd._is_checkpoint_valid": True,
    "torch._C._set_math_sdp_allow_fp16_bf16_reduction": None,
    "torch._C._log_api_usage_once": None,
    "torch._C._get_tracing_state": None,
    "torch.autograd._disable_profiler": None,
    "torch._C._jit_set_profiling_executor": False,
    "torch._C._jit_set_profiling_mode": False,
    "torch._C._jit_set_bailout_depth": 0,
    "torch._C._jit_override_can_fuse_on_cpu": None,
    "torch._C._jit_override_can_fuse_on_gpu": None,
    "torch._C._jit_set_texpr_fuser_enabled": None,
    "torch._C._jit_set_nvfuser_enabled": False,
    "torch._C._jit_set_nvfuser_guard_mode": False,
    "torch._C._jit_can_fuse_on_cpu": False,
    "torch._C._jit_can_fuse_on_gpu": False,
    "torch._C._are_functorch_transforms_active": False,
    "torch._C._functorch.is_legacy_batchedtensor": False,
    "torch._C._get_privateuse1_backend_name": "privateuseone",
    "torch.profiler.kineto_available": False,
}
