"""Settings of compilers, most of which are those of `_dynamo.config` under a second name."""

from __future__ import annotations

import sys

from facula.utils._config_module import install_config_module

__all__: list[str] = []

# Nothing here is cached between processes but CUDA's kernels; these keep their values.
force_disable_caches = force_cudagraph_gc = False
job_id = pgo_extra_read_key = pgo_extra_write_key = None
cache_key_tag = dynamic_sources = dynamic_values = unbacked_sources = ""

install_config_module(
    sys.modules[__name__],
    second_names={
        name: ("facula._dynamo.config", name)
        for name in """
        dynamic_shapes assume_static_by_default automatic_dynamic_shapes recompile_limit accumulated_recompile_limit verbose
        capture_scalar_outputs capture_dynamic_output_shape_ops log_file_name fail_on_recompile_limit_hit
        allow_unspec_int_on_nn_module skip_tensor_guards_with_matching_dict_tags enable_cpp_symbolic_shape_guards
        wrap_top_frame reorderable_logging_functions
        """.split()
    },
)
