// What help() says of UntypedStorage.
#pragma once

namespace facula::python::docs::storage {

inline constexpr char kStorageBase[] = R"(StorageBase(size=0, *, device=None)
--

The class that classes of storages derive from, for `isinstance`.

Making an object of the class itself is a RuntimeError; `size` (in bytes) and `device` are those of `UntypedStorage`.

>>> isinstance(torch.UntypedStorage(4), torch.StorageBase)
True)";

inline constexpr char kUntypedStorage[] = R"(UntypedStorage(size=0, *, device=None)
--

The bytes behind tensors: a block of memory on one device, without a dtype or a shape, which views share.

It is indexed and sliced (with a step of 1) like an array of bytes, a slice being a storage over the same memory, and is
a buffer to Python where it is on the CPU. Two storages are equal where they are the same memory.

Args:
    size: the number of bytes, which are not initialized, or a sequence of byte values to copy.
    device: where they are; by default the CPU.

Errors: RuntimeError for a negative size; IndexError for an index outside; NotImplementedError for reading on "meta".

>>> storage = torch.UntypedStorage([1, 2, 3])
>>> storage.nbytes(), storage[1], storage.tolist()
(3, 2, [1, 2, 3])
>>> storage[:2].fill_(7) is not None, storage.tolist()
(True, [7, 7, 3])
>>> storage.resize_(1).size(), storage.resizable(), storage.clone() == storage
(1, True, False)
>>> storage.copy_(torch.UntypedStorage([9])).tolist()
[9])";

inline constexpr char kNbytes[] = R"(nbytes($self, /)
--

Return the number of bytes.

>>> torch.zeros(3).untyped_storage().nbytes()
12)";

inline constexpr char kSize[] = R"(size($self, /)
--

Return the number of bytes, another name of `nbytes`.

>>> torch.zeros(3).untyped_storage().size()
12)";

inline constexpr char kDataPtr[] = R"(data_ptr($self, /)
--

Return the address of the first byte as an int.

>>> x = torch.zeros(3)
>>> x.untyped_storage().data_ptr() == x.data_ptr()
True)";

inline constexpr char kElementSize[] = R"(element_size($self, /)
--

Return 1: an element of an untyped storage is a byte.

>>> torch.zeros(3).untyped_storage().element_size()
1)";

inline constexpr char kGetDevice[] = R"(get_device($self, /)
--

Return the index of the CUDA device that the bytes are on, -1 on the CPU.

>>> torch.UntypedStorage(4).get_device()
-1)";

inline constexpr char kNew[] = R"(new($self, /)
--

Return a new empty storage on the same device.

>>> torch.UntypedStorage([1, 2]).new().nbytes()
0)";

inline constexpr char kType[] = R"(type($self, /, dtype=None, non_blocking=False)
--

Return the name of the class; with a dtype, the bytes converted to elements of it, as a `TypedStorage`.

`non_blocking` is accepted, as the copy is complete when this returns.

>>> storage = torch.UntypedStorage([1, 2])
>>> storage.type(), storage.type(torch.int16).tolist()
('torch.storage.UntypedStorage', [1, 2]))";

inline constexpr char kByteswap[] = R"(byteswap($self, dtype, /)
--

Reverse the bytes of each element of `dtype`, and of each half of a complex one, in place.

>>> storage = torch.UntypedStorage([1, 2, 3, 4])
>>> storage.byteswap(torch.int16)
>>> storage.tolist()
[2, 1, 4, 3])";

inline constexpr char kCast[] = R"(float($self, /)
--

Return the bytes converted to numbers of the dtype that the method is called by, as a `TypedStorage`.

>>> torch.UntypedStorage([1, 2]).float().tolist()
[1.0, 2.0])";

inline constexpr char kUntyped[] = R"(untyped($self, /)
--

Return the storage itself; of a `TypedStorage` the same method gives the storage without its dtype.

>>> storage = torch.UntypedStorage(4)
>>> storage.untyped() is storage
True)";

inline constexpr char kCpu[] = R"(cpu($self, /)
--

Return the storage on the CPU: itself where it is there already, else a copy.

>>> storage = torch.UntypedStorage(4)
>>> storage.cpu() is storage
True)";

inline constexpr char kCuda[] = R"(cuda($self, device=None, non_blocking=False)
--

Return the storage on a CUDA device: itself where it is there already, else a copy. AssertionError without a GPU.

Args:
    device: the device or its index; by default the current one.
    non_blocking: lets a copy from pinned memory go on while the program continues.

>>> storage = torch.UntypedStorage(4)
>>> storage.cuda().is_cuda if torch.cuda.is_available() else storage.is_cpu
True)";

inline constexpr char kTo[] = R"(to($self, device, non_blocking=False)
--

Return the storage on `device`: itself where it is there already, else a copy.

`non_blocking` lets a copy between pinned memory and a GPU go on while the program continues. NotImplementedError for
leaving "meta", which has no values.

