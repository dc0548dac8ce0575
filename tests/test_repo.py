"""Promises about the repository: include direction, what adding an op takes, what every entry states."""

import ast
import hashlib
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

import python_layers  # noqa: E402
from case_names import counted  # noqa: E402

from codegen import schema  # noqa: E402

SOURCE = ROOT / "src"

# folder -> folders whose headers it may include (ARCHITECTURE.md, "Layers")
MAY_INCLUDE = {
    "kernels": {"kernels"},
    "core": {"core"},
    "ops": {"ops", "kernels", "core"},
    "cpu": {"cpu", "ops", "kernels", "core"},
    "cuda": {"cuda", "ops", "core"},
    "emulator": {"emulator", "cuda/abi.h", "cuda/abi_types.h", "cuda/abi_cublas.h", "cuda/abi_cudnn.h",
                 "cuda/abi_cufft.h", "cuda/abi_cusolver.h", "cuda/spawn.h", "cuda/abi_cupti.h", "cuda/abi_nccl.h"},
    "guard": {"guard", "cpu", "ops", "core"},
    "observe": {"observe", "ops", "core"},
    "profiler": {"profiler", "observe", "autograd", "ops", "core"},
    "autograd": {"autograd", "observe", "ops", "core"},
    "composite": {"composite", "autograd", "ops", "core"},
    "sparse": {"sparse", "observe", "autograd", "ops", "core"},
    "program": {"program", "autograd", "observe", "ops", "core"},
    "region": {"region", "program", "autograd", "observe", "ops", "core"},
    "budget": {"budget", "program", "autograd", "observe", "ops", "core"},
    "capi": {"capi", "cxx", "program", "composite", "autograd", "ops", "core"},
    "cxx": {"cxx", "torch", "program", "cuda", "cpu", "composite", "autograd", "ops", "core"},
    "distributed": {"distributed", "cuda", "composite", "autograd", "ops", "core"},
    "run": {"run", "cxx", "program", "autograd", "ops", "core"},
    "python": {"python", "budget", "region", "cxx", "program", "distributed", "autograd", "composite", "observe", "profiler", "guard", "cuda", "cpu", "ops", "core"},
}
GENERATED = re.compile(r"(functions|raw|op_ids)(_\w+)?\.h$")
# generated headers and the layer that makes them
GENERATED_LAYER = {"functions": "autograd", "raw": "ops", "op_ids": "core"}


def includes(path: Path):
    return re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)


def sources():
    return [p for p in SOURCE.rglob("*") if p.suffix in (".h", ".cpp", ".cuh")]


def layer_of(include: str) -> str | None:
    if "/" in include:
        return include.split("/")[0]
    match = GENERATED.match(include)
    return GENERATED_LAYER["raw" if match.group(1) == "raw" else match.group(1)] if match else None


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_includes_point_downward(path):
    folder = path.relative_to(SOURCE).parts[0]
    for include in includes(path):
        if folder == "kernels":
            inside = (path.parent / include).exists() or include.startswith("kernels/")
            assert inside, f"{include}: kernels include only each other"
            continue
        if path.parent.name == "kernels":  # of CUDA: compiled on the device, which knows the scalar functions by their bare names
            known = {p.name for f in (path.parent, SOURCE / "kernels") for p in f.iterdir()}
            assert include in known, f"{include}: kernels include only each other and src/kernels"
            continue
        target = include if include in MAY_INCLUDE[folder] else layer_of(include)
        assert target is None or target in MAY_INCLUDE[folder], f"{path.relative_to(ROOT)} includes {include}"


def test_lines_have_at_most_120_columns():
    """clang-format breaks code; comments are left as they are written."""
    files = [*sources(), *(ROOT / "tests" / "cpp").glob("*.cpp")]
    long = [f"{p.name}:{i}" for p in files for i, line in enumerate(p.read_text().splitlines(), 1) if len(line) > 120]
    assert not long


def test_long_files_say_why():
    """A newcomer reads a file to its end: 500 lines of Python, 600 of C++, or a sentence at the top, "Long because ..."."""
    roots = {".py": ("facula", "codegen", "tests", "benchmarks", "examples", ".ci"), ".cpp": ("src", "tests"), ".h": ("src", "include", "tests"), ".cuh": ("src",)}
    long = []
    for suffix, folders in roots.items():
        for path in (p for folder in folders for p in (ROOT / folder).rglob(f"*{suffix}")):
            lines = path.read_text().splitlines()
            if len(lines) > (500 if suffix == ".py" else 600) and not re.search(r"\bLong because ", "\n".join(lines[:40])):
                long.append(f"{path.relative_to(ROOT)} ({len(lines)})")
    assert not long, long


