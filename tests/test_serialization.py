"""facula.save and facula.load: values, views, formats, refusals, and files written by PyTorch."""

import argparse
import collections
import datetime
import enum
import importlib
import io
import os
import pathlib
import pickle
import sys
import zipfile

import pytest

import facula
from facula import serialization

DATA = pathlib.Path(__file__).parent / "data"
DTYPES = ("uint8 int8 int16 int32 int64 float16 float32 float64 bfloat16 bool complex64 complex128").split()


class Color(enum.Enum):
    RED = 1


class Point:
    def __init__(self, x):
        self.x = x


class Net(facula.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = facula.nn.Linear(3, 2)
        self.color = Color.RED

    def forward(self, x):
        return self.layer(x)


class RunsCode:
    def __reduce__(self):
        return os.mkdir, ("must_not_exist",)


def round_trip(obj, **options):
    stream = io.BytesIO()
    facula.save(obj, stream, **{k: v for k, v in options.items() if k != "weights_only"})
    stream.seek(0)
    return facula.load(stream, weights_only=options.get("weights_only"))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype, zipped):
    saved = facula.tensor([0, 1, 2]).to(getattr(facula, dtype))
    loaded = round_trip(saved, _use_new_zipfile_serialization=zipped)
    assert loaded.dtype == saved.dtype
    assert loaded.tolist() == saved.tolist()


@pytest.mark.parametrize("zipped", [True, False])
def test_views_share_their_storage(zipped):
    base = facula.arange(12).reshape(3, 4)
    loaded, row = round_trip((base, base[1, ::2]), _use_new_zipfile_serialization=zipped)
    assert row.tolist() == [4, 6] and row.stride() == (2,)
    loaded[1, 0] = -1
    assert row[0].item() == -1


def test_plain_values():
    value = {
        "n": [1, -1, 2**70, 2.5, True, None, 1j],
        "t": ((), (1,), (1, 2, 3, 4)),
        "b": b"\xff",
        "a": bytearray(b"x"),
        "s": {1, 2},
        "f": frozenset([1]),
        "d": collections.defaultdict(list, a=[1]),
        "q": collections.deque([1], 3),
        "c": collections.Counter("aab"),
        "p": pathlib.PurePosixPath("/a/b"),
        "r": range(3),
        "sl": slice(1, None),
        "time": datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
        "ns": argparse.Namespace(x=[1]),
        "e": ...,
        "dtype": facula.bfloat16,
        "size": facula.Size([1, 2]),
        "device": facula.device("cpu"),
        "": "\ud800ü",
    }
    loaded = round_trip(value)
    assert loaded == value
    assert [type(v) for v in loaded.values()] == [type(v) for v in value.values()]


def test_numpy_values():
    numpy = pytest.importorskip("numpy")
    for value in (
        numpy.arange(6).reshape(2, 3),
        numpy.asfortranarray(numpy.ones((2, 3))),
        numpy.float32(1.5),
        numpy.array(["a", "bc"]),
        numpy.array([1, None], dtype=object),
        numpy.array(["2020"], dtype="M8[D]"),
    ):
        loaded = round_trip(value)
        assert loaded.dtype == value.dtype and loaded.tolist() == value.tolist()


def test_shared_and_recursive_objects_keep_their_identity():
    inner = [1]
    inner.append(inner)
    loop = (inner, inner)
    a, b = round_trip(loop)
    assert a is b and a[1] is a


def test_state_dict_keeps_order_and_metadata():
    state = facula.nn.Sequential(facula.nn.Linear(2, 2), facula.nn.BatchNorm1d(2)).state_dict()
    loaded = round_trip(state)
    assert list(loaded) == list(state) and loaded._metadata == state._metadata


def test_parameter_stays_a_parameter():
    loaded = round_trip(facula.nn.Parameter(facula.ones(2), requires_grad=False))
    assert isinstance(loaded, facula.nn.Parameter) and not loaded.requires_grad


def test_two_dtypes_over_one_storage():
    base = facula.ones(2)
    ints, floats = round_trip((base.view(facula.int32), base))
    assert ints.dtype == facula.int32 and floats.tolist() == [1, 1]
    floats[0] = 0
    assert ints[0].item() == 0


