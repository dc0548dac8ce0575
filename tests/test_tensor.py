"""The tensor as a Python object: conversions, identity, copies, pickling, subclasses, constructors, storages."""

import copy
import gc
import math
import pickle
import weakref

import numpy as np
import pytest

import facula as torch

# Conversions


def test_to_returns_self_when_nothing_changes():
    x = torch.tensor([1.0, 2.0])
    assert x.to(torch.float32) is x and x.to("cpu") is x and x.to(x) is x and x.float() is x and x.cpu() is x
    assert x.to(device="cpu", dtype=torch.float32) is x


def test_to_copies_when_told():
    x = torch.tensor([1.0, 2.0])
    y = x.to(torch.float32, copy=True)
    y[0] = 9
    assert x.tolist() == [1.0, 2.0] and y.data_ptr() != x.data_ptr()
    assert x.to("cpu", None, False, True).data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    ("method", "dtype"),
    [("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("int", "int32"), ("long", "int64"),
     ("short", "int16"), ("char", "int8"), ("byte", "uint8"), ("bool", "bool"), ("cfloat", "complex64"),
     ("cdouble", "complex128")],
)  # fmt: skip
def test_conversion_methods(method, dtype):
    x = torch.tensor([1.0, 2.0])
    wanted = getattr(torch, dtype)
    assert getattr(x, method)().dtype is wanted
    assert x.to(wanted).dtype is wanted and x.to("cpu", wanted).dtype is wanted and x.type(wanted).dtype is wanted