HOMES = """
facula facula.ao.nn.intrinsic facula.ao.nn.intrinsic.qat facula.ao.nn.intrinsic.quantized facula.ao.nn.qat facula.ao.nn.quantized
facula.ao.quantization facula.ao.quantization.observer facula.autograd facula.distributions facula.distributions.constraints
facula.distributions.transforms facula.export facula.fx facula.nn facula.nn.attention.flex_attention facula.nn.modules.module
facula.nn.parallel facula.nn.utils.prune facula.optim facula.optim.lr_scheduler facula.package facula.utils._pytree
facula.utils.checkpoint facula.utils.data
""".split()


@pytest.mark.parametrize("home", HOMES)
def test_classes_stand_in_the_file_that_their_module_is(home):
    """`inspect.getsourcefile` and editors lead to the file of the module that a class names its `__module__`."""
    space = vars(importlib.import_module(home))
    public = [value for name, value in space.items() if isinstance(value, type) and not name.startswith("_")]
    ours = {cls for cls in public if cls.__module__.startswith("facula.") and not cls.__module__.startswith("facula._C")}
    wrong = [cls for cls in ours if inspect.getsourcefile(cls) != sys.modules[cls.__module__].__file__]
    assert ours and not wrong, wrong
    assert all(map(inspect.getsource, ours))  # there is a class statement


def test_kernels_include_no_standard_header():
    for path in (SOURCE / "kernels").rglob("*.h"):
        assert not re.search(r"^#include <", path.read_text(), re.M), path


def test_only_the_python_layer_knows_python():
    for path in sources():
        if path.relative_to(SOURCE).parts[0] != "python":
            assert "Python.h" not in path.read_text(), path


def test_python_is_called_in_one_way():
    """CPython ends threads inside such a call when the interpreter ends: call_python() says what must not happen then."""
    bare = re.compile(r"(?<!call_python\()\bPyObject_(Call|Vectorcall)(?!FinalizerFromDealloc)\w*\(")
    wrong = [f"{p.name}: {found[0]}" for p in sources() if p.suffix == ".cpp" for found in bare.finditer(p.read_text())]
    assert not wrong, wrong


def test_attributes_are_asked_for_without_exceptions():
    """PyObject_HasAttr makes an AttributeError with its text where there is none: half a microsecond in x[:, 0] for each item."""
    asking = [p.name for p in sources() if "PyObject_HasAttr" in p.read_text()]
    assert not asking, "has_attribute() and optional_attribute() of python/objects.h ask without"


def test_overflow_is_asked_for_in_one_place():
    """core/checked.h is how sizes, strides, offsets and bytes are computed from what a caller gives."""
    asking = {p.relative_to(SOURCE).as_posix() for p in sources() if re.search(r"__builtin_\w+_overflow", p.read_text())}
    assert asking == {"core/checked.h"}


def test_headers_have_pragma_once():
    for path in SOURCE.rglob("*.h"):
        assert "#pragma once" in path.read_text(), path


def ops():
    return schema.load(ROOT / "ops")


# Public ops that neither PyTorch nor Facula differentiates: backward through them raises NotImplementedError by name.
NO_DERIVATIVE = {"_histogramdd", "bincount", "geqrf", "heaviside", "linalg_ldl_factor_ex", "linalg_ldl_solve"}  # an error of backward says so


def test_every_public_op_states_its_derivative():
    """A floating-point result needs `grad:` or an explicit `grad: none`; factories and composites need nothing."""
    missing = []
    for op in ops():
        needs = op.kind not in ("composite", "factory", "random") and any(r.startswith("Tensor") for r in op.returns)
        inexact = any(d.startswith(("Float", "BFloat", "Complex")) for d in op.dtypes)
        integers_only = not inexact or op.result in ("bool", "int64")
        mutates = op.name.endswith("_")
        if needs and not integers_only and not mutates and op.grad is None and op.names and op.id not in NO_DERIVATIVE:
            missing.append(f"{op.location.file}:{op.location.line} {op.id}")
    assert not missing, "no `grad:` (write `grad: none` when there is none): " + ", ".join(missing)


