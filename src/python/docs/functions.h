// What help() says of functions that are not ops.
#pragma once

namespace facula::python::docs::functions {

inline constexpr char kTensor[] = R"(tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)
--

Return a new tensor with a copy of the data, a leaf without history.

Args:
    data: a number, nested sequences of numbers of one shape, a NumPy array, what has `__array__` or
        `__cuda_array_interface__`, or a tensor.
    dtype: by default that of an array or tensor; of numbers bool, int64, the default dtype for floats
        (`set_default_dtype`), or its complex one.
    device: by default that of a tensor, else the default device, which is the CPU.
    requires_grad: whether to record what is computed from it.
    pin_memory: puts it in page-locked memory of the CPU, for quick copies to a GPU.

Errors: ValueError for sequences of different lengths; TypeError for what is no number; RuntimeError where integers
would require grad.

>>> torch.tensor([[1, 2], [3, 4]])
tensor([[1, 2],
        [3, 4]])
>>> torch.tensor([1, 2], dtype=torch.float64, requires_grad=True)
tensor([1., 2.], dtype=torch.float64, requires_grad=True))";

inline constexpr char kAsTensor[] = R"(as_tensor(data, dtype=None, device=None)
--

Return the data as a tensor: a tensor of the right dtype and device itself, the memory of a NumPy array, else a copy.

In contrast to `tensor`, it keeps the history of a tensor, and shares memory where it can.

Args:
    data: a number, nested sequences, a NumPy array, what has `__array__` or `__cuda_array_interface__`, or a tensor.
    dtype: the wanted dtype; by default that of the data.
    device: the wanted device; by default that of a tensor, else the CPU.

>>> import numpy
>>> array = numpy.zeros(2)
>>> t = torch.as_tensor(array)
>>> t[0] = 5
>>> array
array([5., 0.])
>>> torch.as_tensor(t) is t
True)";

inline constexpr char kFromNumpy[] = R"(from_numpy(array, /)
--

Return a tensor on the memory of a NumPy array, so that each sees what is written to the other.

Writing to the tensor of a read-only array raises RuntimeError, of which a warning says so once. TypeError for what is
not an array and for elements such as strings, for which there is no dtype.

>>> import numpy
>>> array = numpy.arange(3)
>>> torch.from_numpy(array)
tensor([0, 1, 2])
>>> _ = torch.from_numpy(array).add_(1)
>>> array
array([1, 2, 3]))";

inline constexpr char kToDlpack[] = R"(to_dlpack(tensor, /)
--

Return the memory of `tensor` as a DLPack capsule of the unversioned form, for libraries that take no object with
`__dlpack__`.

A capsule is used once, for example by `torch.utils.dlpack.from_dlpack`. BufferError for a tensor that requires grad.

>>> x = torch.arange(3)
>>> y = torch.utils.dlpack.from_dlpack(torch.to_dlpack(x))
>>> y.data_ptr() == x.data_ptr()
True)";

inline constexpr char kPromoteTypes[] = R"(promote_types(type1, type2)
--

Return the smallest dtype that both dtypes, `type1` and `type2`, convert to: what ops on tensors of these dtypes compute
in.

The category decides first (bool, integer, floating-point, complex), then the size. TypeError for what is not a dtype.

>>> torch.promote_types(torch.int64, torch.float16), torch.promote_types(torch.uint8, torch.int8)
(torch.float16, torch.int16))";

inline constexpr char kCanCast[] = R"(can_cast(from_, to)
--

Return whether results of the dtype `from_` may be written into a tensor of the dtype `to`: not from complex to real,
from floating-point to integers, or from anything else to bool.

>>> torch.can_cast(torch.float64, torch.float32), torch.can_cast(torch.float32, torch.int64)
(True, False))";

inline constexpr char kResultType[] = R"(result_type(tensor, other)
--

Return the dtype that an arithmetic op on two operands gives, each a tensor or a number.

A scalar tensor, and a number even more, decides only where its category is higher. TypeError for other operands.

>>> torch.result_type(torch.tensor([1, 2]), 1.5), torch.result_type(torch.zeros(2, dtype=torch.float16), 3)
(torch.float32, torch.float16))";

inline constexpr char kSetFlushDenormal[] = R"(set_flush_denormal(mode, /)
--

Make the processor treat subnormal numbers (nearer to zero than the smallest normal one) as zero in this thread, where
`mode` is True, which is quicker on some processors; return whether it can.

