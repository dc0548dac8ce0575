"""Every public name has a complete docstring, and the examples of all are true."""

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

ROWS = docstrings.table()


@pytest.mark.parametrize("namespace", sorted(ROWS))
def test_docstrings_are_complete(namespace):
    complete, total, missing = ROWS[namespace]
    assert complete == total and not missing, f"{complete} of {total}; python -m codegen.docstrings {namespace}"


def test_every_namespace_is_counted():
    assert {"torch", "torch.Tensor", "nn", "nn.functional", "optim", "utils.data", "autograd", "linalg", "distributed"} <= set(ROWS)
    assert sum(total for _, total, _ in ROWS.values()) > 4500


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


IMPERATIVES = """Accept Apply Combine Compute Do Drop Fill Give Let Limit Multiply Normalize Pad Replace Resize Return Round Run Say
Set Take Write""".split()  # lint looks at those of Python


def test_docstrings_of_ops_begin_with_an_imperative():
    for op in schema.load(ROOT / "ops"):
        assert op.doc.split()[0].rstrip(",") in IMPERATIVES, f"{op.id}: {op.doc}"
    assert "\n\nReturn the absolute value of each element" in facula.abs.__doc__
    assert "\n\nCompute in place: the absolute value of each element" in facula.Tensor.abs_.__doc__


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
