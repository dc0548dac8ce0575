"""Hold settings of PyTorch's `aot_autograd` that programs set. None of them changes what is computed here."""

from __future__ import annotations

import sys

from facula.utils._config_module import install_config_module, settings_by_value

install_config_module(
    sys.modules[__name__],
    settings_by_value(
        """False: functionalize_rng_ops debug_assert debug_partitioner unsafe_treat_script_objects_as_zero_size
        autograd_cache_allow_custom_autograd_functions bundled_autograd_cache bypass_autograd_cache_key
        error_on_custom_op_aliasing recompute_views is_non_builtin_to_include visualize_memory_budget_pareto
        aggressive_recomputation enable_activation_offloading activation_offload_separate_stream activation_offload_sink_wait
        activation_reload_prefetch unlift_effect_tokens fake_tensor_crossref fake_tensor_propagate_real_tensors
        generate_fake_kernels_from_real_mismatches force_non_lazy_backward_lowering strict_autograd_cache
        unsafe_allow_optimization_of_collectives disable_guess_zero_tangent_for_mutated_input_subclass force_autograd_cache
        selective_decompose enable_complex_wrapper""",
        """True: fake_tensor_allow_meta decompose_custom_triton_ops static_weight_shapes treat_parameters_as_free_to_save cse
        enable_autograd_cache autograd_cache_normalize_inputs check_custom_op_aliasing view_replay_for_aliased_outputs
        ban_recompute_used_far_apart ban_recompute_long_fusible_chains ban_recompute_materialized_backward
        ban_recompute_not_in_allowlist ban_recompute_reductions remat_using_tags_for_fwd_loss_bwd_graph
        fake_tensor_allow_unsafe_data_ptr_access donated_buffer graphsafe_rng_functionalization
        guess_tangent_strides_as_outputs""",
        "None: enable_remote_autograd_cache memory_budget_pareto_dir fake_tensor_prefer_device_type joint_custom_pass",
        "1000: max_dist_from_bw",
        "1.0: activation_memory_budget",
        "'flops': activation_memory_budget_runtime_estimator",
        "'dp': activation_memory_budget_solver",
        "50.0: activation_offload_cpu_gpu_bw",
        "'needs_exact_strides': custom_op_default_layout_constraint",
        "'same_as_forward': backward_pass_autocast",
        "'svg': torch_compile_graph_format",
        "'donated': saved_tensors_hooks_filtering_mode",
    ),
)
