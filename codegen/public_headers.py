"""Collect the headers of the package.

    python -m codegen.public_headers --source src --generated build/gen --public include --out build/include

It copies the headers that programs include (the folder `include`), and the headers of the sources that those include.
The latter get `facula/` in front of their names, so that they cannot be mistaken for headers of a program.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def closure(public: list[Path], places: list[Path]) -> dict[str, Path]:
    """Name in an include -> file, of all headers that the public ones reach."""
    found: dict[str, Path] = {}
    waiting = [name for path in public for name in INCLUDE.findall(path.read_text())]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = next((place / name for place in places if (place / name).exists()), None)
        if path is None:
            raise FileNotFoundError(f"{name}: a public header includes it, and it is in none of {', '.join(map(str, places))}")
        found[name] = path
        waiting += INCLUDE.findall(path.read_text())
    return found


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="public_headers", description=__doc__)
    for name in ("source", "generated", "public", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    public = {path.relative_to(options.public): path for path in sorted(options.public.rglob("*.h"))}
    public |= {path.relative_to(options.generated): path for path in sorted((options.generated / "compat").rglob("*.h"))}
    reached = closure(list(public.values()), [options.source, options.generated])
    wanted = {**public, **{Path("facula") / name: path for name, path in reached.items()}}
    written = {write(options.out / name, INCLUDE.sub(r"#include <facula/\1>", path.read_text())) for name, path in wanted.items()}
    for stale in set(options.out.rglob("*.h")) - written:
        stale.unlink()


if __name__ == "__main__":
    main()
