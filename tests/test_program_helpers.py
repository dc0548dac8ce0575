"""What programs use beside tensors: torch.ops, custom operators, futures, checks, lists of tensors."""

import subprocess
import sys
import threading

import pytest

import facula
from facula import nn

# torch.ops and custom operators


def test_operators_by_namespace():
    a = facula.tensor([1.0, 2.0])
    assert facula.ops.aten.add.Tensor(a, a).tolist() == [2.0, 4.0]
    assert facula.ops.aten.add is facula.ops.aten.add and facula.ops.aten.add.Tensor is facula.ops.aten.add.Tensor
    assert facula.ops.aten.mul.Tensor.name() == "aten::mul.Tensor" and facula.ops.aten.mul.default.name() == "aten::mul"
    with pytest.raises(NotImplementedError, match="aten.no_such_operator"):
        facula.ops.aten.no_such_operator(a)
    with pytest.raises(AttributeError, match="'nothing'"):
        getattr(facula.ops.nowhere, "nothing")  # noqa: B009
    with pytest.raises(OSError, match="somewhere.so"):
        facula.ops.load_library("somewhere.so")


def test_a_custom_operator_takes_keywords_and_has_a_derivative():
    @facula.library.custom_op("testprograms::scaled", mutates_args=())
    def scaled(x: facula.Tensor, factor: float = 2.0, *, shift: float = 0.0) -> facula.Tensor:
        return x * factor + shift

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.factor, ctx.shift = inputs[1], keyword_only_inputs["shift"]

    scaled.register_autograd(lambda ctx, g: (g * ctx.factor + ctx.shift, None), setup_context=setup)
    x = facula.ones(2, requires_grad=True)
    y = scaled(x=x, shift=1.0)
    y.sum().backward()
    assert y.tolist() == [3.0, 3.0] and x.grad.tolist() == [3.0, 3.0]
    assert facula.ops.testprograms.scaled(facula.ones(1), 5.0).tolist() == [5.0]


# futures


def test_futures():
    future = facula.futures.Future()
    tripled = future.then(lambda f: 3 * f.wait())
    both = facula.futures.collect_all([future, tripled])
    assert not future.done() and not both.done()
    with pytest.raises(RuntimeError, match="Future.value"):
        future.value()
    threading.Timer(0.01, future.set_result, [2]).start()
    assert tripled.wait() == 6 and both.wait() == [future, tripled]
    assert facula.futures.wait_all([future, tripled]) == [2, 6] and facula.futures.wait_all([]) == []
    with pytest.raises(RuntimeError, match="once, got 5"):
        future.set_result(5)
    failed = facula.futures.Future()
    failed.set_exception(KeyError("k"))
    for waits in (failed.wait, failed.value):
        with pytest.raises(KeyError):
            waits()


# checks and numbers


@pytest.mark.parametrize(
    "check, error",
    [
        (facula._check, RuntimeError),
        (facula._check_value, ValueError),
        (facula._check_index, IndexError),
        (facula._check_type, TypeError),
        (facula._check_not_implemented, NotImplementedError),
    ],
)
def test_checks_raise_their_class(check, error):
    check(True, lambda: "never made")
    with pytest.raises(error, match="the reason"):
        check(False, lambda: "the reason")
    with pytest.raises(TypeError, match="_check_tensor_all"):
        check(facula.tensor(True))


def test_checks_of_tensors_and_sizes():
    facula._check_tensor_all(facula.tensor([True, True]))
    with pytest.raises(RuntimeError, match="_check"):
        facula._check_tensor_all(facula.tensor([True, False]))
    with pytest.raises(RuntimeError, match="_check"):
        facula._check_is_size(-1)
    with pytest.raises(AssertionError, match="said so"):
        facula._assert(facula.tensor(0), "said so")
    with pytest.raises(RuntimeError, match="_assert_async"):
        facula._assert_async(facula.tensor(0.0))


def test_numbers_that_programs_treat_as_symbols():
    assert (facula.sym_int(-2.7), facula.sym_max(1, 2.0), facula.sym_min(3, 2)) == (-2, 2.0, 2)
    assert isinstance(facula.sym_max(2, 1.0), float)
    assert (facula.sym_not(True), facula.sym_ite(False, 1, 2), facula.sym_sum([1, 2])) == (False, 2, 3)


# lists of tensors


