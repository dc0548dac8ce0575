"""Packages: what they hold, what is refused, and that PyTorch's open (tests/data)."""

import importlib
import io
import sys
import textwrap
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest

import facula as torch
from facula.package import (
    EmptyMatchError,
    GlobGroup,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    PackageExporter,
    PackageImporter,
    PackagingError,
    is_from_package,
    sys_importer,
)
from facula.package.analyze import find_first_use_of_broken_modules, trace_dependencies

SOURCES = {
    "pk_shop.py": """
        import json
        import pk_tools
        from pk_parts import wheel

        def price():
            return pk_tools.TAX + wheel.SPOKES

        class Order:
            class Line:
                pass
        """,
    "pk_tools.py": "TAX = 3\n",
    "pk_parts/__init__.py": "",
    "pk_parts/wheel.py": "from . import rim\nfrom .rim import *\nSPOKES = rim.HOLES\n",
    "pk_parts/rim.py": "HOLES = 32\n",
}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """The module pk_shop of a program of several files."""
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("pk_shop")
    for name in [name for name in sys.modules if name.startswith("pk_")]:
        del sys.modules[name]


def packed(fill, **options):
    file = io.BytesIO()
    with PackageExporter(file, **options) as exporter:
        fill(exporter)
    return file.getvalue()


def opened(fill, **options):
    return PackageImporter(io.BytesIO(packed(fill, **options)))


def test_modules_come_from_the_file(shop):
    def fill(exporter):
        exporter.intern("pk_*.**")
        exporter.intern("pk_*")
        exporter.save_module("pk_shop")
        assert exporter.interned_modules() == ["pk_parts", "pk_parts.rim", "pk_parts.wheel", "pk_shop", "pk_tools"][1:]
        assert exporter.externed_modules() == ["json"] and exporter.mocked_modules() == exporter.denied_modules() == []
        assert exporter.get_rdeps("pk_tools") == ["pk_shop"] and exporter.get_rdeps("nobody") == []
        assert '"pk_shop" -> "pk_tools";' in exporter.dependency_graph_string()
        assert '"pk_parts.wheel" -> "pk_parts.rim";' in exporter.all_paths("pk_shop", "pk_parts.rim")
        assert "pk_tools" not in exporter.all_paths("pk_shop", "pk_parts.rim")
        assert exporter.get_unique_id() != exporter.get_unique_id()

    importer = opened(fill)
    module = importer.import_module("pk_shop")
    assert module.price() == 35 and module is importer.import_module("pk_shop") and module is not shop
    assert module.__name__ == f"{importer.id()}.pk_shop" and importer.import_module(".rim", "pk_parts").HOLES == 32
    assert module.json is importlib.import_module("json") and importer.import_module("torch_package_importer") is importer
    assert is_from_package(module) and is_from_package(module.Order()) and not is_from_package(shop)
    assert importer.get_source("pk_tools") == SOURCES["pk_tools.py"]
    assert importer.python_version() == ".".join(map(str, sys.version_info[:3]))
    assert opened(fill).id() != importer.id()


