"""Checkpoints that somebody damaged or made to do harm.

    python -m tests.fuzz.fuzz_checkpoints --cases 1000000 --seed 7 --jobs 2

Each case is a file: a good one of either format with bytes flipped, cut, repeated; its pickle with opcodes moved about
and their arguments replaced; NumPy's dtypes and arrays, and tensors, in states that nobody wrote; streams of opcodes
that name what must not be run; and files that another process cuts while they are read. What may come of a load is an
object, which is then used, or an error of the few classes and with the beginning that loads document. Python's audit
events tell what a load did besides: it may open the file it was given, and nothing else; it imports, executes,
connects and starts nothing.

Long because the good files, what damages them and what judges a load are one program: pickles name its classes by this module.
"""

from __future__ import annotations

import base64
import importlib
import io
import os
import pickle
import pickletools
import pkgutil
import random
import re
import signal
import struct
import sys
import time
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np

import facula
import facula.distributions
import facula.utils.data

from . import runner

CASE = re.compile(r"load\('([^']*)', (True|False), '([^']*)'\)")
CLEAR = (pickle.UnpicklingError, RuntimeError, MemoryError)
#: Audit events that looking at data raises; any other one is a finding.
HARMLESS = {"builtins.id", "mmap.__new__", "object.__getattr__", "object.__setattr__", "object.__delattr__", "sys._getframe", "gc.collect"}
SIZES = (0, 1, 2, 3, 7, 8, 64, 255, 256, 65535, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 40, 1 << 48, 1 << 61, 1 << 62, (1 << 63) - 1, 1 << 64, 1 << 100)  # fmt: skip
ODD = (None, True, -1, 1.5, float("nan"), "", "x", b"", b"ab", (), (1,), [], [None], {}, {"a": 1}, 10**30, -(1 << 63), "torch.strided")  # fmt: skip
NAMES = """
os system|posix system|builtins eval|builtins exec|builtins getattr|builtins __import__|builtins open|builtins compile
builtins set|builtins frozenset|builtins bytearray|builtins complex|builtins slice|builtins range|builtins bytes
builtins int|builtins list|builtins dict|builtins tuple|builtins object|builtins type|builtins print|builtins map
collections OrderedDict|collections Counter|collections defaultdict|collections deque|collections namedtuple
subprocess Popen|importlib import_module|functools partial|operator attrgetter|runpy run_path|ctypes CDLL|socket socket
pickle loads|shutil rmtree|pathlib Path|pathlib PosixPath|datetime datetime|datetime timezone|datetime timedelta
decimal Decimal|fractions Fraction|argparse Namespace|types SimpleNamespace|copyreg _reconstructor|_codecs encode
numpy dtype|numpy ndarray|numpy float64|numpy.core.multiarray scalar|numpy._core.multiarray scalar|numpy load
numpy.core.multiarray _reconstruct|numpy._core.numeric _frombuffer|numpy frombuffer|numpy.ctypeslib load_library
torch Size|torch device|torch float32|torch FloatStorage|torch.storage UntypedStorage|torch.hub load|torch load|torch Tensor
torch._utils _rebuild_tensor|torch._utils _rebuild_tensor_v2|torch._utils _rebuild_tensor_v3|torch._utils _rebuild_parameter
torch._utils _rebuild_parameter_with_state|torch._utils _rebuild_meta_tensor_no_storage|torch._utils _rebuild_sparse_tensor
torch._utils _rebuild_device_tensor_from_numpy|torch._utils _rebuild_device_tensor_from_cpu_tensor
torch._tensor _rebuild_from_type_v2|torch.nn.parameter Parameter|torch.serialization _get_layout|torch.serialization load
torch.nn.modules.linear Linear|torch.nn.modules.container Sequential|torch.optim.sgd SGD|torch.nn.functional relu
torch.storage _load_from_bytes|torch.jit load|torch._C _rebuild|antigravity x|this s|facula.hub load|facula.serialization os
tests.fuzz.runner Worker|tests.fuzz.fuzz_checkpoints Innocent|tests.fuzz.nothing Here|idlelib.run main|lib2to3.main main
""".replace("\n", "|").strip("|").split("|")
NAMES = [tuple(name.split(" ")) for name in NAMES]


