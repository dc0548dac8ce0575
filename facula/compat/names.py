"""Which names of PyTorch programs ask for, beyond what Facula has. Facts gathered from public programs.

`NAMES` maps a module to its names; a module in it can be imported. `DECORATORS` hand back what they decorate.
`ANSWERS` are functions that can be called and give a fixed value, such as "no". `ELSEWHERE` says where Facula keeps what
PyTorch has under another (private) name.
"""

ELSEWHERE = {
    "torch.torch": "facula",
    "torch._C.DispatchKey": "facula.compat.dispatch.DispatchKey",
    "torch._C.DispatchKeySet": "facula.compat.dispatch.DispatchKeySet",
    "torch._C._nn._parse_to": "facula._C._parse_to",
    "torch._C._LinAlgError": "facula.linalg.LinAlgError",
}

DECORATORS = frozenset(
    """
    torch._dynamo.allow_in_graph torch._dynamo.assume_constant_result torch._dynamo.disable
    torch._dynamo.optimize torch._dynamo.forbid_in_graph torch._dynamo.disallow_in_graph
    torch._dynamo.run torch._dynamo.nonstrict_trace torch._jit_internal._copy_to_script_wrapper
    torch._jit_internal._overload torch._jit_internal.ignore torch._jit_internal.unused
    torch._jit_internal.export torch._jit_internal.boolean_dispatch torch.fx.wrap
    torch.distributed.elastic.multiprocessing.errors.record
    torch.testing._internal.common_utils.slowTest torch._custom_ops.impl torch._custom_ops.impl_abstract
    torch.overrides.wrap_torch_function torch._disable_dynamo torch._dynamo.eval_frame.disable
    torch.distributed.rpc.functions.async_execution torch.distributed.rpc.api._require_initialized
    torch.onnx.symbolic_helper.parse_args torch.utils.data.functional_datapipe
    """.split()
)

