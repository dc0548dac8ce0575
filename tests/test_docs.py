"""What is written for users is there, is true, and leads somewhere."""

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import types
from pathlib import Path

import pytest

import facula
from facula import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))
INTERNALS = sorted((ROOT / "docs" / "internals").glob("*.md"))
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *INTERNALS, *ROOT.glob("*/README.md")]
OPTIONAL = {"facula.utils.tensorboard"}  # needs a package that may be missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "docs"], ids=lambda page: page.stem)
def test_pages_of_docs_are_short(page):
    """Who looks for one thing reads one page; what is listed by a program, with a filter on the site, is no page to be read."""
    text = page.read_text()
    assert text.startswith("# ") and (50 < len(text.split()) <= 1500 or page.stem == "supported")


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *INTERNALS], ids=lambda page: page.stem)
def test_pages_about_the_inside_are_short(page):
    """What they name is looked up by test_statements."""
    assert len(page.read_text().split()) <= (2500 if page.stem == "ARCHITECTURE" else 1200), "a longer page is divided by subsystem"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.S)


def test_the_program_of_the_readme_fits_a_sine(capsys):
    (program,) = blocks("README.md", "python")
    scope = {}
    exec(program, scope)
    assert scope["loss"].item() < 0.01 and f"# {capsys.readouterr().out}" in program


def shown_errors():
    for block in blocks("docs/errors.md", "text"):
        for expression, text in re.findall(r"^>>> (.*)\n((?:.+\n)+)", block, re.M):
            yield pytest.param(expression, " ".join(text.split()), id=expression)


@pytest.mark.parametrize(("expression", "text"), list(shown_errors()))
def test_the_errors_of_the_docs(expression, text):
    with pytest.raises(Exception) as caught:
        eval(expression, {"torch": facula, "nn": nn})
    told = " ".join(f"{caught.type.__name__}: {caught.value}".split())
    if caught.type is facula.OutOfMemoryError:  # its sizes are the machine's
        told, text = (re.sub(r"[\d.]+ ([KMGTP]iB|bytes)", "#", words) for words in (told, text))
    assert told == text


def test_docstrings_of_ops_read_as_python():
    lines = facula.add.__doc__.splitlines()
    assert lines[0] == "add(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None) -> Tensor"
    assert lines[2].startswith("Return input + alpha * other") and lines[-1] == "Stated in ops/elementwise.yaml."
    assert "-> (values: Tensor, indices: Tensor)" in facula.max.__doc__
    assert "stride: int | Sequence[int] = 1" in nn.functional.conv2d.__doc__
    assert "\nThe result shares memory with self. Differentiable.\n" in facula.Tensor.view.__doc__  # of one overload only


def public_modules():
    yield facula
    for found in pkgutil.walk_packages(facula.__path__, "facula."):
        private = any(part.startswith("_") for part in found.name.split("."))
        if not private and not found.name.startswith(("facula.compat", *OPTIONAL)):
            yield importlib.import_module(found.name)


def public_things(module):
    """Functions and classes of Facula that the module shows, with the methods and properties of the classes."""
    for name in getattr(module, "__all__", None) or dir(module):
        thing = None if name.startswith("_") or f"{module.__name__}.{name}" in OPTIONAL else getattr(module, name, None)
        home = getattr(thing, "__module__", None) or ""
        if isinstance(thing, types.BuiltinFunctionType) or (callable(thing) and home.startswith(("facula", "torch"))):
            yield name, thing
            for method in vars(thing) if inspect.isclass(thing) else ():
                value = inspect.getattr_static(thing, method)
                if not method.startswith("_") and isinstance(value, (types.FunctionType, classmethod, staticmethod, property)):
                    yield f"{name}.{method}", getattr(thing, method)


def test_everything_public_has_a_docstring():
    missing = {}
    for module in public_modules():
        assert inspect.getdoc(module), module.__name__
        for name, thing in public_things(module):
            if not inspect.getdoc(thing):
                missing.setdefault(id(thing), f"{module.__name__}.{name}")
    assert not missing, sorted(missing.values())


def of_benchmarks(name):
    """A program of benchmarks as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    del sys.modules[name]
    return module


def test_tables_are_what_the_results_give(tmp_path, monkeypatch, capsys):
    tables = of_benchmarks("tables")
    assert tables.main(["--check"]) == 0, "run `python benchmarks/tables.py`"
    used = [name for page in (ROOT / "docs").glob("*.md") for _, name, _ in tables.MARKED.findall(page.read_text())]
    assert sorted(used) == sorted(set(used)) and set(used) <= set(tables.TABLES)
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("# Page\n\n<!-- table: compiled -->\n| old |\n<!-- end -->\n\nText.\n")
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    assert tables.main(["--check"]) == 1 and "| old |" in page.read_text()
    assert tables.main([]) == 0 and "| policy network |" in page.read_text() and "| old |" not in page.read_text()
    assert tables.main(["--check"]) == 0 and page.read_text().endswith("<!-- end -->\n\nText.\n")


def test_plot_of_the_results(tmp_path):
    pytest.importorskip("matplotlib")
    plot = of_benchmarks("plot")
    assert plot.main(["--out", str(tmp_path / "plots")]) == 0
    drawn = list((tmp_path / "plots").glob("*.svg"))
    assert len(drawn) > 10 and all("</svg>" in path.read_text() for path in drawn)
    (tmp_path / "results").mkdir()
    with pytest.raises(SystemExit):
        plot.main(["--results", str(tmp_path / "results")])
    rows = {"rows": [{"name": "a", "ratio": 2.0, "target": 8}, {"name": "", "statement": "b", "ratio": 0.5}]}
    assert [(c.name, c.ratio, c.target) for c in plot.cases_of(rows)] == [("a", 2.0, 8), ("b", 0.5, None)]
    assert plot.cases_of({"x": {"torch": 6.0, "facula": 2.0}})[0].ratio == 3
    rows = {"rows": [{"row": "step", "threads": 2, "ratio": 3.0}, {"row": "growth", "threads": 1, "ratio": float("nan")}]}
    assert [case.name for case in plot.cases_of(rows)] == ["step, 2 threads"]
