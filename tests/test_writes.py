"""Every form of every op that writes into a given tensor: counted once, refused where memory must not be written, seen by
what reads later (gradients, packed weights)."""

from __future__ import annotations

import copy
import re
import warnings
from pathlib import Path

import numpy as np
import packed_weights_cases as cases
import pytest
from op_samples import all_ops, call, samples
from test_ops import callable_ops, dtype_of, rng_for, tensors

import facula
import facula.nn.functional as F
from facula import nn

# ---- forms: (op, form), and for each sample of the op a target and what writes to it


def run_in_place(op, target, args, kwargs):
    if op.name.endswith("_"):
        return call(op, target, *args[1:], **kwargs)
    name = (op.names[0].rpartition(".")[2] if op.names else op.name) + "_"
    rest = {k: v for k, v in kwargs.items() if k != "input"}
    if "method" in op.variants:
        return getattr(target, name)(*args[1:], **rest)
    home = next(h for h in (facula._C, facula._C._ops, F) if hasattr(h, name))
    return getattr(home, name)(target, *args[1:], **rest)


def in_place_cases(op):
    """(target, write) of each sample whose result fits into its first argument."""
    for args, kwargs in samples(op, dtype_of(op), rng_for(op)):
        args = list(args)
        if not args and "input" in kwargs:
            args.append(kwargs["input"])
        if not args or not isinstance(args[0], facula.Tensor):
            continue
        target = args[0].clone()
        try:
            run_in_place(op, args[0].clone(), args, kwargs)
        except RuntimeError as error:
            if "fit in place" in str(error) or "cannot be written into" in str(error):
                continue
            raise
        yield target, lambda t, args=args, kwargs=kwargs: run_in_place(op, t, args, kwargs)


def out_cases(op):
    """([target, ...], write) of each sample."""
    for args, kwargs in samples(op, dtype_of(op), rng_for(op)):
        expected = call(op, *args, **kwargs)
        targets = [facula.zeros(t.shape, dtype=t.dtype) for t in tensors(expected)]
        single = isinstance(expected, facula.Tensor)
        yield targets, lambda ts, args=args, kwargs=kwargs, single=single: call(op, *args, **kwargs, out=ts[0] if single else tuple(ts))


def is_in_place(op):
    mutates = op.name.endswith("_") and not op.name.endswith("__")
    return (mutates or "inplace" in op.variants) and op.topic != "sparse"


VIEWS = [op for op in callable_ops() if is_in_place(op) and op.kind == "view"]
NAMELESS = ["silu", "mish", "hardsigmoid", "hardswish", "_nan_to_num"]  # their in-place forms are reached through others: F.silu(inplace=True), nan_to_num_
IN_PLACE = [op for op in callable_ops() if is_in_place(op) and op.kind != "view" and op.id not in NAMELESS]
OUT = [op for op in callable_ops() if "out" in op.variants and op.topic != "sparse"]
NEVER_FIT = []  # results of another dtype or shape than their first argument has, in all samples
COMPOSED = ["alpha_dropout_", "feature_alpha_dropout_"]  # of several writes, as in PyTorch
pytestmark = pytest.mark.filterwarnings("ignore:range")
each_in_place = pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.id)
each_out = pytest.mark.parametrize("op", OUT, ids=lambda op: op.id)
SHARED_PLACES = [op.id for op in all_ops() if "shared_places" in op.checks]


