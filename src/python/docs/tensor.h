// What help() says of the methods of Tensor that are not ops.
#pragma once

namespace facula::python::docs::tensor {

inline constexpr char kSize[] = R"(size($self, dim=None)
--

Return the sizes of all dimensions as a `torch.Size`, or the size of dimension `dim` as an int.

A negative `dim` counts from the last dimension. IndexError where there is no such dimension.

>>> x = torch.zeros(2, 3)
>>> x.size(), x.size(-1)
(torch.Size([2, 3]), 3))";

inline constexpr char kStride[] = R"(stride($self, dim=None)
--

Return how many elements of memory lie between neighbors along each dimension, as a tuple, or along `dim` as an int.

A negative `dim` counts from the last dimension. IndexError where there is no such dimension, RuntimeError for sparse
tensors.

>>> x = torch.zeros(2, 3)
>>> x.stride(), x.t().stride(), x.stride(0)
((3, 1), (1, 3), 3))";

inline constexpr char kDim[] = R"(dim($self, /)
--

Return the number of dimensions; 0 of a scalar.

>>> torch.zeros(2, 3).dim()
2)";

inline constexpr char kNdimension[] = R"(ndimension($self, /)
--

Return the number of dimensions, another name of `dim`.

>>> torch.zeros(2, 3).ndimension()
2)";

inline constexpr char kNumel[] = R"(numel($self, /)
--

Return the number of elements, the product of the sizes; 1 of a scalar.

>>> torch.zeros(2, 3).numel(), torch.tensor(5.0).numel()
(6, 1))";

inline constexpr char kNelement[] = R"(nelement($self, /)
--

Return the number of elements, another name of `numel`.

>>> torch.zeros(2, 3).nelement()
6)";

inline constexpr char kStorageOffset[] = R"(storage_offset($self, /)
--

Return how many elements of the storage lie before the first element of the tensor; RuntimeError for sparse tensors.

>>> x = torch.arange(6)
>>> x[2:].storage_offset()
2)";

inline constexpr char kDataPtr[] = R"(data_ptr($self, /)
--

Return the address of the first element as an int.

Elements may lie apart from each other (see `stride`). Writing through the address is not seen by autograd.

>>> x = torch.zeros(4)
>>> x[1:].data_ptr() - x.data_ptr()
4)";

inline constexpr char kElementSize[] = R"(element_size($self, /)
--

Return the bytes per element.

>>> torch.zeros(3).element_size(), torch.zeros(3, dtype=torch.bool).element_size()
(4, 1))";

inline constexpr char kGetDevice[] = R"(get_device($self, /)
--

Return the index of the CUDA device that the tensor is on, -1 on the CPU.

>>> torch.zeros(3).get_device()
-1)";

inline constexpr char kItem[] = R"(item($self, /)
--

Return the value of a tensor with one element as a Python bool, int, float or complex.

It cannot be differentiated, and of a GPU's tensor it waits for the device. RuntimeError where there is not exactly one
element.

>>> torch.tensor([2.5]).item()
2.5
>>> (torch.tensor(3) > 2).item()
True)";

inline constexpr char kIsContiguous[] = R"(is_contiguous($self, memory_format=None)
--

Return whether the elements lie in memory without gaps, in the order of `memory_format`; by default of
`torch.contiguous_format`, where the last dimension moves fastest. `torch.channels_last` requires of 4-dimensional
tensors whether dimension 1 moves fastest.

>>> x = torch.zeros(2, 3)
>>> x.is_contiguous(), x.t().is_contiguous()
(True, False)
>>> torch.zeros(1, 3, 2, 2).is_contiguous(memory_format=torch.channels_last)
False)";

inline constexpr char kIsFloatingPoint[] = R"(is_floating_point($self, /)
--

Return whether elements are real floating-point numbers, of any precision; False for complex numbers.

>>> torch.zeros(2).is_floating_point(), torch.zeros(2, dtype=torch.int64).is_floating_point()
(True, False))";

