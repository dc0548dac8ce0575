"""Calls in the order of arguments that old programs use, with numbers in front of tensors: `addcmul(x, 2, a, b)`.

The core asks here where a call fits no signature of an op that has such a form (and of `copy_`, which takes numbers). What
the numbers are called follows from their places; the op is then called with keywords.
"""

from __future__ import annotations

import warnings
from numbers import Number
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

_PRODUCTS = (
    ("beta", "input", "alpha", "tensor", "tensor"),
    ("beta", "input", "tensor", "tensor"),
)
#: name of an op -> its old forms: "input" and "tensor" stay in their order, other names become keywords
FORMS = {
    "add": (("input", "alpha", "tensor"),),
    "sub": (("input", "alpha", "tensor"),),
    "addcmul": (("input", "value", "tensor", "tensor"),),
    "addcdiv": (("input", "value", "tensor", "tensor"),),
    "addmm": _PRODUCTS,
    "addmv": _PRODUCTS,
    "addr": _PRODUCTS,
    "addbmm": _PRODUCTS,
    "baddbmm": _PRODUCTS,
}


def call(name: str, is_method: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call in an old form, NotImplemented where it is none.

    Args:
        name: of the op; an underscore at its end is that of the in-place form.
        is_method: whether the first argument is the object of a method, which is no part of the form's order.
        args, kwargs: as they were given.

    >>> from facula import _old_forms
    >>> _old_forms.call("sub", False, (torch.ones(2), torch.ones(2)), {})
    NotImplemented
    """
    if name == "copy_":
        known = kwargs.keys() <= {"src", "other", "non_blocking"} and len(args) <= 3
        return _copy_number(*args, **kwargs) if known else NotImplemented
    for form in FORMS.get(name.rstrip("_"), ()):
        if is_method:
            form = ("input", *(part for part in form if part != "input"))
        if len(form) != len(args) or not all(map(_fits, form, args)):
            continue
        tensors = [value for part, value in zip(form, args) if part in ("input", "tensor")]
        numbers = {part: value for part, value in zip(form, args) if part not in ("input", "tensor")}
        shown = ", ".join(f"{part}={value!r}" for part, value in numbers.items())
        warnings.warn(f"{name}: numbers in front of tensors are an old form of this call; give {shown}", stacklevel=2)
        function = getattr(facula.Tensor, name) if is_method else getattr(facula, name)
        return function(*tensors, **numbers, **kwargs)
    return NotImplemented


def _copy_number(self, src=None, non_blocking=False, *, other=None):
    source = src if other is None else other if src is None else None
    if isinstance(source, Number):
        source = facula.tensor(source)
    return self.copy_(source, non_blocking) if isinstance(source, facula.Tensor) else NotImplemented


def _fits(part, value):
    return isinstance(value, facula.Tensor if part in ("input", "tensor") else Number)
