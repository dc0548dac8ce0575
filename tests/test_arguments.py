"""No public function takes an argument without reading it, except those listed here, each with its reason."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# reason -> file -> "function(parameters) ..."
EXCEPTIONS = {
    "a mark for a compiler, without effect on eager execution": {
        "compiler/_decorators.py": """
            substitute_in_graph(can_constant_fold_through) skip_frame(msg) override_optimization_hint(x val)
            """,
        "compiler/_eval_frame.py": "optimize(guard_export_fn guard_fail_fn guard_filter_fn package)",
        "compat/private/_dynamo/testing.py": """
            CompileCounter.__call__(example_inputs) EagerAndRecordGraphs.__call__(example_inputs) reset_rng_state(use_xpu)
            """,
        "compiler/_backends/common.py": "AotAutograd.__init__(keep_inference_input_mutations) AotAutograd.__call__(kwargs)",
        "compiler/_backends/debugging.py": """
            eager(fake_tensor_inputs kwargs) eager_noexcept(fake_tensor_inputs kwargs) boxed_nop(example_inputs)
            """,
        "compiler/_backends/graphs.py": "GraphedStretches.compile(examples records_gradients)",
        "compiler/_aot.py": """
            aot_function(disable_functionalization enable_log num_params_buffers) memory_efficient_fusion(kwargs)
            """,
        "compiler/_partitioners.py": """
            default_partition(joint_module more num_fwd_outputs)
            min_cut_rematerialization_partition(compiler joint_module more num_fwd_outputs)
            """,
        "compiler/_counters.py": "compile_times(aggregate)",
        "compiler/_modes.py": "list_mode_options(dynamic)",
        "compiler/_logs.py": "trace_structured(args kwargs name)",
        "_tensor/fake.py": "FakeTensorMode.from_tensor(source static_shapes symbolic_context trace)",
        "compiler/__init__.py": """
            compile(isolate_recompiles shapes_spec) nested_compile_region(options max_reuse_entries reuse_hash_fn)
            """,
        "jit/__init__.py": """
            script(example_inputs optimize) trace(optimize strict) trace_module(optimize strict)
            freeze(optimize_numerics preserved_attrs) optimize_for_inference(other_methods)
            run_frozen_optimizations(mod optimize_numerics preserved_methods) ignore(kwargs) annotate(the_type)
            Attribute(type) optimized_execution(should_optimize) fuser(name) set_fusion_strategy(strategy)
            enable_onednn_fusion(enabled)
            """,
    },
    "a choice of PyTorch's exporters that is always made the same way here": {
        "export/__init__.py": """
            save(pickle_protocol) export(prefer_deferred_runtime_asserts_over_guards strict)
            draft_export(prefer_deferred_runtime_asserts_over_guards)
            """,
        "export/_decompositions.py": """
            batch_norm(cudnn_enabled) layer_norm(cudnn_enable) group_norm(cudnn_enabled) to_dtype(copy non_blocking)
            """,
        "export/exported_program.py": "ExportedProgram.run_decompositions(decompose_custom_triton_ops)",
        "onnx/_export.py": "export(autograd_inlining do_constant_folding optimize)",
        "onnx/_registered.py": "unregister_custom_op_symbolic(opset_version)",
    },
    "an argument of PyTorch's layers that quantized ones have no use for": {
        "ao/nn/quantized/dynamic/modules/rnn.py": "pack_weight_bias(dtype)",
        "ao/nn/quantized/functional.py": "hardsigmoid(inplace)",
        "ao/nn/quantized/modules/__init__.py": """
            Quantize.from_float(use_precomputed_fake_quant) DeQuantize.from_float(mod use_precomputed_fake_quant)
            """,
        "ao/nn/quantized/modules/activation.py": """
            ReLU6.from_float(use_precomputed_fake_quant) Hardswish.__init__(device dtype)
            Hardswish.from_float(use_precomputed_fake_quant) ELU.from_float(use_precomputed_fake_quant)
            LeakyReLU.__init__(device dtype) LeakyReLU.from_float(use_precomputed_fake_quant)
            Sigmoid.from_float(use_precomputed_fake_quant) Softmax.from_float(use_precomputed_fake_quant)
            PReLU.from_float(use_precomputed_fake_quant)
            """,
        "ao/nn/quantized/modules/dropout.py":
            "Dropout.from_float(use_precomputed_fake_quant) Dropout.from_reference(scale zero_point)",
        "ao/nn/quantized/modules/normalization.py": """
            LayerNorm.__init__(device dtype) LayerNorm.from_float(use_precomputed_fake_quant)
            GroupNorm.__init__(device dtype) GroupNorm.from_float(use_precomputed_fake_quant)
            """,
        "ao/nn/quantized/modules/embedding_ops.py": """
            Embedding.__init__(max_norm norm_type padding_idx scale_grad_by_freq sparse)
            Embedding.from_float(use_precomputed_fake_quant)
            EmbeddingBag.__init__(max_norm norm_type scale_grad_by_freq sparse)
            EmbeddingBag.forward(compressed_indices_mapping) EmbeddingBag.from_float(use_precomputed_fake_quant)
            """,
        "ao/nn/quantized/modules/functional_modules.py": "QFunctional.from_float(use_precomputed_fake_quant)",
    },
    "a function that is called with arguments its kind may need": {
        "package/_mock.py": "MockedObject.__new__(args)",
        "utils/benchmark/fuzzer.py": "FuzzedTensor.default_tensor_constructor(kwargs)",
        "ao/nn/intrinsic/qat/modules/linear_fused.py": "LinearBn1d.from_float(use_precomputed_fake_quant)",
        "ao/nn/qat/modules/linear.py": "Linear.from_float(use_precomputed_fake_quant)",
        "_serialization/numpy_data.py": "build_dtype(nesting)",
        "cuda/graphs.py": "CUDAGraph.register_generator_state(generator)",
        "cuda/memory.py": "MemPool.snapshot(include_traces)",
        "distributed/algorithms/join.py": "JoinHook.post_hook(is_last_joiner) Joinable.join_hook(kwargs)",
        "distributed/algorithms/model_averaging/averagers.py": "ModelAverager.average_parameters(params)",
        "distributed/fsdp/_fully_shard.py": """
            FSDPModule.set_is_last_backward(is_last_backward) FSDPModule.set_force_sum_reduction_for_comms(enable)
            FSDPModule.set_reduce_scatter_unused_params(recurse reduce_scatter_unused_params)
            """,
        "distributed/fsdp/fully_sharded_data_parallel.py": """
            FullyShardedDataParallel.__init__(backward_prefetch forward_prefetch limit_all_gathers use_orig_params)
            FullyShardedDataParallel.summon_full_params(offload_to_cpu)
            """,
        "distributed/checkpoint/default_planner.py": """
            DefaultSavePlanner.__init__(dedup_replicated_tensors dedup_save_to_lowest_rank enable_plan_caching)
            """,
        "distributed/checkpoint/stateful.py": "Stateful.load_state_dict(state_dict)",
        "distributed/pipelining/stage.py": """
            PipelineStage.__init__(get_mesh input_args input_grads output_args output_grads)
            """,
        "distributed/fsdp/wrap.py": """
            always_wrap_policy(args kwargs) lambda_auto_wrap_policy(nonwrapped_numel) ModuleWrapPolicy.__call__(args kwargs)
            transformer_auto_wrap_policy(nonwrapped_numel)
            """,
        "distributed/optim/zero_redundancy_optimizer.py": "ZeroRedundancyOptimizer.join_hook(kwargs)",
        "distributed/argparse_util.py": "env.__call__(option_string parser) check_env.__call__(option_string parser values)",
        "distributed/elastic/agent/server/local_elastic_agent.py": "LocalElasticAgent.run(role)",
        "distributed/elastic/multiprocessing/logs.py": "LogsSpecs.reify(envs)",
        "functions/device.py": "exit(device)",
        "functions/streams.py": "Event.__new__(args kwargs)",
        "nn/attention/flex_attention.py": "noop_mask(head token_kv token_q)",
        "nn/utils/prune.py": """
            BasePruningMethod.__call__(inputs) BasePruningMethod.compute_mask(default_mask t) Identity.compute_mask(t)
            CustomFromMask.compute_mask(t)
            """,
        "nn/utils/spectral_norm.py": """
            SpectralNorm.__call__(inputs) SpectralNormLoadStateDictPreHook.__call__(error_msgs unexpected_keys)
            SpectralNormStateDictHook.__call__(module prefix state_dict)
            """,
        "nn/utils/weight_norm.py": "WeightNorm.__call__(inputs)",
        "utils/data/_utils/collate.py": """
            collate_tensor_fn(collate_fn_map) collate_numpy_scalar_fn(collate_fn_map) collate_float_fn(collate_fn_map)
            collate_int_fn(collate_fn_map) collate_str_fn(collate_fn_map)
            """,
        "utils/data/sampler.py": "Sampler.__init__(data_source)",
    },
    "there is one implementation, and one layout": {
        "_tensor/__init__.py": "new_tensor(layout)",
        "nn/utils/clip_grad.py": "get_total_norm(foreach) clip_grads_with_norm_(foreach) clip_grad_value_(foreach)",
    },
    "there is one CPU, without streams, and backends have nothing to choose": {
        "accelerator/__init__.py": "current_accelerator(check_available)",
        "backends/mkldnn.py": "flags(fp32_precision)",
        "backends/mps.py": "is_macos13_or_newer(version)",
        "cpu/__init__.py": """
            set_device(device) synchronize(device) Stream.wait_stream(stream) Event.record(stream) Event.wait(stream)
            current_stream(device) memory_stats(device) memory_allocated(device) max_memory_allocated(device)
            memory_reserved(device) max_memory_reserved(device) reset_peak_memory_stats(device) memory_summary(device)
            """,
    },
    "there is no such device, or nothing of it to set": {
        "autograd/graph.py": "save_on_cpu.__init__(device_type) set_warn_on_accumulate_grad_stream_mismatch(enabled)",
        "compat/aliases.py": "TorchFinder.find_spec(path target)",
    },
    "not there yet": {
        "autograd/profiler.py": """
            profile.__init__(acc_events custom_trace_id_callback experimental_config post_processing_timeout_s)
            profile.__init__(use_kineto)
            """,
        "autograd/profiler_util.py": "EventList.key_averages(group_by_overload_name)",
        "func/_jacobians.py": "jacfwd(randomness)",
        "profiler/__init__.py": "profile.__init__(acc_events experimental_config post_processing_timeout_s)",
    },
    "without meaning in PyTorch too": {
        "utils/benchmark/fuzzer.py": "FuzzedTensor.__init__(roll_parameter)",
        "utils/benchmark/sparse_fuzzer.py": "FuzzedSparseTensor.__init__(nnz)",
        "autograd/variable.py": "Variable.__new__(volatile)",
        "overrides.py": "redispatch_function(types)",
        "nn/modules/linear.py": "Identity.__init__(args kwargs)",
        "utils/tensorboard/writer.py": "SummaryWriter.add_pr_curve_raw(weights)",
    },
    "of several processes or devices; a group has one": {
        "distributed/_collectives.py": "barrier(device_ids) monitored_barrier(wait_all_ranks)",
        "distributed/_reducer.py": "Reducer.prepare_for_backward(outputs)",
        "distributed/pipelining/schedules.py": "PipelineScheduleMulti.__init__(use_full_backward) ScheduleLoopedBFS.__init__(defer_pp_recv)",
        "distributed/_objects.py": """
            broadcast_object_list(device) send_object_list(device use_batch) recv_object_list(device use_batch)
            """,
        "distributed/_group.py": "init_process_group(pg_options)",
        "distributed/_subgroups.py": "new_group(device_id pg_options) new_subgroups_by_enumeration(pg_options)",
        "nn/parallel/comm.py": "broadcast_coalesced(buffer_size) reduce_add_coalesced(buffer_size) scatter(streams)",
        "nn/parallel/distributed.py": """
            DistributedDataParallel.__init__(batched_grad_copy check_reduction skip_all_reduce_unused_params)
            """,
    },
    "the derivative follows from x alone": {
        "distributions/transforms.py": """
            ReshapeTransform.log_abs_det_jacobian(y) ExpTransform.log_abs_det_jacobian(y) SigmoidTransform.log_abs_det_jacobian(y)
            SoftplusTransform.log_abs_det_jacobian(y) TanhTransform.log_abs_det_jacobian(y)
            AffineTransform.log_abs_det_jacobian(y) CumulativeDistributionTransform.log_abs_det_jacobian(y)
            """,
    },
    "advice on how to compute, which does not change the result": {
        "functions/lobpcg.py": "lobpcg(ortho_bparams ortho_fparams ortho_iparams)",
        "nn/attention/bias.py": "CausalBias.__new__(seq_len_kv seq_len_q)",
        "nn/attention/flex_attention.py": """
            BlockMask.from_kv_blocks(order) create_block_mask(compute_dq_write_order dq_kv_order)
            flex_attention(kernel_options)
            """,
        "nn/attention/varlen.py": "varlen_attn(max_k max_q num_splits)",
        "nn/functions/loss_classification.py": "linear_cross_entropy(options)",
        "nn/functions/matmul.py": "scaled_mm(use_fast_accum)",
    },
    "repositories on the network are refused; a folder needs none of it": {
        "hub.py": """
            list(force_reload skip_validation trust_repo verbose) help(force_reload skip_validation trust_repo)
            load(force_reload skip_validation trust_repo verbose)
            """,
    },
    "of the registration itself: its owner, tags, and what may be overridden": {
        "_operators/custom.py": "CustomOpDef.register_torch_dispatch(torch_dispatch_class)",
        "library.py": """
            define(alias_analysis lib tags) impl(lib) register_kernel(lib)
            register_fake(allow_override lib) register_autograd(lib) register_vmap(lib)
            register_torch_dispatch(allow_override lib) register_autocast(lib) Library.define(alias_analysis tags)
            Library.impl(allow_override with_keyset)
            """,
    },
    "of a method that subclasses replace": {
        "package/importer.py": "Importer.import_module(module_name)",
        "fx/_symbolic_trace.py": "Tracer.is_leaf_module(module_qualified_name)",
        "fx/interpreter.py": """
            Interpreter.placeholder(kwargs) Interpreter.get_attr(args kwargs) Interpreter.output(target kwargs)
            Transformer.placeholder(kwargs)
            """,
        "fx/graph_module.py": "GraphModule.__new__(args kwargs)",
        "fx/passes/infra/pass_base.py": """
            PassBase.call(graph_module) PassBase.requires(graph_module) PassBase.ensures(graph_module)
            """,
        "fx/passes/infra/pass_manager.py": "PassManager.check(module)",
        "fx/passes/operator_support.py": "OperatorSupportBase.is_node_supported(submodules node)",
    },
    "of colors, and of what PyTorch's own passes add to the text of a graph": {
        "fx/graph.py": "Graph.python_code(additional_meta colored expanded_def record_func)",
        "fx/graph_module.py": "GraphModule.print_readable(additional_meta colored expanded_def fast_sympy_print)",
    },
    "there is no compiler for devices, and headers are read quickly": {
        "utils/cpp_extension.py": """
            load(extra_cuda_cflags extra_sycl_cflags)
            load_inline(extra_cuda_cflags extra_sycl_cflags use_pch with_pytorch_error_handling)
            """,
    },
    "signatures are told apart by what fits": {
        "fx/operator_schemas.py": "normalize_function(arg_types kwarg_types) check_for_mutable_operation(args)",
        "fx/passes/utils/common.py": "lift_subgraph_as_module(comp_name)",
        "fx/passes/split_module.py": "split_module(root_m keep_original_node_name)",
    },
    "the function of this name always gives indices": {
        "nn/functions/pool.py": """
            max_pool1d_with_indices(return_indices) max_pool2d_with_indices(return_indices)
            max_pool3d_with_indices(return_indices)
            """,
        "nn/functions/pool_adaptive.py": """
            adaptive_max_pool1d_with_indices(return_indices)
            adaptive_max_pool2d_with_indices(return_indices) adaptive_max_pool3d_with_indices(return_indices)
            fractional_max_pool2d_with_indices(return_indices) fractional_max_pool3d_with_indices(return_indices)
            """,
    },
    "the kernels see for themselves": {
        "optim/adadelta.py": "adadelta(has_complex)",
        "optim/adagrad.py": "adagrad(has_complex has_sparse_grad)",
        "optim/adam.py": "adam(has_complex)",
        "optim/adamax.py": "adamax(has_complex)",
        "optim/asgd.py": "asgd(has_complex)",
        "optim/nadam.py": "nadam(has_complex)",
        "optim/radam.py": "radam(has_complex)",
        "optim/rmsprop.py": "rmsprop(has_complex)",
        "optim/rprop.py": "rprop(has_complex)",
        "optim/sgd.py": "sgd(has_sparse_grad)",
    },
}


def unread(path):
    """{"Class.function": {parameters that its body does not mention}} of the public functions of a file."""
    found = {}

    def visit(node, prefix):
        for child in node.body:
            if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef) and (child.name in SPECIAL or not child.name.startswith("_")):
                parameters = missing(child)
                if parameters and "overload" not in map(ast.unparse, child.decorator_list):
                    found[f"{prefix}{child.name}"] = parameters

    visit(ast.parse(path.read_text()), "")
    return found


SPECIAL = ("__init__", "__new__", "__call__")


def missing(function):
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {a.arg for a in given if a is not None and a.arg not in ("self", "cls") and not a.arg.startswith("_")}
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(body) == 1 and isinstance(body[0], ast.Raise):
        return set()  # refuses whatever it is given
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    return set() if "locals" in used else names - used


def listed():
    for reason, files in EXCEPTIONS.items():
        for path, text in files.items():
            for entry in text.replace(") ", ")\n").split("\n"):
                if entry := entry.strip():
                    function, _, parameters = entry.rstrip(")").partition("(")
                    yield path, function, parameters.split(), reason


def test_every_argument_is_read():
    allowed = {}
    for path, function, parameters, _ in listed():
        allowed.setdefault((path, function), set()).update(parameters)
    found = {
        (str(path.relative_to(ROOT / "facula")), function): parameters
        for path in sorted((ROOT / "facula").rglob("*.py"))
        if "onnx/_ops" not in str(path)  # a translation has the arguments of its op, whose results are known
        for function, parameters in unread(path).items()
    }
    ignored = {key: left for key, names in found.items() if (left := names - allowed.get(key, set()))}
    assert not ignored, f"arguments that are taken and never read: {ignored}"
    stale = {key: left for key, names in allowed.items() if (left := names - found.get(key, set()))}
    assert not stale, f"listed here but read, or gone: {stale}"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(a, b): return a", {"f": {"b"}}),
        ("def f(a, *, b=1, **c): return a", {"f": {"b", "c"}}),
        ("class C:\n def __init__(self, x): pass", {"C.__init__": {"x"}}),
        ("def f(a): raise NotImplementedError('f')", {}),
        ("def _f(a): pass", {}),
        ("def f(a):\n '''a'''\n return lambda: a", {}),
    ],
)
def test_the_scan_sees_what_is_not_read(tmp_path, source, names):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert unread(path) == names
