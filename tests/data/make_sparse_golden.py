"""Writes sparse_golden.npz: the sparse samples of PyTorch's op database, and what PyTorch answers.

Needs PyTorch (recorded with 2.15.0) and is run by hand: `python tests/data/make_sparse_golden.py`. Ops with samples of their own for sparse layouts give those; the
element-wise ones that are said to take sparse tensors give their strided samples, cut to some elements and half of them zeros, in every layout.

The file has two arrays: `calls`, JSON text, and `data`, the bytes of all arrays. A row of `calls`: the op and the layout; the call, "name" or ".method";
arguments; the result, or the class of the error; gradients of the sum of the result's elements times 1, 2, 3 ... for the arguments that
`grad` numbers. Tensors are `{"array": [dtype, shape, offset]}`, sparse ones have their layout, shape and parts.
"""

import json
from pathlib import Path

LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
PARTS = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}
OUTSIDE = {"to_sparse": ".to_sparse"}
ELEMENTS, DTYPES, CUT = 1500, ("float64", "int64", "complex128", "bool"), 4


class Recorder:
    """The rows, and the bytes of their arrays, equal ones once."""

    def __init__(self, torch):
        self.torch, self.rows, self.data, self.at = torch, [], bytearray(), {}

    def array(self, t):
        content = t.detach().resolve_conj().resolve_neg().contiguous().numpy().tobytes()
        if content not in self.at:
            self.at[content] = len(self.data)
            self.data += content
        return {"array": [str(t.dtype)[6:], list(t.shape), self.at[content]]}

    def tree(self, value):
        """A value as JSON."""
        torch = self.torch
        if isinstance(value, torch.Tensor):
            layout = str(value.layout)[6:]
            if layout == "strided":
                return self.array(value)
            parts = [self.array(getattr(value.detach(), name)()) for name in PARTS[layout]]
            made = {"layout": layout, "shape": list(value.shape), "parts": parts}
            return made | ({"coalesced": value.is_coalesced()} if layout == "sparse_coo" else {})
        if isinstance(value, (torch.dtype, torch.layout, torch.device, torch.memory_format)):
            return {"torch": str(value).removeprefix("torch.")}
        if isinstance(value, tuple):
            return {"tuple": [self.tree(v) for v in value]}
        if isinstance(value, list):
            return [self.tree(v) for v in value]
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise TypeError(f"no form for {value!r}")

    def record(self, op, layout, call, args, kwargs):
        """Runs one call under PyTorch."""
        torch = self.torch
        if any(isinstance(a, torch.Tensor) and a.numel() > ELEMENTS for a in args):
            return
        row = {"op": op, "layout": layout, "call": call, "args": [self.tree(a) for a in args]}
        row["kwargs"] = {name: self.tree(value) for name, value in kwargs.items()}
        try:
            result = function_of(torch, call)(*args, **kwargs)
        except NotImplementedError:  # neither an answer nor a refusal
            return
        except Exception as error:
            row["raises"] = type(error).__name__
            self.rows.append(row)
            return
        row["random"] = op.startswith("randn")  # only the form of the result counts
        row["result"] = self.tree(result)
        if isinstance(result, torch.Tensor) and result.is_floating_point() and not row["random"]:
            row.update(self.gradients(call, args, kwargs))
        if row not in self.rows:
            self.rows.append(row)

    def gradients(self, call, args, kwargs):
        torch = self.torch
        wanted = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.is_floating_point()]
        leaves = [a.detach().clone().requires_grad_() if i in wanted else a for i, a in enumerate(args)]
        try:
            found = torch.autograd.grad(weighted_sum(torch, function_of(torch, call)(*leaves, **kwargs)), [leaves[i] for i in wanted])
        except Exception:  # no derivative there
            return {}
        return {"grad": wanted, "grads": [self.tree(g.to_dense()) for g in found]}


def function_of(module, call):
    """A function of the module, or of its first argument."""
    if call.startswith("."):
        return lambda self, *args, **kwargs: getattr(self, call[1:])(*args, **kwargs)
    for name in call.split("."):
        module = getattr(module, name)
    return module


def weighted_sum(module, result):
    """One number whose derivative tells elements apart."""
    dense = result.to_dense()
    return (dense * module.arange(1.0, dense.numel() + 1, dtype=dense.dtype).reshape(dense.shape)).sum()


def thinned(torch, t):
    """Some elements of a strided sample, half of them zeros."""
    for dim in range(t.dim()):
        t = t.narrow(dim, 0, min(t.size(dim), CUT + dim))
    keep = torch.arange(t.numel()).reshape(t.shape) % 3 != 1
    return torch.where(keep, t, torch.zeros((), dtype=t.dtype)).clone()


def converted(op, torch, layout, dtype):
    """Samples of an element-wise op in a layout."""
    for sample in op.sample_inputs("cpu", dtype):
        if not isinstance(sample.input, torch.Tensor) or sample.input.layout is not torch.strided:
            continue
        given = thinned(torch, sample.input)
        if layout is torch.sparse_coo:
            yield given.to_sparse(), sample
        elif given.dim() == 2 and given.numel():
            blocked = layout in (torch.sparse_bsr, torch.sparse_bsc)
            blocksize = (1 + (given.size(0) % 2 == 0), 1 + (given.size(1) % 2 == 0)) if blocked else None
            yield given.to_sparse(layout=layout, blocksize=blocksize), sample


def record_op(recorder, torch, op):
    name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
    call = OUTSIDE.get(name, op.name if function_exists(torch, op.name) else "." + op.name)
    unary = op.name != "to_sparse" and type(op).__name__ in ("UnaryUfuncInfo", "OpInfo")
    for layout in (getattr(torch, name) for name in LAYOUTS):
        short = str(layout)[6:]
        if not op.supports_sparse_layout(layout):
            continue
        for dtype in (getattr(torch, name) for name in DTYPES):
            if not op.supports_dtype(dtype, "cpu"):
                continue
            try:
                samples = [(s.input, s) for s in op.sample_inputs_sparse(layout, "cpu", dtype)]
                samples = samples if dtype.is_floating_point else samples[:6]
            except Exception:
                samples = converted(op, torch, layout, dtype) if unary or op.name == "to_sparse" else ()
            for given, sample in samples:
                recorder.record(name, short, call, [given, *sample.args], dict(sample.kwargs))
        if op.error_inputs_sparse_func:
            for error in op.error_inputs_sparse("cpu", layout):
                recorder.record(name, short, call, [error.sample_input.input, *error.sample_input.args], dict(error.sample_input.kwargs))


def function_exists(torch, name):
    try:
        return callable(function_of(torch, name))
    except AttributeError:
        return False


def main():
    import numpy as np
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    recorder = Recorder(torch)
    for op in op_db:
        if any(op.supports_sparse_layout(getattr(torch, layout)) for layout in LAYOUTS):
            record_op(recorder, torch, op)
    calls = json.dumps(recorder.rows, separators=(",", ":")).encode()
    data = {"calls": np.frombuffer(calls, np.uint8), "data": np.frombuffer(bytes(recorder.data), np.uint8)}
    np.savez_compressed(Path(__file__).with_name("sparse_golden.npz"), **data)


if __name__ == "__main__":
    main()
