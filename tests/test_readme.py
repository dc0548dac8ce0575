"""Check what README.md says: commands, figures and their sources, errors, counts. (Its program runs in test_docs.)"""

import importlib.util
import json
import re
import struct
from pathlib import Path

import pytest

import facula

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()
ROWS = {cells[0]: cells[1:] for line in re.findall(r"^\| (.*) \|$", TEXT, re.M) if len(cells := line.split(" | ")) == 3}
LONGEST = 900  # words, tables included: a page that is read in a minute


def results(name):
    return json.loads((ROOT / "benchmarks" / "results" / name).read_text())


def row(begin):
    (found,) = (cells for name, cells in ROWS.items() if name.startswith(begin))
    return found


def test_it_is_short():
    assert len(TEXT.split()) < LONGEST


def test_the_commands_are_there():
    install, *_ = re.findall(r"^```\n(.*?)^```$", TEXT, re.M | re.S)
    assert len(install.splitlines()) == 3
    (extra,) = re.findall(r'pip install "\.\[(\w+)\]"', install)
    assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.M)
    (program,) = re.findall(r"^python (\S+)$", install, re.M)
    assert (ROOT / program).is_file()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make (\w+)`", TEXT):
        assert re.search(rf"^{target}:", makefile, re.M), target
    assert {"demo", "test"} <= set(re.findall(r"`make (\w+)`", TEXT))


def test_it_names_the_oldest_python():
    (oldest,) = re.findall(r'^requires-python = ">=(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert f"Python {oldest} and PyPI" in TEXT


def test_the_picture_is_the_examples():
    path, chart = re.findall(r"!\[.*\]\((.*)\)", TEXT)
    assert chart == "docs/drawings/ratios.svg"  # which test_site checks
    head = (ROOT / path).read_bytes()[:24]
    width, height = struct.unpack(">II", head[16:])
    (size,) = re.findall(r"figsize=\((\d+), (\d+)\)", (ROOT / "examples" / "digits.py").read_text())
    assert head.startswith(b"\x89PNG") and width * int(size[1]) == height * int(size[0])
    assert (ROOT / path).stat().st_size < 100_000


def test_importing():
    found = results("importing_2core_amd.json")
    for cells, module in zip(zip(row("importing it"), row("the installed package")), ("torch", "facula"), strict=True):
        figures = found[module]
        assert cells == (f"{figures['processor s']:.2f} s, {figures['MB']:.0f} MB", f"{figures['installed MB']:.0f} MB")


@pytest.mark.parametrize(("name", "digits"), [("a + b", (2, 2)), ("(g * b).sum().backward()", (1, 1))])
def test_small_ops(name, digits):
    (found,) = (r["seconds"] for r in results("micro_v3_2core_amd.json")["rows"] if r["name"] == name and r["group"] == "small")
    assert row(f"`{name}`") == [f"{found[library] * 1e6:.{n}f} us" for library, n in zip(("torch", "facula"), digits)]


def test_training():
    by_model = {r["name"].partition(",")[0]: r["measured"] for r in results("table1_2t_2core_amd.json")["rows"]}
    wanted = [by_model[name] for name in ("ResNet-50", "MobileNet v2", "NCF")]
    for cell, library in zip(row("a second of training"), ("torch", "facula"), strict=True):
        figures = [model[library]["per_second"] for model in wanted]
        assert cell == ", ".join(f"{figure:,.0f}" if figure > 100 else f"{figure:.1f}" for figure in figures)


def test_ratios_stand_in_performance():
    page = " ".join((ROOT / "docs" / "performance.md").read_text().split())
    ops, gpt = row("1,216 ops")[1], row("a training step of a small GPT")[1]
    one, two, three, below, cases = re.match(r"([\d.]+), ([\d.]+), ([\d.]+) times as fast; (\d+) of ([\d,]+) cases", ops).groups()
    assert f"The median ratio is {one} for some 250 elements, {two} for 65,536 and {three} for a million. Of {cases} cases {below} are below 0.9" in page
    assert f"| GPT, batch 8 | {gpt.split()[0]} |" in page


def test_files_of_figures_are_named():
    names = [name for group in re.findall(r"\[\d\] `([^`]+)`", TEXT) for name in [group.rpartition("/")[2]]]
    assert len(names) == 3 and all((ROOT / "benchmarks" / "results" / name).is_file() for name in names)
    assert {int(n) for n in re.findall(r" \[(\d)\]", TEXT)} == {1, 2, 3, 4, 5}


def test_what_it_shows():
    (said,) = re.findall(r"and: (.*)", row("`torch.ones(2, 3).sum(axes=0)`")[1])
    with pytest.raises(TypeError, match=re.escape(said)):
        facula.ones(2, 3).sum(axes=0)
    x = facula.arange(3)
    assert x[::-1].tolist() == [2, 1, 0] and x[::-1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    calls = []
    compiled = facula.compile(lambda: calls.append(1))
    compiled(), compiled()
    assert calls == [1, 1] and compiled.recordings  # Python runs in every call


def test_how_many_names_are_missing():
    ((all_names, _, missing),) = re.findall(r"^\| `all` \| (\d+) \| (\d+) \| (\d+) \|$", (ROOT / "docs" / "supported.md").read_text(), re.M)
    assert f"of PyTorch's {int(all_names):,} public names {int(missing):,} are not here" in " ".join(TEXT.replace("\n>", "").split())


def test_what_runs_on_a_gpu_is_said_once():
    """No result names a GPU; when one does, the box has to change."""
    named = [path.name for path in (ROOT / "benchmarks" / "results").glob("*.json") if re.search(r"NVIDIA|GeForce|Tesla", path.read_text())]
    assert not named and "none has run on a real GPU" in " ".join(TEXT.replace("\n>", "").split())
    assert "CUDA has not run on a GPU yet" in (ROOT / "docs" / "coming_from_pytorch.md").read_text()


def test_the_summary_of_the_profiling_page(monkeypatch):
    spec = importlib.util.spec_from_file_location("digits_of_the_page", ROOT / "examples" / "digits.py")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(digits)
    found = facula.utils.summary(digits.Net(), facula.ones(1, 1, 8, 8))
    assert f"```text\n{found}\n```" in (ROOT / "docs" / "profiling.md").read_text()
    assert found.svg() == (ROOT / "docs" / "images" / "digits_net.svg").read_text()
