"""The checkpoint reader against files made to harm it: each case here crashed, hung, or ran what it should not."""

import ast
import base64
import collections
import enum
import io
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

import facula
from facula import serialization

PACKAGE = pathlib.Path(facula.__file__).parent


def archive(pickled, records=()):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        target.writestr("archive/data.pkl", pickled)
        target.writestr("archive/version", "3\n")
        for name, data in records:
            target.writestr(f"archive/{name}", data)
    stream.seek(0)
    return stream


def load_pickle(pickled, **options):
    return facula.load(archive(pickled), **options)


class Call:
    """Pickles as a call of `function`, then a state."""

    def __init__(self, function, args, state=None):
        self.parts = function, args, state

    def __reduce__(self):
        return self.parts


def dtype(name, *state):
    return Call(np.dtype, (name, False, True), state)


def array(shape, kind, data, fortran=False):
    empty = (np.ndarray, (0,), b"b")
    return Call(np.zeros(1).__reduce__()[0], empty, (1, shape, kind, fortran, data))


def sized(kind, size, align, flags, order="<", version=3):
    return dtype(f"{kind}{size}", version, order, None, None, None, size, align, flags)


def plain(name, flags=0, order="<"):
    return dtype(name, 3, order, None, None, None, -1, -1, flags)


# -- numpy ----------------------------------------------------------------------------------------------


