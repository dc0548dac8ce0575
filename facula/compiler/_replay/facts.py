"""Record what was read from outside while the source of a function was interpreted, for `python/replay_facts.h`.

A fact is an entry of a dictionary, what a class has under a name, the content of a closure cell, the class and the dictionary
of an object, or the code and the defaults of a function. A call is replayed only while all of them hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    import types
    from typing import Any

ABSENT = _C._Replay  # stands for what is not there; nobody else holds it


class Entry:
    """Hold a place and the value that was read there.

    `pinned`: something was decided by the value, so it has to be the same object; else another one of its kind may stand there.
    """

    __slots__ = ("constant", "key", "pinned", "value")

    def __init__(self, key: Any, value: Any) -> None:
        self.key, self.value, self.pinned, self.constant = key, value, False, -1

    def row(self) -> tuple[Any, Any, int]:
        may_change = not self.pinned and (is_plain(self.value) or type(self.value) in (int, float))
        return self.key, self.value, self.constant if may_change else -1


def is_plain(value: Any) -> bool:
    """Return whether a value is a tensor of no other class than Tensor and Parameter.

    Args:
        value: any object.
    """
    return type(value) is facula.Tensor or type(value) is facula.nn.Parameter


class Facts:
    """Collect facts, each of them once."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[Any, ...]] = {}
        self._dicts: dict[int, tuple[Any, dict[Any, Entry]]] = {}
        self._items: dict[int, tuple[Any, ...]] = {}
        self._types: dict[int, tuple[type, dict[str, Entry]]] = {}
        self._cells: dict[int, tuple[Any, Entry]] = {}
        self._functions: dict[int, tuple[Any, ...]] = {}

    def object(self, o: Any) -> dict[str, Any]:
        """Return the dictionary of an object, which stays its dictionary."""
        # The object is referenced too, since the id of a deleted object may be given to another one.
        self._objects[id(o)] = (o, type(o), o.__dict__)
        return o.__dict__

    def entry(self, d: dict[Any, Any], key: Any) -> Entry:
        """Return what a dictionary has under a key; ABSENT for nothing."""
        _, entries = self._dicts.setdefault(id(d), (d, {}))
        if key not in entries:
            entries[key] = Entry(key, d.get(key, ABSENT))
        return entries[key]

    def items(self, d: dict[Any, Any]) -> list[tuple[Any, Any]]:
        """Return all that a dictionary has, in order."""
        self._dicts.setdefault(id(d), (d, {}))
        items = list(d.items())
        self._items[id(d)] = tuple(part for item in items for part in item)
        return items

    def of_class(self, cls: type, name: str) -> Any:
        """Return what a class or one of its bases has under a name; ABSENT for nothing."""
        _, entries = self._types.setdefault(id(cls), (cls, {}))
        if name not in entries:
            found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), ABSENT)
            entries[name] = Entry(name, found)
            entries[name].pinned = True
        return entries[name].value

    def cell(self, cell: types.CellType) -> Entry:
        """Return what a closure cell holds; ABSENT for nothing."""
        if id(cell) not in self._cells:
            try:
                value = cell.cell_contents
            except ValueError:
                value = ABSENT
            self._cells[id(cell)] = (cell, Entry(cell, value))
        return self._cells[id(cell)][1]

    def function(self, f: Any) -> None:
        """Note the code and the defaults of a function."""
        self._functions[id(f)] = (f, f.__code__, f.__defaults__, f.__kwdefaults__)
        for name in f.__kwdefaults__ or ():
            self.entry(f.__kwdefaults__, name).pinned = True

    def spec(self) -> tuple[Any, ...]:
        """Return all of them, for the core."""
        dicts = tuple(
            (d, tuple(entry.row() for entry in entries.values()), self._items.get(number))
            for number, (d, entries) in self._dicts.items()
        )
        types = tuple((cls, tuple(entry.row() for entry in entries.values())) for cls, entries in self._types.values())
        cells = tuple(entry.row() for _, entry in self._cells.values())
        return tuple(self._objects.values()), dicts, types, cells, tuple(self._functions.values())
