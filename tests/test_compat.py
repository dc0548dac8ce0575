"""PyTorch programs under `python -m facula`: the name torch, child processes, metadata, placeholders."""

import os
import subprocess
import sys
import textwrap
import types

import pytest
from compat_runs import environment, run

import facula
from facula.torch_version import TorchVersion
from facula.utils import _pytree as pytree


def test_torch_is_facula():
    assert run(
        """
        import torch, facula, sys
        import torch.nn as nn
        import torch.nn.functional as F
        from torch import Tensor
        from torch.utils.data import Dataset
        import facula.nn.functional, facula.utils.data
        print(torch is facula, nn is facula.nn, F is facula.nn.functional, Tensor is facula.Tensor,
              Dataset is facula.utils.data.Dataset, sys.modules["torch.nn"] is sys.modules["facula.nn"],
              nn.__spec__.name, torch.__spec__ is not None, torch.__path__ == facula.__path__)
        """,
        option="-c",
    ) == ["True"] * 6 + ["facula.nn", "True", "True"]


def test_importing_loads_nothing_of_compat():
    """Which modules that most programs import do not need, and what it brings along."""
    program = """
        import sys
        import facula
        facula.nn, facula.optim, facula.distributions, facula.utils.data
        from facula._C import Size
        from facula.nn.functional import relu
        loaded = [name for name in sys.modules if name.startswith(("facula.compat", "importlib.metadata", "email"))]
        assert not loaded, loaded
        from facula.compat import aliases
        assert not any(name.startswith(("importlib.metadata", "importlib.abc")) for name in sys.modules)
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_the_distribution_torch_is_found():
    assert (
        run(
            """
        import importlib.metadata, importlib.util
        print(importlib.util.find_spec("torch") is not None, importlib.metadata.version("torch"))
        print("torch" in importlib.metadata.packages_distributions())
        import torch
        print(torch.__name__, torch.torch is torch, torch.__version__ >= "2.4", torch.__version__ >= (2, 13))
        print(torch.version.cuda, torch.cuda.is_available())
        print(importlib.util.find_spec("torch") is not None, importlib.util.find_spec("torch.no_such_module"))
        """,
            option="-c",
        )
        == f"True {facula.__version__} True torch True True True None False True None".split()
    )


def test_a_program_runs_as_main_with_its_arguments(tmp_path):
    (tmp_path / "helper.py").write_text("value = 'found'")
    assert run(
        """
        import os, sys, helper
        if __name__ == "__main__":
            print(*sys.argv[1:], os.path.basename(__file__))
            print(helper.value, sys.modules["__main__"].helper.value)
        """,
        "--epochs",
        "3",
        folder=tmp_path,
    ) == ["--epochs", "3", "program.py", "found", "found"]


def test_a_package_runs(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys, torch; print(torch.nn.__name__[:6], __package__, sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-m", "facula", "-m", "package", "x"],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        timeout=60,
    )
    assert done.stdout.split() == ["facula", "package", "x"], done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_find_torch(tmp_path, method):
    assert run(
        f"""
        import multiprocessing, subprocess, sys
        import torch
        class Thing:
            pass
        def child(queue, thing):
            import torch
            queue.put((torch.nn.__name__[:6], type(thing).__name__))
        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            queue = context.Queue()
            process = context.Process(target=child, args=(queue, Thing()))
            process.start()
            print(*queue.get(timeout=60))
            process.join()
            print(subprocess.run([sys.executable, "-c", "import torch; print(torch.nn.__name__[:6])"],
                                 capture_output=True, text=True).stdout)
        """,
        folder=tmp_path,
    ) == ["facula", "Thing", "facula"]


def test_a_hidden_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.customized = True")
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), env["PYTHONPATH"]])
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import sys; print(sys.customized)'])"
    )
    done = subprocess.run(
        [sys.executable, "-m", "facula", "-c", code], capture_output=True, text=True, env=env, timeout=60
    )
    assert done.stdout.split() == ["True"], done.stderr


def test_what_is_only_imported_exists_and_says_so_when_used():
    assert run(
        """
        from typing import Optional
        import torch
        import torch.fx
        from torch.fx import GraphModule, wrap
        from torch.utils.mobile_optimizer import LintCode
        from torch.utils.mobile_optimizer import MobileOptimizerType
        from torch.distributed.tensor import DTensor
        import torch._dynamo
        torch._inductor.config.max_autotune = True
        class Mine(LintCode):
            pass
        @wrap
        def f(x: Optional[DTensor] = None) -> "GraphModule | None":
            return 5
        @torch._dynamo.allow_in_graph
        def g():
            return 6
        again = torch.utils.mobile_optimizer.MobileOptimizerType
        print(f(), g(), isinstance(3, LintCode), torch._dynamo.is_compiling(), MobileOptimizerType is again)
        for use in (MobileOptimizerType, Mine, lambda: torch.utils.mobile_optimizer.LintCode(f)):
            try:
                use()
            except NotImplementedError as error:
                print(str(error).split()[0])
        try:
            torch.fx.no_such_name
        except AttributeError:
            print("absent")
        """,
        option="-c",
    ) == [
        "5",
        "6",
        "False",
        "False",
        "True",
        "torch.utils.mobile_optimizer.MobileOptimizerType",
        "torch.utils.mobile_optimizer.LintCode",
        "torch.utils.mobile_optimizer.LintCode",
        "absent",
    ]


def test_errors_of_the_program_are_its_own(tmp_path):
    (tmp_path / "bad.py").write_text("import torch\nimport missing_package")
    done = subprocess.run(
        [sys.executable, "-m", "facula", "bad.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 1 and "No module named 'missing_package'" in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "facula", "none.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert done.returncode and "cannot open file 'none.py'" in done.stderr


# -- modules of names --------------------------------------------------------------------------------------


def test_versions_compare_by_numbers():
    version = TorchVersion("2.13.0+facula")
    assert (
        version > "2.9"
        and version >= "2.13"
        and version < (2, 14)
        and version == "2.13.0"
        and version != "2.12"
    )
    assert TorchVersion("2.13.0a0") < "2.13" and str(version) == "2.13.0+facula"


def test_pytrees():
    tree = {"a": [1, (2, 3)], "b": {"c": None}}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, 3, None] and spec.num_leaves == 4
    assert pytree.tree_unflatten([4, 5, 6, 7], spec) == {"a": [4, (5, 6)], "b": {"c": 7}}
    assert pytree.tree_map(lambda x, y: (x, y), [1, 2], [3, [4]]) == [(1, 3), (2, [4])]
    assert pytree.tree_map_only(int, lambda x: -x, [1, "x"]) == [-1, "x"]
    largest = facula.tensor([[1, 5], [7, 2]]).max(1)
    assert pytree.tree_map(lambda t: t.tolist(), largest) == ([5, 7], [1, 0])
    assert isinstance(pytree.tree_map(lambda t: t + 1, largest), facula.return_types.max)
    assert [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(tree)[0]] == [
        "['a'][0]",
        "['a'][1][0]",
        "['a'][1][1]",
        "['b']['c']",
    ]
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    assert pytree._broadcast_to_and_flatten([1, 2, 3], pytree.tree_structure([0, 0])) is None
    assert pytree._broadcast_to_and_flatten([1, 7], pytree.tree_structure([0, 0])) == [1, 7]
    with pytest.raises(ValueError, match="leaves"):
        spec.unflatten([1])


def test_pytree_classes_can_be_registered():
    class Pair:
        def __init__(self, x, y):
            self.x, self.y = x, y

    pytree.register_pytree_node(Pair, lambda p: ([p.x, p.y], None), lambda children, _: Pair(*children))
    doubled = pytree.tree_map(lambda v: v * 2, [Pair(1, 2)])[0]
    assert (doubled.x, doubled.y) == (2, 4)
    with pytest.raises(ValueError, match="already"):
        pytree.register_pytree_node(Pair, None, None)


def test_jit_hands_functions_back():
    from facula import jit

    def function(x):
        return x + 1

    for decorate in (
        jit.ignore,
        jit.unused,
        jit.export,
        jit.script_if_tracing,
        jit._overload_method,
    ):
        assert decorate(function) is function
    assert jit.ignore(drop=True)(function) is function
    assert not jit.is_scripting() and not jit.is_tracing()
    assert jit.isinstance([1, 2], list[int]) and not jit.isinstance([1, "x"], list[int])
    assert jit.wait(jit.fork(function, 1)) == 2


def test_hub_loads_from_a_directory(tmp_path):
    from facula import hub

    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['json']\ndef net(n):\n    'Makes n.'\n    return [n]\n"
    )
    assert hub.list(str(tmp_path), source="local") == ["net"]
    assert hub.load(str(tmp_path), "net", 3, source="local") == [3]
    assert hub.help(str(tmp_path), "net", source="local") == "Makes n."
    with pytest.raises(NotImplementedError, match="clone"):
        hub.load("someone/something", "net")


def test_a_machine_without_gpu_says_so():
    from facula import cuda

    if cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert cuda.device_count() == 0 and cuda.memory_allocated() == 0
    cuda.manual_seed_all(3)
    cuda.empty_cache()
    with cuda.device(None):
        pass
    assert "does not load" in cuda.why_unavailable() and not cuda.is_initialized()
    for use in (cuda.synchronize, cuda.Stream, cuda.current_device, cuda.init, cuda.get_device_name):
        for kind in (NotImplementedError, AssertionError, RuntimeError):
            with pytest.raises(kind, match=rf"^cuda.{use.__name__}: there is no CUDA device to use: .*, got "):
                use()


def test_backend_flags_are_kept():
    from facula.backends import cudnn

    with cudnn.flags(enabled=True, benchmark=True):
        assert cudnn.benchmark
    assert not cudnn.benchmark and not cudnn.is_available()


def test_names_of_modules_reached_as_attributes():
    assert run(
        """
        import warnings
        import torch
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
        print(torch.utils.swap_tensors.__name__, torch.jit.annotations.__name__, torch._C._nn.__name__)
        device, dtype, *_ = torch._C._nn._parse_to("cpu", torch.float64)
        autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
        both = autocast | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
        print(device, dtype, both.has(torch._C.DispatchKey.AutocastCPU), (both - autocast) == both)
        try:
            torch.zeros(1).cuda()
        except AssertionError as error:
            print("CUDA" in str(error))
        print(isinstance(torch.compile(torch.nn.ReLU()), torch._dynamo.OptimizedModule))
        """,
        option="-c",
    ) == "swap_tensors facula.jit.annotations torch._C._nn cpu torch.float64 True False True True".split()


def start(folder, *command, input=None):
    """A finished `python -m facula` with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "facula", *command],
        input=input,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(),
        timeout=60,
    )


