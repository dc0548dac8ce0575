"""Hold settings of compiled functions under PyTorch's names. Those that have an effect come first; the others are only
stored.

`recompile_limit` begins at 64, where PyTorch has 8: a further recording of a function costs little more than its call.
"""

from __future__ import annotations

import os
import sys

from facula.utils._config_module import install_config_module, settings_by_value


def _set_by(name: str) -> bool:
    return os.environ.get(name, "0") == "1"


# Nothing is compiled: `compile` gives back what it was given. FACULA_COMPILE=0 says the same.
disable = _set_by("TORCH_COMPILE_DISABLE") or _set_by("TORCHDYNAMO_DISABLE") or os.environ.get("FACULA_COMPILE") == "0"
# How often a function is recorded: calls with other tensors than those that it was recorded with run eagerly then.
recompile_limit = 64
# What a call does that would be recorded beyond the limit: raise FailOnRecompileLimitHit.
fail_on_recompile_limit_hit = False
# What any further recording of a function does: raise RecompileError.
error_on_recompile = False
# Whether a number that Python takes from a tensor (`item()`, `int`, `float`), and a size that depends on values (`nonzero`),
# is no break to `explain`, the logs and the counters. With fullgraph they are none in any case.
capture_scalar_outputs = _set_by("TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS")
capture_dynamic_output_shape_ops = _set_by("TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS")
# Kept, as every size that there is has a recording of its own.
automatic_dynamic_shapes = assume_static_by_default = dynamic_shapes = True

install_config_module(
    sys.modules[__name__],
    settings_by_value(
        """False: verbose verify_correctness leaf_function_validate_outputs leaf_function_check_escaped_gradients
        generate_pycode
        specialize_int specialize_float automatic_dynamic_exclusion_guard log_graph_in_out_metadata allow_ignore_mark_dynamic
        prepare_freezing suppress_errors replay_record_enabled cprofile dynamo_profiler repro_forward_only repro_ignore_non_fp
        prefer_deferred_runtime_asserts_over_guards force_unspec_int_unbacked_size_like_on_torchrec_kjt
        allow_unspec_int_on_nn_module do_not_emit_runtime_asserts dont_skip_tracing optimize_ddp_lazy_compile
        skip_guards_on_constant_func_defaults use_recursive_dict_tags_for_guards raise_on_unsafe_aot_autograd
        force_compile_during_fx_trace allow_rnn trace_autograd_ops use_numpy_random_stream enable_cpp_symbolic_shape_guards
        enable_trace_unittest enable_trace_load_build_class nested_graph_breaks
        error_on_dynamo_callback_in_fullgraph_compiled_code install_free_tensors use_graph_deduplication
        track_nodes_for_deduplication graph_deduplication_lint allow_empty_graphs debug_force_nested_calls
        debug_force_graph_break_on_leaf_return debug_disable_compile_counter record_compile_time_instruction_count
        cudagraph_backend_keep_input_mutation cudagraph_backend_support_input_mutation only_allow_pt2_compliant_ops
        capture_profiler_record_function fake_tensor_cache_crosscheck_enabled caching_precompile strict_precompile
        compiled_autograd skip_fwd_side_effects_in_bwd_under_checkpoint enable_compiler_collectives enable_p2p_compilation
        _unsafe_skip_fsdp_module_guards constant_fold_autograd_profiler_enabled wrap_top_frame
        enable_invoke_subgraph_regional_compile inline_invoke_subgraph""",
        """True: replay_side_effects skip_code_recursive_on_recompile_limit_hit use_lazy_graph_module
        force_parameter_static_shapes force_nn_module_property_static_shapes guard_nn_modules guard_nn_modules_using_dict_tags
        rewrite_assert_with_torch_assert same_two_models_use_fp64 optimize_ddp skip_torchrec
        use_lamba_guard_for_object_aliasing skip_fsdp_guards skip_nnmodule_hook_guards
        skip_no_tensor_aliasing_guards_on_parameters skip_tensor_guards_with_matching_dict_tags
        assume_dunder_attributes_remain_unchanged raise_on_ctx_manager_usage error_on_nested_jit_trace error_on_nested_fx_trace
        capture_sparse_compute report_guard_failures trace_numpy enable_cpp_guard_manager enable_trace_contextlib
        enable_faithful_generator_behavior inline_inbuilt_nn_modules install_free_tensors_for_export
        enable_cpp_framelocals_guard_eval issue_3_13_0_warning capture_autograd_function capture_func_transforms
        log_compilation_metrics fake_tensor_cache_enabled fake_tensor_disable_inference_mode enable_dynamo_decompositions
        graph_break_on_nn_param_ctor inline_torch_dispatch_torch_compile automatic_dynamic_local_pgo run_gc_after_compile
        record_runtime_overhead enable_aot_compile inline_single_use_invoke_subgraph""",
        """None: log_file_name dead_code_elimination repro_after automatic_dynamic_remote_pgo pt2_compile_id_prefix
        invalidate_compile_context_weakrefs""",
        "'': debug_backend_override debug_inductor_config_override debug_dynamo_config_override base_dir",
        "256: accumulated_recompile_limit max_saved_pointers_for_recursive_dict_tags_check",
        "{}: skipfiles_inline_module_allowlist compiled_autograd_kwargs_override",
        "1: minimum_call_count",
        "2: repro_level",
        "0.001: repro_tolerance",
        "'info': side_effect_replay_policy",
        "'dynamic': automatic_dynamic_shapes_mark_as",
        "'float64': numpy_default_float",
        "'complex128': numpy_default_complex",
        "'int64': numpy_default_int",
        "'torch_compile_debug': debug_dir_root",
    )
    | {
        name: set()
        for name in """
        traceable_tensor_subclasses nontraceable_tensor_subclasses reorderable_logging_functions ignore_logging_functions
        allowed_functions_module_string_ignorelist
        """.split()
    },
    second_names={
        "cache_size_limit": "recompile_limit",
        "accumulated_cache_size_limit": "accumulated_recompile_limit",
        "skip_code_recursive_on_cache_limit_hit": "skip_code_recursive_on_recompile_limit_hit",
        "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
        "ignore_logger_methods": "ignore_logging_functions",
    },
    path="torch._dynamo.config",
)
