"""Runs one sample of every op in every dtype on CUDA and on the CPU, forwards, and backwards in float32 and bfloat16: a program of its own
(see test_cuda_dtypes.py). Arguments: ids of ops. Prints one line of JSON per op, before which "at <id>".

What an op refuses on the CPU, it has to refuse on the device with the same type of error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
import zlib

import numpy as np

os.environ.setdefault("FACULA_TEST_DEVICE", "cuda")
from device_worker import UNFILLED, UNIQUE, Run, array, call, moved, shapes_only, tensors
from op_samples import all_ops, samples

import facula

DTYPES = ("float32", "float16", "bfloat16", "complex64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
          "float64", "complex128")  # fmt: skip
BACKWARD = ("float32", "bfloat16")
#: without a public name: draws, and is called with these dtypes only
INTERNAL_DRAWS = {"_attention_kept": ("float32", "float64")}
#: subtracts what is nearly equal: so many times the tolerance
CANCELS = {"spherical_bessel_j0": 4}
#: topics that compute in half precision only on devices, as PyTorch's; test_cuda_fft.py compares the values
HALF_ON_DEVICE = ("fft",)
#: topics in which integers are rounded from sums that can lie in the middle between two
ROUNDS = ("resample",)
#: relative tolerance, and as a share of the largest element
CLOSE = {"float32": 2e-5, "complex64": 2e-5, "float16": 2e-3, "complex32": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-9, "complex128": 1e-9}
#: the last is longer than a vector, with a remainder
SHAPES = ((3, 4), (37,))


def close(op, expected, actual):
    name = str(expected.dtype).removeprefix("torch.")
    e, a = array(expected), array(actual)
    if name not in CLOSE:
        return np.allclose(a.astype(int), e.astype(int), rtol=0, atol=1) if op.topic in ROUNDS else np.array_equal(e, a)
    tolerance = CLOSE[name] * CANCELS.get(op.id, 1)
    finite = np.abs(e[np.isfinite(e)])
    scale = float(finite.max()) if finite.size else 1.0
    return np.allclose(a, e, rtol=tolerance, atol=tolerance * min(max(scale, 1e-3), 1e3), equal_nan=True)


def difference(op, expected, actual):
    """What is wrong with the results, or None."""
    if len(expected) != len(actual):
        return f"{len(actual)} results instead of {len(expected)}"
    for e, a in zip(expected, actual):
        if a.shape != e.shape or a.dtype != e.dtype:
            return f"{a.dtype} {tuple(a.shape)} instead of {e.dtype} {tuple(e.shape)}"
        if not close(op, e, a):
            return f"{np.asarray(array(a)).ravel()[:4]} instead of {np.asarray(array(e)).ravel()[:4]}"
    return None


def attempt(f):
    """The tensors of the result, or the error; what kernels find wrong is an error when the device is waited for."""
    facula.manual_seed(7)
    try:
        results = tensors(f())
        facula.cuda.synchronize()
        return results
    except Exception as error:  # noqa: BLE001 - compared by the caller
        with contextlib.suppress(RuntimeError, ValueError, IndexError):
            facula.cuda.synchronize()  # what was queued before may have found something, too
        return error


class DtypeRun:
    def __init__(self, op):
        self.op, self.errors, self.made = op, {}, []
        self.draws = Run(op).draws or op.id in INTERNAL_DRAWS

    def wrong(self, dtype, text):
        self.errors.setdefault(dtype, []).append(text[:300])

    def compare(self, dtype, form, on_cpu, on_device):
        here, there = attempt(on_cpu), attempt(on_device)
        if dtype == "float16" and self.op.topic in HALF_ON_DEVICE and isinstance(here, RuntimeError) and not isinstance(there, Exception):
            return None
        refusals = [type(side) for side in (here, there) if isinstance(side, Exception)]
        if refusals:
            alike = len(refusals) == 2 and (issubclass(*refusals) or issubclass(*refusals[::-1]))
            alike = alike or (not self.op.names and isinstance(here, Exception))  # ops without a public name are not called so
            if not alike or (self.op.names and "does not compile" in str(there)):
                self.wrong(dtype, f"{form}: {there!r} instead of {here!r}")
            return None
        if dtype not in self.made:
            self.made.append(dtype)
        if self.op.name in UNFILLED or self.draws:
            found = None if shapes_only(here) == shapes_only(there) else "another shape or dtype"
        else:
            found = difference(self.op, here, there)
        if found:
            self.wrong(dtype, f"{form}: {found}")
        return None if found else (here, there)

    def one(self, dtype, layout, k, entry):
        op = self.op
        rng = np.random.default_rng(zlib.crc32(f"{op.id} {dtype} {layout}".encode()))
        args, kwargs = samples(op, dtype, rng, layout, SHAPES)[k]
        derives = dtype in BACKWARD and layout == "contiguous" and not op.name.endswith("_") and not op.id.endswith("_out")
        if derives:
            leaves_of(args, kwargs)
        there, there_kwargs = moved(args, True), {key: moved(v, True) for key, v in kwargs.items()}
        if "device?" in {a.type for a in op.args} and op.name != "_to_device" and not tensors(args):
            there_kwargs["device"] = "cuda"
        def results(args, kwargs):
            made = call(op, *args, **kwargs)
            return UNIQUE[op.name](*made) if op.name in UNIQUE else made

        pair = self.compare(dtype, f"{layout} {k}", lambda: results(args, kwargs), lambda: results(there, there_kwargs))
        if pair and derives:
            self.backward(dtype, pair, tensors([args, kwargs]), tensors([there, there_kwargs]))

    def backward(self, dtype, pair, inputs, inputs_there):
        roots = [(e, a) for e, a in zip(*pair) if e.requires_grad and a.requires_grad]
        wanted = [(e, a) for e, a in zip(inputs, inputs_there) if e.requires_grad]
        if not roots or not wanted:
            return
        seeds = [facula.from_numpy(np.cos(np.arange(e.numel(), dtype="float64")).reshape(tuple(e.shape))).to(e.dtype) for e, _ in roots]

        def derive(side, grads):
            found = facula.autograd.grad([r[side] for r in roots], [w[side] for w in wanted], grads, allow_unused=True)
            return [g for g in found if g is not None]

        self.compare(dtype, "backward", lambda: derive(0, seeds), lambda: derive(1, [moved(s) for s in seeds]))

    def __call__(self):
        for dtype in INTERNAL_DRAWS.get(self.op.id, DTYPES):
            for layout in ("contiguous", "strided") if self.op.elementwise else ("contiguous",):
                try:
                    maps = samples(self.op, dtype, np.random.default_rng(0), layout, SHAPES)
                except (TypeError, ValueError, OverflowError, RuntimeError):  # the sample's numbers are none of the dtype's
                    continue
                for k in range(min(len(maps), 2)):
                    self.one(dtype, layout, k, maps[k])
        return {"id": self.op.id, "made": self.made, "errors": self.errors}


def leaves_of(args, kwargs):
    for t in tensors(list(args)) + tensors(kwargs):
        if t.is_floating_point():
            t.requires_grad_()


def main(ids):
    warnings.simplefilter("ignore")
    ops = {op.id: op for op in all_ops()}
    for name in ids:
        print("at", name, flush=True)
        print(json.dumps(DtypeRun(ops[name])()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