def test_every_key_of_the_schema_is_read():
    """What README.md documents is what schema.py knows (schema.load checks that), and an emitter or a test reads it."""
    readers = [p for p in (ROOT / "codegen").glob("*.py") if p.name != "schema.py"] + list((ROOT / "tests").glob("*.py"))
    text = "".join(p.read_text() for p in readers)
    unread = [key for key, attribute in schema.KEYS.items() if key != "op" and not re.search(rf"\bop\.{attribute}\b", text)]
    assert not unread


@pytest.mark.parametrize("row", ["| `color` | what nothing reads |\n", ""])
def test_the_documented_keys_are_the_schemas(tmp_path, row):
    text = (ROOT / "ops" / "README.md").read_text()
    kind = "| `kind` | see below |\n"
    assert kind in text
    (tmp_path / "README.md").write_text(text.replace(kind, kind + row if row else ""))
    with pytest.raises(schema.SchemaError, match=r"README\.md:1: .* differ in (color|kind)$"):
        schema.load(tmp_path)


def test_the_lists_of_pyproject_can_be_installed_alone():
    def listed(name):
        done = subprocess.run([sys.executable, ROOT / ".ci" / "requirements.py", name], capture_output=True, text=True)
        return done.returncode, done.stdout.split(), done.stderr

    assert listed("lint") == (0, ["clang-format==19.1.7", "ruff>=0.6", "codespell>=2.4"], "")
    assert listed("types") == (0, ["pyright[nodejs]>=1.1.414"], "")
    assert listed("requires")[1][0].startswith("scikit-build-core")
    assert listed("nonsense") == (1, [], "pyproject.toml: no list 'nonsense'\n")


@pytest.mark.skipif(not shutil.which("make"), reason="make is not here")
def test_make_says_what_is_missing(tmp_path):
    """Of the two commands that the README begins with: a compiler, a Python, its venv module."""

    def told(*settings, goal="demo"):
        done = subprocess.run(["make", "-s", goal, f"VENV={tmp_path}/venv", *settings], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode != 0 and not (tmp_path / "venv" / "lib").exists()
        return done.stderr

    bare = tmp_path / "bare"  # as Debian's python3 without python3-venv
    bare.write_text(f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    bare.chmod(0o755)
    assert "'no-python' is not here" in told("PYTHON=no-python")
    assert "apt-get install python3-venv" in told(f"PYTHON={bare}", goal="test")
    made = tmp_path / "venv" / "bin" / "python"  # an environment that is there, a compiler that is not
    made.parent.mkdir(parents=True)
    made.symlink_to(sys.executable)
    assert "'no-compiler' is not here; on Debian or Ubuntu: apt-get install g++" in told("CXX=no-compiler")


def joined_files():
    """Files that a build from nothing compiles as one (CMakeLists.txt, join_by_name)."""
    alone = set(re.search(r"set\(STAND_ALONE ([^)]*)\)", (ROOT / "CMakeLists.txt").read_text())[1].split())
    groups = {}
    for part, folders in {"functions": ("composite", "sparse"), "program": ("program",), "cuda": ("cuda",), "cxx": ("cxx",)}.items():
        for path in (p for folder in folders for p in sorted((SOURCE / folder).rglob("*.cpp"))):
            word = f"{path.parent.name}/{path.stem}"
            if word not in alone:
                groups.setdefault((part, int(hashlib.md5(word.encode()).hexdigest()[0], 16) % 8), []).append(path)
    return groups.values()


def names_of_file(text):
    """Names of constants and classes at the outer level of a source, each with the namespaces around it."""
    around = []
    for line in text.splitlines():
        if opened := re.match(r"namespace ([\w:]*) ?\{$", line):
            around.append(opened[1])
        elif line.startswith("}  // namespace"):
            around.pop()
        elif found := re.match(r"(?:constexpr|const|thread_local)\b[^=({;]*?\b(\w+)(?:\[\w*\])*(?: = |\{|;)|(?:struct|class) (\w+)[^;]*$", line):
            yield "::".join([*around, found[1] or found[2]])


def test_joined_files_have_names_of_their_own():
    """Functions may be overloaded; what else two files name alike only a build from nothing would find."""
    clashes = []
    for files in joined_files():
        names = [(name, path) for path in files for name in set(names_of_file(path.read_text()))]
        clashes += [f"{name} in {path.name}" for name, path in names if sum(name == other for other, _ in names) > 1]
    assert clashes == []


def test_no_child_python_begins_in_the_source_folder():
    """There `import facula` finds the source, which has no compiled library where an installed copy is tested."""
    wrong = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call) and node.args):
            folder = [ast.unparse(k.value) for k in call.keywords if k.arg == "cwd"]
            command = ast.unparse(call.args[0])
            if "ROOT" in folder and "sys.executable" in command and "codegen" not in command:
                wrong.append(f"{path.relative_to(ROOT)}:{call.lineno}")
    assert wrong == []