inline constexpr char kIsComplex[] = R"(is_complex($self, /)
--

Return whether elements are complex numbers.

>>> torch.tensor([1j]).is_complex()
True)";

inline constexpr char kIsSigned[] = R"(is_signed($self, /)
--

Return whether elements can be negative: False for bool and the unsigned integers.

>>> torch.zeros(2).is_signed(), torch.zeros(2, dtype=torch.uint8).is_signed()
(True, False))";

inline constexpr char kIsConj[] = R"(is_conj($self, /)
--

Return whether memory holds the conjugates of the values, as after `conj()`, which only flags its result.

>>> torch.tensor([1 + 2j]).conj().is_conj()
True)";

inline constexpr char kIsNeg[] = R"(is_neg($self, /)
--

Return False: negation is computed at once here and never only flagged, so there is nothing to resolve.

>>> torch.tensor([1 + 2j]).conj().imag.is_neg()
False)";

inline constexpr char kIsInference[] = R"(is_inference($self, /)
--

Return whether the tensor was made in inference mode. Such a tensor never takes part in autograd.

>>> with torch.inference_mode():
...     x = torch.ones(2)
>>> x.is_inference()
True)";

inline constexpr char kRequiresGrad[] = R"(requires_grad_($self, requires_grad=True)
--

Start (or with `requires_grad=False` stop) recording what is computed from this tensor; return the tensor.

RuntimeError for integers, which have no gradients, and for switching off what is the result of a recorded op (use
`detach`).

>>> x = torch.ones(2).requires_grad_()
>>> (x * 3).sum().backward()
>>> x.grad
tensor([3., 3.]))";

inline constexpr char kAsSubclass[] = R"(as_subclass($self, cls, /)
--

Return a view of the tensor as an object of `cls`, a subclass of Tensor. Memory and history are shared, so gradients
flow back.

TypeError where `cls` is not a subclass of Tensor.

>>> class Meters(torch.Tensor):
...     pass
>>> x = torch.ones(2)
>>> isinstance(x.as_subclass(Meters), Meters), x.as_subclass(Meters).data_ptr() == x.data_ptr()
(True, True))";

inline constexpr char kTo[] = R"(to($self, *args, dtype=None, device=None, other=None, non_blocking=False, copy=False,
memory_format=None)
--

Return the values in another dtype, on another device, or both; the tensor itself where nothing changes and `copy` is
False.

It can be differentiated: the gradient is converted back.

Args:
    args: by place `to(dtype)`, `to(device)`, `to(device, dtype)` or `to(other)`, and then `non_blocking` and `copy`.
    dtype: the wanted dtype; by default the tensor's own.
    device: the wanted device, a `torch.device`, a string such as "cuda:0", or an index of a CUDA device.
    other: a tensor whose dtype and device are wanted.
    non_blocking: lets a copy between pinned memory and a GPU go on while the program continues.
    copy: makes a new tensor even where nothing changes.
    memory_format: the order of elements of a new tensor; by default that of this one.

Errors: TypeError for other arguments; RuntimeError for an unknown device and AssertionError for a GPU that is not
there; NotImplementedError for leaving "meta", which has no values.

>>> x = torch.tensor([1.5, -2.5])
>>> x.to(torch.int32)
tensor([ 1, -2], dtype=torch.int32)
>>> x.to("cpu") is x, x.to("cpu", copy=True) is x
(True, False))";

inline constexpr char kCpu[] = R"(cpu($self, memory_format=None)
--

Return the tensor on the CPU: itself where it is there already, else a copy, for whose values a GPU is waited for.

`memory_format` is the order of elements of a copy; by default that of this tensor.

>>> x = torch.ones(2)
>>> x.cpu() is x
True)";

inline constexpr char kCuda[] = R"(cuda($self, device=None, non_blocking=False, memory_format=None)
--

Return the tensor on a CUDA device: itself where it is there already, else a copy.

