"""Wheels as their users get them: each in an empty environment of its own, at the same time.

    python .ci/check_wheels.py dist/*.whl [--tests [FILE ...]] [--python cp310=/path/to/python3.10 ...]

Every wheel is installed twice, the second time as another version. Both copies train a little while the other one is running,
and must map nothing of Facula's that lies outside of their own environment, write nothing into an environment, and say their
own version. With --tests the suite, or the files of it that are named, then runs on the first copy, outside the checkout.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import sys, time
import facula as torch
from facula import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(20):
    loss = nn.functional.cross_entropy(net(torch.randn(8, 1, 8, 8)), torch.arange(8) % 2)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
torch.linalg.svd(torch.randn(5, 5))
mapped = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if ".so" in line}
print(torch.__version__, *sorted(path for path in mapped if not path.startswith(("/usr/lib", "/lib"))), sep="\\n")
sys.stdout.flush()
time.sleep(3)  # the other copy runs meanwhile
"""


def renamed(wheel: Path, version: str, folder: Path) -> Path:
    """Return the same wheel as another version: its name, metadata and the version that Facula says; RECORD follows."""
    old = wheel.name.split("-")[1]
    target = folder / wheel.name.replace(f"-{old}-", f"-{version}-", 1)
    rows = []
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for info in source.infolist():
            data = source.read(info)
            name = info.filename.replace(f"facula-{old}.dist-info", f"facula-{version}.dist-info")
            if name.endswith("/RECORD"):
                record = name
                continue
            if name.endswith("/METADATA"):
                data = re.sub(rf"(?m)^Version: {re.escape(old)}$".encode(), f"Version: {version}".encode(), data)
            if name == "facula/torch_version.py":
                data = data.replace(f"+facula{old}".encode(), f"+facula{version}".encode())
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = info.external_attr, zipfile.ZIP_DEFLATED
            made.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append((name, f"sha256={digest}", len(data)))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
        made.writestr(record, text.getvalue())
    return target


def environment(python: str, folder: Path, wheel: Path) -> Path:
    if python == sys.executable:
        venv.create(folder, with_pip=True)
    else:
        subprocess.run([python, "-m", "venv", folder], check=True)
    inside = folder / "bin" / "python"
    subprocess.run([inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True)
    return inside


def files(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"}


def unbuilt(root: Path, folder: Path) -> Path:
    """Return a copy of a checkout without what was built there, so that its tests import the installed package."""
    left = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "_C", "_C.*", "__pycache__")
    return Path(shutil.copytree(root, folder, ignore=left))


def check(wheel: Path, python: str, tests: list[str] | None) -> None:
    version = wheel.name.split("-")[1]
    other = version.rpartition(".")[0] + f".{int(version.rpartition('.')[2]) + 1}"
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given).resolve()
        copies = {version: wheel.resolve(), other: renamed(wheel, other, folder)}
        homes = {name: folder / f"with {name}" for name in copies}
        inside = {name: environment(python, homes[name], path) for name, path in copies.items()}
        for home in homes.values():
            subprocess.run([home / "bin" / "facula-run", "--help"], check=True, stdout=subprocess.DEVNULL)
        before = {name: files(home) for name, home in homes.items()}
        started = {
            name: subprocess.Popen([path, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, cwd=folder)
            for name, path in inside.items()
        }
        for name, process in started.items():
            said, *mapped = process.communicate(timeout=300)[0].splitlines()
            strangers = [path for path in mapped if "facula" in path and not path.startswith(f"{homes[name]}/")]
            if process.returncode or not said.endswith(f"+facula{name}") or strangers:
                raise SystemExit(f"check_wheels: {wheel.name}: {name} says {said!r}, and maps {strangers}")
            if not any(path.endswith("libfacula.so") for path in mapped):
                raise SystemExit(f"check_wheels: {wheel.name}: {name} maps no libfacula.so, but {mapped}")
        if before != {name: files(home) for name, home in homes.items()}:
            raise SystemExit(f"check_wheels: {wheel.name}: running it has written into an environment")
        print(f"{wheel.name}: two versions side by side share nothing", flush=True)
        if tests is not None:
            subprocess.run([inside[version], "-m", "pip", "install", "--quiet", f"{wheel.resolve()}[test]"], check=True)
            run = [inside[version], "-m", "pytest", "-q", "-p", "no:cacheprovider", *(tests or ["tests"])]
            subprocess.run(run, check=True, cwd=unbuilt(ROOT, folder / "checkout"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="*", metavar="FILE", help="run the suite, or these files of it")
    parser.add_argument("--python", nargs="*", default=[], help="which Python a tag means, as cp312=/path/to/python3.12")
    options = parser.parse_args()
    own = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    known = {own: sys.executable, **dict(given.split("=", 1) for given in options.python)}
    for wheel in options.wheels:
        tag = wheel.name.split("-")[2]
        if tag not in known:
            raise SystemExit(f"check_wheels: give --python {tag}=/path/to/its/python for {wheel.name}")
        check(wheel, known[tag], options.tests)


if __name__ == "__main__":
    main()