@pytest.mark.parametrize("name", ["by_pytorch_zip.pt", "by_pytorch_protocol5.pt", "by_pytorch_legacy.pt"])
def test_files_written_by_pytorch(name):
    loaded = facula.load(DATA / name)
    assert loaded["base"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert loaded["row"].tolist() == [3, 4, 5] and loaded["column"].tolist() == [1, 4]
    loaded["base"][1, 1] = 9
    assert loaded["row"][1].item() == 9 and loaded["column"][1].item() == 9
    assert loaded["words"] == [1, 2.5, True, None, b"\xff", 2**70, (1,)]
    assert loaded["od"] == collections.OrderedDict(a=1)
    assert (loaded["size"], loaded["dtype"], loaded["device"]) == (
        facula.Size([2]),
        facula.float16,
        facula.device("cpu"),
    )
    assert loaded["p"].requires_grad
    for dtype in DTYPES:
        assert loaded[dtype].dtype == getattr(facula, dtype)
        assert loaded[dtype].tolist() == facula.tensor([0, 1, 2]).to(getattr(facula, dtype)).tolist()
    if "legacy" not in name:
        assert loaded["uint16"].dtype == facula.uint16 and loaded["uint16"].tolist() == [0, 1, 2]
        assert loaded["meta"].device.type == "meta" and loaded["meta"].shape == (2, 3)


def test_mmap_is_private(tmp_path):
    path = tmp_path / "a.pt"
    facula.save(facula.ones(5), path)
    mapped = facula.load(path, mmap=True)
    mapped[0] = 7
    assert facula.load(path).tolist() == [1] * 5


def test_shared_mmap_changes_the_file(tmp_path):
    path = tmp_path / "a.pt"
    facula.save(facula.ones(5), path)
    with serialization.set_default_mmap_options(serialization.MAP_SHARED):
        facula.load(path, mmap=True)[0] = 7
    with pytest.raises(RuntimeError, match="checksum"):
        facula.load(path)
    assert facula.load(path, mmap=True).tolist() == [7, 1, 1, 1, 1]


def test_open_files_load_from_where_they_stand(tmp_path):
    path = tmp_path / "a.pt"
    with open(path, "wb") as file:
        file.write(b"before")
        facula.save([1], file, _use_new_zipfile_serialization=False)
        facula.save([2], file, _use_new_zipfile_serialization=False)
    with open(path, "rb") as file:
        assert file.read(6) == b"before"
        assert facula.load(file) == [1] and facula.load(file) == [2]


def test_mmap_refuses_compressed_records_but_reading_inflates_them(tmp_path):
    path, packed = tmp_path / "a.pt", tmp_path / "packed.pt"
    facula.save(facula.ones(1000), path)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(RuntimeError, match="compressed"):
        facula.load(packed, mmap=True)
    assert facula.load(packed).sum().item() == 1000


def test_files_are_zips_with_aligned_payloads(tmp_path):
    path = tmp_path / "model.v1.pt"
    facula.save({"a": facula.ones(3), "b": facula.ones(5)}, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "model.v1/data.pkl"
        for info in archive.infolist():
            header = path.read_bytes()[info.header_offset : info.header_offset + 30]
            payload = (
                info.header_offset
                + 30
                + int.from_bytes(header[26:28], "little")
                + int.from_bytes(header[28:30], "little")
            )
            assert payload % 64 == 0


def test_equal_objects_give_equal_files():
    def saved():
        stream = io.BytesIO()
        facula.save({"a": facula.ones(3), "b": [1, "x"]}, stream)
        return stream.getvalue()

    assert saved() == saved()


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    facula.save([1], path)
    with pytest.raises(pickle.PicklingError):
        facula.save([1, RunsCode()], path)
    assert facula.load(path) == [1]
    assert os.listdir(tmp_path) == ["a.pt"]


def test_file_object_with_several_objects():
    stream = io.BytesIO()
    facula.save([1, facula.ones(2)], stream, _use_new_zipfile_serialization=False)
    facula.save("second", stream, _use_new_zipfile_serialization=False)
    stream.seek(0)
    assert facula.load(stream)[0] == 1
    assert facula.load(stream) == "second"


@pytest.mark.parametrize(
    "value, where",
    [
        ({"a": [0, lambda: 0]}, r"obj\['a'\]\[1\]"),
        ([RunsCode()], r"obj\[0\]"),
        ({"f": os.system}, "system"),
        ({"x": {"y": (i for i in ())}}, r"obj\['x'\]\['y'\]"),
        (collections.defaultdict(lambda: 0, a=1), "lambda"),
    ],
)
def test_save_refuses_what_load_could_not_restore_and_says_where(value, where):
    with pytest.raises(pickle.PicklingError, match=where):
        facula.save(value, io.BytesIO())


@pytest.mark.parametrize("weights_only", [True, False, None])
def test_load_never_calls_what_a_file_names(weights_only, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(2, 6):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({"x": RunsCode()}, protocol))
            archive.writestr("archive/version", "3\n")
        stream.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="mkdir"):
            facula.load(stream, weights_only=weights_only)
    assert os.listdir(tmp_path) == []


def test_the_refusal_lists_every_name():
    stream = io.BytesIO()
    facula.save([Point(1), Net()], stream)
    stream.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"(?s)Point.*Net"):
        facula.load(stream)
    stream.seek(0)
    names = serialization.get_unsafe_globals_in_checkpoint(stream)
    assert f"{__name__}.Point" in names and f"{__name__}.Net" in names


