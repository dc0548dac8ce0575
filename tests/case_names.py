"""Words for the cases of parametrized tests, where pytest would count them: `pytest -k renorm` finds what is asked of `renorm`."""

import ast
import functools
import linecache
import re

LONGEST = 60  # characters of a word; a case is found by its beginning
# what says where a name comes from, or makes the tensors of every case
UNTOLD = set("facula torch xp self F nn functional np numpy tensor Tensor zeros ones randn rand arange empty full".split())


def words(value):
    """Return the name of a value, or None where pytest knows better: numbers, short texts, functions and classes."""
    if isinstance(value, str):
        return _short(value) if len(value) > LONGEST else None
    if isinstance(value, bytes):
        return f"{len(value)} bytes" if len(value) > LONGEST else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return f"{'minus ' if value < 0 else ''}about 2 to the {abs(value).bit_length()}"
    if value is None or isinstance(value, (bool, int, float, complex, re.Pattern)):
        return None
    return None if _name(value) else _short(_told(value)) or None


def counted(item):
    """Return True if pytest counted a case of a test, instead of saying what it is."""
    if not hasattr(item, "callspec"):
        return False
    text, values = item.callspec.id, item.callspec.params
    if "<lambda>" in text and not any("<lambda>" in str(value) for value in values.values() if isinstance(value, str)):
        return True
    if any(re.search(rf"(^|-){re.escape(name)}\d+($|-)", text) for name in values):
        return True
    return re.fullmatch(r"-*\d[\d-]*", text) is not None and not all(isinstance(v, (int, float)) or str(v).isdigit() for v in values.values())


def _short(text):
    return " ".join(text.split())[:LONGEST].strip("-_. ")


def _name(value):
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else None


def _told(value):
    if getattr(value, "__name__", None) == "<lambda>":
        return _of_lambda(value)
    if isinstance(value, slice):
        return ":".join("" if part is None else _told(part) for part in (value.start, value.stop, value.step))
    if isinstance(value, dict):
        return " ".join(f"{_told(key)}={_told(one)}" for key, one in value.items()) or "{}"
    if isinstance(value, (set, frozenset)):  # in an order that all processes have
        return f"[{','.join(sorted(map(_told, value)))}]"
    if isinstance(value, (list, tuple)):
        return ("({})" if isinstance(value, tuple) else "[{}]").format(",".join(_told(one) for one in value))
    if isinstance(value, (bool, int, float, complex, str)) or value is None:
        return str(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):  # before repr, which shows elements
        return f"{_told(value.dtype)}[{','.join(map(str, value.shape))}]"
    text = _name(value) or repr(value)
    return type(value).__name__ if "\n" in text or " at 0x" in text or len(text) > LONGEST else text.removeprefix("torch.")


def _of_lambda(function):
    """The names that it uses, without those of modules, or what is written where they say nothing."""
    names = list(dict.fromkeys(_names(function.__code__)))
    told = [name for name in names if name not in UNTOLD]
    if any(len(name) > 2 for name in told):
        return ".".join(told)
    written = _lambdas(function.__code__.co_filename).get(function.__code__.co_firstlineno, [])
    return written[0] if len(written) == 1 else ".".join(told or names) or "lambda"


def _names(code):
    yield from code.co_names
    for const in code.co_consts:
        if hasattr(const, "co_names"):
            yield from _names(const)


@functools.cache
def _lambdas(path):
    """The bodies of a file's lambdas, by line."""
    found = {}
    for node in ast.walk(ast.parse("".join(linecache.getlines(path)))):
        if isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, []).append(ast.unparse(node.body))
    return found