def test_conversion_is_differentiable():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x.to(torch.float64) * torch.tensor([3.0, 5.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [3.0, 5.0] and x.grad.dtype is torch.float32


def test_to_meta_and_back():
    x = torch.ones(2, 3).to("meta")
    assert x.is_meta and x.shape == (2, 3)
    with pytest.raises(NotImplementedError, match="^to: a meta tensor"):
        x.to("cpu")


@pytest.mark.parametrize("call", [lambda x: x.to(3.5), lambda x: x.to("cpu", 3), lambda x: x.to(dtype="float"),
                                  lambda x: x.float(1), lambda x: x.to(wrong=1)])  # fmt: skip
def test_to_rejects(call):
    with pytest.raises(TypeError):
        call(torch.ones(2))


@pytest.mark.parametrize("method", ["size", "stride", "is_contiguous", "requires_grad_"])
def test_methods_of_one_argument_take_no_other(method):
    call = getattr(torch.ones(2, 3), method)
    with pytest.raises(TypeError, match=f"{method}: expected at most .*, got 2 arguments"):
        call(0, 1)
    with pytest.raises(TypeError, match=f"{method}: expected .*, got other"):
        call(other=0)
    assert torch.ones(2, 3).size(dim=1) == torch.ones(2, 3).stride(dim=0) == 3
    assert torch.ones(2, 3).is_contiguous(memory_format=None)
    with pytest.raises(TypeError, match="requires_grad_: requires_grad is a bool, got None"):
        torch.ones(2).requires_grad_(None)


def test_cuda_says_what_is_missing():
    with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
        torch.ones(2).cuda()


def test_type_names():
    x = torch.ones(2)
    assert x.type() == "torch.FloatTensor" and x.long().type() == "torch.LongTensor"
    assert x.type("torch.DoubleTensor").dtype is torch.float64 and x.type(torch.IntTensor).dtype is torch.int32
    assert x.type_as(torch.ones(1, dtype=torch.int8)).dtype is torch.int8
    with pytest.raises(ValueError):
        x.type("torch.NoSuchTensor")


# Constructors


def test_tensor_constructor():
    assert torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor().shape == (0,)
    assert torch.Tensor([1, 2]).dtype is torch.float32 and torch.Tensor((2, 3)).tolist() == [2.0, 3.0]
    assert torch.Tensor(torch.Size([2, 3])).shape == (2, 3)
    assert torch.Tensor(np.array([1, 2])).tolist() == [1.0, 2.0]
    x = torch.tensor([1, 2])
    assert torch.Tensor(x).data_ptr() == x.data_ptr()
    for wrong in (3.5, None, {}):
        with pytest.raises(TypeError, match=r"^Tensor\(\)"):
            torch.Tensor(wrong)


def test_legacy_types():
    assert torch.LongTensor([1, 2]).dtype is torch.int64 and torch.DoubleTensor(2, 2).shape == (2, 2)
    assert isinstance(torch.ones(2), torch.FloatTensor) and not isinstance(torch.ones(2), torch.LongTensor)
    assert type(torch.FloatTensor(2)) is torch.Tensor and repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>"
    with pytest.raises(TypeError, match="float32"):
        torch.FloatTensor(torch.ones(2, dtype=torch.float64))


def test_relatives():
    x = torch.ones(2, dtype=torch.float64)
    assert x.new(2, 3).dtype is torch.float64 and x.new([1, 2]).tolist() == [1.0, 2.0]
    assert x.new_tensor([1, 2]).dtype is torch.float64 and x.new_tensor([1], dtype=torch.int8).dtype is torch.int8


# Identity, attributes, collection


def test_same_object_comes_back():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    assert y.grad_fn.next_functions[0][0].variable is x
    assert x.T._base is x


def test_attributes_and_weak_references():
    x = torch.ones(2)
    x.tag = "kept"
    reference = weakref.ref(x)
    assert reference() is x and x.__dict__ == {"tag": "kept"}
    del x
    gc.collect()
    assert reference() is None


def test_cycles_are_collected():
    x = torch.ones(2)
    x.me = x
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_slots_and_del():
    gone = []

    class Slotted(torch.Tensor):
        __slots__ = ("note",)

        def __del__(self):
            gone.append(self.note)

    x = torch.ones(2).as_subclass(Slotted)
    x.note = "bye"
    assert x.note == "bye"
    del x
    gc.collect()
    assert gone == ["bye"]


def test_hash_is_identity():
    x, y = torch.ones(2), torch.ones(2)
    assert len({x, y, x}) == 2 and hash(x) == hash(x)


# Copies and pickles


def test_copy_shares_and_deepcopy_does_not():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    x.tag = [1]
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow is not x and shallow.data_ptr() == x.data_ptr() and shallow.requires_grad and shallow.tag is x.tag
    assert deep.data_ptr() != x.data_ptr() and deep.requires_grad and deep.tag == [1] and deep.tag is not x.tag


def test_deepcopy_keeps_shared_memory_and_gradients():
    x = torch.arange(4.0)
    pair = copy.deepcopy([x, x[1:]])
    pair[1][0] = 9
    assert pair[0].tolist() == [0.0, 9.0, 2.0, 3.0] and x.tolist() == [0.0, 1.0, 2.0, 3.0]
    y = torch.ones(2, requires_grad=True)
    (y * 3).sum().backward()
    assert copy.deepcopy(y).grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="^deepcopy"):
        copy.deepcopy(y * 2)


class Sub(torch.Tensor):
    pass


def round_trip(value):
    return pickle.loads(pickle.dumps(value))


def test_pickle():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = round_trip(x)
    assert y.tolist() == x.tolist() and y.requires_grad
    for dtype in (torch.bfloat16, torch.float16, torch.complex64, torch.bool, torch.uint16):
        z = torch.tensor([0.0, 1.0]).to(dtype)
        assert round_trip(z).dtype is dtype and round_trip(z).tolist() == z.tolist()


def test_pickle_of_a_subclass():
    x = torch.ones(2).as_subclass(Sub)
    x.tag = 3
    y = round_trip(x)
    assert type(y) is Sub and y.tag == 3 and y.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["float32", "int64", "strided", "channels_last", "contiguous_format"])
def test_pickle_of_constants(name):
    value = getattr(torch, name)
    assert round_trip(value) is value and copy.deepcopy(value) is value


