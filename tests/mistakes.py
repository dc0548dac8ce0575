"""Common mistakes as programs, and what the error says. `test_error_texts` runs each; `docs/errors.md` shows some of them.

Long because each text stands whole, to be read as somebody reads it who meets it. "..." in a text stands for anything.
"""

from __future__ import annotations

import copy  # noqa: F401  (programs use them)
import faulthandler
import io  # noqa: F401
import multiprocessing.connection  # noqa: F401  (not while a loader is being deleted)
import os
import re
import signal
import time
import warnings

import facula as torch
from facula import nn
from facula.utils.data import DataLoader  # noqa: F401

F = nn.functional


class Failing:
    """A data set whose samples raise."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return 1 // 0


class Killed(Failing):
    def __getitem__(self, i):
        os.kill(os.getpid(), signal.SIGKILL)


class Exits(Failing):
    def __getitem__(self, i):
        os._exit(3)


class Bus(Failing):
    def __getitem__(self, i):
        faulthandler.disable()  # pytest's would print the stacks of a death that is meant
        os.kill(os.getpid(), signal.SIGBUS)


class Slow(Failing):
    def __getitem__(self, i):
        time.sleep(5)


def what_it_says(program: str) -> tuple[str, str]:
    """Return the class and the text of the error that a program raises."""
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([float("nan"), 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(program, {**globals(), "p": parameter})
        except Exception as error:
            return type(error).__name__, str(error)
    return "", "no error"


def fits(found: str, text: str) -> bool:
    """Return whether a text is the one that is stated, where "..." stands for anything."""
    return re.fullmatch(re.escape(text).replace(r"\.\.\.", r"[\s\S]*"), found) is not None


#: (topic, program, class of the error, text)
MISTAKES = [
    (
        "shape",
        "torch.randn(3, 4) @ torch.randn(5, 6)",
        "RuntimeError",
        "mm: the shapes cannot be multiplied, since the first has 4 columns and the second 5 rows, got (3, 4) and (5, 6)",
    ),
    (
        "shape",
        "torch.ones(2, 3).matmul(torch.ones(4))",
        "RuntimeError",
        "matmul: the shapes cannot be multiplied, since the rows of the first have 3 elements and the columns of the "
        "second 4, got (2, 3) and (4,)",
    ),
    (
        "shape",
        "torch.bmm(torch.ones(2, 3, 4), torch.ones(3, 4, 5))",
        "RuntimeError",
        "bmm: the shapes cannot be multiplied, since there are 2 and 3 matrices, got (2, 3, 4) and (3, 4, 5)",
    ),
    (
        "shape",
        "torch.ones(2, 3, 4) @ torch.ones(5, 4, 6)",
        "RuntimeError",
        "matmul of batches: shapes must broadcast (equal sizes or 1, counted from the last dimension), got (2,) and (5,)",
    ),
    (
        "shape",
        "nn.Linear(10, 5)(torch.randn(3, 4))",
        "RuntimeError",
        "linear: input and weight shapes cannot be multiplied, since the last dimension of the input must have 10 elements "
        "(in_features), got shapes (3, 4) and (5, 10)",
    ),
    (
        "shape",
        "torch.randn(3, 4) + torch.randn(3, 5)",
        "RuntimeError",
        "add: shapes must broadcast (equal sizes or 1, counted from the last dimension), got (3, 4) and (3, 5)",
    ),
    (
        "shape",
        "torch.ones(3).add_(torch.ones(2, 3))",
        "RuntimeError",
        "add_: the result must fit in place into shape (3,), got (2, 3)",
    ),
    (
        "shape",
        "torch.cat([torch.randn(3, 4), torch.randn(3, 5)])",
        "RuntimeError",
        "cat: sizes of tensors must match but for dimension 0, got (3, 4) and, as tensor 1, (3, 5)",
    ),
    (
        "shape",
        "torch.stack([torch.randn(3), torch.randn(4)])",
        "RuntimeError",
        "stack: the tensors must have equal shapes, got (3,) and, as tensor 1, (4,)",
    ),
    (
        "shape",
        "nn.Conv2d(3, 8, 3)(torch.randn(1, 4, 8, 8))",
        "RuntimeError",
        "conv2d: with groups=1 and a weight of shape (8, 3, 3, 3), input must have 3 channels, got 4 in shape (1, 4, 8, 8)",
    ),
    (
        "shape",
        "nn.Conv2d(3, 8, 3)(torch.randn(8, 8))",
        "RuntimeError",
        "conv2d: input must have 4 dimensions, or 3 without batch, got shape (8, 8)",
    ),
    (
        "shape",
        "nn.Conv2d(3, 8, 9)(torch.randn(1, 3, 4, 4))",
        "RuntimeError",
        "conv2d: the kernel must not be larger than the padded input: input of shape (1, 3, 4, 4), padding=(0, 0), "
        "dilation=(1, 1), got a weight of shape (8, 3, 9, 9)",
    ),
    (
        "shape",
        "torch.randn(3, 4).reshape(5, 3)",
        "RuntimeError",
        "reshape: shape '[5, 3]' is invalid for input of size 12",
    ),
    (
        "shape",
        "torch.randn(3, 4).t().view(12)",
        "RuntimeError",
        "view: the elements are not in an order that allows this shape without a copy (use reshape), got shape (4, 3) with "
        "strides (1, 4) viewed as (12,)",
    ),
    (
        "shape",
        "torch.randn(3, 4).view(-1, 5)",
        "RuntimeError",
        "view: shape '[-1, 5]' is invalid for input of size 12",
    ),
    (
        "shape",
        "nn.BatchNorm2d(8)(torch.randn(2, 4, 5, 5))",
        "RuntimeError",
        "batch_norm: running_mean must have one element for each of the 4 channels of the input, got shape (8,)",
    ),
    (
        "shape",
        "nn.LayerNorm(8)(torch.randn(2, 4))",
        "RuntimeError",
        "layer_norm: expected an input whose last sizes are normalized_shape = (8,), got shape (2, 4)",
    ),
    (
        "shape",
        "nn.LSTM(8, 4)(torch.randn(5, 2, 6))",
        "RuntimeError",
        "LSTM: the input must have 8 features, got 6",
    ),
    (
        "shape",
        "nn.MultiheadAttention(8, 2)(torch.ones(3, 1, 6), torch.ones(3, 1, 6), torch.ones(3, 1, 6))",
        "AssertionError",
        "multi_head_attention_forward: the embedding size must be 8, got 6",
    ),
    (
        "shape",
        "torch.ones(3, 4)[:, torch.tensor([True, False])]",
        "IndexError",
        "index: a mask must be as long as each dimension that it indexes, got a mask of shape (2,) for shape (3, 4) at "
        "dimension 1",
    ),
    (
        "shape",
        "x = torch.ones(3, 4); x[0] = torch.ones(3)",
        "RuntimeError",
        "copy_: the source must broadcast to shape (4,), got (3,)",
    ),
    (
        "shape",
        "torch.einsum('ij,jk->ik', torch.ones(2, 3), torch.ones(4, 5))",
        "RuntimeError",
        "einsum: a subscript must have one size in all operands of 'ij,jk->ik', got 3 and 4 for 'j'",
    ),
    (
        "shape",
        "torch.zeros(3).expand(2, 4)",
        "RuntimeError",
        "expand: The expanded size of the tensor (4) must match the existing size (3) at dimension 1, got (2, 4)",
    ),
    (
        "shape",
        "torch.ones(2, 3).permute(0, 2)",
        "IndexError",
        "permute: dimension out of range, expected -2 to 1, got 2",
    ),
    (
        "shape",
        "torch.ones(2, 3).sum(5)",
        "IndexError",
        "sum: dimension out of range, expected -2 to 1, got 5",
    ),
    (
        "shape",
        "torch.tensor([[1, 2], [3]])",
        "ValueError",
        "tensor: expected sequence of length 2 at dim 1, got 1",
    ),
    (
        "shape",
        "F.mse_loss(torch.ones(3), torch.ones(4))",
        "RuntimeError",
        "mse_loss: input and target must have one shape, or shapes that broadcast, got (3,) and (4,)",
    ),
    (
        "dtype",
        "torch.randn(3, 4) @ torch.ones(4, 3).double()",
        "RuntimeError",
        "mm: both factors must have the same dtype (to(dtype) converts one), got float32 and float64",
    ),
    (
        "dtype",
        "nn.Linear(4, 4)(torch.ones(2, 4).double())",
        "RuntimeError",
        "linear: input and weight must have the same dtype (to(dtype) converts one), got float64 and float32",
    ),
    (
        "dtype",
        "nn.Linear(4, 4)(torch.ones(2, 4, dtype=torch.int64))",
        "RuntimeError",
        "linear: input and weight must have the same dtype (to(dtype) converts one), got int64 and float32",
    ),
    (
        "dtype",
        "nn.Conv2d(1, 1, 3)(torch.ones(1, 1, 5, 5).half())",
        "RuntimeError",
        "conv2d: input and weight must have one dtype, got float16 and float32",
    ),
    (
        "dtype",
        "F.cross_entropy(torch.randn(3, 4), torch.tensor([0.0, 1.0, 2.0]))",
        "RuntimeError",
        "cross_entropy: target must hold class numbers of dtype int64 or uint8 (long() converts it), got float32",
    ),
    (
        "dtype",
        "F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1, 2], dtype=torch.int32))",
        "RuntimeError",
        "cross_entropy: target must hold class numbers of dtype int64 or uint8 (long() converts it), got int32",
    ),
    (
        "dtype",
        "nn.Embedding(10, 3)(torch.tensor([1.0]))",
        "RuntimeError",
        "embedding: the index must be int64 or int32, got float32",
    ),
    (
        "dtype",
        "torch.arange(4).mean()",
        "RuntimeError",
        "mean: expected a floating-point or complex tensor (float() converts it), or such a dtype=, got int64",
    ),
    (
        "dtype",
        "torch.ones(3)[torch.tensor([0.5])]",
        "IndexError",
        "index: tensors used as indices must be int32, int64, uint8 or bool, got float32",
    ),
    (
        "dtype",
        "torch.gather(torch.ones(2, 2), 1, torch.ones(2, 2))",
        "RuntimeError",
        "gather: the index must be int64 or int32, got float32",
    ),
    (
        "dtype",
        "x = torch.ones(3, dtype=torch.int64); x += 0.5",
        "RuntimeError",
        "add: the result cannot be written into the tensor, since result type float32 can't be cast to int64",
    ),
    (
        "dtype",
        "F.binary_cross_entropy(torch.rand(4), torch.tensor([0, 1, 1, 0]))",
        "RuntimeError",
        "binary_cross_entropy: expected a target of the input's dtype float32, got int64",
    ),
    (
        "dtype",
        "torch.zeros(2, dtype=torch.uint8).fill_(300)",
        "RuntimeError",
        "fill: the number must have a value in uint8, got 300",
    ),
    (
        "dtype",
        "torch.ones(2, dtype='float32')",
        "TypeError",
        "ones: argument 'dtype' must be a dtype such as torch.float32, not the text 'float32'; the arguments fit no "
        "signature; expected (size: int | Sequence[int], *, dtype: dtype | None = None, layout: layout | None = None, "
        "device: device | None = None, pin_memory: bool | None = False, requires_grad: bool | None = False, out: Tensor | "
        "None = None), got (int, dtype=str)",
    ),
    (
        "device",
        "torch.ones(2, device='cuda')",
        "AssertionError",
        "empty: there is no CUDA device to use: ..., got cuda:0",
    ),
    (
        "device",
        "torch.ones(2).cuda()",
        "AssertionError",
        "to: there is no CUDA device to use: ..., got cuda",
    ),
    (
        "device",
        "nn.Linear(2, 2).to('cuda')",
        "AssertionError",
        "to: there is no CUDA device to use: ..., got cuda:0",
    ),
    (
        "device",
        "torch.ones(2) + torch.ones(2, device='meta')",
        "RuntimeError",
        "add: all tensors must be on the same device (to(device) moves them), got argument 1 on cpu and argument 2 on meta",
    ),
    (
        "device",
        "nn.Linear(4, 4, device='meta')(torch.ones(2, 4))",
        "RuntimeError",
        "linear: all tensors must be on the same device (to(device) moves them), got input on cpu, weight on meta, bias on "
        "meta",
    ),
    (
        "device",
        "F.cross_entropy(torch.ones(2, 3), torch.ones(2, device='meta').long())",
        "RuntimeError",
        "cross_entropy: all tensors must be on the same device (to(device) moves them), got input on cpu, target on meta",
    ),
    (
        "device",
        "torch.ones(2, device='meta').tolist()",
        "RuntimeError",
        "tolist: a meta tensor has no values, got shape (2,)",
    ),
    (
        "device",
        "torch.ones(2, device='cudaa')",
        "RuntimeError",
        "Expected one of cpu, cuda, meta device type at start of device string: cudaa. Did you mean: 'cuda'?",
    ),
    (
        "device",
        "torch.load(io.BytesIO(b'not a checkpoint at all'))",
        "UnpicklingError",
        "load: expected a checkpoint, got text that begins with 'not a checkpoint at all'",
    ),
    (
        "state_dict",
        "nn.Linear(3, 2).load_state_dict({'module.weight': torch.zeros(2, 3), 'module.bias': torch.zeros(2)})",
        "RuntimeError",
        "load_state_dict: the entries do not fit Linear:\n"
        '    Missing key(s) in state_dict: "weight", "bias"\n'
        '    Unexpected key(s) in state_dict: "module.weight", "module.bias"\n'
        "    The entries have the prefix 'module.' before the module's names, as those of a wrapper (DataParallel, "
        "DistributedDataParallel, compile) have. Remove it: load_state_dict({k.removeprefix('module.'): v for k, v in "
        "state_dict.items()})",
    ),
    (
        "state_dict",
        "nn.Sequential(nn.Linear(3, 2)).load_state_dict(nn.Linear(3, 2).state_dict())",
        "RuntimeError",
        "load_state_dict: the entries do not fit Sequential:\n"
        '    Missing key(s) in state_dict: "0.weight", "0.bias"\n'
        '    Unexpected key(s) in state_dict: "weight", "bias"\n'
        "    The module's names have the prefix '0.' before those of the entries, as in a wrapper. Load them into the "
        "module within: model.get_submodule('0').load_state_dict(state_dict)",
    ),
    (
        "state_dict",
        "nn.Linear(3, 2).load_state_dict({'weigh': torch.zeros(2, 3), 'bias': torch.zeros(2)})",
        "RuntimeError",
        "load_state_dict: the entries do not fit Linear:\n"
        '    Missing key(s) in state_dict: "weight"\n'
        '    Unexpected key(s) in state_dict: "weigh"\n'
        "    Did you mean: 'weight' for 'weigh'?",
    ),
    (
        "state_dict",
        "nn.Linear(3, 2).load_state_dict({'weight': torch.zeros(2, 4), 'bias': torch.zeros(2)})",
        "RuntimeError",
        "load_state_dict: the entries do not fit Linear:\n"
        "    size mismatch for weight: the module has (2, 3), got (2, 4)",
    ),
    (
        "state_dict",
        "nn.Linear(3, 2).load_state_dict([1, 2])",
        "TypeError",
        "load_state_dict: expected a mapping of names to tensors, got list",
    ),
    (
        "state_dict",
        "torch.optim.SGD(nn.Linear(3, 2).parameters(), 0.1).load_state_dict(torch.optim.SGD([torch.zeros(1)], "
        "0.1).state_dict())",
        "ValueError",
        "SGD: load_state_dict needs 2 parameters in group 0, got 1",
    ),
    (
        "inplace",
        "x = torch.randn(3, requires_grad=True); y = x.exp(); y.add_(1); y.sum().backward()",
        "RuntimeError",
        "backward of exp (ExpBackward0): needs its output of shape (3,) and dtype float32, which has been modified by an "
        "inplace operation after it was saved: add_ wrote to it in place (version 0 when saved, now 1). Remedy: write y = "
        "op(y) in place of the op that ends in an underscore, or clone() before writing; autograd.set_detect_anomaly(True) "
        "shows the source lines",
    ),
    (
        "inplace",
        "x = torch.randn(3, requires_grad=True); y = x.sigmoid(); y[0] = 0; y.sum().backward()",
        "RuntimeError",
        "backward of sigmoid (SigmoidBackward0): needs its output of shape (3,) and dtype float32, which has been modified "
        "by an inplace operation after it was saved: fill_ wrote to it in place (version 0 when saved, now 1). Remedy: "
        "write y = op(y) in place of the op that ends in an underscore, or clone() before writing; "
        "autograd.set_detect_anomaly(True) shows the source lines",
    ),
    (
        "inplace",
        "x = torch.randn(3, requires_grad=True); x.add_(1)",
        "RuntimeError",
        "add_: a leaf that requires grad is not written in place while gradients are recorded (write under no_grad(), or "
        "work on a copy), got a tensor of shape (3,)",
    ),
    (
        "inplace",
        "x = torch.randn(3, requires_grad=True); x[0] = 1",
        "RuntimeError",
        "fill_: a view of a leaf that requires grad is not written in place while gradients are recorded (write under "
        "no_grad(), or work on a copy), got a tensor of shape ()",
    ),
    (
        "inplace",
        "x = torch.randn(2, 2, requires_grad=True); a, b = x.unbind(); a.add_(1)",
        "RuntimeError",
        "add_: a view of a leaf that requires grad is not written in place while gradients are recorded (write under "
        "no_grad(), or work on a copy), got a tensor of shape (2,)",
    ),
    (
        "inplace",
        "x = torch.randn(2, 2, requires_grad=True) * 1; a, b = x.unbind(); a.add_(1)",
        "RuntimeError",
        "add_: a view made by an op that returns multiple views (unbind, split, chunk), which are not written in place "
        "where gradients are recorded (work on a copy, or index the tensor instead), got a view of shape (2,)",
    ),
    (
        "twice",
        "x = torch.ones(3, requires_grad=True); y = (x * x).sum(); y.backward(); y.backward()",
        "RuntimeError",
        "backward: an earlier pass freed the values that this graph saved, so it cannot go through the graph a second time "
        "(give retain_graph=True to the first pass, or compute the loss anew), got a second pass through MulBackward0",
    ),
    (
        "twice",
        "x = torch.ones(3, requires_grad=True); h = x * x\n"
        "for _ in range(2):\n"
        "    h.sum().backward()",
        "RuntimeError",
        "backward: an earlier pass freed the values that this graph saved, so it cannot go through the graph a second time "
        "(give retain_graph=True to the first pass, or compute the loss anew), got a second pass through MulBackward0",
    ),
    (
        "leaf",
        "torch.ones(3).sum().backward()",
        "RuntimeError",
        "backward: element 0 of tensors does not require grad and has no grad_fn (no input of it requires grad, or it was "
        "computed under no_grad()), got shape () of float32",
    ),
    (
        "leaf",
        "x = torch.ones(3, requires_grad=True); (x * 2).backward()",
        "RuntimeError",
        "backward: only a scalar output starts with a gradient of 1 (give a gradient of the output's shape, or reduce it "
        "first, for example with sum()), got shape (3,)",
    ),
    (
        "leaf",
        "x = torch.ones(3, requires_grad=True); (x * 2).sum().backward(torch.ones(2))",
        "RuntimeError",
        "backward: Mismatch in shape: the gradient of output 0 must have its shape (), got (2,)",
    ),
    (
        "leaf",
        "torch.ones(3, dtype=torch.int64, requires_grad=True)",
        "RuntimeError",
        "requires_grad_: a gradient needs a floating or complex dtype, got int64",
    ),
    (
        "leaf",
        "torch.arange(3).requires_grad_()",
        "RuntimeError",
        "requires_grad_: a gradient needs a floating or complex dtype, got int64",
    ),
    (
        "leaf",
        "x = torch.ones(3, requires_grad=True); (x * 2).requires_grad_(False)",
        "RuntimeError",
        "requires_grad_: only a leaf can stop requiring a gradient (use detach() for the result of an op), got a result of "
        "MulBackward0",
    ),
    (
        "leaf",
        "torch.optim.SGD([torch.ones(3, requires_grad=True) * 2], lr=0.1)",
        "ValueError",
        "SGD: parameters must be leaf tensors, got the result of an operation",
    ),
    (
        "leaf",
        "torch.optim.SGD([], lr=0.1)",
        "ValueError",
        "SGD: params must not be empty, got none",
    ),
    (
        "leaf",
        "torch.optim.SGD(torch.ones(3), lr=0.1)",
        "TypeError",
        "SGD: params is an iterable of Tensors or dicts, got one Tensor",
    ),
    (
        "leaf",
        "x = torch.ones(3, requires_grad=True); torch.autograd.grad(x.sum(), torch.ones(3, requires_grad=True))",
        "RuntimeError",
        "grad: every input must take part in the outputs, got unused input 0 (allow_unused=True gives None for it)",
    ),
    (
        "leaf",
        "torch.ones(3, requires_grad=True).numpy()",
        "RuntimeError",
        "numpy: a tensor that requires grad must go through detach() first, got shape (3,)",
    ),
    (
        "leaf",
        "x = torch.ones(3, requires_grad=True)\n"
        "with torch.no_grad():\n"
        "    y = x.sum()\n"
        "y.backward()",
        "RuntimeError",
        "backward: element 0 of tensors does not require grad and has no grad_fn (no input of it requires grad, or it was "
        "computed under no_grad()), got shape () of float32",
    ),
    (
        "leaf",
        "x = torch.ones(3, requires_grad=True); copy.deepcopy(x * 2)",
        "RuntimeError",
        "deepcopy: only tensors made by the program itself can be copied (use detach() or clone()), got the result of "
        "MulBackward0",
    ),
    (
        "leaf",
        "nn.Linear(2, 2).weight = torch.ones(2, 2)",
        "TypeError",
        "Linear: 'weight' is a parameter and takes a Parameter or None, got Tensor",
    ),
    (
        "index",
        "F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 7, 1]))",
        "IndexError",
        "cross_entropy: class index 7 at target[1] is out of range for 4 classes; ignore_index is -100",
    ),
    (
        "index",
        "F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1]))",
        "ValueError",
        "cross_entropy: expected a target with the input's batch size 3, got shape (2,)",
    ),
    (
        "index",
        "F.cross_entropy(torch.randn(3, 4), torch.ones(3, 1).long())",
        "RuntimeError",
        "cross_entropy: expected a target of shape (3,), got (3, 1)",
    ),
    (
        "index",
        "F.nll_loss(torch.randn(3, 4), torch.tensor([0, -1, 1]))",
        "IndexError",
        "nll_loss: class index -1 at target[1] is out of range for 4 classes; ignore_index is -100",
    ),
    (
        "index",
        "F.binary_cross_entropy(torch.rand(8, 1), torch.rand(8))",
        "ValueError",
        "binary_cross_entropy: target must have the input's shape (8, 1), got (8,)",
    ),
    (
        "index",
        "F.binary_cross_entropy(torch.tensor([1.5]), torch.tensor([1.0]))",
        "RuntimeError",
        "binary_cross_entropy: expected an input between 0 and 1, got 1.5",
    ),
    (
        "index",
        "nn.Embedding(10, 3)(torch.tensor([11]))",
        "IndexError",
        "embedding: index out of range: expected 0 <= index < 10, got 11",
    ),
    (
        "index",
        "torch.randn(3)[5]",
        "IndexError",
        "index: index 5 is out of bounds for dimension 0 with size 3",
    ),
    (
        "index",
        "torch.gather(torch.randn(3, 3), 1, torch.tensor([[4]]))",
        "RuntimeError",
        "gather: index out of range: expected 0 <= index < 3, got 4",
    ),
    (
        "index",
        "F.one_hot(torch.tensor([5]), num_classes=3)",
        "RuntimeError",
        "one_hot: expected classes below num_classes 3, got 5",
    ),
    (
        "index",
        "torch.ones(3)[torch.tensor([4])]",
        "IndexError",
        "index: index out of range: expected -3 <= index < 3, got 4",
    ),
    (
        "index",
        "torch.ones(3).item()",
        "RuntimeError",
        "item: only a Tensor with one element becomes a number (tolist() gives all), got 3 elements",
    ),
    (
        "index",
        "bool(torch.ones(3) > 0)",
        "RuntimeError",
        "bool: the truth of a Tensor with more than one value is ambiguous (use any() or all()), got shape (3,)",
    ),
    (
        "data",
        "next(iter(DataLoader([torch.ones(2), torch.ones(3)], batch_size=2)))",
        "RuntimeError",
        "default_collate: the samples of a batch must have equal shapes, got [(2,), (3,)]: pad or crop them in the dataset "
        "or in a collate_fn (nn.utils.rnn.pad_sequence pads)",
    ),
    (
        "data",
        "next(iter(DataLoader([1, object()], batch_size=2)))",
        "TypeError",
        "default_collate: the samples of a batch must be of one kind, got int and object",
    ),
    (
        "data",
        "next(iter(DataLoader([{'a': 1}, {'b': 2}], batch_size=2)))",
        "KeyError",
        "\"default_collate: each sample must have the keys of the first, ['a'], got ['b']\"",
    ),
    (
        "data",
        "next(iter(DataLoader(Failing(), num_workers=1)))",
        "ZeroDivisionError",
        "Caught ZeroDivisionError in DataLoader worker process 0; it happened there as follows:\n"
        "...",
    ),
    (
        "data",
        "next(iter(DataLoader(Killed(), num_workers=1)))",
        "RuntimeError",
        "DataLoader worker (pid(s) ...) exited unexpectedly: worker 0 was ended by signal SIGKILL (is memory short? fewer "
        "workers, or a smaller prefetch_factor, need less)",
    ),
    (
        "data",
        "next(iter(DataLoader(Exits(), num_workers=1)))",
        "RuntimeError",
        "DataLoader worker (pid(s) ...) exited unexpectedly: worker 0 ended with exit code 3",
    ),
    (
        "data",
        "next(iter(DataLoader(Bus(), num_workers=1)))",
        "RuntimeError",
        "DataLoader worker (pid(s) ...) exited unexpectedly: worker 0 was ended by signal SIGBUS (is shared memory full? "
        "`df -h /dev/shm` shows it; fewer workers need less)",
    ),
    (
        "data",
        "next(iter(DataLoader(Slow(), num_workers=1, timeout=1)))",
        "RuntimeError",
        "DataLoader: no batch came within 1 seconds (timeout=1): a worker is slow or waits for something; num_workers=0 "
        "shows where",
    ),
    (
        "data",
        "DataLoader([1], batch_size=0)",
        "ValueError",
        "BatchSampler: batch_size must be a positive int, got 0",
    ),
    (
        "data",
        "DataLoader([1], num_workers=-1)",
        "ValueError",
        "DataLoader: num_workers must be at least 0, got -1",
    ),
    (
        "data",
        "DataLoader([1], shuffle=True, sampler=[0])",
        "ValueError",
        "DataLoader: give sampler or shuffle, not both",
    ),
    (
        "nan",
        "x = torch.tensor([0.0], requires_grad=True)\n"
        "with torch.autograd.detect_anomaly(check_nan=True):\n"
        "    (x / x).sum().backward()",
        "RuntimeError",
        "backward: Function 'DivBackward0' returned nan values in its 1th output, the gradient of its input 1, of shape "
        "(1,). The warning above shows the lines of the op: look there for a division by zero, the logarithm or the root "
        "of 0 or less, or a number that overflows",
    ),
    (
        "nan",
        "x = torch.tensor([-1.0], requires_grad=True)\n"
        "with torch.autograd.detect_anomaly():\n"
        "    x.sqrt().sum().backward()",
        "RuntimeError",
        "backward: Function 'SqrtBackward0' returned nan values in its 0th output, the gradient of its input 0, of shape "
        "(1,). The warning above shows the lines of the op: look there for a division by zero, the logarithm or the root "
        "of 0 or less, or a number that overflows",
    ),
    (
        "words",
        "nn.Conv2d(1, 1, 3, padding_mode='zeroes')",
        "ValueError",
        "Conv2d: padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got 'zeroes'. Did you mean: 'zeros'?",
    ),
    (
        "words",
        "F.interpolate(torch.ones(1, 1, 2, 2), size=3, mode='bilinaer')",
        "NotImplementedError",
        "interpolate: for an input of 4 dimensions mode must be 'nearest', 'nearest-exact', 'bilinear', 'bicubic', "
        "'lanczos' or 'area', got 'bilinaer'. Did you mean: 'bilinear'?",
    ),
    (
        "words",
        "F.grid_sample(torch.ones(1, 1, 2, 2), torch.ones(1, 2, 2, 2), mode='bilinar')",
        "ValueError",
        "grid_sample: mode must be 'bilinear', 'nearest' or 'bicubic', got 'bilinar'. Did you mean: 'bilinear'?",
    ),
    (
        "words",
        "F.mse_loss(torch.ones(2), torch.ones(2), reduction='avg')",
        "ValueError",
        "reduction: expected 'none', 'mean' or 'sum', got 'avg'",
    ),
    (
        "words",
        "F.pad(torch.ones(1, 1, 4), (1, 1), mode='reflct')",
        "NotImplementedError",
        "pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got 'reflct'. Did you mean: 'reflect'?",
    ),
    (
        "words",
        "F.gelu(torch.ones(2), approximate='tahn')",
        "RuntimeError",
        "gelu: approximate must be 'none' or 'tanh', got 'tahn'. Did you mean: 'tanh'?",
    ),
    (
        "words",
        "nn.RNN(2, 2, nonlinearity='rellu')",
        "ValueError",
        "RNN: nonlinearity must be 'tanh' or 'relu', got 'rellu'. Did you mean: 'relu'?",
    ),
    (
        "words",
        "nn.TransformerEncoderLayer(4, 2, activation='geluu')",
        "RuntimeError",
        "Transformer: activation must be callable, 'relu' or 'gelu', got 'geluu'. Did you mean: 'gelu'?",
    ),
    (
        "words",
        "torch.div(torch.ones(2), 2, rounding_mode='flor')",
        "RuntimeError",
        "div: rounding_mode must be None, 'trunc' or 'floor', got 'flor'. Did you mean: 'floor'?",
    ),
    (
        "words",
        "torch.linalg.qr(torch.eye(2), mode='redced')",
        "RuntimeError",
        "linalg.qr: mode must be 'reduced', 'complete' or 'r', got 'redced'. Did you mean: 'reduced'?",
    ),
    (
        "words",
        "torch.ones(2).scatter_reduce(0, torch.tensor([0]), torch.ones(1), 'summ')",
        "RuntimeError",
        "scatter_reduce: reduce must be 'sum', 'prod', 'mean', 'amax' or 'amin', got 'summ'. Did you mean: 'sum'?",
    ),
    (
        "words",
        "torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([p], 0.1), mode='mni')",
        "ValueError",
        "ReduceLROnPlateau: mode must be 'min' or 'max', got 'mni'. Did you mean: 'min'?",
    ),
    (
        "words",
        "torch.set_float32_matmul_precision('hihg')",
        "ValueError",
        "set_float32_matmul_precision: it must be 'highest', 'high' or 'medium', got 'hihg'. Did you mean: 'high'?",
    ),
    (
        "words",
        "torch.ones(2, 3).sum(axes=0)",
        "TypeError",
        "sum: the arguments fit no signature: no argument is called 'axes' (did you mean 'dim'?); expected one of:\n"
        " * (input: Tensor, *, dtype: dtype | None = None)\n"
        " * (input: Tensor, dim: int | Sequence[int] | None, keepdim: bool = False, *, dtype: dtype | None = None, out: "
        "Tensor | None = None)\n"
        "got (torch.Tensor, axes=int)",
    ),
    (
        "words",
        "torch.zeross(2)",
        "AttributeError",
        "module 'facula' has no attribute 'zeross'. Did you mean: 'zeros'?",
    ),
    (
        "words",
        "torch.ones(2).to('gpu')",
        "RuntimeError",
        "Expected one of cpu, cuda, meta device type at start of device string: gpu. Did you mean: 'cuda'?",
    ),
    (
        "nan",
        "nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)",
        "RuntimeError",
        "clip_grad_norm_: the norm of order 2.0 must be finite (or pass error_if_nonfinite=False), got nan",
    ),
    (
        "nan",
        "s = torch.amp.GradScaler('cpu'); s.step(torch.optim.SGD([p], 0.1)); s.update()",
        "AssertionError",
        "GradScaler.step: scale(loss) must be called before, got no call of it: backpropagate scaler.scale(loss), not the "
        "loss",
    ),
    (
        "nan",
        "s = torch.amp.GradScaler('cpu'); s.update()",
        "AssertionError",
        "GradScaler.update: scale(loss) must be called before, got no call of it: backpropagate scaler.scale(loss), not "
        "the loss",
    ),
    (
        "nan",
        "torch.distributions.Normal(torch.tensor(float('nan')), 1.0)",
        "ValueError",
        "Normal: expected parameter loc of shape () to satisfy Real(), got nan",
    ),
    (
        "nan",
        "torch.multinomial(torch.tensor([0.0, float('nan')]), 1)",
        "RuntimeError",
        "multinomial: weights must be finite and not negative, got nan at row 0, category 1",
    ),
    (
        "nan",
        "torch.linalg.inv(torch.zeros(2, 2))",
        "_LinAlgError",
        "linalg.inv: the matrix is singular, got a zero pivot at position 1",
    ),
    (
        "nan",
        "torch.linalg.cholesky(-torch.eye(2))",
        "_LinAlgError",
        "linalg.cholesky: the matrix is not positive-definite, got a leading minor that is not positive, of order 1",
    ),
]
