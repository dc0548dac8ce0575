"""Sizes, strides, counts and indices that nobody means: refused with a clear error, computed, or stopped by Ctrl-C."""

import contextlib
import os
import signal
import subprocess

import numpy as np
import pytest

import facula as ft
import facula.nn.functional as F

BIG, MOST = 2**62, 2**63 - 1


def refused(error, text, f, *args, **kwargs):
    with pytest.raises(error, match=text):
        f(*args, **kwargs)


def everywhere(value=0.0):
    """A tensor of 2^62 elements that share one place."""
    return ft.full((1,), value).expand(BIG)


# Sizes, strides and bytes


@pytest.mark.parametrize(
    "make",
    [
        lambda: ft.zeros(4).resize_(BIG),
        lambda: ft.zeros(4).resize_(2**31, 2**31),
        lambda: ft.empty(BIG),
        lambda: ft.empty(2**32, 2**32),
        lambda: ft.empty(BIG, device="meta"),
        lambda: ft.empty_strided((2,), (MOST,)),
        lambda: ft.empty_strided((BIG, 2), (1, BIG)),
        lambda: ft.zeros(16, dtype=ft.uint8).as_strided((5,), (BIG,)),
        lambda: ft.zeros(16).as_strided((2,), (1,), MOST),
        lambda: ft.zeros(16).as_strided((0,), (1,), MOST),
        lambda: ft.zeros(3).set_(ft.zeros(3).untyped_storage(), 0, (5,), (BIG,)),
        lambda: ft.zeros(3).set_(ft.zeros(3).untyped_storage(), MOST, (1,), (1,)),
        lambda: ft.zeros(1).view(2**32, 2**32),
        lambda: ft.cat([everywhere()] * 4 + [ft.zeros(3)]),
        lambda: ft.cat([everywhere()] * 2 + [ft.zeros(3)]),
        lambda: ft.stack([everywhere()] * 4),
        lambda: ft.repeat_interleave(ft.tensor([BIG] * 4)),
        lambda: ft.ones(3).repeat_interleave(BIG),
        lambda: ft.zeros(4).repeat(BIG),
        lambda: ft.zeros(4).tile(BIG),
        lambda: F.pad(ft.zeros(10), (MOST, MOST)),
        lambda: F.pad(ft.zeros(1, 1, 10), (MOST, MOST), mode="replicate"),
        lambda: F.pad(ft.zeros(1, 1, 10), (-MOST - 1, -MOST - 1), mode="replicate"),
        lambda: F.pad(ft.zeros(10), (-MOST - 1, -MOST - 1)),
        lambda: ft.zeros(4).split([MOST, MOST, 6]),
        lambda: ft.zeros(3).narrow(0, 1, MOST),
        lambda: ft.diag(ft.ones(2), BIG),
        lambda: ft.diag_embed(ft.ones(2), MOST),
        lambda: ft.combinations(ft.arange(3), BIG, with_replacement=True),
        lambda: ft.vander(ft.arange(3), BIG),
        lambda: ft.tril_indices(BIG, BIG),
        lambda: ft.arange(0, 2.0**63),
        lambda: ft.arange(BIG, dtype=ft.uint8),
        lambda: ft.linspace(0, 1, BIG),
        lambda: ft.eye(BIG, BIG),
        lambda: ft.histc(ft.zeros(3), BIG),
        lambda: F.one_hot(ft.tensor([BIG])),
        lambda: F.one_hot(ft.tensor([MOST])),
        lambda: F.one_hot(ft.tensor([1]), BIG),
        lambda: F.interpolate(ft.zeros(1, 1, 4), scale_factor=1e18),
        lambda: F.interpolate(ft.zeros(1, 1, 4), scale_factor=1e30),
        lambda: F.interpolate(ft.zeros(1, 1, 4), size=BIG),
        lambda: F.pixel_shuffle(ft.zeros(1, 0, 4, 4), BIG),
        lambda: F.unfold(ft.zeros(1, 1, 4, 4), 2, padding=BIG),
        lambda: F.unfold(ft.zeros(1, 1, 4, 4), 2, padding=2**40),
        lambda: F.unfold(ft.zeros(1, 1, 4, 4), (BIG, BIG), dilation=4),
        lambda: F.fold(ft.zeros(1, 4, 9), (4, 4), 2, padding=BIG),
        lambda: F.fold(ft.zeros(1, 4, 9), (BIG, BIG), 2),
        lambda: F.conv2d(ft.zeros(1, 1, 8, 8), ft.zeros(1, 1, 3, 3), padding=MOST),
        lambda: F.conv2d(ft.zeros(1, 1, 8, 8), ft.zeros(1, 1, 3, 3), dilation=BIG),
        lambda: F.conv2d(ft.zeros(1, 1, 8, 8), ft.zeros(1, 1, 3, 3), padding=2**31),
        lambda: F.conv1d(ft.zeros(1, 1, 8), ft.zeros(1).expand(1, 1, BIG), dilation=2**30),
        lambda: F.conv2d(ft.zeros(1, 1, 8, 8), ft.zeros(1, 1, 3, 3), groups=MOST),
        lambda: F.conv_transpose2d(ft.zeros(1, 1, 8, 8), ft.zeros(1, 1, 3, 3), stride=BIG),
        lambda: F.max_pool2d(ft.zeros(1, 1, 8, 8), BIG),
        lambda: F.adaptive_avg_pool2d(ft.zeros(1, 1, 8, 8), BIG),
        lambda: ft.UntypedStorage(MOST),
        lambda: ft.cdist(everywhere().view(-1, 1), everywhere().view(-1, 1)),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make):
    refused((RuntimeError, ValueError), "got|memory|expected|reach outside|cannot get", make)


def test_frombuffer_with_large_counts():
    refused(ValueError, "frombuffer", ft.frombuffer, bytearray(8), dtype=ft.int64, count=BIG)
    refused(ValueError, "frombuffer", ft.frombuffer, bytearray(8), dtype=ft.uint8, count=MOST, offset=1)
    refused(ValueError, "from_buffer", ft.UntypedStorage.from_buffer, bytearray(8), "native", BIG, 1, dtype=ft.int64)


UNARY = ["sin", "exp", "abs", "neg", "sqrt", "square", "expm1", "logical_not", "sign", "round", "erf", "sigmoid"]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("shape", [(BIG,), (2**31, 2**31)])
def test_elementwise_functions_of_more_elements_than_memory_holds(name, shape):
    x, function = ft.zeros(1).expand(shape), getattr(ft, name)
    refused(RuntimeError, "got|memory|cannot get", function, x, out=ft.empty(0))
    refused(RuntimeError, "got|memory|cannot get", function, x)
    refused(RuntimeError, "got|memory|cannot get", ft.add, x, x, out=ft.empty(0))


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.copy_(ft.ones(1)),
        lambda x: x.random_(),
        lambda x: x.uniform_(),
        lambda x: x.clone(),
        lambda x: x.contiguous(),
        lambda x: x.cumsum(0),
        lambda x: x.sort(),
        lambda x: x.sum(),
        lambda x: x.max(),
        lambda x: x.mean(),
        lambda x: x.any(),
        lambda x: x.argmax(),
        lambda x: x.norm(),
        lambda x: x.var(),
        lambda x: x.median(),
        lambda x: x.count_nonzero(),
        lambda x: x.nonzero(),
        lambda x: x.softmax(0),
        lambda x: x.logsumexp(0),
        lambda x: x.unique(),
        lambda x: x.dot(x),
        lambda x: x.equal(x + 0),
        lambda x: ft.histc(x),
        lambda x: ft.bincount(x.long()),
        lambda x: x.view(2**31, 2**31) @ ft.zeros(1).expand(2**31, 1),
        lambda x: ft.isin(ft.zeros(3), x),
        lambda x: F.nll_loss(x.view(-1, 1), ft.tensor([0]).expand(BIG), reduction="mean"),
    ],
)
def test_what_would_run_for_years_is_refused(write):
    refused(RuntimeError, "got|memory|cannot get", write, everywhere())


