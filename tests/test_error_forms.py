"""The form of errors, over all that the sources raise: `name: sentence that says what was expected, got what`.

The name is public and without parentheses or the name of the package; shapes are tuples. A text that breaks a rule fails here
with its place. What may break one is in EXCEPTIONS, with the reason.
"""

import re

import pytest
from raised_texts import Raised, arguments, raised_by_cpp, raised_by_python, text_of_parts

import facula

PIECE = r"(?:\{(?:[^{}]|\{[^{}]*\})*\}|[\w.:\-])+"
NAME = re.compile(rf"{PIECE}(?:(?:, | of | ){PIECE})?(?: \({PIECE}\))?: ")
WANTS = re.compile(r"\b(must|expected|expects?|should|has to|have to|needs?|required|requires)\b")
STALE = re.compile(r"\b(Invalid|Unknown|Unsupported|Unrecognized|Expected|but found|but got|received|asked for|Got)\b")
VALUE = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")

#: (what raises it or where: a pattern, why it may have another form)
EXCEPTIONS = [
    (r"Untrusted|Forbidden|Unwritable|TruncatedPickle|SizeDependence|_unknown", "caught within the package, and told in other words"),
    (r"_damaged|refused|self\._missing|self\._refusal|self\._not_found|no_attribute", "a function adds the name"),
    (r"ScriptError|ObjNotFoundError|UnsupportedOperatorError|RecompileError|FailOnRecompileLimitHit", "the class, or who catches it, adds the name"),
    (r"SignalException|ArgumentTypeError|PicklingError|ModuleNotFoundError|ConnectionError|NameError", "Python's own forms, or caught by its modules"),
    (r"AttributeError", "Python's own form: it names the object and the attribute"),
    (r"^src/(run|emulator)/", "a program of the command line, and a device for tests: their texts begin with the option or the place"),
    (r"^facula/distributed/(run|launcher|plan)", "programs of the command line: their texts begin with the option"),
]
#: the beginnings of texts that programs rely on, as PyTorch has them, or that name what they are about
KNOWN = [
    "Expected one of {known_device_types()} device type at start of device string",  # packages read it to learn which there are
    "Invalid device string",
    "DataLoader worker (pid(s) ",
    "module is not installed as a submodule",
    "{name} does not support sparse gradients",  # so the texts of PyTorch's optimizers begin
    '{decoupled ? "AdamW" : "Adam"} does not support sparse gradients',
    "Please use ",
    "{text}",
    "{refused}",
    "{needed}",
    "{what}they were",
    "{not_here.text(full_name)}",
    "{_of_tensors(name, argument)}",
    "{owner}.{name} is not supported by Facula",
    "schema '",
    "does not decompress",
    "the stack is too short",
    "tuples or arrays are nested",
    "the extension was compiled for another version",
    "expected a tuple of %d values to unpack",
    "Tensor.%s: ",
    "type object 'Tensor' has no attribute",  # as Python says it
    "{std::string(",
    "{f'{name}: takes",
    "index {int(i)} is out of bounds",
]
#: private functions that PyTorch has so, or that only this package calls
PRIVATE = re.compile(r"_(?!_)\w+: ")


def excepted(raised: Raised) -> bool:
    return any(re.search(pattern, raised.kind) or re.search(pattern, raised.where) for pattern, _ in EXCEPTIONS)


def problems(text: str) -> list[str]:
    """Return what is wrong with a text."""
    found = []
    name = NAME.match(text)
    if not name and not text.startswith(tuple(KNOWN)):
        found.append("no name")
    if name and ("(): " in name[0] or re.match(r"(torch|facula)\.\w", text)):
        found.append("parentheses or package in the name")
    rest = text[name.end() :] if name else text
    if "got" not in rest and WANTS.search(VALUE.sub("", rest)) and not VALUE.search(rest):
        found.append("does not say what was received")
    if STALE.search(VALUE.sub("", rest)) and not text.startswith(tuple(KNOWN)):
        found.append(f"form of another kind: {STALE.search(VALUE.sub('', rest))[0]}")
    if re.search(r"\{list\([^}]*(shape|size)|\{[\w.]+\.shape\}", text):
        found.append("a shape that is no tuple")
    return found


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("mm: the shapes cannot be multiplied, got {a} and {b}", 0),
        ("{type(self).__name__}: expected a matrix, got {x}", 0),
        ("a matrix is expected, got {x}", 1),
        ("sum(): expected a matrix, got {x}", 1),
        ("torch.hub: expected a repository, got {x}", 1),
        ("view: a shape is expected", 1),
        ("view: Unsupported shape {list(x.shape)}", 2),
    ],
)
def test_the_rules_find_what_they_are_for(text, count):
    assert len(problems(text)) == count, problems(text)


def test_the_texts_of_cpp_are_found():
    parts = arguments('check(a, f(b, "x)"), "one, \\"two\\"", c[1, 2], " three")', 5)
    assert parts == ["a", 'f(b, "x)")', '"one, \\"two\\""', "c[1, 2]", '" three"']
    assert text_of_parts(parts[2:]) == 'one, \\"two\\"{c[1, 2]} three'


@pytest.mark.parametrize("of", [raised_by_cpp, raised_by_python], ids=["cpp", "python"])
def test_each_text_has_the_form(of):
    raised = list(of())
    assert len(raised) > 1500
    wrong = [f"{r.where}: {', '.join(found)}: {r.text[:120]}" for r in raised if not excepted(r) and (found := problems(r.text))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("of", [raised_by_cpp, raised_by_python], ids=["cpp", "python"])
def test_shares(of):
    """Figures of all texts, those with a reason included: how many begin with a name, and how many say what was received."""
    texts = [r.text for r in of()]
    named = sum(bool(NAME.match(text)) for text in texts) / len(texts)
    received = sum("got" in text or bool(VALUE.search(text[m.end() :] if (m := NAME.match(text)) else text)) for text in texts) / len(texts)
    assert named > 0.92 and received > 0.9, (named, received)


def test_no_text_of_an_operator_begins_with_a_private_name():
    private = [r for r in raised_by_cpp(("src/ops", "src/composite", "src/cpu", "src/cuda", "src/sparse", "src/autograd")) if PRIVATE.match(r.text)]
    assert [r for r in private if not hasattr(facula.ops.aten, r.text.partition(":")[0])] == []


def test_shapes_are_tuples():
    for call, shown in (
        (lambda: facula.ones(3) + facula.ones(4), "(3,) and (4,)"),
        (lambda: facula.ones(2, 3) @ facula.ones(4, 5), "(2, 3) and (4, 5)"),
        (lambda: facula.ones(()) @ facula.ones(2), "() and (2,)"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(shown)):
            call()
