"""Differences from PyTorch that are on purpose, each with its reason; `differences.py` applies the table."""

from __future__ import annotations

from typing import NamedTuple


class Accepted(NamedTuple):
    reason: str
    kind: str  # regular expressions: of the kind of difference,
    statement: str = ""  # of the statement at which it is seen,
    program: str = ""  # of the program up to there,
    said: str = ""  # and of the texts of both exceptions, "PyTorch's | Facula's"


ACCEPTED: list[Accepted] = []