def read_only(tensor):
    """The same values on memory that must not be written, and a function that gives its bytes."""
    array = tensor.resolve_conj().numpy()
    data = array.tobytes() or b"\0"
    shown = np.frombuffer(data, array.dtype, array.size).reshape(array.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return facula.from_numpy(shown), lambda: shown.tobytes()


@each_in_place
def test_in_place_counts_once(op):
    count = 0
    for target, write in in_place_cases(op):
        before = target._version
        write(target)
        assert target._version == before + 1 or (op.id in COMPOSED and target._version > before)
        count += 1
    assert count or op.id in NEVER_FIT


@pytest.mark.parametrize("op", VIEWS, ids=lambda op: op.id)
def test_another_view_in_place_counts(op):
    for target, write in in_place_cases(op):
        before = target._version
        write(target)
        assert target._version == before + 1


@each_out
def test_out_counts_once(op):
    for targets, write in out_cases(op):
        before = [t._version for t in targets]
        write(targets)
        assert [t._version for t in targets] == [b + 1 for b in before]


@each_out
def test_out_that_is_resized_or_copied_counts_once(op):
    for targets, write in out_cases(op):
        fresh = [facula.empty(0, dtype=t.dtype) for t in targets]
        strided = [facula.zeros((*t.shape, 2), dtype=t.dtype)[..., 0] for t in targets]
        for given in (fresh, strided):
            before = [t._version for t in given]
            write(given)
            assert [t._version for t in given] == [b + 1 for b in before]


@each_in_place
def test_in_place_refuses_read_only_memory(op):
    for target, write in in_place_cases(op):
        held, data = read_only(target)
        before = data()
        with pytest.raises(RuntimeError, match="read-only"):
            write(held)
        assert data() == before


@each_out
def test_out_refuses_read_only_memory(op):
    for targets, write in out_cases(op):
        for k in range(len(targets)):
            given = [t.clone() for t in targets]
            given[k], data = read_only(given[k])
            before = data()
            with pytest.raises(RuntimeError, match="read-only"):
                write(given)
            assert data() == before


@each_in_place
def test_in_place_refuses_elements_that_share_a_place(op):
    if op.id in SHARED_PLACES:
        return
    for target, write in in_place_cases(op):
        if target.numel() < 2:
            continue
        with pytest.raises(RuntimeError, match="same place"):
            write(target.flatten()[:1].reshape((1,) * target.dim()).expand(target.shape))


@each_out
def test_out_refuses_elements_that_share_a_place(op):
    for targets, write in out_cases(op):
        if targets[0].numel() < 2:
            continue
        shared = facula.zeros((1,) * targets[0].dim(), dtype=targets[0].dtype).expand(targets[0].shape)
        if op.id in SHARED_PLACES and op.kind == "factory":  # all elements get one value
            write([shared, *targets[1:]])
            assert facula.equal(shared, shared.clone())
            continue
        with pytest.raises(RuntimeError, match="same place"):
            write([shared, *targets[1:]])


@each_in_place
def test_in_place_refuses_inference_tensors(op):
    for target, write in in_place_cases(op):
        with facula.inference_mode():
            made = target.clone()
        with pytest.raises(RuntimeError, match="inference tensor"):
            write(made)


@each_out
def test_out_refuses_inference_tensors(op):
    for targets, write in out_cases(op):
        with facula.inference_mode():
            made = [t.clone() for t in targets]
        with pytest.raises(RuntimeError, match="inference tensor"):
            write(made)


def writes_that_backward_must_see():
    yield from ((op, target, lambda t, write=write: write(t)) for op in IN_PLACE for target, write in in_place_cases(op))
    for op in OUT:
        for targets, write in out_cases(op):
            yield op, targets[0], lambda t, write=write, rest=targets[1:]: write([t, *rest])


def test_backward_sees_every_write():
    """A value that was saved is as it was, or the pass says who wrote."""
    seen = 0
    for op, target, write in writes_that_backward_must_see():
        if not target.is_floating_point():
            continue
        leaf = facula.ones_like(target, requires_grad=True)
        product = leaf * target
        with facula.no_grad():
            write(target)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
        seen += 1
        assert leaf.grad is None, op.id
    assert seen > 300


# ---- out= with gradients, dtypes and memory


def test_out_and_gradients():
    wants = facula.ones(3, requires_grad=True)
    for write in (lambda: facula.sort(wants, out=(facula.zeros(3), facula.zeros(3, dtype=facula.int64))),
                  lambda: facula.add(facula.ones(3), 1, out=wants), lambda: facula.zeros(3, out=wants)):  # fmt: skip
        with pytest.raises(RuntimeError, match="out= has no derivative, so no argument may require grad"):
            write()
    assert facula.gt(wants, 0, out=facula.zeros(3, dtype=facula.bool)).all()  # nothing to record
    assert facula.argmax(wants, out=facula.zeros((), dtype=facula.int64)) == 0
    with facula.no_grad():
        facula.add(facula.ones(3), 1, out=wants)
    assert wants.tolist() == [2, 2, 2]


@pytest.mark.parametrize("make", [lambda **k: facula.zeros(3, **k), lambda **k: facula.arange(3.0, **k),
                                  lambda **k: facula.randn(3, **k), lambda **k: facula.full((3,), 2.0, **k)])  # fmt: skip
def test_factories_with_out(make):
    assert make(out=facula.zeros(3), requires_grad=True).requires_grad
    assert not make(out=facula.zeros(3)).requires_grad
    with pytest.raises(RuntimeError, match="dtype"):
        make(out=facula.zeros(3), dtype=facula.float64)
    with pytest.raises(RuntimeError, match="device"):
        make(out=facula.zeros(3), device="meta")


@pytest.mark.parametrize(("name", "args"), [("arange", (0, 6)), ("linspace", (0, 5, 6)), ("range", (0, 5)), ("logspace", (0, 5, 6, 1))])
@pytest.mark.filterwarnings("ignore")
def test_sequences_stay_inside_of_a_view(name, args):
    whole = facula.full((3, 4), -1.0)
    part = whole.narrow(1, 1, 2)
    assert getattr(facula, name)(*args, out=part) is part
    expected = getattr(facula, name)(*args, dtype=facula.float32)
    assert part.shape == (3, 2) and part.flatten().tolist() == expected.tolist()
    assert (whole[:, 0] == -1).all() and (whole[:, 3] == -1).all()


def test_narrow_floats_are_rounded_before_they_are_widened():
    half = facula.tensor([0.1, 0.2], dtype=facula.float16)
    for name in ("add", "mul"):
        out = getattr(facula, name)(half, half, out=facula.zeros(2, dtype=facula.float64))
        assert out.tolist() == getattr(facula, name)(half, half).tolist()


@pytest.mark.parametrize("dtype", ["int64", "bool", "float64", "float16"])
def test_bernoulli_into_other_dtypes(dtype):
    out = facula.zeros(3, dtype=getattr(facula, dtype))
    assert facula.bernoulli(facula.ones(3), out=out).tolist() == [1, 1, 1] and out.dtype == getattr(facula, dtype)


def test_results_written_to_out_have_types_of_their_own():
    made = facula.max(facula.eye(2), 0, out=(facula.zeros(2), facula.zeros(2, dtype=facula.int64)))
    assert type(made).__name__ == "max_out" and type(made) is facula.return_types.max_out
    assert facula.return_types.sort_out is not facula.return_types.sort


def test_product_of_one_matrix_goes_to_out():
    out = facula.zeros(2, 2)
    assert facula.chain_matmul(facula.eye(2), out=out) is out and out.tolist() == [[1, 0], [0, 1]]


OVERLAPS = {
    "mm": lambda x: ((x, x), x),
    "mm_of_data": lambda x: ((x, x), x.data),
    "cumsum": lambda x: ((x, 0), x.flip(0).T),
    "add_transposed_part": lambda x: ((x[:, :2], x[:, 1:]), x[:, :2]),
    "index_select": lambda x: ((x, 0, facula.tensor([2, 1, 0])), x),
    "sort": lambda x: ((x,), (x, facula.zeros(3, 3, dtype=facula.int64))),
}


@pytest.mark.parametrize("case", OVERLAPS)
def test_results_are_right_where_out_is_an_input(case):
    name = {"mm_of_data": "mm", "add_transposed_part": "add"}.get(case, case)
    args, _ = OVERLAPS[case](facula.arange(9.0).reshape(3, 3).flip(1).contiguous())
    expected = tensors(getattr(facula, name)(*args))[0].clone()
    args, out = OVERLAPS[case](facula.arange(9.0).reshape(3, 3).flip(1).contiguous())
    result = getattr(facula, name)(*args, out=out)
    assert tensors(result)[0].tolist() == expected.tolist()


def test_out_that_is_an_input_is_not_resized():
    x = facula.ones(3)
    with pytest.raises(RuntimeError, match="cannot be resized"):
        facula.add(x, facula.ones(2, 3), out=x)
    assert x.shape == (3,)


def test_out_shows_conjugates():
    memory = facula.zeros(2, dtype=facula.complex64)
    facula.add(facula.tensor([1 + 2j, 3j]), 0, out=memory.conj())
    assert memory.tolist() == [1 - 2j, -3j]
    facula.mv(facula.eye(2, dtype=facula.complex64), facula.tensor([1 + 2j, 3j]), out=memory.conj())
    assert memory.tolist() == [1 - 2j, -3j]


def test_out_is_checked_before_it_is_resized():
    for out in (facula.zeros(1, dtype=facula.int64), facula.zeros(1, device="meta")):
        for write in (lambda out=out: facula.add(facula.ones(3), 1, out=out), lambda out=out: facula.mv(facula.eye(3), facula.ones(3), out=out)):
            with pytest.raises(RuntimeError):
                write()
            assert out.shape == (1,)


def test_a_write_that_is_refused_is_not_counted():
    x = facula.ones(3)
    for write in (lambda: x.add_(facula.ones(4)), lambda: x.copy_(facula.ones(2)), lambda: x.add_(1j)):
        with pytest.raises(RuntimeError):
            write()
    assert x._version == 0


# ---- who writes besides ops

OPTIMIZERS = ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD"]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_count_and_refuse(kind):
    parameter = nn.Parameter(facula.ones(4))
    optimizer = getattr(facula.optim, kind)([parameter], lr=0.1)
    parameter.grad = facula.ones(4)
    before = parameter._version
    optimizer.step()
    assert parameter._version > before
    held, data = read_only(facula.ones(4))
    held.requires_grad_()
    held.grad = facula.ones(4)
    with pytest.raises(RuntimeError, match="read-only"):
        getattr(facula.optim, kind)([held], lr=0.1).step()
    assert data() == np.ones(4, np.float32).tobytes()


def test_scalers_count_and_refuse():
    found, factor = facula.zeros(1), facula.full((1,), 0.5)
    grads = [facula.ones(3), facula.ones(2, 2).t()[:, :1]]
    facula._amp_foreach_non_finite_check_and_unscale_(grads, found, factor)
    assert [g._version for g in grads] == [1, 1]
    held, data = read_only(facula.ones(3))
    with pytest.raises(RuntimeError, match="read-only"):
        facula._amp_foreach_non_finite_check_and_unscale_([held], found, factor)
    assert data() == np.ones(3, np.float32).tobytes()


def test_running_statistics_count_and_refuse():
    layer = nn.BatchNorm1d(2)
    before = layer.running_mean._version, layer.running_var._version
    layer(facula.randn(4, 2))
    assert (layer.running_mean._version, layer.running_var._version) == (before[0] + 1, before[1] + 1)
    held, data = read_only(facula.ones(2))
    mean = facula.zeros(2)
    with pytest.raises(RuntimeError, match="read-only"):
        F.batch_norm(facula.randn(4, 2), mean, held, training=True)
    assert data() == np.ones(2, np.float32).tobytes() and mean.tolist() == [0, 0]


def test_storages_count_and_refuse():
    x = facula.ones(4)
    x.untyped_storage().fill_(0)
    assert x._version == 1
    x.untyped_storage().copy_(facula.ones(4).untyped_storage())
    x.untyped_storage()[3] = 1
    assert x._version == 3
    held, data = read_only(facula.ones(4))
    storage = held.untyped_storage()
    for write in (lambda: storage.fill_(0), lambda: storage.copy_(x.untyped_storage()), lambda: storage.__setitem__(0, 1)):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    assert data() == np.ones(4, np.float32).tobytes()


@pytest.mark.parametrize("key", [0, slice(0, 2), facula.tensor([0, 2]), facula.tensor([True, False, True])], ids=str)
def test_assignments_count_and_refuse(key):
    x = facula.ones(3)
    x[key] = 5
    assert x._version == 1
    held, data = read_only(facula.ones(3))
    with pytest.raises(RuntimeError, match="read-only"):
        held[key] = 5
    assert data() == np.ones(3, np.float32).tobytes()


def test_other_ways_count_and_refuse():
    ways = {
        "copy_": lambda t: t.copy_(facula.zeros(3)),
        "fill_": lambda t: t.fill_(0),
        "zero_": lambda t: t.zero_(),
        "init": lambda t: nn.init.constant_(t, 2),
        "foreach": lambda t: facula._foreach_add_([t], 1),
        "function": lambda t: F.silu(t, inplace=True),
        "composite": lambda t: t.nan_to_num_(),
        "operator": lambda t: t.__iadd__(1),
        "real": lambda t: t.view(3).add_(1),
    }
    for name, write in ways.items():
        x = facula.ones(3)
        write(x)
        assert x._version == 1, name
        held, data = read_only(facula.ones(3))
        with pytest.raises(RuntimeError, match="read-only"):
            write(held)
        assert data() == np.ones(3, np.float32).tobytes(), name


# ---- packed weights


def renews(module, x, write):
    cases.answers(module, x)
    with facula.no_grad():
        write(module)
    assert np.array_equal(cases.answer(module, x), cases.reference(module, x).detach().numpy())


@pytest.mark.parametrize("make", [cases.linear, cases.tiles, cases.pointwise, cases.windows, cases.library])
def test_packed_weights_are_renewed_after_writes_to_out(make):
    module, x = make()
    rows, rest = module.weight.shape[0], module.weight[0].numel()
    flat = module.weight.detach().view(rows, rest)
    factors = facula.randn(rows, 3), facula.randn(3, rest)
    renews(copy.deepcopy(module), x, lambda m: facula.mm(*factors, out=m.weight.detach().view(rows, rest)))
    halves = flat.flip(0).view_as(module.weight).chunk(2)
    renews(copy.deepcopy(module), x, lambda m: facula.cat([h.clone() for h in halves], out=m.weight))
    renews(copy.deepcopy(module), x, lambda m: facula.sort(m.weight.detach().clone(), out=(m.weight, facula.empty(0, dtype=facula.int64))))


# ---- the mechanism


def test_writes_are_counted_by_scopes_only():
    """Who writes takes a WriteScope, which checks as well; nobody counts by hand."""
    root = Path(__file__).resolve().parent.parent
    sources = [p for folder in ("src", "codegen", "include") for p in (root / folder).rglob("*") if p.suffix in (".h", ".cpp", ".py")]
    counting = {str(p.relative_to(root)) for p in sources if re.search(r"(?<!method_)\bbump_version\(", p.read_text())}
    assert counting == {"src/core/storage.h", "src/core/write.h", "src/core/materialize.cpp"}


# ---- copies within one memory


def test_a_copy_whose_source_overlaps_what_is_written_is_refused():
    for write in (lambda x: x.copy_(x.t()), lambda x: x.view(-1)[1:].copy_(x.view(-1)[:-1]), lambda x: x.view(-1).__setitem__(slice(1, 9), x.view(-1)[:8])):
        x = facula.arange(9.0).view(3, 3)
        with pytest.raises(RuntimeError, match="^copy_: the written tensor and an input share"):
            write(x)
        assert x.view(-1).tolist() == list(range(9)) and x._version == 0
    x = facula.arange(4.0)
    x.copy_(x)
    x[:2] = x[2:]
    x[::2] = x[1::2]
    assert x.tolist() == [3.0, 3.0, 3.0, 3.0]
    x = facula.arange(1.0, 4.0)
    assert x.fill_(x[1]).tolist() == [2.0, 2.0, 2.0]


def test_a_copy_between_gaps_has_gradients_and_is_a_loop_under_vmap():
    x = facula.arange(1.0, 7.0, requires_grad=True)
    y = x * 1
    y[::2].copy_(y[1::2])
    y.backward(facula.arange(1.0, 7.0))
    assert y.tolist() == [2, 2, 4, 4, 6, 6] and x.grad.tolist() == [0, 3, 0, 7, 0, 11]

    def shifted(row):
        row = row * 1
        row[1::2].copy_(row[::2])
        return row

    rows = facula.arange(12.0).view(2, 6)
    assert facula.equal(facula.vmap(shifted)(rows), facula.stack([shifted(row) for row in rows]))


def test_a_source_of_another_rank_under_gradients_and_vmap():
    x = facula.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="^index_add"):
        (x * 1).index_add_(0, facula.tensor([0]), facula.tensor(1.0, requires_grad=True))
    added = facula.vmap(lambda row, v: row.index_add(0, facula.tensor([0]), v))(facula.ones(3, 2), facula.ones(3))
    assert added.tolist() == [[2.0, 1.0]] * 3  # a batch of numbers stands for one of vectors, as in PyTorch