Args:
    device: the device or its index; by default the current one.
    non_blocking: lets a copy from pinned memory go on while the program continues.
    memory_format: the order of elements of a copy; by default that of this tensor.

Errors: AssertionError without a GPU, RuntimeError for a device that is not a CUDA device.

>>> x = torch.ones(2)
>>> x.cuda().is_cuda if torch.cuda.is_available() else True
True)";

inline constexpr char kTypeAs[] = R"(type_as($self, other, /)
--

Return the values in the dtype and on the device of the tensor `other`; the tensor itself where both are the same
already.

>>> torch.tensor([1.9, 2.1]).type_as(torch.tensor([0]))
tensor([1, 2]))";

inline constexpr char kIsSetTo[] = R"(is_set_to($self, tensor, /)
--

Return whether this tensor and `tensor` show the same elements of the same storage in the same order: equal first
addresses, sizes and strides.

>>> x = torch.zeros(4)
>>> x.is_set_to(x.view(4)), x.is_set_to(x.clone())
(True, False))";

inline constexpr char kIsSameSize[] = R"(is_same_size($self, other, /)
--

Return whether the shape is that of the tensor `other`.

>>> torch.zeros(2, 3).is_same_size(torch.ones(2, 3, dtype=torch.int64))
True)";

inline constexpr char kSet[] = R"(set_($self, source=None, storage_offset=0, size=None, stride=None)
--

Exchange the storage and the geometry of the tensor in place; return the tensor. Nothing is copied.

Args:
    source: a tensor (without `size` its geometry is taken, too) or a storage; None gives an empty storage of no
        elements.
    storage_offset: where the first element lies in the storage, in elements.
    size: the new sizes; by default one dimension over all that is left of the storage.
    stride: the new steps in elements; by default those of contiguous memory.

Errors: RuntimeError for a source of another dtype, for what does not fit in the storage, and for a leaf that requires
grad.

>>> x, y = torch.zeros(2), torch.arange(6.0)
>>> x.set_(y.untyped_storage(), 1, (2, 2), (2, 1))
tensor([[1., 2.],
        [3., 4.]])
>>> x.data_ptr() - y.data_ptr()
4)";

inline constexpr char kUntypedStorage[] = R"(untyped_storage($self, /)
--

Return the bytes behind the tensor as an `UntypedStorage`, which views of the tensor share. RuntimeError for sparse
tensors.

>>> x = torch.zeros(4)
>>> x.untyped_storage().nbytes(), x[2:].untyped_storage() == x.untyped_storage()
(16, True))";

inline constexpr char kIsShared[] = R"(is_shared($self, /)
--

Return whether the memory is shared with other processes, as `share_memory_` makes it.

>>> torch.zeros(2).is_shared()
False)";

inline constexpr char kShareMemory[] = R"(share_memory_($self, /)
--

Move the elements into memory that other processes can map, and return the tensor. What is there already stays.

A tensor that goes to another process by `torch.multiprocessing` is then not copied: writes are seen by both.
RuntimeError where other tensors hold the same memory, which could not follow, and for a GPU's memory.

>>> x = torch.zeros(2).share_memory_()
>>> x.is_shared()
True)";

inline constexpr char kNumpy[] = R"(numpy($self, /, *, force=False)
--

Return the elements as a NumPy array on the same memory, so that each sees what is written to the other.

Args:
    force: makes a copy where the memory cannot be shared: without history, on the CPU, conjugated.

Errors, without `force`: RuntimeError for one that requires grad (outside of no_grad) or is conjugated lazily; TypeError
for one that is not on the CPU, and for dtypes that NumPy has not (bfloat16).

>>> x = torch.zeros(2)
>>> array = x.numpy()
>>> array[0] = 3
>>> x
tensor([3., 0.])
>>> torch.ones(1, requires_grad=True).numpy(force=True)
array([1.], dtype=float32))";

inline constexpr char kTolist[] = R"(tolist($self, /)
--