def numpy_values():
    text = np.array(["a", "bcd"])
    return [
        *(np.arange(3).astype(name) for name in "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16".split()),
        np.arange(3, dtype=">f8"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        text,
        text.astype("S"),
        np.array([b"ab\0c"], "V4"),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array([1, 2], "m8[25s]"),
        np.array([None, 1, "x", (2, [3])], object),
        np.zeros((0, 3)),
        np.float32(1.5),
        np.datetime64("2020-01-01T00"),
        np.array([np.arange(2), None], object),
    ]


def same(a, b):
    if isinstance(a, np.ndarray) and a.dtype == object:
        return a.shape == b.shape and all(same(x, y) for x, y in zip(a.ravel(), b.ravel()))
    if isinstance(a, (np.ndarray, np.generic)):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_numpy_values_and_dtypes_come_back(protocol):
    values = numpy_values()
    expected = pickle.loads(pickle.dumps(values, protocol))  # NumPy makes some arrays native as it loads them
    loaded = load_pickle(pickle.dumps(values, protocol))
    assert len(loaded) == len(values)
    for a, b in zip(expected, loaded):
        assert same(a, b), (a, b)
    kinds = [np.asarray(v).dtype for v in numpy_values()]
    assert load_pickle(pickle.dumps(kinds, protocol)) == kinds


@pytest.mark.parametrize("flags", [0, 2, 63])
def test_flags_of_a_dtype_are_numpys_own(flags):
    loaded = load_pickle(pickle.dumps(array((8,), plain("O8", flags, "|"), [None] * 8), 2))
    assert loaded.tolist() == [None] * 8 and loaded.dtype.flags == np.dtype(object).flags
    bad = load_pickle(pickle.dumps(array((2,), plain("u1", flags, "|"), b"ab"), 2))
    assert bad.dtype.flags == np.dtype("u1").flags and bad.tolist() == [97, 98]


def test_allowing_numpys_own_classes_changes_nothing():
    names = [np.ndarray, np.dtype, np.dtypes.ObjectDType, np.dtypes.Float64DType, np.zeros(1).__reduce__()[0]]
    with serialization.safe_globals(names):
        loaded = load_pickle(pickle.dumps(array((8,), plain("O8", 2, "|"), [None] * 8), 2))
        assert loaded.dtype.flags == np.dtype(object).flags
        with pytest.raises(pickle.UnpicklingError, match="bytes"):
            load_pickle(pickle.dumps(array((9,), plain("f8"), b"short"), 2))


BAD_ARRAYS = {
    "size of a text that is another": array((1,), sized("S", 4, 1, 0, "|").__class__(
        np.dtype, ("S4", False, True), (3, "|", None, None, None, 9, 1, 0)), b"abcd"),
    "structure": array((1,), dtype("V8", 3, "|", None, ("a",), {"a": (np.dtype("f8"), 0)}, 8, 1, 0), bytes(8)),
    "subarray": array((1,), dtype("V8", 3, "|", (np.dtype("f8"), (1,)), None, None, 8, 1, 0), bytes(8)),
    "too few bytes": array((1 << 40,), plain("f8"), b"x" * 8),
    "too few objects": array((5,), plain("O8", 63, "|"), [None]),
    "objects as bytes": array((1,), plain("O8", 63, "|"), bytes(8)),
    "negative size": array((-1,), plain("f8"), b""),
    "sizes whose product wraps": array((1 << 32, 1 << 32), plain("f8"), b""),
    "strides that wrap": array((0, 1 << 40, 1 << 40), plain("f8"), b""),
    "elements of no size": array((1 << 40,), sized("V", 0, 1, 0, "|"), b""),
    "too many dimensions": array((1,) * 60, plain("f8"), bytes(8)),
    "unknown time unit": array((1,), dtype("M8", 4, "<", None, None, None, -1, -1, 0, ({}, (b"zz", 1, 1, 1))), bytes(8)),
    "time unit of a float": array((1,), dtype("f8", 4, "<", None, None, None, -1, -1, 0, ({}, (b"s", 1, 1, 1))), bytes(8)),
    "unit that cannot be hashed": array((1,), dtype("M8", 4, "<", None, None, None, -1, -1, 0, ({}, ([], 1, 1, 1))), bytes(8)),
    "dtype that does not exist": array((1,), plain("f3"), bytes(8)),
    "objects in a scalar": Call(np.float64(1).__reduce__()[0], (np.dtype(object), bytes(8))),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_numpy_data_that_contradicts_itself_is_refused(name):
    with pytest.raises(pickle.UnpicklingError, match="^load: .*numpy"):
        load_pickle(pickle.dumps(BAD_ARRAYS[name], 2))


def test_an_array_is_filled_once():
    pickled = pickle.dumps(array((1,), plain("f8"), bytes(8)), 2)
    state = pickle.dumps((1, (1,), np.dtype("f8"), False, bytes(8)), 2)[2:-1]
    with pytest.raises(pickle.UnpicklingError, match="filled twice"):
        load_pickle(pickled[:-1] + state.replace(b"q\0", b"") + b"b.")


# -- recursion and time ---------------------------------------------------------------------------------

_DEEP = b")" + b"\x85" * 1_000_000
_TWICE = b"K\1" + b"q\0h\0\x86" * 100  # a pair of one thing with itself, 2^100 leaves


def _arrays_in_arrays(depth):
    """An array of objects that holds one that holds one ..."""
    state = b"(K\3X\1\0\0\0|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb"
    head = b"\x80\2cnumpy\ndtype\nX\2\0\0\0O8\x89\x88\x87R" + state + b"q\1" + b"0K\0q\3" + b"0"
    head += b"cnumpy.core.multiarray\n_reconstruct\nq\2" + b"0cnumpy\nndarray\nq\4" + b"0"
    level = b"h\2h\4K\0\x85C\1b\x87R(K\1K\1\x85h\1\x89]h\3atbq\3" + b"0"
    return head + level * depth + b"h\3."


DEEP = {
    "key beside many parts": b"\x80\2}(" + b"N" * 10000 + _DEEP + b"tK\1s.",
    "key": b"\x80\2}" + _DEEP + b"K\1s.",
    "set element": b"\x80\2\x8f(" + _DEEP + b"\x90.",
    "factory of a defaultdict": b"\x80\2ccollections\ndefaultdict\n" + _DEEP + b"\x85R.",
    "value of an enum": b"\x80\2ctest_checkpoint_reader\nColor\n" + _DEEP + b"\x85R.",
    "unit of a time": b"\x80\2cnumpy\ndtype\nX\2\0\0\0M8\x89\x88\x87R(K\4X\1\0\0\0<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
    b"K\0}(" + _DEEP + b"K\1K\1K\1t\x86tb.",
    "arrays of arrays": _arrays_in_arrays(200_000),
    "key that doubles at each step": b"\x80\2}" + _TWICE + b"K\1s.",
    "identity that doubles at each step": b"\x80\2" + _TWICE + b"Q.",
    "frozensets that double at each step": b"\x80\2(K\1\x91" + b"q\0(h\0K\1\x86h\0K\2\x86\x91" * 60 + b"q\1}h\1K\1s.",
}  # fmt: skip
REFUSED_DEEP = """
import sys, pickle, facula
sys.path.insert(0, sys.argv[1])
import test_checkpoint_reader as cases
for name, pickled in cases.DEEP.items():
    print(name, flush=True)
    try:
        cases.load_pickle(pickled, weights_only=False)
    except (pickle.UnpicklingError, RuntimeError) as error:
        assert len(str(error)) < 1000
    else:
        assert name.startswith("frozensets")
print("all")
"""


def test_nesting_neither_overflows_the_stack_nor_takes_for_ever():
    command = [sys.executable, "-c", REFUSED_DEEP, pathlib.Path(__file__).parent]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-100:] + done.stderr[-500:]
    assert done.stdout.endswith("all\n")


BOMBS = {
    "2 GB out of nothing": b"\x80\2cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "huge fraction": b"\x80\2cfractions\nFraction\nX\x0b\0\0\0" + b"1e999999999" + b"\x85R.",
    "huge int": b"\x80\2\x8b\xff\xff\xff\x7f.",
    "huge bytearray": b"\x80\2\x96\xff\xff\xff\xff\xff\xff\xff\xff.",
    "text that is not a number": b"\x80\2cdecimal\nDecimal\nX\x02\0\0\0" + b"x1" + b"\x85R.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_small_texts_for_large_values(name):
    with pytest.raises(pickle.UnpicklingError, match="^load: "):
        load_pickle(BOMBS[name])


def test_arrays_in_arrays_are_data():
    loaded = load_pickle(_arrays_in_arrays(50))
    for _ in range(50):
        assert loaded.dtype == object and loaded.shape == (1,)
        loaded = loaded[0]
    assert loaded == 0


def test_tuples_of_some_depth_are_data():
    value = ()
    for _ in range(150):
        value = (value,)
    assert load_pickle(pickle.dumps({"x": value, value: 1}, 2)) == {"x": value, value: 1}


def test_texts_show_values_of_a_file_only_through_shown():
    """A `!r` of a value from a file could print 2^100 leaves, or run its class's __repr__."""
    own = {"pickle_module", "endianness", "flags", "device_type", "byte_order"}  # the caller's, not the file's
    for path in PACKAGE.glob("_serialization/*.py"):
        if path.name in ("pickle_writer.py", "texts.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FormattedValue) or node.conversion != ord("r"):
                continue
            text = ast.unparse(node.value)
            assert text in own | {"item"}, f"{path.name}:{node.lineno}: {text}"


# -- files that change ----------------------------------------------------------------------------------

CUT = """
import os, sys, facula
from facula._serialization import source
path, zipped, mapped = sys.argv[1], sys.argv[2] == "True", sys.argv[3] == "True"
reads, cut_at, read_into = 0, 0, source.FileSource.read_into
def cutting(self, *args):
    global reads
    reads += 1
    if reads == cut_at:
        os.truncate(path, 100)
    return read_into(self, *args)
source.FileSource.read_into = cutting
while reads >= cut_at:
    reads, cut_at = 0, cut_at + 1
    facula.save({"a": facula.ones(100_000), "b": facula.ones(9)}, path, _use_new_zipfile_serialization=zipped)
    try:
        facula.load(path, mmap=mapped)
        print("loaded")
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.parametrize("zipped, mapped", [(True, False), (True, True), (False, False)])
def test_a_file_that_is_cut_while_it_is_loaded(zipped, mapped, tmp_path):
    """Cut before each read of a load in turn."""
    command = [sys.executable, "-c", CUT, tmp_path / "x.pt", str(zipped), str(mapped)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-500:]
    *cut, whole = done.stdout.splitlines()
    assert whole == "loaded" and len(cut) > 5
    # a cut before the first read, of the head, leaves the head
    assert set(cut) == {"load: the file became shorter while it was read"}


def test_a_mapped_storage_must_be_aligned():
    tensor = facula.arange(4.0)
    stream = io.BytesIO()
    facula.save(tensor, stream)
    with zipfile.ZipFile(stream) as saved:
        records = {name: saved.read(name) for name in saved.namelist()}
    folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"unaligned-{os.getpid()}.pt"
    try:
        with zipfile.ZipFile(folder, "w") as target:  # as `zip` makes archives: no padding
            for name, data in records.items():
                target.writestr(name, data)
        assert facula.load(folder).tolist() == tensor.tolist()
        with zipfile.ZipFile(folder) as written:
            places = [info.header_offset + 30 + len(info.filename) for info in written.infolist() if "/data/" in info.filename]
        assert places[0] % 16
        with pytest.raises(RuntimeError, match="^load: record 'data/0' lies at byte .* load with mmap=False"):
            facula.load(folder, mmap=True)
    finally:
        folder.unlink()


def test_a_legacy_pickle_longer_than_the_first_window(tmp_path):
    value = {"text": "x" * 3_000_000, "t": facula.arange(5.0), "n": list(range(1000))}
    path = tmp_path / "x.pt"
    facula.save(value, path, _use_new_zipfile_serialization=False)
    loaded = facula.load(path)
    assert loaded["text"] == value["text"] and loaded["t"].tolist() == [0, 1, 2, 3, 4] and loaded["n"] == value["n"]


# -- what may be loaded ---------------------------------------------------------------------------------


class Thing:
    pass


class Color(enum.Enum):
    RED = 1


class Other:
    pass


def saved_thing():
    stream = io.BytesIO()
    facula.save(Thing(), stream)
    stream.seek(0)
    return stream


FORCE, UNFORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


@pytest.mark.parametrize(
    "force, unforce, weights_only, whole",
    [
        (None, None, None, False),
        (None, None, False, True),
        (None, None, True, False),
        ("1", None, None, False),
        ("1", None, False, False),
        ("1", None, True, False),
        (None, "1", None, True),
        (None, "1", False, True),
        (None, "1", True, False),
        ("0", "yes", None, True),
        ("TRUE", "0", False, False),
    ],
)
@pytest.mark.filterwarnings("ignore:load. weights_only=False:UserWarning")
def test_the_variables_that_force(force, unforce, weights_only, whole, monkeypatch):
    for name, value in ((FORCE, force), (UNFORCE, unforce)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    if whole:
        assert type(facula.load(saved_thing(), weights_only=weights_only)) is Thing
    else:
        with pytest.raises(pickle.UnpicklingError, match="Thing"):
            facula.load(saved_thing(), weights_only=weights_only)


def test_both_variables_are_an_error_and_one_warns(monkeypatch):
    monkeypatch.setenv(UNFORCE, "1")
    with pytest.warns(UserWarning, match=f"^load: weights_only=False, because {UNFORCE} is set"):
        facula.load(saved_thing())
    monkeypatch.setenv(FORCE, "1")
    for weights_only in (None, True, False):
        with pytest.raises(RuntimeError, match=f"only one of `{FORCE}` or `{UNFORCE}` should be set"):
            facula.load(saved_thing(), weights_only=weights_only)


def test_safe_globals_takes_away_what_it_added_and_nothing_else():
    serialization.clear_safe_globals()
    try:
        with serialization.safe_globals([Thing]):
            serialization.add_safe_globals([Other])
            assert set(serialization.get_safe_globals()) == {Thing, Other}
        assert serialization.get_safe_globals() == [Other]
        with serialization.safe_globals([Other]):
            pass
        assert serialization.get_safe_globals() == [Other]
        with serialization.safe_globals([Thing]):
            with serialization.safe_globals([Thing]):
                pass
            assert type(facula.load(saved_thing())) is Thing
        with serialization.safe_globals([Thing]):
            serialization.add_safe_globals([Thing])
        assert set(serialization.get_safe_globals()) == {Thing, Other}
    finally:
        serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        facula.load(saved_thing())


def test_safe_globals_of_threads_do_not_disturb_each_other():
    serialization.clear_safe_globals()
    failures = []

    def work():
        try:
            for _ in range(200):
                with serialization.safe_globals([Thing]):
                    assert type(facula.load(saved_thing())) is Thing
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and serialization.get_safe_globals() == []


def test_deques_with_and_without_a_length():
    for value in (collections.deque([1, 2]), collections.deque([1, 2], 3), collections.deque()):
        loaded = load_pickle(pickle.dumps(value, 2))
        assert loaded == value and loaded.maxlen == value.maxlen
    assert load_pickle(b"\x80\2ccollections\ndeque\n](K\1K\2e\x85R.") == collections.deque([1, 2])


def test_a_package_elsewhere_is_not_imported_for_a_file_beside_the_program(tmp_path, monkeypatch):
    home, elsewhere = tmp_path / "program", tmp_path / "site"
    for folder in (home / "shadowed", elsewhere / "shadowed"):
        folder.mkdir(parents=True)
    (home / "shadowed" / "model.py").write_text("class Net:\n    pass\n")
    (elsewhere / "shadowed" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(home / "train.py"), raising=False)
    monkeypatch.syspath_prepend(elsewhere)
    with pytest.raises(pickle.UnpicklingError, match="shadowed.model.Net"):
        load_pickle(b"\x80\2cshadowed.model\nNet\n)\x81.", weights_only=False)


def test_a_torchscript_archive_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"TorchScript archive.*jit\.load"):
        facula.load(archive(b"\x80\2N.", [("constants.pkl", b"\x80\2).")]))


def test_a_refused_legacy_file_lists_every_name():
    stream = io.BytesIO()
    facula.save([Thing(), Other()], stream, _use_new_zipfile_serialization=False)
    stream.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"(?s)Thing.*Other"):
        facula.load(stream)


def test_new_files_have_the_mode_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        facula.save(1, tmp_path / "new.pt")
        (tmp_path / "old.pt").write_bytes(b"")
        (tmp_path / "old.pt").chmod(0o604)
        facula.save(1, tmp_path / "old.pt")
        source = tmp_path / "served"
        source.write_bytes(b"x")
        facula.hub.download_url_to_file(source.as_uri(), str(tmp_path / "copy"), progress=False)
    finally:
        os.umask(before)
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("new.pt", "old.pt", "copy")}
    assert modes == {"new.pt": 0o640, "old.pt": 0o604, "copy": 0o640}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "new.pt", "old.pt", "served"]


def test_a_download_whose_hash_differs_leaves_nothing(tmp_path):
    (tmp_path / "served").write_bytes(b"x")
    with pytest.raises(RuntimeError, match="expected SHA-256 00"):
        facula.hub.download_url_to_file((tmp_path / "served").as_uri(), str(tmp_path / "copy"), "00", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["served"]
    facula.save(facula.ones(2), tmp_path / "m.pt")
    loaded = facula.hub.load_state_dict_from_url((tmp_path / "m.pt").as_uri(), str(tmp_path / "cache"), progress=False)
    assert loaded.tolist() == [1, 1] and (tmp_path / "cache" / "m.pt").exists()


# a tensor of one element, expanded, that is to be converted
EXPANDED = (
    "UEsDBBQAAAAIAAAAIQDRnmdVBAAAAAIAAAAJAAAAYS92ZXJzaW9uM+YCAFBLAwQUAAAACAAAACEAiOLOzhIAAAAQAAAACAAAAGEvZGF0YS8wY2"
    "BkYmZhZWPn4OTi5uHl4wcAUEsDBBQAAAAIAAAAIQCGuY3ZuwAAAAUBAAAKAAAAYS9kYXRhLnBrbHWOvQoCMRCE9/w72aewjI2IlQ9gd6CozTUS"
    "NLdqIF7cXCJaCDaC+NTGP6zcbmd29ptL4yzyBACODMpbp7Y9Gbw2FUpHq6BNIQs6aEXSU1lZJ9fO7qTah8+ODOJP7hM4DJATIfI0QqpIWG7oi8"
    "KRDStD87eKXHs16TPk9XgcIQxZbeynWXJvR+E5nWsG15tS1hhSXtuywokryFEx0soj17szbvgZN9+lUJd+iNz6PbxFM31xTgwLsU0p9B5QSwEC"
    "FAAUAAAACAAAACEA0Z5nVQQAAAACAAAACQAAAAAAAAAAAAAAAAAAAAAAYS92ZXJzaW9uUEsBAhQAFAAAAAgAAAAhAIjizs4SAAAAEAAAAAgAAA"
    "AAAAAAAAAAAAAAKwAAAGEvZGF0YS8wUEsBAhQAFAAAAAgAAAAhAIa5jdm7AAAABQEAAAoAAAAAAAAAAAAAAAAAYwAAAGEvZGF0YS5wa2xQSwUG"
    "AAAAAAMAAwClAAAARgEAAAAA"
)


def test_what_no_memory_can_hold_is_refused_in_the_name_of_load():
    with pytest.raises(RuntimeError, match=r"^load: allocate: cannot get 2\.0 EiB"):
        facula.load(io.BytesIO(base64.b64decode(EXPANDED)), weights_only=False)
