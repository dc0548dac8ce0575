"""What the documents claim is true, as far as a program can tell: names that stand in backticks exist, and numbers that can be counted are counted.

README.md has its own tests (`test_readme.py`), tables of measured times too (`test_docs.py`)."""

import functools
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_repo import MAY_INCLUDE

import facula

ROOT = Path(__file__).resolve().parents[1]
INSIDE = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "internals").glob("*.md"))]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *INSIDE[1:], *ROOT.glob("*/README.md"), ROOT / "bindings/rust/README.md"]
PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]  # it says what was
OF_OTHERS = {"distributed_measured.md", "array_api.md", "programs.md"}  # pages about other projects, whose files they name
FOLDERS = r"(src|facula|ops|codegen|tests|benchmarks|docs|include|bindings|cmake|examples|\.ci)/"
SOURCES = ("src", "facula", "codegen", "ops", "tests", "benchmarks", "examples", "include", "bindings", "cmake", ".ci")
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
every_page_inside = pytest.mark.parametrize("page", INSIDE, ids=lambda page: page.stem)


def spans(page, fences=False):
    """Return what stands in backticks; with `fences` also the lines of code blocks."""
    text = page.read_text()
    blocks = re.findall(r"(?ms)^```\w*\n(.*?)^```", text) if fences else []
    return re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```", "", text)) + [line for block in blocks for line in block.splitlines()]


@functools.cache
def files():
    return [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.is_file() and "target" not in path.parts]


@functools.cache
def sources():
    """The text of all sources but this one, and of those that no folder holds."""
    kinds = {".py", ".cpp", ".h", ".cuh", ".cmake", ".in", ".rs", ".sh", ".yaml", ".txt", ""}
    listed = [path for path in files() if path.suffix in kinds and path != Path(__file__)]
    listed += [ROOT / "CMakeLists.txt", ROOT / "Makefile", ROOT / "pyproject.toml"]
    return "\n".join(path.read_text(errors="replace") for path in listed)


@functools.cache
def words():
    return set(re.findall(r"\w+", sources())) | {path.stem for path in files()} | set(vars(facula._C))


@functools.cache
def generated():
    """Words of the names that the generator puts together: of `name_uncast`, `uncast`."""
    return {part for word in words() for part in word.split("_")}


@every_page
def test_files_that_are_named_exist(page):
    known = {path.name for path in files()} | {path.name for path in [*ROOT.iterdir(), *(ROOT / "docs").rglob("*")]}
    for span in spans(page):
        for word in re.split(r"[\s,]+", span):
            name = word.strip("()'\"").partition("::")[0].partition(":")[0]
            if re.search(r"[{}<>*$~]|^(facula/(lib|include|share)|examples/\w+\.rs|include/python)", name) or page.name in OF_OTHERS:
                continue
            if re.match(FOLDERS, name):
                assert (ROOT / name).exists() or any(ROOT.glob(f"{name}.*")), name
            elif re.fullmatch(r"[\w-]+\.(cpp|cuh|h|py|yaml)", name) and page in INSIDE and name not in {"Python.h", "pyconfig.h", "_name.py"}:
                assert name in known, name


@every_page
def test_environment_variables_are_read_somewhere(page):
    for name in set(re.findall(r"\bFACULA_[A-Z][A-Z_0-9]*[A-Z0-9]\b", page.read_text())):
        assert name in sources(), name


@every_page
def test_commands_of_make_exist(page):
    targets = re.findall(r"(?m)^(\w+):", (ROOT / "Makefile").read_text())
    for span in spans(page, fences=True):
        for target in re.findall(r"^make (?!sure|it|this)([a-z]\w*)", span):
            assert target in targets, span


@every_page
def test_functions_that_are_named_exist(page):
    """`name()` and `Class::name()` are somewhere in the sources."""
    for span in spans(page):
        for name in re.findall(r"(?<![\w.:])((?:\w+::)*[A-Za-z_]\w*)\(\)", span):
            missing = [part for part in name.split("::") if part not in words()]
            assert not missing, f"{span}: {missing}"


def resolves(name):
    thing, parts = facula, name.split(".")[1:]
    for at, part in enumerate(parts, 1):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            try:
                thing = importlib.import_module(".".join(["facula", *parts[:at]]))
            except ImportError:
                return False
    return True


def test_what_does_not_exist_is_found_out():
    assert resolves("torch.nn.functional.relu") and not resolves("torch.nn.functional.reluu") and not resolves("torch.nothing.at.all")
    assert "reshape_as" in words() and not {"reshape_ass", "NothingLikeIt"} & words() and "FACULA_" + "NOTHING" not in sources()


NOT_HERE = {"torch.compiler.load_compiled_function", "torch.ops.torchvision.nms.default._schema"}  # which the pages say


@every_page
def test_python_names_resolve(page):
    if page.stem == "supported":
        return  # it lists what is not here
    for span in spans(page):
        for name in re.findall(r"(?<![\w./-])(?:torch|facula)(?:\.[A-Za-z_]\w*)+(?![\w/<*])", span):
            if name not in NOT_HERE and not re.search(r"\.(h|py|cpp|md|so|pt2|wrong)$", name):
                assert resolves(name), span


@every_page_inside
def test_identifiers_on_pages_about_the_inside_exist(page):
    for span in spans(page):
        for name in re.findall(r"[A-Za-z_]\w*", span) if re.fullmatch(r"[\w.:()]+", span) else ():
            assert name in words() | {"vptr", "pyconfig"} or set(name.split("_")) <= generated(), span


def test_options_that_are_named_exist():
    """Of the commands that are Facula's; those of other tools are not listed here."""
    ours = re.compile(r"(facula-run|facula_run|facula-run-ranks|facula\.distributed|examples/|benchmarks/|\.ci/|tests[./]fuzz|tests/compare|codegen)")
    for page in PAGES:
        for span in spans(page, fences=True):
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]+", span.partition("#")[0]) if ours.search(span) else ():
                assert option in sources() or option[2:].replace("-", "_") in sources(), f"{page.name}: {span}"


# the tables of ARCHITECTURE.md


def table(first):
    """Return the rows of the table of ARCHITECTURE.md whose first column is called so."""
    text = INSIDE[0].read_text()
    found = re.search(rf"(?m)^\| {first} \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", text)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines()]


def test_the_table_of_layers_is_what_is_checked():
    stated = {}
    for folders, may in table("folder")[:18]:
        for folder in re.findall(r"`(\w+)`", folders):
            stated[folder] = may
    assert set(stated) == set(MAY_INCLUDE) == {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    for folder, may in stated.items():
        allowed = {name for name in MAY_INCLUDE[folder] if "/" not in name} - {folder, "torch"}
        if may.startswith("anything"):
            assert folder == "python"
        elif folder == "emulator":
            assert {name.partition("/")[0] for name in MAY_INCLUDE[folder] if "/" in name} == {"cuda"}
        else:
            named = re.findall(r"\w+", re.sub(r"`[^`]*`|;.*", "", may))
            assert set(named) - {"itself", "and", "no", "standard", "header"} == allowed, f"{folder}: {may}"


def test_every_folder_of_the_source_is_in_the_drawings():
    drawing = re.search(r"(?ms)^## Layers\n\n```\n(.*?)^```", INSIDE[0].read_text())[1]
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    assert set(re.findall(r"\bsrc/(\w+)", drawing)) == folders
    assert set(re.findall(r"\bsrc/(\w+)", (ROOT / "docs/drawings/layers.svg").read_text())) <= folders


def test_the_topic_that_is_shown_has_its_files():
    for _, cell in table("what"):
        for name in re.findall(r"`([\w./]+)`", cell):
            assert (ROOT / name).is_file(), name


def test_every_subsystem_has_a_link():
    text = INSIDE[0].read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"\]\(docs/internals/(\w+)\.md\)", text)) == {page.stem for page in INSIDE[1:]}


