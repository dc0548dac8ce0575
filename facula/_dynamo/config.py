"""Settings of PyTorch's compiler. Programs set them; nothing here is compiled by it, so they only keep their values."""

from __future__ import annotations

import contextlib
import sys

cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
assume_static_by_default = automatic_dynamic_shapes = optimize_ddp = True
allow_unspec_int_on_nn_module = capture_dynamic_output_shape_ops = capture_scalar_outputs = False
inline_inbuilt_nn_modules = True
skip_fwd_side_effects_in_bwd_under_checkpoint = suppress_errors = verbose = False


class patch(contextlib.ContextDecorator):
    """Other values within a block or a function: `patch("verbose", True)`, `patch({"verbose": True})`, `patch(verbose=True)`.

    Errors: AttributeError for a setting that there is not.
    """

    def __init__(self, arg1=None, arg2=None, **settings):
        if isinstance(arg1, str):
            settings = {arg1: arg2, **settings}
        elif arg1 is not None:
            settings = {**arg1, **settings}
        self._settings, self._before = settings, []
        for name in settings:
            if not hasattr(sys.modules[__name__], name):
                raise AttributeError(f"_dynamo.config.patch: there is no such setting, got {name!r}")

    def __enter__(self):
        module = sys.modules[__name__]
        self._before.append({name: getattr(module, name) for name in self._settings})
        for name, value in self._settings.items():
            setattr(module, name, value)
        return self

    def __exit__(self, *exception):
        for name, value in self._before.pop().items():
            setattr(sys.modules[__name__], name, value)
