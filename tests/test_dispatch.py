"""`__torch_dispatch__`: modes and classes that stand in for kernels, and fake tensors."""

import pytest

import facula
from facula import nn, optim
from facula._subclasses import DataDependentOutputException, FakeTensor, FakeTensorMode
from facula.utils import _pytree
from facula.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass,
    no_dispatch,
    return_and_correct_aliasing,
    transform_subclass,
)

aten = facula.ops.aten


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, types, args, kwargs))
        return func(*args, **(kwargs or {}))

    def names(self):
        return [func.name() for func, *_ in self.calls]


def test_a_mode_sees_kernels_in_order_also_of_backward():
    x = facula.ones(2, 3, requires_grad=True)
    with Log() as log:
        (x * x + 1).sum().backward()
    assert log.names()[:3] == ["aten::mul.Tensor", "aten::add.Tensor", "aten::sum"]
    assert log.names().count("aten::mul.Tensor") >= 2 and x.grad.tolist() == [[2.0] * 3] * 2
    count = len(log.calls)
    x + 1
    assert len(log.calls) == count


def test_overloads_are_those_of_torch_ops():
    x = facula.ones(2)
    with Log() as log:
        x + x
        x.add_(2)
        facula.mul(x, 3, out=facula.empty(2))
        facula.zeros(2, dtype=facula.int64)
    funcs = [func for func, *_ in log.calls]
    assert funcs[0] is aten.add.Tensor and funcs[1] is aten.add_.Tensor
    assert aten.mul.out in funcs and aten.zeros.default in funcs
    _, _, args, kwargs = next(call for call in log.calls if call[0] is aten.mul.out)
    assert args == (x, 3) and list(kwargs) == ["out"]
    _, _, args, kwargs = next(call for call in log.calls if call[0] is aten.zeros.default)
    assert args == ([2],) and kwargs == {"dtype": facula.int64, "device": facula.device("cpu"), "pin_memory": False}
    assert log.calls[0][2] == (x, x) and log.calls[0][3] == {}  # alpha=1 is the default
    assert funcs[0](x, x).tolist() == [6.0, 6.0]


def test_composites_come_as_what_they_are_made_of():
    with Log() as log:
        nn.functional.layer_norm(facula.ones(2, 3), (3,))
    assert "aten::layer_norm" not in log.names() and log.names()


def test_a_mode_may_answer_by_itself():
    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return facula.zeros_like(result) if func is aten.exp.default else result

    x = facula.ones(2, requires_grad=True)
    with Zeros():
        y = x.exp() + 1
    assert y.tolist() == [1.0, 1.0] and y.requires_grad  # recorded above


def test_modes_nest_innermost_first():
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        facula.ones(1)
    assert order == ["inner", "outer"]


def test_what_a_mode_gives_is_checked():
    class Bad(TorchDispatchMode):
        def __init__(self, answer):
            super().__init__()
            self.answer = answer

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return self.answer

    x = facula.ones(2, 2)
    with pytest.raises(TypeError, match="^exp: __torch_dispatch__ must give a Tensor, got int$"), Bad(3):
        x.exp()
    with pytest.raises(TypeError, match="^sort: __torch_dispatch__ must give 2 results, got 1$"), Bad((x,)):
        x.sort()
    with pytest.raises(TypeError, match="^exp: no implementation found"), Bad(NotImplemented):
        x.exp()
    with pytest.raises(NotImplementedError, match="^TorchDispatchMode: a mode defines"), TorchDispatchMode():
        x.exp()
    assert x.exp().shape == (2, 2)  # all modes have ended


class Wrapper(facula.Tensor):
    """A tensor that holds another one."""

    __torch_function__ = facula._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        self = facula.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=inner.device, requires_grad=inner.requires_grad
        )
        self.inner = inner
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain_args, plain_kwargs = _pytree.tree_map(lambda v: v.inner if isinstance(v, Wrapper) else v, (args, kwargs or {}))
        result = func(*plain_args, **plain_kwargs)
        wrapped = _pytree.tree_map(lambda v: Wrapper(v) if isinstance(v, facula.Tensor) else v, result)
        return return_and_correct_aliasing(func, args, kwargs, wrapped)

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Wrapper(inner["inner"])

    def __repr__(self):
        return f"Wrapper({self.inner})"


