"""`__torch_function__` of classes and modes."""

import types

import pytest

import facula as torch
from facula import overrides


class Logged(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.fixture
def logged():
    Logged.calls.clear()
    return torch.tensor([1.0, 2.0]).as_subclass(Logged)


@pytest.mark.parametrize(
    ("call", "func"),
    [
        (lambda x: torch.add(x, 1), lambda: torch.add),
        (lambda x: x.add(1), lambda: torch.Tensor.add),
        (lambda x: x + 1, lambda: torch.Tensor.add),
        (lambda x: 1 - x, lambda: torch.Tensor.__rsub__),
        (lambda x: -x, lambda: torch.Tensor.neg),
        (lambda x: x[0], lambda: torch.Tensor.__getitem__),
        (lambda x: x.shape, lambda: torch.Tensor.shape.__get__),
        (lambda x: x.T, lambda: torch.Tensor.T.__get__),
        (lambda x: x.to(torch.float64), lambda: torch.Tensor.to),
        (lambda x: torch.stack([x, x]), lambda: torch.stack),
        (lambda x: torch.nn.functional.relu(x), lambda: torch.nn.functional.relu),
        (lambda x: x.new_tensor([1]), lambda: torch.Tensor.new_tensor),
    ],
)
def test_the_function_is_the_public_one(logged, call, func):
    call(logged)
    assert Logged.calls[0] == func()


def test_a_class_of_its_own():
    handled = {}

    class Diagonal:
        def __init__(self, value):
            self.value = value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return handled.get(func, lambda *a, **k: NotImplemented)(*args, **(kwargs or {}))

    handled[torch.mean] = lambda d: d.value / 2
    handled[torch.add] = lambda a, b: "sum"
    assert torch.mean(Diagonal(3)) == 1.5
    assert torch.add(torch.ones(2), Diagonal(1)) == "sum" and torch.add(Diagonal(1), torch.ones(2)) == "sum"
    with pytest.raises(TypeError, match="no implementation"):
        torch.sum(Diagonal(1))


def test_subclasses_come_first():
    order = []

    class Base(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    with pytest.raises(TypeError):
        torch.add(torch.ones(1).as_subclass(Base), torch.ones(1).as_subclass(Derived))
    assert order == ["Derived", "Base"]


def test_unrelated_classes_do_not_mix():
    class One(torch.Tensor):
        pass

    class Two(torch.Tensor):
        pass

    with pytest.raises(TypeError):
        torch.ones(1).as_subclass(One) + torch.ones(1).as_subclass(Two)


def test_switches(logged):
    with torch._C.DisableTorchFunctionSubclass():
        assert type(logged + 1) is torch.Tensor
    assert Logged.calls == [] and type(logged + 1) is Logged

    class Plain(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert type(torch.ones(1).as_subclass(Plain) + 1) is torch.Tensor


def test_a_mode_sees_everything():
    seen = []

    class Watch(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", func))
            return func(*args, **(kwargs or {}))

    with Watch():
        x = torch.ones(2)
        x = x + 1
        torch.tensor([1.0])
        x.to(torch.int32)
    torch.ones(2)
    assert seen == ["ones", "add", "tensor", "to"]


def test_modes_nest_and_replace():
    class Scale(overrides.TorchFunctionMode):
        def __init__(self, factor):
            self.factor = factor

        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * self.factor if func is torch.ones else result

    with Scale(2), Scale(5):
        assert torch.ones(1).item() == 10.0
        with overrides.DisableTorchFunction():
            assert torch.ones(1).item() == 1.0
    assert torch.ones(1).item() == 1.0
    assert torch._C.DisableTorchFunction is overrides.DisableTorchFunction


def test_a_mode_survives_an_error():
    class Fail(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    with pytest.raises(KeyError), Fail():
        torch.ones(1)
    assert torch.ones(1).item() == 1.0 and overrides._len_torch_function_stack() == 0


def test_helpers(logged):
    def double(x):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(double, (x,), x)
        return x * 2

    double(logged)
    assert Logged.calls[0] is double
    assert not overrides.has_torch_function((torch.ones(1), 3)) and overrides.has_torch_function_unary(logged)
    assert overrides.is_tensor_like(torch.ones(1)) and not overrides.is_tensor_like(3)
    assert overrides.is_tensor_method_or_property(torch.Tensor.add) and not overrides.is_tensor_method_or_property(
        torch.add
    )
    assert (
        overrides.resolve_name(torch.Tensor.add) == "torch.Tensor.add"
        and overrides.resolve_name(torch.add) == "torch.add"
    )
    table = overrides.get_overridable_functions()
    assert torch.add in table[torch] and torch.Tensor.add in table[torch.Tensor] and torch.tensor not in table[torch]
    assert torch.tensor in overrides.get_ignored_functions()


def test_comparison_with_none(logged):
    assert (logged == None) is False  # noqa: E711


def test_modes_see_the_parts_of_layers():
    seen = []

    class Names(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    layer = torch.nn.LSTM(3, 2)
    x = torch.randn(4, 1, 3)
    with Names():
        output, _ = layer(x)
    assert torch.equal(output, layer(x)[0]) and "_rnn_layer" in seen


def test_methods_put_on_tensor(monkeypatch):
    backward = torch.Tensor.backward
    losses = []

    def noted(self, *args, **kwargs):
        losses.append(self.item())
        return backward(self, *args, **kwargs)

    x = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "backward", noted)
        patch.setattr(torch.Tensor, "twice", property(lambda self: self * 2), raising=False)
        patch.setattr(torch.Tensor, "__repr__", lambda self: "short")
        x.twice.sum().backward()
        assert losses == [6.0] and x.grad.tolist() == [2, 2] and repr(x.detach()) == str(x.twice) == "short"
    assert repr(x.grad) == "tensor([2., 2.])" and not hasattr(x, "twice")
    x.sum().backward()
    assert losses == [6.0]
    for name in ("__add__", "__call__", "__eq__"):
        with pytest.raises(TypeError, match=f"^Tensor: {name} belongs to the core .*, got int$"):
            setattr(torch.Tensor, name, 3)
    with pytest.raises(AttributeError):
        del torch.Tensor.twice


def test_another_library_that_repeats_the_call():
    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    ours, theirs = torch.ones(2), Foreign()
    assert (ours == theirs) is False and (theirs != ours) is True
    with pytest.raises(TypeError, match="unsupported operand"):
        ours + theirs
    with pytest.raises(TypeError, match="^add: no implementation found.*Foreign"):
        torch.add(ours, theirs)

    def foreign_add(a, b):  # dispatches as theirs would, without heed of our switch
        return type(b).__torch_function__(foreign_add, (type(b),), (a, b))

    assert foreign_add(theirs, ours) is NotImplemented


def test_functions_made_of_parts_run_under_modes():
    with overrides.BaseTorchFunctionMode():
        assert torch.unique(torch.tensor([2, 1, 1])).tolist() == [1, 2]
        assert torch.unique_consecutive(torch.tensor([2, 1, 1])).tolist() == [2, 1]
    with torch.device("cpu"):
        assert torch.unique(torch.tensor([[2, 1, 1]]), dim=1).tolist() == [[1, 2]]


def scaled_product(a, b):
    if overrides.has_torch_function((a, b)):
        return overrides.handle_torch_function(scaled_product, (a, b), a, b)
    return a * b + 1


def test_redispatch_passes_one_level_of_classes():
    seen = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return overrides.redispatch_function(func, types, args, kwargs)

    x = torch.tensor([3.0]).as_subclass(Logged)
    result = scaled_product(x, torch.tensor([4.0]).as_subclass(Logged))
    assert seen == ["scaled_product", "mul"] and type(result) is torch.Tensor and result.item() == 13
    assert overrides.has_torch_function((x,))  # the answer was for one question
    with pytest.raises(ZeroDivisionError):
        overrides.redispatch_function(lambda: 1 / 0, (), (), None)
    assert overrides.has_torch_function((x,))
    assert torch._C._skip_one_hop_torch_function is overrides.redispatch_function


def test_redispatch_passes_one_level_of_modes():
    seen = []

    class Logging(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            with self:
                return overrides.redispatch_function(func, types, args, kwargs)

    a, b = torch.tensor([3.0]), torch.tensor([4.0])
    with Logging():
        result = scaled_product(a, b)
    assert result.item() == 13
    assert seen == ["scaled_product", "mul", "add"]


# Functions of nn.functional in Python that end in an op of the same name, which takes other arguments: a call that somebody takes
# over and hands on gives the same.

F = torch.nn.functional
IMAGE = torch.arange(2 * 6 * 6 * 6.0).reshape(2, 6, 6, 6).sin()
ROWS, CLASSES = IMAGE[0, :4, :3, 0].contiguous(), torch.tensor([0, 2, 1, 0])
POSITIVE = ROWS.sigmoid()
CALLS = {
    **{
        f"{name} {reduction}": lambda x, name=name, reduction=reduction: getattr(F, name)(x, POSITIVE, reduction=reduction)
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss")
        for reduction in ("none", "mean", "sum")
    },
    **{
        f"{name} {reduction}": lambda x, call=call, reduction=reduction: call(x, reduction)
        for name, call in {
            "binary_cross_entropy": lambda x, r: F.binary_cross_entropy(x.sigmoid(), POSITIVE, POSITIVE + 1, reduction=r),
            "nll_loss": lambda x, r: F.nll_loss(x, CLASSES, torch.tensor([1.0, 2, 3]), ignore_index=1, reduction=r),
        }.items()
        for reduction in ("none", "mean", "sum")
    },
    "huber_loss delta": lambda x: F.huber_loss(x, POSITIVE, delta=0.1),
    "smooth_l1_loss beta": lambda x: F.smooth_l1_loss(x, POSITIVE, beta=0.1),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x[None], 2),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x[None, None], 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x[None], (2, 1)),
    "adaptive_max_pool2d indices": lambda x: F.adaptive_max_pool2d(x[None], (2, None), return_indices=True),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x[None, None], 1),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x[None], 2, (2, 2), _random_samples=torch.full((1, 1, 2), 0.3)),
    "fractional_max_pool3d": lambda x: F.fractional_max_pool3d(x[None, None], 1, (1, 2, 2), _random_samples=torch.full((1, 1, 3), 0.3)),
    "glu": lambda x: F.glu(x, 0),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.25),
    "log_softmax": lambda x: F.log_softmax(x, 0, dtype=torch.float64),
    "softmax": lambda x: F.softmax(x, dim=1),
    "softmin": lambda x: F.softmin(x, 0),
    "max_pool2d_with_indices": lambda x: F.max_pool2d(x[None], 2, stride=1, padding=1, return_indices=True),
    "max_pool3d_with_indices": lambda x: F.max_pool3d(x[None, None], (1, 2, 2), 1, return_indices=True),
    "max_unpool2d": lambda x: F.max_unpool2d(*F.max_pool2d(x[None, :, :2], 2, return_indices=True), 2),
    "max_unpool3d": lambda x: F.max_unpool3d(*F.max_pool3d(x[None, None, :, :2], (1, 2, 2), return_indices=True), (1, 2, 2)),
    "pad": lambda x: F.pad(x[None], (1, 1), mode="reflect"),
}  # fmt: skip


class Plain(torch.Tensor):
    pass


def in_two_languages():
    """Functions in Python with the name of an op of nn.functional."""
    core = torch._C.nn_functional
    public = [n for n in dir(core) if not n.startswith("_")]
    return {n for n in public if isinstance(getattr(F, n, None), types.FunctionType) and getattr(core, n) is not getattr(F, n)}


def test_calls_of_all_functions_in_two_languages_are_tried():
    assert in_two_languages() == {name.split()[0] for name in CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_handed_on_gives_the_same(name):
    seen = []

    class Through(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def plain(result):
        return [t.as_subclass(torch.Tensor) for t in (result if isinstance(result, tuple) else (result,))]

    expected = plain(CALLS[name](ROWS))
    with Through():
        through = plain(CALLS[name](ROWS))
    handed = plain(CALLS[name](ROWS.as_subclass(Plain)))
    for found in (through, handed):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    assert seen


def test_a_handler_of_a_loss_has_its_public_arguments():
    seen = []

    class Handler(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func, len(args), kwargs))
            return super().__torch_function__(func, types, args, kwargs or {})

    F.mse_loss(ROWS.as_subclass(Handler), POSITIVE, reduction="sum")
    assert (F.mse_loss, 2, {"reduction": "sum"}) in seen