def run_codegen(ops_folder: Path, source: Path, out: Path):
    return subprocess.run(
        [sys.executable, "-m", "codegen", "--ops", str(ops_folder), "--source", str(source), "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip


def test_an_elementwise_op_touches_two_files(tmp_path):
    """One YAML entry and one scalar function give the binding, in-place and out forms, node, loops and docs."""
    ops_folder, source, out = tmp_path / "ops", tmp_path / "src", tmp_path / "gen"
    shutil.copytree(ROOT / "ops", ops_folder)
    shutil.copytree(SOURCE, source)
    before = {p: p.read_bytes() for p in [*ops_folder.rglob("*"), *source.rglob("*")] if p.is_file()}
    with open(ops_folder / "special.yaml", "a") as file:
        file.write(
            "\n- op: cube_root_of_e(Tensor self) -> Tensor\n  kind: unary\n  dtypes: floating\n  scalar: cube_root_of_e\n"
            "  grad: {self: grad * result / 3}\n  doc: exp(self / 3).\n  samples: {range: [-1, 1]}\n"
        )
    with open(source / "kernels" / "special.h", "a") as file:
        file.write("namespace facula::kernels {\ntemplate <class T>\n")
        file.write("FACULA_FN T cube_root_of_e(T x) { return exp(x / T(3)); }\n}\n")
    files = [p for p in [*ops_folder.rglob("*"), *source.rglob("*")] if p.is_file()]
    changed = [p for p in files if before.get(p) != p.read_bytes()]
    assert len(changed) == 2
    result = run_codegen(ops_folder, source, out)
    assert result.returncode == 0, result.stderr
    text = "".join(p.read_text() for p in out.rglob("*") if p.is_file())
    for made in (
        "Tensor cube_root_of_e(const Tensor& self)",
        "cube_root_of_e_(const Tensor& self)",
        "cube_root_of_e_out(const Tensor& out",
        "class CubeRootOfEBackward",
        "kernels::cube_root_of_e(a)",
        "fn_cube_root_of_e(",
        "method_cube_root_of_e(",
    ):
        assert made in text, made


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ("- op: f(Tensor self) -> Tensor\n  kind: nonsense\n  doc: x\n", "kind"),
        ("- op: f(Tensr self) -> Tensor\n  kind: native\n  doc: x\n", "op"),
        ("- op: f(Tensor self) -> Tensor\n  kind: unary\n  doc: x\n", "scalar"),
        ("- op: f(Tensor self) -> Tensor\n  kind: native\n  doc: x\n  grad: {other: grad}\n", "grad"),
        ("- op: f(Tensor self) -> Tensor\n  kind: native\n  doc: x\n  color: red\n", "color"),
        ("- op: f(Tensor self) -> Tensor\n  kind: native\n  doc: x\n  dtypes: float99\n", "dtypes"),
        ("- op: f(Tensor self) -> Tensor\n  kind: native\n", "doc"),
        ("- op: f(Tensor self) -> Tensor\n  kind: native\n  doc: x\n  checks: [tensor]\n", "checks"),
        ("- op: f(Tensor self) -> Tensor\n  kind: unary\n  scalar: f\n  doc: x\n  checks: [tensor]\n", "checks"),
    ],
)
def test_schema_errors_say_file_line_and_key(tmp_path, entry, key):
    (tmp_path / "bad.yaml").write_text("# a comment, so that lines count\n\n" + entry)
    with pytest.raises(schema.SchemaError, match=rf"bad\.yaml:\d+: {key}:"):
        schema.load(tmp_path)