def test_foreach_operators():
    a = [facula.tensor([1.0, 2.0]), facula.tensor([3.0])]
    b = [facula.tensor([10.0, 20.0]), facula.tensor([30.0])]

    def lists(tensors):
        return [t.tolist() for t in tensors]

    assert lists(facula._foreach_add(a, b, alpha=2)) == [[21.0, 42.0], [63.0]]
    assert lists(facula._foreach_mul(a, 2.0)) == [[2.0, 4.0], [6.0]]
    assert lists(facula._foreach_mul(a, [2.0, 3.0])) == [[2.0, 4.0], [9.0]]
    assert lists(facula._foreach_maximum(a, 2.0)) == [[2.0, 2.0], [3.0]]
    assert lists(facula._foreach_lerp(a, b, weight=0.5)) == [[5.5, 11.0], [16.5]]
    assert lists(facula._foreach_addcmul(a, b, b, value=0.1)) == [[11.0, 42.0], [93.0]]
    assert lists(facula._foreach_addcmul(a, b, b, scalars=[0.1, 1.0])) == [[11.0, 42.0], [903.0]]
    assert [n.item() for n in facula._foreach_norm([facula.tensor([3.0, 4.0])])] == [5.0]
    assert facula._foreach_sub_(a, 1) is a and lists(a) == [[0.0, 1.0], [2.0]]
    facula._foreach_copy_(a, b)
    facula._foreach_zero_(b)
    assert lists(a) == [[10.0, 20.0], [30.0]] and lists(b) == [[0.0, 0.0], [0.0]]
    assert lists(facula._foreach_sqrt([facula.tensor([4.0])])) == [[2.0]]
    with pytest.raises(RuntimeError, match="_foreach_mul: 2 tensors .* got 3"):
        facula._foreach_mul(a, [1.0, 2.0, 3.0])


# memory


def test_storages_over_files(tmp_path):
    path = str(tmp_path / "bytes")
    with open(path, "wb") as file:
        file.write(bytes(range(16)))
    private = facula.UntypedStorage.from_file(path, False, 8)
    private.fill_(1)
    assert facula.from_file(path, size=8, dtype=facula.uint8).tolist() == list(range(8))
    shared = facula.UntypedStorage.from_file(path, shared=True, nbytes=20)
    shared.fill_(2)
    assert (tmp_path / "bytes").read_bytes() == bytes([2] * 20)
    assert facula.storage.FloatStorage.from_file(path, False, 4).nbytes() == 16
    with pytest.raises(RuntimeError, match="from_file: 21 bytes of .*, got a file of 20"):
        facula.UntypedStorage.from_file(path, False, 21)
    with pytest.raises(RuntimeError, match="from_file: cannot open"):
        facula.UntypedStorage.from_file(str(tmp_path / "none"), False, 1)


# flop counter


def test_flops_are_counted_by_module():
    from facula.utils.flop_counter import FlopCounterMode

    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    with FlopCounterMode(display=False) as counter:
        model(facula.ones(2, 3, 8, 8))
    counts = counter.get_flop_counts()
    assert counts["Sequential.0"] == {facula.ops.aten.convolution: 31104}
    assert counts["Sequential.3"] == {facula.ops.aten.addmm: 4608}
    assert counter.get_total_flops() == 35712 and "35712" in counter.get_table()
    with FlopCounterMode(display=False) as counter:
        facula.ones(2, 3, 4) @ facula.ones(2, 4, 5)
        facula.addmm(facula.ones(5), facula.ones(3, 4), mat2=facula.ones(4, 5))
        nn.functional.conv_transpose2d(facula.ones(2, 4, 8, 8), facula.ones(4, 6, 3, 3), stride=2)
    assert counter.get_total_flops() == 240 + 120 + 55296


def test_wrappers_of_optimizers_need_no_initialization():
    class Wrapper(facula.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self):
            self.inner.step()

    p = nn.Parameter(facula.ones(1))
    p.grad = facula.ones(1)
    Wrapper(facula.optim.SGD([p], lr=0.5)).step()
    assert p.item() == 0.5


def test_old_methods_of_dense_tensors():
    x = facula.tensor([3, 1, 3])
    assert x.unique().tolist() == [1, 3] and x.unique_consecutive().tolist() == [3, 1, 3]
    assert [r.tolist() for r in x.unique(return_counts=True)] == [[1, 3], [1, 2]]
    assert x.to_dense() is x and x.dequantize().dtype == facula.float32


def test_the_class_of_compiled_modules_is_reached_by_attributes():
    code = "import torch; assert isinstance(torch.compile(torch.nn.Linear(1, 1)), torch._dynamo.eval_frame.OptimizedModule)"
    subprocess.run([sys.executable, "-m", "facula", "-c", code], check=True, timeout=120)