def test_wrapper_class():
    w = Wrapper(facula.arange(4.0).view(2, 2))
    assert w.shape == (2, 2) and w.dtype == facula.float32 and w.device == facula.device("cpu")
    for result, expected in (
        (w + 1, w.inner + 1), (w @ w, w.inner @ w.inner), (facula.cat([w, w]), facula.cat([w.inner, w.inner])),
        (w.t(), w.inner.t()), (facula.ones(2, 2) * w, w.inner), (w.detach(), w.inner), (w[0], w.inner[0]),
    ):  # fmt: skip
        assert type(result) is Wrapper and facula.equal(result.inner, expected)
    assert w.add_(1) is w and w.inner[0, 0] == 1
    values, indices = w.max(dim=1)
    assert type(values) is type(indices) is Wrapper and indices.inner.tolist() == [1, 1]
    assert all(type(part) is Wrapper for part in w.split(1))


class Outs(facula.Tensor):
    """Has its elements in another tensor, and notes what is asked of it."""

    calls: list = []

    @staticmethod
    def __new__(cls, inside):
        return facula.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)

    def __init__(self, inside):
        self.inside = inside

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = _pytree.tree_map_only(Outs, lambda t: t.inside, (args, kwargs or {}))
        cls.calls.append(func)
        func(*plain[0], **plain[1])
        return kwargs["out"]


@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        ("add.out", lambda x, out: facula.add(x, x, out=out), [2.0, 4.0]),
        ("exp.out", lambda x, out: facula.exp(x - x, out=out), [1.0, 1.0]),
        ("cat.out", lambda x, out: facula.cat([x[:1], x[:1]], out=out), [1.0, 1.0]),
        ("cumsum.out", lambda x, out: facula.cumsum(x, 0, out=out), [1.0, 3.0]),
        ("mv.out", lambda x, out: facula.mv(facula.eye(2), x, out=out), [1.0, 2.0]),
    ],
)
def test_a_class_sees_that_it_is_written_to(name, call, expected):
    out = Outs(facula.zeros(2))
    Outs.calls.clear()
    call(facula.tensor([1.0, 2.0]), out)
    assert [f.name() for f in Outs.calls] == [f"aten::{name}"] and out.inside.tolist() == expected


def test_wrapper_class_has_gradients():
    w = Wrapper(facula.arange(3.0)).requires_grad_()
    ((w * w).sum() * 2).backward()
    assert type(w.grad) is Wrapper and w.grad.inner.tolist() == [0.0, 4.0, 8.0]
    parameter = nn.Parameter(Wrapper(facula.ones(2)))
    assert type(parameter) is Wrapper and parameter.requires_grad and isinstance(parameter, nn.Parameter)


def test_wrapper_helpers():
    w = Wrapper(facula.ones(2))
    assert is_traceable_wrapper_subclass(w) and not is_traceable_wrapper_subclass(w.inner)
    assert transform_subclass(w, lambda name, t: t * 3).inner.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="^_make_wrapper_subclass: .* must define __torch_dispatch__"):
        facula.Tensor._make_wrapper_subclass(type("Plain", (facula.Tensor,), {}), (2,))


def test_places_of_a_wrapper():
    class Wrapper(facula.Tensor):
        __torch_dispatch__ = classmethod(lambda cls, func, types, args=(), kwargs=None: NotImplemented)

    x = facula.randn(4, 6).t().diagonal(offset=2)
    options = {"dtype": x.dtype, "strides": x.stride(), "storage_offset": x.storage_offset()}
    made = facula.Tensor._make_wrapper_subclass(Wrapper, x.shape, **options)
    assert (made.shape, made.stride(), made.storage_offset()) == (x.shape, x.stride(), 12) and made._base is None
    assert facula.Tensor._make_wrapper_subclass(Wrapper, (0,), storage_offset=3).storage_offset() == 3


