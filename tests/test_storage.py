"""Storages: the bytes behind tensors, and what becomes of tensors on storages that shrink and grow."""

import gc
import os

import pytest

import facula as torch


def test_storage_is_the_memory():
    x = torch.tensor([1, 2], dtype=torch.int16)
    storage = x.untyped_storage()
    assert storage.nbytes() == 4 and storage.tolist() == [1, 0, 2, 0] and storage is x[1:].untyped_storage()
    storage[0] = 5
    assert x.tolist() == [5, 2]
    part = storage[2:]
    part[0] = 9
    assert x.tolist() == [5, 9]
    assert storage.clone().tolist() == storage.tolist() and storage.clone() != storage
    with pytest.raises(IndexError):
        storage[4]


def test_storage_grows_only_when_alone():
    x = torch.tensor([1, 2], dtype=torch.uint8)
    x.untyped_storage().resize_(4)
    assert x.tolist() == [1, 2] and x.untyped_storage().nbytes() == 4
    other = x.detach()
    with pytest.raises(RuntimeError, match="^resize_"):
        x.untyped_storage().resize_(8)
    assert other.tolist() == [1, 2]


def test_storage_of_values_is_of_its_own():
    storage = torch.FloatStorage([1.0, 2.0])
    assert storage.resize_(1).tolist() == [1.0] and storage.resize_(3).size() == 3


def test_shrinking_leaves_tensors_where_they_are():
    """What programs do that give the memory of weights away between uses: all views come back with the storage."""
    for elements in (8, 5000):  # in one block with the header, and apart
        x = torch.arange(float(elements))
        view, detached, data = x[:4].view(2, 2), x.detach(), x.data
        address = x.data_ptr()
        x.untyped_storage().resize_(0)
        assert x.shape == (elements,) and x.untyped_storage().nbytes() == 0
        assert x.data_ptr() == 0 and x.untyped_storage().data_ptr() == 0
        x.sum()  # of whatever is there
        x.untyped_storage().resize_(x.nbytes)
        assert x.data_ptr() == address
        x.fill_(3)
        assert view.tolist() == [[3.0, 3.0]] * 2 and detached.tolist() == data.tolist() == [3.0] * elements


def test_what_is_left_of_a_shrunken_storage_stays():
    x = torch.arange(8.0)
    storage, half = x.untyped_storage(), x[:4]
    del x
    assert storage.resize_(16) is storage and half.tolist() == [0.0, 1.0, 2.0, 3.0]
    storage.resize_(24)
    half.resize_(6)[4:] = 7
    assert half.tolist() == [0.0, 1.0, 2.0, 3.0, 7.0, 7.0]
    with pytest.raises(RuntimeError, match="set_|out of bounds"):
        half.set_(storage, 0, (8,))


def test_saved_values_come_back_with_the_storage():
    weight, x = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    y = (weight * x).sum()
    weight.untyped_storage().resize_(0)
    weight.untyped_storage().resize_(16)
    weight.data.fill_(3)
    y.backward()
    assert x.grad.tolist() == [3.0] * 4


def test_a_storage_that_only_its_object_has_moves():
    x = torch.arange(8.0)
    storage = x.untyped_storage()
    del x
    gc.collect()
    assert storage.resize_(0).nbytes() == 0 and storage.resize_(64).nbytes() == 64


def test_shrinking_gives_memory_back():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    x = torch.ones(1 << 24)
    held, before = x.detach(), resident()
    storage = x.untyped_storage()
    storage.resize_(0)
    assert before - resident() > 48 << 20
    storage.resize_(1 << 26)
    assert held.fill_(2).sum() == 2 << 24


def test_borrowed_and_shared_memory_keeps_its_size():
    shared = torch.ones(4).share_memory_()
    with pytest.raises(RuntimeError, match="^resize_"):
        shared.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="^resize_"):
        torch.from_numpy(shared.numpy()).untyped_storage().resize_(0)


def test_a_shrunken_storage_is_not_shared():
    x = torch.ones(1 << 16)
    x.untyped_storage().resize_(16)
    with pytest.raises(RuntimeError, match="^share_memory_: the storage has shrunk"):
        x.share_memory_()
    assert x[:4].tolist() == [1.0] * 4 and x.sum() <= 1 << 16  # of memory that is there


def test_typed_storages_shrink():
    x = torch.arange(8.0)
    x._typed_storage()._resize_(0)
    assert x._typed_storage()._size() == 0
    x._typed_storage()._resize_(8)
    assert x.copy_(torch.ones(8)).tolist() == [1.0] * 8


def test_set_takes_a_source_or_nothing():
    x = torch.zeros(3)
    for arguments in ((None,), (torch.ones(3), 0), (torch.ones(3), True)):
        with pytest.raises(TypeError, match=r"^set_(\(\))?: "):
            x.set_(*arguments)
    assert x.set_(torch.ones(4), 1, (2,)).tolist() == [1.0, 1.0] and x.set_().shape == (0,)


def test_set_has_no_derivative_and_says_so():
    x = torch.ones(3, requires_grad=True)
    for z, arguments in ((torch.zeros(3), (x * 2,)), (torch.zeros(3), (x,)), (x * 3, (torch.ones(3),)), (x * 3, (torch.ones(3).untyped_storage(),)), (x * 3, ())):
        z.set_(*arguments)
        assert z.requires_grad and not z.is_leaf
        with pytest.raises(RuntimeError, match="^set_: the derivative is not implemented"):
            z.sum().backward()
    with torch.no_grad():
        assert not torch.zeros(3).set_(x).requires_grad
