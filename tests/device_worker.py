"""Runs the samples of ops on a device (the guard device, or FACULA_TEST_DEVICE) and compares with the CPU: a program of its own, since an op
that touches the guard device's memory from the host dies. Arguments: ids of ops. Prints one line of JSON per op, before which "at <id>"."""

from __future__ import annotations

import json
import os
import sys
import warnings
import zlib

import numpy as np
from op_samples import all_ops, call, samples

import facula

DEVICE = os.environ.get("FACULA_TEST_DEVICE", "guard")
LAYOUTS = ("contiguous", "strided")
DTYPES = {"Float64": "float64", "Complex128": "complex128", "Int64": "int64", "Bool": "bool", "Float32": "float32"}
FLOATING = (facula.float64, facula.complex128, facula.float32, facula.complex64)
# what these give is whatever memory held
UNFILLED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_")

# random ops of other topics that take no generator
DRAWING = ("dropout", "dropout_", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "rrelu", "native_dropout")


def dtypes_of(op):
    """One dtype of each class that the op takes."""
    names = [DTYPES[d] for d in ("Float64", "Complex128") if d in op.dtypes]
    return names or [DTYPES[d] for d in ("Float32", "Int64", "Bool") if d in op.dtypes][:1] or ["float32"]


def rng_for(op, dtype, layout):
    return np.random.default_rng(zlib.crc32(f"{op.id} {dtype} {layout}".encode()))


def moved(value, requires_grad=False):
    """The value on the guard device, its tensors with their own strides."""
    if isinstance(value, (list, tuple)):
        return [moved(v, requires_grad) for v in value]
    if not isinstance(value, facula.Tensor):
        return value
    there = facula.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=DEVICE)
    there.copy_(value.detach())
    return there.requires_grad_(requires_grad and value.requires_grad)


def tensors(value):
    if isinstance(value, facula.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors(item)] if isinstance(value, (tuple, list)) else []


def leaves(args, kwargs):
    for t in tensors(list(args)) + tensors(kwargs):
        if t.dtype in FLOATING:
            t.requires_grad_()


def array(tensor):
    tensor = tensor.detach().cpu().resolve_conj()
    wider = {facula.bfloat16: facula.float32, facula.float16: facula.float32, facula.complex32: facula.complex64}
    return tensor.to(wider.get(tensor.dtype, tensor.dtype)).numpy()


def difference(expected, actual, where=DEVICE):
    """What is wrong with the results, or None."""
    if isinstance(expected, facula.Tensor):
        if not isinstance(actual, facula.Tensor):
            return f"a {type(actual).__name__} instead of a tensor"
        if actual.device.type != where:
            return f"a result on {actual.device}"
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            return f"{actual.dtype} {tuple(actual.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
        if actual.stride() != expected.stride() and expected.numel() > 1:
            return f"strides {actual.stride()} instead of {expected.stride()}"
        if not np.allclose(array(actual), array(expected), rtol=1e-5 if expected.dtype in (facula.float32, facula.complex64) else 1e-9, atol=1e-9, equal_nan=True):
            return "other values"
        return None
    if isinstance(expected, (tuple, list)):
        if len(expected) != len(actual):
            return f"{len(actual)} results instead of {len(expected)}"
        found = [difference(e, a, where) for e, a in zip(expected, actual)]
        return next((f for f in found if f), None)
    return None if expected == actual or expected != expected else f"{actual} instead of {expected}"


def shapes_only(value):
    return [(t.shape, t.dtype) for t in tensors(value)]


def with_phases(vectors, others=None):
    """Columns multiplied by the phases that make their largest elements positive, and as many rows of `others` by the opposite ones."""
    sizes = vectors.detach().abs()
    largest = vectors.detach().gather(-2, sizes.argmax(-2, keepdim=True))
    phases = (largest / largest.abs()).conj().resolve_conj()
    vectors = vectors * phases
    if others is None:
        return vectors
    k = min(phases.shape[-1], others.shape[-2])
    own = others[..., k:, :]
    rows = others[..., :k, :] * phases[..., :k].conj().resolve_conj().mT
    return vectors, facula.cat([rows, with_phases(own.mT).mT], -2) if own.shape[-2] else rows


def settled_svd(u, s, vh):
    u, vh = with_phases(u, vh)
    return u, s, vh


#: vectors are unique but for phases, which algorithms choose in their own ways: how to make results comparable
UNIQUE = {
    "_linalg_eigh": lambda w, v: (w, with_phases(v)),
    "linalg_eigh": lambda w, v: (w, with_phases(v)),
    "_linalg_svd": settled_svd,
    "linalg_svd": settled_svd,
    "svd": lambda u, s, v: (u2 := settled_svd(u, s, v.mH))[:2] + (u2[2].mH,),
}


