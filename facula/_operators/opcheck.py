"""Test whether operators do what they were registered with: schema, gradients, fake kernel, and equal results of two runs."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import facula
from facula._operators.schemas import infer
from facula._tensor.fake import FakeTensorMode
from facula.utils import _pytree as pytree

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """Report an operator that does what its registration does not say."""


def _tensors(tree):
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, facula.Tensor)]


def _copied(tree):
    def copied(x):
        return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, facula.Tensor) else x

    return pytree.tree_map(copied, tree)


def _registered(op):
    """Return the operator that `torch.ops` gives under a name, or an overload of it."""
    op = getattr(op, "overloadpacket", op)
    return op if hasattr(op, "_qualname") else getattr(op, "_function", op)


def _schema(op):
    """Return the text of an operator's schema, which `custom_op` may have left to the annotations; None for none."""
    op = _registered(op)
    text = getattr(op, "_schema", None)
    if text is None and hasattr(op, "_qualname"):
        with contextlib.suppress(ValueError, TypeError):
            text = infer(op._kernels[op._key()], getattr(op, "_mutates_args", ()), op._name)
    return text


def _written(op):
    """Return the names that the schema says are written to."""
    return set(re.findall(r"\([a-z0-9]*!\)(?:\[\])?\??\s+(\w+)", str(_schema(op) or "")))


def _names(op, args, kwargs):
    words = re.findall(r"(\w+)\s*(?:=[^,)]*)?(?=[,)])", str(_schema(op) or "").partition("->")[0].partition("(")[2])
    return [*words[: len(args)], *[f"argument {i}" for i in range(len(words), len(args))], *kwargs]


def _test_schema(op, args, kwargs, **_):
    args, kwargs = _copied((args, kwargs))
    before = _copied((args, kwargs))
    with facula.no_grad():
        results = op(*args, **kwargs)
    names = _names(op, args, kwargs)
    for name, old, new in zip(names, [*before[0], *before[1].values()], [*args, *kwargs.values()], strict=True):
        same = all(a.equal(b) for a, b in zip(_tensors(old), _tensors(new), strict=True))
        if not same and name not in _written(op):
            raise OpCheckError(f"opcheck: test_schema failed: {name} is written to, which the schema does not say")
    given = {x.untyped_storage()._cdata for x in _tensors((args, kwargs)) if x.numel()}
    if any(x.numel() and x.untyped_storage()._cdata in given for x in _tensors(results)) and not _written(op):
        raise OpCheckError("opcheck: test_schema failed: a result shares memory with an argument")


def _test_autograd_registration(op, args, kwargs, **_):
    if not any(x.requires_grad for x in _tensors((args, kwargs))):
        return
    results = _tensors(op(*args, **kwargs))
    keys = getattr(_registered(op), "_native_keys", ())
    is_plain = bool(keys) and not any(key.startswith(("Autograd", "CompositeImplicit")) for key in keys)
    is_recorded = any(x.requires_grad for x in results) and not is_plain
    if not is_recorded and getattr(_registered(op), "_backward", None) is None:
        raise OpCheckError("opcheck: test_autograd_registration failed: inputs require a gradient, the op has none")


def _test_faketensor(op, args, kwargs, **_):
    with facula.no_grad():
        real = _tensors(op(*_copied(args), **_copied(kwargs)))
        with FakeTensorMode() as mode:
            fake_args, fake_kwargs = pytree.tree_map(
                lambda x: mode.from_tensor(x.detach()) if isinstance(x, facula.Tensor) else x, (args, kwargs)
            )
            try:
                fake = _tensors(op(*fake_args, **fake_kwargs))
            except Exception as error:
                raise OpCheckError(f"opcheck: test_faketensor failed with {error}") from error
    facts = [[(tuple(x.shape), x.dtype) for x in results] for results in (real, fake)]
    if facts[0] != facts[1]:
        raise OpCheckError(f"opcheck: test_faketensor failed: {facts[0]} for tensors, {facts[1]} for fake ones")


def _test_aot_dispatch_dynamic(op, args, kwargs, *, atol, rtol):
    def run():
        given, named = _copied((args, kwargs))
        results = _tensors(op(*given, **named))
        wanted = [x for x in _tensors((given, named)) if x.requires_grad]
        roots = [x.sum() for x in results if x.requires_grad]
        gradients = facula.autograd.grad(roots, wanted, allow_unused=True) if roots and wanted else ()
        return results, [g for g in gradients if g is not None]

    for first, second in zip(run(), run(), strict=True):
        for a, b in zip(first, second, strict=True):
            close = {} if atol is None or rtol is None else {"atol": atol, "rtol": rtol}
            facula.testing.assert_close(a.detach(), b.detach(), **close)


def check(op, args, kwargs, test_utils, raise_exception, atol, rtol):
    """Return {name of a test: "SUCCESS" or what it raised}."""
    wanted = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    unknown = set(wanted) - set(TESTS)
    if unknown or not wanted:
        raise ValueError(f"opcheck: invalid test_utils, expected some of {TESTS}, got {test_utils}")
    functions = _test_schema, _test_autograd_registration, _test_faketensor, _test_aot_dispatch_dynamic
    run = dict(zip(TESTS, functions, strict=True))
    found: dict[Any, Any] = {}
    for name in wanted:
        try:
            run[name](op, tuple(args), kwargs, **({"atol": atol, "rtol": rtol} if name == TESTS[-1] else {}))
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise
            found[name] = error
    return found


class Kernel:
    """Call the kernel that an operator has for a dispatch key."""

    def __init__(self, op: Any, dispatch_key: str) -> None:
        kernels = getattr(op, "_kernels", {})
        key = str(getattr(dispatch_key, "name", dispatch_key))
        kinds = [k for k in kernels if k is None or str(k).lower() == key.lower()]
        if not kinds:
            raise RuntimeError(f"get_kernel: no kernel is registered for {key}, got {op} with {list(kernels)}")
        self._function = kernels[kinds[-1]]

    def call_boxed(self, dispatch_keys: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Run the kernel; the keys say nothing here."""
        del dispatch_keys
        return self._function(*args, **kwargs)