def test_pickles_share_storages_and_name_pytorch():
    whole = torch.arange(6.0).reshape(2, 3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.ReLU())
    value = {
        "model": model, "whole": whole, "row": whole[1], "bits": whole.view(torch.int32), "half": torch.ones(2).bfloat16(),
        "odd": torch.ones(2, dtype=torch.uint16), "sparse": torch.eye(2).to_sparse(), "conj": torch.ones(1, dtype=torch.complex64).conj(),
        "plain": OrderedDict(a=(torch.float16, torch.sparse_coo, torch.device("cpu"), torch.Size([2]), torch.channels_last)),
        "functions": [torch.relu, torch.nn.functional.gelu, torch.nn.functional.relu], "types": [type(None), torch.Tensor],
    }  # fmt: skip
    for protocol in 3, 4:

        def fill(exporter, protocol=protocol):
            exporter.save_pickle("made.here", "value.pkl", value, pickle_protocol=protocol)
            exporter.save_pickle("made", "again.pkl", whole)

        data = packed(fill)
        records = zipfile.ZipFile(io.BytesIO(data))
        assert b"facula" not in records.read("archive/made/here/value.pkl")
        sizes = sorted(info.file_size for info in records.infolist() if info.filename.endswith(".storage"))
        assert sizes.count(whole.nbytes) == 2  # weights and `whole`: views of it and the second pickle have no other
        importer = PackageImporter(io.BytesIO(data))
        got = importer.load_pickle("made.here", "value.pkl")
        assert torch.equal(got["whole"], whole) and got["row"].data_ptr() == got["whole"][1].data_ptr() == got["bits"][1].data_ptr()
        assert torch.equal(got["model"].eval()(whole), model.eval()(whole)) and type(got["model"][0]) is torch.nn.Linear
        assert got["plain"] == value["plain"] and got["functions"] == value["functions"] and got["types"] == value["types"]
        assert torch.equal(got["half"], value["half"]) and torch.equal(got["odd"], value["odd"]) and got["conj"].is_conj()
        assert torch.equal(got["sparse"].to_dense(), torch.eye(2))
        assert torch.equal(importer.load_pickle("made", "again.pkl"), whole)
        assert importer.load_pickle("made", "again.pkl", map_location="meta").is_meta


def test_torch_is_facula_in_a_package():
    def fill(exporter):
        exporter.save_source_string("net", "import torch.nn as nn\nfrom torch.nn import functional as F\nimport torch\n"
                                    "class Net(nn.Module):\n    def forward(self, x):\n        return F.relu(x) + torch.ones(1)\n")

    module = opened(fill).import_module("net")
    assert module.torch is torch and issubclass(module.Net, torch.nn.Module)
    assert module.Net()(torch.tensor([-1.0, 2.0])).tolist() == [1, 3]


def test_objects_of_a_package_are_packed_again(shop):
    def fill(exporter):
        exporter.intern("pk_**" if False else ["pk_*", "pk_*.**"])
        exporter.save_pickle("orders", "first.pkl", [shop.Order(), shop.Order.Line()])

    importer = opened(fill)
    order, line = importer.load_pickle("orders", "first.pkl")
    home = importer.import_module("pk_shop")
    assert type(order) is home.Order and type(line) is home.Order.Line

    def again(exporter):
        exporter.intern(["pk_*", "pk_*.**"])
        exporter.save_pickle("orders", "second.pkl", order)

    with pytest.raises(Exception, match="comes from <torch_package_"):
        packed(again)
    second = opened(again, importer=(importer, sys_importer))
    assert second.import_module("pk_shop").price() == 35 and is_from_package(second.load_pickle("orders", "second.pkl"))
    both = OrderedImporter(importer, sys_importer)
    assert both.import_module("pk_shop") is home and both.get_name(home.Order) == ("pk_shop", "Order")
    assert both.get_name(shop.Order) == ("pk_shop", "Order") and both.whichmodule(shop.price, "price") == "pk_shop"
    with pytest.raises(ObjMismatchError, match="got <class '<torch_package"):
        sys_importer.get_name(home.Order)
    with pytest.raises(ObjNotFoundError, match="was not found as"):
        sys_importer.get_name(type("Nobody", (), {}))
    with pytest.raises(ModuleNotFoundError, match="pk_nobody"):
        both.import_module("pk_nobody")
    assert sys_importer.get_name(torch.nn.Linear) == ("torch.nn.modules.linear", "Linear")


def test_mocked_modules_refuse_to_be_used(shop):
    def fill(exporter):
        exporter.mock("pk_tools")
        exporter.intern("**")
        exporter.save_module("pk_shop")
        assert exporter.mocked_modules() == ["pk_tools"]

    module = opened(fill).import_module("pk_shop")
    assert "TAX" in repr(module.pk_tools.TAX)
    with pytest.raises(NotImplementedError, match="pk_tools.TAX: it is only a mock in this package, and __add__"):
        module.price()

    def hold(exporter):
        exporter.mock("pk_shop")
        exporter.save_pickle("orders", "first.pkl", shop.Order())

    with pytest.raises(PackagingError, match="was mocked, and yet an object that is saved needs it(?s:.*)pk_shop(?s:.*)<orders.first.pkl>"):
        packed(hold)