def test_fill_writes_shared_places_once():
    x = ft.ones(1, dtype=ft.float64)
    assert x.expand(BIG).zero_().shape == (BIG,) and x.item() == 0
    x.expand(2**31, 2**31).fill_(3)
    assert x.item() == 3


def test_views_of_tensors_without_elements_may_have_any_strides():
    x = ft.zeros(0).as_strided((0, 5), (1, BIG))
    assert x.unsqueeze(1).shape == (0, 1, 5) and x.expand(3, 0, 5).shape == (3, 0, 5)
    assert x[:, 2:].sum() == 0 and x.flip(1).shape == (0, 5) and x.diagonal().shape == (0,)
    assert ft.empty(0, BIG).repeat(1, 1).shape == (0, BIG)
    assert ft.zeros(4).repeat(2**60, 0).shape == (2**60, 0)
    assert ft.zeros(0).view(0, BIG).reshape(-1).shape == (0,)


# Views


def test_slices_with_steps_as_large_as_integers_go():
    x = ft.arange(10)
    assert x[5::MOST].tolist() == [5] and x[::MOST].tolist() == [0] and ft.arange(2)[::MOST].tolist() == [0]
    assert x[::-MOST].tolist() == [9] and x[3:MOST:MOST].tolist() == [3] and x[20::MOST].tolist() == []
    assert ft.arange(12).view(3, 4)[:, 1::MOST].tolist() == [[1], [5], [9]]
    assert x.unfold(0, 2, MOST).tolist() == [[0, 1]]
    x[5::MOST] = 7
    assert x.tolist() == [0, 1, 2, 3, 4, 7, 6, 7, 8, 9]
    y = ft.arange(4.0, requires_grad=True)
    y[1::MOST].sum().backward()
    assert y.grad.tolist() == [0, 1, 0, 0]