def test_an_unbuilt_checkout_says_so(tmp_path):
    (tmp_path / "facula").mkdir()
    shutil.copy(ROOT / "facula" / "__init__.py", tmp_path / "facula")
    done = subprocess.run([sys.executable, "-c", "import facula"], cwd=tmp_path, capture_output=True, text=True, env={"PATH": ""})
    assert done.returncode == 1 and "without its compiled library; start Python in another folder" in done.stderr


# rooms of the Python package (docs/internals/python.md, "Where a function of the package is")

FUNCTIONS = ["facula/functions", "facula/nn/functions"]
# words of rooms that no op is near to
OWN_TOPICS = set("array_api autocast check control_flow device dtype foreach scaling settings streams symbolic tensor tensor_types".split())
# the private room that public names come from: it holds `torch.ops`
PRIVATE_HOMES = {"_operators"}


def defined(path):
    """The public names that a module defines."""
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else [t.id for t in targets if isinstance(t, ast.Name)]
        yield from (name for name in names if not name.startswith("_"))


def rooms(folder):
    return [path for path in (ROOT / folder).glob("*.py") if path.stem != "__init__"]


@pytest.mark.parametrize("folder", FUNCTIONS)
def test_functions_stand_in_rooms_with_topic_words(folder):
    topics = {path.stem for path in (ROOT / "ops").glob("*.yaml")} | OWN_TOPICS
    for path in rooms(folder):
        of_topic = any(path.stem == topic or path.stem.startswith(f"{topic}_") for topic in topics)
        assert of_topic or path.stem in defined(path), f"{path}: neither a topic nor a function in it"


@pytest.mark.parametrize("folder", FUNCTIONS)
def test_functions_are_written_once(folder):
    found = {}
    for path in rooms(folder):
        for name in set(defined(path)) - {"Tensor"}:
            assert name not in found, f"{name} stands in {path.name} and in {found[name]}"
            found[name] = path.name


def test_public_names_stand_in_no_private_file():
    from facula._shared.names import _LAZY, LAZY_NAMES

    for module, names in _LAZY.items():
        private = {part for part in module.split(".") if part.startswith("_")} - PRIVATE_HOMES
        assert not private, f"facula.{names.split()[0]} comes from the private file {module}"
    assert sum(len(names.split()) for names in _LAZY.values()) == len(LAZY_NAMES), "a name stands twice in _LAZY"
    stray = [p.name for p in (ROOT / "facula/nn").glob("_functional*.py")]
    assert not stray, f"functions of nn.functional belong into nn/functions: {stray}"


# layers of the Python package (ARCHITECTURE.md, "Layers of the Python package")

# what stands in facula/ and has no name of PyTorch's; the build puts _C there, which a checkout beside an installed copy lacks
OWN_FOLDERS = set("_C _tensor _operators _shared _serialization compat functions array_api".split())


def test_the_folder_of_the_package_has_public_names():
    """PyTorch's private names that packages import are in facula/compat/private."""
    names = set(re.findall(r"^torch\.(\w+)", (ROOT / "tests/data/pytorch_names.txt").read_text(), re.M))
    floor = {path.name.partition(".")[0] for path in (ROOT / "facula").iterdir()} - {"py", "__pycache__"}
    own = {"_C"} | {name for name in floor if not re.fullmatch(r"__\w+__", name) and name not in names}
    assert own == OWN_FOLDERS, own ^ OWN_FOLDERS


def test_imports_of_the_package_run_down():
    """Also those within functions, but for type checkers; each that runs up has its reason."""
    known, upward = python_layers.modules(), set()
    number = {name: python_layers.layer(name, path) for name, path in known.items() if name}
    for name, imported in python_layers.graph().items():
        file = name if known[name] is None else known[name].relative_to(ROOT / "facula").as_posix()
        upward |= {(file, other) for other in imported if number[other] > number[name]}
    listed = set(python_layers.UPWARD)
    assert upward == listed, f"new: {sorted(upward - listed)}; no longer: {sorted(listed - upward)}"
    assert len(listed) <= 15


def test_files_of_the_package_form_no_circle():
    """Not even by imports within functions. What has to know each other registers itself in the lower file."""
    assert python_layers.circles(python_layers.graph()) == []
    assert python_layers.circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]


