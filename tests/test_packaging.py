"""What the package says of itself: one version everywhere, a changelog that has it, extras that name what files import."""

import importlib.metadata
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import facula

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / ".ci"))

import check_wheels  # noqa: E402  (beside the package, not in it)
from requirements import read  # noqa: E402

VERSION = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M).group(1)


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("CHANGELOG.md", r"^## ([\d.]+)"), ("CITATION.cff", r"^version: (.*)$"), ("bindings/rust/Cargo.toml", r'^version = "(.*)"$'),
        ("include/facula.h", r'fc_version.*"([\d.]+)"'),
    ],
)  # fmt: skip
def test_files_name_the_version(file, pattern):
    assert re.search(pattern, (ROOT / file).read_text(), re.M).group(1) == VERSION


def test_the_package_says_its_version():
    assert facula.__version__.endswith(f"+facula{VERSION}")
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)  # semver.org


def test_extras_are_lists_of_requirements():
    for extra in ("cuda", "cuda13", "docs", "examples", "extensions", "lint", "test", "wheel"):
        assert all(re.match(r"[\w.-]+(\[\w+\])?([<>=]|$)", wanted) for wanted in read(extra)), extra


def test_the_installed_package_has_the_version():
    try:
        found = importlib.metadata.version("facula")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("a checkout is used, no package is installed")
    assert found == VERSION


def test_templates_ask_what_the_package_prints():
    asked = " ".join(path.read_text() for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert "python -m facula.utils.collect_env" in asked
    run = subprocess.run([sys.executable, "-m", "facula.utils.collect_env"], capture_output=True, text=True, check=True)
    assert facula.__version__ in run.stdout


def test_files_name_the_pythons_that_were_tested():
    tested = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    wheels = (ROOT / "docs" / "internals" / "wheels.md").read_text()
    listed = f"{', '.join(tested[:-1])} and {tested[-1]}"
    assert tested and tested == re.findall(r"^\| (3\.\d+) \|", wheels, re.M)
    assert f"The tests run on {listed} (" in (ROOT / "docs" / "installation.md").read_text()
    assert f"tested on CPython {listed}." in (ROOT / "CHANGELOG.md").read_text()


def test_a_wheel_as_another_version(tmp_path):
    wheel = tmp_path / "facula-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("facula/torch_version.py", '__version__ = TorchVersion("2.13.0+facula0.1.0")\n')
        file.writestr("facula-0.1.0.dist-info/METADATA", "Name: facula\nVersion: 0.1.0\n")
        file.writestr("facula-0.1.0.dist-info/RECORD", "facula/torch_version.py,,\n")
    made = check_wheels.renamed(wheel, "0.1.1", tmp_path)
    with zipfile.ZipFile(made) as file:
        assert b"+facula0.1.1" in file.read("facula/torch_version.py")
        assert b"Version: 0.1.1" in file.read("facula-0.1.1.dist-info/METADATA")
        rows = file.read("facula-0.1.1.dist-info/RECORD").decode().splitlines()
    assert made.name == "facula-0.1.1-cp311-cp311-linux_x86_64.whl" and len(rows) == 3 and all("0.1.0" not in row for row in rows)


def test_wheels_are_tested_outside_what_was_built(tmp_path):
    kept = ["facula/__init__.py", "facula/distributed/__init__.py", "tests/test_tiny.py"]
    for name in [*kept, "facula/_C.cpython-311-x86_64-linux-gnu.so", "facula/_C/__init__.pyi", "build/dev/a", ".venv312/a", ".git/a"]:
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).touch()
    made = check_wheels.unbuilt(tmp_path / "from", tmp_path / "to")
    assert sorted(str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()) == kept
