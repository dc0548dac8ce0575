"""The C interface as docs/c_interface.md shows it: the program compiles as C and prints what the page says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_rust import library_folder

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "c_interface.md").read_text()
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(ROOT / "include")]

needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler (apt-get install gcc)")


def block(language):
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return text


@needs_cc
@pytest.mark.parametrize("standard", ["c11", "c17"])
def test_the_header_is_c(tmp_path, standard):
    (tmp_path / "header.c").write_text("#include <facula.h>\nint main(void) { return FC_OK; }\n")
    subprocess.run(["cc", f"-std={standard}", *STRICT, "-c", "header.c", "-o", "header.o"], cwd=tmp_path, check=True)


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
def test_the_header_is_cxx_too(tmp_path):
    (tmp_path / "header.cpp").write_text("#include <facula.h>\nint main() { return FC_OK; }\n")
    subprocess.run(["c++", "-std=c++11", *STRICT, "-c", "header.cpp", "-o", "header.o"], cwd=tmp_path, check=True)


@needs_cc
def test_the_program_of_the_page(tmp_path):
    (tmp_path / "program.c").write_text(block("c"))
    libraries = library_folder() / "lib"
    link = ["-L", str(libraries), "-lfacula", f"-Wl,-rpath,{libraries}"]
    subprocess.run(["cc", "-std=c11", *STRICT, "program.c", *link, "-o", "program"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    assert done.stdout == block("text") and done.stderr == ""