ANSWERS = {
    "torch._logging.set_logs": None,
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
    "torch._inductor.config": "",
    "torch._functorch": "",
    "torch._functorch.config": "",
    "torch._logging": "set_logs",
    "torch": (
        "BoolTensor ByteTensor DoubleTensor FloatTensor Generator GradScaler HalfTensor IntTensor "
        "LongTensor PyTorchFileReader ScriptModule Size Stream SymBool SymFloat SymInt Tensor "
        "TensorType UntypedStorage _assert abs acos add allclose amax arange arccos arcsin arctan "
        "argmax argsort as_tensor autocast backends bfloat16 bitwise_and bmm bool broadcast_shapes "
        "broadcast_tensors cat cdist channels_last clamp clip clone compile complex128 complex64 "
        "conv2d conv3d cos cosh cumsum det device diagonal div dot double dtype einsum empty "
        "enable_grad eq exp eye fill finfo flatten flip float float16 float32 float4_e2m1fn_x2 "
        "float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu from_numpy "
        "full ger get_default_dtype gt half hamming_window hann_window iinfo index_select "
        "inference_mode int int16 int32 int64 int8 inverse is_tensor isclose layout linspace load log "
        "log_softmax logdet logsumexp long lt manual_seed matmul max mean memory_format meshgrid min "
        "mm mul multinomial mv neg no_grad norm normal numel ones ones_like ops outer permute pi "
        "preserve_format prod rand randint randn randn_like randperm relu repeat_interleave save "
        "select set_default_device set_default_dtype set_default_tensor_type set_grad_enabled "
        "set_printoptions short sigmoid sin sinh softmax sort sparse_coo sparse_csc split sqrt square "
        "squeeze stack std sub sum svd svd_lowrank sym_float tan tanh tensor topk transpose tril "
        "uint16 uint32 uint64 uint8 unsqueeze use_deterministic_algorithms var view_as_complex "
        "view_as_real where zeros zeros_like"
    ),
    "torch._C": (
        "DisableTorchFunctionSubclass DispatchKey DispatchKeySet Graph ListType Node Value "
        "_ExcludeDispatchKeyGuard _GLIBCXX_USE_CXX11_ABI _LinAlgError _TensorMeta "
        "_are_functorch_transforms_active _disabled_torch_function_impl _get_accelerator "
        "_get_default_device _get_privateuse1_backend_name _get_tracing_state _jit_can_fuse_on_cpu "
        "_jit_can_fuse_on_gpu _jit_get_operation _jit_override_can_fuse_on_cpu "
        "_jit_override_can_fuse_on_gpu _jit_set_bailout_depth _jit_set_nvfuser_enabled "
        "_jit_set_nvfuser_guard_mode _jit_set_profiling_executor _jit_set_profiling_mode "
        "_jit_set_texpr_fuser_enabled _log_api_usage_once _set_math_sdp_allow_fp16_bf16_reduction"
    ),
    "torch._C._distributed_rpc": "_is_current_rpc_agent_set",
    "torch._C._functorch": "is_legacy_batchedtensor",
    "torch._C._nn": "_parse_to",
    "torch.__config__": "show",
    "torch._custom_ops": "",
    "torch._dynamo": (
        "OptimizedModule allow_in_graph assume_constant_result is_compiling is_dynamo_supported "
        "mark_dynamic mark_static_address"
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
    "torch._higher_order_ops.associative_scan": "associative_scan",
    "torch._inductor": "cudagraph_mark_step_begin list_mode_options",
    "torch._inductor.cpu_vec_isa": "pick_vec_isa",
    "torch._inductor.runtime": "",
    "torch._inductor.runtime.cache_dir_utils": "cache_dir",
    "torch._jit_internal": "_copy_to_script_wrapper _qualified_name",
    "torch._prims_common": "alert_not_deterministic is_contiguous_or_false",
    "torch._subclasses": "",
    "torch._subclasses.fake_tensor": "is_fake",
    "torch._tensor": "_rebuild_from_type_v2",
    "torch._tensor_str": "PRINT_OPTS _add_suffixes _str_intern _tensor_str printoptions",
    "torch._utils": (
        "_element_size _flatten_dense_tensors _get_device_index _rebuild_parameter _rebuild_tensor_v2 "
        "_unflatten_dense_tensors is_compiling"
    ),
    "torch.accelerator": "current_accelerator device_count is_available synchronize",
    "torch.amp": "GradScaler autocast",
    "torch.amp.grad_scaler": "OptState",
    "torch.ao": "",
    "torch.ao.quantization": (
        "DeQuantStub QConfig QuantStub convert default_observer default_per_channel_weight_observer "
        "default_weight_observer fuse_modules fuse_modules_qat get_default_qat_qconfig prepare "
        "prepare_qat"
    ),
    "torch.ao.quantization.fx": "",
    "torch.ao.quantization.fx._decomposed": "",
    "torch.ao.quantization.qconfig": "default_dynamic_qconfig per_channel_dynamic_qconfig",
    "torch.autograd": "Function Variable grad gradcheck gradgradcheck",
    "torch.autograd.function": "FunctionCtx once_differentiable",
    "torch.autograd.functional": "jacobian vjp",
    "torch.autograd.graph": "save_on_cpu",
    "torch.autograd.profiler": "EventList emit_nvtx profile record_function",
    "torch.backends": "cudnn",
    "torch.backends.cuda": "matmul",
    "torch.backends.cudnn": "allow_tf32 benchmark deterministic",
    "torch.backends.mkldnn": "is_available",
    "torch.backends.mps": "is_available is_built",
    "torch.backends.opt_einsum": "enabled strategy",
    "torch.compiler": "allow_in_graph disable is_compiling is_exporting",
    "torch.cuda": (
        "CUDAGraph FloatTensor LongTensor OutOfMemoryError Stream StreamContext device_count "
        "empty_cache get_device_capability graph is_available is_bf16_supported manual_seed "
        "manual_seed_all max_memory_allocated memory_allocated reset_max_memory_allocated "
        "reset_peak_memory_stats set_device synchronize"
    ),
    "torch.cuda.amp": "GradScaler autocast",
    "torch.cuda.profiler": "init profile start stop",
    "torch.distributed": (
        "Backend DeviceMesh FileStore P2POp ProcessGroup ReduceOp Reducer TCPStore _rank_not_in_group "
        "all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single "
        "barrier batch_isend_irecv broadcast broadcast_object_list destroy_process_group gather "
        "gather_object get_backend get_default_backend_for_device get_global_rank "
        "get_process_group_ranks get_rank get_world_size group init_device_mesh init_process_group "
        "irecv is_available is_gloo_available is_initialized is_mpi_available is_nccl_available "
        "is_torchelastic_launched is_xccl_available isend monitored_barrier new_group recv reduce "
        "reduce_scatter scatter scatter_object_list send"
    ),
    "torch.distributed._composable": "",
    "torch.distributed._composable.fsdp": "fully_shard",
    "torch.distributed._functional_collectives": (
        "AsyncCollectiveTensor all_gather_tensor all_to_all_single all_to_all_single_autograd "
        "permute_tensor wait_tensor"
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
    "torch.distributed.algorithms.ddp_comm_hooks.default": "allreduce_hook bf16_compress_hook fp16_compress_hook",
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
        "DefaultLoadPlanner DefaultSavePlanner FileSystemReader FileSystemWriter "
        "HuggingFaceStorageReader HuggingFaceStorageWriter load load_sharded_optimizer_state_dict "
        "load_state_dict save save_state_dict"
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
        "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig "
        "FullStateDictConfig FullyShardedDataParallel LocalStateDictConfig MixedPrecision "
        "MixedPrecisionPolicy OffloadPolicy OptimStateKeyType ShardedOptimStateDictConfig "
        "ShardedStateDictConfig ShardingStrategy StateDictType fully_shard "
        "register_fsdp_forward_method"
    ),
    "torch.distributed.fsdp.api": "",
    "torch.distributed.fsdp.fully_sharded_data_parallel": (
        "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel "
        "LocalStateDictConfig MixedPrecision ShardedStateDictConfig ShardingStrategy StateDictType"
    ),
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
    "torch.distributions": (
        "AffineTransform Bernoulli Beta Binomial Categorical ComposeTransform Dirichlet Distribution "
        "Gamma Geometric HalfCauchy HalfNormal Independent LKJCholesky Laplace LogNormal "
        "LogisticNormal LowRankMultivariateNormal Multinomial MultivariateNormal NegativeBinomial "
        "Normal OneHotCategorical Poisson RelaxedBernoulli StudentT Transform TransformedDistribution "
        "Uniform VonMises Wishart biject_to kl_divergence register_kl transform_to"
    ),
    "torch.distributions.categorical": "Categorical",
    "torch.distributions.constraints": (
        "Constraint MixtureSameFamilyConstraint _CorrCholesky boolean cat corr_cholesky dependent "
        "dependent_property greater_than greater_than_eq half_open_interval independent "
        "integer_interval interval is_dependent less_than lower_cholesky lower_triangular multinomial "
        "nonnegative nonnegative_integer one_hot positive positive_definite positive_integer "
        "positive_semidefinite real real_vector simplex square stack symmetric unit_interval"
    ),
    "torch.distributions.distribution": "Distribution",
    "torch.distributions.kl": "kl_divergence register_kl",
    "torch.distributions.transforms": (
        "AbsTransform AffineTransform CatTransform ComposeTransform CorrCholeskyTransform "
        "CumulativeDistributionTransform ExpTransform IndependentTransform LowerCholeskyTransform "
        "PositiveDefiniteTransform PowerTransform ReshapeTransform SigmoidTransform SoftmaxTransform "
        "SoftplusTransform StackTransform StickBreakingTransform TanhTransform Transform "
        "_InverseTransform identity_transform"
    ),
    "torch.distributions.utils": (
        "_standard_normal _sum_rightmost broadcast_all clamp_probs lazy_property logits_to_probs "
        "probs_to_logits"
    ),
    "torch.export": "CustomDecompTable Dim ExportedProgram PassResult export load save",
    "torch.export._trace": "",
    "torch.export.decomp_utils": "",
    "torch.fft": "fft fft2 fftn fftshift ifft ifftn ifftshift irfft rfft",
    "torch.func": "grad",
    "torch.futures": "Future collect_all wait_all",
    "torch.fx": "Graph GraphModule Interpreter Node Proxy Tracer map_arg replace_pattern symbolic_trace wrap",
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
    "torch.hub": (
        "HASH_REGEX _check_module_exists _get_torch_home download_url_to_file get_dir load "
        "load_state_dict_from_url urlparse"
    ),
    "torch.jit": (
        "Attribute Final ScriptFunction ScriptModule TracedModule TracerWarning _flatten _overload "
        "_overload_method _script_if_tracing annotate export ignore interface is_scripting is_tracing "
        "isinstance load save script script_if_tracing trace trace_module unused"
    ),
    "torch.jit._recursive": "concrete_type_store",
    "torch.jit._state": "_jit_caching_layer",
    "torch.jit.annotations": "BroadcastingList2 List",
    "torch.library": "Library custom_op register_autograd register_fake",
    "torch.linalg": "cholesky eig eigh eigvalsh inv_ex norm qr solve solve_triangular svd vector_norm",
    "torch.masked": "mean var",
    "torch.mps": "empty_cache manual_seed",
    "torch.mtia": "is_available",
    "torch.multiprocessing": "Manager Process Queue SimpleQueue get_context set_start_method spawn",
    "torch.nested": "as_nested_tensor nested_tensor",
    "torch.nn": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
        "AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss "
        "BatchNorm1d BatchNorm2d BatchNorm3d CELU Conv1d Conv2d Conv3d ConvTranspose1d "
        "ConvTranspose2d ConvTranspose3d CosineSimilarity CrossEntropyLoss DataParallel Dropout "
        "Dropout1d Dropout2d ELU Embedding GELU GRU GRUCell GroupNorm Hardsigmoid Hardswish Hardtanh "
        "Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LSTM LayerNorm "
        "LazyBatchNorm1d LazyConv2d LazyLinear LeakyReLU Linear LocalResponseNorm LogSoftmax MSELoss "
        "MaxPool1d MaxPool2d MaxPool3d Mish Module ModuleDict ModuleList MultiheadAttention NLLLoss "
        "PReLU Parameter ParameterDict ParameterList PixelShuffle RMSNorm RNN RNNBase RReLU ReLU "
        "ReLU6 ReflectionPad2d ReplicationPad2d SELU Sequential SiLU Sigmoid SmoothL1Loss Softmax "
        "Softplus SyncBatchNorm Tanh Transformer TransformerEncoder TransformerEncoderLayer "
        "UninitializedParameter Upsample ZeroPad2d"
    ),
    "torch.nn.attention": "SDPBackend sdpa_kernel",
    "torch.nn.attention.flex_attention": (
        "AuxRequest BlockMask _DEFAULT_SPARSE_BLOCK_SIZE create_block_mask flex_attention"
    ),
    "torch.nn.functional": (
        "_in_projection_packed adaptive_avg_pool2d adaptive_max_pool2d binary_cross_entropy celu "
        "conv2d conv3d cross_entropy dropout elu gelu grid_sample handle_torch_function hardsigmoid "
        "hardswish has_torch_function interpolate l1_loss leaky_relu linear log_softmax logsigmoid "
        "mish mse_loss nll_loss normalize one_hot pad pairwise_distance pixel_shuffle relu relu6 "
        "rms_norm scaled_dot_product_attention selu silu smooth_l1_loss softmax softplus unfold"
    ),
    "torch.nn.init": (
        "_calculate_correct_fan _calculate_fan_in_and_fan_out constant_ dirac_ eye_ kaiming_normal "
        "kaiming_normal_ kaiming_uniform kaiming_uniform_ normal normal_ ones_ orthogonal_ sparse_ "
        "trunc_normal_ uniform uniform_ xavier_normal xavier_normal_ xavier_uniform xavier_uniform_ "
        "zeros_"
    ),
    "torch.nn.modules": (
        "CELU ELU GELU LeakyReLU LogSoftmax Module PReLU ReLU ReLU6 SELU Sigmoid Softmax Tanh"
    ),
    "torch.nn.modules.batchnorm": "BatchNorm2d _BatchNorm",
    "torch.nn.modules.container": "Sequential",
    "torch.nn.modules.conv": "_ConvNd",
    "torch.nn.modules.instancenorm": "InstanceNorm2d _InstanceNorm",
    "torch.nn.modules.lazy": "LazyModuleMixin",
    "torch.nn.modules.linear": "NonDynamicallyQuantizableLinear",
    "torch.nn.modules.loss": "_Loss",
    "torch.nn.modules.module": "_IncompatibleKeys",
    "torch.nn.modules.transformer": "_get_activation_fn",
    "torch.nn.modules.utils": "_ntuple _pair _single _triple",
    "torch.nn.parallel": "DataParallel DistributedDataParallel scatter",
    "torch.nn.parallel.distributed": "DistributedDataParallel",
    "torch.nn.parallel.scatter_gather": "scatter",
    "torch.nn.parameter": "Parameter UninitializedParameter",
    "torch.nn.utils": (
        "clip_grad_norm_ clip_grad_value_ fuse_conv_bn_eval fuse_conv_bn_weights parameters_to_vector "
        "remove_weight_norm skip_init spectral_norm weight_norm"
    ),
    "torch.nn.utils.fusion": "fuse_conv_bn_eval",
    "torch.nn.utils.parametrizations": "weight_norm",
    "torch.nn.utils.parametrize": "remove_parametrizations",
    "torch.nn.utils.prune": (
        "BasePruningMethod L1Unstructured LnStructured RandomStructured RandomUnstructured "
        "global_unstructured l1_unstructured ln_structured random_structured random_unstructured "
        "remove"
    ),
    "torch.nn.utils.rnn": "PackedSequence pack_padded_sequence pad_packed_sequence pad_sequence",
    "torch.numa": "",
    "torch.numa.binding": "AffinityMode NumaOptions",
    "torch.onnx": (
        "ONNXProgram OperatorExportTypes TensorProtoDataType TrainingMode export is_in_onnx_export "
        "register_custom_op_symbolic unregister_custom_op_symbolic"
    ),
    "torch.onnx._internal": "",
    "torch.onnx._internal.exporter": "",
    "torch.onnx.operators": "reshape_from_tensor_shape shape_as_tensor",
    "torch.onnx.symbolic_helper": (
        "_get_const _get_tensor_rank _get_tensor_sizes _is_none _is_tensor _is_value "
        "_maybe_get_scalar _onnx_opset_unsupported_detailed _onnx_unsupported "
        "_repeat_interleave_split_helper _reshape_helper cast_pytorch_to_onnx parse_args "
        "scalar_type_to_onnx"
    ),
    "torch.onnx.symbolic_opset11": "select squeeze unsqueeze",
    "torch.onnx.symbolic_opset12": "dropout",
    "torch.onnx.symbolic_opset9": "expand masked_fill softmax sub unsqueeze",
    "torch.onnx.utils": "",
    "torch.optim": "Adadelta Adagrad Adam AdamW Adamax LBFGS NAdam Optimizer RAdam RMSprop SGD",
    "torch.optim.lr_scheduler": (
        "CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LRScheduler LambdaLR "
        "MultiStepLR ReduceLROnPlateau StepLR _LRScheduler"
    ),
    "torch.optim.optimizer": (
        "Optimizer ParamsT _default_to_fused_or_foreach _use_grad_for_differentiable required"
    ),
    "torch.optim.swa_utils": "AveragedModel SWALR get_ema_avg_fn",
    "torch.overrides": "TorchFunctionMode",
    "torch.profiler": (
        "ProfilerAction ProfilerActivity kineto_available profile record_function schedule "
        "tensorboard_trace_handler"
    ),
    "torch.profiler.profiler": "_default_schedule_fn",
    "torch.quantization": "HistogramObserver MinMaxObserver PerChannelMinMaxObserver quantize_dynamic",
    "torch.quantization.qconfig": "default_dynamic_qconfig per_channel_dynamic_qconfig",
    "torch.quasirandom": "SobolEngine",
    "torch.serialization": "DEFAULT_PROTOCOL MAP_LOCATION add_safe_globals safe_globals",
    "torch.special": "expit expm1 logit",
    "torch.storage": "TypedStorage UntypedStorage",
    "torch.testing": "assert_allclose assert_close",
    "torch.testing._internal": "",
    "torch.types": "Number _device _dtype _size",
    "torch.sparse": (
        "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor addmm "
        "as_sparse_gradcheck check_sparse_tensor_invariants log_softmax mm sampled_addmm softmax spdiags sum "
        "to_sparse_semi_structured"
    ),
    "torch.utils": "swap_tensors",
    "torch.utils._pytree": (
        "Context LeafSpec PyTree SUPPORTED_NODES TreeSpec _dict_flatten _dict_flatten_with_keys "
        "_get_node_type register_pytree_node tree_flatten tree_map tree_unflatten"
    ),
    "torch.utils._sympy": "",
    "torch.utils._sympy.numbers": "IntInfinity",
    "torch.utils._sympy.value_ranges": "ValueRanges",
    "torch.utils.benchmark": "Compare Timer",
    "torch.utils.bottleneck": "",
    "torch.utils.checkpoint": "checkpoint get_device_states set_device_states",
    "torch.utils.collect_env": "get_nvidia_driver_version get_pretty_env_info run",
    "torch.utils.cpp_extension": (
        "BuildExtension CUDAExtension CUDA_HOME CppExtension ROCM_HOME load load_inline"
    ),
    "torch.utils.data": (
        "BatchSampler ChainDataset ConcatDataset DFIterDataPipe DataLoader Dataset DistributedSampler "
        "IterDataPipe IterableDataset MapDataPipe RandomSampler Sampler SequentialSampler Subset "
        "SubsetRandomSampler TensorDataset WeightedRandomSampler _DatasetKind default_collate "
        "default_convert functional_datapipe get_worker_info random_split"
    ),
    "torch.utils.data._utils.collate": "default_collate np_str_obj_array_pattern",
    "torch.utils.data._utils.pin_memory": "pin_memory",
    "torch.utils.data.dataloader": (
        "DataLoader _BaseDataLoaderIter _MultiProcessingDataLoaderIter _SingleProcessDataLoaderIter "
        "default_collate"
    ),
    "torch.utils.data.datapipes": "",
    "torch.utils.data.datapipes.iter": "Batcher",
    "torch.utils.data.dataset": "Subset",
    "torch.utils.data.distributed": "DistributedSampler",
    "torch.utils.data.sampler": "BatchSampler Sampler",
    "torch.utils.dlpack": "from_dlpack to_dlpack",
    "torch.utils.flop_counter": "FlopCounterMode",
    "torch.utils.hooks": "RemovableHandle",
    "torch.utils.mobile_optimizer": "optimize_for_mobile",
    "torch.utils.model_zoo": "load_url tqdm",
    "torch.version": "cuda hip",
    "torch.xpu": (
        "device_count empty_cache is_available manual_seed max_memory_allocated memory_allocated "
        "reset_peak_memory_stats synchronize"
    ),
}
