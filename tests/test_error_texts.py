"""What the common mistakes say: the class is PyTorch's, the text begins with the op and ends with what was received."""

import copy
import re
import warnings

import numpy as np
import pytest

import facula as torch
from facula import nn

F = nn.functional
leaf = torch.ones(3, requires_grad=True)


def backward_twice():
    y = (leaf * leaf).sum()
    y.backward()
    y.backward()


def saved_then_changed():
    y = torch.randn(3, requires_grad=True).exp()
    y.add_(1)
    y.sum().backward()


def frozen():
    array = np.arange(4.0)
    array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


# (what the program does, class, how the text begins, how it ends)
MISTAKES = [
    (lambda: torch.randn(3, 4) @ torch.randn(5, 6), RuntimeError, "mm: ", "got (3, 4) and (5, 6)"),
    (lambda: nn.Linear(10, 5)(torch.randn(3, 4)), RuntimeError, "linear: ", "got shapes (3, 4) and (5, 10)"),
    (lambda: nn.Conv2d(3, 8, 3)(torch.randn(1, 4, 8, 8)), RuntimeError, "conv2d: ", "input must have 3 channels, got 4 in shape (1, 4, 8, 8)"),
    (lambda: torch.randn(3, 4) + torch.randn(3, 5), RuntimeError, "add: ", "got (3, 4) and (3, 5)"),
    (lambda: torch.cat([torch.randn(3, 4), torch.randn(3, 5)]), RuntimeError, "cat: ", "got (3, 4) and (3, 5)"),
    (lambda: torch.stack([torch.randn(3), torch.randn(4)]), RuntimeError, "stack: ", "got (3,) and (4,)"),
    (lambda: torch.randn(3, 4).t().view(12), RuntimeError, "view: ", "got shape (4, 3) with strides (1, 4) viewed as (12,)"),
    (lambda: torch.randn(3, 4).reshape(5, 3), RuntimeError, "reshape: ", "shape '[5, 3]' is invalid for input of size 12"),
    (lambda: torch.randn(3, 4) @ torch.ones(4, 3).double(), RuntimeError, "mm: ", "got float32 and float64"),
    (lambda: nn.Linear(4, 4)(torch.ones(2, 4).double()), RuntimeError, "linear: ", "got float64 and float32"),
    (lambda: F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1])), ValueError, "cross_entropy: ", "batch size 3, got shape (2,)"),
    (lambda: F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1, 7])), IndexError, "cross_entropy: ", "class index 7 at target[2] is out of range for 4 classes; ignore_index is -100"),
    (lambda: F.cross_entropy(torch.randn(3, 4), torch.tensor([0.0, 1, 2])), RuntimeError, "cross_entropy: ", "got float32"),
    (lambda: F.binary_cross_entropy(torch.rand(8, 1), torch.rand(8)), ValueError, "binary_cross_entropy: ", "input's shape (8, 1), got (8,)"),
    (lambda: nn.Embedding(10, 3)(torch.tensor([11])), IndexError, "embedding: ", "expected 0 <= index < 10, got 11"),
    (lambda: torch.randn(3)[5], IndexError, "index 5 is out of bounds", "for dimension 0 with size 3"),
    (lambda: torch.gather(torch.randn(3, 3), 1, torch.tensor([[4]])), RuntimeError, "gather: ", "expected 0 <= index < 3, got 4"),
    (lambda: leaf.add_(1), RuntimeError, "add_: a leaf that requires grad", "got a tensor of shape (3,)"),
    (saved_then_changed, RuntimeError, "backward of exp (ExpBackward0): ", "autograd.set_detect_anomaly(True) shows the source lines"),
    (backward_twice, RuntimeError, "backward: an earlier pass freed", "got a second pass through MulBackward0"),
    (lambda: torch.ones(3).sum().backward(), RuntimeError, "backward: element 0 of tensors does not require grad", "got shape () of float32"),
    (lambda: (leaf * 2).backward(), RuntimeError, "backward: ", "got shape (3,)"),
    (lambda: torch.ones(3).item(), RuntimeError, "item: ", "got 3 elements"),
    (lambda: bool(torch.ones(3) > 0), RuntimeError, "bool: ", "got shape (3,)"),
    (lambda: leaf.numpy(), RuntimeError, "numpy: ", "got shape (3,)"),
    (lambda: torch.ones(2, device="cuda"), AssertionError, "empty: there is no CUDA device to use: ", "got cuda:0"),
    (lambda: nn.Linear(3, 2).load_state_dict({"weight": torch.zeros(2, 4)}), RuntimeError, "load_state_dict: the entries do not fit Linear:", "size mismatch for weight: the module has (2, 3), got (2, 4)"),
    (lambda: copy.deepcopy(leaf * 2), RuntimeError, "deepcopy: ", "got the result of MulBackward0"),
    (lambda: torch.arange(4).mean(), RuntimeError, "mean: ", "got int64"),
    (lambda: leaf.split(1)[0].add_(1), RuntimeError, "add_: a view of a leaf that requires grad", "got a tensor of shape (1,)"),
    (lambda: nn.MultiheadAttention(10, 3), AssertionError, "MultiheadAttention: ", "got 10 and 3"),
    (lambda: nn.BatchNorm1d(3)(torch.randn(1, 3)), ValueError, "batch_norm: ", "got input shape (1, 3)"),
    (lambda: torch.empty(0).max(), RuntimeError, "max: ", "got shape (0,)"),
    (lambda: frozen().add_(1), RuntimeError, "add: ", "got shape (4,)"),
    (lambda: torch.zeros(2, 2).fill_diagonal_("x"), TypeError, "fill_diagonal_: ", "got (torch.Tensor, str)"),
    (lambda: torch.ones(2).to("gpu"), RuntimeError, "Expected one of cpu, cuda, meta device type", "at start of device string: gpu. Did you mean: 'cuda'?"),
    (lambda: torch.zeros(3).expand(2, 4), RuntimeError, "expand: ", "dimension 1, got (2, 4)"),
    (lambda: torch.ones(2, 3).sum(5), IndexError, "sum: ", "-2 to 1, got 5"),
    (lambda: torch.zeros(2, dtype=torch.uint8).fill_(300), RuntimeError, "fill: ", "got 300"),
    (lambda: torch.tensordot(torch.ones(2, 3), torch.ones(3, 2), dims=None), RuntimeError, "tensordot: ", "got None"),
    (lambda: torch.frobenius_norm(torch.ones(2, 3), None), TypeError, "frobenius_norm: ", "got NoneType"),
    (lambda: torch.zeros(2, 3).squeeze(0).t().unsqueeze(4), IndexError, "unsqueeze: ", "-3 to 2, got 4"),
]


