"""Describe how the rows of several sequences lie one after another, which nested tensors of one structure share."""

from __future__ import annotations

import itertools
import weakref

import facula
from facula import _C
from facula.functions.symbolic import SymInt
from facula.utils.weak import WeakTensorKeyDictionary

_numbers = itertools.count(1)
#: the structures there are, by the tensor that tells them apart, which each holds
_structures: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
#: the symbol of a ragged length, by the tensor that tells it apart; who copies such a tensor may give the copy the same symbol
symbols = WeakTensorKeyDictionary()


class NestedInt(SymInt, int):
    """Represent the length of a ragged dimension, which is no number: it equals itself, and differs from any other
    length.

    As an integer it is far below zero, so that whatever takes it for a length refuses it.
    """

    _name: str
    _times: int

    def __new__(cls, name=None, times=1):
        number = next(_numbers) if name is None else 0
        made = super().__new__(cls, -(1 << 60) - number)
        made._name, made._times = name or f"j{number}", times
        return made

    def __repr__(self):
        return self._name if self._times == 1 else f"{self._times}*{self._name}"

    __str__ = __repr__

    def __format__(self, spec):
        return format(repr(self), spec)

    def __eq__(self, other):
        if not isinstance(other, NestedInt):
            return False
        return self._name == other._name and self._times == other._times

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((self._name, self._times))

    def __mul__(self, number):
        if isinstance(number, NestedInt) or not isinstance(number, int):
            return NotImplemented
        return NestedInt(self._name, self._times * number)

    __rmul__ = __mul__

    def _undecided(self, other, relation):
        raise ValueError(f"{relation}: relation is indeterminate, got {self!r} and {other!r}")

    def __ge__(self, other):
        if self == other or not isinstance(other, NestedInt) and other <= 2:
            return True
        return self._undecided(other, "ge")

    def __lt__(self, other):
        return not self >= other

    def __gt__(self, other):
        return False if self == other else not isinstance(other, NestedInt) and other < 2 or self._undecided(other, "gt")

    def __le__(self, other):
        return not self > other

    def __reduce__(self):
        return NestedInt, (self._name, self._times)