def test_every_dependency_has_a_reason():
    project = (ROOT / "pyproject.toml").read_text().partition("[tool.")[0].partition("[project.scripts]")
    lists = re.findall(r"(?m)^(?:requires|dependencies) = \[(.*)\]$", project[0]) + re.findall(r"(?m)^[\w-]+ = \[(.*)\]$", project[2])
    packages = {name.lower() for line in lists for name in re.findall(r'"([\w-]+)', line)}
    assert {"numpy", "pyyaml", "nvidia-nccl-cu13", "codespell"} <= packages
    reasons = " ".join(row[0] for row in table("dependency")).lower()
    also = {"onednn-devel-cpu-gomp": "onednn", "scikit-build-core": "scikit-build-core", "myst-parser": "myst"}
    for package in packages:
        word = also.get(package) or re.sub(r"^nvidia-(cuda-)?|-cu1[23]$", "", package)
        assert word in reasons, f"{package} is not in the table of dependencies"


# numbers: what a page says, and the line of the source that says the same

NUMBERS = [
    ("docs/internals/distributed.md", r"the last ([\d,]+) operations", "src/distributed/recorder.cpp", r"constexpr size_t \w+ = (\d+);"),
    ("docs/internals/distributed.md", r"Up to (\d+) bytes of an all_reduce", "src/distributed/agreement.h", r"constexpr int \w+ = (\d+);"),
    ("docs/internals/distributed.md", r"`FACULA_DIST_WARN_AFTER` \| after how many seconds \((\d+)\)", "src/distributed/world.cpp",
     r'"FACULA_DIST_WARN_AFTER", (\d+)'),
    ("docs/internals/cuda.md", r"of up to (\d+) gradients", "src/ops/scaling.h", r"constexpr int \w+ = (\d+);"),
    ("docs/internals/cpu.md", r"(16), 32 or 64 bytes", "src/cpu/isa.h", r"#else\s+.*kVectorBytes = (\d+)"),
    ("docs/internals/cpu.md", r"16, 32 or (64) bytes", "src/cpu/isa.h", r"kVectorBytes = (\d+)"),
    ("docs/internals/cpu.md", r"Up to (\d+) rows read the matrix in place", "src/cpu/gemm_half.h", r"constexpr int64_t \w+ = (\d+)"),
    ("docs/internals/calls.md", r"Results of (\d+) MiB or more", "src/cpu/isa/stream.h", r"int64_t\{(\d+)\} << 20"),
    ("docs/internals/tensors.md", r"serves blocks of up to (4) KiB", "src/core/small_block.h", r"constexpr size_t \w+ = (4)096;"),
    ("docs/compile_inside.md", r"has been called (\d+) times as it is", "src/region/compiled.h", r"static constexpr int kStable = (\d+)"),
    ("docs/compile_inside.md", r"takes less than (\d+) us", "src/region/compiled.h", r"constexpr int64_t \w+ = (\d+)'000;  // nanoseconds"),
    ("docs/compile_inside.md", r"after ([\d,]+) calls there is a trial again", "src/region/compiled.h", r"\w+ = 2, \w+ = 8, \w+ = (\d+)"),
    ("docs/compile_inside.md", r"(\d+) ways are kept", "src/region/stretch.cpp", r"constexpr size_t \w+ = (\d+);"),
    ("docs/compile_inside.md", r"more than (\d+) MB, or twice", "src/region/tape.cpp", r"int64_t\{(\d+)\} << 20"),
    ("docs/memory_budget.md", r"the last ([\d,]+) are kept", "src/budget/report.h", r"constexpr size_t \w+ = (\d+);"),
]  # fmt: skip


