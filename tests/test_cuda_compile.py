"""Kernels of the CUDA backend as files: the disk cache, the log of kernels, filling the cache ahead, and NVIDIA's compiler."""

import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "import facula as t; x = t.arange(10., device='cuda'); print((x * 2 + 1).sum().item())"
EXPECTED = "100.0"
NO_COMPILER = {"PATH": "/nowhere"}


def start(cache, program=PROGRAM, emulated=True, **more):
    environment = {**os.environ, "FACULA_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path), **more}
    environment.pop("FACULA_CUDA", None)
    if emulated:
        environment["FACULA_CUDA"] = "emulated"
    command = [sys.executable, *(program if isinstance(program, list) else ["-c", program])]
    return subprocess.Popen(command, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(cache, *args, **more):
    child = start(cache, *args, **more)
    out, err = child.communicate(timeout=120)
    return child.returncode, out.strip(), err


def output(cache, *args, **more):
    code, out, err = run(cache, *args, **more)
    assert code == 0, err
    return out


def files(cache):
    return sorted((cache / "cuda").iterdir())


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with the program's kernels."""
    cache = tmp_path_factory.mktemp("cache")
    assert output(cache) == EXPECTED
    return cache


def copied(filled, tmp_path):
    (tmp_path / "cuda").mkdir()
    for file in files(filled):
        (tmp_path / "cuda" / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_second_process_compiles_nothing(filled, tmp_path):
    assert output(filled, **NO_COMPILER) == EXPECTED
    code, _, err = run(tmp_path, **NO_COMPILER)  # and with an empty cache it would have had to
    assert code != 0 and "needs a C++ compiler" in err


@pytest.mark.parametrize("damage", ["empty", "short", "bit", "length", "other", "magic"])
def test_damaged_files_are_replaced(filled, tmp_path, damage):
    cache = copied(filled, tmp_path)
    whole = {file: file.read_bytes() for file in files(cache)}
    others = dict(zip(whole, [*list(whole.values())[1:], list(whole.values())[0]]))
    assert len(whole) > 1
    for file, data in whole.items():
        middle = len(data) // 2
        file.write_bytes({
            "empty": b"",
            "short": data[:middle],
            "bit": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "length": data[:21] + b"\xff" * 8 + data[29:],
            "other": others[file],  # whole, but of another key
            "magic": b"F" + data[1:],
        }[damage])  # fmt: skip
    assert output(cache) == EXPECTED
    assert output(cache, **NO_COMPILER) == EXPECTED
    assert [file.name for file in files(cache)] == [file.name for file in whole]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert output(tmp_path / "file") == EXPECTED
    assert (tmp_path / "file").read_text() == ""


def test_no_folder_at_all(tmp_path):
    assert output("", HOME="", XDG_CACHE_HOME="") == EXPECTED
    assert output("", HOME=str(tmp_path), XDG_CACHE_HOME="") == EXPECTED
    assert any((tmp_path / ".cache" / "facula" / "cuda").iterdir())


def test_processes_share_a_folder(filled, tmp_path):
    children = [start(tmp_path) for _ in range(4)]
    for child in children:
        out, err = child.communicate(timeout=300)
        assert child.returncode == 0 and out.strip() == EXPECTED, err
    assert [file.name for file in files(tmp_path)] == [file.name for file in files(filled)]  # no file half written
    assert output(tmp_path, **NO_COMPILER) == EXPECTED


def test_another_compiler_has_its_own_files(filled, tmp_path):
    cache = copied(filled, tmp_path)
    before = files(cache)
    assert output(cache, FACULA_EMULATED_FLAGS="-O0") == EXPECTED
    assert len(files(cache)) == 2 * len(before)
    code, _, err = run(cache, FACULA_EMULATED_FLAGS="-Os", **NO_COMPILER)
    assert code != 0 and "needs a C++ compiler" in err


def test_files_are_small(filled):
    assert all(file.stat().st_size < 200_000 for file in files(filled))


# ---- families: what is compiled behind a call


FAMILY = """
import os, sys, time
import facula as t
from facula import _C
x = t.ones(64, device="cuda")
y = x.exp()
z = t.zeros(4, 1024, device="cuda") + t.zeros(1024, device="cuda")
{more}
print(_C._cuda_families(), y[0].item() > 2.7)
"""
NETWORK_DTYPES = """
for d in (t.float32, t.bfloat16, t.float16):
    matrix, row, column = (t.zeros(*shape, device="cuda", dtype=d) for shape in ((4, 1024), (1024,), (4, 1)))
    matrix.exp(), matrix + row, matrix + column, matrix + matrix
    matrix.view(-1)[1:1025] + matrix.view(-1)[:1024]
"""


def test_a_family_is_compiled_behind_its_first_kernel(tmp_path):
    on = {"FACULA_CUDA_FAMILIES": "background"}
    out = output(tmp_path, FAMILY.format(more="_C._cuda_finish_families()"), **on)
    counts, works = eval(out.replace(" True", ", True"))
    assert works and counts["kernels"] >= 6 and counts["programs"] >= 1
    images = [f for f in files(tmp_path) if f.suffix == ".image"]
    assert 1 <= len(images) <= counts["programs"]  # what was compiled as one program is one file
    assert not [f for f in files(tmp_path) if f.name.startswith(".family")]
    # whoever comes later finds all of them, and the compiler is not needed
    assert output(tmp_path, FAMILY.format(more=NETWORK_DTYPES), **NO_COMPILER).endswith("True")


def test_a_family_without_its_image_is_compiled_anew(tmp_path):
    on = {"FACULA_CUDA_FAMILIES": "background"}
    output(tmp_path, FAMILY.format(more="_C._cuda_finish_families()"), **on)
    for file in files(tmp_path):
        if file.suffix == ".image":
            file.write_bytes(file.read_bytes()[:-9] + b"damaged! ")
    assert output(tmp_path, FAMILY.format(more=NETWORK_DTYPES)).endswith("True")


@pytest.mark.parametrize("more", ["", "time.sleep(0.7)", "os._exit(0)"])
def test_a_process_ends_while_a_family_is_compiled(tmp_path, more):
    """In the pause before it begins, and in the middle of it; what others find is whole."""
    code, _, err = run(tmp_path, FAMILY.format(more=more), FACULA_CUDA_FAMILIES="background")
    assert code == 0, err
    assert output(tmp_path, FAMILY.format(more=NETWORK_DTYPES)).endswith("True")


def test_a_forked_child_has_no_threads_to_wait_for(tmp_path):
    """It is refused the device, and ends by itself, with and without an exit."""
    more = """
time.sleep(0.7)  # the family is being compiled
for leave in (sys.exit, os._exit):
    child = os.fork()
    if child == 0:
        _C._cuda_finish_families()
        leave(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
_C._cuda_finish_families()
"""
    out = output(tmp_path, FAMILY.format(more=more), FACULA_CUDA_FAMILIES="background")
    assert out.endswith("True") and "'kernels': 0" not in out


def test_families_of_several_processes(tmp_path):
    children = [start(tmp_path, FAMILY.format(more="_C._cuda_finish_families()"), FACULA_CUDA_FAMILIES="background") for _ in range(3)]
    for child in children:
        out, err = child.communicate(timeout=240)
        assert child.returncode == 0 and out.strip().endswith("True"), err
    assert output(tmp_path, FAMILY.format(more=NETWORK_DTYPES), **NO_COMPILER).endswith("True")


def test_families_are_off_where_they_are_not_asked_for(tmp_path):
    assert "'kernels': 0" in output(tmp_path, FAMILY.format(more="_C._cuda_finish_families()"))
    assert not [f for f in files(tmp_path) if f.suffix == ".image"]


# ---- in which order NVIDIA's libraries are opened


LIBRARY = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void look(void) {{
  FILE* to = fopen(getenv("SEEN"), "a");
  fprintf(to, "{name}");
  const char* names[] = {{{needs}}};
  for (int i = 0; names[i]; ++i) fprintf(to, " %d", dlopen(names[i], RTLD_NOW) != NULL);
  fprintf(to, "\\n");
  fclose(to);
}}
void {probe}(void) {{}}
"""


def test_what_a_library_opens_by_its_name_is_there_before(tmp_path):
    """Each lies in a folder that the loader does not look into; as cuDNN, they open others by bare names."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    folders = [tmp_path / "one", tmp_path / "two" / "lib64"]
    libraries = (
        ("libcudnn.so.9", 0, "cudnnBackendExecute", ("libcudnn_graph.so.9", "libcublasLt.so.12", "libnvrtc.so.12")),
        ("libcudnn_graph.so.9", 1, "graph", ("libcublasLt.so.12",)),
        ("libcublasLt.so.12", 1, "cublasLtMatmul", ()),
        ("libnvrtc.so.12", 1, "nvrtcVersion", ()),
        ("libcusolver.so.11", 1, "cusolverDnCreate", ("libcublas.so.12", "libcusparse.so.12", "libnvJitLink.so.12")),
        ("libcublas.so.12", 0, "cublas", ("libcublasLt.so.12",)), ("libcusparse.so.12", 0, "cusparse", ("libnvJitLink.so.12",)),
        ("libnvJitLink.so.12", 0, "link", ()),
    )  # fmt: skip
    for name, folder, probe, needs in libraries:
        folders[folder].mkdir(parents=True, exist_ok=True)
        source = tmp_path / "library.c"
        source.write_text(LIBRARY.format(name=name, probe=probe, needs="".join(f'"{n}", ' for n in needs) + "0"))
        target = folders[folder] / name
        command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(target), str(source), "-ldl"]
        subprocess.run(command, check=True)
    seen = tmp_path / "seen"
    program = "import facula; facula.cuda.libraries(); print('ok')"
    variables = {"FACULA_CUDA_LIBRARIES": str(folders[0]), "CUDA_HOME": str(tmp_path / "two"), "SEEN": str(seen)}
    assert output(tmp_path, program, emulated=False, **variables) == "ok"
    lines = [line.split() for line in seen.read_text().splitlines()]
    assert {name for name, *_ in lines} >= {name for name, *_ in libraries}
    missing = [line for line in lines if "0" in line[1:]]
    assert not missing, missing


def test_log_of_kernels(filled, tmp_path):
    log = tmp_path / "kernels.jsonl"
    assert output(filled, FACULA_CUDA_LOG_KERNELS=str(log)) == EXPECTED
    kernels = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(kernels) == len(files(filled))  # those from the disk, too
    assert all("#include" in source and "facula::cuda::" in name for source, name, _, _ in kernels)
    assert all(sizes and all(isinstance(n, int) and n > 0 for n in sizes) for _, _, sizes, _ in kernels)
    assert all(32 <= threads <= 1024 for *_, threads in kernels)
    code, _, err = run(filled, FACULA_CUDA_LOG_KERNELS=str(tmp_path / "none" / "log"))
    assert code != 0 and "FACULA_CUDA_LOG_KERNELS" in err


def test_warm(filled, tmp_path):
    log = tmp_path / "kernels.jsonl"
    output(filled, FACULA_CUDA_LOG_KERNELS=str(log))
    warm = ["-m", "facula.cuda.warm", "--arch", "90", "--list", str(log)]
    count = len(files(filled))
    cache = tmp_path / "cache"
    assert f"{count} kernels for sm_90, {count} of them compiled" in output(cache, warm)
    assert f"{count} kernels for sm_90, 0 of them compiled" in output(cache, warm)
    assert output(cache, **NO_COMPILER) == EXPECTED
    log.write_text('["a"]\n')
    code, _, err = run(cache, warm)
    assert code != 0 and "line 1: a kernel [source, name, sizes] is expected" in err


# ---- NVIDIA's compiler, where it is installed; it needs no GPU


def nvrtc_folder():
    if folder := os.environ.get("FACULA_CUDA_LIBRARIES"):
        return folder
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations if spec else ():
        for found in Path(place).glob("**/libnvrtc.so.1[23]"):
            return str(found.parent)
    try:
        ctypes.CDLL("libnvrtc.so.13")
    except OSError:
        return None
    return ""


needs_nvrtc = pytest.mark.skipif(nvrtc_folder() is None, reason="needs the package nvidia-cuda-nvrtc")


@needs_nvrtc
def test_real_compiler(filled, tmp_path):
    log = tmp_path / "kernels.jsonl"
    output(filled, FACULA_CUDA_LOG_KERNELS=str(log))
    tool = [str(ROOT / ".ci" / "compile_kernels.py"), "--list", str(log), "--arch", "75,100", "--jobs", "1"]
    real = {"emulated": False, "FACULA_CUDA_LIBRARIES": nvrtc_folder()}
    output(tmp_path, [*tool, "--heaviest", "1"], **real)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[0][2][0] += 4
    lines[1][0] = lines[1][0].replace("facula", "facul")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, _ = run(tmp_path, tool, **real)
    assert code == 1 and "the host gives" in out and "name expression" in out, out


@needs_nvrtc
def test_warm_with_the_real_compiler(filled, tmp_path):
    log = tmp_path / "kernels.jsonl"
    output(filled, FACULA_CUDA_LOG_KERNELS=str(log))
    real = {"emulated": False, "FACULA_CUDA_LIBRARIES": nvrtc_folder()}
    count = len(files(filled))
    warm = ["-m", "facula.cuda.warm", "--arch", "80", "--list", str(log)]
    assert f"{count} of them compiled" in output(tmp_path, warm, **real)
    assert "0 of them compiled" in output(tmp_path, warm, **real)


def test_without_a_compiler(tmp_path):
    program = "from facula import _C\n_C._cuda_compile('', 'k', 90)"
    code, _, err = run(tmp_path, program, emulated=False, FACULA_CUDA_LIBRARIES="", CUDA_HOME="")
    if nvrtc_folder() is None:
        assert code != 0 and "nvidia-cuda-nvrtc" in err
    else:
        assert code != 0 and "RuntimeError" in err
