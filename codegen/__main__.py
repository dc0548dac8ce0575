"""Generate the code of all ops: `python -m codegen --ops ops --source src --out build/gen`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import (
    emit_autograd,
    emit_backend,
    emit_boxed,
    emit_cuda,
    emit_cxx,
    emit_ops,
    emit_python,
    emit_schema_json,
    emit_sparse,
    emit_stubs,
)
from .op import SchemaError
from .schema import load

EMITTERS = (emit_ops, emit_autograd, emit_boxed, emit_python, emit_schema_json, emit_sparse, emit_stubs)


class Writer:
    """Write a file only when its text has changed, so that ninja rebuilds little, and record the files that were written."""

    def __init__(self):
        self.files: list[Path] = []

    def __call__(self, path: Path, text: str) -> None:
        self.files.append(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="codegen", description=__doc__)
    parser.add_argument("--ops", type=Path, required=True, help="folder of the op schema")
    parser.add_argument("--out", type=Path, required=True, help="folder for the generated sources")
    parser.add_argument("--source", type=Path, required=True, help="folder src, for the backend's register functions")
    options = parser.parse_args()
    try:
        ops = load(options.ops)
    except SchemaError as error:
        print(error, file=sys.stderr)
        return 1
    writer = Writer()
    for emitter in EMITTERS:
        emitter.emit(ops, options.out, writer)
    emit_backend.emit(options.source, options.out, writer)
    emit_cuda.emit(ops, options.source, options.out, writer)
    emit_cxx.emit(ops, options.out / "compat/torch/detail", writer)
    # What no emitter writes any more must be neither compiled nor included.
    for stale in set(options.out.rglob("*.cpp")) | set(options.out.rglob("*.h")):
        if stale not in writer.files:
            stale.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
