"""Which names of PyTorch programs ask for, beyond what Facula has. Facts gathered from public programs.

`NAMES` maps a module to its names; a module in it can be imported. `DECORATORS` hand back what they decorate.
`ANSWERS` are functions that can be called and give a fixed value, such as "no".
"""

DECORATORS = frozenset(
    """
    torch._dynamo.allow_in_graph torch._dynamo.assume_constant_result torch._dynamo.disable torch._dynamo.optimize
    torch._dynamo.forbid_in_graph torch._dynamo.disallow_in_graph torch._dynamo.run torch._dynamo.nonstrict_trace
    torch._jit_internal._copy_to_script_wrapper torch._jit_internal._overload torch._jit_internal.ignore
    torch._jit_internal.unused torch._jit_internal.export torch._jit_internal.boolean_dispatch
    torch.fx.wrap torch.distributed.elastic.multiprocessing.errors.record torch.testing._internal.common_utils.slowTest
    torch._custom_ops.impl torch._custom_ops.impl_abstract torch.overrides.wrap_torch_function
    torch._disable_dynamo torch._dynamo.eval_frame.disable torch.distributed.rpc.functions.async_execution
    """.split()
)

ANSWERS = {
    "torch._C._log_api_usage_once": None,
    "torch._C._get_tracing_state": None,
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
    "torch._C._distributed_rpc._is_current_rpc_agent_set": False,
    "torch._C._functorch.is_legacy_batchedtensor": False,
    "torch._C._get_privateuse1_backend_name": "privateuseone",
    "torch._dynamo.is_compiling": False,
    "torch._dynamo.is_dynamo_supported": False,
    "torch._dynamo.mark_dynamic": None,
    "torch._dynamo.mark_static_address": None,
    "torch._dynamo.reset": None,
    "torch._dynamo.graph_break": None,
    "torch._dynamo.utils.is_compile_supported": False,
    "torch._utils.is_compiling": False,
    "torch._subclasses.fake_tensor.is_fake": False,
    "torch.fx.experimental.proxy_tensor.get_proxy_mode": None,
    "torch.onnx.is_in_onnx_export": False,
    "torch.onnx.register_custom_op_symbolic": None,
    "torch.onnx.unregister_custom_op_symbolic": None,
    "torch.distributed.rpc.is_available": False,
    "torch.profiler.kineto_available": False,
}

