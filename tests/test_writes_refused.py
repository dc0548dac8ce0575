"""What an in-place form or an `out=` refuses is no write: every form of every op is called with arguments that do not belong together."""

from __future__ import annotations

import pytest
from op_samples import call, samples
from test_ops import dtype_of, rng_for, tensors
from test_writes import each_in_place, each_out, run_in_place

import facula

pytestmark = pytest.mark.filterwarnings("ignore")


#: kernels that find an index out of range have written what came before it, as in PyTorch; they count that
HALFWAY = ["index_add", "index_copy", "index_fill_int_Tensor", "index_fill_int_Scalar", "index_put", "index_reduce", "put", "scatter_src", "scatter_value",
           "scatter_reduce", "scatter_value_reduce", "scatter_add", "scatter_reduce_two"]  # fmt: skip


#: the result, or one of two, lies in `out=` already where these look at elements, at their own argument, or at the other `out=`
OUT_BEGUN = [*HALFWAY, "bernoulli", "cummax", "cummin", "gather", "index_select", "kthvalue", "masked_scatter", "mode", "normal_Tensor_Tensor",
             "normal_Tensor_float", "normal_float_Tensor", "randint", "randint_low", "sort", "sort_stable", "take", "topk"]  # fmt: skip


def spoiled(given, target):
    """Arguments of a call with one of them exchanged by what may not fit."""
    wrong_tensors = [facula.ones(7, 5, 1, 1, 3, dtype=target.dtype), facula.ones(2, dtype=facula.complex64), facula.ones((), dtype=facula.float64),
                     facula.full((3,), 1 << 50), facula.ones(target.shape, dtype=facula.bool), facula.ones(0), target]  # fmt: skip
    for place, value in enumerate(given):
        if isinstance(value, facula.Tensor):
            wrong = wrong_tensors
        elif isinstance(value, (bool, int, float, complex)):
            wrong = [1j, 1e300, -77, None, float("nan"), "sum"]
        elif isinstance(value, (list, tuple)):
            wrong = [[], [1 << 50], [[1, 2], 3], None, [facula.full((3,), 1 << 50)], [facula.ones(7, 5, 3, dtype=facula.bool)]]
        else:
            wrong = ["nothing", 1j]
        yield from ([*given[:place], other, *given[place + 1 :]] for other in wrong)


def refused(write, targets):
    """Whether a call raises; then nothing of the tensors has changed that their versions do not tell."""
    seen = [(t._version, t.shape, t.stride(), t.data_ptr(), t.clone()) for t in targets]
    try:
        write()
    except (RuntimeError, IndexError, ValueError, TypeError):
        same = [t.shape == shape and t.stride() == stride and facula.equal(t, was) for t, (_, shape, stride, _, was) in zip(targets, seen)]
        return [(t._version - version, kept) for t, (version, *_), kept in zip(targets, seen, same)]
    return None


@each_in_place
def test_in_place_does_not_count_what_is_refused(op):
    for args, kwargs in samples(op, dtype_of(op), rng_for(op)):
        if not args or not isinstance(args[0], facula.Tensor):
            continue
        names = list(kwargs)
        for dtype in {args[0].dtype, facula.int64, facula.bool, facula.float16}:
            start = args[0].to(dtype)
            for given in spoiled([*args[1:], *kwargs.values()], start):
                target = start.clone()
                positional, named = given[: len(args) - 1], dict(zip(names, given[len(args) - 1 :]))
                found = refused(lambda t=target, a=positional, k=named: run_in_place(op, t, [t, *a], k), [target])
                for counted, kept in found or ():
                    assert (counted, kept) == (0, True) or (op.id in HALFWAY and counted == 1), (op.id, given, dtype)


@each_out
def test_out_does_not_count_what_is_refused(op):
    for args, kwargs in samples(op, dtype_of(op), rng_for(op)):
        expected = call(op, *args, **kwargs)
        single, names = isinstance(expected, facula.Tensor), list(kwargs)
        for dtype in (None, facula.int64, facula.bool):
            for given in [[*args, *kwargs.values()], *spoiled([*args, *kwargs.values()], tensors(expected)[0])]:
                targets = [facula.zeros(t.shape, dtype=dtype or t.dtype) for t in tensors(expected)]
                positional, named = given[: len(args)], dict(zip(names, given[len(args) :]))
                out = targets[0] if single else tuple(targets)
                found = refused(lambda a=positional, k=named, out=out: call(op, *a, **k, out=out), targets)
                for counted, kept in found or ():
                    assert (counted, kept) == (0, True) or (op.id in OUT_BEGUN and counted == 1), (op.id, given, dtype)


def test_packed_weights_and_saved_values_outlive_what_is_refused():
    wrong = [lambda x: x.masked_fill_(facula.ones(7, 5, dtype=facula.bool), 0.0), lambda x: x.clamp_(), lambda x: x.fill_(1j), lambda x: x.bernoulli_(2.0),
             lambda x: x.index_fill_(0, facula.tensor([0]), 1j), lambda x: x.__setitem__(facula.ones(9, dtype=facula.bool), 1.0),
             lambda x: x.index_put_((facula.tensor([9]), facula.tensor([0])), facula.ones(1)), lambda x: x.resize_(-1)]  # fmt: skip
    for write in wrong:
        leaf = facula.ones(4, 4, requires_grad=True)
        value = facula.ones(4, 4)
        product = (leaf * value).sum()
        with pytest.raises((RuntimeError, IndexError)):
            write(value)
        assert value._version == 0
        product.backward()
        assert leaf.grad.eq(1).all()


def test_what_a_kernel_finds_halfway_is_counted():
    x = facula.zeros(3)
    with pytest.raises(IndexError):
        x.index_add_(0, facula.tensor([0, 9]), facula.ones(2))
    assert x.tolist() == [1.0, 0.0, 0.0] and x._version == 1


def test_history_stays_where_a_write_is_refused():
    x = facula.ones(3, requires_grad=True) * 2
    with pytest.raises(RuntimeError):
        x.fill_(1j)
    assert x._version == 0 and x.grad_fn.name() == "MulBackward0"