def test_tracebacks_begin_in_the_program(tmp_path):
    (tmp_path / "bad.py").write_text("def f():\n    raise ValueError('no')\nf()\n")
    done = start(tmp_path, "bad.py")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[0].startswith("Traceback") and lines[-1] == "ValueError: no"
    assert lines[1] == f'  File "{tmp_path / "bad.py"}", line 3, in <module>' and done.stderr.count("File") == 2
    (tmp_path / "bad.py").write_text("x = (1,\n")
    done = start(tmp_path, "bad.py")
    assert done.returncode == 1 and "Traceback" not in done.stderr and "SyntaxError" in done.stderr


def test_programs_from_standard_input(tmp_path):
    done = start(tmp_path, "-", "x", input="import sys, torch; print(torch.ones(1).item(), sys.argv)")
    assert done.stdout == "1.0 ['-', 'x']\n", done.stderr


@pytest.mark.parametrize(
    "command, message",
    [
        (["none.py"], "cannot open file 'none.py'"),
        (["-u", "x.py"], "unknown option -u; Python's own options come before -m facula"),
        (["-m"], "option -m needs an argument"),
        (["-m", "torch.onnx.utils", "x.py"], "torch.onnx.utils is not supported by Facula"),
    ],
)
def test_what_cannot_be_started_is_said(tmp_path, command, message):
    done = start(tmp_path, *command)
    assert done.returncode == 2 and f"python -m facula: {message}" in done.stderr


