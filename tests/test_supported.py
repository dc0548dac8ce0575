"""Every public name of PyTorch works or is in the table of what is not here; the docs page is made of that table."""

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import facula
from facula.compat import not_here

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from codegen import differences, supported  # noqa: E402

# in a process of its own, where `torch` is Facula and nothing was looked up before
SURVEY = """
import importlib, sys, types, warnings
warnings.simplefilter("ignore")
from facula.compat import install, not_here
install()
from codegen import supported
import torch
from facula.compat.placeholders import Unsupported


def missing(value):
    whole = isinstance(value, types.ModuleType) and value.__name__ in not_here.REASON_OF_MODULE and not hasattr(value, "__file__")
    return isinstance(value, Unsupported) or hasattr(value, "_facula_missing") or whole


_, public = supported.names()
listed = {module: set(names) for module, names in not_here.MODULES.items()}
removed = {tuple(name.rsplit(".", 1)) for name in not_here.REMOVED}
for name in sorted(public.keys() | listed.keys()):
    module = torch.Tensor if name == "torch.Tensor" else importlib.import_module(name)
    for key in sorted({*public.get(name, ()), *listed.get(name, ())}):
        if (name, key) in removed:
            continue
        if not hasattr(module, key):
            print(f"{name}.{key} does not exist")
        elif missing(value := getattr(module, key)) != (key in listed.get(name, ())) and not isinstance(value, types.ModuleType):
            print(f"{name}.{key} is {'listed as missing but works' if key in listed.get(name, ()) else 'missing but not listed'}")
print("surveyed", sum(map(len, public.values())))
"""


def test_every_public_name_works_or_is_listed():
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.append({str(ROOT)!r})\n{SURVEY}"], capture_output=True, text=True, timeout=300)
    *wrong, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0, done.stderr
    assert not wrong, "\n".join(wrong)
    assert last.startswith("surveyed") and int(last.split()[1]) > 4000


def test_the_page_is_current():
    page = supported.PAGE.read_text()
    assert page == supported.page(), "run `python -m codegen.supported`"
    assert all(f"`{name}`" in page for name in ("quantized_max_pool1d", "torch.eig", "to_mkldnn"))


def test_no_name_is_listed_twice_and_every_reason_is_used():
    found = [
        f"{module}.{name}" for modules in not_here.NAMES.values() for module, names in modules.items() for name in names
    ]
    assert len(found) == len(set(found))
    assert set(not_here.NAMES) | {"aten"} == set(not_here.REASONS)


@pytest.mark.parametrize(
    ("use", "begin", "end"),
    [
        (lambda: facula.crow_indices_copy([[0]], [1.0]), "torch.crow_indices_copy is not supported", "got list, list"),
        (lambda: facula.ones(2).to_mkldnn(), "torch.Tensor.to_mkldnn is not", r"got Tensor of shape \(2,\)"),
        (lambda: facula.quantized_max_pool1d(facula.ones(2), scale=0.5), "torch.quantized_max_pool1d", r"\(2,\), scale=0.5"),
        (lambda: facula.ops.aten.no_such(1), "torch.ops.aten.no_such is not supported", "got 1"),
        (lambda: facula.nn.functional.scaled_grouped_mm("x" * 99), "torch.nn.functional.scaled_grouped_mm", r"got 'x+\.\.\.'"),
        (lambda: facula.distributed.shrink_group("b", to=1), "torch.distributed.shrink_group", "got 'b', to=1"),
        (lambda: facula.jit.export_opnames("model.pt"), "torch.jit.export_opnames", "got 'model.pt'"),
        (lambda: facula.symeig(facula.eye(2)), r"torch.symeig was removed in PyTorch 1.9; use linalg\.eigh", r"\(2, 2\)"),
        (lambda: facula.utils.mobile_optimizer.LintCode.parse(None), "torch.utils.mobile_optimizer.LintCode.parse is not supported by Facula: programs", "got None"),
    ],
)
def test_what_is_missing_says_its_name_the_reason_and_what_came(use, begin, end):
    with pytest.raises(NotImplementedError, match=f"^{begin}.*{end}$"):
        use()


@pytest.mark.parametrize("use", ["cuda.GreenContext()", "xpu.synchronize()", "mps.Event()"])
def test_missing_devices_raise_what_pytorch_raises_too(use):
    for kind in (NotImplementedError, AssertionError, RuntimeError):
        with pytest.raises(kind, match=rf"^torch\.{use.split('(')[0]} is not supported"):
            eval(f"facula.{use}")


def test_placeholders_stand_where_programs_put_them():
    LintCode = facula.utils.mobile_optimizer.LintCode
    assert facula.utils.mobile_optimizer.LintCode is LintCode and not isinstance(3, LintCode)
    assert "torch.utils.mobile_optimizer.LintCode" in repr(LintCode)

    class Mine(LintCode):
        def save(self, x: "LintCode | None"):
            return x

    with pytest.raises(NotImplementedError, match=r"^torch\.utils\.mobile_optimizer\.LintCode is"):
        Mine()
    with pytest.raises(AttributeError):
        facula.no_such_name  # noqa: B018
    with pytest.raises(AttributeError):
        facula.cuda.no_such_name  # noqa: B018


def test_importing_facula_does_not_read_the_table():
    program = "import sys, facula; print([m for m in sys.modules if m.startswith('facula.compat')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_modules_that_are_missing_can_be_imported():
    program = textwrap.dedent(
        """
        from facula.compat import install
        install()
        import torch.monitor, torch.mtia, torch.ao.quantization.qconfig
        from torch.utils.mobile_optimizer import LintCode
        from torch.fx.experimental.symbolic_shapes import guard_or_false
        try:
            LintCode("x")
        except NotImplementedError as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("torch.utils.mobile_optimizer.LintCode is not supported"), done.stderr
    assert importlib.import_module("facula.xpu").is_available() is False


def _setting():
    space = {}
    exec(differences.SETTING.replace("import torch", "import facula as torch"), space)
    return space


@pytest.mark.parametrize("program", [program for program, _ in differences.ACCEPTED])
def test_programs_that_pytorch_refuses_run(program):
    exec(program, _setting())


@pytest.mark.parametrize(("program", "given"), [row[:2] for row in differences.GIVES])
def test_results_that_differ_are_as_stated(program, given):
    assert str(eval(program, _setting())) == given
