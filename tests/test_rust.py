"""The Rust crate: its own tests, its example, and that it declares the functions of include/facula.h as they are."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import facula
import facula.export
from facula import _C, nn

ROOT = Path(__file__).resolve().parents[1]
CRATE = ROOT / "bindings" / "rust"


def library_folder():
    """The folder that FACULA_DIR means: of the installed package, or the one that this checkout was built in."""
    for folder in (Path(facula.__file__).parent, Path(_C.__file__).resolve().parent):
        if (folder / "lib" / "libfacula.so").exists():
            return folder
    raise FileNotFoundError("libfacula.so is neither in the package nor in the build")


needs_cargo = pytest.mark.skipif(not shutil.which("cargo"), reason="no cargo (apt-get install cargo)")


def cargo(*arguments):
    folder = library_folder()
    libraries = os.pathsep.join(filter(None, [str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH")]))
    environment = dict(os.environ, FACULA_DIR=str(folder), CARGO_TARGET_DIR=str(ROOT / "build" / "rust"), LD_LIBRARY_PATH=libraries)
    command = ["cargo", arguments[0], "--offline", "--quiet", *arguments[1:]]
    return subprocess.run(command, cwd=CRATE, env=environment, capture_output=True, text=True)


@needs_cargo
def test_the_tests_of_the_crate():
    done = cargo("test")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    counts = [int(n) for n in re.findall(r"^test result: ok\. (\d+) passed; 0 failed; 0 ignored", done.stdout, re.M)]
    written = (CRATE / "tests" / "library.rs").read_text().count("#[test]")
    assert counts == [0, written, 1], done.stdout  # of the library, of tests/, of the documentation
    assert "warning" not in done.stderr, done.stderr


@needs_cargo
def test_the_example_learns_the_digits():
    done = cargo("run", "--example", "digits", "--", "4", str(ROOT / "examples" / "data" / "digits.csv.gz"))
    assert done.returncode == 0, done.stderr[-5000:]
    accuracies = [float(p) for p in re.findall(r"test accuracy ([\d.]+)%", done.stdout)]
    assert len(accuracies) == 4 and accuracies[-1] > 93, done.stdout


@needs_cargo
def test_the_example_runs_an_exported_program(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = facula.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])
    facula.export.save(facula.export.export(model, (x,)), tmp_path / "model.pt2")
    numbers = [str(n) for n in x.flatten().tolist()]
    done = cargo("run", "--example", "program", "--", str(tmp_path / "model.pt2"), "2,3", *numbers)
    assert done.returncode == 0, done.stderr[-5000:]
    *held, result = done.stdout.splitlines()
    assert held == [f"{name} {list(p.shape)} trained" for name, p in model.named_parameters()]
    assert facula.allclose(facula.tensor(json.loads(result)), model(x), rtol=1e-6)


@needs_cargo
def test_what_is_missing_is_said(tmp_path):
    environment = dict(os.environ, FACULA_DIR=str(tmp_path), CARGO_TARGET_DIR=str(ROOT / "build" / "rust"))
    done = subprocess.run(["cargo", "check", "--offline"], cwd=CRATE, env=environment, capture_output=True, text=True)
    assert done.returncode != 0 and f"there is no schema.json in {tmp_path}" in done.stderr


def declared(text, pattern):
    """Names of functions and how many arguments each has."""
    found = {}
    for name, arguments in re.findall(pattern, text, re.S):
        callbacks = re.sub(r"\([^()]*\)", "", arguments)  # of a function that is an argument
        found[name] = 0 if callbacks.strip() in ("", "void") else callbacks.count(",") + 1
    return found


def test_the_crate_declares_what_the_header_declares():
    plain = re.sub(r"/\*.*?\*/", "", (ROOT / "include" / "facula.h").read_text(), flags=re.S)
    header = declared(plain, r"FC_API [\w* ]+?\*? ?(fc_\w+)\(((?:[^()]|\([^()]*\))*)\);")
    crate = declared((CRATE / "src" / "sys.rs").read_text(), r"pub fn (fc_\w+)\(((?:[^()]|\([^()]*\))*)\)")
    assert len(header) > 70 and crate and crate == {name: header.get(name) for name in crate}
    numbers = dict(re.findall(r"#?(?:define )?(FC_\w+)(?: = | )(\d+)", plain))
    kinds = re.search(r"enum fc_kind \{(.*?)\}", plain, re.S).group(1)
    for i, name in enumerate(re.findall(r"FC_\w+", kinds)[:-1]):
        numbers[name] = str(i)
    for name, number in re.findall(r"pub const (FC_\w+): i32 = (\d+);", (CRATE / "src" / "sys.rs").read_text()):
        assert numbers[name] == number, name


def test_the_dtypes_of_the_crate_are_the_headers():
    header = re.search(r"enum fc_dtype \{(.*?)\}", (ROOT / "include" / "facula.h").read_text(), re.S).group(1)
    crate = re.search(r"pub enum DType \{(.*?)\}", (CRATE / "src" / "types.rs").read_text(), re.S).group(1)
    names = [name.removeprefix("FC_").replace("_", "").lower() for name in re.findall(r"FC_\w+", header)]
    assert names == [name.lower() for name in re.findall(r"\w+", crate)]
