// What help() says of the types beside Tensor.
#pragma once

namespace facula::python::docs::types {

inline constexpr char kGenerator[] = R"(Generator(device="cpu")
--

A stream of pseudo-random numbers on one device, for the argument `generator` of random ops.

The same seed gives the same numbers, on the CPU those of PyTorch: a Mersenne Twister there, counter-based Philox on a
GPU.

Args:
    device: where it makes numbers; "cpu" by default. Ops on another device do not take it.

>>> g = torch.Generator().manual_seed(0)
>>> a = torch.rand(2, generator=g)
>>> state = g.get_state()
>>> b = torch.rand(2, generator=g)
>>> torch.equal(torch.rand(2, generator=g.set_state(state)), b), torch.equal(a, b)
(True, False)
>>> g.device, g.initial_seed()
(device(type='cpu'), 0))";

inline constexpr char kManualSeed[] = R"(manual_seed($self, seed, /)
--

Restart the stream from `seed`, an int from -2**63 to 2**64 - 1 (negative ones wrap around); return the generator.

ValueError for a seed outside.

>>> torch.Generator().manual_seed(5).initial_seed()
5)";

inline constexpr char kSeed[] = R"(seed($self, /)
--

Restart the stream from a seed of the system's entropy, and return that seed.

>>> g = torch.Generator()
>>> g.seed() == g.initial_seed()
True)";

inline constexpr char kInitialSeed[] = R"(initial_seed($self, /)
--

Return the seed of the last restart; 67280421310721 for a new generator.

>>> torch.Generator().initial_seed()
67280421310721)";

inline constexpr char kGetState[] = R"(get_state($self, /)
--

Return the state as a uint8 tensor of the CPU, which `set_state` continues from; that of a CPU generator has 5,056
elements.

>>> torch.Generator().get_state().shape
torch.Size([5056]))";

inline constexpr char kSetState[] = R"(set_state($self, state, /)
--

Continue from a state that `get_state` of a generator of the same kind of device gave; return the generator.

TypeError for what is not a uint8 tensor of the CPU, RuntimeError for a state of another size.

>>> g = torch.Generator()
>>> state = g.get_state()
>>> torch.equal(torch.rand(3, generator=g), torch.rand(3, generator=g.set_state(state)))
True)";

inline constexpr char kCloneState[] = R"(clone_state($self, /)
--

Return another generator in the same state, which goes on independently.

>>> g = torch.Generator()
>>> torch.equal(torch.rand(3, generator=g.clone_state()), torch.rand(3, generator=g))
True)";

inline constexpr char kGetOffset[] = R"(get_offset($self, /)
--

Return how many random numbers the stream of a CUDA generator has set aside since its seed; RuntimeError for a CPU
generator.

>>> torch.Generator("cuda").get_offset() if torch.cuda.is_available() else 0
0)";

inline constexpr char kSetOffset[] = R"(set_offset($self, n, /)
--

Make a CUDA generator go on behind the first `n` numbers of its stream, a multiple of 4; return the generator.

RuntimeError for a CPU generator, TypeError for what is not a whole number from 0 on.

>>> torch.Generator("cuda").set_offset(8).get_offset() if torch.cuda.is_available() else 8
8)";

inline constexpr char kGraphsafeGetState[] = R"(graphsafe_get_state($self, /)
--

Return a CUDA generator that shares the state of this one and goes on with it, so that captured graphs may use either.

NotImplementedError for a CPU generator.

>>> torch.Generator("cuda").graphsafe_get_state().get_offset() if torch.cuda.is_available() else 0
0)";

inline constexpr char kGraphsafeSetState[] = R"(graphsafe_set_state($self, generator, /)
--

Make a CUDA generator share the state of `generator`, which `graphsafe_get_state` or `clone_state` gave; return this
one.

NotImplementedError for a CPU generator, TypeError for what is not a generator.

>>> if torch.cuda.is_available():
...     a, b = torch.Generator("cuda"), torch.Generator("cuda")
...     _ = a.graphsafe_set_state(b.graphsafe_get_state()))";

inline constexpr char kDtype[] =
    R"(The type of a tensor's elements: `torch.float32`, `torch.int64`, `torch.bool` and so on, each one object.

Its properties give the bytes per element (`itemsize`) and what numbers it holds. It cannot be made by calling the
class; Python's `float`, `int`, `bool` and `complex` are taken for `torch.float64`, `torch.int64`, `torch.bool` and
`torch.complex128`.