def test_pickle_of_values():
    assert round_trip(torch.Size([1, 2])) == torch.Size([1, 2]) and type(round_trip(torch.Size([1]))) is torch.Size
    assert round_trip(torch.device("meta")) == torch.device("meta")
    generator = torch.Generator().manual_seed(5)
    assert round_trip(generator).initial_seed() == 5


# Python's protocols


def test_iteration_and_membership():
    x = torch.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]] and len(x) == 2
    assert 3 in x and 9 not in x and torch.tensor(4) in x
    with pytest.raises(TypeError):
        iter(torch.tensor(1))
    with pytest.raises(RuntimeError):
        "a" in x  # noqa: B015


def test_numbers():
    assert int(torch.tensor(2.9)) == 2 and float(torch.tensor(2)) == 2.0 and complex(torch.tensor(1.5)) == 1.5 + 0j
    assert [10, 20, 30][torch.tensor(1)] == 20 and bool(torch.tensor([0.0])) is False
    with pytest.raises(RuntimeError):
        bool(torch.ones(2))
    with pytest.raises(TypeError):
        [1, 2][torch.tensor(1.0)]
    assert f"{torch.tensor(1.25):.1f}" == "1.2"


def test_reflected_operators():
    x = torch.tensor([1.0, 2.0, 4.0])
    assert (2 - x).tolist() == [1.0, 0.0, -2.0] and (2 / x).tolist() == [2.0, 1.0, 0.5]
    assert (2**x).tolist() == [2.0, 4.0, 16.0] and (5 % x).tolist() == [0.0, 1.0, 1.0]
    assert x.__rsub__(2).tolist() == [1.0, 0.0, -2.0] and x.__rdiv__(2).tolist() == [2.0, 1.0, 0.5]
    assert x.__radd__(1).tolist() == [2.0, 3.0, 5.0] and x.__rmatmul__(x).item() == 21.0
    y = torch.tensor([1, 2, 4])
    assert y.__rand__(3).tolist() == [1, 2, 0] and (3 ^ y).tolist() == [2, 1, 7] and (1 << y).tolist() == [2, 4, 16]


def test_comparison_with_strangers():
    x = torch.ones(2)
    assert (x == None) is False and (x != None) is True  # noqa: E711
    with pytest.raises(TypeError):
        x < "a"  # noqa: B015


# Other memory


def test_set_():
    x, y = torch.arange(6.0), torch.zeros(1)
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1.0, 2.0], [3.0, 4.0]] and y.is_set_to(x.as_strided((2, 2), (2, 1), 1))
    with pytest.raises(RuntimeError, match="^set_"):
        y.set_(x.untyped_storage(), 5, (2,), (1,))
    assert y.set_().shape == (0,)


def test_data_is_taken_with_its_conjugation():
    x, y = torch.tensor([1 + 2j, 3j]), torch.zeros(3, dtype=torch.complex64)
    y.data = x.conj()
    assert y.is_conj() and y.equal(x.conj()) and (y * 1).tolist() == [1 - 2j, -3j]
    y.data = x
    assert not y.is_conj() and y.equal(x)


def test_share_memory():
    x = torch.arange(5.0)
    view = x[1:3]
    del view
    assert not x.is_shared() and x.share_memory_() is x and x.is_shared() and x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    y = torch.arange(5.0)
    held = y.detach()
    with pytest.raises(RuntimeError, match="^share_memory_"):
        y.share_memory_()
    assert held.tolist() == y.tolist()


def test_detach():
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).detach()
    assert not y.requires_grad and y.grad_fn is None
    z = x * 2
    assert z.detach_() is z and z.is_leaf and not z.requires_grad


# Subclasses


def test_results_take_the_subclass():
    x = Sub([1.0, 2.0])
    assert type(x) is Sub and type(x + 1) is Sub and type(1 - x) is Sub and type(x[0]) is Sub and type(x.T) is Sub
    assert type(x.to(torch.float64)) is Sub and type(x.detach()) is Sub and type(torch.relu(x)) is Sub
    assert type(x.as_subclass(torch.Tensor)) is torch.Tensor
    assert all(type(part) is Sub for part in x.unbind(0))
    assert type(torch.ones(2) + x) is Sub and type(copy.deepcopy(x)) is Sub