def test_a_wrapper_has_no_values_of_its_own():
    w = Wrapper(facula.ones(1))
    assert w.item() == 1.0  # its class is asked
    for read in (w.tolist, w.numpy):
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            read()


def test_no_dispatch():
    class Loud(facula.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError("called")

    loud = facula.Tensor._make_subclass(Loud, facula.ones(2))
    with pytest.raises(RuntimeError, match="^called$"):
        loud + 1
    with no_dispatch():
        assert (loud + 1).tolist() == [2.0, 2.0]


# Fake tensors


def test_fake_training_step_without_memory():
    before = facula.cpu.memory_stats()["allocated_bytes.current"]
    with FakeTensorMode():
        model = nn.Sequential(nn.Linear(100_000, 100_000), nn.ReLU(), nn.Linear(100_000, 7))
        out = model(facula.randn(64, 100_000))
        loss = nn.functional.cross_entropy(out, facula.zeros(64, dtype=facula.int64))
        loss.backward()
    assert isinstance(out, FakeTensor) and out.shape == (64, 7) and out.device == facula.device("cpu")
    assert model[0].weight.grad.shape == (100_000, 100_000) and loss.shape == ()
    assert facula.cpu.memory_stats()["allocated_bytes.current"] - before < 1 << 20


def test_fake_from_real():
    mode, real = FakeTensorMode(), facula.ones(2, 3).t()
    fake = mode.from_tensor(real)
    assert fake.shape == (3, 2) and fake.stride() == real.stride() and mode.from_tensor(real) is fake
    assert type(fake + fake) is FakeTensor and (fake + 1).requires_grad is False
    with mode:
        assert (fake * 2).stride() == real.stride()
        with pytest.raises(AssertionError, match="expected fake tensors only"):
            fake * facula._C._without_dispatch(real)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert (real * 2).shape == (3, 2)
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        FakeTensorMode().from_tensor(fake)


def test_fake_devices_follow_their_arguments():
    with FakeTensorMode():
        x = facula.empty(2, device="cuda:1") if facula.cuda.is_available() else facula.empty(2)
        assert (x + 1).device == x.device and x.new_ones(3).device == x.device
        assert facula.empty(2, device="meta").device == facula.device("meta")


def test_fake_values_cannot_be_read():
    with FakeTensorMode():
        x = facula.ones(1)
        for read in (x.item, x.tolist, lambda: bool(x), lambda: float(x)):
            with pytest.raises(DataDependentOutputException):
                read()
        with pytest.raises((DataDependentOutputException, RuntimeError, NotImplementedError)):
            facula.ones(3).nonzero()


def test_optimizers_step_on_fake_tensors():
    """Their counters are real numbers, which ops on them keep; what asks for values of a fake tensor says so."""
    for make in (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Adadelta, optim.Adamax, optim.NAdam, optim.RAdam, optim.ASGD, optim.Rprop):
        with FakeTensorMode():
            weight = facula.nn.Parameter(facula.ones(2, 3))
            optimizer = make([weight], lr=0.1)
            for _ in range(2):
                (weight * weight).sum().backward()
                optimizer.step()
        state = optimizer.state[weight]
        assert isinstance(weight, FakeTensor) and weight.shape == (2, 3)
        assert make is optim.SGD or state["step"].item() == 2.0
    with FakeTensorMode():
        number = facula.tensor(2.0)
        number += 1
        assert number.item() == 3.0 and isinstance(number.expand(2), FakeTensor)


def test_storages_of_wrappers_have_no_address():
    class Wrapper(facula.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return facula.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            raise NotImplementedError

    storage = Wrapper(facula.ones(3)).untyped_storage()
    assert storage.nbytes() == 12
    with pytest.raises(RuntimeError, match="^data_ptr: the storage of a tensor whose class stands for others"):
        storage.data_ptr()
    assert facula.ones(3, device="meta").untyped_storage().data_ptr() == 0