class Run:
    """One op: its errors by form, and whether the host had to wait."""

    def __init__(self, op):
        self.op = op
        # CUDA draws other numbers than the CPU
        self.draws = DEVICE == "cuda" and (op.topic == "random" or "Generator?" in {a.type for a in op.args} or op.name in DRAWING)
        self.errors = []
        self.waits = set()
        self.made = 0

    def watched(self, phase, f):
        if DEVICE != "guard":
            return f()
        before = facula._C._guard_waits()
        try:
            return f()
        finally:
            if facula._C._guard_waits() > before:
                self.waits.add(phase)

    def compare(self, form, on_cpu, on_guard, phase="forward"):
        """Both calls with one seed; an error has to be the same error. The results, or None."""
        results = []
        for f, watch in ((on_cpu, False), (on_guard, True)):
            facula.manual_seed(7)
            try:
                results.append(self.watched(phase, f) if watch else f())
            except Exception as error:  # noqa: BLE001 - compared below
                results.append(error)
        expected, actual = results
        if isinstance(expected, Exception) or isinstance(actual, Exception):
            if type(expected) is not type(actual):
                self.errors.append(f"{form}: {actual!r} instead of {expected!r}"[:400])
            return None
        if self.op.name in UNIQUE and phase == "forward":
            expected, actual = UNIQUE[self.op.name](*expected), UNIQUE[self.op.name](*actual)
        self.made += 1
        if self.op.name in UNFILLED or self.draws:
            wrong = None if shapes_only(expected) == shapes_only(actual) else "another shape or dtype"
        else:
            wrong = difference(expected, actual, "cpu" if self.op.name == "_to_device" else DEVICE)
        if wrong:
            self.errors.append(f"{form}: {wrong}")
        return expected, actual

    def forms(self, make, label):
        """The function or method, with its gradient, the method, the in-place form and out=."""
        op = self.op
        args, kwargs = make()
        if not op.name.endswith("_") and not op.id.endswith("_out"):  # these write to their arguments
            leaves(args, kwargs)
        there, there_kwargs = moved(args, True), {k: moved(v, True) for k, v in kwargs.items()}
        if "device?" in {a.type for a in op.args} and op.name != "_to_device" and not tensors(args):
            there_kwargs["device"] = DEVICE
        pair = self.compare(label, lambda: call(op, *args, **kwargs), lambda: call(op, *there, **there_kwargs))
        if pair:
            self.gradients(label, pair, (args, kwargs), (there, there_kwargs))
        name = next((n for n in op.names if "." not in n), op.name)
        if "method" in op.variants and "function" in op.variants and args and isinstance(args[0], facula.Tensor):
            args, kwargs = make()
            there, there_kwargs = moved(args), {k: moved(v) for k, v in kwargs.items()}
            self.compare(f"{label} method", lambda: getattr(args[0], name)(*args[1:], **kwargs),
                         lambda: getattr(there[0], name)(*there[1:], **there_kwargs))  # fmt: skip
        if "inplace" in op.variants and args and isinstance(args[0], facula.Tensor) and hasattr(facula.Tensor, name + "_"):
            args, kwargs = make()
            there, there_kwargs = moved(args), {k: moved(v) for k, v in kwargs.items()}
            self.compare(f"{label} in place", lambda: getattr(args[0], name + "_")(*args[1:], **kwargs),
                         lambda: getattr(there[0], name + "_")(*there[1:], **there_kwargs))  # fmt: skip
        if "out" in op.variants and "function" in op.variants and pair:
            args, kwargs = make()
            there, there_kwargs = moved(args), {k: moved(v) for k, v in kwargs.items()}
            outs = [facula.empty(0, dtype=t.dtype) for t in tensors(pair[0])]
            outs_there = [facula.empty(0, dtype=t.dtype, device=DEVICE) for t in tensors(pair[0])]
            one = isinstance(pair[0], facula.Tensor)
            self.compare(f"{label} out=", lambda: call(op, *args, **kwargs, out=outs[0] if one else tuple(outs)),
                         lambda: call(op, *there, **there_kwargs, out=outs_there[0] if one else tuple(outs_there)))  # fmt: skip

    def gradients(self, label, pair, here, there):
        roots = [(e, a) for e, a in zip(tensors(pair[0]), tensors(pair[1])) if e.requires_grad]
        if any(e.requires_grad != a.requires_grad for e, a in zip(tensors(pair[0]), tensors(pair[1]))):
            self.errors.append(f"{label}: the results disagree about requires_grad")
            return
        if not roots:
            return
        seeds = [facula.from_numpy(np.asarray(np.cos(np.arange(e.numel())), "float64").reshape(tuple(e.shape))).to(e.dtype) for e, _ in roots]
        inputs = [[t for t in tensors(list(args)) + tensors(kwargs) if t.requires_grad] for args, kwargs in (here, there)]
        sides = ([e for e, _ in roots], seeds, inputs[0]), ([a for _, a in roots], [moved(s) for s in seeds], inputs[1])

        def backward(outputs, grads, wanted):
            found = facula.autograd.grad(outputs, wanted, grads, allow_unused=True)
            return [facula.zeros(()) if g is None else g.contiguous() for g in found]

        unused = [g is None for g in _grad_or_none(sides[0])]

        def both(side, on_guard):
            found = backward(*side)
            return [g.to(DEVICE) if on_guard and none else g for g, none in zip(found, unused)]

        self.compare(f"{label} backward", lambda: both(sides[0], False), lambda: both(sides[1], True), "backward")

    def __call__(self):
        for layout in LAYOUTS:
            for dtype in dtypes_of(self.op):
                try:
                    count = len(samples(self.op, dtype, rng_for(self.op, dtype, layout), layout))
                except (TypeError, ValueError):
                    continue
                for k in range(count):
                    self.forms(lambda k=k, d=dtype, o=layout: samples(self.op, d, rng_for(self.op, d, o), o)[k],
                               f"{dtype} {layout} {k}")  # fmt: skip
        return {"id": self.op.id, "made": self.made, "errors": self.errors, "waits": sorted(self.waits)}


def _grad_or_none(side):
    outputs, grads, wanted = side
    try:
        return facula.autograd.grad(outputs, wanted, grads, allow_unused=True, retain_graph=True)
    except Exception:  # noqa: BLE001 - compared by the caller
        return [None] * len(wanted)


def main(ids):
    if DEVICE == "guard":
        facula._C._enable_guard_device()
    warnings.simplefilter("ignore")
    ops = {op.id: op for op in all_ops()}
    for name in ids:
        print("at", name, flush=True)
        print(json.dumps(Run(ops[name])()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