def test_whole_modules_come_back_on_request():
    net = Net()
    loaded = round_trip(net, weights_only=False)
    assert type(loaded) is Net and loaded.color is Color.RED
    x = facula.ones(1, 3)
    assert loaded(x).tolist() == net(x).tolist()


def test_no_module_is_imported_for_a_class_that_a_file_names(tmp_path, monkeypatch):
    (tmp_path / "own_model.py").write_text(
        "import facula\nclass OwnNet(facula.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.layer = facula.nn.Linear(2, 1)\n"
    )
    (tmp_path / "dangerous.py").write_text("raise SystemExit('imported')")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "generate.py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    stream = io.BytesIO()
    facula.save(importlib.import_module("own_model").OwnNet(), stream)
    stream.seek(0)
    assert type(facula.load(stream, weights_only=False)).__name__ == "OwnNet"
    del sys.modules["own_model"]
    stream.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Not imported by this program.*: own_model"):
        facula.load(stream, weights_only=False)
    assert "own_model" not in sys.modules
    for names in (
        b"cdangerous\nNet\n",
        b"cown_model\nos\n",
        b"cantigravity\nNet\n",
        b"cown_model\nfacula.hub\n",
    ):
        bad = io.BytesIO()
        with zipfile.ZipFile(bad, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\2" + names + b")\x81.")
            archive.writestr("archive/version", "3\n")
        bad.seek(0)
        with pytest.raises(pickle.UnpicklingError):
            facula.load(bad, weights_only=False)


def test_whole_modules_by_safe_globals():
    allowed = [Net, Color, facula.nn.Linear, facula.nn.functional.relu]
    stream = io.BytesIO()
    net = Net()
    net.activation = facula.nn.functional.relu
    facula.save(net, stream)
    stream.seek(0)
    with serialization.safe_globals(allowed):
        loaded = facula.load(stream)
    assert loaded.activation is facula.nn.functional.relu and loaded.color is Color.RED


class Slotted:
    __slots__ = ("x",)
    seen = []

    @property
    def loud(self):
        return None

    @loud.setter
    def loud(self, value):
        self.seen.append(value)


class Hashed:
    seen = []

    def __hash__(self):
        self.seen.append(self)
        return 1


def test_restoring_objects_runs_neither_properties_nor_hashes():
    slotted = Slotted()
    slotted.x = 5
    assert round_trip(slotted, weights_only=False).x == 5
    name = __name__.encode()
    for program in (
        b"c%s\nSlotted\n)\x81N}X\4\0\0\0loudK\1s\x86b." % name,
        b"}c%s\nHashed\n)\x81K\1s." % name,
    ):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\2" + program)
            archive.writestr("archive/version", "3\n")
        stream.seek(0)
        with pytest.raises((pickle.UnpicklingError, RuntimeError), match="slot|hash it"):
            facula.load(stream, weights_only=False)
    assert Slotted.seen == [] and Hashed.seen == []


def test_safe_globals():
    with serialization.safe_globals([Point]):
        assert round_trip(Point(3)).x == 3
    assert serialization.get_safe_globals() == []
    stream = io.BytesIO()
    facula.save(Point(3), stream)
    stream.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Point"):
        facula.load(stream)
    for dangerous in (eval, os.system):
        with pytest.raises(ValueError, match="never safe"):
            serialization.add_safe_globals([dangerous])


@pytest.mark.parametrize(
    "location", ["cpu", facula.device("cpu"), {"cpu": "cpu"}, lambda storage, tag: storage]
)
def test_map_location(location):
    stream = io.BytesIO()
    facula.save(facula.ones(2), stream)
    stream.seek(0)
    assert facula.load(stream, map_location=location).tolist() == [1, 1]