def test_the_exit_status_is_the_program_s(tmp_path):
    assert start(tmp_path, "-c", "import sys; sys.exit(3)").returncode == 3


def test_writes_through_data_are_silent():
    program = """
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        z = y * y
        {write}
        try:
            z.sum().backward()
            print(*x.grad.tolist())
        except RuntimeError as error:
            print("modified" in str(error))
        """
    silent = textwrap.dedent(program.format(write="y.data[0] = 5.0; y.data.add_(1)"))
    assert run("import torch\n" + silent, option="-c") == ["24.0", "12.0", "12.0"]
    counted = textwrap.dedent(program.format(write="y.detach().add_(1)"))
    assert run("import torch\n" + counted, option="-c") == ["True"]


def test_placements_can_be_formed():
    assert run(
        """
        from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
        print(Shard(1) == Shard(1), Shard(1).is_shard(0), Replicate().is_replicate(), Partial().is_partial("sum"))
        try:
            DTensor.from_local(None)
        except TypeError as error:
            print(str(error).split()[0])
        """,
        option="-c",
    ) == "True False True True DTensor.from_local:".split()


@pytest.mark.parametrize("with_tqdm", [False, True])
def test_downloads_say_how_far_they_are(tmp_path, capsys, monkeypatch, with_tqdm):
    if with_tqdm:
        pytest.importorskip("tqdm.auto")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3 * 2**20)
    facula.hub.download_url_to_file(source.as_uri(), tmp_path / "copy")
    told = capsys.readouterr().err
    if with_tqdm:
        assert "copy:   0%" in told and "copy: 100%" in told and "3.00M/3.00M" in told
    else:
        assert "copy: 0.1 of 3.0 MB" in told and told.endswith("copy: 3.0 MB\n")
    facula.hub.download_url_to_file(source.as_uri(), tmp_path / "copy", progress=False)
    assert capsys.readouterr().err == ""


def test_annotations_of_programs_are_objects(tmp_path):
    """The launcher's own `from __future__ import annotations` is not the program's."""
    (tmp_path / "program.py").write_text("def f(x: int): pass\nprint(f.__annotations__['x'] is int)\n")
    for arguments in ([str(tmp_path / "program.py")], ["-c", (tmp_path / "program.py").read_text()]):
        done = subprocess.run([sys.executable, "-m", "facula", *arguments], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"


def test_modules_are_searched_only_after_some_were_loaded(monkeypatch):
    """A name that a module finds anew each time is asked for in each step of a program."""
    from facula.compat import placeholders

    module, searches = types.ModuleType("facula.made"), []
    module.__getattr__ = {"found": 7}.__getitem__
    placeholders.complete_module(module, "torch.made")
    placeholders.complete_loaded()
    monkeypatch.setattr(placeholders, "complete_loaded", lambda: searches.append(1))
    assert module.found == module.found == 7
    assert not searches
    monkeypatch.setitem(sys.modules, "loaded_meanwhile", module)
    assert module.found == 7
    assert searches
