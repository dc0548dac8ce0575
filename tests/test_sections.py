"""How many docstrings say what is returned, what their parameters are and which errors they raise: no room falls behind."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from codegen import docstrings, sections  # noqa: E402  (beside the package, not in it)

#: Of rooms: how many names do not say what is returned, have a parameter without a sentence, leave out an error. Numbers may fall.
MISSING = {
    "amp": (0, 1, 0), "ao": (3, 1, 1), "array_api": (14, 1, 0), "autograd": (2, 3, 0), "backends": (1, 0, 0),
    "compiler": (2, 0, 1), "distributed": (3, 3, 0), "distributions": (5, 3, 0), "export": (2, 0, 1), "fx": (21, 2, 6),
    "hub": (1, 0, 0), "jit": (0, 0, 1), "library": (7, 0, 1), "multiprocessing": (0, 5, 0), "nested": (1, 0, 1),
    "nn": (3, 2, 0), "nn.utils": (6, 0, 0), "onnx": (3, 1, 2), "ops": (1, 0, 27), "overrides": (1, 0, 0),
    "package": (3, 16, 1), "profiler": (1, 0, 0), "quantization": (10, 4, 0), "serialization": (0, 1, 0),
    "signal": (4, 0, 0), "torch": (4, 18, 1), "torch.Tensor": (0, 5, 1), "utils": (4, 23, 2),
}  # fmt: skip
ROWS = sections.table()


@pytest.mark.parametrize("room", sorted(ROWS))
def test_no_room_falls_behind(room):
    allowed = dict(zip(sections.KINDS, MISSING.get(room, (0, 0, 0)), strict=True))
    missing = {kind: found.missing for kind, found in ROWS[room].items() if len(found.missing) > allowed[kind]}
    assert not missing, f"{missing}; more than {allowed}; python -m codegen.sections {room}"


def test_every_room_is_counted():
    assert {"ops", "torch", "torch.Tensor", "nn", "nn.functional", "optim", "cuda", "distributed", "autograd"} <= ROWS.keys()
    totals = {kind: sum(room[kind].total for room in ROWS.values()) for kind in sections.KINDS}
    assert totals["returns"] > 2000 and totals["parameters"] > 2500 and totals["errors"] > 1100, totals
    assert set(MISSING) <= set(ROWS)


def of(function, owner=None):
    return dict(sections.of_python(docstrings.Name("torch", function.__name__, function, owner)))


def test_what_counts():
    def whole(x: "Tensor", scale: float = 1) -> "Tensor":  # noqa: F821
        """Multiply.

        Args:
            x: any tensor.
            scale: the factor.

        Returns: a tensor of the shape of x.

        Errors: ValueError for a scale of 0.
        """
        if not scale:
            raise ValueError("scale")

    def half(x: "Tensor", scale: float = 1) -> "Tensor":  # noqa: F821
        """Return what comes.

        Args:
            x: any tensor.
        """
        if not scale:
            raise ValueError("scale")

    def quiet() -> None:
        """Do nothing."""

    whole.__module__ = half.__module__ = "facula.functions"  # errors are looked for in the package
    assert of(whole) == {"returns": True, "parameters": True, "errors": True}
    assert of(half) == {"returns": False, "parameters": False, "errors": False}
    assert of(quiet) == {}


def test_arguments_of_methods_count_for_every_method():
    class Owner:
        """Something.

        Arguments of methods:
            tag: a name.
        """

        def method(self, tag: str) -> None:
            """Do it."""

    Owner.__module__ = "facula.nn"  # of other modules docstrings are not read
    assert of(Owner.method, Owner) == {"parameters": True}
