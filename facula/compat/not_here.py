"""List names that PyTorch has and Facula lacks, with reasons, in one table, which is read when such a name is
requested.

`REASONS` says for a keyword why, and what to use instead. `NAMES` lists, by reason and module, the public names, and those
private ones that programs are known to use; a module without names can be imported and is otherwise empty. `REMOVED` are
functions that PyTorch itself has removed. `placeholders.py` makes of an entry what stands for the name, and
`python -m codegen.supported` makes docs/supported.md of it all. tests/test_supported.py checks that each of PyTorch's public
names either works or is listed here, and that what is listed here does not work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

REASONS: dict[Any, Any] = {
    "quantized": ("this part of quantization is not there", "ao.quantization, and dequantize() around what is missing"),
    "graphs": ("models are quantized layer by layer, not as graphs", "ao.quantization.prepare, prepare_qat, quantize_dynamic"),
    "pruning": ("this part of pruning is not there", "nn.utils.prune"),
    "sparse": ("this part of sparse tensors is not there yet", "the layouts COO and CSR"),
    "script": ("TorchScript programs are neither compiled nor run", "the Python program itself"),
    "capture": ("programs are not captured as these graphs", "torch.compile, or torch.export.export"),
    "onnx": ("this part of PyTorch's exporters is not here", "onnx.export, and its custom_translation_table"),
    "processes": ("this part of distributed is not there yet", None),
    "launcher": ("Facula's launcher is made of other parts", "distributed.run, or launcher.api.elastic_launch"),
    "recorder": ("PyTorch's own program reads the files", "FACULA_FLIGHT_RECORDER and PyTorch's fr_trace"),
    "cuda": ("this part of CUDA is not there yet", None),
    "devices": ("this kind of device is not supported", "the CPU; ask is_available() first"),
    "vendor": ("the op of one vendor's library, which PyTorch calls by itself", "the op without the library's name"),
    "dtypes": ("elements of less than a byte, and bare bits, are not supported", None),
    "float8": ("products of groups of float8 matrices with scales are not supported", "scaled_mm of each group"),
    "extension": ("this part of registering operators is not supported", "autograd.Function, or library.custom_op"),
    "measure": ("instructions are not counted, nor calls of several threads timed", "benchmark.Timer"),
    "trace": ("this part of the profiler is not supported", "profiler.profile and its events"),
    "masked": ("masked tensors are not supported", "a tensor with a mask beside it"),
    "mobile": ("programs for phones are not made", None),
    "hip": ("sources in CUDA are not turned into HIP", None),
    "decoders": ("files are not decoded by the endings of their names, which PyTorch deprecates", "map() with the decoder"),
    "dims": ("dimensions are not objects", "vmap, einsum, or functorch.einops.rearrange"),
    "internal": ("it serves PyTorch's own code", None),
    "aten": ("there is no such operator", "the public function"),
}

#: reasons under which PyTorch without the device raises AssertionError as well
NO_DEVICE = frozenset({"cuda", "devices"})

#: name -> (the version of PyTorch that gave it up, what does its work now)
REMOVED = {
    "torch.eig": ("1.9", "linalg.eig"),
    "torch.lstsq": ("1.9", "linalg.lstsq"),
    "torch.matrix_rank": ("1.9", "linalg.matrix_rank"),
    "torch.solve": ("1.9", "linalg.solve"),
    "torch.symeig": ("1.9", "linalg.eigh"),
    "torch.Tensor.eig": ("1.9", "linalg.eig"),
    "torch.Tensor.lstsq": ("1.9", "linalg.lstsq"),
    "torch.Tensor.solve": ("1.9", "linalg.solve"),
    "torch.Tensor.symeig": ("1.9", "linalg.eigh"),
    "torch.Tensor.reinforce": ("0.4", "distributions and their log_prob"),
}

NAMES = {
    "quantized": {
        "torch": (
            "choose_qparams_optimized", "empty_quantized", "fbgemm_linear_fp16_weight",
            "fbgemm_linear_fp16_weight_fp32_activation", "fbgemm_linear_int8_weight",
            "fbgemm_linear_int8_weight_fp32_activation", "fbgemm_linear_quantize_weight", "fbgemm_pack_gemm_matrix_fp16",
            "fbgemm_pack_quantized_matrix", "quantized_batch_norm", "quantized_gru", "quantized_gru_cell", "quantized_lstm",
            "quantized_lstm_cell", "quantized_max_pool1d", "quantized_max_pool2d", "quantized_max_pool3d",
            "quantized_rnn_relu_cell", "quantized_rnn_tanh_cell",
        ),
        "torch.ao": ("ns",),
        "torch.ao.nn": ("sparse",),
        "torch.ao.nn.quantizable": ("LSTM", "LSTMCell", "MultiheadAttention"),
        "torch.ao.nn.quantized": ("LSTM", "MultiheadAttention"),
        "torch.ao.quantization": (
            "get_default_dynamic_sparse_quant_module_mappings", "get_default_float_to_quantized_operator_mappings",
            "get_default_static_quant_reference_module_mappings", "get_default_static_sparse_quant_module_mappings",
            "get_quantized_operator",
        ),
        "torch.ao.quantization.quantization_mappings": (
            "DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS", "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS",
            "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS", "DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS",
            "get_default_dynamic_sparse_quant_module_mappings", "get_default_float_to_quantized_operator_mappings",
            "get_default_static_quant_reference_module_mappings", "get_default_static_sparse_quant_module_mappings",
            "get_quantized_operator",
        ),
        "torch.nn.quantizable": ("LSTM", "LSTMCell", "MultiheadAttention"),
        "torch.nn.quantized": ("LSTM", "MultiheadAttention"),
        "torch.quantization": ("get_quantized_operator",),
    },
    "graphs": {
        "torch.ao.quantization": (
            "convert_dynamic_jit", "convert_jit", "fuse_conv_bn_jit", "prepare_dynamic_jit", "prepare_jit",
            "quantize_dynamic_jit", "quantize_jit", "script_qconfig", "script_qconfig_dict",
        ),
        "torch.ao.quantization.backend_config": (
            "BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints", "ObservationType",
            "get_executorch_backend_config", "get_fbgemm_backend_config", "get_native_backend_config",
            "get_native_backend_config_dict", "get_onednn_backend_config", "get_qnnpack_backend_config",
            "get_tensorrt_backend_config", "get_tensorrt_backend_config_dict",
        ),
        "torch.ao.quantization.fx": ("convert", "fuse", "prepare"),
        "torch.ao.quantization.fx._decomposed": (),
        "torch.ao.quantization.quantize_fx": (
            "attach_preserved_attrs_to_model", "convert_fx", "convert_to_reference_fx", "fuse_fx", "prepare_fx",
            "prepare_qat_fx",
        ),
        "torch.ao.quantization.quantize_jit": (
            "convert_dynamic_jit", "convert_jit", "fuse_conv_bn_jit", "prepare_dynamic_jit", "prepare_jit",
            "quantize_dynamic_jit", "quantize_jit", "script_qconfig", "script_qconfig_dict",
        ),
        "torch.ao.quantization.utils": ("check_node",),
        "torch.quantization": ("quantize_dynamic_jit", "quantize_jit"),
        "torch.quantization.quantize_fx": ("convert_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"),
        "torch.quantization.quantize_jit": (
            "convert_dynamic_jit", "convert_jit", "prepare_dynamic_jit", "prepare_jit", "quantize_dynamic_jit", "quantize_jit",
            "script_qconfig", "script_qconfig_dict",
        ),
    },
    "pruning": {
        "torch.ao.pruning": (
            "BaseScheduler", "BaseSparsifier", "CubicSL", "FakeSparsity", "LambdaSL", "NearlyDiagonalSparsifier",
            "WeightNormSparsifier", "fqn_to_module", "get_arg_info_from_tensor_fqn", "get_dynamic_sparse_quantized_mapping",
            "get_static_sparse_quantized_mapping", "module_to_fqn",
        ),
    },
    "sparse": {
        "torch": (
            "ccol_indices_copy", "col_indices_copy", "crow_indices_copy", "indices_copy", "row_indices_copy", "values_copy",
        ),
        "torch.cuda.sparse": (
            "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
            "LongTensor", "ShortTensor",
        ),
        "torch.sparse": (
            "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
            "as_sparse_gradcheck", "to_sparse_semi_structured",
        ),
        "torch.sparse.semi_structured": (
            "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
            "to_sparse_semi_structured",
        ),
    },
    "script": {
        "torch": (
            "AVG", "AggregationType", "AliasDb", "AnyType", "Argument", "ArgumentSpec", "AwaitType", "BenchmarkConfig",
            "BenchmarkExecutionStats", "Block", "BoolType", "BufferDict", "CallStack", "Capsule", "ClassType", "Code",
            "CompilationUnit", "CompleteArgumentSpec", "ComplexType", "ConcreteModuleType", "ConcreteModuleTypeBuilder",
            "DeepCopyMemoTable", "DeserializationStorageContext", "DeviceObjType", "DictType", "EnumType", "ErrorReport",
            "ExecutionPlan", "FileCheck", "FloatType", "FunctionSchema", "FutureType", "Gradient", "Graph",
            "GraphExecutorState", "IODescriptor", "InferredType", "IntType", "InterfaceType", "JITException", "ListType",
            "LiteScriptModule", "LockingLogger", "ModuleDict", "Node", "NoneType", "NoopLogger", "NumberType", "OperatorInfo",
            "OptionalType", "ParameterDict", "PyObjectType", "PyTorchFileWriter", "RRefType", "SUM", "ScriptClass",
            "ScriptClassFunction", "ScriptDict", "ScriptDictIterator", "ScriptDictKeyIterator", "ScriptFunction", "ScriptList",
            "ScriptListIterator", "ScriptMethod", "ScriptModuleSerializer", "ScriptObject", "ScriptObjectProperty",
            "SerializationStorageContext", "StaticModule", "StreamObjType", "StringType", "SymBoolType", "SymIntType",
            "TensorType", "TracingState", "TupleType", "Type", "UnionType", "Use", "Value", "import_ir_module",
            "import_ir_module_from_buffer", "merge_type_from_type_comment", "parse_ir", "parse_schema", "parse_type_comment",
            "unify_type_list",
        ),
        "torch._jit_internal": (),
        "torch.jit": ("CompilationUnit", "_flatten", "export_opnames"),
        "torch.jit._recursive": ("concrete_type_store",),
        "torch.jit._state": ("_jit_caching_layer",),
    },
    "capture": {
        "torch": ("Tag", "slice_inverse", "sym_fresh_size"),
        "torch.Tensor": ("slice_inverse",),
        "torch._dynamo": ("export", "replay"),
        "torch._inductor.cpu_vec_isa": ("pick_vec_isa",),
        "torch._inductor.runtime.cache_dir_utils": ("cache_dir",),
        "torch.compiler": ("load_compiled_function",),
        "torch.export.custom_obj": ("ScriptObjectMeta",),
        "torch.export.dynamic_shapes": ("refine_dynamic_shapes_from_suggested_fixes",),
        "torch.export.passes": ("move_to_device_pass",),
        "torch.export.pt2_archive": ("PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package"),
        "torch.export.unflatten": ("InterpreterModuleDispatcher",),
        "torch.utils._sympy.numbers": ("IntInfinity",),
        "torch.utils._sympy.value_ranges": ("ValueRanges",),
        "functorch.compile": (
            "debug_compile", "default_decompositions", "draw_graph", "draw_graph_compile", "get_aot_compilation_context",
            "minifier", "nnc_jit", "pythonkey_decompose", "ts_compile",
        ),
        "torch._higher_order_ops": (),
        "torch._inductor.runtime": (),
        "torch.export._trace": (),
        "torch.utils._sympy": (),
    },
    "onnx": {
        "torch.onnx": ("InputObserver",),
        "torch.onnx.ops": ("aten_decompositions", "attention", "rotary_embedding", "symbolic", "symbolic_multi_out"),
        "torch.onnx._internal": (),
        "torch.onnx._internal.exporter": (),
        "torch.onnx.utils": (),
    },
    "processes": {
        "torch._C._distributed_rpc": (),
        "torch.distributed": (
            "BuiltinCommHookType", "GroupName", "Logger", "ProcessGroupGloo", "Reducer", "record_comm", "shrink_group",
        ),
        "torch.distributed._tensor.experimental": (),
        "torch.distributed.checkpoint": (
            "HuggingFaceStorageReader", "HuggingFaceStorageWriter", "LoadPlan", "LoadPlanner",
            "QuantizedHuggingFaceStorageReader", "ReadItem", "SavePlan", "SavePlanner", "StorageReader", "StorageWriter",
            "WriteItem", "load_sharded_optimizer_state_dict",
        ),
        "torch.distributed.checkpoint._consolidate_hf_safetensors": ("consolidate_safetensors_files",),
        "torch.distributed.checkpoint.default_planner": (
            "create_default_global_load_plan", "create_default_global_save_plan", "create_default_local_load_plan",
            "create_default_local_save_plan",
        ),
        "torch.distributed.checkpoint.filesystem": ("FileSystem", "FileSystemBase", "SerializationFormat"),
        "torch.distributed.checkpoint.format_utils": (
            "BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "_EmptyStateDictLoadPlanner", "_load_state_dict",
        ),
        "torch.distributed.checkpoint.hf_storage": ("HuggingFaceStorageReader", "HuggingFaceStorageWriter"),
        "torch.distributed.checkpoint.planner": (
            "BytesIOWriteData", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner",
            "TensorWriteData", "WriteItem", "WriteItemType",
        ),
        "torch.distributed.checkpoint.planner_helpers": ("create_read_items_for_chunk_list",),
        "torch.distributed.checkpoint.quantized_hf_storage": ("QuantizedHuggingFaceStorageReader",),
        "torch.distributed.checkpoint.staging": ("AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"),
        "torch.distributed.checkpoint.state_dict_loader": ("_load_state_dict",),
        "torch.distributed.checkpoint.storage": ("StorageReader", "StorageWriter", "WriteResult"),
        "torch.distributed.checkpoint.utils": ("find_state_dict_object", "find_tensor_shard"),
        "torch.distributed.config": ("compile_on_one_rank", "use_torchcomms"),
        "torch.distributed.debug": ("start_debug_server", "stop_debug_server"),
        "torch.distributed.distributed_c10d": ("ProcessGroupGloo", "_pg_map", "record_comm", "shrink_group"),
        "torch.distributed.rpc": ("BackendValue", "init_backend", "register_backend"),
        "torch.distributed.rpc.backend_registry": ("BackendValue", "init_backend", "register_backend"),
        "torch.distributed.tensor.debug": ("CommDebugMode", "visualize_sharding"),
        "torch.distributed.tensor.experimental": ("context_parallel",),
        "torch.distributed.tensor.experimental._attention": ("set_rotate_method",),
        "torch.distributed.tensor.parallel.fsdp": ("DTensorExtensions",),
        "torch.distributed.tensor.parallel.input_reshard": ("input_reshard",),
        "torch.distributed.utils": ("_sync_module_states",),
        "torch.numa.binding": ("AffinityMode", "NumaOptions"),
        "torch.distributed._tensor": (),
        "torch.distributed._tensor.device_mesh": (),
        "torch.distributed.algorithms._checkpoint": (),
        "torch.distributed.checkpoint.optimizer": ("load_sharded_optimizer_state_dict",),
        "torch.numa": (),
    },
    "launcher": {
        "torch.distributed.elastic.agent.server.health_check_server": ("HealthCheckServer", "create_healthcheck_server"),
        "torch.distributed.elastic.control_plane": ("worker_main",),
        "torch.distributed.elastic.events": ("construct_and_record_rdzv_event", "record", "record_rdzv_event"),
        "torch.distributed.elastic.events.api": ("Event", "EventSource", "NodeState", "RdzvEvent"),
        "torch.distributed.elastic.events.handlers": ("get_logging_handler",),
        "torch.distributed.elastic.metrics": ("initialize_metrics",),
        "torch.distributed.elastic.metrics.api": (
            "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig", "NullMetricHandler",
            "configure", "getStream", "get_elapsed_time_ms", "prof", "profile", "publish_metric", "put_metric",
        ),
        "torch.distributed.elastic.multiprocessing.redirects": ("get_libc", "redirect"),
        "torch.distributed.elastic.multiprocessing.subprocess_handler": ("SubprocessHandler", "get_subprocess_handler"),
        "torch.distributed.elastic.multiprocessing.tail_log": ("TailLog", "tail_logfile"),
        "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend": ("C10dRendezvousBackend", "create_backend"),
        "torch.distributed.elastic.rendezvous.dynamic_rendezvous": (
            "DynamicRendezvousHandler", "RendezvousBackend", "RendezvousSettings", "RendezvousTimeout", "create_handler",
            "get_method_name",
        ),
        "torch.distributed.elastic.rendezvous.etcd_rendezvous": (
            "EtcdRendezvous", "EtcdRendezvousHandler", "EtcdRendezvousRetryImmediately", "EtcdRendezvousRetryableFailure",
            "create_rdzv_handler",
        ),
        "torch.distributed.elastic.rendezvous.etcd_server": ("EtcdServer", "find_free_port", "stop_etcd"),
        "torch.distributed.elastic.rendezvous.etcd_store": ("EtcdStore", "cas_delay"),
        "torch.distributed.elastic.rendezvous.registry": ("get_rendezvous_handler",),
        "torch.distributed.elastic.rendezvous.static_tcp_rendezvous": ("StaticTCPRendezvous", "create_rdzv_handler"),
        "torch.distributed.elastic.rendezvous.utils": ("parse_rendezvous_endpoint",),
        "torch.distributed.elastic.timer": (),
        "torch.distributed.elastic.timer.api": (
            "RequestQueue", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires",
        ),
        "torch.distributed.elastic.timer.debug_info_logging": ("log_debug_info_for_expired_timers",),
        "torch.distributed.elastic.timer.file_based_local_timer": ("FileTimerClient", "FileTimerRequest", "FileTimerServer"),
        "torch.distributed.elastic.timer.local_timer": ("LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue"),
        "torch.distributed.elastic.utils.log_level": ("get_log_level",),
        "torch.distributed.elastic.utils.process_state": ("is_uninterruptible_state", "read_proc_state"),
    },
    "recorder": {
        "torch.distributed.flight_recorder": (),
        "torch.distributed.flight_recorder.fr_trace": ("main",),
    },
    "cuda": {
        "torch": ("thread_safe_generator",),
        "torch.backends.cuda": (
            "blas_workspace_size", "cuBLASModule", "cuFFTPlanCache", "cuFFTPlanCacheAttrContextProp", "cuFFTPlanCacheManager",
            "cublas_workspace_size", "cublaslt_workspace_size", "is_ck_sdpa_available",
        ),
        "torch.backends.cusparselt": ("get_max_alg_id", "is_available", "version"),
        "torch.cuda": (
            "GreenContext", "caching_allocator_disabled", "caching_allocator_enable", "current_blas_handle",
            "current_solver_handle",
        ),
        "torch.cuda.gds": ("GdsFile", "gds_deregister_buffer", "gds_register_buffer"),
        "torch.cuda.green_contexts": ("GreenContext",),
        "torch.cuda.memory": ("caching_allocator_disabled", "caching_allocator_enable"),
        "torch.cuda.nccl": ("init_rank",),
        "torch.cuda.profiler": ("init",),
    },
    "devices": {
        "torch.Tensor": ("ipu", "mtia", "xpu"),
        "torch.backends.kleidiai": ("is_available",),
        "torch.backends.mps": ("get_core_count", "get_name"),
        "torch.mps": (
            "Event", "compile_shader", "current_allocated_memory", "driver_allocated_memory", "get_rng_state", "load_metallib",
            "recommended_max_memory", "set_per_process_memory_fraction", "set_rng_state", "synchronize",
        ),
        "torch.mps.event": ("Event",),
        "torch.mps.profiler": ("is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile", "start", "stop"),
        "torch.mtia": (
            "Event", "MTIAGraph", "Stream", "StreamContext", "attach_out_of_memory_observer", "current_device",
            "current_stream", "default_stream", "get_device_capability", "get_device_name", "get_device_properties",
            "get_rng_state", "graph", "graph_pool_handle", "init", "initial_seed", "record_memory_history", "set_device",
            "set_rng_state", "set_rng_state_all", "set_stream", "snapshot", "synchronize",
        ),
        "torch.utils.backend_registration": ("generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"),
        "torch.xpu": (
            "Event", "MemPool", "Stream", "StreamContext", "XPUGraph", "XPUPluggableAllocator", "can_device_access_peer",
            "change_current_allocator", "clock_rate", "current_device", "current_stream", "default_generators",
            "device_memory_used", "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags",
            "get_per_process_memory_fraction", "get_rng_state", "get_stream_from_external", "graph", "graph_pool_handle",
            "init", "initial_seed", "is_current_stream_capturing", "make_graphed_callables", "mem_get_info", "memory_snapshot",
            "memory_usage", "power_draw", "set_device", "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all",
            "set_stream", "streams", "synchronize", "temperature", "use_mem_pool", "utilization",
        ),
    },
    "vendor": {
        "torch": (
            "batch_norm_backward_elemt", "batch_norm_backward_reduce", "batch_norm_elemt", "batch_norm_gather_stats",
            "batch_norm_gather_stats_with_counts", "batch_norm_stats", "batch_norm_update_stats", "cudnn_affine_grid_generator",
            "cudnn_batch_norm", "cudnn_convolution", "cudnn_convolution_add_relu", "cudnn_convolution_relu",
            "cudnn_convolution_transpose", "cudnn_grid_sampler", "cudnn_is_acceptable", "miopen_batch_norm",
            "miopen_convolution", "miopen_convolution_add_relu", "miopen_convolution_relu", "miopen_convolution_transpose",
            "miopen_ctc_loss", "miopen_depthwise_convolution", "miopen_rnn", "mkldnn_adaptive_avg_pool2d", "mkldnn_convolution",
            "mkldnn_linear_backward_weights", "mkldnn_max_pool2d", "mkldnn_max_pool3d", "mkldnn_rnn_layer",
        ),
        "torch.Tensor": ("to_mkldnn",),
        "torch.backends.mkl": ("verbose",),
        "torch.backends.nnpack": ("flags",),
        "torch.utils.mkldnn": (
            "MkldnnBatchNorm", "MkldnnConv1d", "MkldnnConv2d", "MkldnnConv3d", "MkldnnLinear", "MkldnnPrelu", "to_mkldnn",
        ),
    },
    "dtypes": {
        "torch": (
            "bit", "bits16", "bits1x8", "bits2x4", "bits4x2", "bits8", "float4_e2m1fn_x2", "float8_e8m0fnu", "int1", "int2",
            "int3", "int4", "int5", "int6", "int7", "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
        ),
    },
    "float8": {
        "torch.nn.functional": ("scaled_grouped_mm",),
    },
    "extension": {
        "torch.utils.cpp_extension": ("SyclExtension", "remove_extension_h_precompiler_headers"),
        "torch.utils.file_baton": ("FileBaton",),
        "torch._custom_ops": (),
    },
    "measure": {
        "torch.utils.benchmark": ("CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts"),
        "torch.utils.throughput_benchmark": ("ExecutionStats", "ThroughputBenchmark", "format_time"),
    },
    "trace": {
        "torch.autograd.profiler": ("MemRecordsAcc",),
        "torch.autograd.profiler_legacy": ("profile",),
        "torch.autograd.profiler_util": ("FormattedTimesMixin", "MemRecordsAcc", "StringTable"),
        "torch.profiler": ("DeviceType", "ExecutionTraceObserver"),
        "torch.profiler.profiler": ("ExecutionTraceObserver",),
    },
    "masked": {
        "torch.masked.maskedtensor": ("MaskedTensor", "is_masked_tensor"),
    },
    "mobile": {
        "torch.utils.bundled_inputs": (
            "InflatableArg", "augment_many_model_functions_with_bundled_inputs", "augment_model_with_bundled_inputs",
            "bundle_inputs", "bundle_large_tensor", "bundle_randn",
        ),
        "torch.utils.show_pickle": ("DumpUnpickler", "FakeClass", "FakeObject", "main"),
        "torch.utils.mobile_optimizer": (
            "LintCode", "MobileOptimizerType", "generate_mobile_module_lints", "optimize_for_mobile",
        ),
    },
    "hip": {
        "torch.utils.hipify": ("hipify_python",),
    },
    "decoders": {
        "torch.utils.data.datapipes.iter": ("RoutedDecoder",),
        "torch.utils.data.datapipes.iter.routeddecoder": ("RoutedDecoderIterDataPipe",),
        "torch.utils.data.datapipes.utils.decoder": (
            "Decoder", "ImageHandler", "MatHandler", "StreamWrapper", "audiohandler", "basichandlers", "extension_extract_fn",
            "handle_extension", "imagehandler", "mathandler", "videohandler",
        ),
    },
    "dims": {
        "functorch.dim": (
            "Dim", "DimList", "DimensionBindError", "DimensionMismatchError", "Tensor", "cat", "dimlists", "dims", "index",
            "softmax", "split", "stack",
        ),
    },
    "internal": {
        "torch": ("DisableTorchFunction", "ExcludeDispatchKeyGuard", "FatalError", "ThroughputBenchmark", "cpp"),
        "torch.Tensor": ("index",),
        "torch._C": ("ListType", "Node", "_jit_get_operation"),
        "torch._C._functorch": (),
        "torch._functorch": (),
        "torch._guards": (),
        "torch.utils._contextlib": (),
        "torch._C._distributed_c10d": (),
        "torch._subclasses.functional_tensor": ("FunctionalTensor",),
        "torch.autograd": ("enforce_grad_layout_policy",),
        "torch.autograd.grad_mode": ("enforce_grad_layout_policy",),
        "torch.autograd.gradcheck": ("get_numerical_jacobian_wrt_specific_input",),
        "torch.autograd.graph": ("region_activation_memory_budget", "set_override_stale_capture_stream"),
        "torch.autograd.variable": ("VariableMeta",),
        "torch.multiprocessing.pool": ("clean_worker",),
        "torch.multiprocessing.queue": ("ConnectionWrapper",),
        "torch.multiprocessing.reductions": (
            "SharedCache", "fd_id", "rebuild_cuda_tensor", "rebuild_meta_tensor", "rebuild_nested_tensor",
            "rebuild_sparse_compressed_tensor", "rebuild_sparse_coo_tensor", "rebuild_storage_empty", "rebuild_storage_fd",
            "rebuild_storage_filename", "rebuild_tensor", "rebuild_typed_storage", "rebuild_typed_storage_child",
            "reduce_nested_tensor", "reduce_sparse_tensor", "reduce_typed_storage_child", "storage_from_cache",
        ),
        "torch.nn.cpp": ("ModuleWrapper", "OrderedDictWrapper"),
        "torch.nn.functional": ("assert_int_or_pair",),
        "torch.return_types": ("histogramdd", "slogdet", "slogdet_out"),
        "torch.serialization": ("validate_hpu_device",),
        "torch.utils": (
            "ThroughputBenchmark", "generate_methods_for_privateuse1_backend", "get_cpp_backtrace",
            "rename_privateuse1_backend",
        ),
        "torch.utils.checkpoint": ("GraphExecGroup", "SAC_IGNORED_OPS"),
        "torch.utils.cpp_backtrace": ("get_cpp_backtrace",),
        "torch.utils.dlpack": ("DLDeviceType",),
        "torch.utils.bottleneck": (),
    },
}  # fmt: skip


def _index():
    found = {}
    for reason, modules in NAMES.items():
        for module, names in modules.items():
            found.setdefault(module, {}).update(dict.fromkeys(names, reason))
    return found


#: module -> name -> reason
MODULES = _index()


def reason_of(full_name: str) -> str | None:
    """Return the keyword of `REASONS` for a name or for what it belongs to ("torch.package.PackageImporter.load"); None for
    others."""
    while full_name:
        module, _, name = full_name.rpartition(".")
        if name in MODULES.get(module, ()):
            return MODULES[module][name]
        if full_name in REASON_OF_MODULE:
            return REASON_OF_MODULE[full_name]
        full_name = module
    return None


#: modules that are missing as a whole
_HERE = ("torch", "torch.Tensor", "torch._C")
REASON_OF_MODULE = {module: reason for reason, modules in NAMES.items() for module in modules if module not in _HERE}
REASON_OF_MODULE["torch.ops.aten"] = "aten"


def text(full_name: str) -> str:
    """Return why the name is not here, and what there is in its place."""
    if full_name in REMOVED:
        version, instead = REMOVED[full_name]
        return f"{full_name} was removed in PyTorch {version}; use {instead}"
    why, instead = REASONS.get(reason_of(full_name), ("it serves PyTorch's own code", None))
    return f"{full_name} is not supported by Facula: {why}" + (f" (use {instead})" if instead else "")