>>> torch.float32.itemsize, torch.float32.is_floating_point, torch.uint8.is_signed
(4, True, False)
>>> torch.zeros(2, dtype=float).dtype
torch.float64)";

inline constexpr char kToReal[] = R"(to_real($self, /)
--

Return the dtype of the real part of complex numbers: float32 of complex64; other dtypes are their own.

>>> torch.complex128.to_real(), torch.float16.to_real()
(torch.float64, torch.float16))";

inline constexpr char kToComplex[] = R"(to_complex($self, /)
--

Return the complex dtype with parts of this precision: complex64 of float32. RuntimeError for integers and bool.

>>> torch.float64.to_complex()
torch.complex128)";

inline constexpr char kDevice[] = R"(device(type, index=None)
--

Where a tensor's elements are: a type of device and, where there are several, which one.

In a `with` statement it is the device of what factory functions make without naming one.

Args:
    type: "cpu", "cuda" or "meta" (sizes without elements), also with the index, "cuda:1"; an int names a CUDA device;
        or a device.
    index: which device of the type; None is the current one.

Errors: RuntimeError for an unknown type, a negative index and an index that is given twice; TypeError for other
arguments.

>>> torch.device("cuda", 1)
device(type='cuda', index=1)
>>> str(torch.device("cuda:1")), torch.device("cpu").index
('cuda:1', None)
>>> with torch.device("meta"):
...     torch.empty(2).device
device(type='meta'))";

inline constexpr char kLayout[] =
    R"(How a tensor's elements are arranged: `torch.strided` (dense, with steps) or a sparse one, `torch.sparse_coo`,
`torch.sparse_csr`, `torch.sparse_csc`, `torch.sparse_bsr` and `torch.sparse_bsc`.

>>> torch.zeros(2).layout, torch.eye(2).to_sparse().layout
(torch.strided, torch.sparse_coo))";

inline constexpr char kMemoryFormat[] = R"(The order of a dense tensor's dimensions in memory.

`torch.contiguous_format` (the last moves fastest), `torch.channels_last` and `torch.channels_last_3d` (dimension 1 of 4
or 5 moves fastest) are what a result shall have, `torch.preserve_format` is the order of the input.

>>> x = torch.zeros(1, 3, 2, 2).contiguous(memory_format=torch.channels_last)
>>> x.stride()
(12, 1, 6, 3))";

inline constexpr char kSize[] = R"(Size(iterable=(), /)
--

The sizes of a tensor: a tuple of integers. Slices, sums and repetitions of it are of this class again.

`iterable` gives the sizes; TypeError for what is not an integer.

>>> s = torch.zeros(2, 3).shape
>>> s, s == (2, 3), s.numel()
(torch.Size([2, 3]), True, 6)
>>> s[1:] + (4,)
torch.Size([3, 4]))";

inline constexpr char kNumel[] = R"(numel($self, /)
--

Return the product of the sizes, 1 where there are none.

>>> torch.Size([2, 3]).numel()
6)";

inline constexpr char kNode[] =
    R"(A node of the graph that backward passes follow: the derivative of one recorded op, or the accumulator of a leaf.

It is what `grad_fn` of a tensor gives; `next_functions` leads to the nodes that get its results. Hooks see and may
replace gradients: `register_prehook` those that come in, `register_hook` those that go out.

>>> x = torch.ones(2, requires_grad=True)
>>> node = (x * 2).grad_fn
>>> node.name(), [(n.name(), slot) for n, slot in node.next_functions if n]
('MulBackward0', [('AccumulateGrad', 0)]))";

inline constexpr char kName[] = R"(name($self, /)
--

Return the name of the derivative, that of PyTorch's where it has the op.

>>> x = torch.ones(2, requires_grad=True)
>>> x.exp().grad_fn.name()
'ExpBackward0')";

inline constexpr char kTensor[] =
    R"(An n-dimensional array of elements of one dtype on one device, from whose use autograd derives gradients.

Tensors are made by `torch.tensor`, factory functions such as `torch.zeros`, and ops; `torch.Tensor(*sizes)` leaves
elements unset, `torch.Tensor(sequence)` copies it, both in the default dtype. Operators and indices work as NumPy's,
broadcasting included. Views share memory with what they were taken from.

>>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> y = (x[:, 1] * 10).sum()
>>> y.item(), x.shape, x.dtype, x.device
(60.0, torch.Size([2, 2]), torch.float32, device(type='cpu'))
>>> y.backward()
>>> x.grad
tensor([[ 0., 10.],
        [ 0., 10.]]))";

}  // namespace facula::python::docs::types
