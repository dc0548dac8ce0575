"""Compile element-wise kernels around a program's own function at the first call, and store them on disk as other
kernels.

    fused = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T axpy(T x, T y, T alpha) { return alpha * x + y; }", alpha=1.0
    )
    out = fused(a, b, alpha=3.0)

The function is a template over one type, the compute dtype: that of the result, float32 for half precision. It may call what
NVIDIA's compiler knows without headers (sin, exp, min, ...) and functions defined before it; the last one is the entry.
"""

from __future__ import annotations

import functools
import re

import facula
from facula import _C

__all__: list[str] = []

_MOST_INPUTS = _MOST_OUTPUTS = 8
_TEMPLATE = re.compile(r"\btemplate\s*<[^<>]*>")
_ENTRY = re.compile(r"\btemplate\s*<[^<>]*>\s*(?P<result>[\w:]+)\s+(?P<name>\w+)\s*\(")
_COMPUTE = {facula.float16: facula.float32, facula.bfloat16: facula.float32}


class _JittedFunction:
    """Call the kernel with tensors of one CUDA device, which are broadcast and promoted, and with the declared numbers
    by name.
    """

    def __init__(self, code, by_reference, outputs, defaults):
        entries = list(_ENTRY.finditer(code))
        if not entries:
            raise Exception(f"jiterator: Couldn't parse code, please check correctness: no function template in {code!r}")
        if not 1 <= outputs <= _MOST_OUTPUTS:
            raise ValueError(f"jiterator: 1 to {_MOST_OUTPUTS} outputs, got {outputs}")
        self.kernel_name = entries[-1]["name"]
        self.code_string, self.return_by_ref, self.num_outputs = code, by_reference, outputs
        self.kwargs_dict = defaults
        self._sources = {}

    def _source(self, inputs):
        """Return the program: the functions, for the device, and a struct that calls the last one."""
        if inputs in self._sources:
            return self._sources[inputs]
        marked = _TEMPLATE.sub(lambda found: found[0] + " FACULA_RARE", self.code_string)
        values = [f"in[{i}]" for i in range(inputs)] + [f"values[{i}]" for i in range(len(self.kwargs_dict))]
        results = [f"out[{i}]" for i in range(self.num_outputs)]
        call = f"::{self.kernel_name}<T>({', '.join(values + results * self.return_by_ref)});"
        self._sources[inputs] = (
            f'#include "jiterate.cuh"\n{marked}\nnamespace facula::cuda {{\nstruct Jit {{\n'
            f"  static constexpr int inputs = {inputs}, outputs = {self.num_outputs};\n"
            f"  template <class T> FACULA_FN static void run(const T* in, const T* values, T* out) {{\n"
            f"    {'' if self.return_by_ref else 'out[0] = '}{call}\n  }}\n}};\n}}\n"
        )
        return self._sources[inputs]

    def __call__(self, *tensors, **values):
        facula.cuda._need_device("jiterator", f"{len(tensors)} tensors")
        if not 1 <= len(tensors) <= _MOST_INPUTS:
            raise AssertionError(f"jiterator: at most {_MOST_INPUTS} tensors are possible, got {len(tensors)}")
        for key in values:
            if key not in self.kwargs_dict:
                raise KeyError(f"jiterator: {key} is not declared in function definition")
        for tensor in tensors:
            if not isinstance(tensor, facula.Tensor) or tensor.device.type != "cuda":
                given = tensor.device if isinstance(tensor, facula.Tensor) else type(tensor).__name__
                raise RuntimeError(f"jiterator: expected tensors of a CUDA device, got one of {given}")
        dtype = _common_dtype(tensors)
        compute = _COMPUTE.get(dtype, dtype)
        inputs = facula.broadcast_tensors(*(t.detach().resolve_conj().resolve_neg() for t in tensors))
        results = tuple(
            facula.empty(inputs[0].shape, dtype=dtype, device=inputs[0].device) for _ in range(self.num_outputs)
        )
        numbers = tuple(facula.tensor(v, dtype=compute, device="cpu") for v in {**self.kwargs_dict, **values}.values())
        _C._cuda_jiterate(self._source(len(inputs)), results, tuple(inputs), numbers, compute)
        return results[0] if self.num_outputs == 1 else results


def _common_dtype(tensors):
    """Return that of an op on all of them: tensors without dimensions count only where they are of a higher kind."""
    groups = [[t.dtype for t in tensors if bool(t.dim()) is whole] for whole in (True, False)]
    whole, single = (functools.reduce(facula.promote_types, group) if group else None for group in groups)
    if whole is None or single is None:
        return single if whole is None else whole
    return facula.result_type(facula.empty(1, dtype=whole), facula.empty((), dtype=single))


def _create_jit_fn(code_string: str, **kwargs):
    """Return a function of CUDA tensors whose kernel calls the last function of `code_string`, which gives its result by value.

    Args:
        code_string: function templates, `template <typename T> T name(T x, T y, T alpha) { return ...; }`: as many parameters
            as there are tensors (8 at most), then one for each number.
        kwargs: the numbers by name, with their defaults.

    Errors: Exception where there is no function template; RuntimeError with the compiler's words for code that is wrong.
    """
    return _JittedFunction(code_string, False, 1, kwargs)


def _create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs):
    """Return the same for `num_outputs` results (8 at most), which the function takes as references behind the other
    parameters."""
    return _JittedFunction(code_string, True, num_outputs, kwargs)
