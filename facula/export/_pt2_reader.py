"""Read PyTorch's archive of an exported program; `_pt2.py` describes its contents."""

from __future__ import annotations

import io
import os
import zipfile
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.export._pt2 import ArchiveError
from facula.export.exported_program import ExportedProgram
from facula.utils import _pytree

if TYPE_CHECKING:

    pass


def load(file) -> ExportedProgram:
    """Read an ExportedProgram.

    Args:
        file: a path, or a readable binary file.

    Errors: ArchiveError, a RuntimeError, for a file that is none, or has what is not known here; it says what.
    """
    if isinstance(file, (str, os.PathLike)):
        os.stat(file)  # says what is wrong with a path as Python does
        source = os.fsdecode(file)
    else:
        if file.seekable():
            file.seek(0)  # an archive is the whole of a file, wherever it stands
        source = file.read()
    try:
        program, in_spec, out_spec, names, examples = _C._load_program(source)
        specs = [_pytree.treespec_loads(spec) for spec in (in_spec, out_spec)]
    except RuntimeError as error:
        raise ArchiveError(str(error)) from None
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise ArchiveError(f"load: the program is damaged: {type(error).__name__}: {error}") from None
    _make_parameters(program)
    return ExportedProgram(program, *specs, _examples(examples), names)


def extra_files(file, names):
    """Return the bytes of those of the files `names` that stand beside the program of an archive.

    Args:
        file: a path, or a readable binary file.
    """
    found = {}
    if not names:
        return found
    if not isinstance(file, (str, os.PathLike)):
        file.seek(0)
    with zipfile.ZipFile(file) as archive:
        by_name = {name.partition("/")[2]: name for name in archive.namelist()}
        for name in names:
            if f"extra/{name}" in by_name:
                found[name] = archive.read(by_name[f"extra/{name}"])
    return found


def _make_parameters(program):
    """Give the parameters of a program their class; tied ones stay one."""
    made = {}
    for number, (kind, _, _, _, tensor, _) in enumerate(program.inputs):
        if kind == "parameter":
            if tensor not in made:
                made[tensor] = facula.nn.Parameter(tensor, requires_grad=tensor.requires_grad)
            program.hold(number, made[tensor])


def _examples(data):
    if data is None:
        return None
    try:
        return facula.load(io.BytesIO(data), weights_only=True)
    except Exception:  # examples are not needed to run it
        return None