class Innocent:
    """A class of the program, which a load of whole objects may restore."""


class Called:
    """Pickles as a call of `function`, then a state."""

    def __init__(self, function, args, state=None):
        self.parts = (function, args) if state is None else (function, args, state)

    def __reduce__(self):
        return self.parts


class Named:
    """Pickles as a mere name."""

    def __init__(self, module, name):
        self.line = module, name


class Storage:
    """Pickles as a persistent id."""

    def __init__(self, *identity):
        self.identity = identity


def pickled(obj, protocol=2):
    """The pickle of a tree of plain values and of the classes above, which may name anything."""
    pieces, memo = [b"\x80" + bytes([protocol])], {}
    _emit(obj, pieces.append, memo)
    return b"".join(pieces) + b"."


PLAIN = (type(None), bool, int, float, str, bytes)
TUPLES = (b")", b"\x85", b"\x86", b"\x87")


def _emit(obj, write, memo):
    kind = type(obj)
    if kind in PLAIN:
        write(pickle.dumps(obj, 3)[2:-1])
    elif kind is tuple and len(obj) <= 3:
        for item in obj:
            _emit(item, write, memo)
        write(TUPLES[len(obj)])
    elif kind in (tuple, list, dict):
        write({tuple: b"(", list: b"](", dict: b"}("}[kind])
        for item in obj.items() if kind is dict else obj:
            for part in item if kind is dict else (item,):
                _emit(part, write, memo)
        write({tuple: b"t", list: b"e", dict: b"u"}[kind])
    elif kind is Storage:
        _emit(obj.identity, write, memo)
        write(b"Q")
    elif id(obj) in memo:
        write(b"h" + bytes([memo[id(obj)]]))
    else:
        if kind is Named:
            write(b"c" + "\n".join(obj.line).encode() + b"\n")
        elif kind is Called:
            _emit(obj.parts[0], write, memo)
            _emit(obj.parts[1], write, memo)
            write(b"R")
        else:
            write(pickle.dumps(obj, 5)[2:-1])  # a bytearray
        if kind is not bytearray and len(memo) < 256:
            memo[id(obj)] = len(memo)
            write(b"q" + bytes([memo[id(obj)]]))
        for state in obj.parts[2:] if kind is Called else ():
            _emit(state, write, memo)
            write(b"b")


# -- good files -----------------------------------------------------------------------------------------


def numpy_sample():
    return {
        "arrays": [np.arange(3).astype(name) for name in "? i1 u2 i4 u8 f2 f4 f8 c8 c16".split()],
        "swapped": np.arange(2, dtype=">f4"),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "text": np.array(["a", "bcd"]),
        "bytes": np.array([b"a", b"bcd"]),
        "void": np.array([b"ab\0c"], "V4"),
        "times": [np.array(["2020-01-01", "NaT"], "M8[D]"), np.array([1, 2], "m8[25s]"), np.datetime64("2020")],
        "objects": np.array([None, 1, "x", (2, [3]), np.arange(2)], object),
        "scalars": [np.float32(1.5), np.int64(3), np.complex64(1j), np.bool_(True)],
        "dtypes": [np.dtype(name) for name in ("f4", ">i8", "O", "S3", "M8[ns]")],
    }


def tensor_sample():
    base = facula.arange(12.0).reshape(3, 4)
    module = facula.nn.Linear(2, 2)
    optimizer = facula.optim.Adam(module.parameters())
    module(facula.ones(1, 2)).sum().backward()
    optimizer.step()
    return {
        "base": base,
        "row": base[1],
        "p": facula.nn.Parameter(facula.ones(2)),
        "half": facula.ones(3).half(),
        "conj": facula.ones(2, dtype=facula.complex64).conj(),
        "state": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "plain": [1, 2.5, "x", b"y", None, (1, 2, 3, 4), {"k": {1, 2}}, frozenset([1]), 1 << 90, 1j],
        "device": facula.device("cpu"),
        "size": facula.Size([1, 2]),
        "layout": facula.strided,
    }


def saved(obj, zipped):
    stream = io.BytesIO()
    facula.save(obj, stream, _use_new_zipfile_serialization=zipped)
    return stream.getvalue()


