"""Memory shared with others: NumPy, DLPack, the buffer protocol."""

import gc
import warnings

import numpy as np
import pytest

import facula as torch


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_only(values):
    array = np.array(values)
    array.flags.writeable = False
    return array


def test_negative_strides_stay_views():
    array = np.arange(6.0)
    x = torch.from_numpy(array[::-2])
    assert x.tolist() == [5.0, 3.0, 1.0] and x.stride() == (-2,)
    array[5] = 50
    assert x[0].item() == 50.0 and x.numpy().strides == (-16,)
    x[2] = -1
    assert array[1] == -1.0


WRITES = [
    lambda t: t.add_(1),
    lambda t: t.fill_(0),
    lambda t: t.__setitem__(0, 1.0),
    lambda t: t.copy_(torch.ones(3, dtype=torch.float64)),
    lambda t: t.zero_(),
]


@pytest.mark.parametrize("write", WRITES)
def test_read_only_memory_cannot_be_written(write):
    x = torch.from_numpy(read_only([1.0, 2.0, 3.0]))
    with pytest.raises(RuntimeError, match="read-only"):
        write(x)
    assert x.tolist() == [1.0, 2.0, 3.0] and not x.numpy().flags.writeable and not np.from_dlpack(x).flags.writeable


def test_numpy_refuses_what_it_cannot_show():
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(2, requires_grad=True).numpy()
    assert torch.ones(2, requires_grad=True).numpy(force=True).tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="bfloat16"):
        torch.ones(2, dtype=torch.bfloat16).numpy()
    with pytest.raises(TypeError):
        torch.ones(2, device="meta").numpy()


def test_array_protocol():
    x = torch.tensor([1, 2])
    assert np.asarray(x).tolist() == [1, 2] and np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.array(x) is not np.array(x) and np.sum(x) == 3
    with pytest.raises(ValueError):
        x.__array__(np.float32, copy=False)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint64", "bool", "complex64", "complex128"]
)
def test_dlpack_with_numpy(dtype):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    x = torch.from_dlpack(array)
    assert str(x.dtype) == f"torch.{dtype}" and x.tolist() == array.tolist() and x.data_ptr() == array.ctypes.data
    assert np.array_equal(np.from_dlpack(x.T), array.T)
    x[0, 0] = 1
    assert array[0, 0] == 1


def test_dlpack_strides_copy_and_flags():
    array = np.arange(6)
    assert torch.from_dlpack(array[::-1]).tolist() == [5, 4, 3, 2, 1, 0]
    copied = torch.from_dlpack(array, copy=True)
    copied[0] = 9
    assert array[0] == 0
    x = torch.from_dlpack(read_only([1.0]))
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1)
    with pytest.raises(BufferError):
        x.__dlpack__()
    assert torch.from_dlpack(torch.ones(3, dtype=torch.bfloat16)).dtype is torch.bfloat16


def test_dlpack_capsules_are_used_once():
    x = torch.ones(2)
    for capsule in (x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), torch.to_dlpack(x)):
        assert torch.from_dlpack(capsule).data_ptr() == x.data_ptr()
        with pytest.raises(RuntimeError):
            torch.from_dlpack(capsule)
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_refuses():
    with pytest.raises(BufferError):
        torch.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError):
        torch.ones(2, device="meta").__dlpack__()
    with pytest.raises(BufferError):
        torch.ones(2).__dlpack__(dl_device=(2, 0))


