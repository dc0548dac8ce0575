"""Storages as objects: identity, attributes and weak references while tensors hold the bytes, subclasses, casts, constructors."""

import gc
import sys
import weakref

import numpy as np
import pytest

import facula as torch


class Flag:
    """Tells when it dies."""

    def __init__(self, told):
        self.told = told

    def __del__(self):
        self.told.append(True)


@pytest.mark.parametrize("size", [3, 100_000])
def test_attributes_live_as_long_as_a_tensor_holds_the_bytes(size):
    told = []
    a = torch.zeros(size)
    storage = a.untyped_storage()
    storage.note = Flag(told)
    del storage
    gc.collect()
    assert not told
    assert isinstance(a.untyped_storage().note, Flag)
    del a
    assert told == [True]


def test_the_last_of_object_and_tensor_ends_attributes():
    told = []
    storage = torch.UntypedStorage(12)
    storage.note = Flag(told)
    a = torch.tensor(storage, dtype=torch.float32)
    assert a.data_ptr() == storage.data_ptr()
    del storage
    storage = a.untyped_storage()
    del a
    assert not told
    del storage
    assert told == [True]


@pytest.mark.parametrize("size", [8, 1 << 16])
def test_weak_references_hold_while_tensors_do(size):
    storage = torch.UntypedStorage(size)
    weak = weakref.ref(storage)
    a = torch.tensor(storage)
    del storage
    assert weak() is a.untyped_storage()
    found = weak()
    a.fill_(3)
    del a  # the object keeps the bytes now
    assert found.nbytes() == size and found[0] == 3
    del found
    assert weak() is None


def test_callbacks_of_weak_references():
    called = []
    storage = torch.UntypedStorage(1)
    weak = weakref.ref(storage, called.append)
    del storage
    assert called == [weak]


def test_subclasses_come_back_as_themselves():
    class Mine(torch.UntypedStorage):
        ended = 0

        def __del__(self):
            Mine.ended += 1

    a = torch.tensor(Mine(16), dtype=torch.int64)
    assert Mine.ended == 0 and type(a.untyped_storage()) is Mine
    del a
    assert Mine.ended == 1


def test_slots_and_cycles_are_collected():
    class Slots(torch._C.StorageBase):
        __slots__ = ["other"]

    told = []
    a, b = Slots(torch.UntypedStorage(2)), Slots([1, 2])
    a.other, b.other = b, Flag(told)
    b.back = a
    del a, b
    gc.collect()
    assert told == [True]
    with pytest.raises(RuntimeError, match="StorageBase"):
        torch._C.StorageBase()


def test_a_storage_with_state_can_be_resized_and_shared():
    a = torch.arange(4.0)
    a.untyped_storage().note = 1
    a.resize_(100)
    assert a.untyped_storage().note == 1 and a[:4].tolist() == [0, 1, 2, 3]
    b = torch.arange(4.0)
    b.untyped_storage().note = 2
    b.share_memory_()
    assert b.untyped_storage().note == 2 and b.tolist() == [0, 1, 2, 3]


def test_iteration_byteswap_and_casts():
    storage = torch.UntypedStorage([1, 2, 3, 4])
    assert list(storage) == [1, 2, 3, 4] and torch.UntypedStorage(storage) != storage
    assert storage.byteswap(torch.int16) is None and storage.tolist() == [2, 1, 4, 3]
    storage.byteswap(torch.complex64)
    assert storage.tolist() == [3, 4, 1, 2]
    floats = storage.float()
    assert floats.dtype is torch.float32 and floats.tolist() == [3, 4, 1, 2]
    ints = torch.IntStorage([-1, 0, 300])
    assert ints.float().tolist() == [-1, 0, 300] and ints.byte().tolist() == [255, 0, 44]
    assert ints.bool().tolist() == [True, False, True] and ints.complex_double().dtype is torch.complex128
    assert storage.new().nbytes() == 0 and storage.type() == "torch.storage.UntypedStorage"
    assert torch.FloatStorage._new_shared(3).is_shared()


def test_tensors_of_storages():
    floats = torch.FloatStorage([1.0, 2.0])
    a = torch.tensor(floats)
    assert a.data_ptr() == floats.data_ptr() and a.tolist() == [1, 2]
    assert torch.as_tensor(floats).dtype is torch.float32
    assert torch.tensor(torch.UntypedStorage(16)).dtype is torch.int64
    for make in (
        lambda: torch.tensor(floats, dtype=torch.int32),
        lambda: torch.zeros(1).set_(torch.IntStorage(2)),
        lambda: torch.FloatTensor(torch.IntStorage(2)),
    ):
        with pytest.raises(RuntimeError, match="Storage of type"):
            make()
    assert torch.zeros(1).set_(floats).tolist() == [1, 2]
    assert torch.zeros(1, dtype=torch.int32).set_(floats.untyped()).shape == (2,)


def test_constructors_say_what_is_wrong():
    floats = torch.FloatStorage(2)
    wrong = [
        (RuntimeError, lambda: torch.storage._LegacyStorage()),
        (RuntimeError, lambda: torch.FloatStorage(device="cpu")),
        (RuntimeError, lambda: torch.FloatStorage(dtype=torch.float32)),
        (TypeError, lambda: torch.FloatStorage(other=1)),
        (RuntimeError, lambda: torch.FloatStorage(0, 0)),
        (TypeError, lambda: torch.FloatStorage("string")),
        (TypeError, lambda: torch.FloatStorage(torch.zeros(2))),
        (RuntimeError, lambda: torch.FloatStorage(0, wrap_storage=floats.untyped())),
        (TypeError, lambda: torch.FloatStorage(wrap_storage=floats)),
        (RuntimeError, lambda: torch.TypedStorage(wrap_storage=floats.untyped())),
        (TypeError, lambda: torch.TypedStorage(wrap_storage=floats.untyped(), dtype=0)),
        (RuntimeError, lambda: torch.TypedStorage(wrap_storage=floats.untyped(), dtype=torch.float32, device="cpu")),
        (RuntimeError, lambda: torch.TypedStorage(0, 0, dtype=torch.float32)),
        (RuntimeError, lambda: floats.fill_(floats)),
        (RuntimeError, lambda: torch.cuda.FloatStorage.from_buffer()),
    ]
    for kind, make in wrong:
        with pytest.raises(kind, match=r"got|takes"):
            make()


def test_sizes_of_numpy():
    assert torch.FloatStorage(np.int64(3)).size() == torch.Storage(np.uint8(3)).size() == 3


def test_from_buffer():
    data = bytearray([1, 2, 3, 4])
    assert torch.ByteStorage.from_buffer(data).tolist() == [1, 2, 3, 4]
    assert torch.ShortStorage.from_buffer(data, "big").tolist() == [258, 772]
    assert torch.UntypedStorage.from_buffer(data, "big", dtype=torch.int16).tolist() == (
        [2, 1, 4, 3] if sys.byteorder == "little" else [1, 2, 3, 4]
    )
    with pytest.raises(RuntimeError, match="byte_order"):
        torch.FloatStorage.from_buffer(data)


def test_the_file_that_a_storage_is_mapped_from(tmp_path):
    path = str(tmp_path / "numbers")
    a = torch.from_file(path, shared=True, size=3, dtype=torch.float32)
    assert a.untyped_storage().filename == path and a.storage().filename == path
    assert torch.zeros(2).storage().filename is None