NAMES = {
    "torch._C": (
        "DisableTorchFunctionSubclass DispatchKey DispatchKeySet Graph ListType Node Value "
        "_ExcludeDispatchKeyGuard _GLIBCXX_USE_CXX11_ABI _LinAlgError _TensorMeta "
        "_are_functorch_transforms_active _disabled_torch_function_impl _get_accelerator _get_default_device "
        "_get_privateuse1_backend_name _get_tracing_state _jit_can_fuse_on_cpu _jit_can_fuse_on_gpu "
        "_jit_get_operation _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu "
        "_jit_set_bailout_depth _jit_set_nvfuser_enabled _jit_set_nvfuser_guard_mode "
        "_jit_set_profiling_executor _jit_set_profiling_mode _jit_set_texpr_fuser_enabled _log_api_usage_once "
        "_set_math_sdp_allow_fp16_bf16_reduction"
    ),
    "torch._C._distributed_rpc": "_is_current_rpc_agent_set",
    "torch._C._functorch": "is_legacy_batchedtensor",
    "torch._C._nn": "_parse_to",
    "torch._custom_ops": "",
    "torch._dynamo": (
        "OptimizedModule allow_in_graph assume_constant_result is_compiling is_dynamo_supported mark_dynamic "
        "mark_static_address"
    ),
    "torch._dynamo._trace_wrapped_higher_order_op": "TransformGetItemToIndex",
    "torch._dynamo.config": (
        "cache_size_limit capture_scalar_outputs optimize_ddp patch "
        "skip_fwd_side_effects_in_bwd_under_checkpoint verbose"
    ),
    "torch._dynamo.eval_frame": "",
    "torch._dynamo.exc": "TensorifyScalarRestartAnalysis",
    "torch._dynamo.utils": "is_compile_supported",
    "torch._higher_order_ops": "associative_scan",
    "torch._higher_order_ops.associative_scan": "",
    "torch._inductor": "cudagraph_mark_step_begin list_mode_options",
    "torch._inductor.cpu_vec_isa": "pick_vec_isa",
    "torch._inductor.runtime": "",
    "torch._inductor.runtime.cache_dir_utils": "cache_dir",
    "torch._jit_internal": "_copy_to_script_wrapper _qualified_name",
    "torch._prims_common": "alert_not_deterministic is_contiguous_or_false",
    "torch._subclasses": "",
    "torch._subclasses.fake_tensor": "is_fake",
    "torch._tensor_str": "PRINT_OPTS _add_suffixes _str_intern _tensor_str printoptions",
    "torch._utils": (
        "_element_size _flatten_dense_tensors _get_device_index _rebuild_parameter _rebuild_tensor_v2 "
        "_unflatten_dense_tensors is_compiling"
    ),
    "torch.ao": "",
    "torch.ao.quantization": (
        "DeQuantStub QConfig QuantStub convert default_observer default_per_channel_weight_observer "
        "default_weight_observer fuse_modules fuse_modules_qat get_default_qat_qconfig prepare prepare_qat"
    ),
    "torch.ao.quantization.fx": "",
    "torch.ao.quantization.fx._decomposed": "",
    "torch.ao.quantization.qconfig": "default_dynamic_qconfig per_channel_dynamic_qconfig",
    "torch.distributed": (
        "Backend DeviceMesh FileStore P2POp ProcessGroup ReduceOp Reducer TCPStore _rank_not_in_group "
        "all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier "
        "batch_isend_irecv broadcast broadcast_object_list destroy_process_group gather gather_object "
        "get_backend get_default_backend_for_device get_global_rank get_process_group_ranks get_rank "
        "get_world_size group init_device_mesh init_process_group irecv is_available is_gloo_available "
        "is_initialized is_mpi_available is_nccl_available is_torchelastic_launched is_xccl_available isend "
        "monitored_barrier new_group recv reduce reduce_scatter scatter scatter_object_list send"
    ),
    "torch.distributed._composable": "",
    "torch.distributed._composable.fsdp": "",
    "torch.distributed._functional_collectives": (
        "AsyncCollectiveTensor all_gather_tensor all_to_all_single all_to_all_single_autograd permute_tensor "
        "wait_tensor"
    ),
    "torch.distributed._tensor": "",
    "torch.distributed._tensor.device_mesh": "",
    "torch.distributed._tensor.experimental": "implicit_replication",
    "torch.distributed.algorithms": "Join",
    "torch.distributed.algorithms._checkpoint": "",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper": (
        "CheckpointImpl CheckpointWrapper apply_activation_checkpointing checkpoint_wrapper offload_wrapper"
    ),
    "torch.distributed.algorithms.ddp_comm_hooks": "DDPCommHookType register_ddp_comm_hook",
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks": (
        "bf16_compress_hook bf16_compress_wrapper fp16_compress_hook fp16_compress_wrapper"
    ),
    "torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": "PostLocalSGDState",
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook": (
        "PowerSGDState batched_powerSGD_hook powerSGD_hook"
    ),
    "torch.distributed.algorithms.join": "Join",
    "torch.distributed.algorithms.model_averaging": "",
    "torch.distributed.algorithms.model_averaging.averagers": "ModelAverager PeriodicModelAverager",
    "torch.distributed.autograd": "backward context get_gradients",
    "torch.distributed.checkpoint": (
        "DefaultLoadPlanner DefaultSavePlanner FileSystemReader FileSystemWriter HuggingFaceStorageReader "
        "HuggingFaceStorageWriter load load_sharded_optimizer_state_dict load_state_dict save save_state_dict"
    ),
    "torch.distributed.checkpoint._consolidate_hf_safetensors": "consolidate_safetensors_files",
    "torch.distributed.checkpoint.default_planner": "",
    "torch.distributed.checkpoint.format_utils": "_EmptyStateDictLoadPlanner _load_state_dict",
    "torch.distributed.checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "torch.distributed.checkpoint.optimizer": "",
    "torch.distributed.checkpoint.state_dict": (
        "StateDictOptions _init_optim_state get_model_state_dict get_optimizer_state_dict "
        "set_model_state_dict set_optimizer_state_dict"
    ),
    "torch.distributed.checkpoint.state_dict_loader": "_load_state_dict",
    "torch.distributed.constants": "default_pg_timeout",
    "torch.distributed.device_mesh": "DeviceMesh init_device_mesh",
    "torch.distributed.distributed_c10d": "_get_default_group _pg_map",
    "torch.distributed.elastic": "",
    "torch.distributed.elastic.multiprocessing": "",
    "torch.distributed.elastic.multiprocessing.errors": "ChildFailedError",
    "torch.distributed.fsdp": (
        "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig FullStateDictConfig "
        "FullyShardedDataParallel LocalStateDictConfig MixedPrecision MixedPrecisionPolicy OffloadPolicy "
        "OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictType "
        "fully_shard register_fsdp_forward_method"
    ),
    "torch.distributed.fsdp.api": "",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "",
    "torch.distributed.fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "torch.distributed.fsdp.wrap": (
        "ModuleWrapPolicy _or_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy "
        "transformer_auto_wrap_policy wrap"
    ),
    "torch.distributed.launcher": "",
    "torch.distributed.launcher.api": "LaunchConfig elastic_launch",
    "torch.distributed.nn": "RemoteModule all_gather all_reduce",
    "torch.distributed.nn.functional": "",
    "torch.distributed.optim": "DistributedOptimizer PostLocalSGDOptimizer ZeroRedundancyOptimizer",
    "torch.distributed.pipelining": "ScheduleGPipe SplitPoint pipeline",
    "torch.distributed.rpc": (
        "RRef TensorPipeRpcBackendOptions get_worker_info init_rpc remote rpc_async rpc_sync shutdown"
    ),
    "torch.distributed.rpc.api": "_all_gather _require_initialized",
    "torch.distributed.rpc.functions": "async_execution",
    "torch.distributed.run": "get_args_parser main run",
    "torch.distributed.tensor": "DTensor Partial Replicate Shard _StridedShard distribute_tensor",
    "torch.distributed.tensor._utils": "compute_local_shape_and_global_offset",
    "torch.distributed.tensor.experimental": "context_parallel",
    "torch.distributed.tensor.experimental._attention": "set_rotate_method",
    "torch.distributed.tensor.parallel": (
        "ColwiseParallel PrepareModuleInput RowwiseParallel SequenceParallel parallelize_module"
    ),
    "torch.distributed.tensor.placement_types": "Shard _StridedShard",
    "torch.distributed.utils": "_sync_module_states",
    "torch.export": "CustomDecompTable Dim ExportedProgram PassResult export load save",
    "torch.export._trace": "",
    "torch.export.decomp_utils": "",
    "torch.futures": "Future collect_all wait_all",
    "torch.fx": "Graph GraphModule Node Proxy Tracer map_arg replace_pattern symbolic_trace wrap",
    "torch.fx._pytree": "register_pytree_flatten_spec tree_flatten_spec",
    "torch.fx._symbolic_trace": "_orig_module_call is_fx_tracing",
    "torch.fx.experimental": "",
    "torch.fx.experimental.proxy_tensor": "get_proxy_mode",
    "torch.fx.experimental.symbolic_shapes": (
        "GuardOnDataDependentSymNode free_symbols free_unbacked_symbols guard_or_false guard_or_true "
        "statically_known_true"
    ),
    "torch.fx.graph_module": "_CodeOnlyModule _USER_PRESERVED_ATTRIBUTES_KEY _copy_attr",
    "torch.fx.node": "Node Target",
    "torch.fx.passes": "",
    "torch.fx.passes.infra": "",
    "torch.fx.passes.infra.pass_base": "",
    "torch.fx.proxy": "GraphAppendingTracer Proxy TraceError",
    "torch.jit": (
        "Attribute Final ScriptFunction ScriptModule TracedModule TracerWarning _flatten _overload "
        "_overload_method _script_if_tracing annotate export ignore interface is_scripting is_tracing "
        "isinstance load save script script_if_tracing trace trace_module unused"
    ),
    "torch.jit._recursive": "concrete_type_store",
    "torch.jit._state": "_jit_caching_layer",
    "torch.jit.annotations": "BroadcastingList2 List",
    "torch.masked": "mean var",
    "torch.mtia": "is_available",
    "torch.nested": "as_nested_tensor nested_tensor",
    "torch.nn.attention.flex_attention": (
        "AuxRequest BlockMask _DEFAULT_SPARSE_BLOCK_SIZE create_block_mask flex_attention"
    ),
    "torch.nn.utils.fusion": "fuse_conv_bn_eval",
    "torch.nn.utils.prune": (
        "BasePruningMethod L1Unstructured LnStructured RandomStructured RandomUnstructured "
        "global_unstructured l1_unstructured ln_structured random_structured random_unstructured remove"
    ),
    "torch.numa": "",
    "torch.numa.binding": "AffinityMode NumaOptions",
    "torch.onnx": (
        "ONNXProgram OperatorExportTypes TensorProtoDataType export is_in_onnx_export "
        "register_custom_op_symbolic unregister_custom_op_symbolic"
    ),
    "torch.onnx._internal": "",
    "torch.onnx._internal.exporter": "",
    "torch.onnx.operators": "reshape_from_tensor_shape shape_as_tensor",
    "torch.onnx.symbolic_helper": (
        "_get_const _get_tensor_rank _get_tensor_sizes _is_none _is_tensor _is_value _maybe_get_scalar "
        "_onnx_opset_unsupported_detailed _onnx_unsupported _repeat_interleave_split_helper _reshape_helper "
        "cast_pytorch_to_onnx parse_args scalar_type_to_onnx"
    ),
    "torch.onnx.symbolic_opset11": "select squeeze unsqueeze",
    "torch.onnx.symbolic_opset12": "dropout",
    "torch.onnx.symbolic_opset9": "expand masked_fill softmax sub unsqueeze",
    "torch.onnx.utils": "",
    "torch.profiler": (
        "ProfilerAction ProfilerActivity kineto_available profile record_function schedule "
        "tensorboard_trace_handler"
    ),
    "torch.profiler.profiler": "_default_schedule_fn",
    "torch.quantization": "HistogramObserver MinMaxObserver PerChannelMinMaxObserver quantize_dynamic",
    "torch.quantization.qconfig": "default_dynamic_qconfig per_channel_dynamic_qconfig",
    "torch.quasirandom": "SobolEngine",
    "torch.testing": "assert_allclose assert_close",
    "torch.testing._internal": "",
    "torch.utils": "swap_tensors",
    "torch.utils._sympy": "",
    "torch.utils._sympy.numbers": "IntInfinity",
    "torch.utils._sympy.value_ranges": "ValueRanges",
    "torch.utils.benchmark": "Compare Timer",
    "torch.utils.collect_env": "get_nvidia_driver_version get_pretty_env_info run",
    "torch.utils.cpp_extension": (
        "BuildExtension CUDAExtension CUDA_HOME CppExtension ROCM_HOME load load_inline"
    ),
    "torch.utils.data.datapipes": "",
    "torch.utils.data.datapipes.iter": "Batcher",
    "torch.utils.flop_counter": "FlopCounterMode",
    "torch.utils.mobile_optimizer": "optimize_for_mobile",
    "torch.utils.model_zoo": "load_url tqdm",
}