def test_buffer_protocol():
    x = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)
    view = memoryview(x)
    assert view.tolist() == [[1, 2], [3, 4]] and view.format == "i" and view.nbytes == 16 and not view.readonly
    view[0, 0] = 7
    assert x[0, 0].item() == 7
    assert memoryview(x.T).strides == (4, 8) and bytes(torch.tensor([1, 2], dtype=torch.uint8)) == b"\1\2"
    with pytest.raises(BufferError):
        memoryview(torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(BufferError):
        memoryview(torch.ones(2, requires_grad=True))


def test_frombuffer():
    data = bytearray(np.arange(4, dtype=np.int16).tobytes())
    x = torch.frombuffer(data, dtype=torch.int16)
    x[0] = 9
    assert data[0] == 9 and x.tolist() == [9, 1, 2, 3]
    assert torch.frombuffer(data, dtype=torch.int16, count=2, offset=2).tolist() == [1, 2]
    for wrong in ({"count": 5}, {"offset": 8}, {"offset": -1}, {"offset": 1}, {"count": 0}):
        with pytest.raises(ValueError, match="^frombuffer"):
            torch.frombuffer(data, dtype=torch.int16, **wrong)
    with pytest.raises(ValueError):
        torch.frombuffer(3, dtype=torch.int16)
    with pytest.raises(RuntimeError, match="read-only"):
        torch.frombuffer(b"\1\2", dtype=torch.uint8).zero_()
    x = torch.frombuffer(bytearray(8), dtype=torch.float32, requires_grad=True)
    assert x.requires_grad


def test_asarray():
    x, array = torch.ones(2), np.ones(2)
    assert torch.asarray(x) is x and torch.asarray(array).data_ptr() == array.ctypes.data
    assert torch.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.asarray([1, 2]).tolist() == [1, 2] and torch.asarray(bytearray(4), dtype=torch.float32).shape == (1,)
    assert torch.asarray(x, dtype=torch.float64).dtype is torch.float64
    for wrong in (lambda: torch.asarray([1], copy=False), lambda: torch.asarray(x, dtype=torch.int8, copy=False)):
        with pytest.raises(ValueError, match="^asarray"):
            wrong()


def test_memory_outlives_its_owner():
    x = torch.from_numpy(np.arange(1000.0))
    view = memoryview(torch.arange(1000.0))
    y = torch.from_dlpack(np.arange(1000.0))
    assert x.sum().item() == y.sum().item() == sum(view) == 499500.0


DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
DTYPES += ("float16", "float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_and_tensors_on_one_memory(name):
    dtype = getattr(torch, name)
    for x in (torch.ones(3, 4).to(dtype), torch.ones(2, 3, 5).to(dtype).transpose(0, 2)[1:, ::2], torch.ones(()).to(dtype),
              torch.ones(0, 3).to(dtype)):  # fmt: skip
        a = x.numpy()
        assert type(a) is np.ndarray and a.dtype == np.dtype(name) and a.shape == tuple(x.shape)
        assert a.strides == tuple(s * x.element_size() for s in x.stride()) and a.flags.writeable
        assert a.tolist() == x.tolist() and (x.numel() == 0 or a.ctypes.data == x.data_ptr())
        back = torch.from_numpy(a)
        assert back.dtype is dtype and back.shape == x.shape and back.tolist() == x.tolist()
        if x.numel():
            a[...] = 0
            assert not x.any() and not back.any() and back.data_ptr() == x.data_ptr()


def test_an_array_keeps_and_exposes_the_memory():
    x = torch.arange(5000.0)
    place, a = x.data_ptr(), x.numpy()
    del x
    gc.collect()
    other = torch.zeros(5000)
    assert other.data_ptr() != place and a.sum() == 12497500.0
    weight, given = torch.randn(64, 64), torch.randn(8, 64)
    first = torch.nn.functional.linear(given, weight)
    a = weight.numpy()
    a *= 2  # which no version counts
    assert torch.allclose(torch.nn.functional.linear(given, weight), 2 * first)


def test_numpy_knows_what_is_in_the_way():
    class Named(torch.Tensor):
        pass

    class Taken(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function.__name__

    assert torch.ones(2).as_subclass(Named).numpy().tolist() == [1, 1] and torch.ones(2).as_subclass(Taken).numpy() == "numpy"
    view = torch.ones(2, requires_grad=True)[:1]
    for wrong in (view, torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.complex64).conj()):
        with pytest.raises(RuntimeError, match="^numpy: "):
            wrong.numpy()
    with torch.no_grad():
        assert torch.ones(2, requires_grad=True).numpy().tolist() == [1, 1]
    assert view.numpy(force=True).tolist() == [1]
    for wrong in ({"force": 1, "more": 2}, {"forced": True}):
        with pytest.raises(TypeError):
            torch.ones(2).numpy(**wrong)
    with pytest.raises(TypeError):
        torch.ones(2).numpy(True)


def test_arrays_of_another_kind():
    class Array(np.ndarray):
        pass

    a = np.arange(3, dtype=np.float32)
    assert torch.from_numpy(a.view(Array)).tolist() == [0, 1, 2] and torch.tensor(a.view(Array)).tolist() == [0, 1, 2]
    for wrong in (a.astype(">f4"), np.array(["a"]), np.array([None]), np.zeros(2, np.longdouble)):
        with pytest.raises((TypeError, ValueError), match="^from_numpy"):
            torch.from_numpy(wrong)
    fields = np.zeros(3, dtype=[("a", "i1"), ("b", "<f4")])
    with pytest.raises(ValueError, match="^from_numpy: strides"):
        torch.from_numpy(fields["b"])