def test_modules_that_are_not_accounted_for(shop, tmp_path):
    path = tmp_path / "whole.pt"
    with pytest.raises(PackagingError, match=r"No pattern says what to do with the module(?s:.*)pk_tools\n.*pk_parts.wheel") as caught:
        with PackageExporter(path, debug=True) as exporter:
            exporter.save_module("pk_shop")
    assert not path.exists() and not list(tmp_path.glob(".whole*"))
    assert "A path to pk_tools: pk_shop -> pk_tools" in str(caught.value)
    assert find_first_use_of_broken_modules(caught.value)["pk_tools"] == ["pk_shop", "pk_tools"]
    with pytest.raises(PackagingError, match=r"denied by a pattern.\n    pk_tools"):
        packed(lambda e: (e.deny("pk_tools"), e.intern("**"), e.save_module("pk_shop")))
    with pytest.raises(PackagingError, match=r"had no __file__ defined.\n    sys\n      Note"):
        packed(lambda e: e.save_module("sys"))
    with pytest.raises(PackagingError, match=r"C extension module(?s:.*)\n    facula\._C\n"):
        packed(lambda e: e.save_module("facula._C"))
    with pytest.raises(PackagingError, match=r"Dependency resolution failed.\n    broken\n      Context: "):
        packed(lambda e: e.save_source_string("broken", "import ("))
    with pytest.raises(EmptyMatchError, match=r"GlobGroup\(include=no.\*\*, exclude=\(\)\), given with allow_empty=False"):
        packed(lambda e: e.extern("no.**", allow_empty=False))
    with pytest.raises(PackagingError, match="    sys\n"):
        packed(lambda e: e.save_source_string("reaches", "import sys"))
    assert opened(lambda e: (e.extern("sys"), e.save_source_string("reaches", "import sys"))).import_module("reaches").sys is sys


def test_files_and_their_tree(tmp_path):
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "__init__.py").write_text("A = 1\n")
    (tmp_path / "src" / "deep" / "b.py").write_text("B = 2\n")

    def fill(exporter):
        exporter.save_source_file("top", str(tmp_path / "src"))
        exporter.save_source_file("one", tmp_path / "src" / "deep" / "b.py")
        exporter.save_text("notes", "a.txt", "é")
        exporter.save_binary("notes", "b.bin", b"\0\1")

    data = packed(fill)
    importer = PackageImporter(io.BytesIO(data))
    assert (importer.load_text("notes", "a.txt"), importer.load_binary("notes", "b.bin")) == ("é", b"\0\1")
    assert importer.load_text("notes", "a.txt", "ascii", "replace") == "\ufffd\ufffd"
    assert importer.import_module("top").A == 1 and importer.import_module("top.deep.b").B == importer.import_module("one").B == 2
    tree = importer.file_structure(include="**/*.txt", exclude="one.py")
    assert str(tree) == "─── <binary>\n    └── notes\n        └── a.txt\n"
    tree = importer.file_structure()
    assert tree.has_file("top/deep/b.py") and tree.has_file("notes") and not tree.has_file("notes/b")
    assert "├── notes\n    │   ├── a.txt\n    │   └── b.bin\n" in str(tree)
    reader = importer.get_resource_reader("top")
    assert list(reader.contents()) == ["__init__.py", "deep"] and reader.is_resource("__init__.py")
    assert reader.open_resource("__init__.py").read() == b"A = 1\n" and importer.get_resource_reader("one") is None
    with pytest.raises(FileNotFoundError):
        reader.resource_path("__init__.py")
    zipfile.ZipFile(io.BytesIO(data)).extractall(tmp_path / "out")
    unpacked = PackageImporter(str(tmp_path / "out" / "archive"))
    assert unpacked.import_module("top.deep.b").B == 2 and unpacked.load_text("notes", "a.txt") == "é"


def test_hooks_see_each_module():
    seen = []

    def fill(exporter):
        exporter.mock("absent")
        for kind in "intern", "extern", "mock":
            getattr(exporter, f"register_{kind}_hook")(lambda _, name, kind=kind: seen.append((kind, name)))
        exporter.register_intern_hook(lambda *_: seen.append("removed")).remove()
        exporter.save_source_string("own", "import json\nimport absent\n")

    packed(fill)
    assert seen == [("intern", "own"), ("extern", "json"), ("mock", "absent")]