>>> storage = torch.UntypedStorage([1, 2])
>>> storage.to("cpu") is storage, storage.to("meta").device
(True, device(type='meta')))";

inline constexpr char kIsShared[] = R"(is_shared($self, /)
--

Return whether the bytes are in memory that other processes can map, as `share_memory_` makes it.

>>> torch.UntypedStorage(4).is_shared()
False)";

inline constexpr char kIsPinned[] = R"(is_pinned($self, device="cuda", /)
--

Return whether the bytes are in page-locked memory, which a GPU copies from and to by itself; False without a GPU.

`device` names the kind of device that would use the memory; RuntimeError where it is not a CUDA device.

>>> torch.UntypedStorage(4).is_pinned()
False)";

inline constexpr char kPinMemory[] = R"(pin_memory($self, device="cuda", /)
--

Return a copy in page-locked memory, which a GPU copies from and to by itself; the storage itself where it is pinned
already.

`device` names the kind of device that would use the memory. RuntimeError without a GPU, TypeError for memory of a GPU.

>>> storage = torch.UntypedStorage(4)
>>> storage.pin_memory().is_pinned() if torch.cuda.is_available() else True
True)";

inline constexpr char kResizable[] = R"(resizable($self, /)
--

Return whether `resize_` can work: False for memory that is borrowed from a buffer or file, and for shared memory.

>>> torch.UntypedStorage(4).resizable()
True)";

inline constexpr char kShareMemory[] = R"(share_memory_($self, /)
--

Move the bytes into memory that other processes can map, and return the storage.

RuntimeError where several tensors hold the bytes, which could not follow, and for memory of a GPU.

>>> torch.UntypedStorage(4).share_memory_().is_shared()
True)";

inline constexpr char kClone[] = R"(clone($self, /)
--

Return a storage of its own with the same bytes, on the same device.

>>> storage = torch.UntypedStorage([1, 2])
>>> storage.clone().tolist()
[1, 2])";

inline constexpr char kCopy[] = R"(copy_($self, source, non_blocking=False)
--

Take the bytes of the storage `source`, which must be as large; return the storage.

`non_blocking` lets a copy between pinned memory and a GPU go on while the program continues. RuntimeError for another
size, and where the storage is read-only.

>>> torch.UntypedStorage(2).copy_(torch.UntypedStorage([1, 2])).tolist()
[1, 2])";

inline constexpr char kFill[] = R"(fill_($self, value, /)
--

Set every byte to `value`, of which the lowest 8 bits count; return the storage. RuntimeError where it is read-only.

>>> torch.UntypedStorage(2).fill_(3).tolist()
[3, 3])";

inline constexpr char kResize[] = R"(resize_($self, size, /)
--

Grow or shrink the storage to `size` bytes in place, keeping those that both have; return the storage.

Tensors on a storage that shrinks keep their shapes and their addresses. What they have beyond its end reads as zeros
or as it was before, until the storage grows again and is written to; on the CPU the system has the memory meanwhile.
RuntimeError where several tensors hold a storage that is to grow beyond what it ever had, and where memory is borrowed
or shared.

>>> torch.UntypedStorage([1, 2, 3]).resize_(2).tolist()
[1, 2])";

inline constexpr char kTolist[] = R"(tolist($self, /)
--

Return the bytes as a list of ints from 0 to 255.

>>> torch.tensor([1, 256], dtype=torch.int16).untyped_storage().tolist()
[1, 0, 0, 1])";

inline constexpr char kFromBuffer[] = R"(from_buffer(buffer, byte_order=None, count=-1, offset=0, dtype=None)
--

Return a storage with a copy of the bytes of a Python buffer.

Args:
    buffer: an object with the buffer protocol, e.g. bytes.
    byte_order: "little" or "native"; the order of the bytes stays as it is.
    count: how many elements of `dtype` to take; by default all bytes behind `offset`.
    offset: the first byte to take.
    dtype: what `count` counts; by default bytes.

Errors: ValueError where `count` and `offset` do not lie in the buffer; NotImplementedError for the byte order "big".

>>> torch.UntypedStorage.from_buffer(b"abcd", offset=1, count=2).tolist()
[98, 99])";

inline constexpr char kFromFile[] = R"(from_file(filename, shared=False, nbytes=0)
--

Return a storage over a memory map of a file.

Args:
    filename: the path of the file.
    shared: writes go to the file, which is made or made longer where it is too short; else they stay in this process.
    nbytes: how many bytes to map; 0 gives an empty storage.

Errors: RuntimeError where the file cannot be opened, or is shorter than `nbytes` and not `shared`.

>>> import pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "bytes")
...     _ = path.write_bytes(b"abc")
...     torch.UntypedStorage.from_file(str(path), nbytes=2).tolist()
[97, 98])";

}  // namespace facula::python::docs::storage
