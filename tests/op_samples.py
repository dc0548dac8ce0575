"""Arguments for every op, read from the `samples` of ops/*.yaml.

    for op in all_ops():
        for args, kwargs in samples(op, "float64", np.random.default_rng(0)):
            call(op, *args, **kwargs)

Arguments are Facula tensors and plain Python values. `layout` chooses how the tensors of the sample lie in memory:
"contiguous", "strided" (every second element of a transposed block), "broadcast" (element-wise ops: the second operand
has a size of one), "empty" (element-wise ops: shape [0, 3]).
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np

import facula

ROOT = Path(__file__).resolve().parent.parent
LAYOUTS = ("contiguous", "strided", "broadcast", "empty")
DEFAULT_RANGE = (-2.0, 2.0)
#: The second and third are longer than a vector of any level, with a remainder.
ELEMENTWISE_SHAPES = ((3, 4), (7, 19), (67,))
NUMBER_DEFAULTS = {"Scalar": 0.75, "float": 0.75, "int": 2, "bool": True}


@functools.cache
def all_ops():
    """Every entry of ops/*.yaml as `codegen.op.Op`."""
    sys.path.insert(0, str(ROOT))
    try:
        from codegen import schema
    finally:
        sys.path.pop(0)
    return schema.load(ROOT / "ops")


def call(op, *args, **kwargs):
    """Calls the op through its public function, or through the method when it has no function."""
    if not op.names:
        return getattr(facula._C._ops, op.name)(*args, **kwargs)
    module, _, name = op.names[0].rpartition(".")
    if "function" in op.variants:
        home = getattr(facula._C, module.replace(".", "_")) if module else facula._C
        return getattr(home, name)(*args, **kwargs)
    return getattr(args[0], name)(*args[1:], **kwargs)


def samples(op, dtype, rng, layout="contiguous", shapes=ELEMENTWISE_SHAPES):
    """A list of (args, kwargs), with tensors of `dtype` (a name such as "float64") where the sample names none.

    Element-wise ops that state no samples of their own get one of each of `shapes`.

    The list is empty where the layout has no meaning for the op. Errors: ValueError for a sample that does not fit the
    signature.
    """
    if not has_samples(op, layout):
        return []
    maps = _argument_maps(op, shapes)
    return [_arguments(op, entry, dtype, rng, layout) for entry in maps]


def has_samples(op, layout="contiguous"):
    """Whether the op has samples, and the layout a meaning for them."""
    if layout in ("broadcast", "empty") and (not op.elementwise or isinstance(op.samples, list)):
        return False
    return (op.samples is not None or op.elementwise) and not (layout == "broadcast" and op.kind == "unary")


def _argument_maps(op, shapes):
    given = op.samples
    if op.elementwise and (given is None or isinstance(given, dict)):
        interval = (given or {}).get("range", DEFAULT_RANGE)
        numbers = {p.name: NUMBER_DEFAULTS[p.type] for p in op.params if p.default is None}
        inputs = [a.name for a in op.inputs if a.type != "Tensor?"]
        return [
            {**{name: {"shape": list(shape), "range": interval} for name in inputs}, **numbers}
            for shape in shapes
        ]
    if given is None:
        return []
    return given if isinstance(given, list) else [given]


def _arguments(op, entry, dtype, rng, layout):
    unknown = set(entry) - {a.name for a in op.args}
    if unknown:
        raise ValueError(f"{op.location.file}:{op.location.line}: samples of {op.id} name unknown arguments {unknown}")
    args, kwargs = [], {}
    positional = True
    tensors_seen = 0
    for arg in op.args:
        if arg.name not in entry:
            if arg.default is None and arg.type.endswith("?"):
                entry = {**entry, arg.name: None}
            elif arg.default is None:
                raise ValueError(f"{op.location.file}:{op.location.line}: samples of {op.id} leave out {arg.name}")
            if arg.name not in entry:
                positional = False
                continue
        value = _value(arg, entry[arg.name], dtype, rng, layout, tensors_seen)
        tensors_seen += isinstance(value, facula.Tensor)
        if positional and not arg.keyword_only:
            args.append(value)
        else:
            kwargs["input" if arg.name == "self" else arg.name] = value
    return args, kwargs


def _value(arg, given, dtype, rng, layout, position):
    if given is None or given == "None":
        return None
    if arg.type in ("Tensor", "Tensor?", "Operand"):
        if isinstance(given, (int, float, complex)) and not isinstance(given, bool):
            return given
        return _tensor(given, dtype, rng, layout, position)
    if arg.type == "Tensor[]":
        return [_tensor(item, dtype, rng, layout, 0) for item in given]
    if arg.type.startswith("dtype"):
        return getattr(facula, given)
    if isinstance(given, str):
        return given.strip("'\"")
    return given


def _tensor(given, dtype, rng, layout, position):
    entry = given if isinstance(given, dict) else {"shape": given}
    name = entry.get("dtype", dtype)
    if "values" in entry:
        return facula.tensor(entry["values"], dtype=getattr(facula, name))
    shape = list(entry["shape"])
    if layout == "broadcast" and position > 0 and shape:
        shape[0] = 1
    if layout == "empty":
        shape = [0, 3]
    array = _array(shape, name, entry.get("range", DEFAULT_RANGE), rng)
    if layout == "strided" and shape:
        return _strided(array)
    return _from_array(array, name)


def _array(shape, name, interval, rng):
    low, high = interval
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in name:
        low, high = int(np.ceil(low)), int(np.floor(high))
        return rng.integers(max(low, 0) if name.startswith("u") else low, max(high, low + 1), shape).astype(name)
    values = rng.uniform(low, high, shape)
    if name.startswith("complex"):
        return (values + 1j * rng.uniform(low, high, shape)).astype("complex64" if name == "complex32" else name)
    return values.astype("float32" if name == "bfloat16" else name)


def _from_array(array, name):
    tensor = facula.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    return tensor.to(getattr(facula, name)) if str(tensor.dtype) != f"torch.{name}" else tensor


def _strided(array):
    """The same values as every second element of a transposed block of memory."""
    shape = array.shape[::-1]
    block = np.zeros((*shape[:-1], 2 * shape[-1]), array.dtype)
    block[..., ::2] = array.transpose()
    return facula.from_numpy(block[..., ::2].transpose())