class Corpus:
    """The good files, made once per process: they depend on nothing.

    Nine in ten hold few values: they load ten times faster than the others, and what is changed in them is seldom
    behind an error.
    """

    def __init__(self):
        facula.manual_seed(0)
        numbers, tensors = numpy_sample(), tensor_sample()
        arrays = [{key: numbers[key]} for key in numbers if key != "arrays"] + [{"array": array} for array in numbers["arrays"]]
        few = [*arrays, *({key: tensors[key]} for key in tensors), [Innocent()]]
        many = [tensors, numbers, {"both": [numbers["objects"], tensors["base"]]}, facula.nn.Linear(1, 2)]
        zips = [[saved(sample, True) for sample in samples] for samples in (few, many)]
        records = [[unpacked(data) for data in made] for made in zips]
        pickles = [[record["data.pkl"] for record in made] for made in records]
        for made, samples in zip(pickles, (arrays, [numbers])):
            made += [pickle.dumps(sample, protocol) for protocol in (2, 3, 4, 5) for sample in samples]
        self.zips, self.records = mixed(*zips), mixed(*records)
        self.legacy = mixed(*([saved(sample, False) for sample in samples] for samples in (few, many)))
        self.pieces = mixed(*([opcodes(data) for data in made] for made in pickles))


def mixed(few, many):
    """A list to choose from: one of `few` nine times in ten."""
    return few * (9 * len(many)) + many * len(few)


def unpacked(data):
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return {name.partition("/")[2]: source.read(name) for name in source.namelist()}


def opcodes(data):
    """The bytes of each opcode with its argument."""
    places = [place for _, _, place in pickletools.genops(data)] + [len(data)]
    return [data[a:b] for a, b in zip(places, places[1:])]


LOCAL, CENTRAL, END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s4H2IH")


def archive(data, records=(), method=zipfile.ZIP_STORED):
    """A ZIP archive of 1980, so that no two runs differ; zipfile takes ten times as long."""
    files, directory = bytearray(), bytearray()
    contents = {"version": b"3\n", **dict(records), "data.pkl": data}
    for name, content in contents.items():
        name, size, crc, at = b"a/" + name.encode(), len(content), zlib.crc32(content), len(files)
        if method == zipfile.ZIP_DEFLATED:
            content = zlib.compress(content, 1, -15)
        common = (20, 0, method, 0, 33, crc, len(content), size, len(name), 0)
        files += LOCAL.pack(b"PK\3\4", *common) + name + content
        directory += CENTRAL.pack(b"PK\1\2", 20, *common, 0, 0, 0, 0, at) + name
    return bytes(files + directory) + END.pack(b"PK\5\6", 0, 0, len(contents), len(contents), len(directory), len(files), 0)


def legacy(body, keys=(), payload=b""):
    heads = (facula.serialization.MAGIC_NUMBER, 1001, {"protocol_version": 1001, "little_endian": True})
    return b"".join(pickle.dumps(head, 2) for head in heads) + body + pickle.dumps(list(keys), 2) + payload


# -- mutations ------------------------------------------------------------------------------------------


def damaged(rng, data):
    """`data` with bytes flipped, replaced, removed, repeated, inserted."""
    bad = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(bad) or 1)
        kind = rng.randrange(7)
        if not bad:
            bad += b"P"
        elif kind == 0:
            bad[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            bad[at] = rng.randrange(256)
        elif kind == 2:
            bad[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4), b"\0\0\0\x80"))
        elif kind == 3:
            del bad[at : at + rng.randrange(1, 30)]
        elif kind == 4:
            other = rng.randrange(len(bad))
            bad[at:at] = bad[other : other + rng.randrange(1, 40)]
        elif kind == 5:
            bad[at:at] = bytes([rng.choice(b"()]}.RQbsuaeteq\x81\x93\x94\x85\x86\x87\x8f\x90")])
        else:
            bad[at : at + 8] = struct.pack("<Q", rng.choice(SIZES) % (1 << 64))
    return bytes(bad)