def test_offsets_as_large_as_integers_go():
    x = ft.ones(2, 2)
    for k in (MOST, -MOST - 1):
        assert x.diagonal(k).shape == (0,)
        assert x.triu(k).sum() == (0 if k > 0 else 4) and x.tril(k).sum() == (4 if k > 0 else 0)
    assert ft.tril_indices(2, 2, MOST).shape == (2, 4) and ft.triu_indices(2, 2, MOST).shape == (2, 0)
    assert ft.arange(3).roll(MOST).tolist() == np.roll(np.arange(3), MOST % 3).tolist()
    assert ft.arange(3).roll((MOST, MOST), (0, 0)).tolist() == np.roll(np.arange(3), 2 * MOST % 3).tolist()
    assert [t.tolist() for t in ft.arange(4).split(MOST)] == [[0, 1, 2, 3]]
    assert [len(t) for t in ft.arange(4).tensor_split([MOST, -MOST - 1])] == [4, 0, 4]
    assert F.pad(ft.ones(2), (-1, MOST - 2, 0, 0)[:1] + (1,)).tolist() == [1, 0]


def test_indices_from_arrays_of_negative_strides():
    x = ft.arange(12.0).view(3, 4)
    back = ft.from_numpy(np.array([2, 1, 0])[::-1])
    assert back.stride() == (-1,) and back.storage_offset() == 2
    assert ft.gather(x, 0, back.view(3, 1)).flatten().tolist() == [0, 4, 8]
    assert x[back].tolist() == x.tolist() and x.index_select(0, back).tolist() == x.tolist()
    m = ft.from_numpy(np.arange(9.0).reshape(3, 3)[::-1, ::-1])
    assert m.trace() == 12 and ft.einsum("ij->i", m).tolist() == [21, 12, 3] and ft.einsum("ii", m) == 12
    assert m.reshape(-1).tolist() == list(range(8, -1, -1)) and m.t().contiguous()[0].tolist() == [8, 5, 2]


