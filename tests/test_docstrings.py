"""Docstrings are complete as far as the table says, and their examples are true."""

import doctest
import inspect
import operator
import re
import sys
from keyword import iskeyword
from pathlib import Path

import pytest

import facula
from facula import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from codegen import docstrings, emit_docs, schema  # noqa: E402  (beside the package, not in it)
from codegen.signatures import text_signature  # noqa: E402

#: Per namespace the least percentage of names whose docstring is complete (what that means: codegen/docstrings.py). Only raised,
#: until it is 100 for torch, torch.Tensor, nn, nn.functional, optim, utils.data and autograd, and 90 for the rest.
LEAST = {
    "accelerator": 0,
    "amp": 60,
    "ao": 5,
    "array_api": 0,
    "autograd": 62,
    "backends": 0,
    "compiler": 0,
    "cpu": 0,
    "cuda": 4,
    "distributed": 6,
    "distributions": 29,
    "export": 40,
    "fft": 0,
    "func": 100,
    "futures": 0,
    "fx": 5,
    "hub": 0,
    "jit": 10,
    "library": 0,
    "linalg": 4,
    "masked": 0,
    "monitor": 15,
    "mps": 0,
    "mtia": 0,
    "multiprocessing": 5,
    "nested": 100,
    "nn": 66,
    "nn.functional": 21,
    "nn.init": 0,
    "nn.utils": 1,
    "onnx": 23,
    "optim": 0,
    "optim.lr_scheduler": 4,
    "overrides": 0,
    "package": 11,
    "profiler": 0,
    "quantization": 14,
    "quasirandom": 40,
    "random": 50,
    "serialization": 4,
    "signal": 0,
    "sparse": 14,
    "special": 100,
    "storage": 0,
    "testing": 0,
    "torch": 60,
    "torch.Tensor": 58,
    "torch_version": 0,
    "utils": 17,
    "utils.data": 45,
    "xpu": 0,
}
ROWS = docstrings.table()


@pytest.mark.parametrize("namespace", sorted(ROWS))
def test_docstrings_are_complete(namespace):
    complete, total, missing = ROWS[namespace]
    least = LEAST.get(namespace, 90)  # a new namespace comes with its docstrings
    assert 100 * complete >= least * total, f"{complete} of {total}; python -m codegen.docstrings {namespace}"
    assert complete + len(missing) == total


def test_every_namespace_is_counted():
    assert set(LEAST) <= set(ROWS) and {"torch", "torch.Tensor", "nn", "optim", "utils.data"} <= set(LEAST)


# signatures of the core

