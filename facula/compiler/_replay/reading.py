"""Tell the reader of sources (reader.py) about values: their elements, and attributes as the interpreter finds them."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

import facula
from facula.compiler._replay.facts import ABSENT, is_plain
from facula.compiler._replay.trusted import Known, Made, Method, Register, Untrusted, property_kind
from facula.nn.modules import module as module_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.compiler._replay.facts import Facts
    from facula.compiler._replay.trusted import Steps

FORMS = ("int", "bool", "size")  # kinds of registers that depend on forms of tensors alone
_SIMPLE = (type(None), bool, int, float, complex, str, bytes, facula.dtype, facula.device, facula.layout, facula.memory_format,
           range, slice, type(Ellipsis))  # fmt: skip
VIEWS = {"values": dict.values, "items": dict.items, "keys": dict.keys}


def is_simple(value: Any) -> bool:
    """Return whether a value never changes, and its operators run no code of the user's.

    Args:
        value: any object.
    """
    return type(value) in _SIMPLE or (type(value) in (tuple, facula.Size) and all(map(is_simple, value)))


def is_own(function: Any, module: types.ModuleType, name: str) -> bool:
    """Return whether a function is the one that a file of the package defines.

    Args:
        function: any object.
        module: of the file.
        name: its qualified name.
    """
    code = getattr(function, "__code__", None)
    found = isinstance(function, types.FunctionType) and function.__qualname__ == name
    return found and code.co_filename == module.__file__ and function.__globals__ is vars(module)


class Values:
    """Read values; a base of the reader."""

    steps: Steps
    facts: Facts
    call: Callable[..., Any]

    def _simple(self, value):
        if isinstance(value, Made) and value.kind == "tuple":
            return tuple(self._simple(item) for item in value.items)
        if not isinstance(value, Known) or not is_simple(value.value):
            raise Untrusted("a number or text that only the call knows")
        return value.decide()

    def _elements(self, value):
        """Return the values that a loop goes over."""
        if isinstance(value, Made) and value.kind != "dict":
            return list(value.items)
        if isinstance(value, Known):
            found = value.decide()
            if type(found) in (tuple, range, str, facula.Size):
                return [Known(one) for one in found]
            if isinstance(found, facula.nn.Module):
                return self._elements(self.call(self.attribute_of_class(value, "__iter__"), [], {}))
        raise Untrusted(f"a loop over a {type(getattr(value, 'value', value)).__name__}")

    def _is_tensor(self, value):
        return (isinstance(value, Register) and value.kind == "tensor") or (isinstance(value, Known) and is_plain(value.value))

    def _is_int(self, value):
        return type(value.value) is int if isinstance(value, Known) else isinstance(value, Register) and value.kind == "int"

    def _sampled(self, register, function, *operands):
        """Note what a number of forms is in the call that is looked at, where that is known."""
        values = [self._sample(one) for one in operands]
        if ABSENT not in values:
            try:
                register.sample = function(*values)
            except Exception:  # Python will raise it
                register.sample = ABSENT
        return register

    def _sample(self, value):
        if isinstance(value, Register):
            return value.sample
        return value.value if isinstance(value, Known) and is_simple(value.value) else ABSENT

    # ---- attributes

    def attribute(self, owner: Any, name: str) -> Any:
        """Read `owner.name`."""
        if isinstance(owner, Known) and is_plain(owner.value):
            owner = self.steps.operand(owner)
        if isinstance(owner, Register):
            return self._tensor_attribute(owner, name)
        if isinstance(owner, Made):
            if owner.kind == "dict" or name not in ("index", "count"):
                raise Untrusted(f"the attribute {name} of a {owner.kind}")
        elif type(owner.value) is types.ModuleType:
            return self._entry(owner.decide().__dict__, name)
        elif type(owner.value) is dict and name in ("values", "items", "keys"):
            return Method(Known(VIEWS[name]), owner)
        elif is_simple(owner.value):
            found = Known(getattr(owner.decide(), name, ABSENT))
            if is_simple(found.value):
                return found
        elif type(owner.value) is type and name in ("_hooked",):
            return Known(self.facts.of_class(owner.decide(), name))
        elif not isinstance(owner.value, type) and isinstance(getattr(owner.value, "__dict__", None), dict):
            return self._object_attribute(owner, name)
        raise Untrusted(f"the attribute {name} of a {type(getattr(owner, 'value', owner)).__name__}")

    def _tensor_attribute(self, owner, name):
        kind = property_kind(name)
        if kind is None:
            found = facula.Tensor.__dict__.get(name)
            if isinstance(found, (types.MethodDescriptorType, types.FunctionType)):
                return Method(name, owner)
            if found is not None or owner.kind or name.startswith("_"):
                raise Untrusted(f"the attribute {name} of a value of the call")
        for cls in (facula.Tensor, facula.nn.Parameter):
            self.facts.of_class(cls, name)
        made = self.steps.step("attribute", [self.steps.owner(owner)], name=name, gives=kind or "")
        if kind in FORMS and owner.tensor is not None:
            made.sample = getattr(owner.tensor, name)
        return made

    def _object_attribute(self, owner, name):
        """Read an attribute of an object of a class in Python, as `object.__getattribute__` finds it."""
        target = owner.decide()
        cls = type(target)
        if self.facts.of_class(cls, "__getattribute__") is not object.__getattribute__:
            raise Untrusted(f"{cls.__name__} has a __getattribute__")
        found = self.facts.of_class(cls, name)
        if hasattr(type(found), "__set__") or hasattr(type(found), "__delete__"):
            if type(found) is property and found.fget is not None:
                return self.call(Known(found.fget), [owner], {})
            raise Untrusted(f"{cls.__name__}.{name} is a descriptor")
        entry = self.facts.entry(self.facts.object(target), name)
        if entry.value is not ABSENT:
            return Known(entry.value, entry)
        if found is not ABSENT:
            return self._of_class(found, owner, name)
        return self._registered(target, name)

    def attribute_of_class(self, owner: Known, name: str) -> Any:
        """Read a special method of an object, which is looked for in the class alone."""
        return self._of_class(self.facts.of_class(type(owner.value), name), owner, name)

    def _of_class(self, found, owner, name):
        if isinstance(found, types.FunctionType):
            return Method(Known(found), owner)
        if type(found) is staticmethod:
            return Known(found.__func__)
        if found is ABSENT or hasattr(type(found), "__get__"):
            raise Untrusted(f"{type(owner.value).__name__}.{name}")
        return Known(found)

    def _registered(self, target, name):
        """Read a parameter, a submodule or a buffer of a module."""
        getter = self.facts.of_class(type(target), "__getattr__")
        if not isinstance(target, facula.nn.Module) or not is_own(getter, module_file, "Module.__getattr__"):
            raise Untrusted(f"{type(target).__name__} has no {name} that is known")
        for table in ("_parameters", "_modules", "_buffers"):
            entry = self.facts.entry(target.__dict__, table)
            entry.pinned = True
            if type(entry.value) is not dict:
                raise Untrusted(f"{table} is no dict")
            found = self.facts.entry(entry.value, name)
            if found.value is not ABSENT:
                return Known(found.value, found)
        raise Untrusted(f"{type(target).__name__} has no {name}")

    def _entry(self, d, key):
        entry = self.facts.entry(d, key)
        if entry.value is ABSENT:
            raise Untrusted(f"no {key}")
        return Known(entry.value, entry)