def test_several_indices_into_large_strides():
    # places beyond 2^31 elements, in memory that is never touched but for a few pages
    x = ft.empty(2, 2**31 + 8, dtype=ft.uint8)
    x[1, 2**31 + 7] = 3
    assert x[ft.tensor([1, 1]), ft.tensor([2**31 + 7, -1])].tolist() == [3, 3]
    x[ft.tensor([0]), ft.tensor([2**31 + 5])] = 5
    assert x[0, 2**31 + 5] == 5


# Values that kernels index with


def test_ctc_labels_and_lengths():
    log_probs = ft.zeros(4, 1, 3).log_softmax(-1).requires_grad_()
    for label in (10**9, 3, -1, MOST):
        refused(RuntimeError, "ctc_loss: .*got", F.ctc_loss, log_probs, ft.tensor([[label, 1]]), (4,), (2,))
    for lengths in [((5,), (2,)), ((4,), (3,)), ((4,), (-1,)), ((-1,), (1,)), ((4,), (MOST,))]:
        refused(RuntimeError, "ctc_loss: .*got", F.ctc_loss, log_probs, ft.tensor([[1, 1]]), *lengths)
    two = ft.zeros(4, 2, 3).log_softmax(-1)
    refused(RuntimeError, "ctc_loss: .*got", F.ctc_loss, two, ft.tensor([1, 1]), (4, 4), (MOST, MOST))
    # labels that the lengths leave out are nobody's business
    assert F.ctc_loss(log_probs, ft.tensor([[1, 10**9]]), (4,), (1,)).isfinite()


def test_pivots():
    eye, ones = ft.eye(3), ft.ones(3, 1)
    for pivot in (10**6, 4, 0, -4, -(2**31)):
        pivots = ft.full((3,), pivot, dtype=ft.int32)
        refused(RuntimeError, "ldl_solve: .*got", ft.linalg.ldl_solve, eye, pivots, ones)
        refused(RuntimeError, "got", ft.linalg.lu_solve, eye, pivots, ones)
        refused(RuntimeError, "got", ft.lu_unpack, eye, pivots)
    for pivots in ([1, 2, -3], [-1, 2, 3], [-1, -1, -1]):  # half of a block
        refused(RuntimeError, "ldl_solve: .*got", ft.linalg.ldl_solve, eye, ft.tensor(pivots, dtype=ft.int32), ones)
    a = ft.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]], dtype=ft.float64)
    factors, pivots = ft.linalg.ldl_factor(a)
    x = ft.linalg.ldl_solve(factors, pivots, a)
    assert ft.allclose(x, ft.eye(3, dtype=ft.float64))
    refused(RuntimeError, "got", ft.lu_unpack, eye, ft.ones(5, dtype=ft.int32))
    refused(RuntimeError, "got", ft.ormqr, eye, ft.ones(4), ones)
    refused(RuntimeError, "got", ft.linalg.householder_product, eye, ft.ones(4))


def test_bincount_and_histograms():
    for value in (MOST, 2**61):
        refused(RuntimeError, "got|memory|cannot get", ft.bincount, ft.tensor([value]), minlength=100000)
    refused(RuntimeError, "bincount", ft.bincount, ft.tensor([-1]))
    # ranges that overflow their dtype put everything into some bin
    assert ft.histc(ft.tensor([1.0, 2.0], dtype=ft.float64), 4, -1.7e308, 1.7e308).sum() == 2
    assert ft.histc(ft.tensor([0.0]), 4, 0, 1e-60).sum() == 1