# Functions about objects


def test_questions():
    assert torch.is_tensor(torch.ones(1)) and not torch.is_tensor(1)
    assert torch.is_storage(torch.ones(1).untyped_storage()) and torch.is_storage(torch.ones(1).storage())
    assert (
        torch.is_floating_point(torch.ones(1))
        and not torch.is_complex(torch.ones(1))
        and torch.numel(torch.ones(2, 3)) == 6
    )
    assert torch.typename(torch.ones(1)) == "torch.FloatTensor" and torch.typename(3) == "int"
    assert torch.is_nonzero(torch.tensor(2.0))
    with pytest.raises(RuntimeError):
        torch.is_nonzero(torch.ones(2))


def test_limits():
    f16 = torch.finfo(torch.float16)
    assert (f16.bits, f16.max, f16.min, f16.eps, f16.tiny, f16.resolution) == (16, 65504, -65504, 2**-10, 2**-14, 1e-3)
    for dtype, numpy_dtype in ((torch.float32, np.float32), (torch.float64, np.float64)):
        ours, theirs = torch.finfo(dtype), np.finfo(numpy_dtype)
        assert (ours.max, ours.eps, ours.tiny, ours.bits) == (theirs.max, theirs.eps, theirs.tiny, theirs.bits)
    assert torch.finfo(torch.complex64) == torch.finfo(torch.float32) == torch.finfo()
    assert (torch.iinfo(torch.int8).min, torch.iinfo(torch.uint64).max) == (-128, 2**64 - 1)
    assert repr(torch.iinfo(torch.int64)) == "iinfo(min=-9.22337e+18, max=9.22337e+18, dtype=int64)"
    for wrong in (lambda: torch.finfo(torch.int8), lambda: torch.iinfo(torch.float32), lambda: torch.iinfo(torch.bool),
                  lambda: torch.finfo(3)):  # fmt: skip
        with pytest.raises(TypeError):
            wrong()


def test_promotion_questions():
    assert torch.promote_types(torch.int8, torch.uint8) is torch.int16
    assert torch.can_cast(torch.float64, torch.float32) and not torch.can_cast(torch.float32, torch.int64)
    assert torch.result_type(torch.tensor([1]), 1.5) is torch.float32
    assert torch.result_type(torch.ones(1, dtype=torch.float16), torch.tensor(1.0)) is torch.float16
    assert torch.broadcast_shapes((2, 1), 3, (1, 3)) == (2, 3)
    with pytest.raises(RuntimeError):
        torch.broadcast_shapes((2,), (3,))


def test_default_device():
    with torch.device("meta"):
        assert torch.ones(2).is_meta and torch.tensor([1.0]).is_meta and torch.empty(1, device="cpu").is_cpu
        assert torch.get_default_device().type == "meta"
    torch.set_default_device("meta")
    try:
        assert torch.zeros(1).is_meta
    finally:
        torch.set_default_device(None)
    assert torch.zeros(1).is_cpu and torch.get_default_device().type == "cpu"


def test_random_state():
    torch.manual_seed(3)
    assert torch.initial_seed() == 3
    state = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.manual_seed(9)
    assert torch.get_rng_state().tolist() == state.tolist()


def test_settings():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert torch.are_deterministic_algorithms_enabled() and torch.get_deterministic_debug_mode() == 1
    finally:
        torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(ValueError):
        torch.set_float32_matmul_precision("low")


def test_cpu_memory():
    torch.cpu.empty_cache()
    before, cached = torch.cpu.memory_allocated(), torch.cpu.memory_stats()["cached_bytes"]  # beside what other tests hold
    x = torch.empty(1 << 20)
    assert torch.cpu.memory_allocated() - before >= 4 << 20
    del x
    assert torch.cpu.memory_allocated() - before < 4 << 20
    torch.cpu.empty_cache()
    assert torch.cpu.memory_stats()["cached_bytes"] - cached < 1 << 20 and "CPU memory" in torch.cpu.memory_summary()