def test_objects_that_say_how_they_are_packed(shop):
    class Packs:
        def __reduce_package__(self, exporter):
            name = f"made._{exporter.get_unique_id()}"
            exporter.save_source_string(name, "VALUE = 7\n")
            return _value_of, (name,)

    one = Packs()
    importer = opened(lambda e: (e.extern(__name__), e.save_pickle("p", "one.pkl", [one, one])))
    assert importer.load_pickle("p", "one.pkl") == [7, 7]


def _value_of(importer, name):
    return importer.import_module(name).VALUE


def test_patterns():
    group = GlobGroup(["a.**", "b.*.c"], exclude="a.x.**")
    names = ["a", "a.b", "a.b.c", "a.x", "a.x.y", "b.c", "b.d.c", "b.d.e.c", "ab"]
    assert [name for name in names if group.matches(name)] == ["a", "a.b", "a.b.c", "b.d.c"]
    assert GlobGroup("**/*.py", separator="/").matches("x/y.py") and not GlobGroup("*.py", separator="/").matches("x/y.py")
    for wrong, kind in (("a**", ValueError), (3, TypeError), ([3], TypeError)):
        with pytest.raises(kind):
            GlobGroup(wrong)


def test_which_modules_a_function_uses():
    used = trace_dependencies(textwrap.dedent, [("  a",), (" b",)])
    assert "textwrap" in used and "json" not in used


def test_a_folder_of_another_name_is_no_mistake(tmp_path):
    path = tmp_path / "model.package.pt"
    with PackageExporter(str(path)) as exporter:
        exporter.save_text("a", "b", "c")
    assert PackageImporter(path).load_text("a", "b") == "c" and "model.package/a/b" in zipfile.ZipFile(path).namelist()


GOOD = packed(lambda e: (e.save_text("a", "b", "c"), e.save_pickle("a", "t.pkl", torch.ones(3)), e.save_source_string("m", "import json")))


def test_load_refuses_packages():
    for weights_only in True, False:
        with pytest.raises(RuntimeError, match="^load: this is a package, a program .* package.PackageImporter"):
            torch.load(io.BytesIO(GOOD), weights_only=weights_only)


def changed(name, data, extra=()):
    """GOOD with a file exchanged (left out where data is None), and others added."""
    old, file = zipfile.ZipFile(io.BytesIO(GOOD)), io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            content = data if info.filename == f"archive/{name}" else old.read(info)
            if content is not None:
                new.writestr(info.filename, content)
        for path in extra:
            new.writestr(path, b"x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"", RuntimeError, "^PackageImporter: this package is damaged or not one"),
        (GOOD[:-30], RuntimeError, "^PackageImporter: .* got <binary>$"),
        (GOOD + b"0", RuntimeError, "^PackageImporter: bytes|^PackageImporter: .*bytes follow"),
        (changed(".data/extern_modules", None), RuntimeError, "it has no .data/extern_modules, got <binary>$"),
        (changed("", b"", ["archive/../up"]), RuntimeError, "has the path '../up'"),
        (changed("", b"", ["archive//up"]), RuntimeError, "has the path '/up'"),
        (changed("", b"", ["archive/" + "a/" * 80 + "b"]), RuntimeError, "has the path 'a/a"),
        (changed(".data/0.storage", b"1234"), RuntimeError, "^load_pickle: .* should have 12 bytes, got 4$"),
        (changed(".data/0.storage", None), RuntimeError, "^load_pickle: the package has no such storage"),
        (changed("byteorder", b"middle"), RuntimeError, "byte order is little or big, got 'middle'$"),
        (changed("a/t.pkl", b"\x80\x03K\x01Q."), RuntimeError, "^load_pickle: .* by a tuple, got int$"),
        (changed("a/t.pkl", b"\x80\x03X\x04\0\0\0nopeK\x01\x86Q."), RuntimeError, "are known, got 'nope'$"),
        (changed("a/t.pkl", b"\x80\x03cnobody\nHere\n."), ModuleNotFoundError, "import_module: 'nobody' is neither in the package"),
    ],
)
def test_damaged_packages(data, kind, text):
    with pytest.raises(kind, match=text):
        PackageImporter(io.BytesIO(data)).load_pickle("a", "t.pkl")