@pytest.mark.parametrize("bad", [MOST, -MOST - 1, 10**9, -(10**9), 3, -4])
def test_indices_out_of_range(bad):
    x, i = ft.zeros(3, 3), ft.tensor([bad])
    error = (IndexError, RuntimeError)
    j = i.view(1, 1)
    for call in [
        lambda: x[i],
        lambda: x[i, i],
        lambda: x[ft.tensor([0]), i],
        lambda: x.index_put_((i,), ft.zeros(())),
        lambda: x.index_put_((i, i), ft.zeros(()), accumulate=True),
        lambda: x.gather(0, j),
        lambda: x.scatter(0, j, 1.0),
        lambda: x.scatter_add(0, j, ft.ones(1, 1)),
        lambda: x.scatter_reduce(0, j, ft.ones(1, 1), "amax"),
        lambda: x.index_select(0, i),
        lambda: x.index_add(0, i, ft.ones(1, 3)),
        lambda: x.index_copy(0, i, ft.ones(1, 3)),
        lambda: x.index_fill(0, i, 1.0),
        lambda: x.index_reduce(0, i, ft.ones(1, 3), "prod"),
        lambda: ft.take_along_dim(x, j, 0),
        lambda: F.embedding(i, x),
        lambda: F.embedding_bag(i, x, ft.tensor([0])),
        lambda: F.embedding_bag(ft.tensor([0]), x, ft.tensor([0, bad])),
        lambda: F.nll_loss(x, ft.tensor([0, bad, 0])),
        lambda: F.cross_entropy(x, ft.tensor([0, bad, 0])),
        lambda: F.multi_margin_loss(x, ft.tensor([0, bad, 0])),
        lambda: ft.searchsorted(ft.ones(3), ft.ones(1), sorter=ft.tensor([0, 1, bad])),
        lambda: F.max_unpool1d(ft.ones(1, 1, 1), j.view(1, 1, 1), 3),
        lambda: ft.segment_reduce(ft.ones(3), "sum", lengths=ft.tensor([bad, 0]) if bad != 3 else ft.tensor([4])),
        lambda: ft.segment_reduce(ft.ones(3), "sum", offsets=ft.tensor([0, min(bad, -1)])),
    ]:
        with pytest.raises((*error, ValueError)):
            call()
    nine = ft.tensor([bad if abs(bad) > 4 else bad * 3])
    refused(error, "got", x.take, nine)
    refused(error, "got", x.put_, nine, ft.zeros(1))
    assert F.multilabel_margin_loss(x[:1], ft.tensor([[0, -1, 0]])).isfinite()
    refused(error, "got", F.multilabel_margin_loss, x[:1], ft.tensor([[bad, -1, 0]]))


# Pooling


def test_pooling_windows_outside_of_the_image():
    x = ft.tensor([[[1.0, 2.0], [30.0, 40.0]]])
    refused(RuntimeError, "max_pool1d: padding", F.max_pool1d, x, 2, 1, 3, 5)
    assert F.max_pool1d(x, 2, 1, 1, 3).tolist() == [[[-np.inf], [-np.inf]]]
    last = x.unsqueeze(0).contiguous(memory_format=ft.channels_last)
    for image in (x.unsqueeze(0), last):
        image = image.clone().requires_grad_()
        values, where = F.max_pool2d(image, (1, 2), 1, (0, 1), (1, 3), return_indices=True)
        assert values.flatten().tolist() == [-np.inf, -np.inf] and where.flatten().tolist() == [-1, -1]
        values.sum().backward()
        assert image.grad.abs().sum() == 0
    assert F.max_pool1d(ft.arange(40.0).view(1, 1, 40), 2, 1, 1, 39).tolist() == [[[38.0, 39.0, 1.0]]]


