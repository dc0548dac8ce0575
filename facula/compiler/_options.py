"""Hold settings of PyTorch's inductor that programs set. None of them changes what is computed here.

The names are those of PyTorch 2.13, but for groups of devices that Facula does not have.
"""

from __future__ import annotations

import sys

from facula.utils._config_module import install_config_module, settings_by_value

install_config_module(
    sys.modules[__name__],
    settings_by_value(
        """False: can_inplace_pad_graph_input debug verbose_progress remote_gemm_autotune_cache
        unsafe_skip_cache_dynamic_shape_guards cpp_wrapper cpp_wrapper_build_separate fx_wrapper dce nan_asserts
        runtime_triton_nan_asserts memory_planning use_fast_math epilogue_fusion_with_atomic_add epilogue_fusion_first
        epilogue_fusion_user_defined_triton_kernel b2b_gemm_pass efficient_conv_bn_eval_fx_passes is_predispatch group_fusion
        force_fuse_int_mm_with_mul reorder_for_compute_comm_overlap reorder_for_peak_memory_debug dedup_reduce_scatters
        runtime_estimations_mms_benchmark distributed_max_autotune_gemm pipeline_max_autotune_gemm
        use_torch_profiler_benchmarker max_autotune max_autotune_pointwise max_autotune_gemm incremental_autotune
        max_autotune_prune_choices_based_on_shared_mem triton_disable_device_detection max_autotune_allow_flexible_layouts
        nvgemm_supplement_configs fallback_by_default selective_decompose cutedsl_enable_autotuning autotune_fallback_to_aten
        search_autotune_cache save_args autotune_in_subproc autotune_multi_device coordinate_descent_tuning
        coordinate_descent_check_all_directions autoheuristic_collect.pad_mm autoheuristic_collect.mixed_mm
        run_jit_post_compile_hook force_layout_optimization cache_sdpa_constraint warn_mix_layout fallback_random
        align_random_eager fallback_embedding_bag_byte_unpack assume_unaligned_fallback_output aggressive_fusion debug_fusion
        benchmark_fusion force_pointwise_cat comment_origin conv_1x1_as_mm deterministic batch_invariant benchmark_kernel
        always_keep_tensor_constants do_not_emit_runtime_assertions compute_all_bounds combo_kernels benchmark_combo_kernel
        combo_kernel_per_subkernel_blocks combo_kernels_pointwise_only debug_index_asserts is_nightly_or_source
        developer_warnings log_tlparse partitioned_scatter_enabled aten_distributed_optimizations.enable_overlap_scheduling
        aten_distributed_optimizations.log_final_collectives_estimations
        aten_distributed_optimizations.bucket_only_internode_comms aten_distributed_optimizations.spmd_check
        aten_distributed_optimizations.overlap_scheduling_autofix_cycles
        aten_distributed_optimizations.enable_low_contention_collectives
        aten_distributed_optimizations.low_contention_skip_overlap_check
        aten_distributed_optimizations.pre_bucketing_fsdp_collectives_verbose
        aten_distributed_optimizations.allow_comms_decompositions static_launch_user_defined_triton_kernels
        strict_static_cuda_launcher keep_static_cubin_raw pad_channels_last pad_dynamic_shapes
        expand_dimension_for_pointwise_nodes pad_outputs force_shape_pad permute_fusion profiler_mark_wrapper_call
        generate_intermediate_hooks debug_ir_traceback profile_bandwidth profile_bandwidth_with_do_bench_using_profiling
        disable_cpp_codegen freezing freezing_discard_parameters decompose_mem_bound_mm wrap_inductor_compiled_regions
        assume_aligned_inputs assume_32bit_indexing unsafe_ignore_unsupported_triton_autotune_args
        enable_linear_binary_folding annotate_training enable_autograd_for_aot cpp.dynamic_threads cpp.enable_kernel_profile
        cpp.enable_unsafe_math_opt_flag cpp.enable_grouped_gemm_template cpp.enable_concat_linear cpp.use_decompose_tanh
        cpp.use_small_dequant_buffer cpp.force_inline_kernel triton.cudagraphs triton.cudagraph_skip_dynamic_graphs
        triton.cudagraph_trees_history_recording triton.cudagraph_trees_objgraph triton.force_cudagraph_sync
        triton.force_cudagraphs_warmup triton.cudagraph_or_error triton.fast_path_cudagraph_asserts
        triton.skip_cudagraph_warmup triton.debug_sync_graph triton.debug_sync_kernel triton.dense_indexing
        triton.prefer_nd_tiling triton.autotune_with_sample_inputs triton.tile_reductions triton.native_matmul
        triton.unique_user_kernel_names triton.decompose_sort_ops triton.cooperative_reductions
        triton.force_cooperative_reductions triton.store_cubin triton.use_block_ptr triton.use_tensor_descriptor
        triton.enable_persistent_tma_matmul triton.enable_template_tma_store triton.enable_tma_load_for_template_epilogue
        triton.skip_l1_cache triton.enable_pdl triton.mix_order_reduction_autotune_split_size
        triton.mix_order_reduction_non_strict_mode triton.nested_reduction triton.proton_profiling
        aot_inductor.autotune_per_kernel_alloc aot_inductor.debug_compile aot_inductor.debug_symbols
        aot_inductor.use_runtime_constant_folding aot_inductor.force_mmap_weights aot_inductor.package
        aot_inductor.dump_aoti_minifier aot_inductor.allow_stack_allocation aot_inductor.use_minimal_arrayref_interface
        aot_inductor.weight_use_caching_allocator aot_inductor.enable_lto cuda.enable_cuda_lto cuda.enable_ptxas_info
        cuda.enable_debug_info cuda.use_fast_math cuda.cutlass_epilogue_fusion_enabled cuda.cutlass_tma_only
        cuda.generate_test_runner cuda.cutlass_hash_with_compile_cmd cuda.upload_to_binary_remote_cache
        cuda.binary_remote_cache_force_write trace.enabled trace.save_real_tensors trace.debug_log trace.info_log
        trace.graph_diagram trace.draw_orig_fx_graph trace.compile_profile trace.log_autotuning_results
        emulate_precision_casts""",
        """True: inplace_padding enable_auto_functionalized_v2 disable_progress fx_graph_cache bundle_triton_into_fx_graph_cache
        non_blocking_remote_cache_write autotune_local_cache cpp_cache_precompile_headers online_softmax
        apply_gumbel_max_trick static_weight_shapes size_asserts scalar_asserts alignment_asserts pick_loop_orders
        inplace_buffers allow_buffer_reuse benchmark_harness epilogue_fusion prologue_fusion pattern_matcher
        split_cat_fx_passes batch_fusion reorder_for_locality dynamic_scale_rblock keep_addmm_fused_for_half_dtypes
        use_mixed_mm reorder_for_peak_memory use_experimental_benchmarker max_autotune_report_choices_stats graph_partition
        use_dce use_pre_grad_passes use_joint_graph_passes use_post_grad_passes autoheuristic_use.mixed_mm layout_optimization
        keep_output_stride delay_realize_cheap_outputs implicit_fallbacks loop_ordering_after_fusion
        loop_reindexing_after_fusion loop_index_inversion_in_fusion benchmark_epilogue_fusion split_reductions
        constant_and_index_propagation assert_indirect_indexing combo_kernel_foreach_dynamic_shapes
        combo_kernel_autotune_grouping joint_graph_constant_folding optimize_scatter_upon_const_tensor worker_suppress_logging
        aten_distributed_optimizations.enable_fusion_regions
        aten_distributed_optimizations.prioritize_bucketing_during_scheduling
        aten_distributed_optimizations.pre_bucketing_fsdp_collectives quiesce_async_compile_pool use_static_cuda_launcher
        use_fast_triton_launcher use_launch_metadata_schema shape_padding comprehensive_padding disable_padding_cpu
        bw_outputs_user_visible enable_caching_generated_triton_templates cpp.no_redundant_loops cpp.weight_prepack
        cpp.fallback_scatter_reduce_sum cpp.enable_tiling_heuristics cpp.enable_loop_tail_vec cpp.use_constexpr_for_int_array
        triton.cudagraph_trees triton.slow_path_cudagraph_asserts triton.cudagraph_support_input_mutation
        triton.reorder_for_reducing_graph_partitions triton.coalesce_tiling_analysis triton.autotune_pointwise
        triton.autotune_cublasLt triton.tiling_prevents_pointwise_fusion triton.tiling_prevents_reduction_fusion
        triton.unique_kernel_names triton.persistent_reductions triton.divisible_by_16 triton.emit_pointer_range_32
        triton.transpose_discontiguous_tensor_descriptor triton.codegen_upcast_to_fp32 triton.mix_order_reduction
        triton.mix_order_reduction_allow_multi_stages triton.proton_group_by_sm triton.proton_split_invocations
        triton.proton_per_cta_occupancy triton.dynamic_disable_pipelining aot_inductor.enable_frame_pointer
        aot_inductor.enable_line_tables aot_inductor.use_consts_asm_build aot_inductor.dynamic_linkage
        aot_inductor.raise_error_on_ignored_optimization aot_inductor.check_lowerbound aot_inductor.package_constants_in_so
        aot_inductor.precompile_headers aot_inductor.link_libtorch cuda.cutlass_prescreening cuda.use_binary_remote_cache
        cuda.enable_caching_codegen trace.fx_graph trace.fx_graph_transformed trace.ir_pre_fusion trace.ir_post_fusion
        trace.output_code write_are_deterministic_algorithms_enabled emulate_precision_casts_on_saved_tensors""",
        """None: worker_log_path fx_graph_remote_cache autotune_remote_cache bundled_autotune_remote_cache
        post_grad_custom_pre_pass post_grad_custom_post_pass custom_partitioner_fn joint_custom_pre_pass
        joint_custom_post_pass pre_grad_custom_pass reorder_prefetch_limit bucket_all_gathers_fx_bucket_size_determinator
        bucket_reduce_scatters_fx_bucket_size_determinator bucket_all_reduces_fx_bucket_size_determinator intra_node_bw
        inter_node_bw cudagraph_policy autoheuristic_use.pad_mm realize_opcount_threshold realize_acc_reads_threshold
        realize_acc_reads_size_threshold inductor_choices_class max_fusion_unique_io_buffers
        combo_kernel_peak_memory_increase_gb add_pre_grad_passes remove_pre_grad_passes
        aten_distributed_optimizations.collective_bucketing aten_distributed_optimizations.insert_overlap_deps
        aten_distributed_optimizations.max_compute_pre_fetch aten_distributed_optimizations.compute_overlap_multipler
        aten_distributed_optimizations.custom_runtime_estimation
        aten_distributed_optimizations.profile_guided_estimations_profile_path
        aten_distributed_optimizations.max_memory_increase_gb aten_distributed_optimizations.max_memory_increase_ratio
        aten_distributed_optimizations.max_in_flight_gb aten_distributed_optimizations.max_coll_distance
        aten_distributed_optimizations.bucket_exposed_first aten_distributed_optimizations.bucket_mode
        aten_distributed_optimizations.pre_bucketing_fsdp_collectives_bucket_cap_mb global_cache_dir profile_bandwidth_output
        cpp.simdlen cpp.march cpp.vec_isa_ok cpp.gemm_cache_blocking cpp.gemm_thread_factors triton.cudagraph_capture_sizes
        triton.max_tiles triton.autotune_at_compile_time triton.mix_order_reduction_split_size triton.proton_output_dir
        aot_inductor.filtered_kernel_names aot_inductor.package_cpp_only aot_inductor.package_constants_on_disk_format
        aot_inductor.embed_kernel_binary aot_inductor.emit_multi_arch_kernel aot_inductor.model_name_for_generated_files
        aot_inductor.custom_op_libs aot_inductor.cross_target_platform aot_inductor.aoti_shim_library
        aot_inductor.aoti_shim_library_path cuda.arch cuda.version cuda.cuda_cxx cuda.cutlass_max_profiling_configs
        cuda.cutlass_op_allowlist_regex cuda.cutlass_op_denylist_regex trace.debug_dir trace.dot_graph_shape
        trace.log_url_for_graph_xform trace.upload_tar""",
        """{}: unsafe_marked_cacheable_functions pre_grad_fusion_options post_grad_fusion_options autotune_lookup_table
        triton.debug_dump_kernel_inputs aot_inductor.metadata aot_inductor.presets aot_inductor.custom_ops_to_c_shims""",
        """1: coordinate_descent_search_radius max_epilogue_benchmarked_choices combo_kernels_autotune
        combo_kernel_allow_mixed_sizes cpp.gemm_max_k_slices triton.mix_order_reduction_initial_xblock
        cuda.cutlass_backend_min_gemm_size""",
        """'': enabled_metric_tables disabled_passes profile_bandwidth_regex torchinductor_worker_logpath
        aot_inductor.output_path aot_inductor.serialized_in_spec aot_inductor.serialized_out_spec""",
        """0: size_threshold_for_succ_based_strategy min_num_split compile_worker_wait_timeout
        triton.cudagraph_min_partition_size triton.multi_kernel trace.provenance_tracking_level""",
        """[]: reorder_for_compute_comm_overlap_passes custom_should_partition_ops cudagraph_unsafe_unbacked_ops
        multi_kernel_hints external_matmul""",
        """10: autotune_num_choices_displayed score_fusion_memory_threshold kernel_name_max_ops triton.num_decompose_k_splits
        triton.mix_order_reduction_max_reads""",
        """8: max_complex_pointwise_cat_inputs max_pointwise_cat_inputs unroll_reductions_threshold combo_kernel_max_num_nodes
        triton.cudagraph_dynamic_shape_warn_limit""",
        "'default': bucket_all_gathers_bucket_mode bucket_reduce_scatters_bucket_mode estimate_op_runtime pre_grad_pass_timing",
        "'none': bucket_all_gathers_fx bucket_reduce_scatters_fx bucket_all_reduces_fx",
        "'DEFAULT': max_autotune_gemm_search_space max_autotune_flex_search_space autoheuristic_log_path",
        "2: partitioned_scatter_min_partitions compile_threads aot_inductor.repro_level",
        "128: partitioned_scatter_max_partitions padding_alignment_bytes triton.cudagraph_unexpected_rerecord_limit",
        "1024: padding_stride_threshold cpp.use_two_step_variance_threshold triton.use_two_step_variance_min_numel",
        "5: nvgemm_max_profiling_configs cuda.nvgemm_max_profiling_configs",
        "'ATEN': max_autotune_conv_bwd_weight_backends max_autotune_conv_bwd_input_backends",
        "0.0: max_autotune_subproc_graceful_timeout_seconds max_autotune_subproc_terminate_timeout_seconds",
        "50: collective_benchmark_nruns realize_cpu_opcount_threshold",
        "64: max_fusion_size max_fusion_buffer_group_pairwise_attempts",
        "1.1: min_overlap_ratio triton.cudagraph_partition_memory_budget",
        "-1: combo_kernel_max_distance cpp.threads",
        "16777216: small_memory_access_threshold aten_distributed_optimizations.low_contention_min_bytes_per_rank",
        "'original_aten': cpp.descriptive_names triton.descriptive_names",
        "16: cpp.max_horizontal_fusion_size triton.spill_threshold",
        "'0': aot_inductor.debug_intermediate_value_printer cuda.cutlass_instantiation_level",
        "(2, 1, 1): cuda.cutlass_dynamic_cluster_shape cuda.cutlass_dynamic_cluster_fallback",
        "'triton': cuda_backend xpu_backend",
        "'svg': trace.graph_diagram_format trace.orig_fx_graph_diagram_format",
        "300: precompilation_timeout_seconds",
        "'needs_fixed_stride_order': triton_kernel_default_layout_constraint",
        "'intermediates': memory_pool",
        "{'pre_grad': False, 'precision': 0.0001, 'num_iterations': 1, 'requires_optimizer': True}: fx_passes_numeric_check",
        "'heuristic': mixed_mm_choice",
        "50.0: cpu_gpu_bw",
        "25: inductor_default_autotune_warmup",
        "100: inductor_default_autotune_rep",
        "'ATEN,TRITON,CPP': max_autotune_gemm_backends",
        "'ATEN,TRITON': max_autotune_conv_backends",
        "8192: unbacked_symint_fallback",
        "60.0: max_autotune_subproc_result_timeout_seconds",
        "30.0: collective_benchmark_timeout",
        "'1': layout_opt_default",
        "4: realize_reads_threshold",
        "12: realize_cpu_acc_reads_threshold",
        "250: combo_kernel_max_num_args",
        "0.05: combo_kernel_peak_memory_pct_threshold",
        "'subprocess': worker_start_method",
        "0.1: partitioned_scatter_memory_budget",
        "'analytical': aten_distributed_optimizations.collective_estimator",
        "'benchmark': aten_distributed_optimizations.compute_estimator",
        "'warn': aten_distributed_optimizations.spmd_mismatch",
        "10.0: aten_distributed_optimizations.pre_bucketing_fsdp_collectives_min_bucket_cap_mb",
        "500.0: aten_distributed_optimizations.pre_bucketing_fsdp_collectives_max_bucket_cap_mb",
        "1.0: aten_distributed_optimizations.pre_bucketing_fsdp_collectives_saturation_calibration_multiplier",
        "60: quiesce_async_compile_time",
        "600: file_lock_timeout",
        "512: cpp.min_chunk_size",
        "(None, 'g++'): cpp.cxx",
        "'off': cpp.enable_floating_point_contract_flag",
        "32768: triton.use_two_step_variance_threshold",
        "256: triton.min_split_scan_rblock",
        "32: triton.decompose_k_threshold",
        "3: triton.max_kernel_dump_occurrences",
        "'O1': aot_inductor.compile_wrapper_opt_level",
        "'-O1': cuda.compile_opt_level",
        "[1, 2, 4, 8]: cuda.cutlass_max_profiling_swizzle_options",
        "'all': cuda.cutlass_enabled_ops",
        "'cpp': cpu_backend",
        "'pallas': tpu_backend",
    ),
    second_names={"force_disable_caches": ("facula.compiler.config", "force_disable_caches")},
    path="torch._inductor.config",
)
