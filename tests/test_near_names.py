"""Names that are not there: modules, tensors and calls say which one was meant."""

import importlib
import pkgutil
import subprocess
import sys
import types

import pytest

import facula
from facula import _C, nn

PYTHON_ASKS = 750  # the interpreter makes no suggestion out of more names


def error_of(kind, call):
    with pytest.raises(kind) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("name", "meant"),
    [("zeross", "zeros"), ("zreos", "zeros"), ("float33", "float32"), ("manual_sed", "manual_seed"), ("Tensr", "Tensor")],
)
def test_the_module_suggests(name, meant):
    error = error_of(AttributeError, lambda: getattr(facula, name))
    assert str(error) == f"module 'facula' has no attribute {name!r}. Did you mean: {meant!r}?"
    assert type(error) is AttributeError and error.name == name


@pytest.mark.parametrize("name", ["qwertyuiop", "_zeross", "__zeros__"])
def test_names_that_are_near_to_none_get_no_suggestion(name):
    assert "Did you mean" not in str(error_of(AttributeError, lambda: getattr(facula, name)))
    assert not hasattr(facula, name) and getattr(facula, name, 3) == 3


def public_modules():
    for found in pkgutil.walk_packages(facula.__path__, "facula."):
        if not any(part.startswith("_") or part in ("compat", "site", "tensorboard") for part in found.name.split(".")):
            yield found.name


def test_every_module_that_answers_for_names_suggests():
    """A `__getattr__` of a module keeps the interpreter from nothing, but an error of its own must have the suggestion."""
    checked = []
    for name in public_modules():
        module = importlib.import_module(name)
        if "__getattr__" not in vars(module) or name in ("facula.nn", "facula.testing"):
            continue
        known = [word for word in dir(module) if len(word) > 6 and not word.startswith("_") and isinstance(getattr(module, word), types.FunctionType | type)]
        if not known:
            continue
        checked.append(name)
        assert "Did you mean: " in str(error_of(AttributeError, lambda: getattr(module, f"{known[-1]}q"))), name  # noqa: B023
    assert len(checked) > 10


TRACEBACKS = {
    "torch.zeross": "zeros", "torch.nn.Linaer": "Linear", "torch.nn.functional.rellu": "relu", "torch.linalg.nrm": "norm",
    "torch.optim.Adamm": "Adam", "torch.ones(2).to_lst()": "tolist", "torch.nn.Linear(2, 2).wieght": "weight", "torch.Tensor.reshap": "reshape",
}  # fmt: skip


@pytest.mark.parametrize(("options", "name"), [((), "facula"), (("-m", "facula"), "torch")])
def test_tracebacks_suggest_once(options, name):
    program = f"""
import sys
import {name} as torch
for line in {list(TRACEBACKS)}:
    try:
        eval(line)
    except AttributeError:
        sys.__excepthook__(*sys.exc_info())
"""
    done = subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("AttributeError")]
    assert [line.partition(". ")[2] for line in lines] == [f"Did you mean: {meant!r}?" for meant in TRACEBACKS.values()]


def test_tensors_have_few_enough_names_for_suggestions():
    assert len(dir(facula.ones(2))) <= PYTHON_ASKS


def test_near_name_counts_edits():
    near = _C._near_name
    assert near("nrom", ["norm", "dot"]) == "norm" and near("abcdef", ["abc", "uvwxyz"]) is None
    assert near("same", ["same"]) is None and near("sum", []) is None and near("", ["a"]) is None
    assert near("ab" * 40, ["ab" * 40 + "c"]) is None and near("zero\udc80", ["zeros"]) is None
    with pytest.raises(TypeError):
        near("a", 3)


def test_words_of_an_argument_and_the_one_that_was_meant():
    assert _C._one_of("lef", ("left", "right")) == "'left' or 'right', got 'lef'. Did you mean: 'left'?"
    assert _C._one_of("none", {"a": 1, "b": 2, "c": 3}) == "'a', 'b' or 'c', got 'none'"
    assert _C._one_of(3, ["a"]) == "'a', got 3" and _C._one_of(None, [None, "a", "b"]) == "'a' or 'b', got None"
    assert _C._suggestion("zeross", ["zeros"]) == ". Did you mean: 'zeros'?" and _C._suggestion(4, ["a"]) == _C._suggestion("a", []) == ""
    with pytest.raises(TypeError):
        _C._one_of("a", 3)


