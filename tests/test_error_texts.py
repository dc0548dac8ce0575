"""What the common mistakes say: the class is PyTorch's, the text begins with the op and ends with what was received."""

import re
import warnings

import numpy as np
import pytest
from mistakes import MISTAKES, fits, what_it_says

import facula as torch
from facula import nn

F = nn.functional
leaf = torch.ones(3, requires_grad=True)


def frozen():
    array = np.arange(4.0)
    array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


# (what the program does, class, how the text begins, how it ends)
OTHERS = [
    (lambda: leaf.split(1)[0].add_(1), RuntimeError, "add_: a view of a leaf that requires grad", "got a tensor of shape (1,)"),
    (lambda: nn.MultiheadAttention(10, 3), AssertionError, "MultiheadAttention: ", "got 10 and 3"),
    (lambda: nn.BatchNorm1d(3)(torch.randn(1, 3)), ValueError, "batch_norm: ", "got input shape (1, 3)"),
    (lambda: torch.empty(0).max(), RuntimeError, "max: ", "got shape (0,)"),
    (lambda: frozen().add_(1), RuntimeError, "add: ", "got shape (4,)"),
    (lambda: torch.zeros(2, 2).fill_diagonal_("x"), TypeError, "fill_diagonal_: ", "got (torch.Tensor, str)"),
    (lambda: torch.tensordot(torch.ones(2, 3), torch.ones(3, 2), dims=None), RuntimeError, "tensordot: ", "got None"),
    (lambda: torch.frobenius_norm(torch.ones(2, 3), None), TypeError, "frobenius_norm: ", "got NoneType"),
    (lambda: torch.zeros(2, 3).squeeze(0).t().unsqueeze(4), IndexError, "unsqueeze: ", "-3 to 2, got 4"),
]


@pytest.mark.parametrize(("program", "error", "text"), [mistake[1:] for mistake in MISTAKES], ids=[" ".join(m[:2]) for m in MISTAKES])
def test_mistake(program, error, text):
    found, says = what_it_says(program)
    assert (found, fits(says, text)) == (error, True), says


def test_the_texts_that_are_stated_may_leave_things_out():
    assert fits("worker 17 ended", "worker ... ended") and not fits("worker ended (early)", "worker ended") and fits("a.*", "a.*")


@pytest.mark.parametrize(("mistake", "error", "begins", "ends"), OTHERS)
def test_other_mistake(mistake, error, begins, ends):
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
            if "same device" in text:
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