def test_numbers_of_the_other_byte_order():
    def swapped(name, old):
        return {"byteorder": b"big" if sys.byteorder == "little" else b"little"}.get(name) or (
            torch.ones(3).numpy().byteswap().tobytes() if name.endswith(".storage") else old
        )

    old, file = zipfile.ZipFile(io.BytesIO(GOOD)), io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, swapped(info.filename.removeprefix("archive/"), old.read(info)))
    assert PackageImporter(io.BytesIO(file.getvalue())).load_pickle("a", "t.pkl").tolist() == [1, 1, 1]


IMPORTER = PackageImporter(io.BytesIO(GOOD))


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda: IMPORTER.import_module("nobody"), ModuleNotFoundError, r"^import_module: 'nobody' .* modules: \["),
        (lambda: IMPORTER.import_module("m.below"), ModuleNotFoundError, "'m.below'; 'm' is not a package$"),
        (lambda: IMPORTER.import_module(""), ValueError, "Empty module name"),
        (lambda: IMPORTER.import_module(3), TypeError, "^import_module: .* got int$"),
        (lambda: IMPORTER.load_text("a", "x/b"), ValueError, "^PackageImporter: resource must be the name of a file, got 'x/b'"),
        (lambda: IMPORTER.load_text("a", "nope"), FileNotFoundError, "^load_binary: .* got 'a/nope'$"),
        (lambda: IMPORTER.load_text("b", "b"), ModuleNotFoundError, "'b' is neither"),
        (lambda: IMPORTER.get_source("nobody"), ModuleNotFoundError, "'nobody' is neither"),
        (lambda: PackageImporter(io.BytesIO(GOOD), lambda name: name != "json"), ImportError, "refused 'json', an external module"),
        (lambda: PackageImporter(3), TypeError, "^PackageImporter: .* got int$"),
        (lambda: PackageImporter(io.StringIO("x")), TypeError, "got one that reads str$"),
        (lambda: PackageImporter("/nowhere/at/all"), FileNotFoundError, "at/all"),
        (lambda: PackageExporter(3), TypeError, "^PackageExporter: .* got int$"),
        (lambda: OrderedImporter(3), TypeError, "^OrderedImporter: .* got int$"),
        (lambda: packed(lambda e: e.save_module(sys)), TypeError, r"^save_module: .* got module$"),
        (lambda: packed(lambda e: e.save_module("nobody_at_all")), ModuleNotFoundError, "nobody_at_all"),
        (lambda: packed(lambda e: e.save_text("a", "b", 3)), TypeError, "^save_text: text must be str, got int$"),
        (lambda: packed(lambda e: e.save_binary("a", "b", "c")), TypeError, "^save_binary: .* got str$"),
        (lambda: packed(lambda e: e.save_text("a/../b", "b", "c")), ValueError, "got 'a/../b'$"),
        (lambda: packed(lambda e: e.save_text("a", "../b", "c")), ValueError, "got '../b'$"),
        (lambda: packed(lambda e: [e.save_text("a", "b", "c") for _ in "12"]), ValueError, "such a file already, got 'a/b'$"),
        (lambda: packed(lambda e: e.save_pickle("a", "b", lambda: 1)), Exception, "^Can't pickle <function"),
        (lambda: packed(lambda e: e.save_pickle("a", "b", 1, pickle_protocol=5)), ValueError, "must be 3 or 4, got 5$"),
        (lambda: packed(lambda e: e.save_pickle("a", "b", [torch.jit.script(torch.nn.Linear(1, 1))])), NotImplementedError,
         "(?m)^save_pickle: .* use jit.save, got Linear$"),
        (lambda: packed(lambda e: e.close()), RuntimeError, "^close: the package is closed already"),
        (lambda: packed(lambda e: e.all_paths("a", "b")), ValueError, "got 'a'$"),
        (lambda: find_first_use_of_broken_modules(KeyError()), TypeError, "got KeyError$"),
    ],
)
def test_what_is_refused(use, kind, text):
    with pytest.raises(kind, match=text):
        use()