# ---- calls


def test_signatures_are_written_as_python_does():
    text = str(error_of(TypeError, lambda: facula.ones(2).sum(axes=0)))
    assert text == (
        "sum: the arguments fit no signature: no argument is called 'axes' (did you mean 'dim'?); expected one of:\n"
        " * (input: Tensor, *, dtype: dtype | None = None)\n"
        " * (input: Tensor, dim: int | Sequence[int] | None, keepdim: bool = False, *, dtype: dtype | None = None, out: Tensor | None = None)\n"
        "got (torch.Tensor, axes=int)"
    )


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: facula.zeros(2, dtyp=facula.int), "no argument is called 'dtyp' (did you mean 'dtype'?); expected (size: int | Sequence[int], *,"),
        (lambda: nn.functional.relu(facula.ones(2), inplac=True), "relu: the arguments fit no signature: no argument is called 'inplac' (did you"),
        (lambda: facula.ones(2).softmax(dimm=0), "(did you mean 'dim'?); expected (input: Tensor, dim: int, dtype: dtype | None = None, *, out"),
        (lambda: facula.ones(2).view(2, foo=3), "no argument is called 'foo'; expected one of:\n * (input: Tensor, size: int | Sequence[int])\n"),
        (lambda: facula.permute(facula.ones(2), 0, 1), "the arguments fit no signature; expected (input: Tensor, dims: Sequence[int]), got"),
        (lambda: facula.ones(2).sum(keepdim="a", axis=0), "the arguments fit no signature; expected one of:"),
        (lambda: facula.add(1, "a"), "(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None)"),
        (lambda: facula.max(facula.ones(2), 0, out=3), "(input: Tensor, dim: int, keepdim: bool = False, *, out: Sequence[Tensor] | None = None)"),
        (lambda: nn.functional.conv2d(1, 2), 'stride: int | Sequence[int] = 1, padding: str = "valid", dilation: int'),
        (lambda: facula.stack(3), "(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None), got (int)"),
    ],
)
def test_calls_that_fit_no_signature(call, part):
    assert part in str(error_of(TypeError, call))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: facula.tensor(1, dtyp=facula.int), "tensor: no argument is called 'dtyp' (did you mean 'dtype'?); expected data, dtype, device, requires_grad, pin_memory"),
        (lambda: facula.device("cpu", idx=2), "device: no argument is called 'idx'; expected type, index"),
        (lambda: facula.ones(2).set_(sourc=facula.ones(2)), "set_: no argument is called 'sourc' (did you mean 'source'?); expected source, "),
        (lambda: facula.tensor(1, **{"\ud800": 2}), "tensor: no argument is called '\\ud800'; expected data"),
    ],
)  # fmt: skip
def test_functions_without_a_generated_signature(call, text):
    assert str(error_of(TypeError, call)).startswith(text)
    assert "data" in str(error_of(TypeError, lambda: facula.tensor(dtype=facula.int)))


def test_every_signature_is_python():
    """Written as a function, each signature compiles."""
    checked = 0
    for name in dir(facula.Tensor):
        method = getattr(facula.Tensor, name, None)
        if name.startswith("_") or not isinstance(method, types.MethodDescriptorType):
            continue
        try:
            method(facula.ones(2), no_such_argument=object())
        except TypeError as error:
            text = str(error)
        except Exception:
            continue
        if "fit no signature" not in text:
            continue
        lines = text.split("\n * ")[1:] or [text.partition("; expected ")[2].rpartition(", got (")[0]]
        for line in lines:
            compile(f"def f{line.partition(chr(10))[0]}: pass".replace(" from:", " from_:"), name, "exec")
            checked += 1
    assert checked > 300
