"""Damaged checkpoints: whatever the bytes, a load ends in an object or in a clear error, and runs nothing.

FACULA_FUZZ_CASES sets how many mutations of each file are tried (default 150).
"""

import argparse  # noqa: F401  (imported before the watch: a load imports these when a file names them)
import builtins
import decimal  # noqa: F401
import encodings.raw_unicode_escape  # noqa: F401
import fractions  # noqa: F401
import io
import os
import pickle
import pickletools  # noqa: F401  (loaded on first use by error texts: its import is no code of the file's)
import random
import sys
import warnings
import zipfile

import pytest

import facula
from facula._serialization import allowed
from facula._serialization.pickle_reader import PickleReader

repr(facula.ones(1))  # imports what error texts print tensors with, which is no code of the file's either
CASES = int(os.environ.get("FACULA_FUZZ_CASES", "150"))
CLEAR = (pickle.UnpicklingError, RuntimeError, ValueError, TypeError, NotImplementedError, MemoryError)
#: What a load that runs code of the file's choice would reach for.
WATCHED = {
    "exec",
    "compile",
    "os.system",
    "subprocess.Popen",
    "os.mkdir",
    "os.remove",
    "socket.connect",
    "ctypes.dlopen",
}


def sample():
    base = facula.arange(12.0).reshape(3, 4)
    return {
        "base": base,
        "row": base[1],
        "p": facula.nn.Parameter(facula.ones(2)),
        "half": facula.ones(3).half(),
        "state": facula.nn.Linear(2, 2).state_dict(),
        "plain": [1, 2.5, "x", b"y", None, (1, 2, 3, 4), {"k": {1, 2}}],
    }


def saved(**options):
    stream = io.BytesIO()
    facula.save(sample(), stream, **options)
    return stream.getvalue()


def mutations(data, seed):
    """Endless damaged variants of `data`: flipped bits, other bytes, cuts, repeats, inserted opcodes."""
    rng = random.Random(seed)
    while True:
        bad = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5, 20))):
            at = rng.randrange(len(bad))
            kind = rng.randrange(6)
            if kind == 0:
                bad[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                bad[at] = rng.randrange(256)
            elif kind == 2:
                bad[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4)))
            elif kind == 3:
                del bad[at : at + rng.randrange(1, 30)]
            elif kind == 4:
                other = rng.randrange(len(bad))
                bad[at:at] = bad[other : other + rng.randrange(1, 40)]
            else:
                bad[at:at] = bytes([rng.choice(b"()]}.RQbsuaeteq\x81\x93\x94\x85\x86\x87\x8f\x90")])
            if not bad:
                bad = bytearray(b"P")
        yield bytes(bad)


class Watch:
    """Counts audit events that only executed code would raise."""

    def __init__(self):
        self.on, self.seen = False, []
        sys.addaudithook(self._event)

    def _event(self, name, args):
        own = name == "exec" and args[0].co_filename.startswith(os.path.dirname(facula.__file__))
        if self.on and name in WATCHED and not own:  # a load may import a module of Facula itself
            self.seen.append((name, args))


@pytest.fixture(scope="module")
def watch():
    return Watch()


def attempt(watch, load):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            watch.on = True
            load()
    except CLEAR as error:
        assert str(error)
    finally:
        watch.on = False
    seen, watch.seen = watch.seen, []
    assert seen == []


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_damaged_files(zipped, weights_only, watch):
    good = saved(_use_new_zipfile_serialization=zipped)
    attempt(watch, lambda: facula.load(io.BytesIO(good), weights_only=weights_only))
    for bad, _ in zip(mutations(good, 7 + zipped), range(CASES)):
        attempt(watch, lambda bad=bad: facula.load(io.BytesIO(bad), weights_only=weights_only))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_damaged_pickles(protocol, watch):
    good = pickle.dumps(
        {"a": [1, 2.5, "x", b"y" * 300, {1}, frozenset([2]), (1, (2, (3,)))], "b": sample()["plain"]},
        protocol,
    )
    for bad, _ in zip(mutations(good, protocol), range(CASES)):
        attempt(watch, lambda bad=bad: PickleReader(bad, allowed.Scope(True), lambda pid: pid).load())


def test_random_opcodes(watch):
    rng = random.Random(3)
    names = [
        "os system",
        "builtins eval",
        "builtins getattr",
        "torch.hub load",
        "posix system",
        "builtins set",
        "collections OrderedDict",
        "torch Size",
        "torch.nn.modules.linear Linear",
        "functools partial",
        "torch.serialization load",
        "facula.hub load",
        "facula.serialization os",
    ]
    pieces = [f"c{n}\n".replace(" ", "\n").encode() for n in names]
    pieces += [bytes([b]) for b in b"()]}NRQbsuaete0\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94"]
    pieces += [b"X\2\0\0\0ls", b"K\1", b"q\0", b"h\0", b"\x8c\6system", b"\x8c\2os"]
    for _ in range(CASES * 10):
        stream = b"\x80\2" + b"".join(rng.choices(pieces, k=rng.randrange(2, 25))) + b"."
        attempt(
            watch, lambda stream=stream: PickleReader(stream, allowed.Scope(True), lambda pid: pid).load()
        )


@pytest.mark.parametrize("weights_only", [True, False])
def test_damaged_descriptions_in_sound_archives(weights_only, watch):
    source = zipfile.ZipFile(io.BytesIO(saved()))
    records = {name: source.read(name) for name in source.namelist()}
    description = next(name for name in records if name.endswith("/data.pkl"))
    for bad, _ in zip(mutations(records[description], 11), range(CASES)):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as target:
            for name, content in records.items():
                target.writestr(name, bad if name == description else content)
        stream.seek(0)
        attempt(watch, lambda stream=stream: facula.load(stream, weights_only=weights_only))


BOMBS = {
    "deep tuple": b"\x80\2" + b")\x85" * 1_000_000 + b"K\1\x86\x8f" + b".",
    "deep key": b"\x80\2}" + b")" + b"\x85" * 500_000 + b"K\1s.",
    "key that doubles at each step": b"\x80\2}K\1" + b"q\0h\0\x86" * 100 + b"K\1s.",
    "2 GB out of nothing": b"\x80\2cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "huge fraction": b"\x80\2cfractions\nFraction\nX\x0b\0\0\0" + b"1e999999999" + b"\x85R.",
    "huge int": b"\x80\2\x8b\xff\xff\xff\x7f.",
    "huge bytearray": b"\x80\2\x96\xff\xff\xff\xff\xff\xff\xff\xff.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_quickly(name, watch):
    attempt(watch, lambda: PickleReader(BOMBS[name], allowed.Scope(True), lambda pid: pid).load())


def test_the_watch_sees_executed_code(watch):
    watch.on = True
    builtins.exec("pass")
    watch.on = False
    assert watch.seen
    watch.seen.clear()
