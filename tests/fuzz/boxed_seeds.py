"""Calls of the boxed table that work: recorded, so that what backward passes call is among them.

    python -m tests.fuzz.boxed_seeds > seeds.json     # [[key, [text of an argument, ...], [its type, ...]], ...]

A program of its own, because who forks workers must not have computed anything. The samples of the schema and the calls of
call_texts.py run forwards and twice backwards, and what reaches kernels is written down; composites and builtins
are not seen there, so the samples also are calls of theirs.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import sys
import warnings

import numpy as np

import facula

from . import builtin_texts, call_texts, calls, package_calls, preamble

KEPT = 16  # calls for each op
LONGEST = 24  # tensors up to so many elements are written with their values


def text_of(value) -> str:
    """Python that makes the value, with the names of preamble.py."""
    if isinstance(value, facula.Tensor):
        return tensor_text(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, facula.dtype):
        return f"facula.{str(value).removeprefix('torch.')}"
    if isinstance(value, facula.memory_format):
        return f"facula.{str(value).removeprefix('torch.')}"
    if isinstance(value, (facula.device, facula.layout)):
        return "facula.strided" if isinstance(value, facula.layout) else repr(str(value))
    if isinstance(value, facula.Generator):
        return "facula.Generator()"
    return repr(value)


def tensor_text(t) -> str:
    if t.layout != facula.strided or t.device.type != "cpu":
        raise ValueError("only dense tensors of the CPU are written down")
    dtype = f"facula.{str(t.dtype).removeprefix('torch.')}"
    if 0 < t.numel() <= LONGEST:
        values = t.detach().to(facula.complex128 if t.dtype.is_complex else facula.float64 if t.is_floating_point() else t.dtype)
        return f"facula.tensor({values.tolist()!r}, dtype={dtype})"
    shape = ", ".join(map(str, t.shape))
    if t.is_floating_point() or t.is_complex():
        return f"x({shape}{', ' if shape else ''}dtype={dtype})"
    below = max(1, min(int(t.max()) + 1 if t.numel() and t.dtype != facula.bool else 2, 2**31))
    return f"k({shape}{', ' if shape else ''}below={below}, dtype={dtype})"


@functools.cache
def keys():
    return frozenset(facula._C._boxed_keys())


@functools.cache
def arguments(key):
    """[(name, type, whether it must be given, default)] of an op."""
    return [(name, kind, required, default) for name, kind, _, required, _, default in facula._C._boxed_op(key)["arguments"]]


class Recorder:
    def __init__(self):
        self.seeds: dict[str, dict[str, None]] = {}

    def add(self, key: str, values) -> None:
        if key not in keys():
            return
        kept = self.seeds.setdefault(key, {})
        if len(kept) >= KEPT:
            return
        with contextlib.suppress(ValueError):
            kept[json.dumps([text_of(v) for v in values])] = None

    def handle(self, name, overload, form, values, text):
        """Stands in for the kernel of every op: writes the call down and makes it."""
        key = f"{name}.{overload or 'default'}"
        if form == "inplace" and not name.endswith("_"):
            key = f"{name}_.{overload or 'default'}"
        elif form == "out":
            outs = len(facula._C._boxed_op(key)["results"])
            key, values = f"{key}.out", (*values[-outs:], *values[:-outs])
        facula._C._set_dispatch_mode_active(False)
        try:
            self.add(key, values)
            results = facula._C._boxed_call(key, tuple(values))
        finally:
            facula._C._set_dispatch_mode_active(True)
        return results[0] if len(results) == 1 else results

    @contextlib.contextmanager
    def recording(self):
        from facula.utils import _python_dispatch

        facula._C._set_dispatch_handler(self.handle)
        facula._C._set_dispatch_mode_active(True)
        try:
            yield
        finally:
            facula._C._set_dispatch_mode_active(False)
            facula._C._set_dispatch_handler(_python_dispatch._handle)


def differentiated(results) -> None:
    """Both derivatives of what can be differentiated."""
    graded = [t for t in preamble.tensors_in(results) if t.requires_grad]
    if not graded:
        return
    leaves = [leaf for t in graded for leaf in leaves_of(t)]
    cotangents = [facula.ones_like(t).requires_grad_() for t in graded]
    facula.autograd.grad(graded, leaves, [c.detach() for c in cotangents], retain_graph=True, allow_unused=True)
    first = facula.autograd.grad(graded, leaves, cotangents, create_graph=True, allow_unused=True)
    again = [t for t in first if t is not None and t.requires_grad]
    if again:
        facula.autograd.grad(again, [*leaves, *cotangents], [facula.ones_like(t) for t in again], allow_unused=True)


def leaves_of(tensor):
    seen, waiting, found = set(), [tensor.grad_fn] if tensor.grad_fn else [], []
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting += [n for n, _ in node.next_functions if n is not None]
    return found or ([tensor] if tensor.is_leaf else [])


def requiring(value):
    if isinstance(value, facula.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.detach().clone().requires_grad_()
    return [requiring(v) for v in value] if isinstance(value, list) else value


def direct_calls(op, args, kwargs):
    """(key, values) of the forms of an op for a sample's arguments."""
    given = dict(zip([a.name for a in op.args], args))
    given.update({"self" if n == "input" and "self" in [a.name for a in op.args] else n: v for n, v in kwargs.items()})
    plain = f"{op.name}.{op.overload or 'default'}"
    for key in (plain, f"{op.name}_.{op.overload or 'default'}", f"{plain}.out"):
        if key not in keys():
            continue
        values = []
        for name, _, required, default in arguments(key):
            if name in given:
                values.append(given[name])
            elif key.endswith(".out") and name.startswith("out"):
                values.append(facula.empty(0))
            else:
                values.append(None if required else default)
        yield key, values