def test_documents_name_the_layers():
    """Every module of tests/python_layers.py stands in the row of its layer."""
    rows = re.findall(r"^\| (\w+) \| (.*) \|$", (ROOT / "docs/internals/python.md").read_text(), re.M)
    stated = {name: set(re.findall(r"`([\w.]+)`", text)) for name, text in rows if name in python_layers.LAYERS}
    assert stated == {name: set(names.split()) for name, names in python_layers.LAYERS.items()}


# results, settings and documents


def benchmark_of(result, benchmarks):
    """The benchmark that a file of benchmarks/results is named after."""
    return max((name for name in benchmarks if f"{result}_".startswith(f"{name}_")), key=len, default=None)


def test_results_are_current():
    """Each is named after the benchmark that wrote it, which has one file, or several that documents cite."""
    folder = ROOT / "benchmarks"
    benchmarks = {p.stem for p in folder.iterdir() if p.suffix == ".py" or (p / "__main__.py").exists() or p.name == "cuda"} - {"__main__"}
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    cited = "".join(p.read_text() for p in documents)
    files = {}
    for path in (folder / "results").iterdir():
        assert path.suffix == ".json", path
        files.setdefault(benchmark_of(path.stem, benchmarks), []).append(path.name)
    assert None not in files, f"named after no file of benchmarks: {files[None]}"
    more = {name: [f for f in found if f not in cited] for name, found in files.items() if len(found) > 1}
    assert not any(more.values()), f"several files of one benchmark, which no document cites: {more}"


def test_a_result_belongs_to_the_longest_name():
    benchmarks = {"distributed", "distributed_faults", "micro"}
    assert benchmark_of("distributed_faults_2core_amd", benchmarks) == "distributed_faults"
    assert benchmark_of("micro", benchmarks) == "micro" and benchmark_of("microbe", benchmarks) is None


def test_cases_are_named_by_words(request):
    """`pytest -k` finds a case by what it is about. Looks at whatever this run has collected: in CI, at everything."""
    nameless = sorted({item.nodeid for item in request.session.items if counted(item)})
    assert not nameless, nameless[:20]


def test_one_command_runs_the_suite():
    """Of make, of CI and of the page that says how."""
    command = re.search(r"\$\(BIN\)/python (-m pytest.*)", (ROOT / "Makefile").read_text())[1]
    assert f'"$python" {command}\n' in (ROOT / ".ci/run").read_text()
    assert f"`python {command}`" in (ROOT / "CONTRIBUTING.md").read_text()


def installed_by(command):
    """The packages that a line of CONTRIBUTING.md installs."""
    listed = re.search(r"python \.ci/requirements\.py ([\w ]+?) \| pip install ([\w ]*)-r /dev/stdin", command)
    lists = subprocess.run([sys.executable, ROOT / ".ci" / "requirements.py", *listed[1].split()], capture_output=True, text=True, check=True)
    return {re.match(r"[\w-]+", line)[0].lower().replace("_", "-") for line in [*listed[2].split(), *lists.stdout.splitlines()]}


# modules that packages of another name bring
BROUGHT_BY = {"yaml": "pyyaml", "xdist": "pytest-xdist", "PIL": "matplotlib"}


def test_what_the_set_up_installs_is_what_tests_import():
    """All that is imported while tests are collected: from a new environment the suite begins."""
    set_up = (ROOT / "CONTRIBUTING.md").read_text().partition("## Set up")[2].partition("## Tests")[0]
    installed = installed_by(set_up)
    ours = [p for folder in ("tests", "benchmarks", "docs/site", ".ci") for p in (ROOT / folder).rglob("*.py")]
    own = {name for p in ours for name in (p.stem, p.parent.name)} | {"facula", "codegen", "torch"} | sys.stdlib_module_names
    missing = {}
    for path in (ROOT / "tests").glob("*.py"):
        for node in ast.parse(path.read_text()).body:  # what functions import is asked for there, by importorskip or a mark
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in {name.partition(".")[0] for name in names} - own:
                if BROUGHT_BY.get(name, name.replace("_", "-")) not in installed:
                    missing.setdefault(name, path.name)
    assert not missing, f"imported by tests, and not installed by the first lines of CONTRIBUTING.md: {missing}"
    assert {"cmake", "ninja", "scikit-build-core", "numpy", "clang-format"} <= installed