SIGNATURES = {
    "add": "(input, other, *, alpha=1, out=None)", "Tensor.add": "(self, /, other, *, alpha=1)",
    "Tensor.add_": "(self, /, other, *, alpha=1)", "zeros_like": "(input, *, memory_format=None, dtype=None, layout=None, "
    "device=None, pin_memory=False, requires_grad=False)", "Tensor.permute": "(self, /, *dims)",
    "max": "(input, dim=None, keepdim=False, *, other=None, out=None)", "clamp": "(input, min=None, max=None, *, out=None)",
    "Tensor.contiguous": "(self, /, *, memory_format=None)", "fft.fft2": "(input, s=None, dim=[-2, -1], norm=None, *, out=None)",
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_of_the_core(name):
    function = operator.attrgetter(name)(facula)
    assert str(inspect.signature(function)) == SIGNATURES[name]
    assert function.__doc__.startswith(f"{function.__name__}(")  # the typed one


@pytest.mark.parametrize("method", [False, True])
def test_signatures_take_the_calls_of_every_overload(method):
    """Each overload's arguments, the first ones by place and the others by keyword."""
    for members in schema.group_by_name(schema.load(ROOT / "ops")).values():
        form = emit_docs.Form(method=method)
        members = [op for op in members if op.names and ("method" if method else "function") in op.variants]
        signature = inspect.signature(eval(f"lambda {text_signature(members, form)[1:-1].replace('$self', '_')}: None")) if members else None
        for op in members:
            places = [emit_docs.python_name(arg) for arg in form.arguments(op) if not arg.keyword_only]
            named = [emit_docs.python_name(arg) for arg in form.arguments(op) if arg.keyword_only] + ["out"] * form.has_out(op)
            spread = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
            for count in range(len(places) if spread else 0, len(places) + 1):
                keywords = {word + "_" * iskeyword(word): 0 for word in places[count:] + named}
                signature.bind(*[0] * (count + method), **keywords)


def name_of(function):
    return docstrings.Name("torch", function.__name__, function)


def test_what_is_complete():
    def whole(x, *, scale=1):
        """x times scale.

        >>> 2 * 2
        4
        """

    def half(x, *, scale=1):
        """half(x, *, scale=1): x, somehow."""

    def hidden(*args):
        """What it is given."""

    assert docstrings.faults(name_of(whole)) == []
    assert docstrings.faults(name_of(half)) == ["`scale`", "example"]
    assert docstrings.faults(name_of(hidden)) == ["`args`", "example"]
    assert docstrings.faults(name_of(lambda: None)) == ["docstring"]


FROM_MODULE = {"Container", "Module"}  # take keywords, or whatever a subclass takes


def layers():
    return {name: getattr(nn, name) for name in sorted(set(nn.modules.__all__)) if inspect.isclass(getattr(nn, name))}


def functionals():
    return {name: f for name in nn.functional.__all__ if inspect.isfunction(f := getattr(nn.functional, name))}


def not_named(signature, text, leave_out):
    """Parameters that the docstring does not mention."""
    return [name for name in signature.parameters if name not in leave_out and not re.search(rf"\b{name}\b", text)]


@pytest.mark.parametrize("name", sorted(set(layers()) - FROM_MODULE))
def test_docstrings_of_layers_name_every_argument(name):
    layer = layers()[name]
    signature = inspect.signature(layer.__init__)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if name not in ("Identity", "Sequential"):
        assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}, f"{name} hides its arguments: {signature}"
    assert not not_named(signature, inspect.getdoc(layer), {*docstrings.LEGACY, "device", "dtype", "args", "kwargs"})


def test_docstrings_of_functionals_name_every_argument():
    missing = {}
    for name, function in functionals().items():
        leave_out = docstrings.LEGACY | {"input", "target"} | {p for p in inspect.signature(function).parameters if p.startswith("_")}
        if left := not_named(inspect.signature(function), inspect.getdoc(function), leave_out):
            missing[name] = left
    assert not missing, missing


def run_example(name, text):
    scope = {"torch": facula, "facula": facula, "nn": nn, "F": nn.functional}
    text = re.sub(r"(>>> |\.\.\. )(from|import) torch\b", r"\1\2 facula", text)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(doctest.DocTestParser().get_doctest(text, scope, name, None, 0))
    assert not runner.failures, name


def examples_of_python():
    """{namespace: [(name, docstring)]} of docstrings with examples, but for those of ops, each once."""
    found, seen = {}, set()
    modules = [docstrings.Name(docstrings.namespace_of(path), path, module) for path, module in docstrings.modules()]
    for name in [*docstrings.names(), *modules]:
        text = name.text
        if ">>> " in text and "Stated in ops/" not in text and text not in seen:
            seen.add(text)
            found.setdefault(name.namespace, []).append((name.path, text))
    return found


EXAMPLES = examples_of_python()


@pytest.mark.parametrize("namespace", sorted(EXAMPLES))
def test_the_examples_of_docstrings_are_true(namespace):
    for path, text in EXAMPLES[namespace]:
        facula.manual_seed(0)
        run_example(path, text)


def stated_examples():
    for op in schema.load(ROOT / "ops"):
        if op.example:
            yield pytest.param(op.names[0] if "function" in op.variants else f"Tensor.{op.names[0]}", op.example, id=op.id)


def op_of(name):
    """The op itself: nn.functional may show a function of Python around it, and ops like normal_ are methods only."""
    core = facula._C.nn_functional if name.startswith("nn.functional.") else facula
    name = name.removeprefix("nn.functional.")
    return operator.attrgetter(name)(core if hasattr(core, name.split(".")[0]) else facula.Tensor)


@pytest.mark.parametrize(("name", "example"), list(stated_examples()))
def test_the_examples_of_ops_are_true(name, example):
    facula.manual_seed(0)
    run_example(name, example + "\n")
    assert example.splitlines()[-1] in op_of(name).__doc__