def test_pooling_tells_memory_formats_of_small_images_by_both_tensors():
    x = ft.arange(2.0 * 3 * 4 * 4).view(2, 3, 4, 4)
    y = F.adaptive_avg_pool2d(x.contiguous(memory_format=ft.channels_last), 1)
    want = F.adaptive_avg_pool2d(F.adaptive_avg_pool2d(x, 1).contiguous(), 2)
    assert F.adaptive_avg_pool2d(y, 2).equal(want)
    assert F.adaptive_max_pool2d(y, 2).equal(want) and F.avg_pool2d(y, 1).equal(want[..., :1, :1])
    z = y.detach().requires_grad_()
    (F.adaptive_avg_pool2d(z, 2) * want).sum().backward()
    assert ft.allclose(z.grad.flatten(), 4 * want[..., 0, 0].flatten())


# Numbers


def test_numbers_that_a_dtype_has_not():
    for value, dtype in [(2.0**63, "int64"), (2**63, "int64"), (-1.0, "uint64"), (2.0**64, "uint64"), (256, "uint8")]:
        refused(RuntimeError, "the number must have a value in", ft.full, (1,), value, dtype=getattr(ft, dtype))
    assert ft.full((1,), -(2.0**63), dtype=ft.int64).item() == -(2**63)
    assert ft.full((1,), 1.5 * 2.0**63, dtype=ft.uint64).item() == 3 * 2**62
    assert ft.full((1,), 2.0**63, dtype=ft.uint64).item() == 2**63
    assert ft.full((1,), MOST, dtype=ft.int64).item() == MOST
    assert ft.full((2,), -1, dtype=ft.uint64)[0].item() == 2**64 - 1


def test_complex_numbers_beside_real_tensors():
    one = ft.ones(2)
    for call in [
        lambda: ft.add(one, one, alpha=1j),
        lambda: one.add_(one, alpha=1j),
        lambda: ft.sub(one, one, alpha=1j),
        lambda: ft.add(one.view(2, 1), one, alpha=1j),
        lambda: ft.add(ft.ones(100), ft.ones(100), alpha=1j),
        lambda: ft.add(one, 1, alpha=1j),
        lambda: ft.add(one.double(), one.double(), alpha=1j),
        lambda: ft.add(one.long(), one.long(), alpha=1j),
        lambda: ft.rsub(one, one, alpha=1j),
        lambda: ft.addcmul(one, one, one, value=1j),
        lambda: ft.addcdiv(one, one, one, value=1j),
        lambda: ft.clamp(one, 1j),
        lambda: F.leaky_relu(one, 1j),
        lambda: F.elu(one, 1j),
        lambda: ft.addmm(ft.ones(2, 2), ft.ones(2, 2), ft.ones(2, 2), alpha=1j),
        lambda: ft.addmv(one, ft.ones(2, 2), one, beta=1j),
        lambda: ft.zeros(2).index_add_(0, ft.tensor([0]), ft.ones(1), alpha=1j),
    ]:
        with pytest.raises((RuntimeError, TypeError)):
            call()
    assert ft.add(one.to(ft.complex64), one, alpha=1j).tolist() == [1 + 1j, 1 + 1j]


def test_data_keeps_a_lazy_conjugation():
    x, y = ft.zeros(2, dtype=ft.complex64), ft.tensor([1 + 2j, 3j])
    x.data = y.conj()
    assert x.is_conj() and x.tolist() == [1 - 2j, -3j]
    x.data = y
    assert not x.is_conj() and x.tolist() == [1 + 2j, 3j]


# Loops


@contextlib.contextmanager
def interrupted():
    """Ctrl-C after a while, from another process: an op may hold the interpreter lock."""
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -INT {os.getpid()}"])
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
            killer.wait()
    finally:
        killer.wait()