def shuffled(rng, corpus):
    """A pickle with opcodes removed, repeated, swapped, brought from others, their arguments replaced."""
    pieces = list(rng.choice(corpus.pieces))
    for _ in range(rng.choice((1, 1, 2, 4, 10))):
        at, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        kind = rng.randrange(8)
        if kind == 0:
            del pieces[at : at + rng.randrange(1, 4)]
        elif kind == 1:
            pieces[at:at] = pieces[other : other + rng.randrange(1, 6)]
        elif kind == 2:
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif kind == 3:
            source = rng.choice(corpus.pieces)
            place = rng.randrange(len(source))
            pieces[at:at] = source[place : place + rng.randrange(1, 12)]
        elif kind == 4:
            pieces[at] = pickle.dumps(rng.choice(SIZES + ODD), 2)[2:-1]
        elif kind == 5:
            pieces[at] = b"c" + "\n".join(rng.choice(NAMES)).encode() + b"\n"
        elif kind == 6:
            pieces[at:at] = [rng.choice(("R", "b", "Q", "\x81", "0", "(", "t", "\x85", "\x86", "e", "u", "s", "a")).encode("latin1")]
        else:
            pieces[at] = pieces[at][:1] + damaged(rng, pieces[at][1:] or b"\0")
        pieces = pieces or [b"."]
    return b"".join(pieces)


NAMING = [b"c" + "\n".join(name).encode() + b"\n" for name in NAMES]
ACTING = [bytes([b]) for b in b"()]}NRQbsuaete0\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94"]
ACTING += [b"X\2\0\0\0ls", b"K\1", b"K\0", b"q\0", b"q\1", b"h\0", b"h\1", b"\x8c\6system", b"\x8c\2os", b"C\1b", b"}K\1q\1h\1s"]


def invented(rng):
    """Opcodes drawn at random, from those that do something."""
    stream = [rng.choice(ACTING if rng.random() < 0.75 else NAMING) for _ in range(rng.randrange(2, 30))]
    return b"\x80\2" + b"".join(stream) + b"."


def pick(rng, *usual, odd=0.15):
    """One of `usual`, now and then something that does not belong there."""
    return rng.choice(usual) if rng.random() > odd else rng.choice(SIZES + ODD)


def numpy_value(rng, depth=0):
    """A dtype, scalar or array whose pickled fields are now and then another's."""
    prefix = rng.choice(("numpy.core", "numpy._core"))
    kind = rng.choice(("O8", "O8", "b1", "i1", "i4", "u8", "f2", "f4", "f8", "f16", "c8", "c16", "M8", "m8", "S3", "U2", "V4", "S0", "U0", "V0", "V8"))
    sized = kind[0] in "SUV"
    count = int(kind[1:])
    item, align = (4 * count, 4) if kind[0] == "U" else (count, 1)
    flags = pick(rng, 63 if kind == "O8" else 0, 63, 0, 1, 2, 4, 16, 27, 31)
    state = [pick(rng, 3, 3, 4), pick(rng, "<", ">", "|", "=")]
    state += [pick(rng, None, odd=0.05) for _ in range(3)]
    state += [pick(rng, item) if sized else pick(rng, -1), pick(rng, align) if sized else pick(rng, -1), flags]
    if kind in ("M8", "m8") or rng.random() < 0.02:
        state.append(({}, (pick(rng, b"ns", b"s", b"D", b"generic"), pick(rng, 1, 25), pick(rng, 1), pick(rng, 1))))
    name = pick(rng, kind, odd=0.05)
    dtype = Called(Named("numpy", "dtype"), (name, pick(rng, False), pick(rng, True)), None if rng.random() < 0.1 else tuple(state))
    shape = tuple(pick(rng, 1, 2, 3, 0, odd=0.05) for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 33))))
    total = 1
    for n in shape:
        total *= n if type(n) is int else 1
    total = max(0, total) if total < 100 else rng.randrange(3)
    if kind == "O8" and rng.random() < 0.9:
        data = [numpy_value(rng, depth + 1) if depth < 2 and rng.random() < 0.2 else rng.choice(ODD) for _ in range(total)]
    else:
        data = rng.randbytes(total * item if item < 100 else 0)
    if rng.random() < 0.05:
        data = rng.choice(ODD)
    what = rng.random()
    if what < 0.1:
        return dtype
    if what < 0.25:
        return Called(Named(prefix + ".multiarray", "scalar"), (dtype, rng.randbytes(pick(rng, item, odd=0) % 99)))
    if what < 0.35:
        data = bytearray(data) if isinstance(data, bytes) else data
        return Called(Named(prefix + ".numeric", "_frombuffer"), (data, dtype, shape, pick(rng, "C", "F")))
    empty = Called(
        Named(prefix + ".multiarray", "_reconstruct"),
        (Named("numpy", pick(rng, "ndarray", odd=0) if rng.random() < 0.95 else "dtype"), (pick(rng, 0, odd=0.03),), pick(rng, b"b", odd=0.03)),
        (pick(rng, 1, odd=0.03), shape, dtype, pick(rng, False, True), data),
    )  # fmt: skip
    return Called(Named("builtins", "list"), (empty,)) if rng.random() < 0.02 else empty