@pytest.mark.parametrize("n", [6, 40_000])
def test_small_writes_in_place_refuse_what_large_ones_do(n):
    a = torch.ones(n)
    version = a._version
    assert a.add_(a) is a and a.mul_(2.0) is a and a.sub_(torch.ones(n), alpha=2) is a
    assert a.sum().item() == 2 * n and a._version == version + 3
    with pytest.raises(RuntimeError, match="^add"):
        a[1:].add_(a[:-1])
    with pytest.raises(RuntimeError, match="^add"):
        torch.ones(1).expand(n).add_(1)
    with pytest.raises(RuntimeError, match="^add"):
        torch.ones(n, dtype=torch.int64).add_(0.5)
    with pytest.raises(RuntimeError, match="^eq|^add"):
        a.add_(torch.ones(n), alpha=1j)
    with pytest.raises(RuntimeError, match="^mul_"):
        torch.ones(n).mul_(torch.ones(2, n))
    fixed = np.ones(n, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        torch.as_tensor(fixed).add_(1)
    assert torch.ones(n, dtype=torch.int64).bitwise_and_(3).sum().item() == n
    assert (torch.arange(n) > 2).logical_not_().sum().item() == 3


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(4, 4), (3, 1), (70, 3)])
def test_cat_and_stack_of_short_pieces(shape, dim):
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    t = torch.from_numpy(a.copy())
    for parts, arrays in (
        ([t, t + 1], [a, a + 1]),
        ([t, torch.empty(0), t], [a, a]),
        ([t, (t + 2).t().contiguous().t()], [a, a + 2]),
        ([t, t.double()], [a, a.astype(np.float64)]),
    ):
        got = torch.cat(parts, dim)
        expected = np.concatenate(arrays, dim)
        assert got.numpy().dtype == expected.dtype and (got.numpy() == expected).all()
    assert (torch.stack([t, t + 1, t], dim).numpy() == np.stack([a, a + 1, a], dim)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_conversion_to_uint64_is_the_same_at_every_level(dtype):
    """What lies out of range, too, in the vectorized part and in the rest."""
    values = [-1.5, -3.0, 0.0, 2.5, 2.0**63, 1.5 * 2.0**63, math.inf, math.nan]
    expected = [2**64 - 1, 2**64 - 3, 0, 2, 2**63, 3 * 2**62, 0, 2**63]
    for repeats in (1, 9):
        converted = torch.tensor(values * repeats, dtype=dtype).to(torch.uint64)
        assert converted.tolist() == expected * repeats


def test_polygamma_in_place_refuses_integers():
    with pytest.raises(RuntimeError, match="polygamma_: .*result type float32 can't be cast to int64"):
        torch.tensor([1, 2]).polygamma_(1)


def _derived_from(base):
    class Derived(base):
        mark = 7

    return Derived


def _instance_of(cls):
    if issubclass(cls, torch.Tensor):
        return torch.ones(2).as_subclass(cls)
    return cls(3)


@pytest.mark.parametrize("base", [torch.Tensor, torch.nn.Parameter, torch.UntypedStorage], ids=lambda base: base.__name__)
def test_the_collector_counts_an_instance_once_for_its_class(base):
    """Counted twice, a class whose instances are garbage was cleared: it lost all its attributes."""
    assert sum(found is base for found in gc.get_referents(_instance_of(_derived_from(base)))) == 0
    older = {"filled": []}
    gc.collect()
    gc.disable()
    try:
        for count in range(1, 6):
            older[count] = _derived_from(base)
            assert sum(found is older[count] for found in gc.get_referents(_instance_of(older[count]))) <= 1
            for _ in range(count):
                instance = _instance_of(older[count])
                instance.me = instance
            gc.collect(0)
            assert _instance_of(older[count]).mark == 7
    finally:
        gc.enable()
