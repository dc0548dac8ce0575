"""Builds the documentation site: `python docs/site/build.py [--out build/docs]`, or `make docs`.

`--only 'torch.nn.Conv*'` builds these pages of the API, for who works on them; links to others lead nowhere.

Gathers the sources (stage.py), lets Sphinx make HTML of them, with every warning an error, and follows all links
(check_links.py). What is asked for beside Facula: `pip install ".[docs]"`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="folder of the site")
    parser.add_argument("--only", default="", help="a pattern: the pages of the API to build, and nothing else")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes of Sphinx")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    start = time.time()
    source = options.out.parent / f"{options.out.name}-source"
    step("gathering", [sys.executable, str(HERE / "stage.py"), str(source), *filter(None, [options.only])])
    cache = options.out.parent / f"{options.out.name}-cache"
    sphinx = ["-W", "--keep-going", "-q", "-j", str(options.jobs), "-c", str(HERE.parent), "-d", str(cache)]
    clear(source, options.out)
    # `-m` puts the folder it starts in before what is installed: started in a checkout, it would import that, uncompiled
    step("Sphinx", [sys.executable, "-m", "sphinx", *sphinx, str(source), str(options.out)], folder=options.out.parent)
    if not options.only:
        step("links", [sys.executable, str(HERE / "check_links.py"), str(options.out)])
    print(f"{options.out / 'index.html'}: {used():.0f} s of processor time, {time.time() - start:.0f} s by the clock")
    return 0


def clear(source: Path, out: Path) -> None:
    """Take away pages whose sources are gone; Sphinx leaves them."""
    pages = {path.relative_to(source).with_suffix(".html") for path in source.rglob("*") if path.suffix in (".md", ".api")}
    for path in out.rglob("*.html"):
        if path.relative_to(out) not in pages and path.name != "search.html":
            path.unlink()


def used() -> float:
    """Return the seconds of processor time of all children so far."""
    times = os.times()
    return times.children_user + times.children_system


def step(name: str, command: list[str], folder: Path | None = None) -> None:
    before = used()
    paths = [os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    if subprocess.run(command, cwd=folder, env=environment).returncode:
        raise SystemExit(f"docs: {name} failed")
    print(f"{name}: {used() - before:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    sys.exit(main())