def record_schema(recorder):
    rng = np.random.default_rng(0)
    for op in calls.op_samples.all_ops():
        if calls.excluded(op.name):
            continue
        dtype = "float32" if "Float32" in op.dtypes or not op.dtypes else "int64" if "Int64" in op.dtypes else "complex64"
        with contextlib.suppress(ValueError):
            for args, kwargs in calls.op_samples.samples(op, dtype, rng, shapes=((3, 4),)):
                for key, values in direct_calls(op, args, kwargs):
                    recorder.add(key, values)
                with contextlib.suppress(Exception), recorder.recording():
                    differentiated(calls.op_samples.call(op, *map(requiring, args), **{n: requiring(v) for n, v in kwargs.items()}))


def record_texts(recorder):
    names = {k: v for k, v in vars(preamble).items() if not k.startswith("__")}
    floats = names["x"]
    names["x"] = lambda *shape, **options: requiring(floats(*shape, **options))
    for table in (call_texts.FUNCTIONAL, call_texts.MODULES, call_texts.OTHERS, *package_calls.TABLES):
        for line in table.strip().splitlines():
            with contextlib.suppress(Exception), recorder.recording():
                differentiated(eval(line, names))


def arguments_of(line):
    """The texts of a call's arguments."""
    tree = ast.parse(line[line.index("(") :].replace("(", "_(", 1), mode="eval").body
    return [ast.unparse(argument) for argument in tree.args]


def record_builtins(recorder):
    lines = builtin_texts.BUILTINS.strip().splitlines()
    for layout in ("sparse_coo", "sparse_csr", "sparse_csc"):
        more = {"_sparse_to_dense": ", False", "to_dense": ", None, None"}
        lines += [f"{name}.default(x(3, 4).to_sparse(layout=facula.{layout}){more.get(name, '')})" for name in builtin_texts.SPARSE]
    for line in lines:
        key = line[: line.index("(")]
        if key not in keys():
            raise ValueError(f"builtin_texts: the table has no {key}")
        recorder.seeds.setdefault(key, {})[json.dumps(arguments_of(line))] = None


def seeds():
    warnings.simplefilter("ignore")
    recorder = Recorder()
    facula.set_num_threads(1)
    for record in (record_schema, record_texts, record_builtins):
        record(recorder)
    return [
        [key, json.loads(texts), [kind for _, kind, _, _ in arguments(key)]]
        for key, kept in sorted(recorder.seeds.items())
        for texts in kept
    ]


if __name__ == "__main__":
    json.dump(seeds(), sys.stdout)