>>> torch.set_flush_denormal(True)
True
>>> torch.tensor(1e-40) * 1
tensor(0.)
>>> torch.set_flush_denormal(False)
True)";

inline constexpr char kGetDefaultDtype[] = R"(get_default_dtype()
--

Return the dtype of tensors made from Python floats, and of factory functions without `dtype`: float32 until
`set_default_dtype`.

>>> torch.get_default_dtype()
torch.float32)";

inline constexpr char kSetDefaultDtype[] = R"(set_default_dtype(d, /)
--

Set the dtype of tensors made from Python floats, and of factory functions without `dtype`, to `d`.

TypeError for what is not a floating-point dtype, and for those of 8 bits.

>>> torch.set_default_dtype(torch.float64)
>>> torch.tensor(1.5).dtype, torch.tensor(1.5j).dtype
(torch.float64, torch.complex128)
>>> torch.set_default_dtype(torch.float32))";

inline constexpr char kGetNumThreads[] = R"(get_num_threads()
--

Return how many threads one op on the CPU may use; by default one for each processor that this process may run on.

>>> torch.get_num_threads() >= 1
True)";

inline constexpr char kSetNumThreads[] = R"(set_num_threads(count, /)
--

Set how many threads one op on the CPU may use, for the whole process. RuntimeError for a `count` that is not from 1 to
65535.

>>> before = torch.get_num_threads()
>>> torch.set_num_threads(1)
>>> torch.get_num_threads()
1
>>> torch.set_num_threads(before))";

inline constexpr char kIsGradEnabled[] = R"(is_grad_enabled()
--

Return whether ops of this thread on tensors that require grad are recorded; False within `no_grad` and
`inference_mode`.

>>> with torch.no_grad():
...     torch.is_grad_enabled()
False)";

inline constexpr char kIsInferenceModeEnabled[] = R"(is_inference_mode_enabled()
--

Return whether this thread is within `inference_mode`, where new tensors never take part in autograd.

>>> with torch.inference_mode():
...     torch.is_inference_mode_enabled()
True)";

inline constexpr char kIsAnomalyEnabled[] = R"(is_anomaly_enabled()
--

Return whether anomaly mode is on in this thread: backward passes then name the op in the forward pass whose
derivative failed.

>>> with torch.autograd.set_detect_anomaly(True, check_nan=False):
...     torch.is_anomaly_enabled()
True)";

inline constexpr char kIsAnomalyCheckNanEnabled[] = R"(is_anomaly_check_nan_enabled()
--

Return whether anomaly mode, where it is on, raises an error for a derivative with a NaN; True by default.

>>> with torch.autograd.set_detect_anomaly(True, check_nan=False):
...     torch.is_anomaly_check_nan_enabled()
False)";

inline constexpr char kIsAutocastCacheEnabled[] = R"(is_autocast_cache_enabled()
--

Return whether regions of `autocast` in this thread keep the casts of weights, so that a weight that is used twice is
cast once; True by default.

>>> torch.is_autocast_cache_enabled()
True)";

inline constexpr char kSetAutocastCacheEnabled[] = R"(set_autocast_cache_enabled(enabled, /)
--

Set to `enabled` whether regions of `autocast` in this thread keep the casts of weights. The argument `cache_enabled` of
`autocast` does the same for one region.

>>> torch.set_autocast_cache_enabled(False)
>>> torch.is_autocast_cache_enabled()
False
>>> torch.set_autocast_cache_enabled(True))";

inline constexpr char kAutocastIncrementNesting[] = R"(autocast_increment_nesting()
--

Count that this thread enters a region of `autocast`, and return how many it is in; for what is not written as a `with`
block.

>>> torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
(1, 0))";

inline constexpr char kAutocastDecrementNesting[] = R"(autocast_decrement_nesting()
--

Count that this thread leaves a region of `autocast`, and return how many it is still in. At 0 cached casts may be let
go of (`clear_autocast_cache`).

>>> torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
(1, 0))";

inline constexpr char kClearAutocastCache[] = R"(clear_autocast_cache()
--

Let go of the casts of weights that regions of `autocast` keep, e.g. where weights were changed within a region.

>>> w, x = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
>>> with torch.autocast("cpu"):
...     y = x @ w
...     torch.clear_autocast_cache()
>>> y.dtype
torch.bfloat16)";

}  // namespace facula::python::docs::functions