@pytest.mark.parametrize(
    "work",
    [
        lambda: ft.zeros(1).expand(2**38).sum(),
        lambda: ft.zeros(1).expand(2**19, 2**19).max(),
        lambda: ft.zeros(1, dtype=ft.float16).expand(2**38).mean(),
        lambda: ft.zeros(1).expand(2**38).any(),
        lambda: ft.zeros(1).as_strided((2**38,), (0,)).norm(3.0),
        lambda: ft.zeros(2**20).as_strided((2**19, 2**19), (1, 1)).add_(1),
        lambda: ft.arange(2**17).diff(n=2**17),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_long_loops_stop_at_ctrl_c(work, threads):
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    before = ft.get_num_threads()
    ft.set_num_threads(threads)
    try:
        with interrupted():
            work()
    finally:
        ft.set_num_threads(before)
    assert ft.ones(3).sum() == 3


def test_differences_of_nothing_end():
    assert ft.diff(ft.zeros(3), n=MOST).shape == (0,) and ft.diff(ft.tensor([True, False]), n=MOST).shape == (0,)
    assert ft.diff(ft.zeros(2, 3), n=MOST, dim=0).shape == (0, 3)
    refused(RuntimeError, "diff", ft.diff, ft.zeros(3), n=-1)


@pytest.mark.parametrize("name", ["laguerre_polynomial_l", "legendre_polynomial_p", "chebyshev_polynomial_t",
                                  "shifted_chebyshev_polynomial_w"])  # fmt: skip
def test_polynomials_of_degrees_that_take_for_ever(name):
    f, x = getattr(ft.special, name), ft.tensor([0.5, 1.0000001], dtype=ft.float64)
    refused(RuntimeError, f"{name}: .*got", f, x, BIG)
    refused(RuntimeError, f"{name}: .*got", f, x, ft.tensor([2.0, 2.0**62], dtype=ft.float64))
    refused(RuntimeError, f"{name}: .*got", f, x, ft.tensor([float("nan"), 2.0**62], dtype=ft.float64))
    refused(RuntimeError, f"{name}: .*got", f, 0.5, ft.tensor(2.0**62))
    assert f(x, 3).shape == (2,) and f(x, ft.tensor([3.0, 4.0], dtype=ft.float64)).isfinite().all()
    never = ft.tensor([float("inf"), -float("inf"), float("nan")], dtype=ft.float64)  # no number of steps
    assert f(ft.ones(3, dtype=ft.float64), never).tolist() == [0, 0, 0] and f(x, float("inf")).tolist() == [0, 0]


# Private ops, which derivatives are made of and a program can reach: what does not fit together is refused, not read.

ONES, INT = ft.ones, ft.zeros(300, dtype=ft.int64)
MISFITS = {
    "softmax of another shape": lambda ops: ops._softmax_backward(ONES(300), ONES(3), 0),
    "softmax of another dtype": lambda ops: ops._log_softmax_backward(ONES(3), ONES(3).half(), 0),
    "rows that do not divide": lambda ops: ops._row_norm(ONES(300), None, None, 7, 1, 1, 0.1, True),
    "rows of none": lambda ops: ops._row_norm(ONES(300), None, None, 0, 1, 300, 0.1, True),
    "a short weight": lambda ops: ops._row_norm(ONES(300), ONES(3), None, 1, 1, 300, 0.1, True),
    "channels beyond": lambda ops: ops._row_norm(ONES(300), None, None, 2, BIG, BIG, 0.1, True),
    "a short gradient of rows": lambda ops: ops._row_norm_backward(ONES(3), ONES(300), None, ONES(1), ONES(1), 1, 300, True, True, True, True),
    "few means of rows": lambda ops: ops._row_norm_backward(ONES(300), ONES(300), None, ONES(1), ONES(100), 1, 3, True, True, True, True),
    "no groups": lambda ops: ops._row_norm_backward(ONES(300), ONES(300), None, ONES(1), ONES(1), 0, 300, True, True, True, True),
    "no statistics": lambda ops: ops._channel_norm(ONES(2, 3), None, None, None, None, False, 0.1, 0.1),
    "no channels": lambda ops: ops._channel_norm(ONES(3), None, None, None, None, True, 0.1, 0.1),
    "few statistics": lambda ops: ops._channel_norm(ONES(2, 300), None, None, ONES(3), ONES(3), False, 0.1, 0.1),
    "a short gradient of channels": lambda ops: ops._channel_norm_backward(ONES(3), ONES(2, 300), None, ONES(300), ONES(300), True, True, True, True),
    "few means of channels": lambda ops: ops._channel_norm_backward(ONES(2, 300), ONES(2, 300), None, ONES(3), ONES(300), True, True, True, True),
    "few classes": lambda ops: ops._nll(ONES(2, 3, 40), INT[:2].view(2, 1), None, 1, -100),
    "float classes": lambda ops: ops._nll(ONES(2, 3, 1), ONES(2, 1), None, 1, -100),
    "few weights": lambda ops: ops._cross_entropy(ONES(2, 30, 1), INT[:2].view(2, 1), ONES(3), 1, -100, 0.0),
    "sizes of no scores": lambda ops: ops._nll_backward(ONES(()), [], INT[:2].view(2, 1), None, ONES(()), 1, -100),
    "a short gradient of losses": lambda ops: ops._nll_backward(ONES(3), [300, 2, 1], INT.view(300, 1), None, ONES(()), 0, -100),
    "an unknown reduction": lambda ops: ops._nll(ONES(2, 3, 1), INT[:2].view(2, 1), None, 7, -100),
    "few sums": lambda ops: ops._cross_entropy_backward(
        ONES(()), ONES(300, 2, 1), INT.view(300, 1), None, ONES(()), ONES(3), 1, -100, 0.0
    ),
    "a grid of another size": lambda ops: ops.grid_sampler_input_gradient(ONES(1, 2, 30, 30), ONES(1, 3, 3, 2), [1, 2, 4, 4], 0, 0, False),
    "more channels than the input": lambda ops: ops.grid_sampler_grid_gradient(ONES(1, 90, 3, 3), ONES(1, 2, 4, 4), ONES(1, 3, 3, 2), 0, 0, False),
    "no scales": lambda ops: ops.resample_transpose(ONES(1, 1, 6), [3], "linear", True, [], False),
    "a convolution's gradient of another size": lambda ops: ops.convolution_weight(
        ONES(1, 2, 90, 90), ONES(1, 2, 6, 6), [2, 2, 3, 3], [1, 1], [0, 0], [1, 1], 1
    ),
    "a convolution of no groups": lambda ops: ops.convolution_weight(
        ONES(1, 2, 4, 4), ONES(1, 2, 6, 6), [2, 2, 3, 3], [1, 1], [0, 0], [1, 1], 0
    ),
    "contracted numbers": lambda ops: ops._tensordot(ONES(()), ONES(()), [0], [-1]),
    "a slice that leaves": lambda ops: ops.negative_slice(ONES(3, 4), 0, 2, 4, -1),
    "a slice that begins beyond": lambda ops: ops.negative_slice(ONES(3, 4), 0, 300, 2, -1),
    "a slice with a step out of reach": lambda ops: ops.negative_slice(ONES(3, 4), 1, 3, 2, -(2**63)),
}


@pytest.mark.parametrize("name", MISFITS)
def test_private_ops_read_only_what_is_there(name):
    with pytest.raises((RuntimeError, IndexError), match=", got "):
        MISFITS[name](ft._C._ops)


@pytest.mark.parametrize("other", [(), (1,), (3,)])
def test_numbers_have_no_dimensions_to_contract(other):
    refused(IndexError, "tensordot: tensors with dimensions", ft.tensordot, ft.ones(()), ft.ones(other), dims=([0], [0]))
    assert ft.tensordot(ft.ones(()), ft.ones(other), dims=0).shape == other


def test_fills_of_elements_in_one_place_take_no_time():
    for fill in (lambda x: x.index_fill_(0, ft.tensor([0]), 1), lambda x: x.masked_fill_(ft.tensor([True]), 1)):
        x = ft.zeros(1).expand(BIG)
        with pytest.warns(UserWarning, match="same place in memory"):
            fill(x)
        assert x[7] == 1
