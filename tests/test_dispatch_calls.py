"""Which of PyTorch's operators `__torch_dispatch__` sees for some hundred calls: classes that wrap a tensor, and modes.

`data/dispatched_calls.txt` says for each call what PyTorch 2.13 shows a class and, where that is not the same, a mode; and, behind
the word `here`, what is shown here where Facula makes a function of other operators than PyTorch does: loops over lists where it
has `_foreach_*`, losses and norms that are kernels of their own, views with sizes where it says -1, and the like. Its lines were
written by `data/make_dispatched_calls.py`.
"""

import copy
from pathlib import Path

import pytest

import facula
from facula.nn import functional as F
from facula.utils import _pytree
from facula.utils._python_dispatch import TorchDispatchMode

LINES = [line for line in (Path(__file__).parent / "data/dispatched_calls.txt").read_text().splitlines() if line[:1] != "#"]


def _parts(row):
    """What a class and a mode see in PyTorch, and here."""
    first, *rest = row.split(" | ")
    parts = {"class": first, "mode": first}
    for part in rest:
        key = next(key for key in ("mode here", "mode", "here") if part == key or part.startswith(f"{key} "))
        parts[key] = part.removeprefix(key).strip()
    return {"here": parts["class"], "mode here": parts["mode"], **parts}


ROWS = {call: _parts(row) for call, row in (line.split(" | ", 1) for line in LINES)}


def _short(value):
    """An argument as the file writes it: T for a tensor, whole numbers without a point."""
    if isinstance(value, facula.Tensor):
        return "T"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_short, value))}]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _written(func, args, kwargs):
    named = [f"{name}={_short(value)}" for name, value in sorted((kwargs or {}).items())]
    return f"{func.name().removeprefix('aten::')}({', '.join([*map(_short, args), *named])})"


class Wrapper(facula.Tensor):
    calls = []

    @staticmethod
    def __new__(cls, inner):
        self = facula.Tensor._make_wrapper_subclass(cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=inner.device)
        self.inner = inner
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(_written(func, args, kwargs))
        args, kwargs = _pytree.tree_map(lambda x: x.inner if isinstance(x, cls) else x, (args, kwargs or {}))
        return _pytree.tree_map(lambda x: cls(x) if isinstance(x, facula.Tensor) else x, func(*args, **kwargs))


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(_written(func, args, kwargs))
        return func(*args, **(kwargs or {}))


def _values(wrap):
    """What calls are made on: letters of wrapped tensors, and k, n, m, which are plain ones."""
    facula.manual_seed(0)
    rand = facula.rand
    wrapped = {
        "f": rand(4, 4), "g": rand(4, 4), "v": rand(4).sort().values, "i": facula.arange(4), "s": facula.tensor(2.0),
        "b": facula.tensor([True, False, True, True]), "im": rand(1, 2, 6, 6), "seq": rand(2, 3, 4),
        "c": facula.complex(rand(4), rand(4)), "e": facula.eye(4) * 2,
    }  # fmt: skip
    plain = {"k": rand(4, 4), "n": facula.arange(4), "m": facula.tensor([True, False, True, False])}
    return {**{name: wrap(value) for name, value in wrapped.items()}, **plain, "torch": facula, "F": F, "copy": copy}


def seen_by_class(call):
    """The operators, or which exception is raised."""
    values = _values(Wrapper)
    Wrapper.calls.clear()
    try:
        eval(call, values)
    except Exception as error:
        return f"raises {type(error).__name__}"
    return "; ".join(Wrapper.calls)


def seen_by_mode(call):
    """The operators."""
    values = _values(lambda t: t)
    with Log() as log:
        eval(call, values)
    return "; ".join(log.calls)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", ROWS)
def test_a_class_sees_what_it_sees_in_pytorch(call):
    assert seen_by_class(call) == ROWS[call]["here"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", ROWS)
def test_a_mode_sees_what_it_sees_in_pytorch(call):
    assert seen_by_mode(call) == ROWS[call]["mode here"]


def test_most_rows_are_those_of_pytorch():
    """The file may not come to say otherwise unnoticed."""
    assert sum(row["here"] == row["class"] for row in ROWS.values()) >= 677
    assert sum(row["mode here"] == row["mode"] for row in ROWS.values()) >= 650


def test_what_is_seen_can_be_called():
    """Values of wrapped calls are those of plain ones."""
    for call in ("f.equal(k)", "bool((f == f).all())", "torch.unique(i)", "F.layer_norm(f, (4,), v, v)", "F.linear(seq, f, v)",
                 "F.interpolate(im, scale_factor=2)", "f[f > 0.5]", "F.cross_entropy(f, n)", "torch.linalg.det(e)"):  # fmt: skip
        made, plain = eval(call, _values(Wrapper)), eval(call, _values(lambda t: t))
        made = made.inner if isinstance(made, Wrapper) else made
        assert made.allclose(plain) if isinstance(plain, facula.Tensor) else made == plain


def test_assignments_reach_what_is_wrapped():
    values = _values(Wrapper)
    f, inner = values["f"], values["f"].inner
    f[0] = 1.0
    assert inner[0].tolist() == [1.0] * 4
    f[f > 0.5] = 0.0
    assert inner.max() <= 0.5
    f.copy_(values["k"])
    assert inner.equal(values["k"])
    f.tril_()
    assert inner.equal(values["k"].tril())


def test_a_class_leaves_calls_to_kernels_unless_it_says_so():
    class Above(facula.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "above"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "below"

    assert Wrapper.__torch_function__ is facula._C._disabled_torch_function_impl
    assert Above.__torch_function__ is not facula._C._disabled_torch_function_impl
    assert facula.ones(1).as_subclass(Above) + 1 == "above"


def test_derivatives_are_recorded_above():
    x = facula.rand(4, 4, requires_grad=True)
    with Log() as log:
        F.mse_loss(x * 2, facula.zeros(4, 4)).backward()
    assert x.grad.allclose(x * 8 / 16) and log.calls