def test_map_location_sees_each_storage_and_its_place():
    stream, seen = io.BytesIO(), []
    facula.save([facula.ones(2), facula.ones(3)], stream)
    stream.seek(0)
    facula.load(stream, map_location=lambda storage, tag: seen.append((storage.nbytes(), tag)))
    assert seen == [(8, "cpu"), (12, "cpu")]


def test_skip_data_reserves_room(tmp_path):
    path = tmp_path / "a.pt"
    with serialization.skip_data():
        facula.save(facula.ones(100), path)
    assert os.path.getsize(path) > 400
    assert facula.load(path).tolist() == [0] * 100


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"\x80\x02.", b"hello", bytes(100), b"\x80\x05\x95"])
def test_other_files_are_refused_clearly(content):
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="^load: "):
        facula.load(io.BytesIO(content))


def test_missing_file_and_wrong_arguments(tmp_path):
    with pytest.raises(FileNotFoundError):
        facula.load(tmp_path / "none.pt")
    with pytest.raises(RuntimeError, match="does not exist"):
        facula.save(1, tmp_path / "none" / "a.pt")
    with pytest.raises(ValueError, match="mmap=True needs a path"):
        facula.load(io.BytesIO(), mmap=True)
    with pytest.raises(AttributeError):
        facula.load(3)


# mapped files


def test_a_mapped_load_reads_little_and_outlives_the_file(tmp_path):
    path = tmp_path / "big.pt"
    facula.save({"a": facula.arange(1 << 22), "b": facula.ones(3)}, path)
    before = facula.cpu.memory_allocated()
    loaded = facula.load(path, mmap=True)
    assert facula.cpu.memory_allocated() - before < 1 << 20  # the pages belong to the file
    path.unlink()
    assert loaded["a"][-1].item() == (1 << 22) - 1 and loaded["b"].tolist() == [1] * 3


def test_mmap_takes_paths_and_zip_files_only(tmp_path):
    path = tmp_path / "old.pt"
    facula.save(facula.ones(1), path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="^load: mmap=True needs a checkpoint in the zip format"):
        facula.load(path, mmap=True)
    with pytest.raises(ValueError, match="^load: mmap=True needs a path"):
        facula.load(io.BytesIO(), mmap=True)


def test_mmap_with_views_parameters_and_a_truncated_file(tmp_path):
    path = tmp_path / "a.pt"
    base = facula.arange(6.0)
    facula.save({"base": base, "row": base[2:4], "p": facula.nn.Parameter(facula.ones(2))}, path)
    loaded = facula.load(path, mmap=True)
    loaded["base"][2] = 7
    assert loaded["row"].tolist() == [7, 3] and loaded["p"].requires_grad
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises((RuntimeError, ValueError), match="load"):
        facula.load(path, mmap=True)


@pytest.mark.parametrize("location", ["cuda*0", "cuda:x"])
def test_a_location_that_is_no_device_is_an_error_of_load(location):
    stream = io.BytesIO()
    facula.save(facula.ones(2), stream)
    stream.seek(0)
    with pytest.raises(RuntimeError, match="^load: "):
        facula.load(stream, map_location=location)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"<!DOCTYPE html>\n<html><body>Not found</body></html>", "an HTML or XML page"),
        (b"\n  <HTML><head>", "an HTML or XML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", r"a Git LFS pointer.*git lfs pull"),
        (b"Access denied. Please log in.\n", "text that begins with 'Access denied"),
        ("Zugang verweigert: ungültig".encode(), "text that begins with"),
        (b"\x20\0\0\0\0\0\0\0" + b'{"a":{"dtype":"F32"}}      ', "a safetensors file"),
        (b"\x1f\x8b\x08\0abcdef", "a gzip archive"),
        (b"\x89HDF\r\n\x1a\n\0\0", "an HDF5 file"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_is_no_checkpoint_is_recognized(data, what, weights_only, tmp_path):
    (tmp_path / "model.pt").write_bytes(data)
    for source, options in ((io.BytesIO(data), {}), (tmp_path / "model.pt", {}), (tmp_path / "model.pt", {"mmap": True})):
        with pytest.raises(pickle.UnpicklingError, match=f"^load: expected a checkpoint, got {what}"):
            facula.load(source, weights_only=weights_only, **options)