@pytest.mark.parametrize(("mistake", "error", "begins", "ends"), MISTAKES)
def test_common_mistake(mistake, error, begins, ends):
    with pytest.raises(error) as caught:
        mistake()
    text = str(caught.value)
    assert text.startswith(begins) and text.endswith(ends), text


# Names that PyTorch has so: a function for subclasses that want it private, an exception.
PRIVATE = {"has_torch_function_unary", "has_torch_function_variadic", "LinAlgError"}


@pytest.mark.parametrize("arguments", [((), {"no_such_argument": 1}), ((leaf, object()), {})], ids=["keyword", "value"])
@pytest.mark.parametrize("home", [torch, torch.Tensor, F, torch.special, torch.linalg, torch.fft, torch.sparse, nn.Module],
                         ids=lambda home: home.__name__)  # fmt: skip
def test_no_text_begins_with_a_private_name(home, arguments):
    given, named = arguments
    if isinstance(home, type):
        given = (nn.Identity() if home is nn.Module else leaf, *given[1:])
    found = {}
    for name in dir(home):
        if name.startswith(("_", "set_", "use_")) or name in PRIVATE or not callable(function := getattr(home, name)):
            continue
        try:
            function(*given, **named)
        except Exception as error:
            text = str(error)
            if re.match(r"_[a-z]\w*(\(\)|:)", text):
                found[name] = text.partition("\n")[0]
    assert not found


def test_names_below_a_private_one():
    with pytest.raises(TypeError, match=r"^threshold_: the arguments"):
        F.threshold_(leaf, no_such_argument=1)
    with pytest.raises(NotImplementedError, match="^threshold: not implemented for dtype complex64"):
        torch.threshold(torch.ones(2, dtype=torch.complex64), 1, 1)
    with pytest.raises(TypeError, match=r"^backward\(\) got an unexpected keyword argument"):
        leaf.sum().backward(no_such_argument=1)
    with pytest.raises(RuntimeError, match=r"^set_num_threads: expected 1 to 65535 threads, got 70000$"):
        torch.set_num_threads(70000)


