"""facula-run: programs on files of arrays, in a process without Python."""

import io
import json
import random
import shutil
import struct
import subprocess
import sysconfig
from pathlib import Path

import numpy
import pytest

import facula

MODULE = Path(facula._C.__file__).resolve()
COMMAND = next((p for p in (MODULE.parent / "facula-run", Path(sysconfig.get_path("scripts")) / "facula-run") if p.exists()), None)
pytestmark = pytest.mark.skipif(COMMAND is None, reason="facula-run is not installed")


def run(*arguments, status=0):
    done = subprocess.run([str(COMMAND), *(str(a) for a in arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


class Net(facula.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = facula.nn.Linear(3, 2)

    def forward(self, x, y):
        hidden = facula.relu(self.linear(x))
        return hidden, (hidden.sum(1) + y, y > 0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A program with a size that varies, and what it computes."""
    facula.manual_seed(1)
    net, path = Net(), tmp_path_factory.mktemp("run") / "net.pt2"
    batch = facula.export.Dim("batch")
    program = facula.export.export(net, (facula.randn(4, 3), facula.randn(4)), dynamic_shapes=({0: batch}, {0: batch}))
    facula.export.save(program, path)
    return path, net


def arrays(rows=5):
    random = numpy.random.default_rng(rows)
    return random.standard_normal((rows, 3), dtype="f4"), random.standard_normal(rows, dtype="f4")


def expected(net, x, y):
    hidden, (total, positive) = net(facula.from_numpy(x), facula.from_numpy(y))
    return [hidden.detach().numpy(), total.detach().numpy(), positive.numpy()]


def check(net, x, y, found):
    for want, got in zip(expected(net, x, y), found, strict=True):
        assert want.dtype == got.dtype
        numpy.testing.assert_allclose(got, want, rtol=1e-6)


def test_inputs_in_order(saved, tmp_path):
    path, net = saved
    x, y = arrays()
    numpy.save(tmp_path / "x.npy", x)
    numpy.save(tmp_path / "y.npy", y)
    run(path, "--input", tmp_path / "x.npy", "--input", tmp_path / "y.npy", "--output", tmp_path / "out.npz")
    with numpy.load(tmp_path / "out.npz") as out:
        check(net, x, y, [out[name] for name in out.files])


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
@pytest.mark.parametrize("names", [True, False])
def test_inputs_in_one_file(saved, tmp_path, save, names):
    path, net = saved
    x, y = arrays(1)
    if names:
        save(tmp_path / "in.npz", y=y, x=x)
    else:
        save(tmp_path / "in.npz", x, y)
    run(path, f"--input={tmp_path / 'in.npz'}", f"--output={tmp_path / 'out.npz'}")
    with numpy.load(tmp_path / "out.npz") as out:
        check(net, x, y, [out[name] for name in out.files])


def safetensors(**tensors):
    header, data = {"__metadata__": {"made": "by hand"}}, b""
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_safetensors(saved, tmp_path):
    path, net = saved
    x, y = arrays()
    (tmp_path / "in.safetensors").write_bytes(safetensors(y=y, x=x))
    run(path, "--input", tmp_path / "in.safetensors", "--output", tmp_path / "out.safetensors")
    raw = (tmp_path / "out.safetensors").read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    found = []
    for entry in json.loads(raw[8 : 8 + length]).values():
        begin, end = entry["data_offsets"]
        dtype = {"F32": "f4", "BOOL": "?"}[entry["dtype"]]
        found.append(numpy.frombuffer(raw[8 + length + begin : 8 + length + end], dtype).reshape(entry["shape"]))
    check(net, x, y, found)


def test_names_of_inputs_on_the_command_line(saved, tmp_path):
    path, net = saved
    x, y = arrays()
    numpy.save(tmp_path / "a=b.npy", x)
    numpy.save(tmp_path / "y.npy", y)
    shown = run(path, "--input", f"y={tmp_path / 'y.npy'}", "--input", tmp_path / "a=b.npy", "--threads", 1, "--repeat", 3)
    assert "3 runs" in shown and "float32[5, 2]" in shown and "bool[5]" in shown


def test_list(saved):
    shown = run(saved[0], "--list")
    for text in ("inputs", "x ", "float32[", "outputs", "parameter: 8 elements, 32 bytes", "linear.default", "relu.default"):
        assert text in shown
    assert "--input" in run("--help")


class Identity(facula.nn.Module):
    def forward(self, x):
        return x.clone()


def through(tmp_path, value, written):
    """What a program that copies its input makes of a file."""
    program = facula.export.export(Identity(), (value,))
    facula.export.save(program, tmp_path / "identity.pt2")
    (tmp_path / "in.npy").write_bytes(written)
    run(tmp_path / "identity.pt2", "--input", tmp_path / "in.npy", "--output", tmp_path / "out.npy")
    return numpy.load(tmp_path / "out.npy")


DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def npy(array, version=None):
    file = io.BytesIO()
    numpy.lib.format.write_array(file, array, version)
    return file.getvalue()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["little", "big", "fortran"])
def test_dtypes_and_orders(tmp_path, dtype, order):
    array = (numpy.arange(2 * 3 * 4).reshape(2, 3, 4) % 7 - (0 if dtype[0] in "?u" else 3)).astype(dtype)
    if dtype[0] == "c":
        array = array + 2j * array.astype(dtype)
    array = array.astype(dtype)
    written = numpy.asfortranarray(array) if order == "fortran" else array.astype(array.dtype.newbyteorder("<>"[order == "big"]))
    out = through(tmp_path, facula.from_numpy(array.copy()), npy(written))
    assert out.dtype == array.dtype and numpy.array_equal(out, array)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (1, 2, 3, 4, 5, 6)])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_shapes_and_versions(tmp_path, shape, version):
    array = numpy.arange(numpy.prod(shape, dtype=int), dtype="f4").reshape(shape)
    out = through(tmp_path, facula.from_numpy(array.copy()), npy(array, version))
    assert out.shape == shape and numpy.array_equal(out, array)


def test_a_dtype_that_numpy_has_not(tmp_path):
    class Half(facula.nn.Module):
        def forward(self, x):
            return x.bfloat16()

    facula.export.save(facula.export.export(Half(), (facula.ones(2),)), tmp_path / "half.pt2")
    numpy.save(tmp_path / "in.npy", numpy.ones(2, "f4"))
    error = run(tmp_path / "half.pt2", "--input", tmp_path / "in.npy", "--output", tmp_path / "out.npy", status=1)
    assert "bfloat16" in error and ".safetensors" in error and not (tmp_path / "out.npy").exists()
    run(tmp_path / "half.pt2", "--input", tmp_path / "in.npy", "--output", tmp_path / "out.safetensors")
    assert b'"BF16"' in (tmp_path / "out.safetensors").read_bytes()


def test_wrong_inputs_are_named(saved, tmp_path):
    path, _ = saved
    x, y = arrays()
    numpy.savez(tmp_path / "only.npz", x=x)
    assert "'y'" in run(path, "--input", tmp_path / "only.npz", status=1)
    numpy.savez(tmp_path / "other.npz", x=x, z=y)
    assert "no input 'z'; it has x, y" in run(path, "--input", tmp_path / "other.npz", status=1)
    numpy.savez(tmp_path / "double.npz", x=x.astype("f8"), y=y)
    error = run(path, "--input", tmp_path / "double.npz", status=1)
    assert "'x'" in error and "float32" in error and "float64" in error
    numpy.savez(tmp_path / "three.npz", x, y, y)
    assert "2 inputs, and all are given" in run(path, "--input", tmp_path / "three.npz", status=1)
    numpy.save(tmp_path / "y.npy", y)
    twice = f"y={tmp_path / 'y.npy'}"
    assert "given twice" in run(path, "--input", twice, "--input", twice, status=1)
    numpy.save(tmp_path / "records.npy", numpy.zeros(2, [("a", "f4")]))
    assert "records" in run(path, "--input", tmp_path / "records.npy", status=1)


def test_wrong_calls():
    for arguments, message in [
        ((), "a program is expected"),
        (("a.pt2", "b.pt2"), "expected one program"),
        (("a.pt2", "--inputs", "x"), "there is no such one, got --inputs"),
        (("a.pt2", "--input"), "--input must be followed"),
        (("a.pt2", "--repeat", "0"), "--repeat must be a positive number, got '0'"),
        (("a.pt2", "--list=yes"), "--list takes no value"),
    ]:
        assert message in run(*arguments, status=2)
    assert "none.pt2" in run("none.pt2", status=1)


def test_what_cannot_be_written(saved, tmp_path):
    path, _ = saved
    x, y = arrays()
    numpy.savez(tmp_path / "in.npz", x=x, y=y)
    assert "holds one array, got 3" in run(path, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npy", status=1)
    assert "must end in" in run(path, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.txt", status=1)
    assert "cannot write" in run(path, "--input", tmp_path / "in.npz", "--output", tmp_path / "none" / "out.npz", status=1)


def test_damaged_files(saved, tmp_path):
    """Cut short and with other bytes: an error or another array, never a crash (a negative status)."""
    path, _ = saved
    x, y = arrays()
    random.seed(3)
    makers = {"npy": npy(x), "safetensors": safetensors(x=x, y=y)}
    with io.BytesIO() as file:
        numpy.savez_compressed(file, x=x, y=y)
        makers["npz"] = file.getvalue()
    for ending, good in makers.items():
        for i in range(25):
            bad = bytearray(good)
            if i % 3 == 0:
                del bad[random.randrange(len(bad)) :]
            for _ in range(i % 5 + 1):
                if bad:
                    bad[random.randrange(min(len(bad), 200))] = random.randrange(256)
            (tmp_path / f"bad.{ending}").write_bytes(bad)
            done = subprocess.run([COMMAND, path, "--input", tmp_path / f"bad.{ending}"], capture_output=True, timeout=60)
            assert done.returncode in (0, 1), (ending, bytes(bad), done.stderr)
    huge = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }\n"
    (tmp_path / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(huge)) + huge)
    assert "must fit in 64 bits" in run(path, "--input", tmp_path / "huge.npy", status=1)


@pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is needed")
def test_no_python_is_linked():
    needed = subprocess.run(["readelf", "-d", COMMAND], capture_output=True, text=True, check=True).stdout
    assert "libfacula.so" in needed and "python" not in needed.replace("/python", "").split("RUNPATH")[0]