@pytest.mark.parametrize(("page", "said", "source", "written"), NUMBERS, ids=[f"{Path(n[0]).stem}: {n[1][:30]}" for n in NUMBERS])
def test_numbers_are_those_of_the_source(page, said, source, written):
    stated = re.search(said, " ".join((ROOT / page).read_text().split()))
    found = re.findall(written, (ROOT / source).read_text())
    assert stated, f"{page} does not say {said} any more: change this row"
    assert found, f"{source} has no {written} any more: change this row"
    assert int(stated[1].replace(",", "")) in map(int, found), f"{page}: {stated[0]}; {source}: {found}"


def test_the_limit_of_recompilations_is_the_setting():
    (stated,) = re.findall(r"`torch._dynamo.config.recompile_limit` times \((\d+)\)", (ROOT / "docs/compile.md").read_text())
    assert int(stated) == facula.compiler.config.recompile_limit


# programs on pages: all blocks of a page run in their order, after lines that a reader would have written before them

COMMON = "import facula as torch\nfrom facula import nn\nmodel = nn.Linear(4, 4)\nx = torch.randn(3, 4)\n"
BEFORE = {
    "checkpoints": "optimizer = torch.optim.Adam(model.parameters())\n",
    "memory": "layers = [model, model]\n",
    "packages": "import sys, types\nmine = sys.modules['mine'] = types.ModuleType('mine')\nnet = {'weight': x}\n",
    "profiling": "loader = range(20)\nstep = lambda batch: model(x).sum().backward()\ntrain = lambda: step(0)\n",
    "distributed": "import os\nos.environ |= {'RANK': '0', 'WORLD_SIZE': '1', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '0'}\n",
}
# a device, a compiler, other processes, files of other packages are needed; `errors` shows what fails
FRAGMENTS = {"cuda", "cpp_extensions", "distributed_rpc", "distributed_training", "package_operators", "memory_budget_costs", "errors"}
PROGRAMS = [page for page in sorted((ROOT / "docs").glob("*.md")) if "\n```python\n" in page.read_text() and page.stem not in FRAGMENTS]


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
def test_programs_on_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(facula.__file__).parents[1]))
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text())
    if importlib.util.find_spec("safetensors") is None:
        blocks = [block for block in blocks if "safetensors" not in block]
    else:
        blocks.insert(-1, "from safetensors.numpy import save_file\nsave_file({'a': x.numpy()}, 'model.safetensors')\n") if page.stem == "checkpoints" else None
    (tmp_path / "program.py").write_text("\n".join([COMMON + BEFORE.get(page.stem, ""), *blocks]))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