def test_a_package_of_pytorch_opens():
    importer = PackageImporter(Path(__file__).parent / "data" / "package_of_pytorch.pt")
    value = importer.load_pickle("made", "value.pkl")
    assert value["row"].tolist() == [3, 4, 5] and value["row"].data_ptr() == value["whole"][1].data_ptr()
    net = importer.import_module("net").Net()
    net.load_state_dict(value["state"])
    assert torch.equal(net(value["whole"]), value["result"]) and is_from_package(value["point"])
    assert value["point"].x == 2 and value["point"].scale(3) == 6


def packed_by(save, **options):
    file = io.BytesIO()
    with torch.package.PackageExporter(file, **options) as exporter:
        save(exporter)
    file.seek(0)
    return torch.package.PackageImporter(file)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of importlib.resources
def test_what_cannot_be_imported_is_not_needed():
    def save(exporter):
        exporter.intern("**")
        exporter.save_source_string("reads", "import importlib.resources, notes_of_a_test\nimport os.path\nfrom os.path import join\n")
        exporter.save_text("notes_of_a_test", "a.txt", "text")

    module = packed_by(save).import_module("reads")
    assert module.importlib.resources.read_text(module.notes_of_a_test, "a.txt") == "text" and module.join("a", "b")


def test_calls_of_import_with_levels_and_names():
    source = '__import__("one", globals(), fromlist=["Name", ""], level=1)\n__import__("two.three", fromlist=["*"])\n__import__(name)'
    assert torch.package.find_file_dependencies.find_files_source_depends_on(source, "home") == [
        ("home.one", "Name"), ("home.one", None), ("two.three", None),
    ]  # fmt: skip


def test_classes_of_packages_have_sources():
    import inspect

    text = "class Small:\n    size = 3\n"
    importer = packed_by(lambda exporter: exporter.save_source_string("models.small", text))
    assert inspect.getsource(importer.import_module("models.small").Small) == text


def test_a_graph_module_packs_what_its_code_imports(tmp_path, monkeypatch):
    (tmp_path / "leaf_of_a_test.py").write_text("def leaf(x):\n    return x * 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import leaf_of_a_test

    graph = torch.fx.Graph()
    graph.output(graph.call_function(leaf_of_a_test.leaf, (graph.placeholder("x"),)))
    traced = torch.fx.GraphModule(torch.nn.Module(), graph)

    def save(exporter):
        exporter.intern("**")
        exporter.save_pickle("model", "model.pkl", traced)

    importer = packed_by(save)
    loaded = importer.load_pickle("model", "model.pkl")
    assert torch.equal(loaded(torch.ones(2)), torch.full((2,), 3.0))
    assert importer.import_module("leaf_of_a_test") is not leaf_of_a_test
    again = packed_by(save, importer=(importer, torch.package.sys_importer))
    assert torch.equal(again.load_pickle("model", "model.pkl")(torch.ones(1)), torch.full((1,), 3.0))


def test_what_is_above_an_external_module_is_of_the_package():
    def save(exporter):
        exporter.extern("json.decoder")
        exporter.save_source_string("program", "import json.decoder")

    import json

    importer = packed_by(save)
    importer.extern_modules[:] = [name for name in importer.extern_modules if name != "json"]
    importer.import_module("program")
    assert importer.import_module("json.decoder") is json.decoder


def test_a_mocked_module_is_packed_again():
    first = packed_by(lambda exporter: (exporter.mock("heavy_of_a_test"), exporter.save_source_string("user", "import heavy_of_a_test")))
    assert "MockedObject" in first.get_source("heavy_of_a_test")

    def save(exporter):
        exporter.intern("heavy_of_a_test")
        exporter.mock("**")
        exporter.save_source_string("user", "import heavy_of_a_test")

    with pytest.raises(NotImplementedError, match="only a mock"):
        packed_by(save, importer=first).import_module("user").heavy_of_a_test.work()
