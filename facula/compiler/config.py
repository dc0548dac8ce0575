"""Provide settings of compilers, most of which are those of `_dynamo.config` under a second name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from facula.utils._config_module import install_config_module

if TYPE_CHECKING:
    from collections.abc import Callable

# Nothing here is cached between processes but CUDA's kernels; these keep their values.
force_disable_caches = force_cudagraph_gc = False
job_id = pgo_extra_read_key = pgo_extra_write_key = None
cache_key_tag = dynamic_sources = dynamic_values = unbacked_sources = ""

# Names of the other module, for checkers and editors.
accumulated_recompile_limit: int
allow_unspec_int_on_nn_module: bool
assume_static_by_default: bool
automatic_dynamic_shapes: bool
capture_dynamic_output_shape_ops: bool
capture_scalar_outputs: bool
dynamic_shapes: bool
enable_cpp_symbolic_shape_guards: bool
fail_on_recompile_limit_hit: bool
log_file_name: str | None
recompile_limit: int
reorderable_logging_functions: set[Callable[..., None]]
skip_tensor_guards_with_matching_dict_tags: bool
verbose: bool
wrap_top_frame: bool

install_config_module(
    sys.modules[__name__],
    second_names={name: ("facula.compiler._settings", name) for name in __annotations__ if name not in globals()},
)