# -- names of private ops ---------------------------------------------------------------------------------------------------

#: PyTorch calls these so itself
PYTORCHS = {"_coalesced_", "_dirichlet_grad", "_indices", "_int_mm", "_nnz", "_scaled_mm", "_standard_gamma_grad", "_values", "_weight_int8pack_mm"}


def _wrong_arguments(key):
    """Values for an op of the boxed table of which every second tensor is on another device."""

    def value(kind, number):
        if kind.startswith("Tensor[]"):
            return [torch.ones(2, 2), torch.ones(2, 2, device="meta")]
        if kind.startswith("Tensor"):
            return torch.ones(2, 2, device="meta" if number % 2 else "cpu")
        plain = {"int[": [1, 1], "int": 1, "bool": False, "float": 1.0}
        return next((given for start, given in plain.items() if kind.startswith(start)), None)

    arguments = torch._C._boxed_op(key)["arguments"]
    return tuple(value(a[1], i) if not a[4] or a[1].startswith("Tensor") else a[5] for i, a in enumerate(arguments))


def test_errors_of_private_ops_have_a_public_name():
    from facula import _C

    seen, shown = 0, []
    for key in sorted(_C._boxed_keys()):
        name = key.partition(".")[0]
        if not name.startswith("_") or name in PYTORCHS:
            continue
        try:
            _C._boxed_call(key, _wrong_arguments(key))
        except Exception as error:  # noqa: BLE001 - other arguments may be wrong first
            text = str(error)
            if "one device" in text:
                seen += 1
                if text.startswith("_") or " on meta" not in text or " on cpu" not in text:
                    shown.append(f"{key}: {text}")
    assert seen > 50 and not shown, "\n".join(shown)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda there: torch.nn.functional.cross_entropy(torch.ones(2, 3), there(2).long()),
            r"cross_entropy: all tensors must be on the same device \(to\(device\) moves them\), got input on cpu, target on meta",
        ),
        (
            lambda there: torch.nn.functional.mse_loss(torch.ones(2), there(2)),
            r"mse_loss: all tensors must be on the same device \(to\(device\) moves them\), got argument 1 on cpu and argument 2 on meta",
        ),
        (
            lambda there: torch.cat([torch.ones(2), there(2)]),
            r"cat: all tensors must be on the same device \(to\(device\) moves them\), got tensors\[0\] on cpu, tensors\[1\] on meta",
        ),
        (
            lambda there: torch.nn.functional.batch_norm(torch.ones(2, 3), there(3), torch.ones(3)),
            r"batch_norm: all tensors must be on the same device \(to\(device\) moves them\), got input on cpu, running_mean on meta, running_var on cpu",
        ),
    ],
)
def test_errors_say_which_argument_is_where(call, text):
    with pytest.raises(RuntimeError, match=f"^{text}$"):
        call(lambda *shape: torch.ones(*shape, device="meta"))


def test_a_tensor_in_the_place_of_a_list_is_named():
    for call in (torch.hstack, torch.vstack, torch.dstack):
        with pytest.raises(TypeError, match="argument 'tensors' must be tuple of Tensors, not Tensor; the arguments fit no signature"):
            call(torch.ones(2))


def test_nested_and_other_tensors_have_no_common_size():
    with pytest.raises(RuntimeError, match="^is_same_size: expected two nested tensors or none"):
        torch.ones(2).is_same_size(torch.nested.nested_tensor([torch.ones(2)]))


def test_warnings_come_again_where_they_always_do():
    array = np.ones(2)
    array.setflags(write=False)
    torch.set_warn_always(True)
    try:
        for _ in range(2):
            with pytest.warns(UserWarning, match="^from_numpy: the array is non-writable"):
                torch.from_numpy(array)
    finally:
        torch.set_warn_always(False)


def test_result_types_and_named_results_have_names_of_their_own():
    assert torch.result_type(torch.ones(1), 1j) == torch.complex64
    assert torch.return_types.max is type(torch.max(torch.ones(1, 1), 0))
