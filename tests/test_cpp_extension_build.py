"""Extensions in C++: what is compiled, and when; setup.py."""

import functools
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from cpp_extension_compiler import ENVIRONMENT, REASON, ROOT

from facula.utils import _cpp_build, cpp_extension

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


PLAIN = """
#include <Python.h>
#include "answer.h"
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plain", nullptr, -1, nullptr};
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
PyMODINIT_FUNC JOIN(PyInit_, TORCH_EXTENSION_NAME)() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "answer", ANSWER);
  return module;
}
"""


def test_only_what_changed_is_compiled_again(tmp_path, capfd):
    source, header = tmp_path / "plain.cpp", tmp_path / "answer.h"
    source.write_text(PLAIN)
    header.write_text("#define ANSWER 1\n")

    def load():
        module = cpp_extension.load("plain", [str(source)], build_directory=tmp_path / "build", verbose=True)
        return module.answer, capfd.readouterr().out.count(" -c ")

    (tmp_path / "build").mkdir()
    assert load() == (1, 1)
    assert load() == (1, 0)
    header.write_text("#define ANSWER 2\n")
    assert load() == (2, 1)
    assert load() == (2, 0)


def test_folders_are_keyed_by_sources_and_flags(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    assert cpp_extension.get_default_build_root() == str(tmp_path / "cache")
    source = tmp_path / "plain.cpp"
    source.write_text(PLAIN.replace('#include "answer.h"', ""))
    answers = [
        cpp_extension.load("plain", source, extra_cflags=[f"-DANSWER={answer}"], keep_intermediates=keep).answer
        for answer, keep in ((1, True), (2, True), (2, False), (1, False))
    ]
    assert answers == [1, 2, 2, 1]
    assert len(list((tmp_path / "cache").glob("plain-*"))) == 2
    assert not list((tmp_path / "cache").rglob("*.o"))


def test_two_processes_wait_for_each_other(tmp_path):
    source = tmp_path / "plain.cpp"
    source.write_text(PLAIN.replace('#include "answer.h"', ""))
    program = textwrap.dedent(f"""
        from facula.utils.cpp_extension import load
        module = load("plain", {str(source)!r}, extra_cflags=["-DANSWER=5"], build_directory={str(tmp_path / "build")!r}, verbose=True)
        print("answer", module.answer)
    """)
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert all("answer 5" in output for output in outputs)
    assert sum(output.count(" -c ") for output in outputs) == 1


def test_the_compilers_words(tmp_path):
    source = tmp_path / "wrong.cpp"
    source.write_text("int f() { return missing_name; }\n")
    with pytest.raises(RuntimeError, match="missing_name"):
        cpp_extension.load("wrong", source, build_directory=tmp_path)
    with pytest.raises(FileNotFoundError, match="there_is_none.cpp"):
        cpp_extension.load("wrong", tmp_path / "there_is_none.cpp")
    with pytest.raises(RuntimeError, match="no nvcc"):
        cpp_extension.load("wrong", tmp_path / "kernel.cu")
    with pytest.raises(RuntimeError, match="no nvcc"):
        cpp_extension.load_inline("wrong", "", cuda_sources="__global__ void f() {}")
    with pytest.raises(ValueError, match="name is an identifier"):
        cpp_extension.load("../wrong", source)
    with pytest.raises(TypeError, match="extra_cflags is a list"):
        cpp_extension.load("wrong", source, extra_cflags="-O2")


def test_a_program_of_its_own(tmp_path):
    source = tmp_path / "program.cpp"
    source.write_text('#include <cstdio>\nint main() { std::puts("ran"); }\n')
    path = cpp_extension.load("program", source, build_directory=tmp_path / "build", is_python_module=False, is_standalone=True)
    assert subprocess.run([path], capture_output=True, text=True).stdout == "ran\n"


def test_compilers_are_asked_what_they_are(monkeypatch):
    assert cpp_extension.check_compiler_ok_for_platform("c++")
    assert not cpp_extension.check_compiler_ok_for_platform("there-is-none")
    assert cpp_extension.is_ninja_available() == (shutil.which("ninja") is not None)
    monkeypatch.setenv("MAX_JOBS", "3")
    assert _cpp_build.workers() == 3
    monkeypatch.setenv("MAX_JOBS", "many")
    with pytest.raises(ValueError, match="MAX_JOBS"):
        _cpp_build.workers()


SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension
assert CUDA_HOME is None
setup(
    name="plain",
    ext_modules=[
        CppExtension("plain.first", ["first.cpp"], define_macros=[("ANSWER", "3")], extra_compile_args={"cxx": ["-O0"], "nvcc": ["-x"]}),
        CUDAExtension("plain.second", ["first.cpp"], extra_compile_args=["-DANSWER=4", "-std=c++17"]),
    ],
    packages=["plain"],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True, use_ninja=False)},
)
"""


def test_setup_py(tmp_path):
    pytest.importorskip("setuptools")
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "__init__.py").write_text("from . import first, second\n")
    (tmp_path / "first.cpp").write_text(PLAIN.replace('#include "answer.h"', "static_assert(__cplusplus >= 202002L);"))
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(tmp_path)])}

    def python(*command):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python("-m", "facula", "setup.py", "build_ext", "--inplace")
    assert {path.name for path in (tmp_path / "plain").glob("*.so")} == {"first.so", "second.so"}
    assert python("-c", "import facula, plain; print(plain.first.answer, plain.second.answer)").split() == ["3", "4"]


@pytest.mark.slow
def test_the_example_of_the_docs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pybind11")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setattr(cpp_extension, "load_inline", functools.partial(cpp_extension.load_inline, extra_cflags=["-O0"]))
    text = (ROOT / "docs" / "cpp_extensions.md").read_text()
    example = text.split("```python\n")[1].split("```")[0]
    exec(example, {})
    assert capsys.readouterr().out == text.split("```text\n")[1].split("```")[0]