def tensor_value(rng):
    """A tensor over storage "0" of 16 bytes, whose geometry is now and then another's."""
    dtype, item = rng.choice((("Float", 4), ("Double", 8), ("Byte", 1), ("Half", 2), ("ComplexDouble", 16), ("Bool", 1), ("Long", 8)))
    storage = Storage(
        pick(rng, "storage", odd=0.02),
        Named("torch", dtype + "Storage") if rng.random() < 0.9 else Named("torch.storage", "UntypedStorage"),
        pick(rng, "0", odd=0.03),
        pick(rng, "cpu", "cpu", "meta", "cuda:0", odd=0.03),
        pick(rng, 16 // item, odd=0.05),
        *((pick(rng, None, ("0", 0, 1), ("1", 1, 1)),) if rng.random() < 0.2 else ()),
    )
    size = tuple(pick(rng, 1, 2, 0, odd=0.1) for _ in range(rng.choice((0, 1, 1, 2, 3, 65))))
    stride = tuple(pick(rng, 1, 0, 2, odd=0.1) for _ in size)
    hooks = Called(Named("collections", "OrderedDict"), ())
    geometry = (storage, pick(rng, 0, 1, odd=0.1), pick(rng, size, odd=0.02), pick(rng, stride, odd=0.02))
    flags = (pick(rng, False, True, odd=0.05), hooks if rng.random() < 0.95 else rng.choice(ODD))
    metadata = ({rng.choice(("conj", "neg", "", 1)): pick(rng, True)},) if rng.random() < 0.2 else ()
    dtypes = Named("torch", rng.choice(("float32", "complex128", "int8", "bfloat16", "bool", "quint8", "uint16")))
    tensor = Called(Named("torch._utils", "_rebuild_tensor_v2"), (*geometry, *flags, *metadata))
    kind = rng.randrange(9)
    if kind == 0:
        tensor = Called(Named("torch._utils", "_rebuild_tensor_v3"), (*geometry, *flags, dtypes, *metadata))
    elif kind == 1:
        tensor = Called(Named("torch._utils", "_rebuild_tensor"), geometry)
    elif kind == 2:
        tensor = Called(Named("torch._utils", "_rebuild_parameter_with_state"), (tensor, *flags, {"a": pick(rng, 1)}))
    elif kind == 3:
        tensor = Called(Named("torch._utils", "_rebuild_meta_tensor_no_storage"), (dtypes, size, stride, flags[0]))
    elif kind == 4:
        source = numpy_value(rng) if rng.random() < 0.5 else tensor
        name = rng.choice(("_rebuild_device_tensor_from_numpy", "_rebuild_device_tensor_from_cpu_tensor"))
        tensor = Called(Named("torch._utils", name), (source, pick(rng, dtypes), pick(rng, "cpu", "meta", "cuda"), flags[0]))
    elif kind == 5:
        kinds = (Named("torch", "Tensor"), Named("torch.nn.parameter", "Parameter"), Named(__name__, "Innocent"))
        inner = (Named("torch._utils", "_rebuild_tensor_v2"), pick(rng, *kinds), (*geometry, *flags), pick(rng, {}, {"a": 1}, ({}, {})))
        tensor = Called(Named("torch._tensor", "_rebuild_from_type_v2"), inner)
    elif kind == 6:
        layout = Called(Named("torch.serialization", "_get_layout"), (pick(rng, "torch.sparse_coo", "torch.sparse_csr", "torch.strided"),))
        data = tuple(pick(rng, tensor, size) for _ in range(rng.randrange(2, 6)))
        tensor = Called(Named("torch._utils", "_rebuild_sparse_tensor"), (layout, data))
    return tensor


def other_value(rng):
    """A call of any name with any arguments, and a state."""
    args = tuple(rng.choice(SIZES + ODD) for _ in range(rng.randrange(4)))
    state = rng.choice((None, {}, {"a": 1}, {"__class__": 1}, ({}, {"x": 1}), (), 1, ({"_parameters": 1}, None)))
    return Called(Named(*rng.choice(NAMES)), args, state)


def value(rng):
    made = [rng.choice((numpy_value, tensor_value, numpy_value, tensor_value, other_value))(rng) for _ in range(rng.randrange(1, 4))]
    return {"x": made[0], "y": made} if rng.random() < 0.8 else {rng.choice(made): 1}


def contained(rng, data):
    """A pickle in a file of either format, whose storage "0" has 16 bytes."""
    if rng.random() < 0.7:
        return archive(data, {"data/0": bytes(range(16))}, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    keys, payload = rng.choice(((("0",), struct.pack("<q", 4) + bytes(16)), ((), b""), (("0",), struct.pack("<q", 2) + bytes(16))))
    return legacy(data, keys, payload)


def cut(rng, data):
    return data[: rng.randrange(len(data))]


# -- the fuzzer -----------------------------------------------------------------------------------------


class Checkpoints:
    """See `runner.py`."""

    def __init__(self, seed):
        self.seed = seed
        self.corpus = None

    def begin(self, number):
        """Whatever a load imports on first use is imported now; then events are watched."""
        warnings.simplefilter("ignore")
        memory = Path("/dev/shm")  # a disk takes longer than a load
        self.path = (memory if memory.is_dir() else Path.cwd()) / f"case{os.getpid()}.pt"
        for data in (*set(self._corpus().zips + self.corpus.legacy), archive(invented(random.Random(0)))):
            for weights_only in (True, False):
                self._load(data, weights_only, "memory")
                self._load(data, weights_only, "map")
        for module in ("decimal", "fractions", "datetime", "pathlib", "argparse", "types", "encodings.raw_unicode_escape", "encodings.latin_1",
                       "facula.functions.sparse"):
            importlib.import_module(module)
        for package in (facula.nn, facula.optim, facula.distributions, facula.utils.data, facula.cuda):
            for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
                importlib.import_module(module.name)
        self.scissors = Scissors(self.path)
        self.events, self.watching = [], False
        sys.addaudithook(self._event)

    def _corpus(self):
        if self.corpus is None:
            self.corpus = Corpus()
        return self.corpus

    def _event(self, name, args):
        if not self.watching or name in HARMLESS:
            return
        own = name == "open" and isinstance(args[0], (str, os.PathLike)) and os.fspath(args[0]) == str(self.path)
        if not own:
            self.watching = False  # what follows is this report's
            self.events.append(f"{name} {str(args)[:300]}")
            self.watching = True

    def case(self, index):
        rng = random.Random(f"{self.seed} {index}")
        corpus = self._corpus()
        how = rng.choice(("memory", "memory", "memory", "file", "map"))
        kind = rng.randrange(16)
        if kind < 2:
            data = damaged(rng, rng.choice(corpus.zips))
        elif kind < 4:
            data = damaged(rng, rng.choice(corpus.legacy))
        elif kind < 6:
            records = rng.choice(corpus.records)
            data = archive(damaged(rng, records["data.pkl"]), records)
        elif kind < 8:
            data = contained(rng, shuffled(rng, corpus))
        elif kind < 9:
            data = contained(rng, invented(rng))
        elif kind < 13:
            data = contained(rng, pickled(value(rng), rng.choice((2, 4))))
        elif kind < 14:
            data = contained(rng, damaged(rng, pickled(value(rng))))
        elif kind < 15:
            data = cut(rng, rng.choice(rng.choice((corpus.zips, corpus.legacy))))
        else:
            data = rng.choice(rng.choice((corpus.zips, corpus.legacy)))
            how = f"cut {rng.randrange(len(data))} {rng.choice((0, 20, 50, 100, 200, 400, 800))} {rng.choice(('file', 'map'))}"
        return f"load('{base64.b64encode(data).decode()}', {rng.random() < 0.5}, '{how}')"

    def check(self, text):
        data, weights_only, how = CASE.fullmatch(text).groups()
        self.events = []
        problem = self._load(base64.b64decode(data), weights_only == "True", how)
        if problem is None and self.events:
            problem = "a load did more than read its file: " + "; ".join(self.events[:3])
        return problem

    def _load(self, data, weights_only, how):
        words = how.split()
        source, mapped = io.BytesIO(data), words[-1] == "map" or None
        if words[0] != "memory":
            self.path.write_bytes(data)
            source = self.path
        if words[0] == "cut":
            self.scissors.cut(int(words[1]), int(words[2]) / 1e6)
        try:
            self.watching = True
            loaded = facula.load(source, weights_only=weights_only, mmap=mapped)
        except CLEAR as error:
            self.watching = False
            text = str(error)
            sane = text.startswith("load:") or isinstance(error, (MemoryError, NotImplementedError))
            return None if sane and len(text) < 10_000 else f"an error's text: {text[:300]}"
        except Exception as error:
            self.watching = False
            return f"{type(error).__module__}.{type(error).__qualname__}: {str(error)[:300]}"
        finally:
            self.watching = False
            if words[0] == "cut":
                self.scissors.wait()
        return None if words[0] == "cut" else self._use(loaded)

    @staticmethod
    def _use(loaded):
        try:
            use(loaded)
        except MemoryError:
            return None
        except Exception as error:
            return f"what was loaded cannot be used: {type(error).__qualname__}: {str(error)[:300]}"

    def program(self, text):
        return f"from tests.fuzz.fuzz_checkpoints import Checkpoints\n\nfuzzer = Checkpoints(0)\nfuzzer.begin(0)\nprint(fuzzer.check({text!r}))\n"


class Scissors:
    """A process that cuts the file while this one reads it."""

    ORDER = struct.Struct("qd")

    def __init__(self, path):
        orders, self.orders = os.pipe()
        self.done, done = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.orders)
            os.close(self.done)
            try:
                while order := os.read(orders, self.ORDER.size):
                    length, delay = self.ORDER.unpack(order)
                    time.sleep(delay)
                    os.truncate(path, length)
                    os.write(done, b".")
            finally:  # the worker is gone, however it went
                path.unlink(missing_ok=True)
                os._exit(0)
        os.close(orders)
        os.close(done)

    def cut(self, length, delay):
        os.write(self.orders, self.ORDER.pack(length, delay))

    def wait(self):
        os.read(self.done, 1)


def use(loaded, depth=0):
    """Reads what was loaded, all of it that is small."""
    if isinstance(loaded, facula.Tensor):
        if loaded.device.type == "cpu" and loaded.numel() < 10_000:
            loaded.detach().clone()
            repr(loaded)
            if loaded.dtype == facula.bool:  # of any bytes
                loaded.nonzero(), loaded.masked_select(loaded), loaded.sum(), facula.ones(loaded.shape)[loaded]
    elif isinstance(loaded, np.ndarray):
        if loaded.size < 10_000:
            loaded.copy()
            loaded.tobytes()
            if loaded.dtype.kind not in "mM":  # some units have no Python value
                loaded.tolist()
            for item in loaded.ravel() if loaded.dtype == object and depth < 20 else ():
                use(item, depth + 1)
    elif isinstance(loaded, np.dtype) or (isinstance(loaded, np.generic) and loaded.dtype.kind not in "mM"):
        repr(loaded)
    elif isinstance(loaded, (list, tuple, set, frozenset)) and depth < 20:
        for item in loaded:
            use(item, depth + 1)
    elif isinstance(loaded, dict) and depth < 20:
        for key, item in loaded.items():
            use(key, depth + 1)
            use(item, depth + 1)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(runner.main(lambda options: Checkpoints(options.seed), __doc__.splitlines()[0]))