Return the elements as nested lists of Python numbers; of a scalar the number alone. RuntimeError for meta tensors,
which have no values.

>>> torch.tensor([[1, 2], [3, 4]]).tolist()
[[1, 2], [3, 4]]
>>> torch.tensor(2.5).tolist()
2.5)";

inline constexpr char kBackward[] =
    R"(backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)
--

Add the gradient of this tensor with respect to the leaves that it was computed from to their `.grad`.

``leaf.grad += J.T @ gradient``, where ``J`` holds the derivatives of this tensor's elements by those of the leaf.

Args:
    gradient: the gradient of what is minimized with respect to this tensor, of its shape; 1 by default, for scalars
        only.
    retain_graph: keeps what was saved for the pass, so that another may follow; by default the value of `create_graph`.
    create_graph: records the pass itself, for derivatives of higher order.
    inputs: a tensor or tensors that alone get their gradients; by default all leaves.

Errors: RuntimeError for a tensor without history, for one of several elements without `gradient`, and for a second pass
over a graph that was not retained.

>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> (x ** 2).sum().backward()
>>> x.grad
tensor([2., 4.])
>>> (x * 3).backward(gradient=torch.tensor([1.0, 10.0]))  # is added
>>> x.grad
tensor([ 5., 34.]))";

inline constexpr char kRetainGrad[] = R"(retain_grad($self, /)
--

Make backward fill `.grad` of this result of an op, which otherwise only leaves get. Of a leaf it changes nothing.

RuntimeError where the tensor does not require grad.

>>> x = torch.tensor(3.0, requires_grad=True)
>>> y = x * 2
>>> y.retain_grad()
>>> (y ** 2).backward()
>>> y.grad
tensor(12.))";

inline constexpr char kDetach[] = R"(detach($self, /)
--

Return the same values without history: nothing that is computed from the result reaches what this tensor was computed
from.

Memory is shared, and so is the count of writes, by which autograd notices a write to what it saved.

>>> x = torch.ones(2, requires_grad=True)
>>> y = (x * 2).detach()
>>> y, y.requires_grad
(tensor([2., 2.]), False))";

inline constexpr char kDetachInPlace[] = R"(detach_($self, /)
--

Remove the tensor's own history in place, so that it becomes a leaf that does not require grad; return it.

RuntimeError for a view, which `detach` can take from its base.

>>> y = torch.ones(2, requires_grad=True) * 2
>>> y.detach_().is_leaf
True)";

inline constexpr char kFloat[] = R"(float($self, memory_format=None)
--

Return the values as float32, floating-point numbers of 24 significant bits; the tensor itself where it is of that dtype
already.

`memory_format` is the order of elements of a new tensor; by default that of this one. It can be differentiated.

>>> torch.tensor([1, 2]).float()
tensor([1., 2.]))";

inline constexpr char kDouble[] = R"(double($self, memory_format=None)
--

Return the values as float64, floating-point numbers of 53 significant bits; the tensor itself where it is of that dtype
already.

`memory_format` is the order of elements of a new tensor; by default that of this one. It can be differentiated.

>>> torch.tensor([1, 2]).double()
tensor([1., 2.], dtype=torch.float64))";

inline constexpr char kHalf[] = R"(half($self, memory_format=None)
--

Return the values as float16, floating-point numbers of 11 significant bits up to 65504; the tensor itself where it is
of that dtype already.

Values beyond become infinite. `memory_format` is the order of elements of a new tensor; by default that of this one. It
can be differentiated.

>>> torch.tensor([0.1, 1e6]).half()
tensor([0.1000,    inf], dtype=torch.float16))";

inline constexpr char kBfloat16[] = R"(bfloat16($self, memory_format=None)
--

Return the values as bfloat16, floating-point numbers of 8 significant bits with the range of float32; the tensor itself
where it is of that dtype already.

`memory_format` is the order of elements of a new tensor; by default that of this one. It can be differentiated.