class Ragged:
    """Describe where each sequence begins and how long it is. Tensors with the same object of this class have the same
    structure.

    Args:
        offsets: where sequences begin, and where the last ends, unless there are lengths.
        lengths: how long they are, where there are gaps between them.
        total: number of rows that there are, which the sequences must not leave; None: not looked at.
    """

    def __init__(self, offsets, lengths=None, total=None):
        self.offsets, self.lengths = offsets, lengths
        source = offsets if lengths is None else lengths
        self.symbol = symbols.get(source)
        if self.symbol is None:
            self.symbol = symbols[source] = NestedInt()
        self._known = {}
        self.stated = set()  # which of "min_seqlen" and "max_seqlen" somebody gave or asked for: parts of the tensor then
        with facula.no_grad(), _C.DisableTorchFunctionSubclass():
            self._check(total)

    @staticmethod
    def of(offsets, lengths=None, total=None):
        """Return the structure of these tensors: the same object for the same tensors."""
        source = offsets if lengths is None else lengths
        found = _structures.get(id(source))
        # The identity alone is not enough: it may belong to another tensor by now, or to one with other lengths.
        if found is None or found.offsets is not offsets or found.lengths is not lengths:
            found = _structures[id(source)] = Ragged(offsets, lengths, total)
        elif total is not None and found.end > total:
            raise RuntimeError(f"nested_tensor: the offsets end at {found.end}, got values with {total} rows")
        return found

    def _check(self, total):
        for name, tensor in (("offsets", self.offsets), ("lengths", self.lengths)):
            if tensor is None:
                continue
            whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is facula.bool)
            if tensor.dim() != 1 or not whole:
                found = f"{tensor.dtype} of shape {tuple(tensor.shape)}"
                raise RuntimeError(f"nested_tensor: {name} must be integers in one dimension, got {found}")
        if self.offsets.numel() < 1 + (self.lengths is None and self.offsets.numel() == 0):
            raise RuntimeError("nested_tensor: offsets say where sequences begin and where the last ends, got none")
        if self.lengths is not None and self.offsets.numel() not in (self.lengths.numel(), self.lengths.numel() + 1):
            found = f"{self.lengths.numel()} lengths and {self.offsets.numel()} offsets"
            raise RuntimeError(f"nested_tensor: there must be a length for each offset, got {found}")
        if self.offsets.is_meta:
            return
        starts, lengths = self.starts, self.sizes
        if any(start < 0 or length < 0 for start, length in zip(starts, lengths, strict=True)):
            raise RuntimeError(f"nested_tensor: offsets must not fall and lengths not be negative, got {starts}, {lengths}")
        if total is not None and self.end > total:
            raise RuntimeError(f"nested_tensor: the sequences end at row {self.end}, got values with {total} rows")

    def _once(self, name, make):
        if name not in self._known:
            with facula.no_grad(), _C.DisableTorchFunctionSubclass():
                self._known[name] = make()
        return self._known[name]

    @property
    def count(self):
        """Number of sequences."""
        return self.offsets.numel() - 1 if self.lengths is None else self.lengths.numel()

    @property
    def starts(self):
        """Where each sequence begins, as a list."""
        return self._once("starts", lambda: self.offsets[: self.count].tolist())

    @property
    def sizes(self):
        """How long each sequence is, as a list."""
        return self._once("sizes", lambda: (self.offsets.diff() if self.lengths is None else self.lengths).tolist())

    @property
    def longest(self):
        """The length of the longest sequence."""
        return max(self.sizes, default=0)

    @property
    def shortest(self):
        """The length of the shortest sequence."""
        return min(self.sizes, default=0)

    @property
    def end(self):
        """Behind the last row of any sequence."""
        return max((start + size for start, size in zip(self.starts, self.sizes, strict=True)), default=0)

    def is_packed(self, total):
        """Return whether the sequences have all rows, in order."""
        return self.lengths is None and self.starts[:1] in ([], [0]) and self.end == total

    @property
    def owners(self):
        """For each row in the order of the sequences, the number of its sequence."""

        def make():
            sizes = facula.tensor(self.sizes, dtype=facula.int64, device=self.offsets.device)
            return facula.arange(self.count, device=self.offsets.device).repeat_interleave(sizes)

        return self._once("owners", make)

    @property
    def places(self):
        """For each row in the order of the sequences, its place in the sequence."""

        def make():
            begins = [0, *itertools.accumulate(self.sizes)][:-1]
            begins = facula.tensor(begins, dtype=facula.int64, device=self.offsets.device)
            return facula.arange(len(self.owners), device=self.offsets.device) - begins[self.owners]

        return self._once("places", make)

    @property
    def rows(self):
        """Where the rows are, in the order of the sequences."""

        def make():
            starts = facula.tensor(self.starts, dtype=facula.int64, device=self.offsets.device)
            return starts[self.owners] + self.places

        return self._once("rows", make)

    @property
    def packed(self):
        """The structure of the same sequences without gaps."""

        def make():
            ends = [0, *itertools.accumulate(self.sizes)]
            return Ragged(facula.tensor(ends, dtype=self.offsets.dtype, device=self.offsets.device))

        return self._once("packed", make)

    def on(self, device):
        """Return the same structure on another device."""
        if device == self.offsets.device:
            return self
        return self._once(device, lambda: self._moved(device))

    def _moved(self, device):
        made = Ragged.__new__(Ragged)
        made.offsets, made.symbol = self.offsets.to(device), self.symbol
        made.lengths = None if self.lengths is None else self.lengths.to(device)
        symbols[made.offsets if made.lengths is None else made.lengths] = self.symbol
        made._known = {"starts": self.starts, "sizes": self.sizes}
        made.stated = set(self.stated)
        return made

    def is_like(self, other):
        """Return whether both are of one structure, apart from gaps."""
        if self.symbol == other.symbol:
            return True
        return self._known.get("packed", self).symbol == other._known.get("packed", other).symbol