>>> torch.tensor([1.0, 257.0]).bfloat16()
tensor([  1., 256.], dtype=torch.bfloat16))";

inline constexpr char kInt[] = R"(int($self, memory_format=None)
--

Return the values as int32, integers of 32 bits; the tensor itself where it is of that dtype already.

Fractions are cut off towards zero; of complex numbers the real part is taken. `memory_format` is the order of elements
of a new tensor; by default that of this one.

>>> torch.tensor([1.9, -1.9]).int()
tensor([ 1, -1], dtype=torch.int32))";

inline constexpr char kLong[] = R"(long($self, memory_format=None)
--

Return the values as int64, integers of 64 bits; the tensor itself where it is of that dtype already.

Fractions are cut off towards zero; of complex numbers the real part is taken. `memory_format` is the order of elements
of a new tensor; by default that of this one.

>>> torch.tensor([1.9, -1.9]).long()
tensor([ 1, -1]))";

inline constexpr char kShort[] = R"(short($self, memory_format=None)
--

Return the values as int16, integers of 16 bits; the tensor itself where it is of that dtype already.

Fractions are cut off towards zero; of complex numbers the real part is taken. `memory_format` is the order of elements
of a new tensor; by default that of this one.

>>> torch.tensor([1.9, -1.9]).short()
tensor([ 1, -1], dtype=torch.int16))";

inline constexpr char kChar[] = R"(char($self, memory_format=None)
--

Return the values as int8, integers from -128 to 127; the tensor itself where it is of that dtype already.

Fractions are cut off towards zero; of complex numbers the real part is taken. Integers outside wrap around.
`memory_format` is the order of elements of a new tensor; by default that of this one.

>>> torch.tensor([1, 130]).char()
tensor([   1, -126], dtype=torch.int8))";

inline constexpr char kByte[] = R"(byte($self, memory_format=None)
--

Return the values as uint8, integers from 0 to 255; the tensor itself where it is of that dtype already.

Fractions are cut off towards zero; of complex numbers the real part is taken. Integers outside wrap around.
`memory_format` is the order of elements of a new tensor; by default that of this one.

>>> torch.tensor([1, 257]).byte()
tensor([1, 1], dtype=torch.uint8))";

inline constexpr char kBool[] = R"(bool($self, memory_format=None)
--

Return the values as bool: True where an element is not zero; the tensor itself where it is of that dtype already.

`memory_format` is the order of elements of a new tensor; by default that of this one.

>>> torch.tensor([0.0, 0.5, -2.0]).bool()
tensor([False,  True,  True]))";

inline constexpr char kCfloat[] = R"(cfloat($self, memory_format=None)
--

Return the values as complex64, complex numbers of two float32; the tensor itself where it is of that dtype already.

Imaginary parts of real numbers are zero. `memory_format` is the order of elements of a new tensor; by default that of
this one. It can be differentiated.

>>> torch.tensor([1.0, 2.0]).cfloat()
tensor([1.+0.j, 2.+0.j]))";

inline constexpr char kCdouble[] = R"(cdouble($self, memory_format=None)
--

Return the values as complex128, complex numbers of two float64; the tensor itself where it is of that dtype already.

Imaginary parts of real numbers are zero. `memory_format` is the order of elements of a new tensor; by default that of
this one. It can be differentiated.

>>> torch.tensor([1.0, 2.0]).cdouble()
tensor([1.+0.j, 2.+0.j], dtype=torch.complex128))";

inline constexpr char kChalf[] = R"(chalf($self, memory_format=None)
--

Return the values as complex32, complex numbers of two float16; the tensor itself where it is of that dtype already.

Imaginary parts of real numbers are zero. `memory_format` is the order of elements of a new tensor; by default that of
this one. It can be differentiated.

>>> torch.tensor([1.0, 2.0]).chalf()
tensor([1.+0.j, 2.+0.j], dtype=torch.complex32))";

}  // namespace facula::python::docs::tensor
